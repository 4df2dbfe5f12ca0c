"""Tables of which some marginals are known exactly: they must agree, and bar whole cells.

Each function takes a :class:`gmtree.TableConsistency` as `problem`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import tables as kernels
from gmtree.consistency.contrasts import Query
from gmtree.consistency.exact import Tolerance

# Nodes whose exactly known tables are compared at a time.
COMPARED_TOGETHER = 4096


def refuse_contradictions(problem: Any, ys: list[np.ndarray], x: np.ndarray, b: np.ndarray) -> None:
    """Refuse exactly known values that contradict each other, at a node or across nodes."""
    if not problem._can_contradict:
        return
    tolerance = Tolerance.of(x.dtype).relative
    for q, y in enumerate(ys):
        exact = problem._exact_twice[np.isinf(problem._precision[problem._exact_twice, q])]
        for start in range(0, exact.size, COMPARED_TOGETHER):
            nodes = exact[start : start + COMPARED_TOGETHER]
            _check_queries(problem, q, nodes, y[nodes], x[nodes], tolerance)
    size: np.ndarray | None = None
    for k, positions in enumerate(problem._stacked.exact):
        columns = slice(problem._spaces[k].start, problem._spaces[k].stop)
        nodes = problem.tree.order[positions]
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
                f"by {difference[first].max():.6g} from what its children add up to.",
            )


def _check_queries(
    problem: Any, q: int, nodes: np.ndarray, y: np.ndarray, x: np.ndarray, tolerance: float
) -> None:
    """Refuse an exact query that differs from those that count at its node."""
    query, ones = problem._queries[q], np.ones((nodes.size, max(1, len(problem._spaces))))
    own = np.zeros(x.shape)
    flags = np.ones(query.blocks.size, bool)
    kernels.take(
        _sweep.readonly(y), query.lengths, ones, 0, query.blocks, query.source,
        np.ones(query.blocks.size), flags, np.empty((0, query.blocks.size), bool), ones,
        problem._stacked.first, own, np.empty(y.shape[1]), 0, nodes.size,
    )  # fmt: skip
    size = tolerance * np.abs(y.astype(np.float64)).sum(axis=1)
    for k in query.blocks:
        columns = slice(problem._spaces[k].start, problem._spaces[k].stop)
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


def _exact_query(problem: Any, node: int, k: int) -> Query:
    """The query whose exact value counts in a space at a node."""
    exact = np.flatnonzero(np.isinf(problem._precision[node]))
    return next(problem._queries[q].name for q in exact if k in problem._queries[q].blocks)


def _exact_sizes(problem: Any, ys: list[np.ndarray]) -> np.ndarray:
    """How large the exactly known values are that a node's can be made of."""
    size = np.zeros(problem.tree.n)
    for q, y in enumerate(ys):
        exact = np.isinf(problem._precision[:, q])
        size[exact] = np.maximum(size[exact], abs(y[exact].astype(np.float64)).sum(axis=1))
    _sweep.accumulate(problem.tree._layout, size, size)
    return size


def exact_marginal(problem: Any) -> tuple[Query, int] | None:
    """The first query and node of which sums of several cells are known exactly, only."""
    exact, cells = np.isinf(problem._precision), int(np.prod(problem.shape))
    whole = np.array([np.prod(query.lengths) == cells for query in problem._queries])
    exact[exact[:, whole].any(axis=1)] = False
    if not exact.any():
        return None
    node, q = (int(k) for k in np.argwhere(exact)[0])
    return problem._queries[q].name, node


def refuse_exact_marginals(problem: Any) -> None:
    """Refuse to round cell by cell where sums of cells must be kept."""
    found = exact_marginal(problem)
    if found is not None:
        check.fail(
            "integer",
            "must be False where a marginal is known exactly (variance 0): cells are rounded "
            f"one by one, and their sums would differ from query {found[0]!r} at node "
            f"{found[1]}. Round the tables yourself, or give that query a small variance.",
        )
