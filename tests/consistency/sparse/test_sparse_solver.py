"""Any aggregation matrix: dense algebra, limits of variances, conjugate gradients, fill-in."""

from __future__ import annotations

import numpy as np
import pytest
from reference.tables import Dense
from scipy import sparse

from gmtree._kernels import sparse as kernels
from gmtree.consistency.sparse import ContradictionError, ConvergenceError, SparseSolver, solver


def random_aggregates(rng, aggregates=6, bottom=8):
    """An aggregation matrix with entries of any size and sign, half of which are zero."""
    A = rng.normal(size=(aggregates, bottom)) * (rng.random((aggregates, bottom)) < 0.5)
    return sparse.csr_array(A), np.vstack([A, np.eye(bottom)])


@pytest.fixture
def iterative(monkeypatch):
    """Without any room for a factor, the solver uses conjugate gradients."""
    monkeypatch.setattr(solver, "MOST_OPERATIONS", -1)


@pytest.mark.parametrize("kind", ["finite", "missing", "exact", "both"])
def test_any_entries_beside_dense_algebra(kind):
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, S = random_aggregates(rng)
        s = np.exp(rng.normal(0, 3, len(S)))
        if kind in ("missing", "both"):
            s[rng.random(s.size) < 0.3] = np.inf
        if kind in ("exact", "both"):
            s[rng.permutation(s.size)[:2]] = 0
        y = S @ rng.normal(size=(8, 3)) + np.sqrt(np.where(np.isinf(s), 0, s))[:, None]
        sparse_solver = SparseSolver(A, s)
        found, variance = sparse_solver.solve(y), sparse_solver.variances()
        for k in range(3):
            expected = Dense(S, y[:, k], s).of(S)
            known = np.isfinite(expected.variance)
            np.testing.assert_array_equal(~sparse_solver.undetermined, known)
            np.testing.assert_allclose(found.values[known, k], expected.value[known], atol=1e-8)
            np.testing.assert_allclose(variance, expected.variance, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(A @ found.values[6:], found.values[:6], atol=1e-12)
        # The multipliers are the gradient, and balance at each bottom series.
        usable = (s > 0) & np.isfinite(s)
        slope = (found.values - y)[usable] / s[usable, None]
        np.testing.assert_allclose(found.multipliers[usable], slope, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(S.T @ found.multipliers, 0, atol=1e-9)


def test_variances_under_other_noise():
    rng = np.random.default_rng(1)
    A, S = random_aggregates(rng)
    s, noise = np.exp(rng.normal(0, 3, len(S))), rng.exponential(size=len(S))
    s[[0, 9]] = 0
    sparse_solver = SparseSolver(A, s)
    projection = np.array([sparse_solver.solve(unit).values for unit in np.eye(len(S))]).T
    np.testing.assert_allclose(sparse_solver.variances(noise=noise), projection**2 @ noise)
    np.testing.assert_allclose(
        sparse_solver.variances(np.array([7, 1]), noise), (projection**2 @ noise)[[7, 1]]
    )


def test_sums_that_are_not_determined_are_split_with_least_squares():
    A = sparse.csr_array([[1.0, 1, 1, 0], [0, 0, 1, 1]])
    sparse_solver = SparseSolver(A, np.array([1.0, 1, 1, np.inf, np.inf, np.inf]))
    x = sparse_solver.solve(np.array([10.0, 5, 4, np.nan, np.nan, np.nan])).values
    # The sum 6 belongs to two series. The second of them and a third have the sum 5.
    np.testing.assert_allclose(x[2:], [4, 7 / 3, 11 / 3, 4 / 3])
    np.testing.assert_array_equal(sparse_solver.undetermined, [0, 0, 0, 1, 1, 1])


def test_a_contradiction_names_series_and_difference():
    A = sparse.csr_array([[1.0, 1, 1], [1, 1, 0]])
    sparse_solver = SparseSolver(A, np.array([0.0, 0, 1, 1, 0]))
    with pytest.raises(ContradictionError, match=r"differs by 0\.5") as caught:
        sparse_solver.solve(np.array([10.0, 6, 3, 3, 4.5]))
    assert caught.value.difference == 0.5
    # Differences by rounding of the measured values are no contradiction, whatever the variances.
    sparse_solver.solve(np.array([10.0 + 1e-12, 6, 3, 3, 4]))
    wrong = np.array([1e-5, 6e-6, 1e9, 1e9, 4.1e-6])
    with pytest.raises(ContradictionError):
        sparse_solver.solve(wrong)


@pytest.mark.usefixtures("iterative")
def test_conjugate_gradients_reach_their_tolerance_in_deviations(monkeypatch):
    rng = np.random.default_rng(2)
    for _ in range(10):
        A, S = random_aggregates(rng, 15, 20)
        s = np.exp(rng.normal(0, 4, len(S)))
        y = rng.normal(size=(len(S), 2))
        iterated = SparseSolver(A, s).solve(y, tolerance=1e-9)
        assert iterated.iterations > 0
        with monkeypatch.context() as patched:
            patched.setattr(solver, "MOST_OPERATIONS", 1e9)
            direct = SparseSolver(A, s)
        error = (iterated.values - direct.solve(y).values) / np.sqrt(s)[:, None]
        assert np.linalg.norm(error, axis=0).max() <= 2e-9 * np.linalg.norm(y / np.sqrt(s)[:, None])
        np.testing.assert_allclose(SparseSolver(A, s).variances(), direct.variances(), rtol=1e-7)
        with pytest.raises(ConvergenceError, match=r"in 2 iterations, not 1\.0e-10"):
            SparseSolver(A, s).solve(y, most=2)
    assert SparseSolver(A, s).operations == np.inf


def test_predicted_entries_of_the_factor():
    rng = np.random.default_rng(3)
    for _ in range(20):
        n = int(rng.integers(1, 12))
        pattern = rng.random((n, n)) < 0.25
        M = (pattern | pattern.T | np.eye(n, dtype=bool)).astype(float)
        count, work = np.zeros(n, np.int64), np.empty((2, n), np.uint32)
        a = sparse.csc_array(M)
        start, row = (b.astype(np.int32).view(np.uint32) for b in (a.indptr, a.indices))
        assert kernels.factor_counts(start, row, *work, count, n * n)
        np.testing.assert_array_equal(count, factor_counts(M))
        if count.sum() > 0:
            count[:] = 0
            assert not kernels.factor_counts(start, row, *work, count, count.sum())


def factor_counts(M: np.ndarray) -> np.ndarray:
    """Entries below the diagonal, by elimination of one column after the other."""
    filled = M != 0
    for k in range(len(M)):
        below = np.flatnonzero(filled[k + 1 :, k]) + k + 1
        filled[np.ix_(below, below)] = True
    return np.tril(filled, -1).sum(axis=0)
