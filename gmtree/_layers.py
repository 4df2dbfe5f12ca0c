"""Linear maps on trees for automatic differentiation, shared by the torch and jax modules.

On the CPU, `Projection` and `Solve` are sweeps over numpy arrays with one row per node; they know
their transposes and the gradients of their weights. On an accelerator, `Levels` computes the same
maps level by level with operations of torch or jax. `Library` checks arguments and chooses between
the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
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
            check.fail("variance", "must be None with a Consistency, which has its own variances.")
        return tree
    check.instance("tree", tree, Tree)
    return Consistency(tree, variance)


@dataclass(frozen=True, eq=False)
class Projection:
    """``P v`` for a projection P or its transpose.

    If `post` is None, each call gets the variances s. If a call gets x, the optimum without
    negative values for each column of v, leaves that are zero in x are held at zero.
    """

    tree: Tree
    post: Consistency | None
    nonnegative: bool = False
    transposed: bool = False

    def __call__(self, v: np.ndarray, s: Any, x: Any) -> np.ndarray:
        post = self.post
        if post is None:
            post = Consistency(self.tree, {"node": s.astype(np.float64)})
        if self.nonnegative:
            return post.project(v, nonnegative=True)
        if x is None:
            return _project(post, v, self.transposed)
        variance = post._factor.variance
        held = (x == 0) & ((self.tree.child_count == 0) & (variance > 0))[:, None]
        out = np.where(held, 0, v)
        for j in range(v.shape[1]):
            node = np.where(held[:, j], 0.0, variance)
            solver = Consistency(self.tree, {"node": node}) if held[:, j].any() else post
            out[:, j] = _project(solver, out[:, j : j + 1].copy(), self.transposed)
        return np.where(held, 0, out)

    def backward(self, out: Any, s: Any, x: Any) -> tuple[Projection, Any, Any]:
        """The transposed map, and its s and x."""
        turned = replace(self, nonnegative=False, transposed=not self.transposed)
        return turned, s, out if self.nonnegative else x

    def gradients(self, xp: Any, v: Any, out: Any, g: Any, back: Any, s: Any, x: Any) -> Any:
        """Gradients of s and x: 0 at variances that are 0 or infinite, and None for x."""
        if s is None:
            return None, None
        moved = out * (g - back) if self.transposed else back * (v - out)
        usual = xp.isfinite(s) & (s > 0)
        return xp.where(usual, -moved.sum(1) / xp.where(usual, s, 1.0), 0.0), None


@dataclass(frozen=True, eq=False)
class Solve:
    """``G.T.solve`` if upward, else ``G.solve``; weights are by node, or None if all are one."""

    tree: Tree
    up: bool

    def __call__(self, v: np.ndarray, node: Any, edge: Any) -> np.ndarray:
        flat = np.ascontiguousarray(v[:, 0]) if v.shape[1] == 1 else v
        w, e = (None if a is None else self.tree._to_positions(a) for a in (node, edge))
        out, sweep = np.empty_like(flat), _sweep.accumulate if self.up else _sweep.propagate
        sweep(self.tree._layout, flat, out, w, e)
        return out.reshape(v.shape)

    def backward(self, out: Any, node: Any, edge: Any) -> tuple[Solve, Any, Any]:
        """The transposed map, and the weights to call it with."""
        return Solve(self.tree, not self.up), node, edge

    def gradients(self, xp: Any, v: Any, out: Any, g: Any, back: Any, node: Any, edge: Any) -> Any:
        """Gradients of the weights."""
        of_node = None if node is None else -(back * out).sum(1)
        if edge is None:
            return of_node, None
        parent = xp.asarray(self.tree.parent.astype(np.int64))
        above, own = (back, out) if self.up else (out, back)
        return of_node, xp.where(parent < 0, 0.0, (above[parent] * own).sum(1))


# --------------------------------------------------------------------------- sweeps


def _project(post: Consistency, v: np.ndarray, transposed: bool) -> np.ndarray:
    """``P v`` or ``P.T v``; a single column is returned as a vector."""
    if v.shape[1] == 1:
        v = v[:, 0]
    factor = post._factor
    if not transposed or factor.s is None:
        return post.project(v)
    if factor.measured is None and not factor.some_exact:
        # P = C / s for the symmetric covariance C of the result.
        out = post.project((v.T * factor.variance).T)
        return (out.T / factor.variance).T.astype(v.dtype, copy=False)
    return _transposed(post, v.astype(np.float64)).astype(v.dtype, copy=False)


def _transposed(post: Consistency, g: np.ndarray) -> np.ndarray:
    """``P.T g`` as two sweeps, for any variances: the sweeps of P in reverse."""
    tree, layout = post.tree, post.tree._layout
    gain, carry, share = _weights(post)
    total, out = np.empty(g.shape), np.empty(g.shape)
    _sweep.accumulate(layout, g, total, None, share)
    above = (g - total)[tree.parent]
    above[tree.root] = 0
    from_parent = np.zeros(layout.n)
    from_parent[1:] = carry[layout.parent[1:]]
    _sweep.propagate(layout, total + above, out, None, from_parent)
    return (out.T * tree._from_positions(gain)).T


def _weights(post: Consistency) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gain, carry and share by position.

    On the way up ``z = gain v + carry b`` for the sum b of the children. On the way down a node
    takes `share` of its parent's difference.
    """
    factor, parent = post._factor, post.tree._layout.parent
    s = factor.s
    assert s is not None
    t = np.full(s.size, np.inf)
    t[: factor.t.size] = factor.t
    share, above = np.zeros(s.size), t[parent[1:]]
    with np.errstate(invalid="ignore", divide="ignore"):
        gain, carry, q = combine(np, s, t)
        q = q if factor.q is None else factor.q
        share[1:] = np.where(np.isinf(above), q[1:], np.where(above > 0, q[1:] / above, 0.0))
    return gain, carry, share


