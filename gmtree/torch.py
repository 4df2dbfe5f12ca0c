"""Trees as layers of neural networks in torch (extra ``torch``).

A projection onto consistent values is linear, so its backward pass is one more projection: training
through :class:`Reconcile` costs as much as reconciling twice. :class:`Propagate` and
:class:`Accumulate` are the solves with a Generation Matrix, each the backward pass of the other.

    Reconcile, reconcile      the closest values that add up, also without negative ones
    Propagate, propagate      sums from the root to each node
    Accumulate, accumulate    sums over the nodes below and including each node

Nodes are the last axis of a tensor, ``(..., n)``, or else the one before, ``(..., n, k)``; `dim`
names another one. On the CPU, the sweeps of gmtree run on the memory of the tensors. On an
accelerator, data stay there and values are computed level by level with operations of torch, which
suits trees with few levels. Backward passes can be differentiated again, except with `nonnegative`.

>>> import torch, gmtree as gm
>>> layer = gm.torch.Reconcile(gm.shapes.star(3))
>>> noisy = torch.tensor([10.0, 4.0, 3.0], requires_grad=True)
>>> layer(noisy).tolist()
[9.0, 5.0, 4.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmtree import _layers
from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.tree import Tree

torch: Any = check.optional("torch", "torch", "gmtree.torch")

__all__ = ["Accumulate", "Propagate", "Reconcile", "accumulate", "propagate", "reconcile"]


def _numpy(x: Any) -> np.ndarray:
    """The memory of a tensor as a contiguous numpy array."""
    return np.ascontiguousarray(x.detach().numpy())


def _gradient(moved: Any, s: Any) -> Any:
    """``-moved / s`` summed over columns; 0 for variances that are 0 or infinite."""
    usual = torch.isfinite(s) & (s > 0)
    total = moved.sum(1).to(s.dtype)
    return torch.where(usual, -total / torch.where(usual, s, torch.ones_like(s)), 0.0)


class _Project(torch.autograd.Function):
    """P v, or P.T v if transposed; s is None if its gradient is not needed."""

    @staticmethod
    def forward(ctx: Any, v: Any, s: Any, post: Consistency, transposed: bool) -> Any:
        out = torch.from_numpy(_layers.project(post, _numpy(v), transposed)).reshape(v.shape)
        ctx.save_for_backward(v, s, out)
        ctx.post, ctx.transposed = post, transposed
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        v, s, out = ctx.saved_tensors
        other = _Project.apply(g, s, ctx.post, not ctx.transposed)
        if s is None:
            return other, None, None, None
        moved = out * (g - other) if ctx.transposed else other * (v - out)
        return other, _gradient(moved, s), None, None


class _Nonnegative(torch.autograd.Function):
    """The optimum without negative values; its derivative keeps leaves that are zero fixed."""

    @staticmethod
    def forward(ctx: Any, v: Any, s: Any, post: Consistency) -> Any:
        x = torch.from_numpy(post.project(_numpy(v), nonnegative=True))
        ctx.save_for_backward(v, s, x)
        ctx.post = post
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        v, s, x = ctx.saved_tensors
        gradient = torch.from_numpy(_layers.held_transposed(ctx.post, _numpy(x), _numpy(g)))
        return gradient, None if s is None else _gradient(gradient * (v - x), s), None


class _Solve(torch.autograd.Function):
    """G.T.solve if upward, else G.solve; weights are by node, or None if all are one."""

    @staticmethod
    def forward(ctx: Any, v: Any, node: Any, edge: Any, tree: Tree, up: bool) -> Any:
        w, e = (None if a is None else _numpy(a) for a in (node, edge))
        z = torch.from_numpy(_layers.solve(tree, _numpy(v), w, e, up))
        ctx.save_for_backward(node, edge, z)
        ctx.tree, ctx.up = tree, up
        return z

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        node, edge, z = ctx.saved_tensors
        gv = _Solve.apply(g, node, edge, ctx.tree, not ctx.up)
        of_node = None if node is None else -(gv * z).sum(1).to(node.dtype)
        of_edge = None
        if edge is not None:
            parent = torch.from_numpy(ctx.tree.parent.astype(np.int64))
            above, own = (gv, z) if ctx.up else (z, gv)
            product = (above[parent.clamp(min=0)] * own).sum(1).to(edge.dtype)
            of_edge = torch.where(parent < 0, torch.zeros_like(product), product)
        return gv, of_node, of_edge, None, None


# --------------------------------------------------------------------------- functions


def _add_rows(count: int, index: Any, rows: Any) -> Any:
    return rows.new_zeros((count, *rows.shape[1:])).index_add(0, index, rows)


def _levels(tree: Tree, x: Any, by_level: bool | None) -> _layers.Levels | None:
    if by_level or (by_level is None and x.device.type != "cpu"):
        return _layers.Levels(tree, torch, lambda a: torch.as_tensor(a, device=x.device), _add_rows)
    return None


def _floating(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        check.fail_type("values", f"must be a tensor, not {type(x).__name__}.")
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)


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

    Parameters
    ----------
    tree : Tree or Consistency
        A `Consistency` has its own variances and is prepared once for many calls.
    noisy : tensor of shape (..., n) or (..., n, k)
    variance : optional
        A tensor of n variances, which may need a gradient, or fixed variances in any form that
        :class:`gmtree.Consistency` accepts.
    nonnegative : bool
        Require all leaves to be at least 0. The derivative is that of the projection in which the
        leaves that are zero are held at zero.
    dim : int, optional
        The axis of the nodes: by default the last one if it has n entries, or else the one before.
    by_level : bool, optional
        Compute level by level with operations of torch; by default on accelerators only.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> gm.torch.reconcile(gm.shapes.star(3), torch.tensor([[10.0, 4.0, 3.0]])).tolist()
    [[9.0, 5.0, 4.0]]
    """
    s = variance if isinstance(variance, torch.Tensor) else None
    given = variance if s is None else {"node": _numpy(s.to("cpu")).astype(np.float64)}
    return _reconcile(_layers.consistency(tree, given), noisy, s, nonnegative, dim, by_level)


