"""Checks of exactly known marginals, which must not contradict each other or rule out rounding."""

from __future__ import annotations

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import tables as kernels
from gmtree.consistency.block_sweeps import BlockSweeps
from gmtree.consistency.exact import Tolerance
from gmtree.consistency.tables.problem import TableProblem
from gmtree.consistency.tables.queries import Query

# Number of nodes whose exactly known tables are compared at a time.
COMPARED_TOGETHER = 4096


def refuse_contradictions(
    problem: TableProblem, sweeps: BlockSweeps, ys: list[np.ndarray], x: np.ndarray, b: np.ndarray
) -> None:
    """Refuse exactly known values that contradict each other, at a node or across nodes.

    `x` and `b` hold the measurements in each space and the sums from below, after the upward sweep.
    """
    tolerance = Tolerance.of(x.dtype).relative
    for q, y in enumerate(ys):
        exact = problem.exact_twice[np.isinf(problem.precision[problem.exact_twice, q])]
        for start in range(0, exact.size, COMPARED_TOGETHER):
            nodes = exact[start : start + COMPARED_TOGETHER]
            _check_queries(problem, sweeps, q, nodes, y[nodes], x[nodes], tolerance)
    size: np.ndarray | None = None
    for k, positions in enumerate(sweeps.exact):
        columns = problem.axes.spaces[k].columns
        nodes = problem.tree._sweep_order[positions]
        own, below = x[nodes, columns].astype(np.float64), b[positions, columns]
        difference = abs(own - below)
        if not np.any(difference > tolerance * np.maximum(abs(own), abs(below))):
            continue
        if size is None:
            size = _exact_sizes(problem, ys)
        bad = np.flatnonzero(difference.max(axis=1) > tolerance * size[nodes])
        if bad.size:
            first = bad[np.argmin(nodes[bad])]
            check.fail(
                "measurements",
                "must agree where values are known exactly (variance 0); query "
                f"{_exact_query(problem, int(nodes[first]), k)!r} at node {nodes[first]} differs "
                f"by {difference[first].max():.6g} from the sum of its children.",
            )


def _check_queries(
    problem: TableProblem, sweeps: BlockSweeps, q: int, nodes: np.ndarray, y: np.ndarray,
    x: np.ndarray, tolerance: float,
) -> None:  # fmt: skip
    """Refuse an exact query that differs from the exact query that is used at its node."""
    query, ones = problem.queries[q], np.ones((nodes.size, len(problem.axes.spaces)))
    own = np.zeros(x.shape)
    flags = np.ones(query.blocks.size, bool)
    kernels.take(
        _sweep.readonly(y), query.lengths, ones, 0, query.blocks, query.source,
        np.ones(query.blocks.size), flags, np.empty((0, query.blocks.size), bool), ones,
        sweeps.first, own, np.empty(y.shape[1]), 0, nodes.size,
    )  # fmt: skip
    size = tolerance * np.abs(y.astype(np.float64)).sum(axis=1)
    for k in query.blocks:
        columns = problem.axes.spaces[k].columns
        difference = abs(own[:, columns] - x[:, columns]).max(axis=1)
        bad = np.flatnonzero(difference > size)
        if bad.size:
            i = int(nodes[bad[0]])
            check.fail(
                "measurements",
                "must agree where values are known exactly (variance 0); at node "
                f"{i} query {query.name!r} differs by {difference[bad[0]]:.6g} from query "
                f"{_exact_query(problem, i, int(k))!r}.",
            )


def _exact_query(problem: TableProblem, node: int, k: int) -> Query:
    """The query whose exact value is used in a space at a node."""
    exact = np.flatnonzero(np.isinf(problem.precision[node]))
    return next(problem.queries[q].name for q in exact if k in problem.queries[q].blocks)


def _exact_sizes(problem: TableProblem, ys: list[np.ndarray]) -> np.ndarray:
    """Sizes of the exactly known values that may be summands of a node's value."""
    size = np.zeros(problem.tree.n)
    for q, y in enumerate(ys):
        exact = np.isinf(problem.precision[:, q])
        size[exact] = np.maximum(size[exact], abs(y[exact].astype(np.float64)).sum(axis=1))
    _sweep.accumulate(problem.tree._layout, size, size)
    return size


def exact_marginal(problem: TableProblem) -> tuple[Query, int] | None:
    """The first query and node of which only sums of several cells are known exactly."""
    exact = np.isinf(problem.precision)
    whole = np.array([np.prod(query.lengths) == problem.cells for query in problem.queries])
    exact[exact[:, whole].any(axis=1)] = False
    if not exact.any():
        return None
    node, q = (int(k) for k in np.argwhere(exact)[0])
    return problem.queries[q].name, node


def refuse_exact_marginals(problem: TableProblem) -> None:
    """Refuse to round cell by cell if sums of cells must be kept."""
    found = exact_marginal(problem)
    if found is not None:
        check.fail(
            "integer",
            "must be False if a marginal is known exactly (variance 0): cells are rounded "
            f"one by one, and their sums would differ from query {found[0]!r} at node "
            f"{found[1]}. Round the tables yourself, or give that query a small variance.",
        )
