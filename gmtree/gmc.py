"""Generation Matrix-based optimally consistent release (GMC), written like its formulas.

Each formula is one line of products and solves with the matrices of a tree, evaluated from
right to left, so that you can read and change every step. For your own work use
:class:`gmtree.Consistency`, which computes the same values in two fused sweeps. The table
translates the paper into code, with ``G = gm.GenerationMatrix(tree)`` and ``post =
gm.Consistency(tree)``:

    the paper says                           gmtree says
    ---------------------------------------  ---------------------------------------------
    T, a hierarchical tree                   gm.Tree.from_parents(parent), from_edges, ...
    n, n_1, m, h                             tree.n, .n_internal, .n_leaves, .height
    f_i; C_i                                 tree.parent[i]; tree.children(i)
    h_i, the node height                     tree.node_height[i]
    descending order of height               tree.order, tree.rank; tree.canonical()
    T^(k), the k-order subtree               tree.k_order_subtree(k)
    G^(w_node, w_edge), Generation Matrix    gm.GenerationMatrix(tree, w_node, w_edge)
    G, the structure matrix                  gm.GenerationMatrix(tree)
    k-order submatrix; G_1 ~ G_2             G.submatrix(k); G.is_similar(other)
    H_S, the mapping matrix                  gm.MappingMatrix(index, n)
    H_S(f), the parents of the leaves        gm.MappingMatrix(np.searchsorted(
                                             tree.internal, tree.parent[tree.leaves]), n_1)
    upward propagation, G^-T v               G.T.solve(v)
    downward propagation, G^-1 v             G.solve(v)
    (I - G^T) 1, G^-T 1, G^-1 1              tree.child_count, .subtree_size, .depth
    G^-1: j is i or an ancestor of i         tree.is_ancestor(j, i); G.inverse()
    G G^T: i and j are siblings              tree.siblings(i); G.siblings()
    (G^T G)^-1, the common ancestors         tree.common_ancestors(i, j)
    lambda_i; u_i, v_i                       G.eigenvalues(); .left_, .right_eigenvector(i)
    diagonal decomposition alpha, beta       G.diagonal_decomposition()
    A, L, D and C of T                       gm.adjacency(tree), laplacian,
                                             distance_matrix, ancestral_matrix
    BuildTree(x) = G^-T H^T x                tree.aggregate(x)
    BuildTree^-1(v) = H v                    tree.leaf_values(v)
    epsilon-differential privacy             gm.release(tree, x, epsilon=1).ledger
    Lap(h / epsilon)                         gm.privacy.testing.continuous_laplace;
                                             to publish, gm.privacy.discrete_laplace
    M, the consistency constraint matrix     gm.ConstraintMatrix(tree)
    (S, j)-Householder transformation        gm.householder(M, S, j)
    "LO"-QR decomposition                    gm.lo_qr(M)
    theta                                    post.theta
    G_T(1)<-T, inner-product equivalent      post.generation_matrix
    Algorithm 1, stage 1: construct it       gm.gmc.construct(tree); gm.Consistency(tree)
    stage 2: v - M (G^-1 (G^-T (M^T v)))     gm.gmc.with_square_roots(tree, v);
                                             post.project(v)
      the same without square roots          gm.gmc.without_square_roots(tree, v)
    Algorithm 2, GMC from x to the result    gm.gmc.release(tree, x, epsilon), to study;
                                             gm.release(tree, x, epsilon=...), to publish
    mse of the result, 2 m h^2 / epsilon^2   post.node_variance()
    bias                                     gm.consistency_bias(tree, values)
    Processless, Boosting, PrivTrie          gm.baselines
    Census2010, NYCTaxi, SynData             gm.datasets
    node query, range query                  gm.queries

The paper numbers nodes from 1, in descending order of height. In gmtree numbers begin at 0, and
every vector is in your own numbering. ``examples/paper_tour.py`` shows all definitions,
properties, theorems and algorithms with numbers.

Let S be the diagonal matrix of the variances (the identity if they are equal) and M the
constraint matrix. Then the consistent values closest to v are:

    v - S M (M^T S M)^-1 M^T v

Because ``M^T S M = G^T G`` for a Generation Matrix G on the internal nodes, applying the
inverse takes one sweep up and one sweep down.

>>> import numpy as np, gmtree as gm
>>> tree = gm.shapes.grouped(100, rng=1)
>>> noisy = np.random.default_rng(2).normal(10, 3, tree.n)
>>> x = gm.reconcile(tree, noisy)
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
from gmtree.matrix import ConstraintMatrix, GenerationMatrix, MappingMatrix
from gmtree.privacy.testing import continuous_laplace
from gmtree.tree import Tree

__all__ = ["construct", "release", "with_square_roots", "without_square_roots"]


def construct(tree: Tree, variance: Any = None) -> GenerationMatrix:
    """The Generation Matrix G on ``tree.k_order_subtree(1)`` with ``G.T @ G = M.T @ S @ M``.

    From the leaves up, each internal node i gets:

        theta_i = (number of children) - sum over internal children j of 1 / (1 + theta_j)

    The weight of the node is ``sqrt(1 + theta_i)``, and the weight of the edge to its parent is the
    reciprocal. With variances s, the sums are ``theta_i = sum of s_c - sum of s_j^2 / (s_j +
    theta_j)``, over all children c and internal children j. The weight of the node is then
    ``sqrt(s_i + theta_i)``, and the weight of its edge is ``s_i / sqrt(s_i + theta_i)``.

    Parameters
    ----------
    tree : Tree
        With more than one node.
    variance : optional
        As for :class:`gmtree.Consistency`; positive and finite.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> tree = gm.shapes.complete(2, 3)
    >>> G = gm.gmc.construct(tree)
    >>> G.node_weight**2
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
        As for :class:`gmtree.Consistency`; positive and finite.

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
    S = _column(post._factor.positive_variance(), v)
    result = v - S * (M @ G.solve(G.T.solve(M.T @ v)))
    return result.astype(v.dtype, copy=False)


