"""Trees as differentiable functions in jax (extra ``jax``).

A projection onto consistent values is linear, so its derivative in reverse mode is one more
projection. The functions work under ``jit``, ``vmap`` and ``grad``, as often as you like, except
that the derivative with `nonnegative` cannot be differentiated again.

    reconcile                 the closest values that add up, also without negative ones
    propagate                 sums from the root to each node
    accumulate                sums over the nodes below and including each node

Nodes are the last axis of an array, ``(..., n)``, or else the one before, ``(..., n, k)``; `dim`
names another one. If jax runs on the CPU, it calls the sweeps of gmtree back. On an accelerator,
data stay there and values are computed level by level, which suits trees with few levels.

>>> import jax.numpy as jnp, gmtree as gm
>>> gm.jax.reconcile(gm.shapes.star(3), jnp.array([10.0, 4.0, 3.0])).tolist()
[9.0, 5.0, 4.0]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gmtree import _layers
from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.tree import Tree

jax: Any = check.optional("jax", "jax", "gmtree.jax")
jnp = jax.numpy

__all__ = ["accumulate", "propagate", "reconcile"]


class _Host:
    """A computation on the CPU with numpy arrays.

    jax compares instances by identity. `vmap` adds axes in front of values, and in front of the
    weights of nodes only if the weights differ.
    """

    def __init__(self, tree: Tree, post: Consistency | None = None) -> None:
        self.tree, self.post = tree, post

    def _each(self, run: Callable[..., np.ndarray], values: tuple, weights: tuple) -> np.ndarray:
        values = tuple(np.asarray(v) for v in values)
        given = [None if w is None else np.asarray(w) for w in weights]
        lead = np.broadcast_shapes(
            *(v.shape[:-2] for v in values), *(w.shape[:-1] for w in given if w is not None)
        )
        values = tuple(np.broadcast_to(v, (*lead, *v.shape[-2:])) for v in values)
        size, n = values[0].shape[-1], self.tree.n
        if all(w is None or w.size == n for w in given):
            own = [None if w is None else w.reshape(n) for w in given]
            wide = (np.moveaxis(v, -2, 0).reshape(n, -1) for v in values)
            out = run(*map(np.ascontiguousarray, wide), *own)
            return np.moveaxis(out.reshape(n, *lead, size), 0, -2)
        given = [None if w is None else np.broadcast_to(w, (*lead, n)) for w in given]
        out = np.empty(values[0].shape, values[0].dtype)
        for k in np.ndindex(lead):
            own = [None if w is None else w[k] for w in given]
            out[k] = run(*(np.ascontiguousarray(v[k]) for v in values), *own).reshape(n, size)
        return out

    def _solver(self, s: np.ndarray | None) -> Consistency:
        if self.post is not None:
            return self.post
        assert s is not None
        return Consistency(self.tree, {"node": s.astype(np.float64)})

    def project(self, transposed: bool, v: Any, s: Any) -> np.ndarray:
        return self._each(lambda v, s: _layers.project(self._solver(s), v, transposed), (v,), (s,))

    def nonnegative(self, v: Any, s: Any) -> np.ndarray:
        return self._each(lambda v, s: self._solver(s).project(v, nonnegative=True), (v,), (s,))

    def held(self, x: Any, g: Any, s: Any) -> np.ndarray:
        return self._each(
            lambda x, g, s: _layers.held_transposed(self._solver(s), x, g), (x, g), (s,)
        )

    def solve(self, up: bool, v: Any, node: Any, edge: Any) -> np.ndarray:
        return self._each(
            lambda v, node, edge: _layers.solve(self.tree, v, node, edge, up), (v,), (node, edge)
        )


def _call(function: Callable[..., np.ndarray], like: Any, *args: Any) -> Any:
    result = jax.ShapeDtypeStruct(like.shape, like.dtype)
    return jax.pure_callback(function, result, like, *args, vmap_method="expand_dims")


def _gradient(moved: Any, s: Any) -> Any:
    """``-moved / s`` summed over columns; 0 for variances that are 0 or infinite."""
    usual = jnp.isfinite(s) & (s > 0)
    return jnp.where(usual, -moved.sum(1) / jnp.where(usual, s, 1.0), 0.0).astype(s.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _project(host: _Host, transposed: bool, v: Any, s: Any) -> Any:
    return _call(partial(host.project, transposed), v, s)


def _project_forward(host: _Host, transposed: bool, v: Any, s: Any) -> Any:
    out = _project(host, transposed, v, s)
    return out, (v, s, out)


def _project_backward(host: _Host, transposed: bool, kept: Any, g: Any) -> Any:
    v, s, out = kept
    other = _project(host, not transposed, g, s)
    moved = out * (g - other) if transposed else other * (v - out)
    return other, None if s is None else _gradient(moved, s)


_project.defvjp(_project_forward, _project_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _nonnegative(host: _Host, v: Any, s: Any) -> Any:
    return _call(host.nonnegative, v, s)


def _nonnegative_forward(host: _Host, v: Any, s: Any) -> Any:
    x = _nonnegative(host, v, s)
    return x, (v, s, x)


def _nonnegative_backward(host: _Host, kept: Any, g: Any) -> Any:
    v, s, x = kept
    gradient = _call(host.held, x, g, s)
    return gradient, None if s is None else _gradient(gradient * (v - x), s)


_nonnegative.defvjp(_nonnegative_forward, _nonnegative_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _sweep(host: _Host, up: bool, v: Any, node: Any, edge: Any) -> Any:
    return _call(partial(host.solve, up), v, node, edge)


def _sweep_forward(host: _Host, up: bool, v: Any, node: Any, edge: Any) -> Any:
    z = _sweep(host, up, v, node, edge)
    return z, (node, edge, z)


def _sweep_backward(host: _Host, up: bool, kept: Any, g: Any) -> Any:
    node, edge, z = kept
    gv = _sweep(host, not up, g, node, edge)
    of_node = None if node is None else -(gv * z).sum(1).astype(node.dtype)
    of_edge = None
    if edge is not None:
        parent = host.tree.parent
        above, own = (gv, z) if up else (z, gv)
        product = (above[np.maximum(parent, 0)] * own).sum(1)
        of_edge = jnp.where(parent < 0, 0.0, product).astype(edge.dtype)
    return gv, of_node, of_edge


_sweep.defvjp(_sweep_forward, _sweep_backward)


# --------------------------------------------------------------------------- functions


def _add_rows(count: int, index: Any, rows: Any) -> Any:
    return jax.ops.segment_sum(rows, index, count)


def _levels(tree: Tree, by_level: bool | None) -> _layers.Levels | None:
    if by_level or (by_level is None and jax.default_backend() != "cpu"):
        return _layers.Levels(tree, jnp, jnp.asarray, _add_rows)
    return None


def _floating(x: Any) -> Any:
    x = jnp.asarray(x)
    return x if x.dtype in (jnp.float32, jnp.float64) else x.astype(jnp.float32)


def reconcile(
    tree: Tree | Consistency,
    noisy: Any,
    variance: Any = None,
    *,
    nonnegative: bool = False,
    dim: int | None = None,
    by_level: bool | None = None,
) -> Any:
    """The consistent values closest to the measurements, as :meth:`gmtree.Consistency.project`.

    For values that must add up along several axes, call it once for each axis with its tree and
    `dim`. The result is optimal if the variance of each entry is the product of the variances of
    its nodes.

    Parameters
    ----------
    tree : Tree or Consistency
        A `Consistency` has its own variances and is prepared once for many calls.
    noisy : array of shape (..., n) or (..., n, k)
    variance : optional
        An array of jax with n variances, which may be differentiated, or fixed variances in any
        form that :class:`gmtree.Consistency` accepts.
    nonnegative : bool
        Require all leaves to be at least 0. The derivative is that of the projection in which the
        leaves that are zero are held at zero.
    dim : int, optional
        The axis of the nodes: by default the last one if it has n entries, or else the one before.
    by_level : bool, optional
        Compute level by level with operations of jax; by default on accelerators only.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, gmtree as gm
    >>> total = lambda v: gm.jax.reconcile(gm.shapes.star(3), v)[0]
    >>> [round(x, 3) for x in jax.grad(total)(jnp.array([10.0, 4.0, 3.0])).tolist()]
    [0.667, 0.333, 0.333]
    """
    check.flag("nonnegative", nonnegative)
    s = variance if isinstance(variance, jax.Array) else None
    post = _layers.consistency(tree, None if s is not None else variance)
    v, restore = _layers.columns(_floating(noisy), post.tree.n, dim, jnp.moveaxis)
    levels = _levels(post.tree, by_level)
    if levels is None:
        host = _Host(post.tree, post if s is None else None)
        return restore(_nonnegative(host, v, s) if nonnegative else _project(host, False, v, s))
    fixed = jnp.asarray(post._factor.variance, v.dtype)
    column = (fixed if s is None else s.astype(v.dtype))[:, None]
    if not nonnegative:
        return restore(levels.project(v, column))

    def hold(state: tuple[Any, Any]) -> tuple[Any, Any]:
        fixed = jax.lax.stop_gradient((v, column))
        more = levels.hold(fixed[0], fixed[1], state[0])[1]
        return more, (more != state[0]).any()

    held = jnp.zeros(v.shape, bool)
    held, _ = jax.lax.while_loop(lambda state: state[1], hold, (held, jnp.array(True)))
    return restore(levels.hold(v, column, held)[0])


def propagate(
    tree: Tree,
    values: Any,
    node_weight: Any = None,
    edge_weight: Any = None,
    *,
    dim: int | None = None,
    by_level: bool | None = None,
) -> Any:
    """Downward: ``z_i = (v_i + edge_weight_i z_parent) / node_weight_i``, as ``G.solve(values)``.

    Parameters
    ----------
    tree : Tree
    values : array of shape (..., n) or (..., n, k)
    node_weight, edge_weight : arrays of shape (n,), optional
        Ones by default. The edge weight of the root is ignored.
    dim, by_level
        See :func:`reconcile`.

    Examples
    --------
    >>> import jax.numpy as jnp, gmtree as gm
    >>> gm.jax.propagate(gm.shapes.chain(3), jnp.ones(3)).tolist()
    [1.0, 2.0, 3.0]
    """
    return _solve(tree, values, node_weight, edge_weight, dim, by_level, up=False)


def accumulate(
    tree: Tree,
    values: Any,
    node_weight: Any = None,
    edge_weight: Any = None,
    *,
    dim: int | None = None,
    by_level: bool | None = None,
) -> Any:
    """Upward: ``z_i = (v_i + sum of edge_weight_c z_c over children) / node_weight_i``.

    This is ``G.T.solve(values)``. Parameters are those of :func:`propagate`.

    Examples
    --------
    >>> import jax.numpy as jnp, gmtree as gm
    >>> gm.jax.accumulate(gm.shapes.chain(3), jnp.ones(3)).tolist()
    [3.0, 2.0, 1.0]
    """
    return _solve(tree, values, node_weight, edge_weight, dim, by_level, up=True)


def _solve(
    tree: Tree, values: Any, node: Any, edge: Any, dim: Any, by_level: bool | None, *, up: bool
) -> Any:
    check.instance("tree", tree, Tree)
    node, edge = (None if w is None else _floating(w) for w in (node, edge))
    for name, w in (("node_weight", node), ("edge_weight", edge)):
        if w is not None and w.shape != (tree.n,):
            check.fail(name, f"must have shape ({tree.n},), one weight per node, not {w.shape}.")
    v, restore = _layers.columns(_floating(values), tree.n, dim, jnp.moveaxis)
    levels = _levels(tree, by_level)
    if levels is not None:
        return restore(levels.solve(v, node, edge, up))
    return restore(_sweep(_Host(tree), up, v, node, edge))
