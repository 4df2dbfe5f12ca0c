"""Diagnostics equal those of removing each measurement and solving again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from reference.consistency import HUGE, problems, random_problem
from reference.diagnostics import dense_leave_one_out, leave_one_out
from scipy import stats
from trees import named_shapes

import gmtree as gm

TREE = gm.Tree.from_levels(
    ["NY", "NY", "VT"], ["Albany", "Orange", "Orange"], levels=["state", "county"]
)
NOISY = np.array([705.0, 676.0, 29.0, 304.0, 472.0, 29.0])


@given(problems(max_n=9, kinds=("equal", "scalar", "level", "node", "wide", "mixed")))
def test_leave_one_out_is_solving_without_the_measurement(problem):
    tree, s = problem.tree, problem.s
    try:
        d = problem.solver.diagnose(problem.v)
    except ValueError:  # exact values that contradict each other
        return
    scale = 1e-9 * np.abs(problem.v[np.isfinite(s)]).max(initial=1e-300)
    for i in range(tree.n):
        if (s == 0).sum() > 1:
            continue  # without one exact value, the rest may contradict themselves
        expected, variance = leave_one_out(tree.parent, problem.v, s, i)
        if variance > HUGE / 10**20:
            assert np.isnan(d.leave_one_out[i])
            assert np.isinf(d.leave_one_out_variance[i])
        else:
            assert abs(d.leave_one_out[i] - float(expected)) <= scale
            assert d.leave_one_out_variance[i] == pytest.approx(float(variance), rel=1e-9)


def test_leave_one_out_on_300_trees():
    """Variances over four decades, one node in five not measured; dense least squares."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        tree = gm.shapes.random_recursive(int(rng.integers(2, 25)), rng)
        s = 10 ** rng.uniform(-2, 2, tree.n)
        s[rng.random(tree.n) < 0.2] = np.inf
        s[tree.leaves[np.isinf(s[tree.leaves])]] = 1.0
        v = tree.aggregate(rng.uniform(0, 100, tree.n_leaves)) + rng.normal(size=tree.n)
        d = gm.Consistency(tree, {"node": s}).diagnose(v)
        expected, variance = dense_leave_one_out(tree.parent, v, s)
        np.testing.assert_allclose(d.leave_one_out, expected, rtol=0, atol=1e-9 * np.abs(v).max())
        np.testing.assert_allclose(d.leave_one_out_variance, variance, rtol=1e-9)


@given(problems(max_n=30, kinds=("equal", "scalar", "level", "node", "mixed")))
def test_all_numbers_follow_from_the_projection_and_its_variance(problem):
    post, s, v = problem.solver, problem.s, problem.v
    x, P = post.project(v), post.node_variance()
    d = post.diagnose(v)
    there = np.isfinite(s)
    scale = 1e-9 * np.abs(v[there]).max(initial=1e-300)
    np.testing.assert_allclose(d.residual[there], (v - x)[there], atol=scale)
    assert np.isnan(d.residual[~there]).all()
    usual = there & (s > 0)
    np.testing.assert_allclose(d.leverage[usual], (P / np.where(usual, s, 1))[usual], atol=1e-9)
    assert (d.leverage[~there] == 0).all()
    assert (d.leverage[s == 0] == 1).all()
    clear = usual & (0.999 * s > P)
    z = (v - x)[clear] / np.sqrt(s[clear] - P[clear])
    np.testing.assert_allclose(d.standardized[clear], z, atol=1e-6 * np.abs(z).max(initial=1))
    chi2 = np.sum((v - x)[usual] ** 2 / s[usual])
    assert d.chi2 == pytest.approx(chi2, rel=1e-6, abs=1e-9)
    assert d.dof == pytest.approx((1 - P[usual] / s[usual]).sum(), abs=1e-6)
    assert sum(level.chi2 for level in d.by_level) == pytest.approx(d.chi2)
    assert sum(level.measured for level in d.by_level) == usual.sum()
    np.testing.assert_array_equal(d.leave_one_out_std_error, np.sqrt(d.leave_one_out_variance))


@pytest.mark.parametrize("name", named_shapes(200))
def test_all_shapes(name):
    """Degrees of freedom are measured nodes less leaves, in any numbering."""
    tree = named_shapes(200)[name]
    rng = np.random.default_rng(3)
    v = rng.normal(size=tree.n)
    for variance in (None, 4.0, {"node": rng.uniform(1, 2, tree.n)}):
        post = gm.Consistency(tree, variance)
        d = post.diagnose(v)
        assert d.dof == tree.n - tree.n_leaves
        assert d.leverage.sum() == pytest.approx(tree.n_leaves)
        np.testing.assert_allclose(d.residual, v - post.project(v), atol=1e-9)


