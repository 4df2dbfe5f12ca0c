"""A check of optimality that knows nothing of how the values were found."""

from __future__ import annotations

import numpy as np

from gmtree import _sweep
from gmtree._kernels import certificate as kernels
from gmtree.matrix import ConstraintMatrix
from gmtree.tree import Tree


def violation(
    tree: Tree, x: np.ndarray, v: np.ndarray, variance: np.ndarray | None, bounds: np.ndarray
) -> float:
    """The largest distance by which x misses a condition of optimality, in units of values.

    At the optimum no leaf gains by a move. So each leaf is asked how far it would move if it
    could take from, or give to, the total or another leaf: the one that gives way most easily.
    Leaves at their bounds can only rise; below a node that is known exactly leaves can trade
    only with each other. And x must be consistent, within the bounds and equal to what is known
    exactly. One sweep up and one down.
    """
    bound = np.zeros(tree.n)
    bound[tree.leaves] = bounds
    s = None if variance is None else _sweep.readonly(tree.to_positions(variance))
    v, x = (_sweep.readonly(np.ascontiguousarray(a, np.float64)) for a in (v, x))
    problem = (tree._position_parent, tree._order, v, s, bound, x)
    slope, above, stiff = np.zeros((3, tree.n_internal))
    stiffness, through = np.full(tree.n_internal, np.inf), np.zeros(tree.n_internal, np.int64)
    loosest = (slope, stiffness, through)
    kernels.find_loosest(*problem, *loosest)
    largest = kernels.largest_move(*problem, *loosest, above, stiff)
    if tree.n > 1:
        largest = max(largest, float(abs(ConstraintMatrix(tree).T @ x).max()))
    return largest
