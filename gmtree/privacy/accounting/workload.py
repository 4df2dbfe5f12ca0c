"""The counts that are measured at a node: its total, or several queries of its table.

A query keeps some axes of the table and sums over the remaining axes; its table is a *marginal*. If
nodes have no tables, there is one query, the total, which needs no name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.tables.queries import Axes
from gmtree.privacy.accounting.budget import Budget, sequence
from gmtree.privacy.accounting.rational import rational
from gmtree.tree import Tree

TableQuery = tuple[str, ...]
# Name of each axis, with its labels or else its length.
TableAxes = tuple[tuple[str, int | tuple[str, ...]], ...]


def lengths_of(axes: TableAxes | None) -> dict[str, int]:
    """Return the length of each axis, by the name of the axis."""
    return {name: x if isinstance(x, int) else len(x) for name, x in axes or ()}


@dataclass(frozen=True)
class Workload:
    """The queries of every node.

    Attributes
    ----------
    axes : tuple of (name, length or labels), or None if nodes have no tables
    queries : tuple
        Tuples of names of axes; (None,) if nodes have no tables.
    cells : tuple of int
        Sizes of the queries' tables.
    asked : int
        Number of queries that the caller requested, which come first. If there are invariants, the
        query of the total may follow them.
    zeros : tuple of int
        Cells of a whole table, counted along its axes, that are known to be empty at every leaf.
    """

    axes: TableAxes | None
    queries: tuple[TableQuery | None, ...]
    cells: tuple[int, ...]
    asked: int
    zeros: tuple[int, ...] = ()

    @classmethod
    def of(cls, axes: Any, queries: Any) -> Workload:
        """Make a workload from the arguments of a public function."""
        found = Axes(axes)
        for name in found.names:
            if not isinstance(name, str):
                check.fail_type("axes", f"must have text as names, not {name!r}.")
        names = sequence("queries", queries, "tuples of names of axes")
        if not names:
            check.fail("queries", "must hold at least one query.")
        by_axes: dict[tuple[int, ...], Any] = {}
        for name in names:
            twin = by_axes.setdefault(found.ascending("queries", name), name)
            if twin is not name:
                check.fail("queries", f"must have each query once; {twin!r} is {name!r}.")
        cells = tuple(math.prod(found.names[axis] for axis in name) for name in names)
        axes_ = tuple(
            (str(name), length if own is None else tuple(map(str, own)))
            for (name, length), own in zip(found.names.items(), found.labels.values(), strict=True)
        )
        return cls(axes_, names, cells, len(names))

    def with_total(self) -> Workload:
        """Add the query of totals, for invariants; totals that are not exact stay unmeasured."""
        if () in self.queries:
            return self
        return replace(self, queries=(*self.queries, ()), cells=(*self.cells, 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes of a node's table."""
        return tuple(lengths_of(self.axes).values())

    @property
    def table_cells(self) -> int:
        """Number of cells of a node's table."""
        return math.prod(self.shape)

    def query_shape(self, query: TableQuery | None) -> tuple[int, ...]:
        """Lengths of the axes of a query."""
        lengths = lengths_of(self.axes)
        return tuple(lengths[axis] for axis in query or ())

    @property
    def possible(self) -> np.ndarray | None:
        """Mask of the cells of a table that can have records; None if all can."""
        if not self.zeros:
            return None
        mask = np.ones(self.table_cells, bool)
        mask[list(self.zeros)] = False
        return mask.reshape(self.shape)

    def possible_cells(self, query: TableQuery | None) -> np.ndarray:
        """Mask of the cells of a query that can have records."""
        mask = np.ones(self.shape, bool) if self.possible is None else self.possible
        return self.marginal(mask[None], query)[0] > 0

    def marginal(self, tables: np.ndarray, query: TableQuery | None) -> np.ndarray:
        """Sums of tables, one per row, over the axes that a query does not keep."""
        names = [name for name, _ in self.axes or ()]
        kept = [names.index(axis) for axis in query or ()]
        dropped = tuple(1 + k for k in range(len(names)) if k not in kept)
        sums = tables.sum(axis=dropped) if dropped else tables
        return sums.transpose(0, *(1 + np.argsort(np.argsort(kept))))

    def noisy_counts(self, tree: Tree, exact: np.ndarray | None) -> list[int]:
        """Number of counts that get noise, by level and query: all cells except exact totals."""
        every, rest = _nodes_by_level(tree, None), _nodes_by_level(tree, exact)
        noisy = self.cells
        if self.zeros:
            noisy = tuple(int(self.possible_cells(query).sum()) for query in self.queries)
        return [
            possible * (inner if cells == 1 else all_nodes)
            for all_nodes, inner in zip(every, rest, strict=True)
            for cells, possible in zip(self.cells, noisy, strict=True)
        ]

    def shares(self, tree: Tree, given: Any) -> list[Fraction]:
        """Relative shares by level and query; all equal by default."""
        asked = self.queries[: self.asked]
        if given is None:
            given = dict.fromkeys(asked, 1)
        if not isinstance(given, Mapping):
            check.fail_type("shares", f"must be a mapping from queries, not {given!r}.")
        sets = {frozenset(query or ()): k for k, query in enumerate(self.queries)}
        table = [[Fraction(0)] * len(self.queries) for _ in range(tree.height)]
        for query, value in given.items():
            k = sets.get(frozenset(query)) if isinstance(query, tuple) else None
            if k is None:
                check.fail("shares", f"must belong to queries that are measured, not {query!r}.")
            for row, share in zip(table, _by_level(tree, query, value), strict=True):
                row[k] = share
        for query in asked:
            if frozenset(query or ()) not in {frozenset(name) for name in given}:
                check.fail("shares", f"must have every query; {query!r} is missing.")
        return [share for row in table for share in row]


