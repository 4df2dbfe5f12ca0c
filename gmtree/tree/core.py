"""`Tree`: its constructors and its public properties and methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree.labels import distinct
from gmtree.labels import levels as level_columns
from gmtree.readers import edges
from gmtree.tree.arrays import Cached
from gmtree.tree.conversions import TreeConversions
from gmtree.tree.order import Positions


class Tree(TreeConversions):
    """A rooted tree of any shape, in the caller's own numbering.

    Build one with :meth:`from_parents`, :meth:`from_edges`, :meth:`from_levels`,
    :meth:`from_records`, :meth:`from_linkage`, :meth:`from_newick`, :meth:`from_objects`,
    :meth:`from_networkx`, :meth:`from_summing_matrix`, :meth:`from_adjacency`,
    :meth:`from_laplacian`, :meth:`from_distances`, :meth:`from_structure` or with
    :mod:`gmtree.shapes`. A tree never changes: its arrays are read-only and may be shared between
    threads.

    All arguments and results are in your numbering. If parents come before children in it, as in
    depth-first numberings, sweeps visit internal nodes in the order of your numbering. Otherwise
    they use the *canonical order*: descending height, then the position of the parent, then the
    number of the node. In these orders sweeps read memory sequentially.

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

    __slots__ = ()

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
        return cls._build("parent", own, labels)

    @classmethod
    def from_edges(cls, child: Any, parent: Any) -> Tree:
        """Make a tree from its edges, given as two columns of labels.

        Nodes are numbered by sorted label, so the integer labels 0 to n-1 keep their numbers.
        Labels that cannot be sorted are numbered by first appearance. The root is the only label
        that never occurs as a child. It may also have a row of its own, in which the parent is
        missing (None or NaN).

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_edges(["kitten", "lion", "cat"], ["cat", "feline", "feline"])
        >>> tree.path(tree.node("kitten"))
        ('feline', 'cat', 'kitten')
        """
        own, labels = edges.from_edges(child, parent)
        return cls._build("parent", own, labels)

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
        more = {"level_names": made.names, "from_records": made.from_records}
        return cls._build("levels", made.parent, made.labels, **more)

    def _with_frames_of(self, kind: str | None) -> Tree:
        """Return this tree with `kind` as the default library of its DataFrames."""
        labels = self._labels
        if isinstance(labels, level_columns.LevelLabels):
            labels = replace(labels, kind=kind)
        arrays = self._order, self._position_parent, self._level_start
        tree = self._assemble(
            self._parent,
            Positions(*arrays, self._parents_first, self._by_height),
            labels,
            level_names=self._level_names,
            edge_length=self._edge_length,
            from_records=self._from_records,
        )
        tree._cache = self._cache
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
            # If a root was added above all named levels, it has no level name.
            unnamed = self.height - len(self._level_names)
            tree._level_names = self._level_names[self.ancestors(i).size - unnamed :]
        return tree

    def _restricted_to(self, argument: str, nodes: np.ndarray, root: int) -> Tree:
        """Return the tree of `nodes` (sorted), which contain the parent of each but `root`."""
        parent = np.searchsorted(nodes, self._parent[nodes])
        parent[np.searchsorted(nodes, root)] = -1
        own = parent.astype(check.index_dtype(nodes.size))
        return self._build(argument, own, **self._attributes(nodes))

    # ------------------------------------------------------------------ labels

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
        return self._label_index.node("label", label)

    @Cached
    def _label_index(self) -> distinct.LabelIndex:
        """An index of the nodes by label and by path."""
        return distinct.LabelIndex(self._labels, self._parent)

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
        more = self._attributes(order) | {"level_names": self._level_names}
        return self._assemble(parent, Positions.canonical(parent, self._level_start), **more)

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
            attributes = self._attributes(slice(kept))
            return self._assemble(parent, Positions.canonical(parent, level_start), **attributes)
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
        leaf_values = self._values("x", x, "leaf")
        shape = (self.n, *leaf_values.shape[1:])

        def build(x: np.ndarray, out: np.ndarray) -> None:
            out[:] = 0
            out[self._leaf_index] = x
            _sweep.accumulate(self._natural_layout, out, out)

        return _sweep.deliver(
            build, "x", leaf_values, out, shape, leaf_values.dtype, growth=self.n_leaves
        )

    def leaf_values(self, v: Any) -> np.ndarray:
        """Values of the leaves, in the order of :attr:`leaves`: the inverse of `aggregate`.

        Parameters
        ----------
        v : array of shape (n,) or (n, k)
            Values of all nodes.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.star(3).leaf_values([9, 5, 4])
        array([5, 4])
        """
        return self._values("v", v)[self.leaves]


def _rebuild(
    parent: np.ndarray,
    labels: Any,
    level_names: tuple[str, ...] | None,
    edge_length: np.ndarray | None = None,
    from_records: bool = False,
) -> Tree:
    """Make a tree from its parts, which were stored by pickle or in the file of a release."""
    more = {"level_names": level_names, "edge_length": edge_length, "from_records": from_records}
    return Tree._build("parent", check.parent_vector("parent", parent), labels, **more)