def combine(xp: Any, s: Any, t: Any) -> tuple[Any, Any, Any]:
    """(t / (s + t), s / (s + t), s t / (s + t)) with their limits for 0 and infinity."""
    known = (s == 0) | (xp.isinf(t) & xp.isfinite(s))
    plain = ~known & xp.isfinite(s) & (t > 0)
    own, below = xp.where(plain, s, 1.0), xp.where(plain, t, 1.0)
    gain = xp.where(plain, below / (own + below), known)
    carry = xp.where(plain, own / (own + below), ~known)
    return gain, carry, xp.where(plain, below * carry, xp.where(known, s, t))


# --------------------------------------------------------------------------- torch and jax


@dataclass(frozen=True, eq=False)
class Library:
    """The functions of `gmtree.torch` or `gmtree.jax`, from the parts in which they differ.

    A comment lists the arguments of each function, and then its result.
    """

    xp: Any  # torch or jax.numpy
    array: type
    on_cpu: Callable  # (values): whether sweeps can read their memory
    floating: Callable  # (name, x, dtype): x with that dtype or, for None, with 32 or 64 bits
    apply: Callable  # (Projection or Solve, v, its weights): its result, differentiable
    solver: Callable  # (tree, variances): a Consistency, or None if variances are not yet known
    put: Callable  # (numpy array, values): the array on the device of the values
    add_rows: Callable  # (count, index, rows): row i is the sum of the rows whose index is i
    until_same: Callable  # (function, x): x after repeated calls, when a call no longer changes it

    def _start(self, tree: Tree, values: Any, dim: int | None, by_level: bool | None) -> Any:
        """Values with one row per node, a function that restores their shape, and `Levels`."""
        check.instance("tree", tree, Tree)
        values, n = self.floating("values", values, None), tree.n
        shape = tuple(values.shape)
        if dim is None:
            dim = -2 if len(shape) > 1 and shape[-1] != n else -1
        if not -len(shape) <= dim < len(shape) or shape[dim] != n:
            check.fail("values", f"must have {n} nodes along an axis, not shape {shape}.")
        moved = self.xp.moveaxis(values, dim, 0)
        by_level = not self.on_cpu(values) if by_level is None else by_level
        levels = Levels(self, tree, values) if by_level else None

        def restore(x: Any) -> Any:
            return self.xp.moveaxis(x.reshape(moved.shape), 0, dim)

        return moved.reshape(n, -1), restore, levels

    def _weights(self, name: str, w: Any, v: Any) -> Any:
        if w is None:
            return None
        w = self.floating(name, w, v.dtype)
        if w.shape != v.shape[:1]:
            check.fail(name, f"must have shape ({len(v)},), one per node, not {tuple(w.shape)}.")
        return w

    def reconcile(
        self, tree: Any, noisy: Any, variance: Any, nonnegative: bool, dim: Any, by_level: Any
    ) -> Any:
        check.flag("nonnegative", nonnegative)
        post: Any = None
        if not isinstance(variance, self.array):
            post = consistency(tree, variance)
            tree, variance = post.tree, None
        v, restore, levels = self._start(tree, noisy, dim, by_level)
        s = self._weights("variance", variance, v)
        if levels is None:
            post = self.solver(tree, variance) if post is None else post
            return restore(self.apply(Projection(tree, post, nonnegative), v, s, None))
        if s is None:
            s = self._weights("variance", self.put(post._factor.variance, v), v)
        return restore(levels.project(v, s[:, None], nonnegative))

    def solve(
        self, tree: Tree, values: Any, node: Any, edge: Any, dim: Any, by_level: Any, up: bool
    ) -> Any:
        v, restore, levels = self._start(tree, values, dim, by_level)
        node, edge = self._weights("node_weight", node, v), self._weights("edge_weight", edge, v)
        if levels is not None:
            return restore(levels.solve(v, node, edge, up))
        return restore(self.apply(Solve(tree, up), v, node, edge))


