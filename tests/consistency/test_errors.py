"""Variances and covariances of consistent values: against exact arithmetic and simulation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import consistency as exact
from reference.consistency import KINDS, Problem, problems
from trees import named_shapes, trees

import gmtree as gm

SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(3)
# Beyond this an exact variance stands for infinity.
INFINITE = exact.HUGE / 10**20


def number(x: Fraction) -> float:
    return np.inf if x > INFINITE else -np.inf if x < -INFINITE else float(x)


def covariances(problem: Problem) -> list[list[Fraction]]:
    return exact.covariance(problem.parent, problem.s)


def close(found: np.ndarray, expected: np.ndarray, scale: np.ndarray) -> None:
    """Check that numbers agree to 1e-12 of their scale, and that the same ones are infinite."""
    found, expected = np.asarray(found), np.asarray(expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    difference = np.abs(found[finite] - expected[finite])
    assert np.all(difference <= 1e-12 * np.broadcast_to(scale, expected.shape)[finite])


# --------------------------------------------------------------------------- against exact values


@given(problems(), SEEDS)
def test_node_variance_under_other_noise(problem, seed):
    rng = np.random.default_rng(seed)
    noise = rng.exponential(size=(problem.tree.n, 2)) * 10 ** rng.uniform(
        -3, 3, (problem.tree.n, 1)
    )
    noise[(problem.s == 0) | np.isinf(problem.s)] = 0
    known = np.isfinite(problem.solver.node_variance())
    found = problem.solver.node_variance(noise=noise)
    assert np.all(np.isinf(found[~known]))
    for k in range(2):
        exactly = exact.noise_variances(problem.parent, problem.s, noise[:, k])
        expected = np.array([number(x) for x in exactly])
        close(found[known, k], expected[known], expected[known])
        one = problem.solver.node_variance(noise={"node": noise[:, k]})
        np.testing.assert_array_equal(one, found[:, k])


@given(problems())
def test_noise_as_weighted_gives_the_same(problem):
    own = problem.solver.node_variance()
    noise = {"node": np.where(np.isinf(problem.s), np.nan, problem.s)}
    close(problem.solver.node_variance(noise=noise), own, own)


def test_noise_of_values_known_exactly_counts():
    post = gm.Consistency(STAR, [0.0, 1, 1])
    np.testing.assert_allclose(post.node_variance(noise=[4.0, 1, 1]), [4, 1.5, 1.5])


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ([1.0] * 4, "'noise' must be one number"),
        (np.ones((2, 2)), "'noise' must have one row per node"),
        ([1.0, np.nan, 1], "'noise' must be finite .* node 1 has nan"),
        (np.array([[1.0], [1], [-1]]), "'noise' must be finite .* node 2"),
        ("x", "'noise'"),
    ],
)
def test_wrong_noise(noise, message):
    with pytest.raises((TypeError, ValueError), match=message):
        gm.Consistency(STAR).node_variance(noise=noise)


@given(problems())
def test_node_variance(problem):
    C = covariances(problem)
    expected = np.array([number(C[i][i]) for i in range(problem.tree.n)])
    close(problem.solver.node_variance(), expected, expected)


@given(problems())
def test_covariance(problem):
    C, n = covariances(problem), problem.tree.n
    i, j = np.indices((n, n))
    found = problem.solver.covariance(i, j)
    std = np.sqrt([number(C[k][k]) for k in range(n)])
    known = np.isfinite(std) & np.isfinite(std)[:, None]
    std[np.isinf(std)] = 0
    expected = np.array([[number(c) for c in row] for row in C])
    close(found[known], expected[known], (std[:, None] * std)[known])
    np.testing.assert_array_equal(found, found.T)
    # For undetermined nodes, only the variance is defined.
    same = ~known & np.eye(n, dtype=bool)
    np.testing.assert_array_equal(found[same], np.inf)
    np.testing.assert_array_equal(found[~known & ~same], np.nan)


def test_covariance_below_undetermined_nodes():
    #        0            measured: 0, 3 and 5
    #    1       2
    #  3   4   5   6
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    post = gm.Consistency(tree, [1, np.inf, np.inf, 2, np.inf, 3, np.inf])
    np.testing.assert_array_equal(post.covariance([3, 3, 3, 5], [5, 3, 0, 5]), [0, 2, 0, 3])
    np.testing.assert_array_equal(post.covariance([1, 1, 4], [2, 1, 0]), [np.nan, np.inf, np.nan])


@given(problems(max_n=8), SEEDS)
def test_leaf_sum_variance(problem, seed):
    C, leaves, post = covariances(problem), problem.tree.leaves, problem.solver
    m = leaves.size

    def variance(chosen: np.ndarray) -> float:
        return number(sum((C[i][j] for i in chosen for j in chosen), Fraction(0)))

    ranges = np.array([(a, b) for a in range(m + 1) for b in range(a, m + 1)])
    across = problem.tree.leaves_left_to_right
    expected = np.array([variance(across[a:b]) for a, b in ranges])
    # The variance of an exactly known sum is the square of a rounding error.
    rounding = 1e-16 * problem.s[np.isfinite(problem.s)].max()
    close(post.range_variance(ranges), expected, expected + rounding)
    mask = np.random.default_rng(seed).random(m) < 0.5
    expected = np.array(variance(leaves[mask]))
    close(np.array(post.leaf_sum_variance(mask)), expected, expected + rounding)


@settings(max_examples=20)
@given(problems(max_n=40, kinds=("equal", "scalar", "level", "node")))
def test_dense_covariance(problem):
    tree, post = problem.tree, problem.solver
    A = np.array(exact.leaf_sums(problem.parent), float)
    C = A @ np.linalg.inv(A.T @ (A / problem.s[:, None])) @ A.T
    n = tree.n
    np.testing.assert_allclose(post.node_variance(), np.diag(C), rtol=1e-9)
    np.testing.assert_allclose(post.covariance(*np.indices((n, n))), C, rtol=0, atol=1e-9 * C.max())
    mask = np.arange(tree.n_leaves) % 3 != 1
    chosen = tree.leaves[mask]
    expected = C[np.ix_(chosen, chosen)].sum()
    assert post.leaf_sum_variance(mask) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("variance", [None, "mixed"])
def test_simulation(variance):
    """The sample variances of many projections agree with the formulas."""
    rng = np.random.default_rng(0)
    tree = gm.shapes.grouped(20, rng=1)
    s = np.full(tree.n, 4.0)
    if variance:
        s[[0, 5]] = 0, np.inf
        s[tree.leaves[:3]] = 9
    post = gm.Consistency(tree, s)
    runs = 20_000
    noise = rng.standard_normal((tree.n, runs)) * np.where(np.isinf(s), 0, np.sqrt(s))[:, None]
    x = post.project(noise)
    # The relative standard deviation of a sample variance is sqrt(2 / runs), here 1 %.
    np.testing.assert_allclose(np.mean(x**2, axis=1), post.node_variance(), rtol=0.06, atol=1e-12)
    first, last = tree.leaves[3], tree.leaves[-1]
    std = np.sqrt(post.covariance(first, first) * post.covariance(last, last))
    assert np.mean(x[first] * x[last]) == pytest.approx(post.covariance(first, last), abs=std / 20)
    some = x[tree.leaves_left_to_right[2:9]].sum(axis=0)
    assert np.mean(some**2) == pytest.approx(post.range_variance([2, 9]), rel=0.06)


# --------------------------------------------------------------------------- identities


@given(trees(max_n=60), st.floats(0.01, 100))
def test_variances_add_up_to_the_number_of_leaves(tree, s):
    assert gm.Consistency(tree, s).node_variance().sum() == pytest.approx(s * tree.n_leaves)


@pytest.mark.large
def test_variances_of_large_trees():
    for name, tree in named_shapes(10**6).items():
        post = gm.Consistency(tree)
        variance = post.node_variance()
        assert variance.sum() == pytest.approx(tree.n_leaves, rel=1e-9), name
        assert variance.min() > 0
        everything = post.range_variance([[0, tree.n_leaves]])[0]
        assert everything == pytest.approx(variance[tree.root], rel=1e-9), name
        i = np.random.default_rng(0).integers(0, tree.n_leaves, 1000)
        ranges = np.stack([i, i + 1], axis=1)
        single = variance[tree.leaves_left_to_right[i]]
        if tree.height < 1000:
            np.testing.assert_allclose(post.range_variance(ranges), single, rtol=1e-9)


@given(problems(max_n=40, kinds=[k for k in KINDS if k != "mixed"]))
def test_node_variance_is_never_above_the_measurement(problem):
    assert np.all(problem.solver.node_variance() <= problem.s * (1 + 1e-12))


def test_exactly_known_nodes_have_no_variance():
    post = gm.Consistency(STAR, [0, 1, 3])
    np.testing.assert_allclose(post.node_variance(), [0, 0.75, 0.75])
    assert post.covariance(1, 2) == pytest.approx(-0.75)
    assert post.leaf_sum_variance([True, True]) == pytest.approx(0, abs=1e-15)
    np.testing.assert_array_equal(gm.Consistency(STAR, 0).node_variance(), 0)


def test_undetermined_nodes_have_infinite_variance():
    post = gm.Consistency(gm.shapes.star(5), [1, np.inf, 1, np.inf, np.inf])
    np.testing.assert_allclose(post.node_variance(), [1, np.inf, 1, np.inf, np.inf])
    assert post.leaf_sum_variance([False, True, False, False]) == 1
    assert post.leaf_sum_variance([True, False, False, False]) == np.inf
    assert post.leaf_sum_variance([True, False, True, True]) == 2
    np.testing.assert_array_equal(post.range_variance([[0, 4], [0, 2], [1, 2]]), [1, np.inf, 1])
    # If one child is not measured, it is determined as its parent minus its siblings.
    post = gm.Consistency(STAR, [1, 1, np.inf])
    np.testing.assert_allclose(post.node_variance(), [1, 1, 2])


@given(problems(max_n=20, kinds=[k for k in KINDS if k != "mixed"]))
def test_theta(problem):
    expected = exact.theta(problem.parent, problem.s)
    np.testing.assert_allclose(problem.solver.theta, expected, rtol=1e-13)


def test_theta_is_infinite_above_undetermined_nodes():
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    post = gm.Consistency(tree, [1, 1, 1, np.inf, np.inf])
    np.testing.assert_array_equal(post.theta, [2, np.inf])


# --------------------------------------------------------------------------- forms of questions


def test_one_pair_and_many():
    post = gm.Consistency(gm.shapes.complete(2, 3))
    assert isinstance(post.covariance(1, 2), float)
    table = post.covariance(np.arange(7)[:, None], np.arange(7))
    assert table.shape == (7, 7)
    assert table[1, 2] == post.covariance(1, 2)
    np.testing.assert_allclose(np.diag(table), post.node_variance())
    assert post.covariance([], []).shape == (0,)


def test_one_range_and_many():
    post = gm.Consistency(gm.shapes.complete(2, 3))
    ranges = np.array([[0, 3], [1, 1], [2, 4]])
    many = post.range_variance(ranges)
    assert many[1] == 0
    assert isinstance(post.range_variance([0, 3]), float)
    assert post.range_variance([0, 3]) == many[0]
    assert post.range_variance(ranges.astype(np.uint8))[2] == many[2]
    assert post.range_variance(np.empty((0, 2), int)).shape == (0,)


def test_bad_questions():
    post = gm.Consistency(STAR)
    with pytest.raises(ValueError, match="'i' must hold node numbers from 0 to 2, not 3"):
        post.covariance(3, 0)
    with pytest.raises(TypeError, match="'j' must hold node numbers"):
        post.covariance(0, 0.5)
    with pytest.raises(ValueError, match=r"one entry per leaf \(2\), not \(3,\)"):
        post.leaf_sum_variance([True, False, True])
    with pytest.raises(
        ValueError, match=r"0 <= a <= b <= 2, the number of leaves; row 1 is \[0, 3\]"
    ):
        post.range_variance([[0, 1], [0, 3]])
    with pytest.raises(ValueError, match=r"row 0 is \[2, 1\]"):
        post.range_variance([[2, 1]])
    with pytest.raises(ValueError, match=r"must have shape \(q, 2\)"):
        post.range_variance([[0, 1, 2]])
    with pytest.raises(TypeError, match="must hold positions of leaves"):
        post.range_variance([[0.0, 1.0]])