def _reconcile(
    post: Consistency,
    noisy: Any,
    s: Any,
    nonnegative: bool,
    dim: int | None,
    by_level: bool | None,
) -> Any:
    check.flag("nonnegative", nonnegative)
    v, restore = _layers.columns(_floating(noisy), post.tree.n, dim, torch.movedim)
    levels = _levels(post.tree, v, by_level)
    if levels is None:
        if nonnegative:
            return restore(_Nonnegative.apply(v, s, post))
        return restore(_Project.apply(v, s, post, False))
    fixed = torch.tensor(post._factor.variance, dtype=v.dtype, device=v.device)
    column = (fixed if s is None else s.to(v))[:, None]
    if not nonnegative:
        return restore(levels.project(v, column))
    held = torch.zeros_like(v, dtype=torch.bool)
    with torch.no_grad():
        while True:
            more = levels.hold(v, column, held)[1]
            if bool((more == held).all()):
                break
            held = more
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
    values : tensor of shape (..., n) or (..., n, k)
    node_weight, edge_weight : tensors of shape (n,), optional
        Ones by default. The edge weight of the root is ignored.
    dim, by_level
        See :func:`reconcile`.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> gm.torch.propagate(gm.shapes.chain(3), torch.ones(3)).tolist()
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
    >>> import torch, gmtree as gm
    >>> gm.torch.accumulate(gm.shapes.chain(3), torch.ones(3)).tolist()
    [3.0, 2.0, 1.0]
    """
    return _solve(tree, values, node_weight, edge_weight, dim, by_level, up=True)


def _solve(
    tree: Tree, values: Any, node: Any, edge: Any, dim: Any, by_level: bool | None, *, up: bool
) -> Any:
    check.instance("tree", tree, Tree)
    for name, w in (("node_weight", node), ("edge_weight", edge)):
        if w is not None and (not isinstance(w, torch.Tensor) or w.shape != (tree.n,)):
            check.fail(name, f"must be a tensor of shape ({tree.n},), one weight per node.")
    v, restore = _layers.columns(_floating(values), tree.n, dim, torch.movedim)
    levels = _levels(tree, v, by_level)
    if levels is not None:
        return restore(levels.solve(v, node, edge, up))
    return restore(_Solve.apply(v, node, edge, tree, up))


# --------------------------------------------------------------------------- modules


class Reconcile(torch.nn.Module):
    """The function :func:`reconcile` as a layer, prepared once for its variances.

    Parameters
    ----------
    tree : Tree, or a list of them
        With several trees, values must add up along each of the last axes, one for each tree.
    variance : optional
        Fixed or initial variances; a list of them for several trees. Entries are then measured with
        the product of the variances of their nodes.
    learn : {False, "node", "level"}
        Learn the logarithm of the variance of each node or level, in `log_variance`. Initial
        variances must be positive and finite.
    nonnegative, dim, by_level
        See :func:`reconcile`. Not for several trees.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> layer = gm.torch.Reconcile(gm.shapes.star(3), learn="level")
    >>> layer(torch.tensor([10.0, 4.0, 3.0])).sum().backward()
    >>> [round(x, 3) for x in layer.log_variance.grad.tolist()]
    [-1.333, 1.333]
    """

    def __init__(
        self,
        tree: Any,
        variance: Any = None,
        *,
        learn: bool | str = False,
        nonnegative: bool = False,
        dim: int | None = None,
        by_level: bool | None = None,
    ) -> None:
        super().__init__()
        self._options = (check.flag("nonnegative", nonnegative), dim, by_level)
        if learn is not False:
            check.one_of("learn", learn, ("node", "level"))
        self._axes: Any = None
        if isinstance(tree, Sequence):
            if nonnegative or dim is not None:
                argument = "nonnegative" if nonnegative else "dim"
                check.fail(argument, "must not be given with several trees.")
            given = [None] * len(tree) if variance is None else variance
            self._axes = torch.nn.ModuleList(
                Reconcile(each, s, learn=learn, dim=k - len(tree), by_level=by_level)
                for k, (each, s) in enumerate(zip(tree, given, strict=True))
            )
            return
        self._post = _layers.consistency(tree, variance)
        self._learn = learn
        if learn:
            s = self._post._factor.positive_variance()
            if learn == "level":
                first = np.unique(self._post.tree.depth, return_index=True)[1]
                s = s[first]
            self.log_variance = torch.nn.Parameter(torch.from_numpy(np.log(s)))

    def forward(self, noisy: Any) -> Any:
        """Consistent values in the shape of `noisy`."""
        if self._axes is not None:
            for layer in self._axes:
                noisy = layer(noisy)
            return noisy
        if not self._learn:
            return _reconcile(self._post, noisy, None, *self._options)
        s = self.log_variance.exp()
        if self._learn == "level":
            depth = torch.as_tensor(self._post.tree.depth.astype(np.int64), device=s.device)
            s = s[depth - 1]
        nonnegative, dim, by_level = self._options
        return reconcile(
            self._post.tree, noisy, s, nonnegative=nonnegative, dim=dim, by_level=by_level
        )


class _Weighted(torch.nn.Module):
    _up: bool

    def __init__(
        self,
        tree: Tree,
        node_weight: Any = None,
        edge_weight: Any = None,
        *,
        learn: bool = False,
        dim: int | None = None,
        by_level: bool | None = None,
    ) -> None:
        super().__init__()
        check.instance("tree", tree, Tree)
        self.tree, self._options = tree, (dim, by_level)
        for name, w in (("node_weight", node_weight), ("edge_weight", edge_weight)):
            if check.flag("learn", learn):
                start = torch.ones(tree.n) if w is None else torch.as_tensor(w).clone()
                setattr(self, name, torch.nn.Parameter(start))
            else:
                self.register_buffer(name, None if w is None else torch.as_tensor(w))

    def forward(self, values: Any) -> Any:
        """Results in the shape of `values`."""
        weights = (self.node_weight, self.edge_weight)
        return _solve(self.tree, values, *weights, *self._options, up=self._up)


class Propagate(_Weighted):
    """The function :func:`propagate` as a layer; `learn` makes its weights parameters.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> gm.torch.Propagate(gm.shapes.star(3))(torch.ones(3)).tolist()
    [1.0, 2.0, 2.0]
    """

    _up = False


class Accumulate(_Weighted):
    """The function :func:`accumulate` as a layer; `learn` makes its weights parameters.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> gm.torch.Accumulate(gm.shapes.star(3))(torch.ones(3)).tolist()
    [3.0, 1.0, 1.0]
    """

    _up = True
