"""The data set NYCTaxi: taxi rides in New York in 2013, by the second at which they began."""

from __future__ import annotations

import re

import numpy as np

from gmtree import _validate as check
from gmtree import shapes
from gmtree.datasets import files
from gmtree.datasets.dataset import Dataset, RandomSource, share_out

YEAR = 2013
DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
SECONDS_PER_DAY = 86_400

RIDES = 86_687_775

FANOUTS = (2, 3, 4, 5)
SHARES = (0.4, 0.3, 0.2, 0.1)


def nyctaxi(
    path: files.Paths | None = None, months: int = 12, *, rng: RandomSource = 2013
) -> Dataset:
    """The counts of taxi rides in New York in 2013, by the second at which they began.

    The leaves are the 31,536,000 seconds of the year. Above them, consecutive nodes are grouped at
    random into families of 2, 3, 4 or 5 nodes, with probabilities of 40, 30, 20 and 10 %.

    Parameters
    ----------
    path : path or list of paths, optional
        Trip records of 2013 (``trip_data_1.csv`` to ``trip_data_12.csv``), plain or zipped, or
        folders of them. Rides of the vendor CMT are counted by `pickup_datetime`. By default a
        look-alike is generated.
    months : int
        Number of months to use, counted from January; 12 by default. Rides of later months are left
        out.
    rng : numpy Generator or seed, optional
        Source of randomness for the grouping and for the counts of the look-alike, which by default
        are the same in every call.

    Notes
    -----
    The look-alike has 86,687,775 rides per year. The counts are Poisson variables, corrected at
    random seconds to give this total. Their rate is the product of a factor for the day of the week
    and a factor for the time of day, which is linear between full hours. A look-alike of fewer
    months is the beginning of the look-alike of the whole year.

    Examples
    --------
    >>> import gmtree as gm
    >>> data = gm.datasets.nyctaxi(months=1)
    >>> data.description
    'look-alike, not taxi data; 1 month'
    >>> data.counts.size
    2678400
    """
    months = check.count("months", months, least=1)
    if months > 12:
        check.fail("months", f"must be at most 12, not {months}.")
    generator = check.generator("rng", rng)
    if path is None:
        counts = _look_alike(months, generator)
        description = "look-alike, not taxi data"
    else:
        counts, read = _read_rides(path, months)
        description = f"2013 trip records, vendor CMT, {read} file{'s' * (read > 1)}"
    if months < 12:
        description += f"; {months} month{'s' * (months > 1)}"
    tree = shapes.grouped(counts.size, FANOUTS, SHARES, generator)
    return Dataset(tree, counts, "nyctaxi", path is not None, description, "rides")


# --------------------------------------------------------------------------- real files

VENDOR = b"CMT"
COMMA, HYPHEN, COLON = b",-:"

# 'YYYY-MM-DD hh:mm:ss'
TIME_LENGTH = 19
MARKS = {4: HYPHEN, 7: HYPHEN, 10: files.SPACE, 13: COLON, 16: COLON}


def _month_of_file(name: str) -> int | None:
    found = re.fullmatch(r"trip_data_(\d+)\.csv", name.lower())
    return int(found[1]) if found else None


def _read_rides(path: files.Paths, months: int) -> tuple[np.ndarray, int]:
    """Number of rides in each second of the first months, and the number of files read."""
    sources = files.find(
        path, lambda name: _month_of_file(name) is not None, "trip records such as trip_data_1.csv"
    )
    # The month is part of the file name. A file with another name is always read.
    sources = [source for source in sources if (_month_of_file(source.name) or 1) <= months]
    named = [_month_of_file(source.name) for source in sources]
    missing = [month for month in range(1, months + 1) if month not in named]
    if missing and None not in named:
        check.fail(
            "path",
            f"must have all of the first {months} months; there is no trip_data_{missing[0]}.csv.",
        )
    counts = np.zeros(sum(DAYS[:months]) * SECONDS_PER_DAY, dtype=np.int64)
    header: tuple[int, int] | None = None
    for source, lines in files.read_lines(sources):
        first = 0
        if lines.first == 1:
            header = _header(source, lines)
            first = 1
        assert header is not None
        second = _seconds(source, lines, first, *header)
        second, rides = np.unique(second[second < counts.size], return_counts=True)
        counts[second] += rides
    return counts, len(sources)


def _header(source: files.Source, lines: files.Lines) -> tuple[int, int]:
    """Numbers of the columns of the vendor and of the pickup time."""
    text = lines.text[: lines.stop[0]].tobytes().decode("latin-1")
    names = [name.strip() for name in text.lstrip("\xef\xbb\xbf").split(",")]
    try:
        return names.index("vendor_id"), names.index("pickup_datetime")
    except ValueError:
        check.fail(
            "path",
            "must hold trip records with columns 'vendor_id' and 'pickup_datetime'; "
            f"{source} begins with {text[:60]!r}.",
        )


