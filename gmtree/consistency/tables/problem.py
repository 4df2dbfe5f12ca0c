"""Which queries of a table are measured at which nodes, and how precisely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.factor import checked_variances
from gmtree.consistency.tables.queries import Axes, Measured
from gmtree.tree import Tree

# With these limits, variances of sums over cells and queries are within the limits for trees.
VARIANCE_RANGE = (1e-90, 1e90)


@dataclass(frozen=True)
class TableProblem:
    """Tables at the nodes of a tree, and how they are measured.

    Attributes
    ----------
    tree : Tree
    axes : Axes
    queries : tuple of Measured
        Queries with many axes come first, so that a query writes before smaller queries whose
        spaces it also measures.
    precision : array of shape (n, queries)
        Reciprocal variance of each cell of a query at a node; 0 if not measured, infinite if known
        exactly.
    threads : int or None
    """

    tree: Tree
    axes: Axes
    queries: tuple[Measured, ...]
    precision: np.ndarray
    threads: int | None

    @classmethod
    def of(
        cls, tree: Tree, axes: Mapping[Any, Any], variance: Mapping[Any, Any], threads: int | None
    ) -> TableProblem:
        """Make a problem from the arguments of :class:`gmtree.TableConsistency`."""
        check.instance("tree", tree, Tree)
        threads, own = check.threads("threads", threads), Axes(axes)
        given = sorted(own.by_query("variance", variance), key=lambda item: -len(item[0]))
        if not given:
            check.fail("variance", "must have at least one query.")
        precision = np.empty((tree.n, len(given)))
        for q, (_, name, numbers) in enumerate(given):
            s = checked_variances(tree, numbers, f"query {name!r}")
            bad = (s > 0) & np.isfinite(s) & ((s < VARIANCE_RANGE[0]) | (s > VARIANCE_RANGE[1]))
            if bad.any():
                i = int(np.argmax(bad))
                check.fail(
                    "variance",
                    f"must be 0, inf or from {VARIANCE_RANGE[0]} to {VARIANCE_RANGE[1]} for "
                    f"tables; node {i} has {s[i]}. (query {name!r})",
                )
            with np.errstate(divide="ignore"):
                precision[:, q] = 1 / s
        queries = tuple(own.measured(name, kept) for kept, name, _ in given)
        return cls(tree, own, queries, precision, threads)

    @property
    def cells(self) -> int:
        """Number of cells of a table."""
        return int(np.prod(self.axes.shape))

    @property
    def whole(self) -> int | None:
        """Index of the query that is the whole table."""
        return 0 if len(self.queries[0].axes) == len(self.axes.shape) else None

    @cached_property
    def exact_twice(self) -> np.ndarray:
        """Nodes at which several queries are known exactly."""
        return np.flatnonzero(np.isinf(self.precision).sum(axis=1) > 1)

    def with_leaf_precision(self, more: np.ndarray) -> TableProblem:
        """A problem with a further measurement of the whole table at the leaves."""
        queries, precision = self.queries, self.precision.copy()
        if self.whole is None:
            every = tuple(range(len(self.axes.shape)))
            queries = (self.axes.measured(tuple(self.axes.names), every), *queries)
            precision = np.hstack([np.zeros((self.tree.n, 1)), precision])
        precision[self.tree.leaves, 0] += more
        return replace(self, queries=queries, precision=precision)

    def measurements(self, given: Mapping[Any, Any]) -> list[np.ndarray]:
        """For each query, in the order of `queries`: an array of shape (n, cells of the query)."""
        found: dict[tuple[int, ...], np.ndarray] = {}
        known = {query.axes: q for q, query in enumerate(self.queries)}
        for kept, name, value in self.axes.by_query("measurements", given):
            if kept not in known:
                check.fail(
                    "measurements", f"must hold only queries with a variance; {name!r} has none."
                )
            if kept:
                check.refuse_labels("measurements", value)
            else:
                value = self.tree._aligned("measurements", value)
            a = check.array("measurements", value)
            in_order = self.axes.in_order("measurements", name)
            shape = (self.tree.n, *(self.axes.shape[axis] for axis in in_order))
            if a.shape != shape:
                check.fail(
                    "measurements",
                    f"must have one table per node; query {name!r} must have shape {shape}, "
                    f"not {a.shape}.",
                )
            # Back to ascending axes, if the query names them in another order.
            a = a.transpose(0, *(1 + np.argsort(in_order))).reshape(self.tree.n, -1)
            a = check.values("measurements", a, self.tree.n)
            self._refuse_not_finite(known[kept], a)
            found[kept] = a
        for query in self.queries:
            if query.axes not in found:
                check.fail("measurements", f"must have every query; {query.name!r} is missing.")
        return [found[query.axes] for query in self.queries]

    def _refuse_not_finite(self, q: int, y: np.ndarray) -> None:
        if y.dtype.kind != "f" or check.all_finite(y):
            return
        bad = ~np.isfinite(y).all(axis=1) & (self.precision[:, q] > 0)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            value = y[i][~np.isfinite(y[i])][0]
            check.fail(
                "measurements",
                f"must be finite if measured; query {self.queries[q].name!r} at node "
                f"{i} has {value}.",
            )
