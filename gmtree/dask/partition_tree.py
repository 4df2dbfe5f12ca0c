"""The tree of one partition, in which extra leaves stand for the rows of other partitions.

A partition holds consecutive rows of the sorted leaves. The nodes above its first row and above
its last row may continue in other partitions. These are its *boundary nodes*: the first and the
last node of each level, or one node that is both. All other nodes are complete in this partition.
Each boundary node gets one extra leaf, which stands for all its rows in other partitions. If that
leaf is measured with the estimate and the variance of those rows, the consistent values of this
tree are those of the whole tree.

Nodes are numbered level by level, leaves last. Sweeps are fastest in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gmtree._validate import index_dtype
from gmtree.dask.sorted_rows import Runs
from gmtree.tree import Tree


class Group(NamedTuple):
    """Nodes ``start`` to ``stop - 1``: the complete children of one boundary node."""

    level: int
    side: int
    start: int
    stop: int


class PartitionTree:
    """The tree of a partition.

    Attributes
    ----------
    height : int
        Number of levels below the total.
    sizes : tuple of int
        Number of nodes of each level, complete or not; the total is level 0, rows the last.
    begin : tuple of arrays
        For each level above the rows, the first child of each node, counted within its level.
    """

    def __init__(self, begin: Sequence[np.ndarray], rows: int) -> None:
        self.begin = tuple(begin)
        self.height = len(self.begin)
        self.sizes = (*(b.size for b in self.begin), rows)
        self.offset = tuple(np.cumsum([0, *self.sizes[:-1]]).tolist())

    @classmethod
    def of(cls, runs: Runs) -> PartitionTree:
        """Build the tree of rows in which each node is one run."""
        starts = (np.zeros(1, np.int64), *runs.starts)
        below = [np.searchsorted(b, a) for a, b in pairwise(starts)]
        return cls([*below, starts[-1]], runs.rows)

    # ------------------------------------------------------------------ numbering

    @property
    def n_inner(self) -> int:
        """Number of nodes above the rows."""
        return self.offset[-1]

    def has_two(self, level: int) -> bool:
        """Whether the first and the last node of a level are different nodes."""
        return self.sizes[level] > 1

    def sides(self, level: int) -> tuple[int, ...]:
        """Return the sides at which a level has a boundary node."""
        return (0, 1) if self.has_two(level) else (0,)

    @cached_property
    def first_row(self) -> int:
        """Node of the first row. Inner nodes and all extra leaves but one have smaller numbers."""
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

    def first_rows(self, level: int) -> np.ndarray:
        """The first row of each node of a level above the rows."""
        rows = self.begin[-1]
        for above in reversed(range(level, self.height - 1)):
            rows = rows[self.begin[above]]
        return rows

    @cached_property
    def boundary(self) -> np.ndarray:
        """The first and the last node of each level above the rows; an array by level and side."""
        return np.column_stack([self.offset[:-1], np.subtract(self.offset[1:], 1)])

    @cached_property
    def elsewhere(self) -> np.ndarray:
        """The extra leaf of each boundary node, by level and side; -1 if there is no such node."""
        found = np.full((self.height, 2), -1, np.int64)
        node = self.n_inner
        for level in range(self.height):
            for side in self.sides(level):
                found[level, side] = node
                node += 1
        if self.has_two(self.height - 1):
            # This extra leaf is next to its siblings, which are the last rows.
            found[-1, 1] = self.rows.stop
        return found

    @property
    def extra_leaves(self) -> np.ndarray:
        """All leaves that stand for rows of other partitions."""
        return self.elsewhere[self.elsewhere >= 0]

    @property
    def n(self) -> int:
        """Number of nodes."""
        return sum(self.sizes) + self.extra_leaves.size

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The complete children of each boundary node that has any."""
        found = []
        for level in range(self.height):
            below = self.nodes(level + 1)
            # Children that are boundary nodes may be incomplete; rows never are.
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
        """The tree of all nodes, including the extra leaves."""
        parent = np.empty(self.n, index_dtype(self.n))
        parent[0] = -1
        for level, starts in enumerate(self.begin):
            children = np.diff(starts, append=self.sizes[level + 1])
            above = np.arange(self.sizes[level], dtype=parent.dtype)
            above += parent.dtype.type(self.offset[level])
            parent[self.nodes(level + 1)] = np.repeat(above, children)
        there = self.elsewhere >= 0
        parent[self.elsewhere[there]] = self.boundary[there]
        return Tree.from_parents(parent)

    def by_level(self, numbers: Sequence[float]) -> np.ndarray:
        """Repeat one number per level for each of its nodes; extra leaves get 0."""
        out = np.zeros(self.n)
        for level, x in enumerate(numbers):
            out[self.nodes(level)] = x
        return out
