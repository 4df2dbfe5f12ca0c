"""Trees from and into what other programs hold: text, linked objects, matrices, frames."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from gmtree.labels import locate, table
from gmtree.labels import measurements as measured
from gmtree.readers import newick, objects
from gmtree.tree import outline

T = TypeVar("T", bound="TreeConversions")


class TreeConversions:
    """The part of `Tree` that other programs see."""

    __slots__ = ()

    @classmethod
    def from_newick(cls: type[T], text: Any, *, convert_underscores: bool = False) -> T:
        """Make a tree from Newick text or a file that holds it.

        Nodes are numbered in the order in which they begin: the root is 0, parents come before
        their children, and tips are in the order of the text. Names become labels (None where
        there is none), branch lengths :attr:`edge_length`.

        Parameters
        ----------
        text : str, bytes, path or open file
            One tree. A str without any of ``(``, ``)`` and ``;`` is the name of a file.
        convert_underscores : bool
            Read underscores in names without quotes as blanks, as the format was first defined.

        See Also
        --------
        to_newick

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_newick("((cat:1,lion:2)'big and small':3,dog:7);")
        >>> tree.labels
        array([None, 'big and small', 'cat', 'lion', 'dog'], dtype=object)
        >>> tree.distance(tree.node("cat"), tree.node("dog"), tree.edge_length)
        11.0
        """
        parent, labels, lengths = newick.parse(text, convert_underscores)
        return _build(cls, "text", parent, labels)._with_lengths(lengths)

    @classmethod
    def from_objects(
        cls: type[T],
        root: Any,
        children: Any = "children",
        *,
        label: Any = "name",
        length: Any = None,
    ) -> T:
        """Make a tree from linked objects, such as those of anytree, ete3 or scikit-bio.

        Nodes are numbered depth first: the root is 0, and parents come before their children.

        Parameters
        ----------
        root : object
        children, label, length : str or function
            The children of an object, its label, and the length of the edge to its parent: the
            name of an attribute (or method without arguments), or a function of the object.
            `label` may be None, and objects need not have the attribute. `length` fills
            :attr:`edge_length`.

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
        return _build(cls, "root", parent, labels)._with_lengths(lengths)

    @classmethod
    def from_summing_matrix(cls: type[T], S: Any) -> T:
        """Make a tree from a summing matrix: one row per node, one column per leaf, 0 or 1.

        Row i becomes node i. Rows may come in any order; of equal rows, as a node with a single
        child has, the upper one is the parent. Every leaf needs a row of its own, and any two
        rows must be nested or have no leaf in common.

        Parameters
        ----------
        S : array, sparse matrix or frame
            A frame may have the names of the nodes in its first column, or in its index where
            pandas has named one; they become labels. If columns are named after leaves, each
            must belong to the row of that name.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_summing_matrix([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        Tree(n=5, internal=2, leaves=3, height=3)
        """
        parent, labels = objects.from_summing_matrix(S)
        return _build(cls, "S", parent, labels)

    def values(
        self: Any, measurements: Any, *, value: str | None = None, variance: Any = None
    ) -> measured.Measurements:
        """Measurements at any nodes, given in frames, as one vector by node.

        Rows are brought to their nodes by their labels, in whatever order they come. A label that
        the tree does not have, one of several nodes, and a node that comes twice are refused.

        Parameters
        ----------
        measurements : frame, Series, or dict of these by level
            One frame (pandas, polars, pyarrow) with the columns of the levels, empty below the
            node that a row belongs to; or for each level a frame with the column of that level
            and of those above it, as far as they are needed to tell nodes apart. A tree without
            levels has the column ``label``. A Series has the labels in its index.
        value : str, optional
            Name of the column of values; by default the only one that is left. Where it is
            missing in a row, the node was not measured.
        variance : optional
            Variances of the measurements: one number, the name of a column, or a dict of either
            by level; 1 by default.

        Returns
        -------
        Measurements
            A named tuple of `values`, NaN where nothing was measured, and `variance`, inf there:
            ``Consistency(tree, m.variance).project(m.values)``.

        Examples
        --------
        >>> import pandas as pd, gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"],
        ...                            levels=["state", "county"])
        >>> states = pd.DataFrame({"state": ["VT", "NY"], "people": [30.0, 700.0]})
        >>> m = tree.values({"state": states, "total": 720.0}, variance={"state": 4.0})
        >>> m.values
        array([720., 700.,  30.,  nan,  nan,  nan])
        >>> m.variance
        array([ 1.,  4.,  4., inf, inf, inf])
        """
        return measured.values(self, measurements, value, variance)

    def to_frame(self: Any, *, kind: str | None = None, **columns: Any) -> Any:
        """A frame with one row per node.

        Columns: ``node`` and ``parent`` (numbers; -1 above the root), ``depth``, the labels (one
        column per level, missing below the node, or ``label``), and what you add by name.

        Parameters
        ----------
        kind : {"pandas", "polars", "pyarrow"}, optional
            Library of the frame: by default that of the frame the tree was made from, else
            pandas.
        **columns : arrays of length n
            A level called like one of these, or like ``node``, ``parent`` or ``depth``, gets
            ``level_`` before its name.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"],
        ...                            levels=["state", "county"])
        >>> tree.to_frame(people=tree.aggregate([304, 372, 29])).columns.tolist()
        ['node', 'parent', 'depth', 'state', 'county', 'people']
        """
        return table.to_frame(self, columns, kind)

    def to_newick(self: Any, *, length: Any = None, names: bool = True) -> str:
        """The tree as Newick text, children by ascending number.

        Parameters
        ----------
        length : array of n reals or False, optional
            Branch lengths, by default :attr:`edge_length`; False for none. None are written where
            they are not finite.
        names : bool
            Write labels as names.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.Tree.from_newick("((a:1,b:2.5)'a+b':3,c:7);").to_newick()
        '((a:1.0,b:2.5)a+b:3.0,c:7.0);'
        """
        return newick.write(self, length, names)

    def outline(self: Any, values: Any = None, *, depth: int = 4, children: int = 5) -> str:
        """The top of the tree as text, one line per node.

        Parameters
        ----------
        values : array of n numbers, optional
            Printed beside the nodes.
        depth : int
            How many levels to show.
        children : int
            How many children of each node to show.

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
        return outline.text(self, values, depth, children)

    def show(self: Any, values: Any = None, *, depth: int = 4, children: int = 5) -> None:
        """Print the top of the tree; see :meth:`outline`."""
        print(self.outline(values, depth=depth, children=children))

    def _repr_html_(self: Any) -> str:
        return outline.html(self)

    def _aligned(self: Any, argument: str, x: Any, per: str = "node", *, tell: bool = True) -> Any:
        """`x` in the order of nodes or leaves if it has labels of its own, else as it is."""
        if isinstance(x, (np.ndarray, list, tuple)):
            return x
        return locate.align(self, argument, x, per, tell=tell)


def _build(kind: Any, argument: str, parent: np.ndarray, labels: Any) -> Any:
    """The tree itself, which this file does not know as a type: it is made of this part."""
    return kind._build(argument, parent, labels=labels)
