"""Relatives of nodes, and pairs of nodes: lowest common ancestors and distances."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import order as kernels
from gmtree._sweep import unsigned
from gmtree.labels.distinct import as_objects
from gmtree.tree.arrays import Cached, TreeArrays
from gmtree.tree.pairs import PathIndex, sums_from_root


class TreeKinship(TreeArrays):
    """Methods of `Tree` that answer questions about one node, and about pairs of nodes."""

    __slots__ = ()

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
        start, child = (unsigned(a) for a in self._children)
        found = np.empty(self.subtree_size[i], start.dtype)
        found[0] = i
        kernels.descendants(start, child, found)
        found.sort()
        return found.view(self._parent.dtype)

    def path(self, i: int) -> tuple[Any, ...]:
        """Labels of the nodes from the root down to node i; numbers if the tree has no labels.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.shapes.complete(2, 3).path(4)
        (0, 1, 4)
        """
        found = self._upward(i)[::-1]
        return tuple(found if self._labels is None else as_objects(self._labels[found]))

    def _upward(self, i: int) -> list[int]:
        """Node i and its ancestors, from i up to the root."""
        i = check.node_number("i", i, self.n)
        found = []
        while i >= 0:
            found.append(i)
            i = int(self._parent[i])
        return found

    # ------------------------------------------------------------------ pairs of nodes

    @Cached
    def _paths(self) -> PathIndex:
        """The index that answers questions about pairs of nodes."""
        layout = self._natural_layout
        rank = None if layout.order is None else unsigned(self.rank)
        return PathIndex(layout, rank)

    @overload
    def is_ancestor(self, i: check.Integer, j: check.Integer) -> bool: ...

    @overload
    def is_ancestor(self, i: Any, j: Any) -> np.ndarray: ...

    def is_ancestor(self, i: Any, j: Any) -> bool | np.ndarray:
        """Whether node i is node j or one of its ancestors.

        As 1 or 0, this is entry (j, i) of the inverse of the structure matrix. Arrays of nodes are
        broadcast, and the result has one entry per pair.

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

    @overload
    def lca(self, i: check.Integer, j: check.Integer) -> int: ...

    @overload
    def lca(self, i: Any, j: Any) -> np.ndarray: ...

    def lca(self, i: Any, j: Any) -> int | np.ndarray:
        """Lowest common ancestor of nodes i and j; each node is an ancestor of itself.

        The first call builds an index in O(n) steps, which the tree keeps. After that, each pair
        takes at most O(log n) steps. Arrays of nodes are broadcast.

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

    @overload
    def common_ancestors(self, i: check.Integer, j: check.Integer) -> int: ...

    @overload
    def common_ancestors(self, i: Any, j: Any) -> np.ndarray: ...

    def common_ancestors(self, i: Any, j: Any) -> int | np.ndarray:
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

    @overload
    def distance(self, i: check.Integer, j: check.Integer, edge: Literal["count"]) -> int: ...

    @overload
    def distance(self, i: check.Integer, j: check.Integer, edge: Any = None) -> float: ...

    @overload
    def distance(self, i: Any, j: Any, edge: Any = None) -> np.ndarray: ...

    def distance(self, i: Any, j: Any, edge: Any = None) -> float | np.ndarray:
        """Sum of the lengths of the edges between nodes i and j, or the number of these edges.

        Parameters
        ----------
        i, j : int or array of int
            Nodes; arrays are broadcast.
        edge : array of n reals, one number, or "count", optional
            Length of the edge from each node to its parent (the root's entry is ignored). The
            default is :attr:`edge_length` if the tree has lengths; otherwise every edge has length
            1. ``"count"`` counts edges even if the tree has lengths.

        Notes
        -----
        Integer lengths are summed exactly. With other lengths, a distance is a difference of sums
        from the root, so that its rounding error grows with these sums.

        The tree keeps these sums for its :attr:`edge_length`. For other lengths every call computes
        them again, so pass many pairs in one call. For all pairs of some nodes, use
        :func:`gmtree.distance_matrix`.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.complete(2, 3)
        >>> tree.distance(3, [3, 1, 4, 5])
        array([0, 1, 2, 4])
        >>> tree.distance(3, 5, edge=[0, 10, 20, 1, 2, 3, 4])
        34
        >>> tree = gm.Tree.from_newick("((cat:1,lion:2)feline:3,dog:7);")
        >>> cat, dog = tree.node("cat"), tree.node("dog")
        >>> tree.distance(cat, dog), tree.distance(cat, dog, edge="count")
        (11.0, 3)
        """
        from_root = self._sums_from_root(self._lengths(edge))
        return _plain(self._paths.path_sums(i, j, from_root))

    def _lengths(self, edge: Any) -> Any:
        """The lengths that the argument `edge` selects, unchecked; None if edges are counted."""
        if isinstance(edge, str):
            if edge != "count":
                check.fail("edge", f"must be 'count' or hold lengths, not {edge!r}.")
            return None
        return self._edge_length if edge is None else edge

    def _sums_from_root(self, lengths: Any) -> np.ndarray:
        """Distance of each node from the root; without `lengths` the depth, which is one larger."""
        if lengths is None:
            return self.depth
        if lengths is self._edge_length:
            return self._length_from_root
        return sums_from_root(lengths, self._natural_layout, self.root, self.height)

    @Cached
    def _length_from_root(self) -> np.ndarray:
        """Distance of each node from the root, by the lengths of the tree."""
        assert self._edge_length is not None
        missing = ~np.isfinite(self._edge_length)
        missing[self.root] = False
        if missing.any():
            check.fail(
                "edge",
                f"must hold finite lengths, but node {np.argmax(missing)} of this tree has no "
                "length; edge='count' counts edges.",
            )
        return sums_from_root(self._edge_length, self._natural_layout, self.root, self.height)


def _plain(answer: np.ndarray) -> Any:
    """Return a result for a single pair as a Python scalar, and any other result unchanged."""
    return answer.item() if answer.ndim == 0 else answer
