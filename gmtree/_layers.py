"""Linear maps on trees for automatic differentiation, shared by the torch and jax modules.

On the CPU, maps and their transposes are sweeps over numpy arrays, one row per node. On an
accelerator, `Levels` computes them level by level with the operations of torch or jax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.tree import Tree


def consistency(tree: Tree | Consistency, variance: Any) -> Consistency:
    """The solver for a tree and fixed variances; a `Consistency` is returned unchanged."""
    if isinstance(tree, Consistency):
        if variance is not None:
            check.fail("variance", "must be None if a Consistency is given, which has variances.")
        return tree
    check.instance("tree", tree, Tree)
    return Consistency(tree, variance)


def node_axis(shape: Sequence[int], n: int, dim: int | None) -> int:
    """The axis of the nodes: the last one if it has one entry per node, or else the one before."""
    if dim is None:
        dim = -2 if len(shape) > 1 and shape[-1] != n else -1
    if not -len(shape) <= dim < len(shape) or shape[dim] != n:
        check.fail("values", f"must have {n} nodes along an axis, not shape {tuple(shape)}.")
    return dim


def columns(values: Any, n: int, dim: int | None, moveaxis: Any) -> tuple[Any, Any]:
    """Values with one row per node, and a function that restores the shape for results."""
    axis = node_axis(values.shape, n, dim)
    moved = moveaxis(values, axis, 0)
    shape = tuple(moved.shape)
    return moved.reshape(n, -1), lambda out: moveaxis(out.reshape(shape), 0, axis)


# --------------------------------------------------------------------------- sweeps


def project(post: Consistency, v: np.ndarray, transposed: bool) -> np.ndarray:
    """``P v`` or ``P.T v`` for the projection P, one column for each column of v."""
    if v.shape[1] == 1:
        v = v[:, 0]
    factor = post._factor
    if not transposed or factor.s is None:
        return post.project(v)
    s = factor.variance if v.ndim == 1 else factor.variance[:, None]
    if factor.measured is None and not factor.some_exact:
        # P = C / s for the symmetric covariance C of the result.
        out = post.project(v * s)
        out /= s
        return out.astype(v.dtype, copy=False)
    return _transposed(post, v.astype(np.float64)).astype(v.dtype, copy=False)


def _transposed(post: Consistency, g: np.ndarray) -> np.ndarray:
    """``P.T g`` as two sweeps, for any variances: the sweeps of P in reverse."""
    factor, layout = post._factor, post.tree._layout
    gain, carry, share = _weights(post)
    total = np.empty(g.shape)
    _sweep.accumulate(layout, g, total, None, share)
    above = np.zeros(g.shape)
    child = np.flatnonzero(post.tree.parent >= 0)
    above[child] = (g - total)[post.tree.parent[child]]
    out = np.empty(g.shape)
    from_parent = np.zeros(layout.n)
    from_parent[1:] = carry[layout.parent[1:]]
    _sweep.propagate(layout, total + above, out, None, from_parent)
    gain = factor.tree._from_positions(gain)
    out *= gain if g.ndim == 1 else gain[:, None]
    return out


def _weights(post: Consistency) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By position: ``z = gain v + carry b`` on the way up, ``share`` of a difference downward."""
    factor, parent = post._factor, post.tree._layout.parent
    s = factor.s
    assert s is not None
    t = np.full(s.size, np.inf)
    t[: factor.t.size] = factor.t
    gain, carry, q = combine(np, s, t)
    if factor.q is not None:
        q = factor.q
    share, above = np.zeros(s.size), t[parent[1:]]
    with np.errstate(invalid="ignore", divide="ignore"):
        share[1:] = np.where(np.isinf(above), q[1:], np.where(above > 0, q[1:] / above, 0.0))
    return gain, carry, share


def combine(xp: Any, s: Any, t: Any) -> tuple[Any, Any, Any]:
    """(t / (s + t), s / (s + t), s t / (s + t)) with their limits for 0 and infinity."""
    total = s + t
    plain = xp.isfinite(total) & (total > 0)
    inverse = 1.0 / xp.where(plain, total, xp.ones_like(total))
    own, below = xp.where(plain, s, xp.ones_like(total)), xp.where(plain, t, xp.ones_like(total))
    zero, one = xp.zeros_like(total), xp.ones_like(total)
    known = xp.isfinite(s + zero) & ~((s > 0) & (t == 0))
    gain = xp.where(plain, below * inverse, xp.where(known, one, zero))
    carry = xp.where(plain, own * inverse, xp.where(known, zero, one))
    return gain, carry, xp.where(plain, own * below * inverse, xp.minimum(s + zero, t + zero))


def held_leaves(post: Consistency, x: np.ndarray) -> np.ndarray:
    """Leaves that the optimum x without negative values holds at zero."""
    leaf = (post.tree.child_count == 0) & (post._factor.variance > 0)
    return (x == 0) & leaf[:, None]


