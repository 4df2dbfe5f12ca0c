"""Pairs of nodes: ancestors, lowest common ancestors and distances."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from gmtree import _memory, _sweep
from gmtree import _validate as check
from gmtree.tree.pairs import PathIndex, sums_from_root


class TreeKinship:
    """Methods of `Tree` that answer questions about pairs of nodes."""

    __slots__ = ()

    @property
    def _paths(self: Any) -> PathIndex:
        """The index that answers questions about pairs of nodes, built on first use and cached."""
        index = self._cache.get("paths")
        if index is None:
            layout = self._natural_layout
            rank = None if layout.order is None else _sweep.unsigned(self.rank)
            index = self._cache["paths"] = PathIndex(layout, rank)
        return index

    @overload
    def is_ancestor(self, i: check.Integer, j: check.Integer) -> bool: ...

    @overload
    def is_ancestor(self, i: Any, j: Any) -> np.ndarray: ...

    def is_ancestor(self: Any, i: Any, j: Any) -> bool | np.ndarray:
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

    def lca(self: Any, i: Any, j: Any) -> int | np.ndarray:
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

    def common_ancestors(self: Any, i: Any, j: Any) -> int | np.ndarray:
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

    def distance(self: Any, i: Any, j: Any, edge: Any = None) -> float | np.ndarray:
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

    def _lengths(self: Any, edge: Any) -> Any:
        """The lengths that the argument `edge` selects, unchecked; None if edges are counted."""
        if isinstance(edge, str):
            if edge != "count":
                check.fail("edge", f"must be 'count' or hold lengths, not {edge!r}.")
            return None
        if edge is None and self._edge_length is not None and "length_from_root" not in self._cache:
            missing = ~np.isfinite(self._edge_length)
            missing[self.root] = False
            if missing.any():
                check.fail(
                    "edge",
                    f"must be given, since node {np.argmax(missing)} of this tree has no length; "
                    "edge='count' counts edges.",
                )
        return self._edge_length if edge is None else edge

    def _sums_from_root(self: Any, lengths: Any) -> np.ndarray:
        """Distance of each node from the root; without `lengths` the depth, which is one larger."""
        if lengths is None:
            return self.depth

        def compute() -> np.ndarray:
            return sums_from_root("edge", lengths, self._natural_layout, self.root, self.height)

        # The tree's own lengths never change, so their sums can be cached.
        own = lengths is self._edge_length
        return self._derive("length_from_root", compute) if own else compute()

    def cophenetic(self: Any, height: Any) -> np.ndarray:
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
        value = check.values("height", self._aligned("height", height), self.n)
        if value.ndim > 1:
            check.fail("height", f"must have shape ({self.n},), not {value.shape}.")
        _memory.refuse_above_limit(
            f"The cophenetic matrix of {self.n_leaves} leaves",
            value.itemsize * self.n_leaves**2,
            "height[tree.lca(i, j)] answers pairs.",
        )
        leaves = self.leaves
        walk = np.searchsorted(leaves, self.leaves_left_to_right)
        return self._paths.matrix(leaves, walk, value, None)


def _plain(answer: np.ndarray) -> Any:
    """Return a result for a single pair as a Python scalar, and any other result unchanged."""
    return answer.item() if answer.ndim == 0 else answer
