"""Frequencies: periods within periods, and variances by series and frequency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.columns import require_columns, require_fitted
from gmtree.forecast.structure import Structure, structure_of
from gmtree.forecast.summing import Level, from_levels
from gmtree.forecast.variances import Past, Residuals
from gmtree.labels.codes import Codes
from gmtree.labels.columns import column_names, encode, numbers, take_column

# More periods than any series has; the names of more periods would not fit into memory.
MOST_PERIODS = 10**8


def temporal_structure(spec: Mapping[str, int], periods: int) -> Structure:
    """The structure of periods within periods, such as the months of each quarter.

    Parameters
    ----------
    spec : dict
        Length of a period of each frequency, in units of the shortest periods, such as
        ``{"year": 12, "quarter": 3, "month": 1}``.
    periods : int
        Number of the shortest periods. The last longer period may be incomplete.

    Returns
    -------
    Structure
        Periods are named as in hierarchicalforecast's `aggregate_temporal`, such as
        ``"quarter-1"``, and numbered from the first one.

    Examples
    --------
    >>> import gmtree as gm
    >>> year = gm.forecast.temporal_structure({"year": 4, "quarter": 1}, 4)
    >>> year.labels.tolist()
    ['year-1', 'quarter-1', 'quarter-2', 'quarter-3', 'quarter-4']
    """
    count = check.count("periods", periods, least=1)
    if count > MOST_PERIODS:
        check.fail("periods", f"must be at most {MOST_PERIODS}, not {periods}.")
    length = _lengths("spec", spec)
    levels = []
    for name in sorted(length, key=lambda name: -length[name]):
        of_leaf = np.arange(count) // length[name]
        labels = np.array([f"{name}-{k + 1}" for k in range(int(of_leaf[-1]) + 1)], dtype=object)
        levels.append(Level(name, labels, of_leaf))
    return Structure._from_summing(from_levels(levels))


def _lengths(argument: str, spec: Any) -> dict[str, int]:
    """Length of a period of each frequency, in units of the shortest periods."""
    if not isinstance(spec, Mapping) or not spec:
        check.fail_type(argument, f"must be a dict of numbers of periods, not {spec!r}.")
    length = {
        str(name): check.count(f"{argument}[{name!r}]", k, least=1) for name, k in spec.items()
    }
    if 1 not in length.values():
        check.fail(argument, "must have 1 as the number of periods of the shortest frequency.")
    if len(set(length.values())) < len(length):
        check.fail(argument, f"must have different numbers of periods, not {length}.")
    return length


def is_spec(x: Any) -> bool:
    """Whether `x` is a dict of frequencies with their lengths."""
    return (
        isinstance(x, Mapping)
        and bool(x)
        and all(isinstance(name, str) for name in x)
        and all(isinstance(k, (int, np.integer)) for k in x.values())
    )


def read_periods(
    argument: str, given: Any, tags: Any, spec: Any, frame: Any, column: str
) -> Structure:
    """Return the structure of the periods in a column of base forecasts.

    `given` is the argument that describes it. A dict of frequencies stands for whole periods of the
    longest frequency, as many as are needed to cover all periods in the column. The number of
    periods is the largest number in the names of a frequency. So a year has four quarters even if
    one of them is never named.
    """
    if not is_spec(given):
        return structure_of(given, tags, spec, column)
    length = _lengths(argument, given)
    last = _last_numbers(length, encode(column, take_column("Y_hat_df", frame, column)))
    shortest, longest = min(length, key=length.__getitem__), max(length, key=length.__getitem__)
    if shortest not in last:
        check.fail(column, f"must have periods named '{shortest}-1' and so on, the shortest of "
                   f"{argument!r}.")  # fmt: skip
    for name, k in length.items():
        if length[longest] % k:
            check.fail(argument, "must have numbers of periods that divide the largest, "
                       f"{length[longest]} of {longest!r}; {name!r} has {k}. If periods do not "
                       "nest, give temporal_structure(spec, periods).")  # fmt: skip
    end = max(number * length[name] for name, number in last.items())
    count = -(-end // length[longest]) * length[longest]
    if last[shortest] < count - 1:
        # At least two of the last periods have no forecasts. The forecasts of longer periods
        # contain only their sum, so their values could not be determined.
        check.fail(argument, f"must give the number of {shortest!r} in each period. According to "
                   f"it the last one is '{shortest}-{count}', but the last one in the column "
                   f"{column!r} is '{shortest}-{last[shortest]}'. If the last periods are not "
                   "whole, give temporal_structure(spec, periods).")  # fmt: skip
    return temporal_structure(given, count)


def _last_numbers(length: Mapping[str, int], codes: Codes) -> dict[str, int]:
    """For each frequency, the largest number in the names of its periods."""
    last: dict[str, int] = {}
    if codes.categories is None:
        return last
    for label in codes.categories[np.unique(codes.codes[codes.codes >= 0])].tolist():
        name, _, number = str(label).rpartition("-")
        if name in length and number.isdecimal():
            last[name] = max(last.get(name, 0), int(number))
    return last


def frequencies(structure: Structure) -> tuple[list[str], np.ndarray]:
    """Names of the frequencies, and the number of the frequency of each period."""
    names = list(structure.levels)
    of_period = np.full(structure.n, -1, np.int64)
    for k, rows in enumerate(structure.levels.values()):
        of_period[rows] = k
    if (of_period < 0).any():
        period = structure.name(int(np.argmax(of_period < 0)))
        check.fail("tags", f"must name the frequency of each period; {period} has none.")
    return names, of_period


def past_by_frequency(
    frame: Any,
    series: Callable[[Codes], np.ndarray],
    n_series: int,
    periods: Structure,
    columns: tuple[str, str, str],
    transpose: bool = False,
) -> Callable[[str], Past]:
    """Return the past of a model: residuals with a row for each pair of a series and a frequency.

    The frequency of a row of `frame` is in its column ``frequency``, if that exists, or before the
    last dash of its period (``quarter`` in ``quarter-17``). The residuals return the variances of
    all pairs of a series and a period as one column or, with `transpose`, as an array with a row
    for each period.
    """
    id_col, id_time_col, target = columns
    names, of_period = frequencies(periods)
    by_name = "frequency" in column_names(frame)
    require_columns("Y_df", frame, id_col=id_col)
    if not by_name:
        require_columns("Y_df", frame, id_time_col=id_time_col)
    node = series(encode(id_col, take_column("Y_df", frame, id_col)))
    pair = node * len(names) + _frequency_of_row(frame, id_time_col, names, by_name)
    # The residuals of each pair side by side, in the order of the rows.
    order = np.argsort(pair, kind="stable")
    count = np.bincount(pair, minlength=n_series * len(names))
    start = np.concatenate([[0], np.cumsum(count)[:-1]])
    place = pair[order], np.arange(pair.size) - start[pair[order]]

    def name(k: int) -> str:
        return f"series {k // len(names)} at frequency {names[k % len(names)]!r}"

    def by_pair(s: np.ndarray) -> np.ndarray:
        wide = s.reshape(n_series, len(names))[:, of_period]
        return np.ascontiguousarray(wide.T) if transpose else wide.reshape(-1, 1)

    def residuals(model: str) -> Residuals:
        require_fitted(frame, model)
        require_columns("Y_df", frame, target_col=target)
        y, fitted = (numbers(each, take_column("Y_df", frame, each)) for each in (target, model))
        wide = np.full((count.size, max(1, int(count.max()))), np.nan)
        wide[place] = (y - fitted)[order]
        return Residuals(wide, name, by_pair)

    return lambda model: Past(residuals=partial(residuals, model))


def _frequency_of_row(frame: Any, id_time_col: str, names: list[str], by_name: bool) -> np.ndarray:
    """Return the number of the frequency of each row."""
    column = "frequency" if by_name else id_time_col
    codes = encode(column, take_column("Y_df", frame, column))
    if codes.categories is None or codes.missing is not None:
        check.fail(column, "must name a frequency, or a period such as 'quarter-17', in each row "
                   "of Y_df.")  # fmt: skip
    number = {name: k for k, name in enumerate(names)}
    labels = map(str, codes.categories.tolist())
    found = [number.get(each if by_name else each.rpartition("-")[0], -1) for each in labels]
    frequency = np.array(found, np.int64)[codes.codes]
    if (frequency < 0).any():
        row = int(np.argmax(frequency < 0))
        check.fail(column, f"must be of the frequencies {names}; row {row} of Y_df has "
                   f"{codes.label(row)!r}.")  # fmt: skip
    return frequency
