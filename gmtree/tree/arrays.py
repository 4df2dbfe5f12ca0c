"""A rooted tree as flat, read-only arrays: its nodes, their labels, and layouts for sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import numpy as np

from gmtree import _sweep
from gmtree._kernels import order as kernels
from gmtree._sweep import unsigned
from gmtree.tree.order import Positions, positions
from gmtree.tree.pairs import PathIndex

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class Cached(property, Generic[T]):
    """A property that a tree computes on first use and then keeps; arrays become read-only.

    Two threads may both compute it, with equal results.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(compute)
        self._compute = compute

    @overload
    def __get__(self, tree: None, owner: type, /) -> Self: ...

    @overload
    def __get__(self, tree: Any, owner: type | None = None, /) -> T: ...

    def __get__(self, tree: Any, owner: Any = None, /) -> Any:
        if tree is None:
            return self
        name = self._compute.__name__
        found = tree._cache.get(name)
        if found is None:
            found = self._compute(tree)
            if isinstance(found, np.ndarray):
                found.flags.writeable = False
            tree._cache[name] = found
        return found


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
    """The arrays of a `Tree`, from which its methods compute everything else."""

    __slots__ = (
        "__weakref__",
        "_by_height",
        "_cache",
        "_edge_length",
        "_from_records",
        "_labels",
        "_level_names",
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
    _labels: Any  # an array, None, or an object that becomes an array on demand
    _edge_length: np.ndarray | None
    _level_names: tuple[str, ...] | None
    _from_records: bool  # whether the leaves are those that occur in records, which may be private

    # ------------------------------------------------------------------ making

    @classmethod
    def _build(cls, argument: str, parent: np.ndarray, labels: Any = None, **more: Any) -> Self:
        """Make a tree from `parent`: a private copy whose entries are all in -1..n-1."""
        return cls._assemble(parent, positions(argument, parent, labels), labels, **more)

    @classmethod
    def _assemble(
        cls,
        parent: np.ndarray,
        found: Positions,
        labels: Any = None,
        *,
        level_names: tuple[str, ...] | None = None,
        edge_length: np.ndarray | None = None,
        from_records: bool = False,
    ) -> Self:
        """Make a tree from a parent array and its positions, neither of which is checked."""
        tree = object.__new__(cls)
        for array in (parent, *found[:3], edge_length):
            if array is not None:
                array.flags.writeable = False
        if isinstance(labels, np.ndarray):
            labels = labels.copy()
            labels.flags.writeable = False
        tree._parent = parent
        tree._order, tree._position_parent, tree._level_start = found[:3]
        tree._parents_first, tree._by_height = found.parents_first, found.by_height
        tree._labels, tree._level_names = labels, level_names
        tree._edge_length, tree._from_records = edge_length, from_records
        tree._cache = {}
        return tree

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
        own = self._parent, self._level_start, self._order, self._position_parent
        held = {id(a): a for a in (*own, *self._cache.values())}
        return sum(a.nbytes for a in held.values() if isinstance(a, (np.ndarray, PathIndex)))

    @property
    def is_canonical(self) -> bool:
        """Whether the numbering is canonical, so that sweeps need no permutation."""
        return self._order is None

    def __len__(self) -> int:
        return self.n

    # ------------------------------------------------------------------ arrays per node

    @property
    def parent(self) -> np.ndarray:
        """Parent of each node, -1 for the root; read-only."""
        return self._parent

    @Cached
    def order(self) -> np.ndarray:
        """``order[r]`` is the node at canonical position r."""
        return self._canonical[0]

    @Cached
    def rank(self) -> np.ndarray:
        """``rank[i]`` is the canonical position of node i."""
        return self._sweep_rank if self._by_height else _inverse(self.order)

    @Cached
    def _sweep_rank(self) -> np.ndarray:
        """Sweep position of each node."""
        return self._sweep_order if self._order is None else _inverse(self._order)

    @Cached
    def _sweep_order(self) -> np.ndarray:
        """Node at each sweep position."""
        return np.arange(self.n, dtype=self._parent.dtype) if self._order is None else self._order

    @property
    def _canonical(self) -> tuple[np.ndarray, np.ndarray]:
        """Node at each canonical position, and the canonical position of its parent."""
        if self._by_height:
            return self._sweep_order, self._position_parent
        found = positions("parent", self._parent, None, by_height=True)
        assert found.order is not None
        return found.order, found.position_parent

    @Cached
    def node_height(self) -> np.ndarray:
        """Height of each node: 1 for a leaf, otherwise 1 plus the largest height of a child."""
        heights = np.empty_like(self._parent)
        by_level = np.arange(self.height, 0, -1, dtype=heights.dtype)
        heights[self.order] = np.repeat(by_level, np.diff(self._level_start))
        return heights

    @Cached
    def depth(self) -> np.ndarray:
        """Number of nodes on the path from the root to each node; 1 at the root."""
        depth = np.ones(self.n, dtype=self._parent.dtype)
        _sweep.propagate(self._natural_layout, depth, depth)
        return depth

    @Cached
    def subtree_size(self) -> np.ndarray:
        """Number of nodes in the subtree of each node, including the node itself."""
        size = np.ones(self.n, dtype=self._parent.dtype)
        _sweep.accumulate(self._natural_layout, size, size)
        return size

    @Cached
    def child_count(self) -> np.ndarray:
        """Number of children of each node."""
        counts = np.zeros(self.n, dtype=self._parent.dtype)
        kernels.count_children(self._parent, counts)
        return counts

    @Cached
    def leaves(self) -> np.ndarray:
        """Leaves by ascending number. Every vector with one entry per leaf is in this order.

        For a tree made by :meth:`from_levels` this is the order of the rows. For one made by
        :meth:`from_linkage` it is the order of the observations.
        """
        if self.is_canonical:
            return np.arange(self.n_internal, self.n, dtype=self._parent.dtype)
        return np.flatnonzero(self.child_count == 0).astype(self._parent.dtype)

    @Cached
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
        walk = self._walk()
        return walk[self.child_count[walk] == 0]

    @property
    def internal(self) -> np.ndarray:
        """Nodes that have children, ascending: the nodes of ``k_order_subtree(1)``."""
        if self.is_canonical:
            return np.arange(self.n_internal, dtype=self._parent.dtype)
        return np.sort(self._sweep_order[: self.n_internal])

    def _depth_first(self, nodes: np.ndarray) -> np.ndarray:
        """Indices into `nodes`, in the order in which a depth-first walk meets these nodes."""
        return np.argsort(_inverse(self._walk())[nodes], kind="stable")

    def _walk(self) -> np.ndarray:
        """All nodes, in the order in which a depth-first walk meets them."""
        start, child = (unsigned(a) for a in self._children)
        walk, stack = np.empty((2, self.n), start.dtype)
        kernels.depth_first(np.uint64(self.root), start, child, stack, walk)
        return walk.view(self._parent.dtype)

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

    # ------------------------------------------------------------------ labels and lengths

    @property
    def labels(self) -> np.ndarray | None:
        """Label of each node, or None for a tree made without labels."""
        if self._labels is None or isinstance(self._labels, np.ndarray):
            return self._labels
        return self._label_array

    @Cached
    def _label_array(self) -> np.ndarray:
        """The labels as an array, if they are stored in another form."""
        return np.asarray(self._labels)

    @property
    def edge_length(self) -> np.ndarray | None:
        """Length of the edge from each node to its parent, or None.

        A missing length is NaN, and the entry of the root has no meaning. None if the tree has no
        lengths. :meth:`distance` uses these lengths by default.
        """
        return self._edge_length

    def _attributes(self, nodes: Any) -> dict[str, Any]:
        """Keywords of :meth:`_assemble` for a tree of some nodes of this one."""
        return {
            "labels": None if self._labels is None else self._labels[nodes],
            "edge_length": None if self._edge_length is None else self._edge_length[nodes],
            "from_records": self._from_records,
        }

    @property
    def level_names(self) -> tuple[str, ...] | None:
        """Names of the levels from which :meth:`from_levels` made the tree, else None."""
        return self._level_names

    # ------------------------------------------------------------------ lists of children

    @Cached
    def _grouped_children(self) -> np.ndarray:
        """Both arrays of :attr:`_children`, one after the other."""
        lists = np.zeros(2 * self.n + 1, dtype=self._parent.dtype)
        lists[: self.n] = self.child_count
        kernels.group_children(self._parent, lists[: self.n + 1], lists[self.n + 1 :])
        return lists

    @property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """Arrays (start, child): the children of i are child[start[i]:start[i + 1]], ascending."""
        return self._grouped_children[: self.n + 1], self._grouped_children[self.n + 1 :]

    @Cached
    def _child_place(self) -> np.ndarray:
        """Index of each node in the list of all children."""
        place = np.zeros(self.n, dtype=self._parent.dtype)
        kernels.invert(unsigned(self._children[1][: self.n - 1]), unsigned(place))
        return place

    @property
    def _child_lists(self) -> ChildLists:
        """Lists of children for kernels, with the index of each node in them."""
        start, child = self._children
        arrays = start, child[: self.n - 1], self._child_place
        return ChildLists(*map(unsigned, arrays))

    @property
    def _brief_child_lists(self) -> BriefChildLists:
        """Lists of children for kernels; `child` and `place` are None in trees numbered by level.

        In a tree numbered by level, ``child[k]`` is always k + 1, so that kernels need no such
        arrays. Its `start` has entries for internal nodes only.
        """
        if not self._is_numbered_by_level:
            return self._child_lists
        return unsigned(self._family_start), None, None

    @Cached
    def _family_start(self) -> np.ndarray:
        """In a canonical tree: for each internal node, the number of children of earlier nodes."""
        start = np.zeros(self.n_internal + 1, dtype=self._parent.dtype)
        np.cumsum(self.child_count[: self.n_internal], out=start[1:])
        return start

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

    @Cached
    def _layout(self) -> _sweep.Layout:
        """The layout of sweep positions, by which threads share a sweep. Leaves come last."""
        return _sweep.Layout(
            parent=unsigned(self._position_parent),
            order=None if self._order is None else unsigned(self._order),
            n_inner=self.n_internal,
            segments=self._segments(),
        )

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