def test_chi_squared_has_its_distribution(capsys):
    rng = np.random.default_rng(11)
    tree = gm.shapes.grouped(30, rng=2)
    s = rng.uniform(0.5, 8, tree.n)
    s[[3, 8]] = np.inf, 0.0
    post = gm.Consistency(tree, s)
    truth = tree.aggregate(rng.uniform(0, 50, tree.n_leaves))
    deviation = np.sqrt(np.where(np.isinf(s), 1e6, s))
    found = [post.diagnose(truth + deviation * rng.normal(size=tree.n)) for _ in range(2000)]
    test = stats.kstest([d.chi2 for d in found], stats.chi2(found[0].dof).cdf)
    uniform = stats.kstest([d.p_value for d in found], "uniform")
    z = np.array([d.standardized for d in found])
    with capsys.disabled():
        print(f"\nKolmogorov-Smirnov, 2,000 draws: {test.statistic:.4f}, p = {test.pvalue:.3f}")
    assert test.pvalue > 0.01
    assert uniform.pvalue > 0.01
    defined = ~np.isnan(z[0])
    assert abs(z[:, defined].std(axis=0) - 1).max() < 0.07


def test_the_kurtosis_of_laplace_noise_gives_its_p_value():
    rng = np.random.default_rng(12)
    tree = gm.shapes.complete(3, 5)
    post = gm.Consistency(tree, 2.0)
    noise = rng.laplace(size=(500, tree.n))
    right = [post.diagnose(v, excess_kurtosis=3.0).p_value for v in noise]
    by_node = [post.diagnose(v, excess_kurtosis=np.full(tree.n, 3.0)).p_value for v in noise]
    naive = [post.diagnose(v).p_value for v in noise]
    assert stats.kstest(right, "uniform").pvalue > 0.01
    assert stats.kstest(naive, "uniform").pvalue < 1e-3
    np.testing.assert_allclose(by_node, right, rtol=1e-9)


def test_one_wrong_measurement_comes_first_and_one_wrong_level_is_named():
    rng = np.random.default_rng(5)
    tree = gm.shapes.complete(4, 5)
    truth = tree.aggregate(rng.uniform(10, 100, tree.n_leaves))
    v = truth + rng.normal(size=tree.n)
    v[50] += 30
    d = gm.Consistency(tree).diagnose(v)
    assert d.worst(1)[0].node == 50
    assert d.p_value < 1e-6
    v = truth + rng.normal(size=tree.n) * np.where(tree.depth == 4, 5, 1)
    factors = [level.factor for level in gm.Consistency(tree).diagnose(v).by_level]
    assert int(np.argmax(factors)) == 3
    assert 12 < factors[3] < 30


def test_leaves_of_one_family_are_equally_suspicious():
    """Only their sum is checked, whatever their variances are."""
    rng = np.random.default_rng(6)
    tree = gm.shapes.complete(4, 4)
    v = tree.aggregate(rng.uniform(10, 100, tree.n_leaves)) + rng.normal(size=tree.n)
    v[tree.leaves[17]] += 30
    d = gm.Consistency(tree, {"node": rng.uniform(0.5, 2, tree.n)}).diagnose(v)
    family = tree.siblings(int(tree.leaves[17]))
    np.testing.assert_allclose(d.standardized[family], d.standardized[tree.leaves[17]])
    assert {each.node for each in d.worst(4)} == {*family.tolist(), int(tree.leaves[17])}
    assert str(d).count("(or 3 like it)") >= 1


def test_nothing_speaks_about_a_node():
    """Leaves alone are measured, so that nothing checks them; of two unknown leaves, the sum is."""
    d = gm.Consistency(gm.shapes.star(3), [np.inf, 1.0, 4.0]).diagnose([np.nan, 2.0, 3.0])
    assert (d.dof, d.chi2) == (0, 0.0)
    assert np.isnan(d.p_value)
    np.testing.assert_array_equal(d.leave_one_out, [5, np.nan, np.nan])
    np.testing.assert_array_equal(d.residual, [np.nan, 0, 0])
    np.testing.assert_array_equal(d.leverage, [0, 1, 1])
    assert d.worst() == ()
    assert "0 degrees of freedom." in str(d)
    d = gm.Consistency(gm.shapes.star(3), [1.0, np.inf, np.inf]).diagnose([7.0, 0.0, 0.0])
    assert np.isnan(d.leave_one_out).all()
    single = gm.Consistency(gm.shapes.star(1)).diagnose([3.0])
    assert single.dof == 0
    assert np.isnan(single.standardized[0])


