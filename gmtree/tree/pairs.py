"""Ancestors and distances of pairs of nodes, from an index of the tree instead of a matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import pairs as kernels


class PathIndex:
    """Heavy paths of a tree: built in O(n) steps, and at most log2(n) steps per query.

    The index stores two positions per node. If positions differ from the caller's numbers, it also
    stores the position of each node.

    Parameters
    ----------
    layout : Layout
        Any positions with parents first.
    rank : array of unsigned int or None
        Position of each of the caller's nodes; None if positions are the caller's own numbers.
    """

    __slots__ = ("_jump", "_order", "_rank")

    def __init__(self, layout: _sweep.Layout, rank: np.ndarray | None) -> None:
        parent, n = layout.parent, layout.n
        self._order, self._rank = layout.order, rank
        size = np.ones(n, parent.dtype)
        _sweep.accumulate(replace(layout, order=None), size, size)
        heavy = np.zeros(n, parent.dtype)
        kernels.choose_heavy(parent, size, heavy, 1, n)
        jump = np.empty((n, 2), parent.dtype)
        jump[0] = 0
        kernels.find_jumps(parent, heavy, jump, 1, n)
        self._jump = _sweep.readonly(jump)

    @property
    def nbytes(self) -> int:
        """Bytes held, not counting the arrays that belong to the tree."""
        return self._jump.nbytes

    def lca(self, i: Any, j: Any) -> np.ndarray:
        """Lowest common ancestor of each pair."""
        return self._lca(*self.pairs(i, j))

    def _lca(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        out = np.empty(i.size, self._jump.dtype)
        args = (self._jump, self._order, self._rank, self._flat(i), self._flat(j), out)
        kernels.lowest_common_ancestors(*args, 0, i.size)
        return out.view(f"i{out.dtype.itemsize}").reshape(i.shape)

    def is_ancestor(self, i: Any, j: Any) -> np.ndarray:
        """For each pair, whether i is j or one of its ancestors."""
        i, j = self.pairs(i, j)
        out = np.empty(i.size, np.bool_)
        args = (self._jump, self._rank, self._flat(i), self._flat(j), out)
        kernels.are_ancestors(*args, 0, i.size)
        return out.reshape(i.shape)

    def path_sums(self, i: Any, j: Any, from_root: np.ndarray) -> np.ndarray:
        """Sums of edge lengths from each i to j, given the sums from the root to every node."""
        i, j = self.pairs(i, j)
        # Widen small integers only for the nodes asked about: the tree may have many more.
        wide = np.int64 if from_root.dtype.kind == "i" else from_root.dtype
        at_i, at_j, at_lca = (from_root[k].astype(wide) for k in (i, j, self._lca(i, j)))
        return at_i + at_j - 2 * at_lca

    def matrix(
        self, nodes: np.ndarray, depth_first: np.ndarray, value: np.ndarray, end: np.ndarray | None
    ) -> np.ndarray:
        """Matrix of `value` at the lowest common ancestors of all pairs of the given nodes.

        If `end` is given, each entry is the sum of `end` at the two nodes minus twice `value` at
        their ancestor.

        Parameters
        ----------
        nodes : array of int
            Nodes, in the order of the rows and columns of the result.
        depth_first : array of int
            Indices into `nodes`, in the order in which a depth-first walk meets these nodes.
        value, end : arrays of n numbers of the same type
            Numbers by node.
        """
        walk = nodes[depth_first]
        place = self._flat(walk)
        branch = self._flat(self.lca(walk[:-1], walk[1:]))
        if self._rank is not None:
            place, branch = self._rank[place], self._rank[branch]
            value = value[self._order]
        index = self._jump.dtype
        is_sorted = bool(np.all(depth_first[1:] > depth_first[:-1]))
        row = None if is_sorted else _sweep.readonly(depth_first.astype(index))
        out = np.empty((nodes.size, nodes.size), value.dtype)
        ends = None if end is None else _sweep.readonly(end[walk])
        positions = (_sweep.readonly(place), _sweep.readonly(branch), row)
        kernels.all_pairs(*positions, _sweep.readonly(value), ends, out, 0, nodes.size)
        return out

    def pairs(self, i: Any, j: Any) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays of node numbers, broadcast to the same shape."""
        n = self._jump.shape[0]
        i, j = check.node_numbers("i", i, n), check.node_numbers("j", j, n)
        if i.shape == j.shape:
            return i, j
        try:
            i, j = np.broadcast_arrays(i, j)
        except ValueError:
            check.fail("j", f"must have a shape that fits 'i', {i.shape}, not {j.shape}.")
        return i, j

    def _flat(self, nodes: np.ndarray) -> np.ndarray:
        """The node numbers as a flat array of one type, so that kernels compile only once."""
        return _sweep.readonly(np.ascontiguousarray(nodes, dtype=self._jump.dtype).ravel())


def edge_lengths(edge: Any, n: int, root: int) -> np.ndarray:
    """Copy of finite edge lengths as int64 or float64, with zero at the root, which has no edge."""
    check.refuse_labels("edge", edge)
    a = check.reals("edge", edge)
    if a.shape not in ((), (n,)):
        check.fail("edge", f"must be one number or have shape ({n},), not {a.shape}.")
    own = check.values("edge", np.broadcast_to(a, n), n)
    lengths = own.astype(np.int64 if own.dtype == np.int64 else np.float64)
    lengths[root] = 0
    check.finite("edge", lengths)
    return lengths


def sums_from_root(edge: Any, layout: _sweep.Layout, root: int, height: int) -> np.ndarray:
    """Sum of the edge lengths from the root to each node, in one downward sweep."""
    lengths = edge_lengths(edge, layout.n, root)
    if lengths.dtype == np.int64:
        # The length of a path is the sum of two of these sums minus twice a third one.
        longest = max(int(lengths.max()), -int(lengths.min())) * height
        if 4 * longest > check.INT64_MAX:
            raise check.IntegerOverflowError(
                "edge",
                f"must have sums along paths that fit into 64-bit integers; {height - 1} "
                f"edges of up to {longest // height} do not. Pass floating-point lengths instead.",
            )
    _sweep.propagate(layout, lengths, lengths)
    return lengths
