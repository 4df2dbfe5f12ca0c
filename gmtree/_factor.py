"""Stage 1 of consistency: from variances of measurements to the weights of the two sweeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import consistency as kernels
from gmtree._kernels import errors
from gmtree.tree import Tree

# Ratios of positive variances and of values to them must not overflow, nor vanish.
VARIANCE_RANGE = (1e-100, 1e100)
# From this mean number of children on, summing a family in a register beats adding each child
# to its parent in memory.
LARGE_FAMILY = 6


def variance_by_node(tree: Tree, variance: Any) -> tuple[float, np.ndarray | None]:
    """(scale, None) where all are equal, else (1, variance of each node).

    Takes None, one number, one per node, or one per level from the root down. Numbers for each
    node are looked at when they are used, and may be the caller's own.
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
    a = np.ascontiguousarray(a, np.float64).reshape(a.shape)
    if a.shape == (tree.n,):
        return 1.0, a
    _check_variances(a, "level")
    if a.ndim == 0 and 0 < a < np.inf:
        return float(a), None
    return 1.0, np.full(tree.n, a) if a.ndim == 0 else a[tree.depth - 1]


def _check_variances(a: np.ndarray, per: str) -> None:
    """Refuse what is no variance, naming the first node or level that has it."""
    smallest, largest = VARIANCE_RANGE
    bad = np.flatnonzero(~((a == 0) | (a == np.inf) | ((a >= smallest) & (a <= largest))))
    if not bad.size:
        return
    worst = a.flat[bad[0]]
    rule = "must not be negative or NaN"
    if worst > 0:
        rule = f"must be 0, inf or from {smallest} to {largest}"
    where = f"; {per} {bad[0] + (per == 'level')} has" if a.ndim else ", not"
    check.fail("variance", f"{rule}{where} {worst}.")


def sum_leaves(
    run: _sweep.Run, layout: _sweep.Layout, order: np.ndarray | None, v: np.ndarray, b: np.ndarray
) -> None:
    """Add up the leaves of each family of `v`, ordered as in `order`, into `b`, by position."""
    for segment in reversed(layout.segments):
        if segment[0] >= layout.n_inner:
            families = v.ndim == 1 and _mean_family(layout, segment) >= LARGE_FAMILY
            kernel = kernels.up_leaf_families if families else kernels.up_leaves
            run(kernel, (layout.parent, order, v, b), segment)


def _mean_family(layout: _sweep.Layout, segment: tuple[int, int, bool]) -> float:
    """Mean number of siblings in a range of leaves."""
    start, stop, _ = segment
    return (stop - start) / (int(layout.parent[stop - 1]) - int(layout.parent[start]) + 1)


@dataclass(frozen=True)
class Factor:
    """What the sweeps need to know of the variances, by position.

    Attributes
    ----------
    t : array, per internal node
        Sum of the variances with which the children are known from below; infinite where that
        is not known of some.
    s : array or None
        Variance of the measurement at each node. None where all are equal.
    q : array or None
        How nodes share differences, where some are known only together with their siblings.
    measured : array of bool or None
        Nodes (in the caller's numbering) with finite variance; None if that is all.
    exact : array of int
        Positions of nodes that are known exactly both by themselves and by their children.
    """

    tree: Tree
    t: np.ndarray
    s: np.ndarray | None = None
    q: np.ndarray | None = None
    measured: np.ndarray | None = None
    exact: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def equal(cls, tree: Tree, threads: int | None) -> Factor:
        """All variances equal: t is the theta of the paper."""
        layout = tree._layout
        t = np.zeros(tree.n_internal)
        with _sweep.team(layout, threads) as run:
            for segment in reversed(layout.segments):
                if segment[0] >= layout.n_inner:
                    run(kernels.count_leaves, (layout.parent, t), segment)
                else:
                    run(kernels.factor_inner, (layout.parent, None, t), segment)
        return cls(tree, _sweep.readonly(t))

    @classmethod
    def of(cls, tree: Tree, variance: np.ndarray, threads: int | None) -> Factor:
        """Each node with its own variance, given in the caller's numbering."""
        layout = tree._layout
        s, t = np.empty(tree.n), np.zeros(tree.n_internal)
        with _sweep.team(layout, threads) as run:
            some_missing, some_exact = _take(run, layout, variance, s)
            s = _sweep.readonly(s)
            sum_leaves(run, layout, None, s, t)
            for segment in reversed(layout.segments):
                if segment[0] < layout.n_inner:
                    run(kernels.factor_inner, (layout.parent, s, t), segment)
        t = _sweep.readonly(t)
        q = measured = None
        exact = np.empty(0, np.int64)
        if some_missing:
            measured = np.isfinite(variance)
            if kernels.known(s, t, 0) == np.inf:
                _refuse_undetermined(tree, variance)
            if not np.isfinite(t).all():
                q = _split_evenly(tree, s, t)
        if some_exact:
            exact = np.flatnonzero((s[: tree.n_internal] == 0) & (t == 0))
        return cls(tree, t, s, q, measured, exact)

    @property
    def has_undetermined(self) -> bool:
        """Whether some nodes are known only together with their siblings."""
        return self.q is not None

    @property
    def weights(self) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
        """q, s and t, as kernels take them."""
        return self.q, self.s, self.t

    @cached_property
    def largest_children(self) -> tuple[np.ndarray, np.ndarray]:
        """For each internal node its child with the largest q, and the q of the others."""
        n_inner = self.tree.n_internal
        largest = np.zeros(n_inner, self.tree.parent.dtype)
        rest = np.zeros(n_inner)
        errors.largest_children(self.tree._position_parent, self.s, self.t, largest, rest)
        return largest, rest

    @cached_property
    def node_variance(self) -> np.ndarray:
        """Variance of each consistent value, by position."""
        variance = np.empty(self.tree.n)
        largest, rest = self.largest_children
        errors.node_variances(self.tree._position_parent, *self.weights, largest, rest, variance)
        return _sweep.readonly(variance)

    @cached_property
    def sibling_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of q over stretches of siblings, and each node's place in the child lists."""
        child = self.tree._children[1][: self.tree.n - 1]
        sums = np.zeros(2 * child.size)
        place = np.zeros(self.tree.n, self.tree.parent.dtype)
        errors.sibling_sums(child, self.tree.rank, self.s, self.t, sums, place)
        return sums, place


def _take(
    run: _sweep.Run, layout: _sweep.Layout, variance: np.ndarray, s: np.ndarray
) -> tuple[bool, bool]:
    """Bring variances into positions; whether some are infinite, and whether some are zero."""
    seen = np.zeros(3, bool)
    args = (layout.order, _sweep.readonly(variance), *VARIANCE_RANGE, s, seen)
    kernels.take_variances(*args, 0, 1)
    for segment in layout.segments:
        run(kernels.take_variances, args, segment, True)
    strange, some_missing, some_exact = seen.tolist()
    if strange:
        _check_variances(variance, "node")
    return some_missing, some_exact


def _split_evenly(tree: Tree, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """How nodes share differences where some children are undetermined."""
    parent = tree._position_parent
    count, q = np.zeros(t.size), np.empty(tree.n)
    kernels.count_undetermined(parent, s, t, count)
    kernels.split_evenly(parent, s, t, count, q)
    return _sweep.readonly(q)


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
