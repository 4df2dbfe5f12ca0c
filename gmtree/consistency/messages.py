"""Messages from subtrees to the rest of their tree, for trees that are held in several parts.

Values elsewhere depend on a subtree only through an estimate of its root from the measurements in
the subtree, and the variance of this estimate. If leaves have bounds, there is one more number: the
least value of the root for which no leaf below it falls below its bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree._kernels import messages as kernels
from gmtree.consistency.factor import Factor


class Messages(NamedTuple):
    """The messages of some subtrees to the rest of the tree.

    Attributes
    ----------
    estimate : array
        Value of the subtree's root, estimated from its own measurement and those below it.
    variance : array
        Variance of the estimate; inf if nothing is known of the root.
    least : array or None
        Least value of the root for which no leaf below it falls below its bound; None without
        bounds. A leaf that is known exactly (variance 0) cannot move and imposes no limit.
    """

    estimate: np.ndarray
    variance: np.ndarray
    least: np.ndarray | None


def messages(
    factor: Factor, v: np.ndarray, b: np.ndarray, nodes: np.ndarray, bounds: np.ndarray | None
) -> Messages:
    """Messages of `nodes`, from the sums `b` of the children of each internal node, by position."""
    tree, layout = factor.tree, factor.tree._layout
    problem = (factor.s, factor.t, _sweep.readonly(v), b)
    position = np.ascontiguousarray(tree._sweep_rank[nodes], np.int64)
    estimate, variance, least = np.empty((3, position.size))
    kernels.estimates(layout.order, *problem, position, estimate, variance)
    variance *= factor.scale
    if bounds is None:
        return Messages(estimate, variance, None)
    bound, tau = np.zeros(tree.n), np.full(tree.n_internal, -np.inf)
    bound[tree._sweep_rank[tree.leaves]] = bounds
    kernels.least_steps(layout.parent, layout.order, factor.q, *problem, bound, tau)
    kernels.least_values(factor.s, factor.t, b, bound, tau, position, least)
    return Messages(estimate, variance, least)
