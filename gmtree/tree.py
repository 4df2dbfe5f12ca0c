"""`Tree`: a rooted tree as flat, frozen arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gmtree import _inputs, _order, _sweep
from gmtree import _validate as check
from gmtree._kernels import order as kernels
from gmtree.pairs import PathIndex, sums_from_root


class Tree:
    """A rooted tree of any shape, in the caller's own numbering.

    Build one with :meth:`from_parents`, :meth:`from_edges`, :meth:`from_levels`,
    :meth:`from_linkage`, :meth:`from_networkx` or with :mod:`gmtree.shapes`. A tree never
    changes: its arrays are read-only and may be shared between threads.

    Inside, nodes are kept in *canonical order*: by descending height, ties by the position of
    the parent, then by number. Sweeps in that order stream through memory. Everything you pass
    in or get out stays in your numbering.

    A tree keeps at most 16 bytes per node (4 when your numbering is canonical already).
    Properties that are one array per node are computed on first use and kept.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    >>> tree
    Tree(n=5, internal=2, leaves=3, height=3)
    >>> tree.leaves
    array([3, 4, 2], dtype=int32)
    >>> tree.aggregate([10, 20, 5])
    array([35, 30,  5, 10, 20])
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_labels",
        "_level_names",
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
    _labels: np.ndarray | None
    _level_names: tuple[str, ...] | None
    _cache: dict[str, Any]

    def __init__(self) -> None:
        raise TypeError("Use Tree.from_parents or another constructor to make a tree.")

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_parents(cls, parent: Any, *, labels: Any = None) -> Tree:
        """Make a tree from the parent of each node.

        Parameters
        ----------
        parent : array of int
            ``parent[i]`` is the parent of node i, -1 for the root. Nodes may be numbered in
            any way.
        labels : array, optional
            One distinct label per node.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_parents([2, 2, -1]).root
        2
        """
        own = check.parent_vector("parent", parent)
        if labels is not None:
            labels = _inputs.distinct_labels("labels", labels, own.size)
        return cls._build("parent", own, labels=labels)

    @classmethod
    def from_edges(cls, child: Any, parent: Any) -> Tree:
        """Make a tree from its edges, given as two columns of labels.

        Nodes are numbered by sorted label, so the integer labels 0 to n-1 keep their numbers;
        labels that cannot be sorted are numbered by first appearance. The root is the one
        label that is no child; a row with a missing parent (None or NaN) may also name it.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_edges(["kitten", "lion", "cat"], ["cat", "feline", "feline"])
        >>> tree.path(tree.node("kitten"))
        ('feline', 'cat', 'kitten')
        """
        own, labels = _inputs.from_edges(child, parent)
        return cls._build("parent", own, labels=labels)

    @classmethod
    def from_levels(cls, *columns: Any, levels: Sequence[str] | None = None) -> Tree:
        """Make a tree from one column per level, coarse to fine, with one row per leaf.

        Pass the columns, or one frame (anything indexed by column name: pandas, polars, a
        dict) and the names of its columns in `levels`. A node is known by its path, so two
        counties of one name in different states are two nodes. Inner nodes are numbered level
        by level in order of appearance; the leaf of row j is node ``n - rows + j``.

        When the first column holds a single label, that is the root; otherwise a root with
        the label ``'total'`` is put above it.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
        >>> tree
        Tree(n=6, internal=3, leaves=3, height=3)
        >>> tree.node(("VT", "Orange")), tree.path(5)
        (5, ('total', 'VT', 'Orange'))
        """
        own, labels, names = _inputs.from_levels(columns, levels)
        tree = cls._build("levels", own, labels=labels)
        tree._level_names = names
        return tree

    @classmethod
    def from_linkage(cls, Z: Any) -> Tree:
        """Make a tree from a linkage matrix of :mod:`scipy.cluster.hierarchy`.

        Nodes keep scipy's numbers: observations first, then clusters in the order they were
        formed, the root last.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_linkage([[0, 1, 0.5, 2], [2, 3, 0.9, 3]])
        >>> tree.parent
        array([ 3,  3,  4,  4, -1], dtype=int32)
        """
        return cls._build("Z", _inputs.from_linkage(Z))

    @classmethod
    def from_networkx(cls, graph: Any) -> Tree:
        """Make a tree from a networkx digraph whose edges go from parent to child.

        Nodes are numbered in the order of ``graph.nodes``, which become the labels.
        """
        own, labels = _inputs.from_networkx(graph)
        return cls._build("graph", own, labels=labels)

    @classmethod
    def _build(cls, argument: str, parent: np.ndarray, *, labels: np.ndarray | None = None) -> Tree:
        """Make a tree of `parent`, our own copy with entries in range."""
        found = _order.canonical(argument, parent, labels)
        tree = cls._assemble(parent, *found[:3], labels)
        tree._parents_first = found.parents_first
        return tree

    @classmethod
    def _assemble(
        cls,
        parent: np.ndarray,
        order: np.ndarray | None,
        position_parent: np.ndarray,
        level_start: np.ndarray,
        labels: np.ndarray | None = None,
        level_names: tuple[str, ...] | None = None,
    ) -> Tree:
        tree = object.__new__(cls)
        for array in (parent, order, position_parent, level_start):
            if array is not None:
                array.flags.writeable = False
        if labels is not None:
            labels = labels.copy()
            labels.flags.writeable = False
        tree._parent, tree._order = parent, order
        tree._position_parent, tree._level_start = position_parent, level_start
        tree._labels, tree._level_names = labels, level_names
        tree._parents_first = order is None
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

    def __repr__(self) -> str:
        return (
            f"Tree(n={self.n}, internal={self.n_internal}, "
            f"leaves={self.n_leaves}, height={self.height})"
        )

    def __eq__(self, other: object) -> bool:
        """Same parents and same labels."""
        if not isinstance(other, Tree):
            return NotImplemented
        if self is other:
            return True
        if self._labels is None or other._labels is None:
            same_labels = self._labels is other._labels
        else:
            same_labels = np.array_equal(self._labels, other._labels)
        return same_labels and np.array_equal(self._parent, other._parent)

    def __hash__(self) -> int:
        return hash((self.n, self.n_internal, self.height, self.root))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._parent, self._labels, self._level_names)

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
            kernels.invert(order, rank)
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
        """Leaves from left to right: depth first, siblings by ascending number."""
        return self._derive("leaves", self._find_leaves)

    @property
    def internal(self) -> np.ndarray:
        """Nodes that have children, ascending: the nodes of ``subtree(1)``."""
        if self.is_canonical:
            return np.arange(self.n_internal, dtype=self._parent.dtype)
        return np.sort(self.order[: self.n_internal])

    def _find_leaves(self) -> np.ndarray:
        dtype = self._parent.dtype
        if self.is_canonical and self._has_even_depth():
            return np.arange(self.n_internal, self.n, dtype=dtype)
        start, child = self._children
        leaves = np.empty(self.n_leaves, dtype)
        kernels.leaves_left_to_right(self.root, start, child, np.empty(self.n, dtype), leaves)
        return leaves

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

    def children(self, i: int) -> np.ndarray:
        """Children of node i, ascending.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(3, 2).children(0)
        array([1, 2, 3], dtype=int32)
        """
        i = check.node_number("i", i, self.n)
        start, child = self._children
        return child[start[i] : start[i + 1]]

    def path(self, i: int) -> tuple[Any, ...]:
        """Labels (numbers where there are none) from the root down to node i."""
        i = check.node_number("i", i, self.n)
        found = []
        while i >= 0:
            found.append(i)
            i = int(self._parent[i])
        found.reverse()
        return tuple(found) if self._labels is None else tuple(self._labels[found].tolist())

    # ------------------------------------------------------------------ pairs of nodes

    @property
    def _paths(self) -> PathIndex:
        """The index behind questions about pairs, built on first use and kept."""
        index = self._cache.get("paths")
        if index is None:
            layout = self._natural_layout
            rank = None if layout.order is None else _unsigned(self.rank)
            index = self._cache["paths"] = PathIndex(layout, rank)
        return index

    def is_ancestor(self, i: Any, j: Any) -> Any:
        """Whether node i is node j or one of its ancestors.

        This is entry (j, i) of the inverse of the structure matrix. Arrays of nodes are
        broadcast, and answered pair by pair.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.complete(2, 3)
        >>> tree.is_ancestor(1, 4), tree.is_ancestor(4, 1), tree.is_ancestor(4, 4)
        (True, False, True)
        >>> tree.is_ancestor(1, [2, 3, 4, 5])
        array([False,  True,  True, False])
        """
        return _plain(self._paths.is_ancestor(i, j))

    def lca(self, i: Any, j: Any) -> Any:
        """Lowest common ancestor of nodes i and j; a node counts as its own ancestor.

        The first question about a pair prepares an index in O(n), which is kept; after that a
        pair takes at most O(log n) steps. Arrays of nodes are broadcast.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.complete(2, 3)
        >>> tree.lca(3, 4), tree.lca(3, 5), tree.lca(3, 1)
        (1, 0, 1)
        >>> tree.lca([3, 5], [4, 6])
        array([1, 2], dtype=int32)
        """
        return _plain(self._paths.lca(i, j))

    def common_ancestors(self, i: Any, j: Any) -> Any:
        """Number of common ancestors of nodes i and j: the depth of :meth:`lca`.

        Nodes count as their own ancestors, so that ``common_ancestors(i, i)`` is the depth of
        i. This is entry (i, j) of the inverse of ``G.T @ G``, with G the structure matrix.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.complete(2, 3)
        >>> tree.common_ancestors(3, [3, 4, 5])
        array([3, 2, 1])
        """
        return _plain(self.depth[self._paths.lca(i, j)].astype(np.int64))

    def distance(self, i: Any, j: Any, edge: Any = None) -> Any:
        """Number of edges between nodes i and j, or the sum of their lengths.

        Parameters
        ----------
        i, j : int or array of int
            Nodes; arrays are broadcast.
        edge : array of n reals, or one number, optional
            Length of the edge from each node to its parent (the root's entry is ignored). The
            sums from the root are computed anew in each call, so ask for many pairs at once.

        Notes
        -----
        Lengths that are integers are summed exactly. Others are rounded relative to the
        distance from the root, as the path between two nodes is the difference of such sums.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.complete(2, 3)
        >>> tree.distance(3, [3, 1, 4, 5])
        array([0, 1, 2, 4])
        >>> tree.distance(3, 5, edge=[0, 10, 20, 1, 2, 3, 4])
        34
        """
        from_root = self.depth
        if edge is not None:
            from_root = sums_from_root("edge", edge, self._natural_layout, self.root, self.height)
        return _plain(self._paths.path_sums(i, j, from_root))

    # ------------------------------------------------------------------ labels

    @property
    def labels(self) -> np.ndarray | None:
        """Label of each node, or None for a tree made without labels."""
        return self._labels

    @property
    def level_names(self) -> tuple[str, ...] | None:
        """Names of the levels a tree was made from by :meth:`from_levels`, else None."""
        return self._level_names

    def node(self, label: Any) -> int:
        """Number of the node with this label, or with this path of labels (a tuple).

        A path may start at the root or just below it. A label that several nodes share, as
        can happen in a tree made from levels, needs a path.
        """
        if self._labels is None:
            check.fail("label", "cannot be looked up: this tree was made without labels.")
        index, inner = self._label_index()
        try:
            i = index.get(label)
        except TypeError:
            check.fail_type("label", f"must be hashable, not {label!r}.")
        if i is not None and i >= 0:
            return i
        if i is None and isinstance(label, tuple) and label:
            i = self.root
            steps = label[1:] if label and label[0] == self._labels[i] else label
            for step in steps:
                i = inner.get((i, step))
                if i is None:
                    break
            if i is not None:
                return i
        if i is not None:
            check.fail(
                "label", f"must name one node; several are called {label!r}: give a path (a tuple)."
            )
        check.fail("label", f"must be a label of this tree, not {label!r}.")

    def _label_index(self) -> tuple[dict[Any, int], dict[tuple[int, Any], int]]:
        """Dictionaries: label -> node (-1: several), (parent, label) -> node."""
        found = self._cache.get("label_index")
        if found is None:
            assert self._labels is not None
            index: dict[Any, int] = {}
            inner: dict[tuple[int, Any], int] = {}
            pairs = zip(self._labels.tolist(), self._parent.tolist(), strict=True)
            for i, (label, parent) in enumerate(pairs):
                index[label] = -1 if label in index else i
                inner[parent, label] = i
            found = self._cache["label_index"] = (index, inner)
        return found

    # ------------------------------------------------------------------ other numberings

    def canonical(self) -> Tree:
        """The same tree renumbered by canonical position: its G is lower triangular.

        Node r of the result is node ``tree.order[r]`` of this one.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_parents([2, 2, -1]).canonical().parent
        array([-1,  0,  0], dtype=int32)
        """
        if self.is_canonical:
            return self
        labels = None if self._labels is None else self._labels[self._order]
        parent = self._position_parent
        return self._assemble(parent, None, parent, self._level_start, labels, self._level_names)

    def subtree(self, k: int) -> Tree:
        """The k-order subtree: what is left after removing all leaves k times.

        It has the nodes of height above k, in the same order of numbers; ``subtree(1)``
        holds the nodes :attr:`internal`.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(2, 4).subtree(1) == gm.shapes.complete(2, 3)
        True
        """
        k = check.count("k", k, least=0)
        if k >= self.height:
            check.fail("k", f"must be below the height {self.height}, or nothing is left; got {k}.")
        if k == 0:
            return self
        kept = int(self._level_start[self.height - k])
        if self.is_canonical:
            parent = self._parent[:kept].copy()
            level_start = self._level_start[: self.height - k + 1].copy()
            labels = None if self._labels is None else self._labels[:kept]
            return self._assemble(parent, None, parent, level_start, labels)
        nodes = np.sort(self.order[:kept])
        number = np.full(self.n, -1, dtype=self._parent.dtype)
        number[nodes] = np.arange(kept)
        above = self._parent[nodes]
        parent = np.where(above < 0, above, number[above])
        labels = None if self._labels is None else self._labels[nodes]
        return self._build("k", parent.astype(check.index_dtype(kept)), labels=labels)

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

    # ------------------------------------------------------------------ sums over leaves

    def aggregate(self, x: Any, *, out: np.ndarray | None = None) -> np.ndarray:
        """Values of all nodes from those of the leaves: each node the sum of its children.

        Parameters
        ----------
        x : array of shape (n_leaves,) or (n_leaves, k)
            Leaf values in the order of :attr:`leaves`. Integers are summed exactly.
        out : array, optional
            Where to put the result.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(2, 3).aggregate([1, 2, 3, 4])
        array([10,  3,  7,  1,  2,  3,  4])
        """
        leaf_values = check.values("x", x, self.n_leaves, per="leaf")
        shape = (self.n, *leaf_values.shape[1:])

        def build(x: np.ndarray, out: np.ndarray) -> None:
            out[:] = 0
            out[self._leaf_index] = x
            _sweep.accumulate(self._natural_layout, out, out)

        return _sweep.deliver(
            build, "x", leaf_values, out, shape, leaf_values.dtype, growth=self.n_leaves
        )

    def restrict(self, v: Any) -> np.ndarray:
        """Values of the leaves, in the order of :attr:`leaves`: the inverse of `aggregate`."""
        return check.values("v", v, self.n)[self.leaves]

    @property
    def _leaf_index(self) -> slice | np.ndarray:
        """Index of :attr:`leaves`; a slice, which moves memory in one go, where possible."""
        if self.is_canonical and self._has_even_depth():
            return slice(self.n_internal, self.n)
        return self.leaves

    # ------------------------------------------------------------------ layouts for sweeps

    @property
    def _layout(self) -> _sweep.Layout:
        """Canonical positions, which threads can share."""
        layout = self._cache.get("layout")
        if layout is None:
            layout = self._cache["layout"] = _sweep.Layout(
                parent=_unsigned(self._position_parent),
                order=None if self._order is None else _unsigned(self._order),
                n_inner=self.n_internal,
                segments=_sweep.segment_levels(self._level_start, self.n_internal),
            )
        return layout

    @property
    def _natural_layout(self) -> _sweep.Layout:
        """The caller's own order where its parents come first: nothing is looked up."""
        if self.is_canonical or not self._parents_first:
            return self._layout
        return _sweep.Layout(_unsigned(self._parent), None, self.n, ((1, self.n, False),))


def _rebuild(
    parent: np.ndarray, labels: np.ndarray | None, level_names: tuple[str, ...] | None
) -> Tree:
    tree = Tree._build("parent", check.parent_vector("parent", parent), labels=labels)
    tree._level_names = level_names
    return tree


def _plain(answer: np.ndarray) -> Any:
    """An answer about a single pair as a plain number."""
    return answer.item() if answer.ndim == 0 else answer


def _unsigned(index: np.ndarray) -> np.ndarray:
    return index.view(f"u{index.dtype.itemsize}")