def _seconds(
    source: files.Source, lines: files.Lines, first: int, vendor: int, pickup: int
) -> np.ndarray:
    """Time of each pickup by the vendor, in seconds since the beginning of the year."""
    rows = first + np.flatnonzero(lines.stop[first:] > lines.start[first:])
    # Fields begin after commas, and all lines must have equally many commas.
    commas = np.flatnonzero(lines.text == COMMA)
    before = np.searchsorted(commas, lines.start[rows])
    last = before + max(vendor + 1, pickup) - 1
    whole = last < commas.size
    whole[whole] = commas[last[whole]] < lines.stop[rows[whole]]
    _insist(whole, source, lines, rows, "the columns that the first line names")

    begin = lines.start[rows] if vendor == 0 else commas[before + vendor - 1] + 1
    is_ours = commas[before + vendor] - begin == len(VENDOR)
    rows, before, begin = rows[is_ours], before[is_ours], begin[is_ours]
    name = lines.text[begin[:, None] + np.arange(len(VENDOR))]
    is_ours = (name == np.frombuffer(VENDOR, dtype=np.uint8)).all(axis=1)
    rows, before = rows[is_ours], before[is_ours]

    begin = lines.start[rows] if pickup == 0 else commas[before + pickup - 1] + 1
    whole = begin + TIME_LENGTH <= lines.stop[rows]
    if whole.all():
        text = lines.text[begin[:, None] + np.arange(TIME_LENGTH)]
        second, whole = _second_of_year(text)
    _insist(whole, source, lines, rows, f"a time of {YEAR} such as '{YEAR}-01-31 23:59:59'")
    return second


def _second_of_year(text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since the beginning of the year, and whether each row is a time of this year."""
    good = np.ones(len(text), dtype=bool)
    for place, mark in MARKS.items():
        good &= text[:, place] == mark
    part = []
    for place, width in ((0, 4), (5, 2), (8, 2), (11, 2), (14, 2), (17, 2)):
        number, digits = files.to_numbers(text[:, place : place + width])
        good &= digits
        part.append(number)
    year, month, day, hour, minute, second = part
    good &= (year == YEAR) & (month >= 1) & (month <= 12)
    month = np.where(good, month - 1, 0)
    good &= (day >= 1) & (day <= np.array(DAYS)[month])
    good &= (hour < 24) & (minute < 60) & (second < 60)
    days = np.cumsum((0, *DAYS[:-1]))[month] + day - 1
    return days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second, good


def _insist(
    good: np.ndarray, source: files.Source, lines: files.Lines, rows: np.ndarray, what: str
) -> None:
    if not good.all():
        bad = lines.first + rows[np.argmin(good)]
        check.fail("path", f"must hold {what} in each line; line {bad} of {source} does not.")


# --------------------------------------------------------------------------- look-alike

# Factors for Monday to Sunday, and for each hour of the day. There are most rides on Saturdays and
# in the evening, and fewest before dawn.
WEEK = (0.91, 0.97, 1.0, 1.03, 1.08, 1.1, 0.91)
MORNING = (1.0, 0.75, 0.55, 0.4, 0.3, 0.25, 0.5, 0.9, 1.15, 1.15, 1.1, 1.1)
AFTERNOON = (1.15, 1.15, 1.2, 1.15, 1.0, 1.2, 1.45, 1.5, 1.4, 1.35, 1.3, 1.2)
FIRST_WEEKDAY = 1  # 1 January 2013 was a Tuesday.


def _look_alike(months: int, rng: np.random.Generator) -> np.ndarray:
    hour = np.arange(SECONDS_PER_DAY) / 3600
    rhythm = np.interp(hour, np.arange(25), (*MORNING, *AFTERNOON, MORNING[0]))
    week = np.array(WEEK)[(np.arange(sum(DAYS)) + FIRST_WEEKDAY) % 7]
    rides_by_day = share_out(RIDES, week)
    counts = np.empty((sum(DAYS[:months]), SECONDS_PER_DAY), dtype=np.int64)
    rhythm /= rhythm.sum()
    for today, rides in zip(counts, rides_by_day, strict=False):
        today[:] = rng.poisson(rides * rhythm)
        _correct(today, int(rides), rng)
    return counts.reshape(-1)


def _correct(counts: np.ndarray, total: int, rng: np.random.Generator) -> None:
    """Add or remove rides at random seconds until the counts add up to the total."""
    excess = int(counts.sum()) - total
    if excess < 0:
        np.add.at(counts, rng.integers(counts.size, size=-excess), 1)
    else:
        counts[rng.choice(np.flatnonzero(counts), size=excess, replace=False)] -= 1