PLAIN = Workload(None, (None,), (1,), 1)


def workload_of(budget: Budget, axes: Any, queries: Any) -> Workload:
    """Make a workload; if there are invariants, tables also get the query of the totals."""
    if axes is None:
        if queries is not None:
            check.fail("queries", "must be None without 'axes'.")
        return PLAIN
    if queries is None:
        check.fail("queries", "must be given with 'axes'.")
    workload = Workload.of(axes, queries)
    if budget.structural_zeros is not None:
        workload = replace(workload, zeros=_zeros(workload, budget.structural_zeros))
    return workload.with_total() if budget.invariants else workload


def _zeros(workload: Workload, mask: Any) -> tuple[int, ...]:
    """The cells that a mask of the shape of a table marks."""
    a = check.array("structural_zeros", mask)
    if a.dtype != np.bool_ or a.shape != workload.shape:
        check.fail(
            "structural_zeros",
            f"must be a mask (True or False) of shape {workload.shape}, one entry per cell of a "
            f"table, not an array of {a.dtype} of shape {a.shape}.",
        )
    if a.all():
        check.fail("structural_zeros", "must leave a cell that can have records.")
    return tuple(np.flatnonzero(a).tolist())


def _by_level(tree: Tree, query: Any, value: Any) -> list[Fraction]:
    """One share per level, from one number for all levels or one for each."""
    try:
        listed = [value] * tree.height if isinstance(value, str) else list(value)
    except TypeError:
        listed = [value] * tree.height
    if len(listed) != tree.height:
        check.fail(
            "shares",
            f"must have one number, or one per level ({tree.height}), for each query; {query!r} "
            f"has {len(listed)}.",
        )
    shares = [rational("shares", x) for x in listed]
    if any(share < 0 for share in shares):
        check.fail("shares", f"must not be negative; query {query!r} has {min(shares)}.")
    return shares


def _nodes_by_level(tree: Tree, exact: np.ndarray | None) -> list[int]:
    """Number of nodes of each level that are not exact."""
    if exact is None and tree._has_even_depth():
        return np.diff(tree._level_start).tolist()
    depth = tree.depth if exact is None else tree.depth[~exact]
    return np.bincount(depth, minlength=tree.height + 1)[1:].tolist()
