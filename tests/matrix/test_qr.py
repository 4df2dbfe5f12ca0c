"""The (S, j)-Householder transformation and the "LO" QR decomposition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import pairs as reference_pairs
from trees import all_parents, trees

import gmtree as gm

seeds = st.integers(0, 2**32 - 1)


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    """Matrices with at least as many rows as columns, some entries or columns zero."""
    m = draw(st.integers(1, 6))
    n = m + draw(st.integers(0, 4))
    rng = np.random.default_rng(draw(seeds))
    return rng.normal(size=(n, m)) * (rng.random((n, m)) < draw(st.sampled_from([0.3, 1.0])))


def reflection(m: np.ndarray) -> np.ndarray:
    """I - 2 w w^T / w^T w with w = m - |m| e_1, as in the definition."""
    w = m - np.linalg.norm(m) * np.eye(len(m))[0]
    return np.eye(len(m)) - (2 * np.outer(w, w) / (w @ w) if w @ w > 0 else 0)


@given(matrices(), seeds)
def test_householder_is_the_reflection_of_its_definition(M, seed):
    rng = np.random.default_rng(seed)
    n, m = M.shape
    rows = rng.permutation(n)[: rng.integers(1, n + 1)]
    column = int(rng.integers(m))
    before = M.copy()
    Y = gm.householder(M, rows, column)
    np.testing.assert_array_equal(M, before)
    Q = np.eye(n)
    Q[np.ix_(rows, rows)] = reflection(M[rows, column])
    np.testing.assert_allclose(Y, Q @ M, atol=1e-7)
    np.testing.assert_allclose(Y[rows[0], column], np.linalg.norm(M[rows, column]))
    assert not Y[rows[1:], column].any()
    others = np.setdiff1d(np.arange(n), rows)
    np.testing.assert_array_equal(Y[others], M[others])


@given(matrices())
def test_lo_qr_factors_the_matrix(M):
    n, m = M.shape
    Q, L = gm.lo_qr(M)
    np.testing.assert_allclose(Q.T @ Q, np.eye(n), atol=1e-13)
    np.testing.assert_allclose(Q[:, :m] @ L, M, atol=1e-13)
    np.testing.assert_array_equal(L, np.tril(L))
    assert np.all(np.diag(L) >= 0)


@pytest.mark.parametrize("small", [1e-5, 1e-9, 1e-100, 1e-170])
def test_no_cancellation_where_the_column_is_nearly_done(small):
    Y = gm.householder([[1.0, 1.0, 0.0], [small, 0.0, 1.0]], [0, 1], 0)
    Q = Y[:, 1:]
    np.testing.assert_allclose(Q @ Q.T, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(Q @ [1.0, small], [1.0, 0.0], atol=1e-15 + small**2)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_extreme_scales(scale):
    M = np.array([[3.0], [4.0]])
    Q, L = gm.lo_qr(scale * M)
    np.testing.assert_allclose(L / scale, [[5.0]])
    np.testing.assert_allclose(Q[:, 0], [0.6, 0.8])


# --------------------------------------------------------------------------- on trees


def check_invariants(tree: gm.Tree) -> None:
    """Every step keeps three properties, and the last step gives the factor L."""
    tree = tree.canonical()
    n, n1 = tree.n, tree.n_internal
    if n1 == 0:
        return
    inner = gm.GenerationMatrix(tree.k_order_subtree(1)).toarray() != 0
    M = gm.ConstraintMatrix(tree).toarray()
    for k in range(n1):
        np.testing.assert_array_equal(M[:n1] != 0, inner)
        assert np.all(np.count_nonzero(M[n1:], axis=1) == 1)
        assert not M[n1:, n1 - k :].any()
        t = n1 - k - 1
        M = gm.householder(M, np.r_[t, 0:t, n1:n], t)
    assert not M[n1:].any()
    np.testing.assert_array_equal(M[:n1] != 0, inner)
    _, L = gm.lo_qr(gm.ConstraintMatrix(tree))
    np.testing.assert_allclose(M[:n1], L, rtol=1e-12, atol=1e-15)
    check_closed_form(tree, L)


def check_closed_form(tree: gm.Tree, L: np.ndarray) -> None:
    """Node weights sqrt(1 + theta), edge weights their inverse."""
    theta = np.array(list(reference_pairs.theta(tree.parent).values()))
    node = np.sqrt(1 + theta)
    closed = gm.GenerationMatrix(tree.k_order_subtree(1), node, 1 / node)
    np.testing.assert_allclose(L, closed.toarray(), rtol=1e-12, atol=1e-14)
    M = gm.ConstraintMatrix(tree).toarray()
    np.testing.assert_allclose(L.T @ L, M.T @ M, atol=1e-12)


@pytest.mark.parametrize("n", range(1, 7))
def test_invariants_on_all_small_trees(n):
    for parent in all_parents(n):
        check_invariants(gm.Tree.from_parents(parent))


@given(trees(max_n=25))
def test_invariants_on_random_trees(tree):
    check_invariants(tree)


# --------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("M", "error", "message"),
    [
        (np.ones((2, 3)), ValueError, "'M' must have at least as many rows as columns"),
        (
            np.ones(3),
            ValueError,
            r"'M' must be a matrix with at least one row and column, not have shape \(3",
        ),
        (np.ones((3, 0)), ValueError, "'M' must be a matrix with at least one row"),
        ([[1.0], [np.nan]], ValueError, "'M' must be finite; row 1 is nan"),
        ([["a"]], TypeError, "'M' must hold real numbers"),
    ],
)
def test_bad_matrices(M, error, message):
    with pytest.raises(error, match=message):
        gm.lo_qr(M)


def test_bad_rows_and_columns():
    M = np.eye(3)
    with pytest.raises(ValueError, match="'rows' must be distinct, not 0, 0"):
        gm.householder(M, [0, 0], 0)
    with pytest.raises(ValueError, match="'rows' must have entries from 0 to 2, not 3"):
        gm.householder(M, [3], 0)
    with pytest.raises(ValueError, match="'column' must have entries from 0 to 2, not 3"):
        gm.householder(M, [0], 3)
    with pytest.raises(ValueError, match="'column' must be at least 0, not -1"):
        gm.householder(M, [0], -1)
    with pytest.raises(TypeError, match="'rows' must hold integers"):
        gm.householder(M, [0.5], 0)
