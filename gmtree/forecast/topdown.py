"""Top-down and middle-out: forecasts of one level, divided among the leaves below."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gmtree import _validate as check
from gmtree.forecast.methods import Method
from gmtree.forecast.structure import Structure

# Methods that divide a forecast among the leaves, with hierarchicalforecast's names.
HISTORICAL = ("average_proportions", "proportion_averages")
PROPORTIONS = ("forecast_proportions", *HISTORICAL)


def divided_series(structure: Structure, level: Any) -> np.ndarray:
    """Return the series to divide: those of a level, or all that are not part of another series."""
    if level is not None:
        tops = structure._find("middle_level", [level])
    else:
        tree = structure.tree
        if tree is None:
            check.fail("S_df", "must be a tree (strictly hierarchical) for top-down methods. For "
                       "groups, divide a level that has each leaf once: give its name as "
                       "'middle_level'.")  # fmt: skip
        above = tree.parent[: structure.n]
        tops = np.flatnonzero((above < 0) | (above == structure.n))
    count = np.bincount(structure.matrix[tops].indices, minlength=structure.n_leaves)
    if (count != 1).any():
        k = int(np.argmax(count != 1))
        check.fail("middle_level", "must have each leaf in one of its series; "
                   f"{structure.name(int(structure.leaf[k]))} is in {count[k]}.")  # fmt: skip
    return tops


class HistoricalParts(Method):
    """Divides a series among its leaves in the proportions of the past.

    Parameters
    ----------
    structure : Structure
    tops : array of int
        Series that are divided. Each leaf is in exactly one of them.
    history : array of shape (n, periods)
        Past values, NaN if missing.
    how : {"average_proportions", "proportion_averages"}
        Average of the proportions of all periods, or proportion of the averages.
    """

    def __init__(
        self, structure: Structure, tops: np.ndarray, history: np.ndarray, how: str
    ) -> None:
        self._structure, self._tops = structure, tops
        of = sparse.csr_array(structure.matrix[tops].T)
        leaves, whole = history[structure.leaf], history[tops[of.indices]]
        with np.errstate(divide="ignore", invalid="ignore"):
            if how == "average_proportions":
                parts = _mean(leaves / whole)
            else:
                parts = _mean(leaves) / _mean(whole)
        if not np.isfinite(parts).all():
            k = int(structure.leaf[np.argmax(~np.isfinite(parts))])
            check.fail("Y_df", "must have past values of each leaf and of the series it is divided "
                       f"from, which must not be 0; the part of {structure.name(k)} is not "
                       "defined.")  # fmt: skip
        self._coefficients = structure.matrix @ (of * parts[:, None])

    def project(self, y: np.ndarray) -> np.ndarray:
        """Return the sums of the parts."""
        return self._coefficients @ _forecasts(self._structure, self._tops, y)

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Return the variances that come from the divided series."""
        return self._coefficients.power(2) @ noise[self._tops]


class ForecastParts(Method):
    """Divides each series among its children in proportion to their forecasts.

    Parameters
    ----------
    structure : Structure
        A tree.
    tops : array of int
        Series that are divided.
    """

    is_linear = False

    def __init__(self, structure: Structure, tops: np.ndarray) -> None:
        tree = structure.tree
        if tree is None:
            check.fail("S_df", "must be a tree for the method 'forecast_proportions'.")
        self._structure = structure
        is_divided = np.zeros(tree.n, bool)
        is_divided[tops] = True
        # Series below the divided ones, by depth.
        self._below = []
        for depth in range(2, tree.height + 1):
            nodes = np.flatnonzero(tree.depth == depth)
            nodes = nodes[is_divided[tree.parent[nodes]] & ~is_divided[nodes]]
            is_divided[nodes] = True
            self._below.append((nodes, tree.parent[nodes]))
        self._used = np.flatnonzero(is_divided)

    def project(self, y: np.ndarray) -> np.ndarray:
        """Return the parts and their sums; children whose forecasts add up to 0 share equally."""
        _forecasts(self._structure, self._used, y)
        x = y.copy()
        for nodes, parents in self._below:
            _, family = np.unique(parents, return_inverse=True)
            size = np.bincount(family)[family, None]
            total = np.stack([np.bincount(family, column) for column in y[nodes].T], axis=1)[family]
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(total == 0, 1 / size, y[nodes] / total)
            x[nodes] = part * x[parents]
        return self._structure.aggregate(np.ascontiguousarray(x[self._structure.leaf]))

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Refuse: the values are not linear in the forecasts."""
        check.fail("level", "must be None for 'forecast_proportions'; 'average_proportions' and "
                   "'proportion_averages' have intervals.")  # fmt: skip


def _mean(x: np.ndarray) -> np.ndarray:
    """Return the mean of each row without missing values, NaN if all are missing."""
    known = np.isfinite(x)
    count = known.sum(axis=1)
    return np.where(known, x, 0).sum(axis=1) / np.where(count, count, np.nan)


def _forecasts(structure: Structure, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the forecasts of some series, and refuse missing ones."""
    missing = np.isnan(y[rows]).any(axis=1)
    if missing.any():
        name = structure.name(int(rows[np.argmax(missing)]))
        check.fail("Y_hat_df", f"must have a forecast of each series that a top-down method uses; "
                   f"{name} has none.")  # fmt: skip
    return y[rows]
