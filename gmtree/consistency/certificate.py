"""A check of optimality that does not depend on how the values were found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree._kernels import certificate as kernels
from gmtree.consistency.bounds import Bounds
from gmtree.consistency.factor import Factor
from gmtree.matrix import ConstraintMatrix
from gmtree.tree import Tree


class ProjectionInfo(NamedTuple):
    """Information about a projection; for several columns, the worst of each number.

    Attributes
    ----------
    passes : int
        How often the solver looked for leaves below their bounds. Every pass after the first visits
        only nodes that may have changed. It is 1 unless all bounds are lower bounds of leaves.
    at_bound : int
        Number of nodes at their bounds.
    violation : float
        Largest distance by which the result misses a condition of optimality, in units of values.
        Three distances are compared: how far a leaf would still have to move, alone or with another
        leaf in the opposite direction; by how much sums differ; and by how much bounds and exactly
        known values are missed. One sweep computes it from the result alone. It is infinite if it
        cannot be computed.
    """

    passes: int
    at_bound: int
    violation: float


def projection_info(
    factor: Factor, passes: int, x: np.ndarray, v: np.ndarray, bounds: Bounds | None
) -> ProjectionInfo:
    """The certificate of the worst column of `x`."""
    tree = factor.tree
    lower, upper = (None, None) if bounds is None else bounds.by_node(tree)
    at_bound, worst = 0, 0.0
    with np.errstate(over="ignore"):
        # The result was rounded to its type, and so must be the bounds that it is compared with.
        lower, upper = (None if a is None else a.astype(x.dtype) for a in (lower, upper))
    for values, noisy in zip(x.reshape(tree.n, -1).T, v.reshape(tree.n, -1).T, strict=True):
        held = np.zeros(tree.n, bool)
        if lower is not None:
            held |= values <= lower
        if upper is not None:
            held |= values >= upper
        at_bound = max(at_bound, int(np.count_nonzero(held)))
        noisy = np.asarray(noisy, values.dtype)
        worst = max(worst, violation(tree, values, noisy, factor.s, lower, upper))
    return ProjectionInfo(passes, at_bound, worst)


def violation(
    tree: Tree,
    x: np.ndarray,
    v: np.ndarray,
    s: np.ndarray | None,
    lower: np.ndarray | None,
    upper: np.ndarray | None,
) -> float:
    """The largest distance by which x misses a condition of optimality, in units of values.

    `x`, `v` and the bounds are by node. The variances `s` are by position, or None if all are
    equal. If x is not finite, the distance is infinite.
    """
    if not np.isfinite(x).all():
        return np.inf
    layout = tree._layout
    v, x = (_sweep.readonly(np.ascontiguousarray(a, np.float64)) for a in (v, x))
    near = 1e-12 * float(abs(x).max())
    giving, taking = (
        kernels.Ways(
            np.zeros(tree.n_internal),
            np.zeros(tree.n_internal),
            np.zeros(tree.n_internal, np.uint8),
        )
        for _ in range(2)
    )
    problem = (layout.parent, layout.order, v, s, lower, upper, x)
    largest = kernels.largest_gain(*problem, near, giving, taking)
    if tree.n > 1:
        gap = float(abs(ConstraintMatrix(tree).T @ x).max())
        largest = np.inf if np.isnan(gap) else max(largest, gap)
    return largest