def test_an_exact_value_is_checked_by_the_measurements():
    d = gm.Consistency(gm.shapes.star(3), [0.0, 1.0, 1.0]).diagnose([100.0, 4.0, 3.0])
    assert d.standardized[0] == pytest.approx(93 / np.sqrt(2))
    np.testing.assert_allclose(d.residual, [0, -46.5, -46.5])
    exact = gm.Consistency(gm.shapes.star(2), 0.0).diagnose([5.0, 5.0])
    assert np.isnan(exact.standardized).all()


def test_text_frame_and_picture():
    d = gm.Consistency(TREE, 16.0).diagnose(NOISY)
    text = str(d)
    assert max(map(len, text.splitlines())) <= 80
    assert "NY / any of 2" in text
    assert "county" in text
    frame = d.to_frame()
    assert frame.columns.tolist() == [
        "node", "parent", "depth", "state", "county", "measured", "reconciled", "residual",
        "standardized", "leave_one_out", "leave_one_out_std_error", "leverage",
    ]  # fmt: skip
    np.testing.assert_array_equal(frame.standardized, d.standardized)
    np.testing.assert_allclose(frame.reconciled, gm.reconcile(TREE, NOISY))
    assert d.worst(1)[0].path == ("total", "NY", "Albany")
    ax = d.plot()
    assert ax.get_ylabel() == "standardised residual"
    assert not d.residual.flags.writeable


def test_what_was_passed_in_may_change_later():
    v = NOISY.copy()
    d = gm.Consistency(TREE).diagnose(v)
    before = d.residual.copy()
    e = gm.Consistency(TREE).diagnose(v)
    v[:] = 0
    np.testing.assert_array_equal(e.residual, before)


@pytest.mark.parametrize(
    ("noisy", "options", "words"),
    [
        (np.ones((6, 2)), {}, "one value per node"),
        ([1.0, np.nan, 1, 1, 1, 1], {}, "node 1"),
        (NOISY, {"excess_kurtosis": np.nan}, "excess_kurtosis"),
        (NOISY, {"excess_kurtosis": [1.0, 2.0]}, "excess_kurtosis"),
        (NOISY, {"excess_kurtosis": "3"}, "excess_kurtosis"),
    ],
)
def test_bad_input_is_refused(noisy, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        gm.Consistency(TREE).diagnose(noisy, **options)


@pytest.mark.large
def test_a_large_tree():
    rng = np.random.default_rng(2)
    problem = random_problem(gm.shapes.random_recursive(200_000, 1), "node", rng)
    post, v = problem.solver, problem.v
    d = post.diagnose(v)
    np.testing.assert_allclose(d.residual, v - post.project(v), atol=1e-8 * np.abs(v).max())
    np.testing.assert_allclose(d.leverage, post.node_variance() / problem.s, atol=1e-9)
    assert d.dof == problem.tree.n_internal


def test_long_paths_are_shortened_to_whole_labels():
    long = "Transportation and storage"
    columns = {"a": [long] * 4 + ["o"], "b": [*"xxyy", "z"], "c": ["left", "right"] * 2 + ["all"]}
    tree = gm.Tree.from_levels(columns, levels=["a", "b", "c"])
    rng = np.random.default_rng(0)
    text = str(gm.Consistency(tree).diagnose(rng.normal(size=tree.n)))
    assert "... / x / any of 2 " in text
    assert max(map(len, text.splitlines())) <= 80


def test_nodes_without_a_label_are_named_by_their_number():
    tree = gm.Tree.from_newick("((cat,lion),(dog,wolf)canine);")
    post = gm.Consistency(tree)
    told = str(post.diagnose([30.0, 20.0, 5.0, 5.0, 10.0, 5.0, 5.0]))
    assert "\n  (1) " in told
    assert "(1) / any of 2" in told
    with pytest.raises(ValueError, match=r"node 2, '\(0\) / \(1\) / cat'"):
        post.project(np.ones(7), lower=1, upper=0)
