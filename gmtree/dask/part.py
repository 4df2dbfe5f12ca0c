"""One partition as a tree of its own, in which a leaf stands for all that is held elsewhere.

The rows of a partition are a stretch of the sorted leaves. The nodes above its first row and above
its last row may go on in other partitions: they are its *path* nodes, at each level the first and
the last node (or one that is both). All other nodes are here as a whole. So with one more leaf
below each path node, for everything of that node that is not here, the partition is an ordinary
tree. What the others tell (an estimate and its variance) is measured at these leaves, and the
consistent values of this tree are those of the whole one.

Nodes are numbered level by level, leaves last: the order in which sweeps are quickest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gmtree._validate import index_dtype
from gmtree.dask.rows import Runs
from gmtree.tree import Tree

# The first node of a level, and the last one if that is another.
SIDES = (0, 1)


class Group(NamedTuple):
    """Nodes ``start`` to ``stop - 1``: children of one path node that are here as a whole."""

    level: int
    side: int
    start: int
    stop: int


class Part:
    """The tree of a partition.

    Attributes
    ----------
    height : int
        Number of levels below the total.
    sizes : tuple of int
        Nodes of each level that are here, whole or not; the total is level 0, rows the last.
    begin : tuple of arrays
        For each level above the rows, the first child of each node, counted within its level.
    """

    def __init__(self, begin: Sequence[np.ndarray], rows: int) -> None:
        self.begin = tuple(begin)
        self.height = len(self.begin)
        self.sizes = (*(b.size for b in self.begin), rows)
        self.offset = tuple(np.cumsum([0, *self.sizes[:-1]]).tolist())

    @classmethod
    def of(cls, runs: Runs) -> Part:
        """From rows in which each node is one stretch."""
        starts = (np.zeros(1, np.int64), *runs.starts)
        below = [np.searchsorted(b, a) for a, b in pairwise(starts)]
        return cls([*below, starts[-1]], runs.rows)

    # ------------------------------------------------------------------ numbering

    @property
    def n_inner(self) -> int:
        """Nodes above the rows."""
        return self.offset[-1]

    def has_two(self, level: int) -> bool:
        """Whether the last node of a level is another than its first."""
        return self.sizes[level] > 1

    def sides(self, level: int) -> tuple[int, ...]:
        """Which path nodes there are."""
        return SIDES if self.has_two(level) else SIDES[:1]

    @cached_property
    def first_row(self) -> int:
        """Number of the node of the first row: inner nodes and all but one leaf are before it."""
        return (
            self.n_inner
            + sum(len(self.sides(k)) for k in range(self.height))
            - (self.has_two(self.height - 1))
        )

    @property
    def rows(self) -> slice:
        """Nodes that are rows."""
        return slice(self.first_row, self.first_row + self.sizes[-1])

    def nodes(self, level: int) -> slice:
        """Nodes of a level."""
        if level == self.height:
            return self.rows
        return slice(self.offset[level], self.offset[level] + self.sizes[level])

    def path_node(self, level: int, side: int) -> int:
        """The first or last node of a level."""
        return self.offset[level] + (self.sizes[level] - 1 if side else 0)

    @cached_property
    def elsewhere(self) -> np.ndarray:
        """The leaf below each path node, by level and side; -1 where there is no such node."""
        found = np.full((self.height, 2), -1, np.int64)
        node = self.n_inner
        for level in range(self.height):
            for side in self.sides(level):
                found[level, side] = node
                node += 1
        if self.has_two(self.height - 1):
            # Beside its siblings: behind the rows.
            found[-1, 1] = self.rows.stop
        return found

    @property
    def extra_leaves(self) -> np.ndarray:
        """All leaves that stand for what is elsewhere."""
        return self.elsewhere[self.elsewhere >= 0]

    @property
    def n(self) -> int:
        """Number of nodes."""
        return sum(self.sizes) + self.extra_leaves.size

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """By path node, its children that are here as a whole, if there are any."""
        found = []
        for level in range(self.height):
            below = self.nodes(level + 1)
            # Children that are path nodes themselves are not here as a whole; rows always are.
            inner = level + 1 < self.height
            starts = self.begin[level]
            for side in self.sides(level):
                is_first, is_last = side == 0, side == 1 or not self.has_two(level)
                start = below.start + int(starts[0 if is_first else -1])
                stop = below.stop if is_last else below.start + int(starts[1])
                start += inner and is_first
                stop -= inner and is_last
                if start < stop:
                    found.append(Group(level, side, start, stop))
        return tuple(found)

    # ------------------------------------------------------------------ the tree

    @cached_property
    def tree(self) -> Tree:
        """All nodes, with the leaves that stand for what is elsewhere."""
        parent = np.empty(self.n, index_dtype(self.n))
        parent[0] = -1
        for level, starts in enumerate(self.begin):
            children = np.diff(starts, append=self.sizes[level + 1])
            above = np.arange(self.sizes[level], dtype=parent.dtype)
            above += parent.dtype.type(self.offset[level])
            parent[self.nodes(level + 1)] = np.repeat(above, children)
            for side in self.sides(level):
                parent[self.elsewhere[level, side]] = self.path_node(level, side)
        return Tree.from_parents(parent)

    def by_level(self, numbers: Sequence[float]) -> np.ndarray:
        """One number per level as one per node; 0 at the leaves for what is elsewhere."""
        out = np.zeros(self.n)
        for level, x in enumerate(numbers):
            out[self.nodes(level)] = x
        return out

    def at_paths(self, x: np.ndarray) -> np.ndarray:
        """Values of the path nodes, by level and side; NaN where there is no such node."""
        found = np.full((self.height, 2), np.nan)
        for level in range(self.height):
            for side in self.sides(level):
                found[level, side] = x[self.path_node(level, side)]
        return found
