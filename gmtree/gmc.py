"""Generation Matrix-based optimally consistent release (GMC), as its formulas are written.

Each formula is one line of products and solves with the matrices of a tree, evaluated from
right to left. :class:`gmtree.Consistency` computes the same in two fused sweeps and is what to
use; here the steps can be read, taken apart and changed.

With S the diagonal matrix of the variances (the identity where they are equal) and M the
constraint matrix, the consistent values closest to v are::

    v - S M (M^T S M)^-1 M^T v

and ``M^T S M = G^T G`` for a Generation Matrix G on the inner nodes, so that the inverse costs
one sweep up and one sweep down.

>>> import numpy as np, gmtree as gm
>>> tree = gm.shapes.grouped(100, rng=1)
>>> noisy = np.random.default_rng(2).normal(10, 3, tree.n)
>>> x = gm.consistent(tree, noisy)
>>> np.allclose(gm.gmc.with_square_roots(tree, noisy), x)
True
>>> np.allclose(gm.gmc.without_square_roots(tree, noisy), x)
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.matrix import ConstraintMatrix, GenerationMatrix
from gmtree.tree import Tree

__all__ = ["construct", "with_square_roots", "without_square_roots"]


def construct(tree: Tree, variance: Any = None) -> GenerationMatrix:
    """The Generation Matrix G on ``tree.subtree(1)`` with ``G.T @ G = M.T @ S @ M``.

    Bottom up, each inner node i gets::

        theta_i = (number of children) - sum over inner children j of 1 / (1 + theta_j)

    and weighs ``sqrt(1 + theta_i)``, the edge to its parent one over that. With variances s it
    is ``theta_i = sum of s_c - sum of s_j^2 / (s_j + theta_j)``; nodes weigh
    ``sqrt(s_i + theta_i)`` and edges ``s_i / sqrt(s_i + theta_i)``.

    Parameters
    ----------
    tree : Tree
        With more than one node.
    variance : optional
        As for :class:`~gmtree.Consistency`; positive and finite.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> tree = gm.shapes.complete(2, 3)
    >>> G = gm.gmc.construct(tree)
    >>> G.node**2
    array([2.33333333, 3.        , 3.        ])
    >>> M = gm.ConstraintMatrix(tree).toarray()
    >>> np.allclose(G.toarray().T @ G.toarray(), M.T @ M)
    True
    """
    return Consistency(tree, variance).generation_matrix


def with_square_roots(tree: Tree, noisy: Any, variance: Any = None) -> np.ndarray:
    """Optimal consistent values by ``v - S M (G^-1 (G^-T (M^T v)))`` with G of :func:`construct`.

    Parameters
    ----------
    tree : Tree
    noisy : array of shape (n,) or (n, k)
        Measured value of each node.
    variance : optional
        As for :class:`~gmtree.Consistency`; positive and finite.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.gmc.with_square_roots(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([9., 5., 4.])
    """
    v, post = _problem(tree, noisy, variance)
    if tree.n == 1:
        return v.copy()
    M, G = ConstraintMatrix(tree), post.generation_matrix
    S = _column(post._positive_variance(), v)
    result = v - S * (M @ G.solve(G.T.solve(M.T @ v)))
    return result.astype(v.dtype, copy=False)


def without_square_roots(tree: Tree, noisy: Any, variance: Any = None) -> np.ndarray:
    """Optimal consistent values by ``v - S M (G^-1 (theta' * (G^-T (M^T v))))``.

    Here G has the node weights ``theta'_i = s_i + theta_i`` and the edge weights ``s_i`` (all
    one where variances are equal), with theta as in :func:`construct`.

    Parameters
    ----------
    tree : Tree
    noisy : array of shape (n,) or (n, k)
        Measured value of each node.
    variance : optional
        As for :class:`~gmtree.Consistency`; positive and finite.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.gmc.without_square_roots(gm.shapes.star(3), [10.0, 4.0, 3.0], variance=[1, 1, 2])
    array([9.25, 4.75, 4.5 ])
    """
    v, post = _problem(tree, noisy, variance)
    if tree.n == 1:
        return v.copy()
    variances = post._positive_variance()
    s = variances[tree.internal]
    theta = post.theta + s
    M, G = ConstraintMatrix(tree), GenerationMatrix(tree.subtree(1), node=theta, edge=s)
    S, theta = _column(variances, v), _column(theta, v)
    result = v - S * (M @ G.solve(theta * G.T.solve(M.T @ v)))
    return result.astype(v.dtype, copy=False)


def _problem(tree: Tree, noisy: Any, variance: Any) -> tuple[np.ndarray, Consistency]:
    """Checked values in floating point, and stage 1 for their variances."""
    post = Consistency(tree, variance)
    v = check.values("noisy", tree._aligned("noisy", noisy), tree.n)
    if v.dtype == np.int64:
        v = v.astype(np.float64)
    check.finite("noisy", v)
    return v, post


def _column(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One number per row, ready to multiply the rows of `v`."""
    return a if v.ndim == 1 else a[:, None]
