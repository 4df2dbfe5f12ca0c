"""A rooted tree as flat, frozen arrays: its sizes, one array per node, and layouts for sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree._kernels import order as kernels
from gmtree._sweep import unsigned
from gmtree.tree.pairs import PathIndex


class ChildLists(NamedTuple):
    """Children of all nodes, by the caller's numbers, as kernels take them (unsigned).

    The children of i are ``child[start[i]:start[i + 1]]``, ascending; node i stands at
    ``child[place[i]]``.
    """

    start: np.ndarray
    child: np.ndarray
    place: np.ndarray


BriefChildLists = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]


class TreeArrays:
    """What `Tree` knows of its structure, apart from labels and from what users ask.

    Every property that is one array per node is computed on first use and kept.
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_level_start",
        "_order",
        "_parent",
        "_parents_first",
        "_position_parent",
    )

    _parent: np.ndarray
    _order: np.ndarray | None
    _parents_first: bool
    _position_parent: np.ndarray
    _level_start: np.ndarray
    _cache: dict[str, Any]

    # ------------------------------------------------------------------ size and shape

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self._parent.size

    @property
    def n_internal(self) -> int:
        """Number of nodes that have children."""
        return int(self._level_start[-2])

    @property
    def n_leaves(self) -> int:
        """Number of nodes without children."""
        return self.n - self.n_internal

    @property
    def height(self) -> int:
        """Number of nodes on the longest path from the root to a leaf."""
        return self._level_start.size - 1

    @property
    def root(self) -> int:
        """Number of the root."""
        return 0 if self._order is None else int(self._order[0])

    @property
    def nbytes(self) -> int:
        """Bytes held by the tree, with the arrays computed so far but without labels."""
        arrays = [self._parent, self._level_start]
        if self._order is not None:
            arrays += [self._order, self._position_parent]
        held = [a for a in self._cache.values() if isinstance(a, (np.ndarray, PathIndex))]
        return sum(a.nbytes for a in [*arrays, *held])

    @property
    def is_canonical(self) -> bool:
        """Whether the numbering is canonical, so that nothing has to be permuted."""
        return self._order is None

    def __len__(self) -> int:
        return self.n

    # ------------------------------------------------------------------ arrays per node

    def _derive(self, name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Compute once and keep. Two threads may both compute; the results are the same."""
        array = self._cache.get(name)
        if array is None:
            array = compute()
            array.flags.writeable = False
            self._cache[name] = array
        return array

    @property
    def parent(self) -> np.ndarray:
        """Parent of each node, -1 for the root; read-only."""
        return self._parent

    @property
    def order(self) -> np.ndarray:
        """``order[r]`` is the node at canonical position r."""
        if self._order is not None:
            return self._order
        return self._derive("order", lambda: np.arange(self.n, dtype=self._parent.dtype))

    @property
    def rank(self) -> np.ndarray:
        """``rank[i]`` is the canonical position of node i."""
        if self._order is None:
            return self.order
        order = self._order

        def compute() -> np.ndarray:
            rank = np.empty_like(order)
            kernels.invert(unsigned(order), unsigned(rank))
            return rank

        return self._derive("rank", compute)

    @property
    def node_height(self) -> np.ndarray:
        """Height of each node: 1 at a leaf, one more than the highest child elsewhere."""

        def compute() -> np.ndarray:
            heights = np.arange(self.height, 0, -1, dtype=self._parent.dtype)
            return self.from_positions(np.repeat(heights, np.diff(self._level_start)))

        return self._derive("node_height", compute)

    @property
    def depth(self) -> np.ndarray:
        """Number of nodes on the path from the root to each node; 1 at the root."""

        def compute() -> np.ndarray:
            ones = np.ones(self.n, dtype=self._parent.dtype)
            _sweep.propagate(self._natural_layout, ones, ones)
            return ones

        return self._derive("depth", compute)

    @property
    def subtree_size(self) -> np.ndarray:
        """Number of nodes below and including each node."""

        def compute() -> np.ndarray:
            ones = np.ones(self.n, dtype=self._parent.dtype)
            _sweep.accumulate(self._natural_layout, ones, ones)
            return ones

        return self._derive("subtree_size", compute)

    @property
    def child_count(self) -> np.ndarray:
        """Number of children of each node."""

        def compute() -> np.ndarray:
            counts = np.zeros(self.n, dtype=self._parent.dtype)
            kernels.scan_parents(self._parent, counts)
            return counts

        return self._derive("child_count", compute)

    @property
    def leaves(self) -> np.ndarray:
        """Leaves by ascending number: every vector with one entry per leaf is in this order.

        For a tree made by :meth:`from_levels` that is the order of the rows, for one made by
        :meth:`from_linkage` the order of the observations.
        """
        return self._derive("leaves", self._find_leaves)

    @property
    def leaves_left_to_right(self) -> np.ndarray:
        """Leaves depth first, siblings by ascending number: every subtree is one stretch.

        Ranges of leaves (:mod:`gmtree.queries`, ``range_variance``, ``Release.range_sum``) count
        in this order. Vectors with one entry per leaf are in the order of :attr:`leaves`.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
        >>> tree.leaves, tree.leaves_left_to_right
        (array([2, 3, 4], dtype=int32), array([3, 4, 2], dtype=int32))
        """
        if self._is_numbered_by_level:
            return self.leaves
        return self._derive("leaves_left_to_right", self._walk_leaves)

    @property
    def internal(self) -> np.ndarray:
        """Nodes that have children, ascending: the nodes of ``subtree(1)``."""
        if self.is_canonical:
            return np.arange(self.n_internal, dtype=self._parent.dtype)
        return np.sort(self.order[: self.n_internal])

    def _find_leaves(self) -> np.ndarray:
        if self.is_canonical:
            return np.arange(self.n_internal, self.n, dtype=self._parent.dtype)
        return np.flatnonzero(self.child_count == 0).astype(self._parent.dtype)

    def _walk_leaves(self) -> np.ndarray:
        start, child = (unsigned(a) for a in self._children)
        leaves, stack = np.empty(self.n_leaves, start.dtype), np.empty(self.n, start.dtype)
        kernels.leaves_left_to_right(np.uint64(self.root), start, child, stack, leaves)
        return leaves.view(self._parent.dtype)

    def _depth_first(self, nodes: np.ndarray) -> np.ndarray:
        """Places in `nodes` in the order in which a walk depth first meets them."""
        start, child = (unsigned(a) for a in self._children)
        number, stack = np.empty((2, self.n), start.dtype)
        kernels.depth_first(np.uint64(self.root), start, child, stack, number)
        return np.argsort(number[nodes], kind="stable")

    @property
    def _is_numbered_by_level(self) -> bool:
        """Whether nodes are numbered level by level, from left to right, with the leaves last."""
        return self.is_canonical and self._has_even_depth()

    def _leaves_to_left_to_right(self, x: np.ndarray) -> np.ndarray:
        """Rows of `x`, given by leaf in the order of :attr:`leaves`, from left to right."""
        if self._is_numbered_by_level:
            return x
        return x[np.searchsorted(self.leaves, self.leaves_left_to_right)]

    def _has_even_depth(self) -> bool:
        """Whether all leaves lie equally deep: then each level's parents are the level above."""
        first, above = self._level_start[1:-1], self._level_start[:-2]
        return bool(np.all(self._position_parent[first] >= above))

    # ------------------------------------------------------------------ neighbours

    @property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """Child lists: children of i are child[start[i]:start[i + 1]], ascending."""

        def compute() -> np.ndarray:
            lists = np.zeros(2 * self.n + 1, dtype=self._parent.dtype)
            lists[: self.n] = self.child_count
            kernels.group_children(self._parent, lists[: self.n + 1], lists[self.n + 1 :])
            return lists

        lists = self._derive("children", compute)
        return lists[: self.n + 1], lists[self.n + 1 :]

    @property
    def _child_lists(self) -> ChildLists:
        """The same lists for kernels, with the place of each node in them."""

        def compute() -> np.ndarray:
            place = np.zeros(self.n, dtype=self._parent.dtype)
            kernels.invert(unsigned(self._children[1][: self.n - 1]), unsigned(place))
            return place

        start, child = self._children
        place = self._derive("place", compute)
        return ChildLists(unsigned(start), unsigned(child[: self.n - 1]), unsigned(place))

    @property
    def _brief_child_lists(self) -> BriefChildLists:
        """The same lists; None for `child` and `place` in a tree numbered level by level.

        Place k holds node k + 1 there and `start` ends with the inner nodes: kernels compute the
        rest from the number of a node, which saves two arrays.
        """
        if not self._is_numbered_by_level:
            return self._child_lists

        def compute() -> np.ndarray:
            start = np.zeros(self.n_internal + 1, dtype=self._parent.dtype)
            np.cumsum(self.child_count[: self.n_internal], out=start[1:])
            return start

        return unsigned(self._derive("family_start", compute)), None, None

    # ------------------------------------------------------------------ canonical positions

    def to_positions(self, v: np.ndarray) -> np.ndarray:
        """Rows of `v`, given by node, in canonical order; `v` itself if that is the same."""
        return v if self._order is None else v[self._order]

    def from_positions(self, v: np.ndarray) -> np.ndarray:
        """Rows of `v`, given in canonical order, by node; `v` itself if that is the same."""
        if self._order is None:
            return v
        out = np.empty_like(v)
        out[self._order] = v
        return out

    @property
    def _leaf_index(self) -> slice | np.ndarray:
        """Index of :attr:`leaves`; a slice, which moves memory in one go, where possible."""
        return slice(self.n_internal, self.n) if self.is_canonical else self.leaves

    # ------------------------------------------------------------------ layouts for sweeps

    @property
    def _layout(self) -> _sweep.Layout:
        """Canonical positions, which threads can share."""
        layout = self._cache.get("layout")
        if layout is None:
            layout = self._cache["layout"] = _sweep.Layout(
                parent=unsigned(self._position_parent),
                order=None if self._order is None else unsigned(self._order),
                n_inner=self.n_internal,
                segments=_sweep.segment_levels(self._level_start, self.n_internal),
            )
        return layout

    @property
    def _natural_layout(self) -> _sweep.Layout:
        """The caller's own order where its parents come first: nothing is looked up."""
        if self.is_canonical or not self._parents_first:
            return self._layout
        return _sweep.Layout(unsigned(self._parent), None, self.n, ((1, self.n, False),))
