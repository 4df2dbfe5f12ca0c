"""Variances of base forecasts: from residuals, or by name of the series or level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.structure import Structure

# Added to mean squares, as hierarchicalforecast's dense MinTrace does.
JITTER = 2e-8
DEFINITIONS = ("mean_square", "variance")


class Residuals:
    """Residuals of one model.

    Parameters
    ----------
    values : array of shape (rows, periods)
        NaN if a residual is missing.
    name : function
        Name of a row in error messages.
    by_pair : function, optional
        Turns the variances of rows into those of series and steps, if rows are pairs of a series
        and a frequency. A column then has different periods in different rows, and each sum of
        squares is divided by the number of residuals of its own row.
    """

    def __init__(
        self,
        values: np.ndarray,
        name: Callable[[int], str],
        by_pair: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.values, self.name, self._by_pair = values, name, by_pair

    @property
    def is_aligned(self) -> bool:
        """Whether a column has the residuals of all series in one period."""
        return self._by_pair is None

    def variance(self, definition: str) -> np.ndarray:
        """Return the variance of each row.

        ``"mean_square"`` is the sum of squares, divided by the number of all periods, plus 2e-8, as
        in hierarchicalforecast's dense MinTrace. ``"variance"`` is the sample variance of the
        existing residuals (divided by their number minus one), as in its sparse MinTrace.
        """
        check.one_of("residual_variance", definition, DEFINITIONS)
        r, name = self.values, self.name
        count = (~np.isnan(r)).sum(axis=1)
        if (short := count < (1 if definition == "mean_square" else 2)).any():
            k = int(np.argmax(short))
            check.fail("Y_df", f"must have residuals for each series; {name(k)} has {count[k]}.")
        if np.isinf(r).any():
            k = int(np.argmax(np.isinf(r).any(axis=1)))
            check.fail("Y_df", f"must have finite values; {name(k)} does not.")
        if definition == "mean_square":
            found = np.nansum(r**2, axis=1) / r.shape[1] + JITTER
            found = found if self.is_aligned else found * r.shape[1] / count
        else:
            mean = np.nansum(r, axis=1) / count
            found = np.nansum((r - mean[:, None]) ** 2, axis=1) / (count - 1)
            if (found <= 0).any():
                k = int(np.argmax(found <= 0))
                check.fail("Y_df", f"must have residuals that vary; those of {name(k)} do not.")
        return found if self._by_pair is None else self._by_pair(found)


def with_all(residuals: np.ndarray, name: Callable[[int], str], least: int, use: str) -> np.ndarray:
    """Return the periods with residuals of all series; refuse fewer than `least`."""
    known = ~np.isnan(residuals)
    complete = residuals[:, known.all(axis=0)]
    if complete.shape[1] < least:
        count = known.sum(axis=1)
        k = int(np.argmin(count))
        check.fail("Y_df", f"must have at least {least} periods with residuals of all series for "
                   f"{use}, not {complete.shape[1]}; {name(k)} has the fewest residuals "
                   f"({count[k]}).")  # fmt: skip
    return complete


class Past:
    """Past values, and residuals of one model; either may be missing.

    The functions take no arguments and are called when their result is first needed.
    """

    def __init__(
        self,
        values: Callable[[], np.ndarray] | None = None,
        residuals: Callable[[], Residuals] | None = None,
    ) -> None:
        self._read_values, self._read_residuals = values, residuals

    @cached_property
    def values(self) -> np.ndarray | None:
        """Past values by series and period, NaN if missing."""
        return None if self._read_values is None else self._read_values()

    @cached_property
    def residuals(self) -> Residuals | None:
        """Residuals of past forecasts."""
        return None if self._read_residuals is None else self._read_residuals()


def from_mapping(
    structure: Structure, variance: Mapping[Any, Any], past: Past, definition: str
) -> np.ndarray:
    """Return the variance of each series from a dict by name of the series or of its level.

    Series that the dict does not name have the variance of their residuals.
    """
    s = np.full(structure.n, np.nan)
    for key, x in variance.items():
        infinite = isinstance(x, float) and x == np.inf
        number = np.inf if infinite else check.real(f"variance[{key!r}]", x)
        s[structure._find("variance", [key])] = number
    left = np.flatnonzero(np.isnan(s))
    if left.size and past.residuals is not None and past.residuals.is_aligned:
        rest = Residuals(past.residuals.values[left], lambda k: structure.name(int(left[k])))
        s[left] = rest.variance(definition)
    return checked(structure, s)


def checked(structure: Structure, s: np.ndarray) -> np.ndarray:
    """Refuse numbers that cannot be variances, naming the series."""
    bad = np.argwhere(~(s >= 0))
    if bad.size:
        x = s[tuple(bad[0])]
        check.fail("variance", "must give each series a variance of at least 0; "
                   f"{structure.name(int(bad[0, 0]))} has {'none' if np.isnan(x) else x}."
                   )  # fmt: skip
    return s
