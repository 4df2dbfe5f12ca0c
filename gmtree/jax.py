"""Trees as differentiable functions in jax (extra ``jax``).

A projection onto consistent values is linear, so its derivative in reverse mode is one more
projection. The functions work under ``jit``, ``vmap`` and ``grad``, also nested.

    reconcile                 the closest values that add up, also without negative ones
    propagate                 sums from the root to each node
    accumulate                sums over the nodes below and including each node

Nodes are the last axis of an array, ``(..., n)``, or else the one before, ``(..., n, k)``; `dim`
names another one. On the CPU, jax calls the sweeps of gmtree. On an accelerator, data stay there
and values are computed level by level, which suits trees with few levels.

>>> import jax.numpy as jnp, gmtree as gm
>>> gm.jax.reconcile(gm.shapes.star(3), jnp.array([10.0, 4.0, 3.0])).tolist()
[9.0, 5.0, 4.0]
"""

from __future__ import annotations

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


def _on_host(run: Any, *args: Any) -> np.ndarray:
    """Apply `run` to arrays with axes of `vmap` in front, once if weights are equal along them."""
    given: list[Any] = [None if a is None else np.asarray(a) for a in args]
    n, axes = given[0].shape[-2], given[0].ndim - 2
    lead = np.broadcast_shapes(*(a.shape[:axes] for a in given if a is not None))
    shared = all(a is None or a.ndim == axes + 2 or a.size == n for a in given)

    def part(a: Any, k: tuple) -> Any:
        if a is None or (shared and a.ndim == axes + 1):
            return None if a is None else a.reshape(n)
        a = np.broadcast_to(a, (*lead, *a.shape[axes:]))[k]
        return a if a.ndim == 1 else np.ascontiguousarray(np.moveaxis(a, -2, 0)).reshape(n, -1)

    runs = [()] if shared else np.ndindex(lead)
    out = np.stack([run(*(part(a, k) for a in given)).reshape(n, -1) for k in runs], axis=1)
    return np.moveaxis(out.reshape(n, *lead, -1), 0, -2)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _apply(run: Any, v: Any, a: Any, b: Any) -> Any:
    """A `_layers.Projection` or `_layers.Solve`, called back on the CPU."""
    result = jax.ShapeDtypeStruct(v.shape, v.dtype)
    return jax.pure_callback(partial(_on_host, run), result, v, a, b, vmap_method="expand_dims")


def _forward(run: Any, v: Any, a: Any, b: Any) -> Any:
    out = _apply(run, v, a, b)
    return out, (v, out, a, b)


def _backward(run: Any, kept: Any, g: Any) -> Any:
    v, out, a, b = kept
    turned, *weights = run.backward(out, a, b)
    back = _apply(turned, g, *weights)
    return back, *run.gradients(jnp, v, out, g, back, a, b)


_apply.defvjp(_forward, _backward)


def _floating(name: str, x: Any, dtype: Any) -> Any:
    x = jnp.asarray(x)
    own = x.dtype if x.dtype in (jnp.float32, jnp.float64) else jnp.float32
    return x.astype(dtype or own)


def _until_same(function: Any, x: Any) -> Any:
    def again(two: Any) -> Any:
        return two[1], function(two[1])

    return jax.lax.while_loop(lambda two: (two[0] != two[1]).any(), again, (x, function(x)))[0]


_jax = _layers.Library(
    xp=jnp,
    array=jax.Array,
    on_cpu=lambda v: jax.default_backend() == "cpu",
    floating=_floating,
    apply=_apply,
    solver=lambda tree, s: None,  # variances may still be traced
    put=lambda a, v: jnp.asarray(a),
    add_rows=lambda n, i, rows: jax.ops.segment_sum(rows, i, n),
    until_same=_until_same,
)


# --------------------------------------------------------------------------- functions


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
        Compute level by level with operations of jax. By default only accelerators do so.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, gmtree as gm
    >>> total = lambda v: gm.jax.reconcile(gm.shapes.star(3), v)[0]
    >>> [round(x, 3) for x in jax.grad(total)(jnp.array([10.0, 4.0, 3.0])).tolist()]
    [0.667, 0.333, 0.333]
    """
    return _jax.reconcile(tree, noisy, variance, nonnegative, dim, by_level)


def propagate(
    tree: Tree,
    values: Any,
    node_weight: Any = None,
    edge_weight: Any = None,
    *,
    dim: int | None = None,
    by_level: bool | None = None,
) -> Any:
    """Values passed on from the root to the leaves, as ``G.solve(values)``.

    Node i gets ``z_i = (v_i + edge_weight_i z_parent) / node_weight_i``. If all weights are one,
    these are sums from the root to each node.

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
    return _jax.solve(tree, values, node_weight, edge_weight, dim, by_level, up=False)


def accumulate(
    tree: Tree,
    values: Any,
    node_weight: Any = None,
    edge_weight: Any = None,
    *,
    dim: int | None = None,
    by_level: bool | None = None,
) -> Any:
    """Values added up from the leaves to the root, as ``G.T.solve(values)``.

    Node i gets ``z_i = (v_i + sum of edge_weight_c z_c over its children c) / node_weight_i``. If
    all weights are one, these are sums over subtrees. The parameters are those of
    :func:`propagate`.

    Examples
    --------
    >>> import jax.numpy as jnp, gmtree as gm
    >>> gm.jax.accumulate(gm.shapes.chain(3), jnp.ones(3)).tolist()
    [3.0, 2.0, 1.0]
    """
    return _jax.solve(tree, values, node_weight, edge_weight, dim, by_level, up=True)
