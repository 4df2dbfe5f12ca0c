"""A check of optimality that does not depend on how the values were found."""

from __future__ import annotations

import numpy as np

from gmtree import _sweep
from gmtree._kernels import certificate as kernels
from gmtree.matrix import ConstraintMatrix
from gmtree.tree import Tree


def violation(
    tree: Tree, x: np.ndarray, v: np.ndarray, s: np.ndarray | None, bounds: np.ndarray | float
) -> float:
    """The largest distance by which x misses a condition of optimality, in units of values.

    `x` and `v` are by node, the variances `s` by position (None for all equal), `bounds` by leaf
    or one for all. Where x is not finite, neither is the distance.

    At the optimum no leaf gains by a move. So each leaf is asked how far it would move if it
    could take from, or give to, the total or another leaf: the one that gives way most easily.
    Leaves at their bounds can only rise; below a node that is known exactly leaves can trade
    only with each other. And x must be consistent, within the bounds and equal to what is known
    exactly. One sweep up and one down.
    """
    if not np.isfinite(x).all():
        return np.inf
    layout = tree._layout
    bound = np.zeros(tree.n)
    bound[tree.leaves] = bounds
    v, x = (_sweep.readonly(np.ascontiguousarray(a, np.float64)) for a in (v, x))
    problem = (layout.parent, layout.order, v, s, bound, x)
    slope, above, stiff = np.zeros((3, tree.n_internal))
    stiffness = np.full(tree.n_internal, np.inf)
    through = np.zeros(tree.n_internal, layout.parent.dtype)
    loosest = (slope, stiffness, through)
    kernels.find_loosest(*problem, *loosest)
    largest = kernels.largest_move(*problem, *loosest, above, stiff)
    if tree.n > 1:
        gap = float(abs(ConstraintMatrix(tree).T @ x).max())
        largest = np.inf if np.isnan(gap) else max(largest, gap)
    return largest
