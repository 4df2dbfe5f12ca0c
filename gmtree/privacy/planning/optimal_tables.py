"""Shares of levels and queries with the least expected error of tables.

The error of a table splits into errors of plain tree problems, one for each space of contrasts
(see :mod:`gmtree.consistency.tables`). :mod:`gmtree.privacy.planning.optimal` computes them with
derivatives. Each pair of a level and a query is one variable, whose precision counts in every space
that the query measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gmtree.consistency.tables.queries import Axes, contrast, one_cell
from gmtree.privacy.planning.optimal import Problem, flipped

# If the problem is not convex, this many of the smallest shares are set to 0 in turn, as a trial.
_TRIED = 4


@dataclass
class SpaceError:
    """One space of contrasts: how queries measure it, and how it counts in the error.

    Attributes
    ----------
    precision : array of shape (queries,)
        Precision of each query in the space if the query's cells have precision 1; 0 if the query
        does not measure the space.
    weight : array by class
        Weight of the space's variance at a node.
    is_total : bool
        Whether this is the space of the totals. Only totals can be exact.
    """

    precision: np.ndarray
    weight: np.ndarray
    is_total: bool


@dataclass
class TableProblem(Problem):
    """Find losses of levels and queries, by level first, with the least weighted error.

    Attributes
    ----------
    spaces : list of SpaceError
    widest : array of bool
        Queries that are not part of another one. If they are measured at the leaves, they determine
        all cells.
    """

    spaces: list[SpaceError]
    widest: np.ndarray

    @cached_property
    def needed(self) -> np.ndarray:
        """The widest queries at levels with leaves."""
        classes = self.classes
        leaves = np.bincount(classes.level[classes.leaf], minlength=classes.height) > 0
        return (leaves[:, None] & self.widest[None, :]).ravel() & self.usable

    def error(self, losses: np.ndarray) -> tuple[float, np.ndarray]:
        """The weighted error, and its derivatives by the logarithms of the losses."""
        variance, slope = self.variances(losses)
        shape = (self.classes.height, self.cells.size)
        with np.errstate(divide="ignore"):
            precision = np.where(losses > 0, 1 / variance, 0.0).reshape(shape)
        total, steps = 0.0, np.zeros(shape)
        never = replace(self.classes, exact=np.zeros(self.classes.size, bool))
        for space in self.spaces:
            with np.errstate(divide="ignore"):
                s = 1 / (precision @ space.precision)
            classes = self.classes if space.is_total else never
            value, gradient = classes.error(space.weight, s)
            total += value
            # Chain rule: from the variance of the space to the precision of each query in it.
            gain = np.where(np.isfinite(s), gradient * np.where(np.isfinite(s), s, 0) ** 2, 0.0)
            steps += gain[:, None] * space.precision * precision
        return total, np.where(losses > 0, steps.ravel() * slope, 0.0)

    def _best_minimum(self, usable: np.ndarray) -> tuple[float, np.ndarray]:
        """A good local minimum: the smallest shares are set to 0 while that lowers the error."""
        best, measured = self._minimise(usable), usable
        while True:
            small = [k for k in np.argsort(best[1]) if measured[k] and not self.needed[k]][:_TRIED]
            others = [flipped(measured, k) for k in small]
            tried = [(self._minimise(other), other) for other in others if other.any()]
            found, other = min(tried, key=lambda x: x[0][0], default=(best, measured))
            if not found[0] < best[0]:
                return best
            best, measured = found, other


def spaces_of(
    axes: Axes, queries: list[tuple[str, ...]], weights: list[tuple[tuple[str, ...], np.ndarray]]
) -> list[SpaceError]:
    """The spaces that the queries measure, with weights by class of each query that counts."""
    kept = [set(axes.ascending("queries", query)) for query in queries]
    found = []
    for space in axes.spaces:
        precision = [
            1 / np.prod([axes.shape[a] for a in query - space.axes]) if space.axes <= query else 0.0
            for query in kept
        ]
        if not any(precision):
            continue
        weight = np.zeros(weights[0][1].shape)
        for query, by_class in weights:
            own = axes.ascending("objective", query)
            if space.axes <= set(own):
                cell = one_cell([axes.shape[a] for a in own])
                square = np.sum(contrast(cell, [a in space.axes for a in own]) ** 2)
                weight = weight + square * by_class
        found.append(SpaceError(np.array(precision), weight, not space.axes))
    return found
