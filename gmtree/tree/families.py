"""The children of each internal node, grouped for loops over parents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree._kernels import order as kernels
from gmtree.tree import Tree


class Families(NamedTuple):
    """The leaves and the internal nodes among the children of each node, as unsigned positions.

    Among the children of p, the leaves are ``first_leaf[p]`` to ``first_leaf[p + 1] - 1``, and the
    internal nodes are ``inner[first_inner[p]:first_inner[p + 1]]``.
    """

    first_leaf: np.ndarray
    first_inner: np.ndarray
    inner: np.ndarray

    @classmethod
    def of(cls, tree: Tree) -> Families:
        """Group children by parent; the leaves of a parent already have consecutive positions."""
        n_internal, dtype = tree.n_internal, tree.parent.dtype
        first_leaf = np.empty(n_internal + 1, dtype)
        kernels.first_leaves(tree._position_parent, n_internal, first_leaf)
        first_inner = np.zeros(n_internal + 1, dtype)
        inner = np.empty(max(1, n_internal - 1), dtype)
        kernels.group_inner(tree._position_parent, n_internal, first_inner, inner)
        unsigned = tree._layout.parent.dtype
        return cls(*(a.view(unsigned) for a in (first_leaf, first_inner, inner)))

    @property
    def largest(self) -> int:
        """The largest number of children of any node."""
        if self.first_leaf.size == 1:
            return 1
        return int((np.diff(self.first_leaf) + np.diff(self.first_inner)).max())