def without_square_roots(tree: Tree, noisy: Any, variance: Any = None) -> np.ndarray:
    """Optimal consistent values by ``v - S M (G^-1 (theta' * (G^-T (M^T v))))``.

    Here G has the node weights ``theta'_i = s_i + theta_i`` and the edge weights ``s_i`` (all one
    if variances are equal), with theta as in :func:`construct`.

    Parameters
    ----------
    tree : Tree
    noisy : array of shape (n,) or (n, k)
        Measured value of each node.
    variance : optional
        As for :class:`gmtree.Consistency`; positive and finite.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.gmc.without_square_roots(gm.shapes.star(3), [10.0, 4.0, 3.0], variance=[1, 1, 2])
    array([9.25, 4.75, 4.5 ])
    """
    v, post = _problem(tree, noisy, variance)
    if tree.n == 1:
        return v.copy()
    variances = post._factor.positive_variance()
    s = variances[tree.internal]
    theta = post.theta + s
    M, G = ConstraintMatrix(tree), GenerationMatrix(tree.k_order_subtree(1), theta, s)
    S, theta = _column(variances, v), _column(theta, v)
    result = v - S * (M @ G.solve(theta * G.T.solve(M.T @ v)))
    return result.astype(v.dtype, copy=False)


def release(
    tree: Tree, x: Any, epsilon: float, *, rng: np.random.Generator | int | None = None
) -> np.ndarray:
    """Consistent noisy values from GMC as in the paper. For study only, NOT for publication.

    The five steps of Algorithm 2 take five lines of code. The noise is drawn in floating point from
    an ordinary random generator, which guarantees no privacy (Mironov 2012). To publish data, use
    :func:`gmtree.release`, which draws exact discrete noise and writes a ledger.

    Parameters
    ----------
    tree : Tree
    x : array of shape (n_leaves,)
        Count of each leaf, in the order of ``tree.leaves``.
    epsilon : float
        Privacy loss. The noise at every node has the scale ``tree.height / epsilon``.
    rng : int or numpy Generator, optional
        Seed or generator, as :func:`numpy.random.default_rng` accepts.

    Returns
    -------
    array of shape (n,)
        The consistent values closest to the noisy ones. Their expected squared errors add up to
        ``2 * n_leaves * (height / epsilon) ** 2``.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.complete(2, 3)
    >>> v = gm.gmc.release(tree, [30, 10, 21, 5], epsilon=1, rng=1)
    >>> v.round(1)
    array([68.1, 45.1, 23. , 36.7,  8.4, 17.7,  5.4])
    >>> bool(gm.consistency_bias(tree, v) < 1e-12)
    True
    """
    check.instance("tree", tree, Tree)
    x = tree._values("x", x, "leaf", columns=False)
    check.finite("x", x, per="leaf")
    epsilon = check.real("epsilon", epsilon)
    if epsilon <= 0 or not np.isfinite(tree.height / epsilon):
        check.fail(
            "epsilon",
            f"must be positive and large enough for the noise to be finite, not {epsilon}.",
        )

    H = MappingMatrix(tree.leaves, tree.n)
    v = GenerationMatrix(tree).T.solve(H.T @ x)
    noisy = v + continuous_laplace(tree.height / epsilon, tree.n, rng)
    if tree.n == 1:
        return noisy
    M, G = ConstraintMatrix(tree), construct(tree)
    return noisy - M @ G.solve(G.T.solve(M.T @ noisy))


def _problem(tree: Tree, noisy: Any, variance: Any) -> tuple[np.ndarray, Consistency]:
    """Validated values in floating point, and stage 1 for their variances."""
    post = Consistency(tree, variance)
    v = tree._values("noisy", noisy)
    if v.dtype == np.int64:
        v = v.astype(np.float64)
    check.finite("noisy", v)
    return v, post


def _column(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One number per row, in a shape that broadcasts over the columns of `v`."""
    return a if v.ndim == 1 else a[:, None]
