"""Frequencies: periods within periods, and variances by series and frequency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.panel import require_columns
from gmtree.forecast.rows import Level, rows_of_levels
from gmtree.forecast.structure import Structure
from gmtree.forecast.variances import residual_variance
from gmtree.labels.columns import Codes, column_names, encode, take_column
from gmtree.labels.measurements import numbers

# Longer than any series; the names of more would not fit into memory.
MOST_PERIODS = 10**8


def temporal_structure(spec: Mapping[str, int], periods: int) -> Structure:
    """Periods within periods: which months a quarter is made of, counted from the first one.

    Parameters
    ----------
    spec : dict
        For each frequency how many of the shortest periods one of its own has:
        ``{"year": 12, "quarter": 3, "month": 1}``.
    periods : int
        Number of the shortest periods. A longer one at the end that they do not fill has fewer.

    Returns
    -------
    Structure
        With names as hierarchicalforecast's `aggregate_temporal` has them: ``"quarter-1"``.

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
    return Structure._of_rows(rows_of_levels(levels))


def _lengths(argument: str, spec: Any) -> dict[str, int]:
    """How many of the shortest periods each frequency has."""
    if not isinstance(spec, Mapping) or not spec:
        check.fail_type(argument, f"must be a dict of numbers of periods, not {spec!r}.")
    length = {
        str(name): check.count(f"{argument}[{name!r}]", k, least=1) for name, k in spec.items()
    }
    if 1 not in length.values():
        check.fail(argument, "must have a frequency of one period, the shortest.")
    if len(set(length.values())) < len(length):
        check.fail(argument, f"must have different numbers of periods, not {length}.")
    return length


def _extremes(length: dict[str, int]) -> tuple[str, str]:
    """The shortest and the longest frequency."""
    names = sorted(length, key=lambda name: length[name])
    return names[0], names[-1]


def is_spec(x: Any) -> bool:
    """Whether it tells frequencies by their lengths, as :func:`temporal_structure` takes them."""
    return (
        isinstance(x, Mapping)
        and bool(x)
        and all(isinstance(name, str) for name in x)
        and all(isinstance(k, (int, np.integer)) for k in x.values())
    )