# --------------------------------------------------------------------------- levels


class Levels:
    """Forward and backward maps level by level, with the operations of another library.

    Values are not checked, so that none of them leaves its device.
    """

    def __init__(self, library: Library, tree: Tree, like: Any) -> None:
        order = np.argsort(tree.depth, kind="stable")
        place = np.argsort(order)
        # An empty level at the end, so that each level of nodes has one below.
        start = np.searchsorted(tree.depth[order], np.arange(1, tree.height + 3)).tolist()
        self._library, self._xp, self._range = library, library.xp, list(pairwise(start))
        self._order, self._place = library.put(order, like), library.put(place, like)
        self._leaf = self._split(library.put((tree.child_count == 0)[:, None], like))
        # For each level, the row of each node's parent in the level above.
        parent = place[tree.parent[order]]
        self._parent = [library.put(parent[a:b] - start[max(d - 1, 0)], like)
                        for d, (a, b) in enumerate(self._range)]  # fmt: skip

    def _split(self, a: Any) -> list[Any]:
        a = a[self._order]
        return [a[start:stop] for start, stop in self._range]

    def _join(self, parts: list[Any]) -> Any:
        return self._xp.concatenate(parts)[self._place]

    def _sums(self, d: int, rows: Any) -> Any:
        """At each node of level d, the sum of the rows of its children."""
        return self._library.add_rows(len(self._leaf[d]), self._parent[d + 1], rows)

    def solve(self, v: Any, node: Any, edge: Any, up: bool) -> Any:
        """`Solve`, with operations that can be differentiated."""
        z, ones = self._split(v), self._xp.ones_like(v[:, :1])
        w, e = (self._split(ones if a is None else a[:, None]) for a in (node, edge))
        for d in reversed(range(len(z) - 1)) if up else range(len(z)):
            if up:
                z[d] = z[d] + self._sums(d, e[d + 1] * z[d + 1])
            elif d > 0:
                z[d] = z[d] + e[d] * z[d - 1][self._parent[d]]
            z[d] = z[d] / w[d]
        return self._join(z)

    def project(self, v: Any, s: Any, nonnegative: bool) -> Any:
        """Return ``P v`` or the non-negative optimum, given one column of variances."""
        if not nonnegative:
            return self._closest(v, s)
        xp, leaf = self._xp, self._join(self._leaf)
        s = s + xp.zeros_like(v)

        def hold(held: Any) -> Any:
            return self._closest(xp.where(held, 0.0, v), xp.where(held, 0.0, s))

        def more(held: Any) -> Any:
            return held | (leaf & (hold(held) < 0) & (s > 0))

        return hold(self._library.until_same(more, v != v))

    def _closest(self, v: Any, s: Any) -> Any:
        """``P v``; variances with one column, or one for each column of v."""
        xp = self._xp
        v, s = self._split(xp.where(xp.isfinite(s), v, 0.0)), self._split(s)
        b, z, t, q = list(v), list(v), list(s), list(s)
        for d in reversed(range(len(v) - 1)):
            t[d] = xp.where(self._leaf[d], np.inf, self._sums(d, q[d + 1]))
            b[d] = self._sums(d, z[d + 1])
            gain, carry, q[d] = combine(xp, s[d], t[d])
            z[d] = gain * v[d] + carry * b[d]
        for d in range(1, len(v)):
            parent, loose = self._parent[d], xp.isinf(q[d])
            above = t[d - 1][parent]
            plain = xp.isfinite(above) & (above > 0)
            share = xp.where(plain, q[d], 0.0) / xp.where(plain, above, 1.0)
            # If some siblings are undetermined, only these share the difference, in equal parts.
            count = self._sums(d - 1, xp.where(loose, xp.ones_like(share), 0.0))[parent]
            share = xp.where(xp.isinf(above) & loose, 1.0 / xp.where(loose, count, 1.0), share)
            z[d] = z[d] + share * (z[d - 1] - b[d - 1])[parent]
        return self._join(z)