def held_transposed(post: Consistency, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The transposed derivative of the optimum x without negative values, for fixed held leaves."""
    held, out = held_leaves(post, x), np.empty(g.shape, g.dtype)
    for j in range(g.shape[1]):
        s = np.where(held[:, j], 0.0, post._factor.variance)
        solver = Consistency(post.tree, {"node": s}) if held[:, j].any() else post
        out[:, j] = np.where(held[:, j], 0, project(solver, g[:, j : j + 1], True))
    return out


def solve(tree: Tree, v: np.ndarray, node: Any, edge: Any, up: bool) -> np.ndarray:
    """``G.T.solve`` or ``G.solve`` for columns; weights are by node, or None if all are one."""
    layout, flat = tree._layout, v[:, 0] if v.shape[1] == 1 else v
    flat, out = np.ascontiguousarray(flat), np.empty(flat.shape, v.dtype)
    w, e = (None if a is None else tree._to_positions(a.astype(v.dtype)) for a in (node, edge))
    (_sweep.accumulate if up else _sweep.propagate)(layout, flat, out, w, e)
    return out.reshape(v.shape)


# --------------------------------------------------------------------------- levels


class Levels:
    """Forward and backward maps level by level, with the operations of another library.

    Parameters
    ----------
    tree : Tree
    xp : module
        torch or jax.numpy.
    asarray : function
        Moves a numpy array to the device of the values.
    add_rows : function of (count, index, rows)
        An array of `count` rows, in which each row is added at its index.
    """

    def __init__(self, tree: Tree, xp: Any, asarray: Callable, add_rows: Callable) -> None:
        depth = tree.depth
        order = np.argsort(depth, kind="stable")
        start = np.searchsorted(depth[order], np.arange(1, tree.height + 2))
        place = np.empty(tree.n, np.int64)
        place[order] = np.arange(tree.n)
        self._xp, self._add, self._size = xp, add_rows, np.diff(start).tolist()
        self._order, self._place = asarray(order), asarray(place)
        parent = place[tree.parent[order]]
        leaf = (tree.child_count == 0)[order][:, None]
        self._range = list(zip(start[:-1].tolist(), start[1:].tolist(), strict=True))
        self._leaf = [asarray(leaf[a:b]) for a, b in self._range]
        # For each level, the row of each node's parent in the level above.
        self._parent = [asarray(parent[a:b] - start[max(d - 1, 0)])
                        for d, (a, b) in enumerate(self._range)]  # fmt: skip

    def _split(self, a: Any) -> list[Any]:
        a = a[self._order]
        return [a[start:stop] for start, stop in self._range]

    def _join(self, parts: list[Any]) -> Any:
        return self._xp.concatenate(parts)[self._place]

    def _sums(self, d: int, rows: Any) -> Any:
        """At each node of level d, the sum of the rows of its children."""
        return self._add(self._size[d], self._parent[d + 1], rows)

    def solve(self, v: Any, node: Any, edge: Any, up: bool) -> Any:
        """`solve` with columns of weights."""
        z = self._split(v)
        w = None if node is None else self._split(node[:, None])
        e = None if edge is None else self._split(edge[:, None])
        last = len(z) - 1
        for d in range(last, -1, -1) if up else range(last + 1):
            if up and d < last:
                z[d] = z[d] + self._sums(d, z[d + 1] if e is None else e[d + 1] * z[d + 1])
            if not up and d > 0:
                above = z[d - 1][self._parent[d]]
                z[d] = z[d] + (above if e is None else e[d] * above)
            if w is not None:
                z[d] = z[d] / w[d]
        return self._join(z)

    def project(self, values: Any, variance: Any) -> Any:
        """``P v``; variances with one column, or one for each column of v."""
        xp = self._xp
        values = xp.where(xp.isfinite(variance), values, xp.zeros_like(values))
        v, s = self._split(values), self._split(variance)
        t: list[Any] = [None] * len(v)
        b, q, z = t.copy(), t.copy(), t.copy()
        for d in range(len(v) - 1, -1, -1):
            t[d], b[d] = xp.full_like(s[d], np.inf), xp.zeros_like(v[d])
            if d < len(v) - 1:
                t[d] = xp.where(self._leaf[d], t[d], self._sums(d, q[d + 1]))
                b[d] = self._sums(d, z[d + 1])
            gain, carry, q[d] = combine(xp, s[d], t[d])
            z[d] = gain * v[d] + carry * b[d]
        x = [z[0]]
        for d in range(1, len(v)):
            parent = self._parent[d]
            above = t[d - 1][parent]
            plain = xp.isfinite(above) & (above > 0)
            share = xp.where(plain, q[d], xp.zeros_like(q[d])) / xp.where(
                plain, above, xp.ones_like(above)
            )
            # Only undetermined siblings share a difference, evenly.
            loose = xp.where(xp.isinf(q[d]), xp.ones_like(q[d]), xp.zeros_like(q[d]))
            count = self._sums(d - 1, loose)[parent]
            share = xp.where(xp.isinf(above), loose / xp.maximum(count, xp.ones_like(count)), share)
            x.append(z[d] + share * (x[d - 1] - b[d - 1])[parent])
        return self._join(x)

    def hold(self, values: Any, variance: Any, held: Any) -> tuple[Any, Any]:
        """The projection with held leaves at zero, and all leaves to be held in the next pass."""
        xp = self._xp
        s = xp.where(held, xp.zeros_like(values), variance + xp.zeros_like(values))
        x = self.project(xp.where(held, xp.zeros_like(values), values), s)
        leaf = xp.concatenate(self._leaf)[self._place]
        return x, held | (leaf & (x < 0) & (s > 0))
