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
suits trees with few levels; numbers are not checked there. Backward passes can be differentiated
again.

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


class _Apply(torch.autograd.Function):
    """A `_layers.Projection` or `_layers.Solve` with derivatives of any order."""

    @staticmethod
    def forward(ctx: Any, run: Any, v: Any, *weights: Any) -> Any:
        arrays = (None if a is None else _numpy(a) for a in (v, *weights))
        out = torch.from_numpy(run(*arrays)).reshape(v.shape)
        ctx.run = run
        ctx.save_for_backward(v, out, *weights)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        v, out, *weights = ctx.saved_tensors
        turned, *kept = ctx.run.backward(out, *weights)
        back = _Apply.apply(turned, g, *kept)
        return None, back, *ctx.run.gradients(torch, v, out, g, back, *weights)


def _floating(name: str, x: Any, dtype: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        check.fail_type(name, f"must be a tensor, not {type(x).__name__}.")
    own = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32
    return x.to(dtype or own)


@torch.no_grad()
def _until_same(function: Any, x: Any) -> Any:
    while bool(((after := function(x)) != x).any()):
        x = after
    return x


_torch = _layers.Library(
    xp=torch,
    array=torch.Tensor,
    on_cpu=lambda v: v.device.type == "cpu",
    floating=_floating,
    apply=_Apply.apply,
    solver=lambda tree, s: Consistency(tree, {"node": _numpy(s).astype(np.float64)}),
    put=lambda a, v: torch.tensor(a, device=v.device),
    add_rows=lambda n, i, rows: rows.new_zeros((n, *rows.shape[1:])).index_add(0, i, rows),
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
        Compute level by level with operations of torch. By default only accelerators do so.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> gm.torch.reconcile(gm.shapes.star(3), torch.tensor([[10.0, 4.0, 3.0]])).tolist()
    [[9.0, 5.0, 4.0]]
    """
    return _torch.reconcile(tree, noisy, variance, nonnegative, dim, by_level)


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
    return _torch.solve(tree, values, node_weight, edge_weight, dim, by_level, up=False)


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
    >>> import torch, gmtree as gm
    >>> gm.torch.accumulate(gm.shapes.chain(3), torch.ones(3)).tolist()
    [3.0, 2.0, 1.0]
    """
    return _torch.solve(tree, values, node_weight, edge_weight, dim, by_level, up=True)


# --------------------------------------------------------------------------- modules


class Reconcile(torch.nn.Module):
    """The function :func:`reconcile` as a layer, prepared once for its variances.

    Parameters
    ----------
    tree : Tree, or a list of them
        With k trees, values are made to add up along the last k axes, one for each tree.
    variance : optional
        Fixed or initial variances. For several trees this is a list with the variances of each
        tree, and the variance of an entry is the product of those of its nodes.
    learn : {False, "node", "level"}
        Learn the logarithm of the variance of each node or level, in `log_variance`. Initial
        variances must be positive and finite. A level starts at the mean of the logarithms of its
        nodes' variances.
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
        check.flag("nonnegative", nonnegative)
        self._options: Any = {"nonnegative": nonnegative, "dim": dim, "by_level": by_level}
        if learn is not False:
            check.one_of("learn", learn, ("node", "level"))
        self._axes: Any = None
        if isinstance(tree, Sequence):
            if nonnegative or dim is not None:
                check.fail("tree", "must be one tree if 'nonnegative' or 'dim' is given.")
            given = [None] * len(tree) if variance is None else variance
            self._axes = torch.nn.Sequential(
                *(Reconcile(each, s, learn=learn, dim=k - len(tree), by_level=by_level)
                  for k, (each, s) in enumerate(zip(tree, given, strict=True)))
            )  # fmt: skip
            return
        self._solver: Any = _layers.consistency(tree, variance)
        self.register_buffer("_group", None, persistent=False)
        if learn:
            log, tree = np.log(self._solver._factor.positive_variance()), self._solver.tree
            group = tree.depth - 1 if learn == "level" else np.arange(tree.n)
            mean = np.bincount(group, log) / np.bincount(group)
            self.log_variance = torch.nn.Parameter(torch.from_numpy(mean))
            self._solver, self._group = tree, torch.from_numpy(group)

    def forward(self, noisy: Any) -> Any:
        """Consistent values in the shape of `noisy`."""
        if self._axes is not None:
            return self._axes(noisy)
        s = None if self._group is None else self.log_variance.exp()[self._group]
        return reconcile(self._solver, noisy, s, **self._options)


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
        return _torch.solve(self.tree, values, *weights, *self._options, up=self._up)


class Propagate(_Weighted):
    """The function :func:`propagate` as a layer, whose weights are learned with ``learn=True``.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> gm.torch.Propagate(gm.shapes.star(3))(torch.ones(3)).tolist()
    [1.0, 2.0, 2.0]
    """

    _up = False


class Accumulate(_Weighted):
    """The function :func:`accumulate` as a layer, whose weights are learned with ``learn=True``.

    Examples
    --------
    >>> import torch, gmtree as gm
    >>> gm.torch.Accumulate(gm.shapes.star(3))(torch.ones(3)).tolist()
    [3.0, 1.0, 1.0]
    """

    _up = True
