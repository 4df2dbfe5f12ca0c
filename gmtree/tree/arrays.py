"""A rooted tree as flat, read-only arrays: its size, node properties, and layouts for sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree._kernels import order as kernels
from gmtree._sweep import unsigned
from gmtree.tree.order import positions
from gmtree.tree.pairs import PathIndex


class ChildLists(NamedTuple):
    """The children of every node, in the caller's numbering, as unsigned arrays for kernels.

    The children of node i are ``child[start[i]:start[i + 1]]``, ascending, and ``child[place[i]]``
    is i itself.
    """

    start: np.ndarray
    child: np.ndarray
    place: np.ndarray


BriefChildLists = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]


class TreeArrays:
    """The structure of a `Tree`: all of its arrays except the labels.

    Each property with one entry per node is computed on first use and cached.
    """

    __slots__ = (
        "__weakref__",
        "_by_height",
        "_cache",
        "_level_start",
        "_order",
        "_parent",
        "_parents_first",
        "_position_parent",
    )

    # `_order` and `_position_parent` are indexed by sweep position, which is the canonical position
    # if `_by_height` is true; see `gmtree.tree.order.Positions`.
    _parent: np.ndarray
    _order: np.ndarray | None
    _by_height: bool
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
        """Number of nodes on the longest path from the root to a leaf; 1 for a single node."""
        return self._level_start.size - 1

    @property
    def n_levels(self) -> int:
        """Number of levels, including that of the root: another name for :attr:`height`."""
        return self.height

    @property
    def root(self) -> int:
        """Number of the root."""
        return 0 if self._order is None else int(self._order[0])

    @property
    def nbytes(self) -> int:
        """Bytes held by the tree, including the arrays cached so far, but not the labels."""
        arrays = [self._parent, self._level_start]
        if self._order is not None:
            arrays += [self._order, self._position_parent]
        held = [a for a in self._cache.values() if isinstance(a, (np.ndarray, PathIndex))]
        return sum(a.nbytes for a in [*arrays, *held])

    @property
    def is_canonical(self) -> bool:
        """Whether the numbering is canonical, so that sweeps need no permutation."""
        return self._order is None

    def __len__(self) -> int:
        return self.n

    # ------------------------------------------------------------------ arrays per node

    def _derive(self, name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the cached array `name`, computed on first use.

        Two threads may both compute it, with equal results.
        """
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
        if self._by_height:
            return self._sweep_order
        return self._derive("order", lambda: self._canonical[0])

    @property
    def rank(self) -> np.ndarray:
        """``rank[i]`` is the canonical position of node i."""
        if self._by_height:
            return self._sweep_rank
        return self._derive("rank", lambda: _inverse(self.order))

    @property
    def _sweep_order(self) -> np.ndarray:
        """Node at each sweep position."""
        if self._order is not None:
            return self._order
        return self._derive("sweep_order", lambda: np.arange(self.n, dtype=self._parent.dtype))

    @property
    def _sweep_rank(self) -> np.ndarray:
        """Sweep position of each node."""
        if self._order is None:
            return self._sweep_order
        order = self._order
        return self._derive("sweep_rank", lambda: _inverse(order))

    @property
    def _canonical(self) -> tuple[np.ndarray, np.ndarray]:
        """Node at each canonical position, and the canonical position of its parent."""
        if self._by_height:
            return self._sweep_order, self._position_parent
        found = positions("parent", self._parent, None, by_height=True)
        assert found.order is not None
        return found.order, found.position_parent

    @property
    def node_height(self) -> np.ndarray:
        """Height of each node: 1 for a leaf, otherwise 1 plus the largest height of a child."""

        def compute() -> np.ndarray:
            heights = np.empty_like(self._parent)
            by_level = np.arange(self.height, 0, -1, dtype=heights.dtype)
            heights[self.order] = np.repeat(by_level, np.diff(self._level_start))
            return heights

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
        """Number of nodes in the subtree of each node, including the node itself."""

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
            kernels.count_children(self._parent, counts)
            return counts

        return self._derive("child_count", compute)

    @property
    def leaves(self) -> np.ndarray:
        """Leaves by ascending number. Every vector with one entry per leaf is in this order.

        For a tree made by :meth:`from_levels` this is the order of the rows. For one made by
        :meth:`from_linkage` it is the order of the observations.
        """
        return self._derive("leaves", self._find_leaves)

    @property
    def leaves_left_to_right(self) -> np.ndarray:
        """Leaves in depth-first order, so that the leaves of every subtree are consecutive.

        Siblings are visited by ascending number. Ranges of leaves (:mod:`gmtree.queries`,
        ``range_variance``, ``Release.range_sum``) count in this order. Vectors with one entry per
        leaf are in the order of :attr:`leaves`.

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
        """Nodes that have children, ascending: the nodes of ``k_order_subtree(1)``."""
        if self.is_canonical:
            return np.arange(self.n_internal, dtype=self._parent.dtype)
        return np.sort(self._sweep_order[: self.n_internal])

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
        """Indices into `nodes`, in the order in which a depth-first walk meets these nodes."""
        start, child = (unsigned(a) for a in self._children)
        number, stack = np.empty((2, self.n), start.dtype)
        kernels.depth_first(np.uint64(self.root), start, child, stack, number)
        return np.argsort(number[nodes], kind="stable")

    @property
    def _is_numbered_by_level(self) -> bool:
        """Whether nodes are numbered level by level, from left to right, with the leaves last."""
        return self.is_canonical and self._has_even_depth()

    def _leaves_to_left_to_right(self, x: np.ndarray) -> np.ndarray:
        """Rows of `x`, given in the order of :attr:`leaves`, reordered from left to right."""
        if self._is_numbered_by_level:
            return x
        return x[np.searchsorted(self.leaves, self.leaves_left_to_right)]

    def _has_even_depth(self) -> bool:
        """Whether all leaves have equal depth, so that nodes of equal height have equal depth."""
        first, above = self._level_start[1:-1], self._level_start[:-2]
        return bool(np.all(self._position_parent[first] >= above))

    # ------------------------------------------------------------------ neighbours

    @property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """Arrays (start, child): the children of i are child[start[i]:start[i + 1]], ascending."""

        def compute() -> np.ndarray:
            lists = np.zeros(2 * self.n + 1, dtype=self._parent.dtype)
            lists[: self.n] = self.child_count
            kernels.group_children(self._parent, lists[: self.n + 1], lists[self.n + 1 :])
            return lists

        lists = self._derive("children", compute)
        return lists[: self.n + 1], lists[self.n + 1 :]

    @property
    def _child_lists(self) -> ChildLists:
        """Lists of children for kernels, with the index of each node in them."""

        def compute() -> np.ndarray:
            place = np.zeros(self.n, dtype=self._parent.dtype)
            kernels.invert(unsigned(self._children[1][: self.n - 1]), unsigned(place))
            return place

        start, child = self._children
        place = self._derive("place", compute)
        return ChildLists(unsigned(start), unsigned(child[: self.n - 1]), unsigned(place))

    @property
    def _brief_child_lists(self) -> BriefChildLists:
        """Lists of children for kernels; `child` and `place` are None in trees numbered by level.

        In a tree numbered by level, ``child[k]`` is always k + 1, so that kernels need no such
        arrays. Its `start` has entries for internal nodes only.
        """
        if not self._is_numbered_by_level:
            return self._child_lists

        def compute() -> np.ndarray:
            start = np.zeros(self.n_internal + 1, dtype=self._parent.dtype)
            np.cumsum(self.child_count[: self.n_internal], out=start[1:])
            return start

        return unsigned(self._derive("family_start", compute)), None, None

    # ------------------------------------------------------------------ positions in sweeps

    def _to_positions(self, v: np.ndarray) -> np.ndarray:
        """Rows of `v` reordered from nodes to sweep positions; `v` itself if both orders agree."""
        return v if self._order is None else v[self._order]

    def _from_positions(self, v: np.ndarray) -> np.ndarray:
        """Rows of `v` reordered from sweep positions to nodes; `v` itself if both orders agree."""
        if self._order is None:
            return v
        out = np.empty_like(v)
        out[self._order] = v
        return out

    @property
    def _leaf_index(self) -> slice | np.ndarray:
        """Index of the leaves: a slice if they are consecutive, since slices copy faster."""
        return slice(self.n_internal, self.n) if self.is_canonical else self.leaves

    # ------------------------------------------------------------------ layouts for sweeps

    @property
    def _layout(self) -> _sweep.Layout:
        """The layout of sweep positions, by which threads share a sweep. Leaves come last."""
        layout = self._cache.get("layout")
        if layout is None:
            layout = self._cache["layout"] = _sweep.Layout(
                parent=unsigned(self._position_parent),
                order=None if self._order is None else unsigned(self._order),
                n_inner=self.n_internal,
                segments=self._segments(),
            )
        return layout

    def _segments(self, width: int = 1) -> tuple[_sweep.Segment, ...]:
        """The segments of :attr:`_layout` for values with `width` columns."""
        if self._by_height:
            return _sweep.segment_levels(self._level_start, self.n_internal, width)
        return _sweep.segment_numbers(unsigned(self._position_parent), self.n_internal, width)

    @property
    def _natural_layout(self) -> _sweep.Layout:
        """The layout in the caller's numbering if parents come first there, else `_layout`."""
        if self.is_canonical or not self._parents_first:
            return self._layout
        return _sweep.Layout(unsigned(self._parent), None, self.n, ((1, self.n, False),))


def _inverse(order: np.ndarray) -> np.ndarray:
    """The inverse of a permutation: the index of each number in `order`."""
    rank = np.empty_like(order)
    kernels.invert(unsigned(order), unsigned(rank))
    return rank
