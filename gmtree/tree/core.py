"""`Tree`: its constructors and its public properties and methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import order as kernels
from gmtree.labels import distinct
from gmtree.labels import levels as level_columns
from gmtree.readers import edges
from gmtree.tree.arrays import TreeArrays
from gmtree.tree.conversions import TreeConversions
from gmtree.tree.kinship import TreeKinship
from gmtree.tree.order import positions


class Tree(TreeConversions, TreeKinship, TreeArrays):
    """A rooted tree of any shape, in the caller's own numbering.

    Build one with :meth:`from_parents`, :meth:`from_edges`, :meth:`from_levels`,
    :meth:`from_records`, :meth:`from_linkage`, :meth:`from_newick`, :meth:`from_objects`,
    :meth:`from_networkx`, :meth:`from_summing_matrix`, :meth:`from_adjacency`,
    :meth:`from_laplacian`, :meth:`from_distances`, :meth:`from_structure` or with
    :mod:`gmtree.shapes`. A tree never changes: its arrays are read-only and may be shared between
    threads.

    All arguments and results are in your numbering. Internally, sweeps visit the internal nodes in
    this order if parents come before children, as in depth-first numberings. Otherwise they use the
    *canonical order*: descending height, then the position of the parent, then the number of the
    node. Both orders read memory sequentially.

    A tree takes at most 16 bytes per node, and 4 bytes if your numbering is canonical. Properties
    with one entry per node are computed on first use and cached.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    >>> tree
    Tree(n=5, internal=2, leaves=3, height=3)
    >>> tree.leaves
    array([2, 3, 4], dtype=int32)
    >>> tree.aggregate([5, 10, 20])
    array([35, 30,  5, 10, 20])
    """

    __slots__ = ("_edge_length", "_from_records", "_labels", "_level_names")

    _labels: Any  # an array, None, or an object that becomes an array on demand
    _edge_length: np.ndarray | None
    _level_names: tuple[str, ...] | None
    _from_records: bool  # whether the leaves are those that occur in records, which may be private

    def __init__(self) -> None:
        raise TypeError("Use Tree.from_parents or another constructor to make a tree.")

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_parents(cls, parent: Any, *, labels: Any = None) -> Tree:
        """Make a tree from the parent of each node.

        Parameters
        ----------
        parent : array of int
            ``parent[i]`` is the parent of node i, and -1 if i is the root. Parents may have larger
            or smaller numbers than their children.
        labels : array, optional
            Distinct labels, one per node. By default the tree has no labels.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_parents([2, 2, -1]).root
        2
        """
        own = check.parent_vector("parent", parent)
        if labels is not None:
            labels = distinct.distinct_labels("labels", labels, own.size)
        return cls._build("parent", own, labels=labels)

    @classmethod
    def from_edges(cls, child: Any, parent: Any) -> Tree:
        """Make a tree from its edges, given as two columns of labels.

        Nodes are numbered by sorted label, so the integer labels 0 to n-1 keep their numbers.
        Labels that cannot be sorted are numbered by first appearance. The root is the only label
        that never occurs as a child. A row with a missing parent (None or NaN) may also name it.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_edges(["kitten", "lion", "cat"], ["cat", "feline", "feline"])
        >>> tree.path(tree.node("kitten"))
        ('feline', 'cat', 'kitten')
        """
        own, labels = edges.from_edges(child, parent)
        return cls._build("parent", own, labels=labels)

    @classmethod
    def from_levels(
        cls, *columns: Any, levels: Sequence[str] | None = None, missing: str = "error"
    ) -> Tree:
        """Make a tree from one column per level, coarse to fine, with one row per leaf.

        Pass the columns, or a pandas MultiIndex, or one DataFrame (pandas, polars, pyarrow or a
        dict of columns) with the names of its columns in `levels`. Nodes are identified by their
        paths, so two counties with the same name in different states are two nodes. Rows may come
        in any order. Internal nodes are numbered first, level by level in order of appearance. The
        leaves follow in the order of the rows, so that any other column of the DataFrame is a
        vector of leaf values.

        If all rows have the same label in the first column, this label is the root. Otherwise a
        root labelled ``'total'`` is added above the first level.

        Parameters
        ----------
        *columns : columns, a DataFrame or a MultiIndex
        levels : list of str, optional
            Names of the columns of the DataFrame, coarse to fine; by default all of its columns.
        missing : {"error", "stop"}
            With "error", the default, a missing label (None, NaN) is refused. With "stop", the path
            of a row ends above its first missing label, so that leaves may have different depths.

        See Also
        --------
        from_records : for columns in which several rows belong to one leaf.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
        >>> tree
        Tree(n=6, internal=3, leaves=3, height=3)
        >>> tree.node(("VT", "Orange")), tree.path(5)
        (5, ('total', 'VT', 'Orange'))
        """
        return cls._from_level_tree(level_columns.from_levels(columns, levels, missing))

    @classmethod
    def from_records(
        cls, *columns: Any, levels: Sequence[str] | None = None, missing: str = "error"
    ) -> tuple[Tree, np.ndarray]:
        """Make a tree from one column per level, and find the leaf to which each row belongs.

        Several rows may belong to one leaf. The parameters are those of :meth:`from_levels`. Leaves
        are numbered in order of appearance. A private release on such a tree reveals which leaves
        occur in the data, and its ledger records this. To keep this private, make the tree from a
        public list of leaves with :meth:`from_levels`.

        Returns
        -------
        tree : Tree
        leaf : array of int
            For each row, the index of its leaf in :attr:`leaves`, so that ``np.bincount(leaf)``
            counts the rows of each leaf.

        Examples
        --------
        >>> import numpy as np, gmtree as gm
        >>> tree, leaf = gm.Tree.from_records(["NY", "VT", "NY"], ["Albany", "Orange", "Albany"])
        >>> tree.aggregate(np.bincount(leaf))
        array([3, 2, 1, 2, 1])
        """
        made = level_columns.from_levels(columns, levels, missing, records=True)
        tree = cls._from_level_tree(made)
        return tree, made.node - made.node.dtype.type(tree.n_internal)

    @classmethod
    def _from_level_tree(cls, made: level_columns.LevelTree) -> Tree:
        tree = cls._build("levels", made.parent, labels=made.labels)
        tree._level_names, tree._from_records = made.names, made.from_records
        return tree

    @classmethod
    def from_linkage(cls, Z: Any, heights: Any = None) -> Tree:
        """Make a tree from a hierarchical clustering of scipy or scikit-learn.

        Nodes keep the numbers of the clustering: observations come first, then clusters in the
        order in which they were formed, and the root comes last. :attr:`edge_length` becomes half
        the difference between the heights of a node and of its parent. So ``tree.distance(i, j)``
        is the cophenetic distance, which is the height at which i and j were joined.

        Parameters
        ----------
        Z : array of shape (m - 1, 4) or (m - 1, 2)
            A linkage matrix of :mod:`scipy.cluster.hierarchy`, or ``children_`` of scikit-learn.
        heights : array of m - 1 reals, optional
            Height at which each cluster was formed, such as ``distances_`` of scikit-learn. The
            default is the third column of `Z`. If `Z` has only two columns, the tree has no
            lengths.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_linkage([[0, 1, 0.5, 2], [2, 3, 0.9, 3]])
        >>> tree.parent
        array([ 3,  3,  4,  4, -1], dtype=int32)
        >>> tree.distance([0, 0], [1, 2])
        array([0.5, 0.9])
        """
        tree = cls._build("Z", edges.from_linkage(Z))
        return tree._with_lengths(edges.linkage_lengths(Z, heights, tree.parent))

    @classmethod
    def from_networkx(
        cls, graph: Any, *, label: str | None = "label", length: str | None = "weight"
    ) -> Tree:
        """Make a tree from a networkx digraph whose edges go from parent to child.

        Nodes are numbered in the order of ``graph.nodes``.

        Parameters
        ----------
        graph : networkx.DiGraph
            The tree, in which only the root has no incoming edge.
        label : str or None
            Name of the node attribute that holds the labels. A node without this attribute is its
            own label. With None, every node is its own label.
        length : str or None
            Name of the edge attribute that holds the lengths, which become :attr:`edge_length`. If
            no edge has this attribute, the tree has no lengths. Pass None if the weights of your
            graph are not lengths, but counts or probabilities, for example.

        See Also
        --------
        to_networkx : the inverse conversion.

        Examples
        --------
        >>> import networkx, gmtree as gm
        >>> graph = networkx.DiGraph()
        >>> graph.add_weighted_edges_from([("feline", "cat", 1.0), ("feline", "lion", 2.0)])
        >>> tree = gm.Tree.from_networkx(graph)
        >>> tree.labels.tolist(), tree.edge_length.tolist()
        (['feline', 'cat', 'lion'], [0.0, 1.0, 2.0])
        """
        own, labels, lengths = edges.from_networkx(graph, label, length)
        return cls._build("graph", own, labels=labels)._with_lengths(lengths)

    @classmethod
    def _build(cls, argument: str, parent: np.ndarray, *, labels: Any = None) -> Tree:
        """Make a tree from `parent`: a private copy whose entries are all in -1..n-1."""
        found = positions(argument, parent, labels)
        tree = cls._assemble(parent, *found[:3], labels)
        tree._parents_first, tree._by_height = found.parents_first, found.by_height
        return tree

    @classmethod
    def _assemble(
        cls,
        parent: np.ndarray,
        order: np.ndarray | None,
        position_parent: np.ndarray,
        level_start: np.ndarray,
        labels: Any = None,
        level_names: tuple[str, ...] | None = None,
    ) -> Tree:
        tree = object.__new__(cls)
        for array in (parent, order, position_parent, level_start):
            if array is not None:
                array.flags.writeable = False
        if isinstance(labels, np.ndarray):
            labels = labels.copy()
            labels.flags.writeable = False
        tree._parent, tree._order = parent, order
        tree._position_parent, tree._level_start = position_parent, level_start
        tree._labels, tree._level_names = labels, level_names
        tree._edge_length, tree._from_records = None, False
        tree._parents_first, tree._by_height = order is None, True
        tree._cache = {}
        return tree

    def _with_frames_of(self, kind: str | None) -> Tree:
        """Return this tree with `kind` as the default library of its DataFrames."""
        arrays = self._parent, self._order, self._position_parent, self._level_start
        labels = self._labels
        if isinstance(labels, level_columns.LevelLabels):
            labels = replace(labels, kind=kind)
        tree = self._assemble(*arrays, labels, self._level_names)
        tree._edge_length, tree._from_records = self._edge_length, self._from_records
        tree._parents_first, tree._cache = self._parents_first, self._cache
        return tree

    def __repr__(self) -> str:
        return (
            f"Tree(n={self.n}, internal={self.n_internal}, "
            f"leaves={self.n_leaves}, height={self.height})"
        )

    def __eq__(self, other: object) -> bool:
        """Whether both trees have equal parents and equal labels."""
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
        parts = (self._parent, self._labels, self._level_names, self._edge_length)
        return _rebuild, (*parts, self._from_records)

    # ------------------------------------------------------------------ neighbours

    def children(self, i: int) -> np.ndarray:
        """Children of node i in ascending order.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(3, 2).children(0)
        array([1, 2, 3], dtype=int32)
        """
        i = check.node_number("i", i, self.n)
        start, child = self._children
        return child[start[i] : start[i + 1]]

    def ancestors(self, i: int) -> np.ndarray:
        """Ancestors of node i, from its parent up to the root, excluding i itself.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(2, 3).ancestors(4)
        array([1, 0], dtype=int32)
        """
        return np.array(self._upward(i)[1:], dtype=self._parent.dtype)

    def siblings(self, i: int) -> np.ndarray:
        """The other children of the parent of node i, in ascending order; empty for the root.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(3, 2).siblings(2)
        array([1, 3], dtype=int32)
        """
        i = check.node_number("i", i, self.n)
        if i == self.root:
            return np.empty(0, self._parent.dtype)
        family = self.children(self._parent[i])
        return family[family != i]

    def descendants(self, i: int) -> np.ndarray:
        """Node i and all nodes below it, in ascending order: the nodes of :meth:`subtree`.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(2, 3).descendants(1)
        array([1, 3, 4], dtype=int32)
        """
        i = check.node_number("i", i, self.n)
        start, child = (_sweep.unsigned(a) for a in self._children)
        found = np.empty(self.subtree_size[i], start.dtype)
        found[0] = i
        kernels.descendants(start, child, found)
        found.sort()
        return found.view(self._parent.dtype)

    def subtree(self, i: int) -> Tree:
        """The subtree of node i: a tree of node i, which is its root, and all nodes below it.

        Node k of the result is node ``tree.descendants(i)[k]`` of this tree and has its label.
        Do not confuse it with :meth:`k_order_subtree`, which removes leaves.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
        >>> state = tree.subtree(tree.node("NY"))
        >>> state
        Tree(n=3, internal=1, leaves=2, height=2)
        >>> state.labels.tolist(), tree.descendants(tree.node("NY")).tolist()
        (['NY', 'Albany', 'Orange'], [1, 3, 4])
        """
        i = check.node_number("i", i, self.n)
        if i == self.root:
            return self
        tree = self._restricted_to("i", self.descendants(i), i)
        if self._level_names is not None:
            # A root above all named levels has no level name.
            unnamed = self.height - len(self._level_names)
            tree._level_names = self._level_names[self.ancestors(i).size - unnamed :]
        return tree

    def _restricted_to(self, argument: str, nodes: np.ndarray, root: int) -> Tree:
        """Return the tree of `nodes` (sorted), which contain the parent of each but `root`."""
        parent = np.searchsorted(nodes, self._parent[nodes])
        parent[np.searchsorted(nodes, root)] = -1
        labels = None if self._labels is None else self._labels[nodes]
        made = self._build(argument, parent.astype(check.index_dtype(nodes.size)), labels=labels)
        return self._pass_on(made, nodes)

    def path(self, i: int) -> tuple[Any, ...]:
        """Labels of the nodes from the root down to node i; numbers if the tree has no labels."""
        found = self._upward(i)[::-1]
        return tuple(found if self._labels is None else distinct.as_objects(self._labels[found]))

    def _upward(self, i: int) -> list[int]:
        """Node i and its ancestors, from i up to the root."""
        i = check.node_number("i", i, self.n)
        found = []
        while i >= 0:
            found.append(i)
            i = int(self._parent[i])
        return found

    # ------------------------------------------------------------------ labels

    @property
    def labels(self) -> np.ndarray | None:
        """Label of each node, or None for a tree made without labels."""
        if self._labels is None or isinstance(self._labels, np.ndarray):
            return self._labels
        return self._derive("labels", lambda: np.asarray(self._labels))

    @property
    def edge_length(self) -> np.ndarray | None:
        """Length of the edge from each node to its parent, or None.

        A missing length is NaN, and the entry of the root has no meaning. None if the tree has no
        lengths. :meth:`distance` uses these lengths by default.
        """
        return self._edge_length

    def _with_lengths(self, lengths: np.ndarray | None) -> Tree:
        """Set the edge lengths of a new tree, and return it."""
        if lengths is not None:
            lengths.flags.writeable = False
        self._edge_length = lengths
        return self

    def _pass_on(self, made: Tree, nodes: Any) -> Tree:
        """Give `made`, a new tree of some nodes of this one, their edge lengths, and return it."""
        made._from_records, lengths = self._from_records, self._edge_length
        return made._with_lengths(None if lengths is None else lengths[nodes])

    @property
    def level_names(self) -> tuple[str, ...] | None:
        """Names of the levels from which :meth:`from_levels` made the tree, else None."""
        return self._level_names

    def node(self, label: Any) -> int:
        """Number of the node with the given label, or with the given path of labels (a tuple).

        If several nodes share a label, as can happen in a tree made from levels, pass a path. It
        starts at the root, or one level below the root. A path from the root takes precedence, so
        that ``tree.node(tree.path(i))`` is i. Siblings that share a label, as in some Newick texts,
        have the same path and can only be identified by their numbers. Dates and times may be
        objects of numpy, pandas or Python.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
        >>> tree.node("VT"), tree.node(("VT", "Orange")), tree.node(("total", "NY", "Orange"))
        (2, 5, 4)
        """
        if self._labels is None:
            check.fail("label", "cannot be looked up, because the tree has no labels.")
        index = self._cache.get("label_index")
        if index is None:
            index = self._cache["label_index"] = distinct.LabelIndex(self._labels, self._parent)
        return index.node("label", label)

    # ------------------------------------------------------------------ other numberings

    def canonical(self) -> Tree:
        """The tree renumbered by canonical position, which makes its Generation Matrix triangular.

        Node r of the result is node ``tree.order[r]`` of this tree.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_parents([2, 2, -1]).canonical().parent
        array([-1,  0,  0], dtype=int32)
        """
        if self.is_canonical:
            return self
        order, parent = self._canonical
        labels = None if self._labels is None else self._labels[order]
        made = self._assemble(parent, None, parent, self._level_start, labels, self._level_names)
        return self._pass_on(made, order)

    def k_order_subtree(self, k: int) -> Tree:
        """The k-order subtree: the nodes left after removing all leaves k times.

        It consists of the nodes whose height is greater than k, in ascending order of their
        numbers. For example, the nodes of ``k_order_subtree(1)`` are :attr:`internal`. For the tree
        of a node and all nodes below it, see :meth:`subtree`.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(2, 4).k_order_subtree(1) == gm.shapes.complete(2, 3)
        True
        """
        k = check.count("k", k, least=0)
        if k >= self.height:
            check.fail(
                "k",
                f"must be below the height {self.height}, or nothing is left; got {k}. "
                f"The tree of a node and its descendants is tree.subtree(node).",
            )
        if k == 0:
            return self
        kept = int(self._level_start[self.height - k])
        if self.is_canonical:
            parent = self._parent[:kept].copy()
            level_start = self._level_start[: self.height - k + 1].copy()
            labels = None if self._labels is None else self._labels[:kept]
            made = self._assemble(parent, None, parent, level_start, labels)
            return self._pass_on(made, slice(kept))
        return self._restricted_to("k", np.sort(self.order[:kept]), self.root)

    # ------------------------------------------------------------------ sums over leaves

    def aggregate(self, x: Any, *, out: np.ndarray | None = None) -> np.ndarray:
        """Values of all nodes, summed from the leaves up: each parent is the sum of its children.

        Parameters
        ----------
        x : array of shape (n_leaves,) or (n_leaves, k)
            Leaf values in the order of :attr:`leaves`. Integers are summed exactly.
        out : array, optional
            Array that receives the result. By default a new array is made.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(2, 3).aggregate([1, 2, 3, 4])
        array([10,  3,  7,  1,  2,  3,  4])
        """
        x = self._aligned("x", x, "leaf")
        leaf_values = check.values("x", x, self.n_leaves, per="leaf")
        shape = (self.n, *leaf_values.shape[1:])

        def build(x: np.ndarray, out: np.ndarray) -> None:
            out[:] = 0
            out[self._leaf_index] = x
            _sweep.accumulate(self._natural_layout, out, out)

        return _sweep.deliver(
            build, "x", leaf_values, out, shape, leaf_values.dtype, growth=self.n_leaves
        )

    def leaf_values(self, v: Any) -> np.ndarray:
        """Values of the leaves, in the order of :attr:`leaves`: the inverse of `aggregate`."""
        return check.values("v", self._aligned("v", v), self.n)[self.leaves]


def _rebuild(
    parent: np.ndarray,
    labels: Any,
    level_names: tuple[str, ...] | None,
    edge_length: np.ndarray | None = None,
    from_records: bool = False,
) -> Tree:
    tree = Tree._build("parent", check.parent_vector("parent", parent), labels=labels)
    tree._level_names, tree._from_records = level_names, from_records
    return tree._with_lengths(edge_length)