def structure_of_periods(argument: str, spec: Any, column: str, codes: Codes) -> Structure:
    """Whole periods of the longest frequency, as many as the named periods reach into.

    The largest number of any frequency counts, not how many names there are: a year of which a
    quarter is never named has four of them all the same.
    """
    length = _lengths(argument, spec)
    last = _last_numbers(length, codes)
    shortest, longest = _extremes(length)
    if shortest not in last:
        check.fail(column, f"must have periods named '{shortest}-1' and so on, the shortest of "
                   f"{argument!r}.")  # fmt: skip
    _refuse_turned_round(argument, column, last, shortest)
    _refuse_fractions(argument, length, longest)
    end = max(number * length[name] for name, number in last.items())
    count = -(-end // length[longest]) * length[longest]
    if count > MOST_PERIODS:
        check.fail(column, f"must name at most {MOST_PERIODS} periods, not {count}.")
    _refuse_open_end(argument, column, length, last, count)
    return temporal_structure(spec, count)


def _last_numbers(length: Mapping[str, int], codes: Codes) -> dict[str, int]:
    """The largest number of each frequency among the named periods."""
    last: dict[str, int] = {}
    if codes.categories is None:
        return last
    for label in codes.categories[np.unique(codes.codes[codes.codes >= 0])].tolist():
        name, _, number = str(label).rpartition("-")
        if name in length and number.isdecimal():
            last[name] = max(last.get(name, 0), int(number))
    return last


def _refuse_turned_round(argument: str, column: str, last: dict[str, int], shortest: str) -> None:
    """Refuse a dict by which a longer frequency has more periods than the shortest."""
    most = max(last, key=lambda name: last[name])
    if last[most] > last[shortest]:
        check.fail(argument, "must tell how many of the shortest periods each period has, as "
                   f"{{'year': 12, 'month': 1}} does; it makes {shortest!r} the shortest, but the "
                   f"column {column!r} goes to '{shortest}-{last[shortest]}' and to "
                   f"'{most}-{last[most]}'. Is the dict turned round?")  # fmt: skip


def _refuse_fractions(argument: str, length: dict[str, int], longest: str) -> None:
    """Refuse frequencies whose periods do not fill one of the longest."""
    for name, k in length.items():
        if length[longest] % k:
            check.fail(argument, "must have numbers of periods that divide the largest, "
                       f"{length[longest]} of {longest!r}; {name!r} has {k}. If periods do not "
                       "nest, give temporal_structure(spec, periods).")  # fmt: skip


def _refuse_open_end(
    argument: str, column: str, length: dict[str, int], last: dict[str, int], count: int
) -> None:
    """Refuse a dict by which the last two of the shortest periods, or more, have no name.

    They are parts of the same longer ones, so that nothing would tell them apart.
    """
    shortest, longest = _extremes(length)
    there = last[shortest]
    if there >= count - 1:
        return
    ends = {name: number * length[name] for name, number in last.items()}
    name = max(ends, key=lambda name: ends[name])
    if ends[name] <= there + 1:
        # What is named fits together; only the last of the longest periods is not whole.
        name, ends = longest, {longest: count}
    number = ends[name] // length[name]
    check.fail(argument, f"must tell how many {shortest!r} each period has; by it "
               f"'{name}-{number}' ends with '{shortest}-{ends[name]}', but the last in the column "
               f"{column!r} is '{shortest}-{there}'. If the last periods are not whole, give "
               "temporal_structure(spec, periods).")  # fmt: skip


def frequencies(structure: Structure) -> tuple[list[str], np.ndarray]:
    """Names of the frequencies, and the number of that of each period."""
    names = list(structure.levels)
    of_period = np.full(structure.n, -1, np.int64)
    for k, rows in enumerate(structure.levels.values()):
        of_period[rows] = k
    if (of_period < 0).any():
        period = structure.name(int(np.argmax(of_period < 0)))
        check.fail("tags", f"must tell the frequency of each period; {period} has none.")
    return names, of_period


class FrequencyPast:
    """Residuals of series at several frequencies: a row for each series and past period.

    The frequency of a row stands in its column ``frequency``, if there is one, or before the last
    dash of its period: ``quarter`` in ``quarter-17``.
    """

    def __init__(
        self,
        frame: Any,
        series: Callable[[Codes], np.ndarray],
        n_series: int,
        periods: Structure,
        columns: tuple[str, str, str],
        transpose: bool = False,
    ) -> None:
        id_col, id_time_col, self._target = columns
        self._frame, self._n, self._transpose = frame, n_series, transpose
        self._names, self._of_period = frequencies(periods)
        by_name = "frequency" in column_names(frame)
        require_columns("Y_df", frame, id_col=id_col)
        if not by_name:
            require_columns("Y_df", frame, id_time_col=id_time_col)
        self._series = series(encode(id_col, take_column("Y_df", frame, id_col)))
        column = "frequency" if by_name else id_time_col
        codes = encode(column, take_column("Y_df", frame, column))
        if codes.categories is None or codes.missing is not None:
            check.fail(column, "must name a frequency, or a period such as 'quarter-17', in each "
                       "row of Y_df.")  # fmt: skip
        number = {name: k for k, name in enumerate(self._names)}
        found = []
        for label in codes.categories.tolist():
            name = str(label) if by_name else str(label).rpartition("-")[0]
            found.append(number.get(name, -1))
        self._frequency = np.array(found, np.int64)[codes.codes]
        if (self._frequency < 0).any():
            row = int(np.argmax(self._frequency < 0))
            check.fail(column, f"must be of the frequencies {self._names}; row {row} of Y_df has "
                       f"{codes.label(row)!r}.")  # fmt: skip

    def by_frequency(self, model: str, definition: str) -> np.ndarray:
        """Variances of shape (series, frequencies)."""
        if model not in column_names(self._frame):
            check.fail("Y_df", f"must have a column {model!r} of fitted values.")
        require_columns("Y_df", self._frame, target_col=self._target)
        r = numbers(self._target, take_column("Y_df", self._frame, self._target))
        r = r - numbers(model, take_column("Y_df", self._frame, model))
        pair = self._series * len(self._names) + self._frequency
        # Residuals side by side, in the order of the rows.
        order = np.argsort(pair, kind="stable")
        count = np.bincount(pair, minlength=self._n * len(self._names))
        start = np.concatenate([[0], np.cumsum(count)[:-1]])
        wide = np.full((count.size, max(1, int(count.max()))), np.nan)
        wide[pair[order], np.arange(pair.size) - start[pair[order]]] = r[order]

        def name(k: int) -> str:
            series, frequency = divmod(k, len(self._names))
            return f"series {series} at frequency {self._names[frequency]!r}"

        if definition == "mean_square":
            # Frequencies have different numbers of periods: each counts its own.
            here = residual_variance(wide, definition, name)
            found = here * wide.shape[1] / np.maximum(count, 1)
        else:
            found = residual_variance(wide, definition, name)
        return found.reshape(self._n, len(self._names))

    def variance(self, model: str, definition: str) -> np.ndarray:
        """Variances of pairs of series and period: one column, or one row per period."""
        s = self.by_frequency(model, definition)[:, self._of_period]
        return np.ascontiguousarray(s.T) if self._transpose else s.reshape(-1, 1)
