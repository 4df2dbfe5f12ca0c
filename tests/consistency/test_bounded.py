"""Optima with bounded leaves: against dense solvers, for all variances, bounds and inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import bounded as slow
from reference.bounded import KINDS, Problem, noisy_counts, random_problem, random_problems
from reference.consistency import per_node
from trees import all_parents, large_shapes, named_shapes, renumber

import gmtree as gm
from gmtree import _sweep

SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(4)


def solve(problem: Problem) -> tuple[np.ndarray, gm.consistency.ProjectionInfo]:
    return problem.solve(return_info=True)


def inconsistency(tree: gm.Tree, x: np.ndarray) -> float:
    """Largest difference between a parent and the sum of its children."""
    return float(np.abs(gm.ConstraintMatrix(tree).T @ x).max(initial=0))


# --------------------------------------------------------------------------- against dense solvers


@pytest.mark.parametrize("seed", range(10))
def test_nnls_on_a_thousand_weighted_trees(seed):
    """A hundred trees of up to 80 nodes for each of ten seeds."""
    for k, problem in enumerate(random_problems(100, seed, max_n=80, kind="wide")):
        x, info = solve(problem)
        expected = slow.by_nnls(problem)
        assert np.abs(x - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max()), k
        assert info.violation <= 1e-12 * problem.scale, k


@pytest.mark.parametrize("kind", KINDS)
def test_active_set(kind):
    for problem in random_problems(100, 1, kind=kind):
        x, info = solve(problem)
        expected = slow.active_set(problem)
        # If nodes are undetermined, there are several optima, which agree at all measured nodes.
        measured = np.isfinite(problem.s)
        assert np.abs(x - expected)[measured].max() <= 1e-9 * problem.scale
        best = slow.objective(problem, expected)
        assert slow.objective(problem, x) <= best + 1e-11 * max(1, best)
        assert slow.optimality_gap(problem, x) <= 1e-10 * problem.scale
        assert info.violation <= 1e-12 * problem.scale


@pytest.mark.parametrize("kind", KINDS)
def test_brute_force(kind):
    for problem in random_problems(40, 2, kind=kind, max_n=9):
        x, best = problem.solve(), slow.brute_force(problem)
        least = slow.objective(problem, best)
        assert slow.objective(problem, x) == pytest.approx(least, abs=1e-11 * max(1, least))


@pytest.mark.parametrize("n", range(2, 6))
def test_all_small_trees(n):
    rng = np.random.default_rng(n)
    for ordered in all_parents(n):
        parent = renumber(ordered, rng.permutation(n))
        m = gm.Tree.from_parents(parent).n_leaves
        for s in (np.ones(n), rng.uniform(0.1, 10, n)):
            problem = Problem(parent, rng.normal(0, 3, n), s, np.zeros(m))
            np.testing.assert_allclose(problem.solve(), slow.brute_force(problem), atol=1e-12)


@given(SEEDS, st.sampled_from(KINDS))
def test_conditions_of_optimality(seed, kind):
    problem = random_problem(np.random.default_rng(seed), kind=kind)
    x, info = solve(problem)
    tree, leaves = problem.tree, problem.tree.leaves
    assert slow.optimality_gap(problem, x) <= 1e-10 * problem.scale
    assert info.violation <= 1e-12 * problem.scale
    assert inconsistency(tree, x) <= 1e-13 * problem.scale * tree.n
    assert np.all(x[leaves] >= problem.lower)
    np.testing.assert_array_equal(x[problem.s == 0], problem.v[problem.s == 0])
    assert info.at_bound == np.count_nonzero(x[leaves] == problem.lower)


@given(SEEDS, st.sampled_from(KINDS))
def test_nothing_feasible_is_better(seed, kind):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, kind=kind)
    tree, x = problem.tree, problem.solve()
    least = slow.objective(problem, x)
    tolerance = 1e-10 * max(1.0, least)
    low = np.where(np.isfinite(problem.lower), problem.lower, -10.0)
    candidates = [np.maximum(rng.normal(0, 3, tree.n_leaves), low) for _ in range(5)]
    candidates.append(np.maximum(tree.leaf_values(problem.solver.project(problem.v)), low))
    for leaf_values in candidates:
        # All points between two feasible ones are feasible, except for exactly known values.
        if not np.any(problem.s == 0):
            step = tree.aggregate(leaf_values) - x
            for length in (1e-3, 0.1, 1.0):
                assert slow.objective(problem, x + length * step) >= least - tolerance


# --------------------------------------------------------------------------- simple shapes


def test_single_node():
    tree = gm.shapes.chain(1)
    post = gm.Consistency(tree)
    assert post.project([-3.0], nonnegative=True) == [0]
    assert post.project([3.0], nonnegative=True) == [3]
    assert post.project([3.0], lower=5) == [5]
    assert post.project([3.0], lower=-np.inf) == [3]
    _, info = post.project([-3.0], nonnegative=True, return_info=True)
    assert (info.passes, info.at_bound, info.violation) == (1, 1, 0)
    assert gm.Consistency(tree, 0).project([3.0], nonnegative=True) == [3]
    with pytest.raises(ValueError, match="node 0 is known exactly to be -3"):
        gm.Consistency(tree, 0).project([-3.0], nonnegative=True)


def test_chain_is_the_mean_or_the_bound():
    rng = np.random.default_rng(0)
    tree = gm.Tree.from_parents(renumber(gm.shapes.chain(50).parent, rng.permutation(50)))
    v = rng.standard_normal(50)
    s = rng.uniform(0.1, 10, 50)
    mean = np.average(v, weights=1 / s)
    post = gm.Consistency(tree, per_node(s))
    np.testing.assert_allclose(post.project(v, lower=mean - 1), mean, rtol=1e-13)
    np.testing.assert_array_equal(post.project(v, lower=mean + 1), mean + 1)


def test_star_by_sorting():
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 400):
        for spread in (0, 3, 12):
            v = rng.normal(0, 1, n) * 10 ** rng.uniform(-spread, spread, n)
            s = 10 ** rng.uniform(-spread, spread, n)
            x = gm.reconcile(gm.shapes.star(n), v, s, nonnegative=True)
            expected = slow.simplex_star(v, s)
            assert np.abs(x - expected).max() <= 1e-14 * n * np.abs(v).max()


def test_nothing_to_hold():
    """If the plain projection is within the bounds, it is the result, after one pass."""
    rng = np.random.default_rng(0)
    for tree in named_shapes(200).values():
        v = tree.aggregate(rng.uniform(50, 100, tree.n_leaves)) + rng.normal(0, 1, tree.n)
        for s in (None, rng.uniform(0.5, 2, tree.n)):
            post = gm.Consistency(tree, per_node(s))
            x, info = post.project(v, nonnegative=True, return_info=True)
            np.testing.assert_allclose(x, post.project(v), rtol=1e-13)
            assert (info.passes, info.at_bound) == (1, 0)


def test_everything_held():
    for tree in named_shapes(200).values():
        x, info = gm.Consistency(tree).project(
            np.full(tree.n, -1.0), nonnegative=True, return_info=True
        )
        np.testing.assert_array_equal(x, 0)
        assert not np.any(np.signbit(x))
        assert info.at_bound == tree.n_leaves
        assert info.violation == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_named_shapes(weighted):
    rng = np.random.default_rng(3)
    for tree in named_shapes(60).values():
        s = rng.uniform(0.1, 10, tree.n) if weighted else np.ones(tree.n)
        lower = np.zeros(tree.n_leaves)
        problem = Problem(tree.parent.astype(int), noisy_counts(tree, rng), s, lower)
        x = gm.reconcile(tree, problem.v, per_node(s) if weighted else None, nonnegative=True)
        np.testing.assert_allclose(x, slow.by_nnls(problem), atol=1e-10)


@given(SEEDS, SEEDS, st.sampled_from(("equal", "weighted", "known", "any")))
def test_numbering_does_not_matter(seed, other, kind):
    problem = random_problem(np.random.default_rng(seed), kind=kind)
    number = np.random.default_rng(other).permutation(problem.v.size)
    x, y = problem.solve(), problem.numbered(number).solve()
    np.testing.assert_allclose(y[number], x, rtol=0, atol=1e-12 * problem.scale)


def test_projecting_again_changes_nothing():
    for kind in KINDS:
        for problem in random_problems(20, 5, kind=kind):
            x = problem.solve()
            again = Problem(problem.parent, x, problem.s, problem.lower).solve()
            np.testing.assert_allclose(again, x, rtol=0, atol=1e-12 * problem.scale)


def test_units_do_not_matter():
    """Scaling by powers of two changes no digit, however large or small the numbers become."""
    rng = np.random.default_rng(6)
    for tree in named_shapes(100).values():
        v, s = noisy_counts(tree, rng), rng.uniform(0.1, 10, tree.n)
        x = gm.reconcile(tree, v, per_node(s), nonnegative=True)
        for unit in (2.0**-400, 2.0**400):
            scaled = gm.reconcile(tree, v * unit, per_node(s), nonnegative=True)
            np.testing.assert_array_equal(scaled, x * unit)
        finer = gm.reconcile(tree, v, per_node(s * 2.0**50), nonnegative=True)
        np.testing.assert_array_equal(finer, x)


# --------------------------------------------------------------------------- known exactly


def test_known_values_are_kept():
    tree = gm.shapes.complete(2, 3)
    v = np.array([10.0, 7.0, -5.0, 3.0, 3.0, 1.0, -8.0])
    x = gm.reconcile(tree, v, [0, 1, 1, 0, 1, 1, 1], nonnegative=True)
    assert x[0] == 10
    assert x[3] == 3
    np.testing.assert_allclose(x, [10, 9.25, 0.75, 3, 6.25, 0.75, 0], atol=1e-14)


def test_a_known_zero_leaves_nothing_below():
    """The optimum is zero everywhere, whatever the measurements of the leaves."""
    rng = np.random.default_rng(8)
    for tree in named_shapes(100).values():
        v = rng.normal(0, 3, tree.n)
        v[tree.root] = 0
        s = rng.uniform(0.1, 10, tree.n)
        s[tree.root] = 0
        post = gm.Consistency(tree, per_node(s))
        x, info = post.project(v, nonnegative=True, return_info=True)
        np.testing.assert_allclose(x, 0, atol=1e-14)
        assert np.all(x >= 0)
        assert info.violation <= 1e-13


def test_leaves_below_a_known_node_deep_down():
    """Nodes above a known one cannot share a difference, but nodes below it may."""
    tree = gm.Tree.from_parents([-1, 0, 1, 2, 3, 3])
    x = gm.reconcile(tree, [9.0, 9, 9, 2, 5, -1], [1, 1, 1, 0, 1, 1], nonnegative=True)
    np.testing.assert_allclose(x, [2, 2, 2, 2, 2, 0], atol=1e-14)


# --------------------------------------------------------------------------- not measured


def test_one_unmeasured_leaf_takes_what_is_left():
    v = [10.0, 3.0, 4.0, np.nan]
    x = gm.reconcile(STAR, v, [1, 1, 1, np.inf], nonnegative=True)
    np.testing.assert_allclose(x, [10, 3, 4, 3])
    # Nothing is left for it: it stays at zero, and its siblings share the difference.
    x = gm.reconcile(STAR, [4.0, 3, 4, np.nan], [1, 1, 1, np.inf], nonnegative=True)
    np.testing.assert_allclose(x, [5, 2, 3, 0], atol=1e-14)


def test_undetermined_siblings_share_evenly():
    s = [1, 1, np.inf, np.inf]
    x = gm.reconcile(STAR, [10.0, 4, 0, 0], s, nonnegative=True)
    np.testing.assert_allclose(x, [10, 4, 3, 3])
    x = gm.reconcile(STAR, [10.0, -4, 0, 0], s, nonnegative=True)
    np.testing.assert_allclose(x, [10, 0, 5, 5])
    x = gm.reconcile(STAR, [2.0, 4, 0, 0], s, nonnegative=True)
    np.testing.assert_allclose(x, [3, 3, 0, 0], atol=1e-14)
    # The difference is shared as evenly as the bounds allow.
    x = gm.reconcile(STAR, [10.0, 4, 0, 0], s, lower=[0, 5, -np.inf])
    np.testing.assert_allclose(x, [10, 4, 5, 1])
    x = gm.reconcile(STAR, [2.0, 4, 0, 0], s, lower=[0, 0, -np.inf])
    np.testing.assert_allclose(x, [2, 4, 0, -2])


def test_undetermined_inner_nodes():
    """Node 1, one of its leaves, and the other child of the root are not measured."""
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    s = [1, np.inf, np.inf, 1, np.inf]
    x = gm.reconcile(tree, [10.0, 0, 0, 4, 0], s, nonnegative=True)
    np.testing.assert_allclose(x, [10, 7, 3, 4, 3])
    x = gm.reconcile(tree, [2.0, 0, 0, 4, 0], s, nonnegative=True)
    np.testing.assert_allclose(x, [3, 3, 0, 3, 0], atol=1e-14)


def test_unmeasured_inner_nodes_do_not_count():
    """A tree whose inner nodes are not measured is equivalent to a star."""
    rng = np.random.default_rng(9)
    for tree in named_shapes(80).values():
        s = np.where(tree.child_count > 0, np.inf, rng.uniform(0.1, 10, tree.n))
        s[tree.root] = 2.0
        v = rng.normal(0, 3, tree.n)
        x = gm.reconcile(tree, v, per_node(s), nonnegative=True)
        pick = [tree.root, *tree.leaves] if tree.n_leaves > 1 else [tree.root]
        if tree.n_leaves > 1:
            expected = slow.simplex_star(v[pick], s[pick])
            np.testing.assert_allclose(x[pick], expected, atol=1e-13)


def test_all_leaves_unmeasured():
    tree = gm.shapes.complete(2, 3)
    s = np.array([1, 1, 1] + [np.inf] * 4)
    x = gm.reconcile(tree, [6.0, 8, -4, 0, 0, 0, 0], s, nonnegative=True)
    np.testing.assert_allclose(x, [7, 7, 0, 3.5, 3.5, 0, 0], atol=1e-14)


# --------------------------------------------------------------------------- bounds


def test_zero_is_the_bound_of_nonnegative():
    rng = np.random.default_rng(10)
    tree = gm.shapes.grouped(50, rng=1)
    post, v = gm.Consistency(tree), noisy_counts(tree, rng)
    x = post.project(v, nonnegative=True)
    for lower in (0, 0.0, np.float32(0), np.zeros(50), np.zeros(50, np.int8), [0] * 50):
        np.testing.assert_array_equal(post.project(v, lower=lower), x)
    np.testing.assert_array_equal(post.project(v, nonnegative=True, lower=-5), x)
    np.testing.assert_array_equal(post.project(v, nonnegative=True, lower=-np.inf), x)


def test_no_bounds_are_the_plain_projection():
    rng = np.random.default_rng(11)
    for tree in named_shapes(100).values():
        s, v = rng.uniform(0.1, 10, tree.n), rng.normal(0, 3, tree.n)
        post = gm.Consistency(tree, per_node(s))
        x, info = post.project(v, lower=-np.inf, return_info=True)
        np.testing.assert_allclose(x, post.project(v), rtol=0, atol=1e-13)
        assert (info.passes, info.at_bound) == (1, 0)


def test_bounds_by_leaf():
    """Bounds are in the order of ``tree.leaves``, in any numbering."""
    tree = gm.Tree.from_parents([1, -1, 0, 0, 1])
    np.testing.assert_array_equal(tree.leaves, [2, 3, 4])
    x = gm.reconcile(tree, [0.0, 0, 0, 0, 0], lower=[1, -np.inf, 5])
    assert x[2] == 1
    assert x[4] == 5
    assert x[3] < 0


def test_shifted_bounds_are_shifted_values():
    for problem in random_problems(50, 12, kind="weighted"):
        tree = problem.tree
        shift = tree.aggregate(problem.lower)
        x = problem.solver.project(problem.v - shift, nonnegative=True)
        np.testing.assert_allclose(problem.solve(), x + shift, atol=1e-12 * problem.scale)


def test_bounds_far_away_cost_no_precision():
    """A huge bound that is never reached changes nothing."""
    rng = np.random.default_rng(13)
    for tree in named_shapes(100).values():
        v = noisy_counts(tree, rng)
        x = gm.reconcile(tree, v)
        for lower in (-1e12, -1e300):
            np.testing.assert_allclose(gm.reconcile(tree, v, lower=lower), x, atol=1e-11)
        some = np.zeros(tree.n_leaves)
        some[::2] = -1e15
        none = np.where(some < 0, -np.inf, 0)
        far, without = (gm.reconcile(tree, v, lower=a) for a in (some, none))
        np.testing.assert_array_equal(far, without)


def test_leaves_are_never_below_their_bounds():
    rng = np.random.default_rng(14)
    for tree in named_shapes(300).values():
        lower = rng.normal(0, 1, tree.n_leaves) / 3
        x = gm.reconcile(tree, rng.normal(0, 1, tree.n), lower=lower)
        assert np.all(x[tree.leaves] >= lower)
        assert np.any(x[tree.leaves] == lower)


@pytest.mark.parametrize("tree", named_shapes(300).values(), ids=named_shapes(300))
def test_no_node_is_below_zero(tree):
    """Sums of huge numbers that nearly cancel could be, if they were left as rounded."""
    rng = np.random.default_rng(15)
    for _ in range(20):
        v = rng.normal(0, 1, tree.n) * 10 ** rng.uniform(-8, 8, tree.n)
        s = 10 ** rng.uniform(-8, 8, tree.n)
        for lower in (None, rng.uniform(0, 1e-8, tree.n_leaves)):
            x = gm.reconcile(tree, v, per_node(s), nonnegative=True, lower=lower)
            assert np.all(x >= 0)


@pytest.mark.parametrize(
    ("lower", "error", "message"),
    [
        (
            np.zeros(2),
            ValueError,
            r"'lower' must be one number, one per leaf \(3\).*not have shape \(2,\)",
        ),
        (np.zeros((3, 1)), ValueError, r"'lower' must be one number, one per leaf"),
        ([0, np.nan, 0], ValueError, r"'lower' must be below infinity; node 2 has nan"),
        ([0, 0, np.inf], ValueError, r"'lower' must be below infinity; node 3 has inf"),
        (np.inf, ValueError, "'lower' must be below infinity, not inf"),
        (["a", "b", "c"], TypeError, "'lower' must hold real numbers, not dtype"),
        (True, TypeError, "'lower' must hold real numbers, not dtype bool"),
        ([[0], [0, 1], [0]], ValueError, "'lower' must be an array"),
    ],
)
def test_bad_bounds(lower, error, message):
    with pytest.raises(error, match=message):
        gm.reconcile(STAR, np.zeros(4), lower=lower)


# --------------------------------------------------------------------------- infeasible


CHAIN_AND_LEAF = gm.Tree.from_parents([3, 3, -1, 2, 2])  # node 3 has leaves 0 and 1


@pytest.mark.parametrize(
    ("v", "known", "lower", "node"),
    [
        pytest.param([1.0, 1, -5, 1, 1], [2], 0, 2, id="negative root"),
        pytest.param([-1.0, 1, 1, 1, 1], [0], 0, 0, id="negative leaf"),
        pytest.param([1.0, 1, 9, -1e-30, 1], [3], 0, 3, id="hardly negative"),
        pytest.param([1.0, 1, 9, 4, 1], [3], [2, 3, 0], 3, id="below the sum of bounds"),
        pytest.param([1.0, 1, 3, 4, 1], [2, 3], 0, 2, id="below a known child"),
        pytest.param([1.0, 1, 6, 5, 1], [2, 3], [0, 0, 2], 2, id="known child and a bound"),
        pytest.param([5.0, 1, 9, 4, 1], [0, 3], [0, -np.inf, 0], None, id="room below"),
        pytest.param([5.0, 1, 9, 4, 1], [0, 3], [0, -0.5, 0], 3, id="little room below"),
        pytest.param([1.0, 1, 1, 9, 9], [2, 4], [-np.inf, 0, 0], None, id="no bound"),
    ],
)
def test_infeasible(v, known, lower, node):
    s = np.ones(5)
    s[known] = 0
    post = gm.Consistency(CHAIN_AND_LEAF, s)
    if node is None:
        x = post.project(v, lower=lower)
        assert inconsistency(CHAIN_AND_LEAF, x) < 1e-12
        return
    out = np.full(5, 7.0)
    with pytest.raises(ValueError, match=rf"'noisy' must leave room .*; node {node} is known"):
        post.project(v, lower=lower, out=out)
    np.testing.assert_array_equal(out, 7)
    if np.all(np.asarray(lower) == 0):
        with pytest.raises(ValueError, match=f"node {node} is known exactly"):
            post.project(v, nonnegative=True)


def test_whole_bounds_are_compared_exactly():
    s = [0, 1, 1, 1]
    post = gm.Consistency(STAR, s)
    bounds = [5e11, 5e11, 0]
    post.project([1e12, 0, 0, 0], lower=bounds)
    for total in (1e12 - 1, 1e12 - 5):
        with pytest.raises(ValueError, match=rf"node 0 is known exactly to be {total:.0f}, less"):
            post.project([total, 0, 0, 0], lower=bounds)
    # Known values count as bounds do; one fraction among them, or too large a sum, and sums may
    # have been rounded.
    known = gm.Consistency(STAR, [0, 0, 1, 1])
    with pytest.raises(ValueError, match="node 0 is known"):
        known.project([1e12 - 1, 5e11, 0, 0], lower=[0, 5e11, 0])
    known.project([1e12 - 1, 5e11 + 0.25, 0, 0], lower=[0, 5e11, 0])
    post.project([1e12 - 5.5, 0, 0, 0], lower=bounds)
    post.project([1e12 - 5, 0, 0, 0], lower=[5e11, 5e11 - 0.25, 0.25])
    post.project([2.0**54 - 4, 0, 0, 0], lower=[2.0**53, 2.0**53, 0])
    # An infinite bound is not a fraction, and allows any value.
    post.project([1e12 - 5, 0, 0, 0], lower=[5e11, 5e11, -np.inf])


def test_infeasible_beyond_what_sums_can_hold():
    with pytest.raises(ValueError, match=r"node 0 is known exactly to be 1e.308, less than"):
        gm.reconcile(STAR, [1e308, 0, 0, 0], [0, 1, 1, 1], lower=1e308)


def test_the_largest_numbers():
    """Differences and intermediate sums overflow, but the optimum does not."""
    v = [-1.7e308, 0.75e308, 0.75e308]
    x, info = gm.Consistency(gm.shapes.star(3), [0, 1, 1]).project(
        v, lower=-1e308, return_info=True
    )
    np.testing.assert_allclose(x, [-1.7e308, -0.85e308, -0.85e308], rtol=1e-15)
    assert info.at_bound == 0
    rng = np.random.default_rng(33)
    for tree in named_shapes(100).values():
        v, s = noisy_counts(tree, rng), 10 ** rng.uniform(-8, 8, tree.n)
        post = gm.Consistency(tree, per_node(s))
        unit = 2.0 ** (1010 - int(np.log2(abs(v).sum())))
        x = post.project(v, lower=-1)
        np.testing.assert_array_equal(post.project(v * unit, lower=-unit), x * unit)


def test_infeasible_in_the_last_column():
    s = [0, 1, 1, 1]
    v = np.array([[4.0, 4, -4], [1, 1, 1], [1, 1, 1], [1, 1, 1]])
    out = np.full((4, 3), 7.0)
    with pytest.raises(ValueError, match="node 0 is known exactly to be -4"):
        gm.Consistency(STAR, s).project(v, nonnegative=True, out=out)
    np.testing.assert_array_equal(out, 7)


def test_contradictions_are_refused_first():
    out = np.full(4, 7.0)
    with pytest.raises(ValueError, match=r"node 0 is 4.0 but its children add up to 3.0"):
        gm.Consistency(STAR, 0).project([4.0, 1, 1, 1], nonnegative=True, out=out)
    np.testing.assert_array_equal(out, 7)


def test_bounds_that_add_up_but_for_rounding():
    """In floating point 0.1 + 0.2 + 0.3 is not 0.6, but a total of 0.6 is accepted."""
    lower = [0.1, 0.2, 0.3]
    assert lower[0] + lower[1] + lower[2] > 0.6
    x, info = gm.Consistency(STAR, [0, 1, 1, 1]).project(
        [0.6, 5, 5, 5], lower=lower, return_info=True
    )
    assert x[0] == 0.6
    np.testing.assert_allclose(x[1:], lower, rtol=1e-15)
    assert info.violation <= 1e-15
    # Summands that cancel in the sum count, too.
    lower = [1e9, -1e9, 0.1]
    x = gm.reconcile(STAR, [sum(lower) - 1e-8, 0, 0, 0], [0, 1, 1, 1], lower=lower)
    np.testing.assert_allclose(x[1:], lower, rtol=1e-15)
    with pytest.raises(ValueError, match="node 0 is known exactly to be 0, "):
        gm.reconcile(STAR, [sum(lower) - 1e-1, 0, 0, 0], [0, 1, 1, 1], lower=lower)


def test_known_sums_in_float32():
    """A sum rounded to float32 may be below the sum of its parts."""
    v = np.array([0, 3e6, 0.3, 0.3], np.float32)
    v[0] = np.float32(3e6 + 0.5)
    x = gm.reconcile(STAR, v, [0, 0, 0, 1], nonnegative=True)
    np.testing.assert_array_equal(x[:3], v[:3])
    v[0] = np.float32(3e6)  # 0.3 less than its first two children
    x = gm.reconcile(STAR, v, [0, 0, 0, 1], nonnegative=True)
    assert x[3] == 0


# --------------------------------------------------------------------------- forms of input


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_are_done_one_by_one(kind, dtype):
    rng = np.random.default_rng(20)
    for problem in random_problems(10, 21, kind=kind):
        post = problem.solver
        noise = rng.normal(0, 3, (problem.v.size, 3))
        noise[problem.s == 0] = 0
        v = (problem.v[:, None] + noise).astype(dtype)
        if kind in ("known", "any"):
            # Known sums must remain sums in float32.
            v = np.round(v * 4) / 4
            v[problem.s == 0] = problem.v[problem.s == 0, None]
        x, info = post.project(v, lower=problem.lower, return_info=True)
        assert x.dtype == dtype
        each = [
            post.project(np.ascontiguousarray(column), lower=problem.lower, return_info=True)
            for column in v.T
        ]
        np.testing.assert_array_equal(x, np.stack([a for a, _ in each], axis=1))
        assert info == tuple(max(part) for part in zip(*(b for _, b in each), strict=True))


def test_no_columns():
    x, info = gm.Consistency(STAR).project(np.ones((4, 0)), nonnegative=True, return_info=True)
    assert x.shape == (4, 0)
    assert info == (0, 0, 0)


def test_float32_stays_and_is_as_good_as_it_can_be():
    rng = np.random.default_rng(22)
    for tree in named_shapes(300).values():
        v = noisy_counts(tree, rng).astype(np.float32)
        x, info = gm.Consistency(tree).project(v, nonnegative=True, return_info=True)
        assert x.dtype == np.float32
        assert np.all(x >= 0)
        exact = gm.reconcile(tree, v.astype(float), nonnegative=True)
        np.testing.assert_array_equal(x, exact.astype(np.float32))
        assert info.violation <= 1e-5 * abs(v).max()


def test_bounds_that_float32_cannot_hold():
    """Held leaves are at their bounds rounded to float32, and count as held."""
    x, info = gm.Consistency(STAR).project(
        np.zeros(4, np.float32), lower=[0.7, 0.3, -1e300], return_info=True
    )
    np.testing.assert_array_equal(x[1:3], np.array([0.7, 0.3], np.float32))
    assert info.at_bound == 2
    assert info.violation <= 1e-6


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_out(shape, dtype):
    rng = np.random.default_rng(23)
    tree = gm.shapes.grouped(40, rng=1)
    post = gm.Consistency(tree)
    v = rng.normal(0, 3, (tree.n, *shape)).astype(dtype)
    kept = v.copy()
    expected = post.project(v, nonnegative=True)
    out = np.full_like(v, np.nan)
    assert post.project(v, nonnegative=True, out=out) is out
    np.testing.assert_array_equal(out, expected)
    strided = np.full((2 * tree.n, *shape), np.nan, dtype)[::2]
    assert post.project(v, nonnegative=True, out=strided) is strided
    np.testing.assert_array_equal(strided, expected)
    np.testing.assert_array_equal(v, kept)
    x, info = post.project(v, nonnegative=True, out=v, return_info=True)
    assert x is v
    np.testing.assert_array_equal(v, expected)
    assert info.violation <= 1e-5
    with pytest.raises(ValueError, match="'out' must have shape"):
        post.project(kept, nonnegative=True, out=np.empty(3))


def test_integers_lists_and_inputs_that_are_read_only():
    v = np.array([4, -1, 2, 3])
    v.flags.writeable = False
    s, lower = np.ones(4), np.zeros(3)
    for a in (s, lower):
        a.flags.writeable = False
    expected = gm.reconcile(STAR, v.astype(float), nonnegative=True)
    for noisy in (v, v.tolist(), v.astype(np.int8)):
        np.testing.assert_array_equal(gm.reconcile(STAR, noisy, nonnegative=True), expected)
    np.testing.assert_allclose(gm.reconcile(STAR, v, s, lower=lower), expected, rtol=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite(bad):
    out = np.full(4, 7.0)
    with pytest.raises(ValueError, match="'noisy' must be finite; node 2 is"):
        gm.reconcile(STAR, [1.0, 2, bad, 3], nonnegative=True, out=out)
    np.testing.assert_array_equal(out, 7)


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_do_not_change_a_bit(monkeypatch, weighted):
    monkeypatch.setattr(_sweep, "SMALLEST_SHARED_LEVEL", 4)
    monkeypatch.setattr(_sweep, "BLOCKS", 4)
    monkeypatch.setattr(_sweep, "SMALLEST_BLOCK", 1)
    rng = np.random.default_rng(24)
    for shape in named_shapes(2000).values():
        tree = gm.Tree.from_parents(shape.parent)
        s = rng.choice([0.5, 1.0, 4.0, np.inf], tree.n) if weighted else None
        if s is not None:
            s[tree.root] = 1.0
        v = noisy_counts(tree, rng)
        first, *others = (
            gm.Consistency(tree, per_node(s), threads).project(
                v, nonnegative=True, return_info=True
            )
            for threads in (1, 2, 3, 7)
        )
        for x, info in others:
            assert x.tobytes() == first[0].tobytes()
            assert info == first[1]


# --------------------------------------------------------------------------- large trees


@pytest.mark.parametrize("variance", [None, [1.0, 2.0, 3.0, 1.0]])
def test_the_smallest_positive_values_are_not_held(variance):
    """One leaf is held. Among the remaining ones, a very small one keeps its share."""
    post = gm.Consistency(gm.shapes.star(4), variance)
    rest = gm.Consistency(gm.shapes.star(3), None if variance is None else variance[:3])
    for tiny in (5e-8, 5e-12):
        x = post.project([1.0, 1.0, tiny, -tiny], nonnegative=True)
        assert x[3] == 0
        np.testing.assert_allclose(x[:3], rest.project([1.0, 1.0, tiny]), rtol=1e-3)
        assert x[2] > 0


@pytest.mark.large
@pytest.mark.parametrize("variance", ["equal", "weighted", "wide", "known"])
@pytest.mark.parametrize("name", named_shapes(3))
def test_large_trees(name, variance):
    tree = large_shapes()[name]
    rng = np.random.default_rng(32)
    counts = np.where(rng.random(tree.n_leaves) < 0.4, 0, rng.geometric(0.02, tree.n_leaves))
    true = tree.aggregate(counts)
    s = {
        "equal": None,
        "weighted": rng.uniform(0.1, 10, tree.n),
        "wide": 10 ** rng.uniform(-6, 6, tree.n),
        "known": rng.choice([0, 1.0, np.inf], tree.n, p=[0.1, 0.6, 0.3]),
    }[variance]
    noise = rng.laplace(0, 8, tree.n)
    if s is not None:
        s[tree.root] = 1.0
        noise[s == 0] = 0
    v = true + noise
    post = gm.Consistency(tree, per_node(s))
    x, info = post.project(v, nonnegative=True, return_info=True)
    scale = abs(v).max()
    assert info.violation <= 1e-9 * scale
    assert info.passes <= 64
    assert np.all(x >= 0)
    assert inconsistency(tree, x) <= 1e-11 * scale
    assert info.at_bound == np.count_nonzero(x[tree.leaves] == 0)
    if s is not None:
        np.testing.assert_array_equal(x[s == 0], v[s == 0])
