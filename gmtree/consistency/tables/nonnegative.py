"""Tables without negative cells, with a certificate.

Marginals cross, so that the exact method for single numbers (`gmtree.consistency.bounded`) does
not carry over. Small problems are solved exactly, as sparse least squares problems with an active
set (`gmtree.consistency.sparse.nonnegative`).

Large ones are solved by a splitting method. A pull of the leaves' cells towards given tables is
one more measurement of the whole table at the leaves, which the exact solver takes as it is. So
the alternating direction method of multipliers runs on it: with w = z + u, where z >= 0 are the
cells wanted and u <= 0 the multipliers divided by -rho,

    x = the optimum with an additional measurement |w| = z - u of precision rho at the leaves,
    w <- relax x + (1 - relax) max(w, 0) + min(w, 0).

At each x the gradient of the objective is ``slope = rho (|w| - x)`` at the leaves' cells. The
result is x with its negative cells, and those held at zero, set to zero. It is the exact optimum of
a slightly different problem: each measurement is moved by as much as its cells moved, and those at
the leaves are moved further until all slopes that should be zero are zero. The size of these
moves, in standard deviations, bounds the distance of the result from the optimum. If a leaf's whole
table is not measured, there is no measurement of its cells to move. Its wrong slopes then leave a
gap in the objective, and ``sqrt(2 gap)`` is added to the bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import tables as kernels
from gmtree._progress import Progress
from gmtree.consistency.sparse import (
    ContradictionError,
    ConvergenceError,
    NonnegativeInfo,
    nonnegative_optimum,
)
from gmtree.consistency.tables.problem import TableProblem
from gmtree.consistency.tables.solver import TableSolver
from gmtree.matrix import GenerationMatrix

# If the matrix of sums has at most `SMALL` entries, an active set is tried first. If it has at most
# `MEDIUM` entries, splitting is tried first, with at most `MOST_SPLITTING` iterations, and then an
# active set. Larger matrices leave only splitting.
SMALL, MEDIUM, MOST_SPLITTING = 30_000, 3_000_000, 1000
# Values that needed few iterations in experiments: the pull in units of the precision of a cell, if
# whole tables are measured at the leaves and if they are not, and the over-relaxation of each step.
PULL, PULL_ALONE, RELAX = 3.0, 0.5, 1.6
# How often to check whether the pull should change, and the imbalance that is required.
BALANCE_EVERY, IMBALANCE = 20, 25.0


class State(NamedTuple):
    """The state in which a method ended, from which it can start for similar measurements.

    Attributes
    ----------
    w : array of shape (leaves, cells)
        Zero or negative for cells that are held at zero.
    rho : array of shape (leaves,) or None
        The pull at each leaf, if the splitting method was used.
    """

    w: np.ndarray
    rho: np.ndarray | None


def nonnegative(
    solver: TableSolver,
    ys: list[np.ndarray],
    x: np.ndarray,
    tolerance: float,
    most: int,
    start: State | None,
) -> NonnegativeInfo:
    """Replace `x`, the optimum without bounds, by the optimum without negative cells."""
    problem = solver.problem
    _refuse_negative(problem, ys)
    entries = problem.cells * len(problem.queries) * int(problem.tree.depth.sum(dtype=np.int64))
    if entries > SMALL:
        try:
            steps = most if entries > MEDIUM else min(most, MOST_SPLITTING)
            return Splitting(solver, ys).run(x, tolerance, steps, start)
        except _NotReachedError as error:
            if entries > MEDIUM:
                raise
            start = error.state
    return _active_set(problem, ys, x, tolerance, most, start)


def _refuse_negative(problem: TableProblem, ys: list[np.ndarray]) -> None:
    for q, (query, y) in enumerate(zip(problem.queries, ys, strict=True)):
        bad = np.flatnonzero(np.isinf(problem.precision[:, q]) & (y < 0).any(axis=1))
        if bad.size:
            check.fail(
                "measurements",
                "must not be negative if known exactly (variance 0), with nonnegative=True; "
                f"query {query.name!r} at node {bad[0]} has {y[bad[0]].min()}.",
            )


# --------------------------------------------------------------------------- active set


def _active_set(
    problem: TableProblem,
    ys: list[np.ndarray],
    x: np.ndarray,
    tolerance: float,
    most: int,
    start: State | None,
) -> NonnegativeInfo:
    """Write the exact optimum into `x`; cells are the series, and marginals their aggregates."""
    A, variance, observed, place = series(problem, ys)
    held = None if start is None else start.w.ravel() <= 0
    try:
        values, info = nonnegative_optimum(A, variance, observed, tolerance, most, held=held)
    except ContradictionError as error:
        _refuse_not_met(problem, place, error)
    leaf = values[A.shape[0] :].reshape(problem.tree.n_leaves, problem.cells)
    with np.errstate(over="ignore"):
        problem.tree.aggregate(leaf, out=x)
    return replace(info, state=State(np.where(leaf > 0, leaf, -1.0), None))


def series(
    problem: TableProblem, ys: list[np.ndarray]
) -> tuple[Any, np.ndarray, np.ndarray, list[tuple[int, np.ndarray]]]:
    """Cells of the leaves as bottom series, and all other measured cells as their aggregates.

    Returns the sparse matrix of aggregates; the variances and the measurements of all series,
    aggregates first; and the query and the nodes of each block of aggregates.
    """
    from scipy import sparse

    tree, whole = problem.tree, problem.whole
    by_leaf = GenerationMatrix(tree).inverse()[tree.leaves].T
    rows: list[Any] = []
    variance: list[np.ndarray] = []
    y: list[np.ndarray] = []
    place: list[tuple[int, np.ndarray]] = []
    with np.errstate(divide="ignore"):
        s = 1 / problem.precision
    for q, query in enumerate(problem.queries):
        used = np.isfinite(s[:, q])
        if q == whole:
            used &= tree.child_count > 0
        nodes = np.flatnonzero(used)
        rows.append(sparse.kron(by_leaf[nodes], problem.axes.sums(query.axes), format="csr"))
        variance.append(np.repeat(s[nodes, q], ys[q].shape[1]))
        y.append(ys[q][nodes].ravel())
        place.append((q, nodes))
    cells = (tree.n_leaves, problem.cells)
    if whole is None:
        variance.append(np.full(cells, np.inf).ravel())
        y.append(np.zeros(cells).ravel())
    else:
        variance.append(np.repeat(s[tree.leaves, whole], problem.cells))
        y.append(ys[whole][tree.leaves].ravel())
    A = sparse.vstack(rows, format="csr")
    return A, np.concatenate(variance), np.concatenate(y), place


def _refuse_not_met(
    problem: TableProblem, place: list[tuple[int, np.ndarray]], error: ContradictionError
) -> None:
    """Name the query and the node of a series that cannot be met."""
    number = error.series
    for q, nodes in place:
        size = int(np.prod(problem.queries[q].lengths))
        if number < nodes.size * size:
            query, node = problem.queries[q].name, nodes[number // size]
            break
        number -= nodes.size * size
    else:
        query, node = tuple(problem.axes.names), problem.tree.leaves[number // problem.cells]
    check.fail(
        "measurements",
        "must allow cells that are not negative if nonnegative=True. The values known exactly "
        f"(variance 0) rule them out: query {query!r} at node {node} is missed by "
        f"{error.difference:.6g}.",
    )


# --------------------------------------------------------------------------- splitting


class _NotReachedError(ConvergenceError):
    """The splitting method did not reach its tolerance; it stopped at `state`."""

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state


class Splitting:
    """The method for one problem: its measurements, the pull at each leaf, and the state w."""

    def __init__(self, solver: TableSolver, ys: list[np.ndarray]) -> None:
        problem, tree = solver.problem, solver.problem.tree
        self.problem, self._layout = problem, solver.sweeps.layout
        self.leaves = tree.leaves.view(f"u{tree.leaves.dtype.itemsize}")
        self.variance = solver.known_cell_variance()[tree.leaves]
        # The table that is measured at the leaves together with the pull.
        self.target = np.zeros((tree.n, problem.cells))
        whole = problem.whole
        if whole is None:
            self.own, self.y = np.zeros(tree.n_leaves), self.target
            self.ys = [self.target, *ys]
        else:
            self.own, self.y = problem.precision[tree.leaves, whole], ys[whole]
            np.copyto(self.target, self.y, where=problem.precision[:, whole, None] > 0)
            self.ys = [self.target if q == whole else y for q, y in enumerate(ys)]
        self._mend_node, self._mend_variance = self._mending()

    def _mending(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest measured node at or above each leaf without a measured table.

        Its total can be changed to repair the slopes of the leaf. Also return, for every node, the
        variance of its total as computed from its most precise query.
        """
        problem, tree = self.problem, self.problem.tree
        size = np.array([np.prod(query.lengths) for query in problem.queries])
        with np.errstate(divide="ignore"):
            variance = (size / problem.precision).min(axis=1)
        node = tree.leaves[self.own == 0]
        while np.isinf(variance[node]).any():
            node = np.where(np.isinf(variance[node]), tree.parent[node], node)
        return node, variance

    def run(
        self, x: np.ndarray, tolerance: float, most: int, start: State | None
    ) -> NonnegativeInfo:
        """Replace `x`, the optimum without bounds, by the optimum without negative cells."""
        problem, tree = self.problem, self.problem.tree
        rho = np.where(self.own > 0, PULL, PULL_ALONE) / self.variance
        w = x[tree.leaves] if start is None else start.w.copy()
        if start is not None and start.rho is not None:
            rho = start.rho
        solver = TableSolver(problem.with_leaf_precision(rho))
        found, distance = np.zeros((tree.n_leaves, 5)), np.inf
        every, readonly = (0, tree.n_leaves, True), _sweep.readonly
        with (
            _sweep.team(self._layout, problem.threads) as run,
            Progress(most, "cells not below zero") as progress,
        ):
            for iteration in range(1, most + 1):
                pull = (self.leaves, self.own, rho, readonly(self.y), w, self.target)
                run(kernels.pull, pull, every, True)
                solver.solve(self.ys, x, run)
                step = (self.leaves, rho, RELAX, readonly(x), w, found)
                run(kernels.split, step, every, True)
                primal, dual = found[:, :2].sum(axis=0)
                # Sums over the tree are only checked if the leaves alone are near the optimum.
                distance = np.sqrt(2) * (np.sqrt(primal) + self._slopes(found, None)[0])
                if distance <= tolerance:
                    info, missed = self._finish(x, found, iteration, State(w, rho))
                    distance = info.distance
                    if max(distance, missed) <= tolerance:
                        return info
                change = _balance(iteration, primal, dual)
                if change != 1:
                    rho = rho * change
                    np.divide(w, change, out=w, where=w < 0)
                    solver = TableSolver(problem.with_leaf_precision(rho))
                progress.advance(1)
        raise _NotReachedError(
            f"The optimum without negative cells was not found to {tolerance:.0e} standard "
            f"deviations in {most} iterations, but to {distance:.1e}. Values known exactly may "
            "leave no such optimum; otherwise allow more `iterations`, or a larger `tolerance`.",
            State(w, rho),
        )

    def _slopes(self, found: np.ndarray, x: np.ndarray | None) -> tuple[float, float]:
        """Distance from the optimum due to wrong slopes, and the largest move that corrects them.

        The distance is in standard deviations, and the change in units of values. Without `x`,
        both are lower bounds.
        """
        measured = (self.own > 0) & np.isfinite(self.own)
        precision = self.own[measured]
        square = float((found[measured, 2] / precision).sum())
        changed = float((np.sqrt(found[measured, 2]) / precision).max(initial=0))
        alone = found[self.own == 0]
        gap = float(alone[:, 3].sum())
        if x is not None and alone.size:
            lowest = np.zeros(x.shape[0])
            np.maximum.at(lowest, self._mend_node, alone[:, 4])
            nodes = np.flatnonzero(lowest)
            variance = self._mend_variance[nodes]
            square += float(variance @ lowest[nodes] ** 2)
            changed = max(changed, float((variance * lowest[nodes]).max(initial=0)))
            gap += float(lowest[nodes] @ x[nodes].sum(axis=1))
        return float(np.sqrt(square) + np.sqrt(2 * gap)), changed

    def _finish(
        self, x: np.ndarray, found: np.ndarray, iteration: int, state: State
    ) -> tuple[NonnegativeInfo, float]:
        """Set cells to zero in place; returns the certificate and the largest miss of exact values.

        The latter is in standard deviations of the leaves' cells.
        """
        problem, tree = self.problem, self.problem.tree
        own = x[tree.leaves]
        cells = np.where(state.w > 0, np.maximum(own, 0), 0)
        added = tree.aggregate(cells - own)
        square = missed = changed = 0.0
        for q, query in enumerate(problem.queries):
            change = problem.axes.summed(added, query.axes)
            precision, largest = problem.precision[:, q], abs(change).max(axis=1)
            exact = np.isinf(precision)
            missed = max(missed, float(largest[exact].max(initial=0)))
            changed = max(changed, float(largest[(precision > 0) & ~exact].max(initial=0)))
            square += float(np.where(exact, 0, precision) @ (change**2).sum(axis=1))
        tree.aggregate(cells, out=x)
        distance, mended = self._slopes(found, x)
        distance += float(np.sqrt(square))
        info = NonnegativeInfo(
            iteration, int(np.count_nonzero(cells == 0)), max(missed, changed, mended),
            distance**2, State(state.w.copy(), state.rho),
        )  # fmt: skip
        return info, missed / float(np.sqrt(self.variance.mean()))


def _balance(iteration: int, primal: float, dual: float) -> float:
    """Factor for the pull: above 1 if x misses its bounds by much, below 1 if steps are long."""
    if iteration % BALANCE_EVERY or not (primal > 0 and dual > 0):
        return 1.0
    if primal > IMBALANCE * dual:
        return 2.0
    return 0.5 if dual > IMBALANCE * primal else 1.0
