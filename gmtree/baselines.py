"""Other post-processing methods for noisy values on a tree, to compare with `gmtree.reconcile`.

All functions take the measured value of each node, in your numbering, and assume equal variances
unless stated otherwise. :func:`privtrie` and :func:`dense` find the optimum, as
:func:`gmtree.reconcile` does. The values of :func:`processless` are not consistent, and those of
:func:`boosting` are consistent only on complete trees.

References
----------
- M. Hay, V. Rastogi, G. Miklau, D. Suciu, "Boosting the accuracy of differentially private
  histograms through consistency", PVLDB 3 (2010).
- N. Wang, X. Xiao, Y. Yang, T. D. Hoang, H. Shin, J. Shin, G. Yu, "PrivTrie: effective frequent
  term discovery under local differential privacy", ICDE 2018.
- J. Lee, Y. Wang, D. Kifer, "Maximum likelihood postprocessing for differential privacy under
  consistency constraints", KDD 2015.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import baselines as kernels
from gmtree.consistency import Consistency
from gmtree.matrix import ConstraintMatrix
from gmtree.tree import Tree

__all__ = [
    "boosting",
    "boosting_recursive",
    "dense",
    "privtrie",
    "privtrie_recursive",
    "processless",
]

# Largest tree for the closed form, which takes seconds at this size. Its time grows with the cube
# of the number of internal nodes.
MOST_DENSE_NODES = 5000


def processless(tree: Tree, noisy: Any) -> np.ndarray:
    """Return a copy of the measurements, without any post-processing.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.baselines.processless(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([10.,  4.,  3.])
    """
    return _measurements(tree, noisy).copy()


# --------------------------------------------------------------------------- Boosting


def boosting(tree: Tree, noisy: Any) -> np.ndarray:
    """Values from Boosting (Hay et al.), computed in two compiled sweeps.

    Let k be the number of children of the root, and l the height of a node:

        upward    z_i = ((k^l - k^(l-1)) v_i + (k^(l-1) - 1) sum z_c) / (k^l - 1)
        downward  x_c = z_c + (x_p - sum z_c) / k

    The result is optimal if every internal node has k children and all leaves have equal depth. On
    other trees it is neither optimal nor consistent.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.baselines.boosting(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([9., 5., 4.])
    """
    v = _measurements(tree, noisy)
    if tree.n == 1:
        return v.copy()
    layout, fanout = tree._layout, tree.children(tree.root).size
    own, below = _boosting_weights(fanout, np.arange(tree.height, 0, -1))
    total, out = np.zeros(tree.n_internal), np.empty(tree.n)
    order, parent = tree._canonical
    index = (_sweep.unsigned(parent), None if tree.is_canonical else _sweep.unsigned(order))
    v_read = _sweep.readonly(v.astype(np.float64, copy=False))
    kernels.boosting_leaves(*index, v_read, total, out, layout.n_inner, tree.n)
    kernels.boosting_inner(*index, tree._level_start, own, below, v_read, total, out)
    kernels.boosting_down(*index, 1 / fanout, total, out)
    return out.astype(v.dtype, copy=False)


def boosting_recursive(tree: Tree, noisy: Any) -> np.ndarray:
    """Values from :func:`boosting`, computed by recursive functions in plain Python.

    Raises
    ------
    ValueError
        If the tree is too high for Python's recursion limit.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.baselines.boosting_recursive(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([9., 5., 4.])
    """
    v = _measurements(tree, noisy)
    if tree.n == 1:
        return v.copy()
    fanout = tree.children(tree.root).size
    own, below = (w.tolist() for w in _boosting_weights(fanout, np.arange(1, tree.height + 1)))
    children, x = _child_lists(tree), v.tolist()
    total = [0.0] * tree.n

    def up(i: int) -> int:
        """Turn v into z below node i, and return its height."""
        height = 1
        for c in children[i]:
            height = max(height, 1 + up(c))
            total[i] += x[c]
        x[i] = own[height - 1] * x[i] + below[height - 1] * total[i]
        return height

    def down(i: int) -> None:
        for c in children[i]:
            x[c] += (x[i] - total[i]) / fanout
            down(c)

    with _recursion(tree, "boosting"):
        up(tree.root)
        down(tree.root)
    return np.array(x, dtype=v.dtype)


def _boosting_weights(k: int, height: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a node's own value and of the sum of its children, by height.

    Numerators and denominators are divided by k^l, so that they do not overflow in deep trees. For
    k = 1 the weights are the limits of the formulas.
    """
    if k == 1:
        return 1 / height, 1 - 1 / height
    power = float(k) ** -height.astype(np.float64)
    return (1 - 1 / k) / (1 - power), (1 / k - power) / (1 - power)


# --------------------------------------------------------------------------- PrivTrie


def privtrie(tree: Tree, noisy: Any) -> np.ndarray:
    """Values from the post-processing of PrivTrie (Wang et al.), computed in three compiled sweeps.

    The normal equations of the leaves involve the sums of the measurements on the paths to the
    root:

        downward  a_i = sum of v over i and its ancestors
        upward    t_i = sum q_c, q_i = t_i / (1 + t_i), y_i = (sum y_c) / (1 + t_i)
                  with q = 1 and y = a at leaves
        downward  x_i = y_i - q_i (sum of x over the ancestors of i)

    The result is optimal for equal variances on any tree. In very deep trees, sums along paths lose
    digits that :func:`gmtree.reconcile` keeps.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.baselines.privtrie(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([9., 5., 4.])
    """
    v = _measurements(tree, noisy)
    if tree.n == 1:
        return v.copy()
    layout, out = tree._layout, np.empty(tree.n)
    _sweep.propagate(layout, v.astype(np.float64, copy=False), out, threads=1)
    t, total = np.zeros(tree.n_internal), np.zeros(tree.n_internal)
    kernels.privtrie_up(layout.parent, layout.order, t, total, out)
    kernels.privtrie_down(layout.parent, layout.order, t, total, out)
    return out.astype(v.dtype, copy=False)


def privtrie_recursive(tree: Tree, noisy: Any) -> np.ndarray:
    """Values from :func:`privtrie`, computed by recursive functions in plain Python as published.

    The method makes four passes over the tree, each by a function that calls itself for every
    child.

    Raises
    ------
    ValueError
        If the tree is too high for Python's recursion limit.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.baselines.privtrie_recursive(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([9., 5., 4.])
    """
    v = _measurements(tree, noisy)
    children, x = _child_lists(tree), v.tolist()
    q, shrink = [1.0] * tree.n, [1.0] * tree.n

    def weigh(i: int) -> float:
        """Set q_i = t_i / (1 + t_i) and shrink_i = 1 / (1 + t_i) at and below i; return q_i."""
        if children[i]:
            t = 0.0
            for c in children[i]:
                t += weigh(c)
            shrink[i] = 1 / (1 + t)
            q[i] = t * shrink[i]
        return q[i]

    def add_path(i: int, above: float) -> None:
        """Set x at and below i to the sums of the measurements from the root."""
        x[i] += above
        for c in children[i]:
            add_path(c, x[i])

    def collect(i: int) -> float:
        """y_i = (sum y_c) / (1 + t_i) at internal nodes."""
        if children[i]:
            total = 0.0
            for c in children[i]:
                total += collect(c)
            x[i] = total * shrink[i]
        return x[i]

    def take_path(i: int, above: float) -> None:
        """x_i = y_i - q_i (sum of x over the ancestors)."""
        x[i] -= q[i] * above
        for c in children[i]:
            take_path(c, above + x[i])

    with _recursion(tree, "privtrie"):
        weigh(tree.root)
        add_path(tree.root, 0.0)
        collect(tree.root)
        take_path(tree.root, 0.0)
    return np.array(x, dtype=v.dtype)


# --------------------------------------------------------------------------- closed form


def dense(tree: Tree, noisy: Any, variance: Any = None) -> np.ndarray:
    """Values from the closed form ``v - S M (M^T S M)^-1 M^T v`` (Lee et al.) with dense matrices.

    M is the constraint matrix, and S the diagonal matrix of the variances. The time grows with the
    cube of the number of internal nodes, so trees of more than 5000 nodes are refused.

    Parameters
    ----------
    tree : Tree
    noisy : array of n reals
        Measured value of each node.
    variance : optional
        As for :class:`gmtree.Consistency`; positive and finite.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.baselines.dense(gm.shapes.star(3), [10.0, 4.0, 3.0], variance=[1, 1, 2])
    array([9.25, 4.75, 4.5 ])
    """
    from scipy.linalg import solve

    v = _measurements(tree, noisy)
    if tree.n > MOST_DENSE_NODES:
        check.fail(
            "tree",
            f"must have at most {MOST_DENSE_NODES} nodes for the dense closed form, not {tree.n}.",
        )
    s = Consistency(tree, variance)._factor.positive_variance()
    if tree.n == 1:
        return v.copy()
    M = ConstraintMatrix(tree).toarray()
    SM = s[:, None] * M
    return (v - SM @ solve(M.T @ SM, M.T @ v, assume_a="pos")).astype(v.dtype, copy=False)


# --------------------------------------------------------------------------- shared


def _measurements(tree: Tree, noisy: Any) -> np.ndarray:
    """Validated values, one per node, in floating point."""
    check.instance("tree", tree, Tree)
    v = tree._values("noisy", noisy, columns=False)
    if v.dtype == np.int64:
        v = v.astype(np.float64)
    check.finite("noisy", v)
    return v


def _child_lists(tree: Tree) -> list[list[int]]:
    """The children of each node as Python lists, over which Python iterates fastest."""
    start, child = (a.tolist() for a in tree._children)
    return [child[start[i] : start[i + 1]] for i in range(tree.n)]


@contextmanager
def _recursion(tree: Tree, instead: str) -> Iterator[None]:
    """Refuse a tree that is too high for recursion, and name the alternative."""
    try:
        yield
    except RecursionError:
        check.fail(
            "tree",
            f"must have fewer levels than Python's recursion limit ({sys.getrecursionlimit()}), "
            f"not {tree.height}; use {instead}, or raise the limit with sys.setrecursionlimit.",
        )
