"""Tables without negative cells: a splitting method on the exact solver, with a certificate.

Marginals cross, so that the exact method for single numbers (`gmtree.consistency.bounded`) does
not carry over. But a pull of the leaves' cells towards given tables is one more measurement of the
whole table at the leaves, which the exact solver takes as it is. So the alternating direction
method of multipliers runs on it: with w = z + u, where z >= 0 are the cells wanted and u <= 0 the
multipliers divided by -rho,

    x = the optimum with an additional measurement |w| = z - u of precision rho at the leaves,
    w <- relax x + (1 - relax) max(w, 0) + min(w, 0).

At each x the gradient of the objective f is ``slope = rho (|w| - x)`` at the leaves' cells. So x is
the optimum of ``f - slope' x``, which bounds f from below over all tables without negative cells,
and the result, x without its negative parts, is within a known gap of the optimum. Since f is half
the sum of squared standardised differences, ``sqrt(2 gap)`` bounds how far anything that was
measured lies from its optimum, in its own standard deviations. That is what the tolerance is about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree._kernels import tables as kernels
from gmtree._progress import Progress

# Found to need few iterations: the pull in units of the precision of a cell, where whole tables
# are measured at the leaves and where not, and how far to go beyond the solution of each step.
PULL, PULL_ALONE, RELAX = 3.0, 0.5, 1.6
# How often to look whether the pull should change, and from which imbalance on.
BALANCE_EVERY, IMBALANCE = 20, 25.0


class ConvergenceError(ValueError, ArithmeticError):
    """An iterative method did not reach its tolerance."""


@dataclass(frozen=True)
class NonnegativeInfo:
    """How the search for an optimum without negative cells went.

    Attributes
    ----------
    iterations : int
        Solves of a problem without bounds.
    at_bound : int
        Cells of leaves that are zero.
    violation : float
        Largest distance by which a cell of a leaf, or a value known exactly, misses its condition
        of optimality, in units of values.
    gap : float
        How much larger than at the optimum the objective, half the sum of squared standardised
        differences, can be.
    distance : float
        ``sqrt(2 gap)``: how far any measured value can be from its optimum, in standard deviations.
    """

    iterations: int
    at_bound: int
    violation: float
    gap: float
    state: Any = field(default=None, repr=False, compare=False)

    @property
    def distance(self) -> float:
        """How far any measured value can be from its optimum, in standard deviations."""
        return float(np.sqrt(2 * self.gap))


class Splitting:
    """The method for one problem: its tables, the pull at each leaf, and the state w.

    `tables` is a :class:`gmtree.TableConsistency`, whose module imports this one.
    """

    def __init__(self, tables: Any, ys: list[np.ndarray]) -> None:
        tree = tables.tree
        self.tables = tables
        self.cells = int(np.prod(tables.shape))
        self.leaves = tree.leaves.view(f"u{tree.leaves.dtype.itemsize}")
        self.variance = tables._known_cell_variance()[tree.leaves]
        # The table that is measured at the leaves together with the pull.
        self.target = np.zeros((tree.n, self.cells))
        whole = tables._whole_query
        if whole is None:
            self.own, self.y = np.zeros(tree.n_leaves), self.target
            self.ys = [self.target, *ys]
        else:
            self.own, self.y = tables._precision[tree.leaves, whole], ys[whole]
            np.copyto(self.target, self.y, where=tables._precision[:, whole, None] > 0)
            self.ys = [self.target if q == whole else y for q, y in enumerate(ys)]

    def run(
        self, x: np.ndarray, tolerance: float, most: int, start: NonnegativeInfo | None
    ) -> NonnegativeInfo:
        """The optimum into `x`, which holds the one without bounds."""
        tables, tree = self.tables, self.tables.tree
        if start is None:
            w, rho = x[tree.leaves], np.where(self.own > 0, PULL, PULL_ALONE) / self.variance
        else:
            w, rho = start.state[0].copy(), start.state[1]
        solver = tables._with_leaf_precision(rho)
        found, deviation = np.zeros((tree.n_leaves, 4)), np.sqrt(self.variance)
        readonly = _sweep.readonly
        with (
            _sweep.team(tables._stacked.layout, tables._threads) as run,
            Progress(most, "cells not below zero") as progress,
        ):
            every = (0, tree.n_leaves, True)
            for iteration in range(1, most + 1):
                pull = (self.leaves, self.own, rho, readonly(self.y), w, self.target)
                run(kernels.pull, pull, every, True)
                solver._solve(self.ys, x, run)
                step = (self.leaves, rho, self.variance, RELAX, readonly(x), w, found)
                run(kernels.split, step, every, True)
                primal, dual = found[:, 1:3].sum(axis=0)
                # What is left to drop is looked at only once no cell is far from its optimum.
                if np.all(found[:, 3] <= tolerance * deviation):
                    info, moved = self._finish(x, found, iteration, (w, rho))
                    if moved <= tolerance:
                        return info
                change = _balance(iteration, primal, dual)
                if change != 1:
                    rho = rho * change
                    np.divide(w, change, out=w, where=w < 0)
                    solver = tables._with_leaf_precision(rho)
                progress.advance(1)
        raise ConvergenceError(
            f"The optimum without negative cells was not found to {tolerance:.0e} standard "
            f"deviations in {most} iterations; a cell still misses its condition of optimality by "
            f"{found[:, 3].max():.3g}. Values known exactly may leave no such optimum; "
            "otherwise allow more `iterations`, or a larger `tolerance`."
        )

    def _finish(
        self, x: np.ndarray, found: np.ndarray, iteration: int, state: tuple
    ) -> tuple[NonnegativeInfo, float]:
        """Let cells held at zero be zero, in place; how that moves what was measured, at most.

        The latter is in standard deviations, of the leaves' cells where something is known exactly.
        """
        tables, tree = self.tables, self.tables.tree
        own = x[tree.leaves]
        cells = np.where(state[0] > 0, np.maximum(own, 0), 0)
        added = tree.aggregate(cells - own).reshape(tree.n, *tables.shape)
        square = moved = violation = 0.0
        for q, query in enumerate(tables._queries):
            change = tables.marginal(added, query.name).reshape(tree.n, -1)
            precision, largest = tables._precision[:, q], abs(change).max(axis=1)
            exact = np.isinf(precision)
            violation = max(violation, float(largest[exact].max(initial=0)))
            finite = np.where(exact, 0, precision)
            moved = max(moved, float((largest * np.sqrt(finite)).max()))
            square += float(finite @ (change**2).sum(axis=1))
        moved = max(moved, violation / float(np.sqrt(self.variance.mean())))
        tree.aggregate(cells, out=x)
        violation = max(violation, float(found[:, 3].max()))
        gap = float(found[:, 0].sum()) + 0.5 * square
        at_bound = int(np.count_nonzero(cells == 0))
        return NonnegativeInfo(iteration, at_bound, violation, gap, state), moved


def _balance(iteration: int, primal: float, dual: float) -> float:
    """By which factor the pull should change: stronger where the bounds lag, weaker otherwise."""
    if iteration % BALANCE_EVERY or not (primal > 0 and dual > 0):
        return 1.0
    if primal > IMBALANCE * dual:
        return 2.0
    return 0.5 if dual > IMBALANCE * primal else 1.0
