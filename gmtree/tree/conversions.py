"""Trees from and to the formats of other programs: text, linked objects, matrices, DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _memory
from gmtree import _validate as check
from gmtree.readers import edges, graphs, matrices, newick, objects
from gmtree.tree import locate, outline, table
from gmtree.tree import measurements as measured
from gmtree.tree.kinship import TreeKinship

if TYPE_CHECKING:
    from networkx import DiGraph
    from typing_extensions import Self


class TreeConversions(TreeKinship):
    """Methods of `Tree` that read and write the formats of other programs."""

    __slots__ = ()

    @classmethod
    def from_linkage(cls, Z: Any, heights: Any = None) -> Self:
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
        parent, lengths = edges.from_linkage(Z, heights)
        return cls._build("Z", parent, edge_length=lengths)

    @classmethod
    def from_networkx(
        cls, graph: Any, *, label: str | None = "label", length: str | None = "weight"
    ) -> Self:
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
        parent, labels, lengths = edges.from_networkx(graph, label, length)
        return cls._build("graph", parent, labels, edge_length=lengths)

    @classmethod
    def from_newick(cls, text: Any, *, convert_underscores: bool = False) -> Self:
        """Make a tree from Newick text, or from a file that holds such text.

        Nodes are numbered in depth-first order: the root is 0, parents come before their children,
        and tips are in the order of the text. Names become labels (None for a node without a name),
        and branch lengths become :attr:`edge_length`.

        Parameters
        ----------
        text : str, bytes, path or open file
            One tree. A str without any of ``(``, ``)`` and ``;`` is the name of a file.
        convert_underscores : bool
            Whether to read underscores in unquoted names as blanks, as the original definition of
            the format demands. False by default.

        See Also
        --------
        to_newick

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_newick("((cat:1,lion:2)'big and small':3,dog:7);")
        >>> tree.labels
        array([None, 'big and small', 'cat', 'lion', 'dog'], dtype=object)
        >>> tree.distance(tree.node("cat"), tree.node("dog"))
        11.0
        """
        parent, labels, lengths = newick.parse(text, convert_underscores)
        return cls._build("text", parent, labels, edge_length=lengths)

    @classmethod
    def from_objects(
        cls,
        root: Any,
        children: Any = "children",
        *,
        label: Any = "name",
        length: Any = None,
    ) -> Self:
        """Make a tree from linked objects, such as those of anytree, ete3 or scikit-bio.

        Nodes are numbered in depth-first order: the root is 0, and parents precede their children.

        Parameters
        ----------
        root : object
            The object at the root.
        children, label, length : str or function
            How to get the children of an object, its label, and the length of the edge to its
            parent. Each is the name of an attribute (or of a method without arguments), or a
            function of the object. If `label` is None, or the root lacks the attribute, the tree
            has no labels. The lengths become :attr:`edge_length`.

        Examples
        --------
        >>> import gmtree as gm
        >>> nested = {"a": {"b": {}, "c": {}}}
        >>> tree = gm.Tree.from_objects(
        ...     ("a", nested["a"]), children=lambda x: x[1].items(), label=lambda x: x[0]
        ... )
        >>> tree.path(2)
        ('a', 'c')

        The nodes of a treelib tree ``t`` know only the names of their children:

        ``Tree.from_objects(t[t.root], lambda x: t.children(x.identifier), label="tag")``
        """
        parent, labels, lengths = objects.from_objects(root, children, label, length)
        return cls._build("root", parent, labels, edge_length=lengths)

    @classmethod
    def from_summing_matrix(cls, S: Any) -> Self:
        """Make a tree from a summing matrix (0 or 1): one row per node, one column per leaf.

        Row i becomes node i, and has ones in the columns of the leaves below this node. Rows may
        come in any order. A node with a single child has the same row as this child. Of two equal
        rows, the one that comes first is the parent. Every leaf needs a row of its own. Two rows
        must be nested or have no leaf in common.

        Parameters
        ----------
        S : array, sparse matrix or DataFrame
            The first column of a DataFrame, or a pandas index, may hold the names of the nodes,
            which become labels. The columns must then be named after the leaves.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_summing_matrix([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        Tree(n=5, internal=2, leaves=3, height=3)
        """
        parent, labels = objects.from_summing_matrix(S)
        return cls._build("S", parent, labels)

    @classmethod
    def from_structure(cls, A: Any) -> Self:
        """Make a tree from its structure matrix: 1 on the diagonal, -1 in the parent's column.

        Parameters
        ----------
        A : array or scipy sparse matrix of shape (n, n)
            Each row except the root's has a single -1.

        See Also
        --------
        gmtree.GenerationMatrix.from_matrix : for matrices with weights.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_structure([[1, 0, 0], [-1, 1, 0], [-1, 0, 1]]).parent
        array([-1,  0,  0], dtype=int32)
        """
        return cls._build("A", matrices.from_structure(A))

    @classmethod
    def from_adjacency(cls, A: Any, root: int | None = None) -> Self:
        """Make a tree from its adjacency matrix.

        Parameters
        ----------
        A : array or scipy sparse matrix of shape (n, n)
            Each non-zero entry is an edge.
        root : int, optional
            Root of an undirected tree, whose matrix is symmetric. By default A is directed: the
            only entry of row i is in the column of the parent of i.

        Examples
        --------
        >>> import gmtree as gm
        >>> A = gm.adjacency(gm.shapes.chain(3), directed=False)
        >>> gm.Tree.from_adjacency(A, root=1).parent
        array([ 1, -1,  1], dtype=int32)
        """
        return cls._build("A", matrices.from_adjacency(A, root))

    @classmethod
    def from_laplacian(cls, L: Any, root: int) -> Self:
        """Make a tree from its Laplacian matrix, with or without weights, and its root.

        Parameters
        ----------
        L : array or scipy sparse matrix of shape (n, n)
            Symmetric, with rows that add up to zero.
        root : int
            Number of the root.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_laplacian([[1, -1, 0], [-1, 2, -1], [0, -1, 1]], root=1).parent
        array([ 1, -1,  1], dtype=int32)
        """
        return cls._build("L", matrices.from_laplacian(L, root))

    @classmethod
    def from_distances(cls, D: Any, root: int) -> Self:
        """Make a tree from its root and the number of edges between every two nodes.

        All entries are checked. A matrix that does not belong to a tree is refused.

        Parameters
        ----------
        D : array of shape (n, n)
            Entry (i, j) is the number of edges between nodes i and j.
        root : int
            Number of the root.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_distances([[0, 2, 1], [2, 0, 1], [1, 1, 0]], root=0).parent
        array([-1,  2,  0], dtype=int32)
        """
        return cls._build("D", matrices.from_distances(D, root))

    def align(
        self, measurements: Any, *, value: str | None = None, variance: Any = None
    ) -> measured.Measurements:
        """Align measurements in DataFrames with the nodes of the tree, by their labels.

        Rows may come in any order. A label that is not in the tree, a label that several nodes
        share, and a second row for a node are refused.

        Parameters
        ----------
        measurements : DataFrame, Series, or dict of these by level
            Either one DataFrame (pandas, polars, pyarrow) with a column for each level; labels of
            levels below the node of a row are missing. Or a dict with one DataFrame per level,
            which has the column of this level, and columns of levels above if its labels repeat.
            For a tree without levels, the column of labels is called ``label``. A Series has the
            labels in its index.
        value : str, optional
            Name of the column of values. By default it is the only column that holds neither labels
            nor variances. A missing value means that the node was not measured.
        variance : optional
            Variances of the measurements: one number, the name of a column, or a dict with one of
            these per level. The default is 1.

        Returns
        -------
        Measurements
            A named tuple of `values` and `variance`, which are NaN and inf at nodes that were not
            measured. Project them with ``Consistency(tree, m.variance).project(m.values)``.

        Examples
        --------
        >>> import pandas as pd, gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"],
        ...                            levels=["state", "county"])
        >>> states = pd.DataFrame({"state": ["VT", "NY"], "people": [30.0, 700.0]})
        >>> m = tree.align({"state": states, "total": 720.0}, variance={"state": 4.0})
        >>> m.values
        array([720., 700.,  30.,  nan,  nan,  nan])
        >>> m.variance
        array([ 1.,  4.,  4., inf, inf, inf])
        """
        return measured.values(self, measurements, value, variance)

    def to_frame(self, *, backend: str | None = None, **columns: Any) -> Any:
        """Return a DataFrame with one row per node.

        Its columns are ``node``, ``parent`` (-1 for the root), ``depth``, the labels, and the
        columns that you pass by name. A tree of levels has one column of labels per level. Labels
        of levels below the node of a row are missing. Other trees with labels have the column
        ``label``.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            Library of the DataFrame. By default it is the library of the columns from which the
            tree was made, or else pandas.
        **columns : arrays with one entry per node
            Additional columns. A level that has the name of such a column, or is called ``node``,
            ``parent`` or ``depth``, gets the prefix ``level_``.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"],
        ...                            levels=["state", "county"])
        >>> tree.to_frame(people=tree.aggregate([304, 372, 29])).columns.tolist()
        ['node', 'parent', 'depth', 'state', 'county', 'people']
        """
        return table.to_frame(self, columns, backend)

    def to_newick(self, *, length: Any = None, names: bool = True) -> str:
        """The tree as Newick text, with children in ascending order of their numbers.

        Parameters
        ----------
        length : array of n reals or False, optional
            Branch lengths, by default :attr:`edge_length`. With False no lengths are written.
            Lengths that are not finite are left out.
        names : bool
            Whether to write the labels as names. True by default.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_newick("((a:1,b:2.5)'a+b':3,c:7);").to_newick()
        '((a:1.0,b:2.5)a+b:3.0,c:7.0);'
        """
        return newick.write(self, length, names)

    def to_networkx(self) -> DiGraph:
        """Return the tree as a networkx digraph with edges from parent to child.

        The nodes of the digraph are the labels of the tree if these are distinct and none is
        missing. Otherwise they are node numbers. Labels are also stored as the node attribute
        ``label``. Edge lengths become the edge attribute ``weight``, which algorithms of networkx
        use. An edge without a length has no such attribute, and networkx counts it as 1.

        :meth:`from_networkx` restores the numbers, labels and lengths of edges. It does not restore
        the names of levels, or a length at the root, which has no edge. A tree without labels gets
        the numbers of its nodes as labels.

        Examples
        --------
        >>> import gmtree as gm
        >>> graph = gm.shapes.star(3).to_networkx()
        >>> list(graph.edges)
        [(0, 1), (0, 2)]
        >>> tree = gm.Tree.from_newick("(cat:1,dog:7)mammal;")
        >>> list(tree.to_networkx().edges(data="weight"))
        [('mammal', 'cat', 1.0), ('mammal', 'dog', 7.0)]
        """
        return graphs.to_networkx(self)

    def cophenetic(self, height: Any) -> np.ndarray:
        """Matrix of the heights at which every two leaves are joined.

        Parameters
        ----------
        height : array of n reals
            Height of each node, such as the distance at which a cluster was formed.

        Returns
        -------
        array of shape (n_leaves, n_leaves)
            Entry (i, j) is the height of the lowest common ancestor of leaves i and j, in the order
            of :attr:`leaves`. The diagonal holds the heights of the leaves. The type is int64,
            float32 or float64, like that of `height`.

        See Also
        --------
        gmtree.distance_matrix : sums of lengths between two nodes.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_linkage([[0, 1, 2.0, 2], [2, 3, 5.0, 3]])
        >>> tree.cophenetic([0.0, 0.0, 0.0, 2.0, 5.0])
        array([[0., 2., 5.],
               [2., 0., 5.],
               [5., 5., 0.]])
        """
        value = self._values("height", height, columns=False)
        _memory.refuse_above_limit(
            f"The cophenetic matrix of {self.n_leaves} leaves",
            value.itemsize * self.n_leaves**2,
            "height[tree.lca(i, j)] answers pairs.",
        )
        leaves = self.leaves
        walk = np.searchsorted(leaves, self.leaves_left_to_right)
        return self._paths.matrix(leaves, walk, value, None)

    def outline(self, values: Any = None, *, depth: int = 4, children: int = 5) -> str:
        """The top of the tree as text, one line per node.

        Parameters
        ----------
        values : array of n numbers, optional
            Values to print beside the nodes.
        depth : int
            Number of levels to show, 4 by default.
        children : int
            Largest number of children to show below a node, 5 by default.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
        >>> print(tree.outline(tree.aggregate([304, 372, 29])))
        total            705
        ├── NY           676
        │   ├── Albany   304
        │   └── Orange   372
        └── VT            29
            └── Orange    29
        """
        v = None if values is None else self._values("values", values, columns=False)
        return outline.text(self, v, depth, children)

    def show(self, values: Any = None, *, depth: int = 4, children: int = 5) -> None:
        """Print the top of the tree; see :meth:`outline`."""
        print(self.outline(values, depth=depth, children=children))

    def _repr_html_(self) -> str:
        return outline.html(self)

    def _aligned(self, argument: str, x: Any, per: str = "node", *, tell: bool = True) -> Any:
        """Return `x` in the order of the nodes or leaves, matched by its labels if it has any."""
        return locate.align(self, argument, x, per, tell=tell)

    def _values(
        self, argument: str, x: Any, per: str = "node", *, columns: bool = True
    ) -> np.ndarray:
        """Checked values per node or leaf, matched by their labels if they have any."""
        n = self.n if per == "node" else self.n_leaves
        aligned = self._aligned(argument, x, per)
        return check.values(argument, aligned, n, per=per, columns=columns)
