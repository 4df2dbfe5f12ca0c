"""Stage 1 of consistency: from variances of measurements to the weights of the two sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import consistency as kernels
from gmtree._kernels import errors
from gmtree.tree import Tree


def variance_by_node(tree: Tree, variance: Any) -> tuple[float, np.ndarray | None]:
    """(scale, None) where all are equal, else (1, variance of each node).

    Takes None, one number, one per node, or one per level from the root down.
    """
    if variance is None:
        return 1.0, None
    a = np.asarray(variance)
    if a.dtype.kind not in "iuf":
        check.fail_type("variance", f"must hold real numbers, not dtype {a.dtype}.")
    if a.shape not in ((), (tree.n,), (tree.height,)):
        check.fail(
            "variance",
            f"must be one number, one per node ({tree.n}) or one per level ({tree.height}), "
            f"not have shape {a.shape}.",
        )
    a = a.astype(np.float64)
    if not a.min() >= 0:
        per = "node" if a.shape == (tree.n,) else "level"
        bad = np.flatnonzero(~(a.ravel() >= 0))
        where = f"; {per} {bad[0] + (per == 'level')} has" if a.ndim else ", not"
        check.fail("variance", f"must not be negative or NaN{where} {a.flat[bad[0]]}.")
    if a.ndim == 0 and 0 < a < np.inf:
        return float(a), None
    if a.shape == (tree.n,):
        return 1.0, a
    return 1.0, np.full(tree.n, a) if a.ndim == 0 else a[tree.depth - 1]


@dataclass(frozen=True)
class Factor:
    """Weights of the sweeps, by position.

    Attributes
    ----------
    t : array, per internal node
        Sum of the variances with which the children are known from below.
    q, gain, carry : arrays or None
        Variance of z at all nodes; weights of a node's own measurement and of its children's
        sum. None where all variances are equal.
    q_below : array or None
        `q`, but infinite where nothing is known from below; in `q` those nodes have their
        even split.
    measured : array of bool or None
        Nodes (in the caller's numbering) with finite variance; None if that is all.
    exact : array of int
        Positions of nodes that are known exactly both by themselves and by their children.
    has_undetermined : bool
        Whether some nodes are known only together with their siblings.
    """

    tree: Tree
    t: np.ndarray
    q: np.ndarray | None = None
    gain: np.ndarray | None = None
    carry: np.ndarray | None = None
    q_below: np.ndarray | None = None
    measured: np.ndarray | None = None
    exact: np.ndarray | None = None
    has_undetermined: bool = False

    @classmethod
    def equal(cls, tree: Tree, threads: int | None) -> Factor:
        """All variances equal: t is the theta of the paper."""
        layout = tree._layout
        t = np.zeros(tree.n_internal)
        with _sweep.team(layout, threads) as run:
            for segment in reversed(layout.segments):
                if segment[0] >= layout.n_inner:
                    run(kernels.factor_leaves, (layout.parent, None, t), segment)
                else:
                    run(kernels.factor_inner_equal, (layout.parent, t), segment)
        return cls(tree, _sweep.readonly(t))

    @classmethod
    def of(cls, tree: Tree, variance: np.ndarray, threads: int | None) -> Factor:
        """Each node with its own variance, given in the caller's numbering."""
        layout, n_inner = tree._layout, tree.n_internal
        q = variance.copy() if tree.is_canonical else tree.to_positions(variance)
        t, gain, carry = np.zeros(n_inner), np.empty(n_inner), np.empty(n_inner)
        all_measured = bool(variance.max() < np.inf)
        exact_nodes = np.flatnonzero(q[:n_inner] == 0)
        with _sweep.team(layout, threads) as run:
            for segment in reversed(layout.segments):
                if segment[0] >= n_inner:
                    run(kernels.factor_leaves, (layout.parent, q, t), segment)
                else:
                    run(kernels.factor_inner, (layout.parent, q, t, gain, carry), segment)
        if n_inner:
            kernels.factor_inner(layout.parent, q, t, gain, carry, 0, 1)
        if not np.isfinite(q[0]):
            _refuse_undetermined(tree, variance)
        q_below = q
        has_undetermined = not all_measured and not np.isfinite(t).all()
        if has_undetermined:
            t, q = _split_evenly(layout, t, q)
        return cls(
            tree,
            t=_sweep.readonly(t),
            q=_sweep.readonly(q),
            gain=_sweep.readonly(gain),
            carry=_sweep.readonly(carry),
            q_below=_sweep.readonly(q_below),
            measured=None if all_measured else np.isfinite(variance),
            exact=exact_nodes[t[exact_nodes] == 0],
            has_undetermined=has_undetermined,
        )

    @cached_property
    def largest_children(self) -> tuple[np.ndarray, np.ndarray]:
        """For each internal node its child with the largest q, and the q of the others."""
        n_inner = self.tree.n_internal
        largest = np.zeros(n_inner, self.tree.parent.dtype)
        rest = np.zeros(n_inner)
        errors.largest_children(self.tree._position_parent, self.q_below, self.t, largest, rest)
        return largest, rest

    @cached_property
    def node_variance(self) -> np.ndarray:
        """Variance of each consistent value, by position."""
        variance = np.empty(self.tree.n)
        largest, rest = self.largest_children
        errors.node_variances(
            self.tree._position_parent, self.q, self.q_below, self.t, largest, rest, variance
        )
        return _sweep.readonly(variance)

    @cached_property
    def sibling_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of q over stretches of siblings, and each node's place in the child lists."""
        child = self.tree._children[1][: self.tree.n - 1]
        sums = np.zeros(2 * child.size)
        place = np.zeros(self.tree.n, self.tree.parent.dtype)
        errors.sibling_sums(child, self.tree.rank, self.q, self.t, sums, place)
        return sums, place


def _split_evenly(
    layout: _sweep.Layout, t: np.ndarray, q_below: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """t and q for the downward sweep where some children are undetermined."""
    q = q_below.copy()
    kernels.split_evenly(layout.parent, q, t, 1, layout.n)
    count = np.zeros(t.size)
    kernels.count_undetermined(layout.parent, q_below, count, 1, layout.n)
    return np.where(np.isinf(t), count, t), q


def _refuse_undetermined(tree: Tree, variance: np.ndarray) -> None:
    """Say why the total is unknown: a leaf with no measurement from itself to the root."""
    if not np.isfinite(variance).any():
        check.fail("variance", "must be finite at some node; no node is measured.")
    unmeasured = np.isinf(variance).astype(np.int64)
    # Downward: how many of the nodes on the path from the root are not measured.
    _sweep.propagate(tree._layout, unmeasured, unmeasured)
    first = int(tree.leaves[np.flatnonzero((unmeasured == tree.depth)[tree.leaves])[0]])
    check.fail(
        "variance",
        f"must be finite somewhere on the path from each leaf to the root; neither leaf {first} "
        "nor any node above it is measured, so its value could be anything.",
    )
