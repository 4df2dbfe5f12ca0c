"""Which counts are measured at a node: its total, or several queries of the table it has.

A query keeps some axes of the table and sums over the others; its table is a *marginal*. Where
nodes have no tables there is one query, the total, which needs no name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.contrasts import Axes
from gmtree.privacy.budget import sequence
from gmtree.privacy.rational import rational
from gmtree.tree import Tree

TableQuery = tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """The queries of every node.

    Attributes
    ----------
    axes : tuple of (name, length), or None where nodes have no tables
    queries : tuple
        Tuples of names of axes; (None,) where nodes have no tables.
    cells : tuple of int
        Sizes of the queries' tables.
    asked : int
        How many of the queries were asked for; a last one may be the total, for invariants only.
    """

    axes: tuple[tuple[str, int], ...] | None
    queries: tuple[TableQuery | None, ...]
    cells: tuple[int, ...]
    asked: int

    @classmethod
    def of(cls, axes: Any, queries: Any) -> Workload:
        """The queries that these arguments of a public function ask for."""
        found = Axes(axes)
        for name in found.names:
            if not isinstance(name, str):
                check.fail_type("axes", f"must have text as names, not {name!r}.")
        names = sequence("queries", queries, "tuples of names of axes")
        if not names:
            check.fail("queries", "must hold at least one query.")
        for _ in found.by_query("queries", _Listed(names)):
            pass  # Refuses names that are no axes, and queries that come twice.
        cells = tuple(math.prod(found.names[axis] for axis in name) for name in names)
        return cls(tuple(found.names.items()), names, cells, len(names))  # type: ignore[arg-type]

    def with_total(self) -> Workload:
        """The same with a place for exact totals, if there is none; others are not measured."""
        if () in self.queries:
            return self
        return replace(self, queries=(*self.queries, ()), cells=(*self.cells, 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes of a node's table."""
        return tuple(length for _, length in self.axes or ())

    @property
    def table_cells(self) -> int:
        """Number of cells of a node's table."""
        return math.prod(self.shape)

    def query_shape(self, query: TableQuery | None) -> tuple[int, ...]:
        """Lengths of the axes of a query."""
        lengths = dict(self.axes or ())
        return tuple(lengths[axis] for axis in query or ())

    def marginal(self, tables: np.ndarray, query: TableQuery | None) -> np.ndarray:
        """Sums of tables, one per row, over the axes that a query does not keep."""
        names = [name for name, _ in self.axes or ()]
        kept = [names.index(axis) for axis in query or ()]
        dropped = tuple(1 + k for k in range(len(names)) if k not in kept)
        sums = tables.sum(axis=dropped) if dropped else tables
        return sums.transpose(0, *(1 + np.argsort(np.argsort(kept))))

    def noisy_counts(self, tree: Tree, exact: np.ndarray | None) -> list[int]:
        """How many counts get noise, by level and query: all cells, but for exact totals."""
        every, rest = _nodes_by_level(tree, None), _nodes_by_level(tree, exact)
        return [
            cells * (inner if cells == 1 else all_nodes)
            for all_nodes, inner in zip(every, rest, strict=True)
            for cells in self.cells
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


class _Listed(dict):
    """A mapping whose items are listed as they are, also if some come twice."""

    def __init__(self, names: Sequence[Any]) -> None:
        super().__init__()
        self._names = names

    def items(self) -> Any:
        return [(name, None) for name in self._names]


def _by_level(tree: Tree, query: Any, value: Any) -> list[Fraction]:
    """One share per level, from one number for all or one for each."""
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
    """Number of nodes per level that are not exact."""
    if exact is None and tree._has_even_depth():
        return np.diff(tree._level_start).tolist()
    depth = tree.depth if exact is None else tree.depth[~exact]
    return np.bincount(depth, minlength=tree.height + 1)[1:].tolist()
