"""What a subtree tells the rest of its tree, for algorithms that hold a tree in several parts.

All that matters of a subtree to the values elsewhere is what it says of its root: an estimate
from its own measurements, and the variance of that estimate. With bounds on the leaves there is
one more number: how low the root may go until a leaf below it falls below its bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree._kernels import messages as kernels
from gmtree.consistency.factor import Factor


class Messages(NamedTuple):
    """What each of some subtrees tells the rest of the tree.

    Attributes
    ----------
    estimate : array
        Value of the subtree's root as its own measurements and those below it have it.
    variance : array
        Variance of that estimate; inf where nothing is known.
    least : array or None
        Least value of the root for which no leaf below it falls below its bound; None without
        bounds. A leaf that is known exactly (variance 0) does not move and asks for nothing.
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
    position = np.ascontiguousarray(tree.rank[nodes], np.int64)
    estimate, variance, least = np.empty((3, position.size))
    kernels.estimates(layout.order, *problem, position, estimate, variance)
    variance *= factor.scale
    if bounds is None:
        return Messages(estimate, variance, None)
    bound, tau = np.zeros(tree.n), np.full(tree.n_internal, -np.inf)
    bound[tree.rank[tree.leaves]] = bounds
    kernels.least_steps(layout.parent, layout.order, factor.q, *problem, bound, tau)
    kernels.least_values(factor.s, factor.t, b, bound, tau, position, least)
    return Messages(estimate, variance, least)
