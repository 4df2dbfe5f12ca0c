"""Errors before a release, and shares of the budget that minimise them."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from limited import at_most
from trees import trees

import gmtree as gm
from gmtree import privacy
from gmtree.privacy import allocate, testing
from gmtree.privacy.accounting.worst_case import worst_case
from gmtree.privacy.noise import words as random_words
from gmtree.privacy.noise.laplace import LAPLACE
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.privacy.planning import optimal, ranges
from gmtree.privacy.publishing.cumulants import measurement_cumulants, solver_of_counts

SEEDS = st.integers(0, 2**32 - 1)
CENSUS = gm.datasets.census2010(nodes=5_000).tree


def some_exact(tree: gm.Tree, rng: np.random.Generator) -> np.ndarray | None:
    return None if rng.random() < 0.5 else rng.random(tree.n) < 0.2


# --------------------------------------------------------------------------- classes of alike nodes


@given(trees(30), SEEDS)
def test_error_is_the_sum_of_node_variances(tree, seed):
    rng = np.random.default_rng(seed)
    exact, s, weight = some_exact(tree, rng), np.exp(rng.normal(size=tree.height)), rng.random()
    classes = optimal.Classes.of(tree, exact)
    level_weight = rng.random(tree.height)
    by_class = level_weight[classes.level] + weight * classes.leaf
    variance = s[tree.depth - 1]
    if exact is not None:
        variance[exact] = 0
    by_node = level_weight[tree.depth - 1] + weight * (tree.child_count == 0)
    expected = by_node @ gm.Consistency(tree, {"node": variance}).node_variance()
    assert classes.error(by_class, s)[0] == pytest.approx(expected, rel=1e-10)


@given(trees(30), SEEDS)
def test_gradient(tree, seed):
    rng = np.random.default_rng(seed)
    classes = optimal.Classes.of(tree, some_exact(tree, rng))
    s, weight = np.exp(rng.normal(size=tree.height)), rng.random(tree.height)[classes.level]
    _, gradient = classes.error(weight, s)
    for d in range(tree.height):
        step = np.zeros(tree.height)
        step[d] = 1e-5 * s[d]
        up, down = (classes.error(weight, s + x)[0] for x in (step, -step))
        assert gradient[d] == pytest.approx((up - down) / (2 * step[d]), rel=1e-6, abs=1e-7)


@given(trees(30), SEEDS, st.sampled_from(["add_remove", "change_one"]))
def test_worst_path_is_that_of_the_ledger(tree, seed, neighbors):
    rng = np.random.default_rng(seed)
    exact = some_exact(tree, rng)
    loss = rng.integers(0, 10, tree.height)
    classes, none = optimal.Classes.of(tree, exact), np.zeros(0)
    problem = optimal.Problem(classes, none, None, neighbors, 1.0, False, np.ones(1, int))
    worst, count = problem.worst(loss.astype(float))
    assert worst == worst_case(tree, [Fraction(int(x)) for x in loss], neighbors, exact)
    assert worst == count @ loss


def test_alike_nodes_are_one_class():
    assert optimal.Classes.of(gm.shapes.complete(3, 6), None).size == 6
    exact = np.zeros(13, bool)
    exact[[4, 7]] = True
    # A root; two parents with an exact child, one without; leaves exact and not.
    classes = optimal.Classes.of(gm.shapes.complete(3, 3), exact)
    assert (classes.size, classes.exact.sum()) == (5, 1)
    uneven = gm.Tree.from_parents([-1, 0, 0, 1])
    assert optimal.Classes.of(uneven, None).size == 4


@pytest.mark.parametrize(
    "variances",
    [
        partial(noise.variances, measure, limit=limit)
        for noise in MECHANISMS.values()
        for measure in noise.measures
        for limit in (False, True)
    ],
)
def test_slopes_of_variances(variances):
    loss = np.array([1e-3, 0.1, 1.0, 5.0])
    _, slope = variances(loss)
    up, down = (np.log(variances(loss * np.exp(x))[0]) for x in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize(
    "variances", [partial(LAPLACE.variances, measure) for measure in LAPLACE.measures]
)
def test_variances_that_no_longer_change_have_no_slope(variances):
    at, above = variances(np.array([1e7])), variances(np.array([1e8]))
    assert at[0] == above[0] > 0
    assert at[1] == above[1] == 0


# --------------------------------------------------------------------------- plans


@given(trees(30), SEEDS)
def test_plan_is_the_error_of_the_release(tree, seed):
    shares = np.random.default_rng(seed).integers(1, 5, tree.height).tolist()
    options = {"epsilon": 1, "shares": shares, "invariants": [tree.root]}
    if tree.n_leaves == 1:
        # A chain below an exact root is exact.
        options.pop("invariants")
    plan = gm.plan(tree, **options)
    std_error = gm.release(tree, np.zeros(tree.n_leaves, int), **options).std_error
    for line in plan.levels:
        own = std_error[tree.depth == line.level]
        assert line.nodes == own.size
        assert line.std_error == pytest.approx(np.sqrt(np.mean(own**2)), abs=1e-12)
    assert plan.ledger == privacy.allocate(tree, **options).ledger
    np.testing.assert_array_equal(plan.std_error, [line.std_error for line in plan.levels])


def test_plan_in_words():
    tree = gm.Tree.from_levels({"a": ["x", "y"], "b": ["p", "q"]}, levels=["a", "b"])
    text = str(gm.plan(tree, rho="1/8", shares=[0, 1, 0]))
    assert text.splitlines() == [
        "Expected error by level, rho = 1/8",
        "  level    nodes  share  noise  std error",
        "  1 total      1      0      -      2.828",
        "  2 a          2      1      2          2",
        "  3 b          2      0      -          2",
    ]
    plan = gm.plan(gm.shapes.star(4), epsilon=1, shares=[1, 0])
    assert plan.std_error[1] == np.inf


def test_plan_draws_nothing(monkeypatch):
    monkeypatch.setattr(random_words, "SYSTEM", None)
    gm.plan(CENSUS, epsilon=1, shares=gm.privacy.optimal_shares(CENSUS, epsilon=1))


# --------------------------------------------------------------------------- optimal shares


OBJECTIVES = {
    "nodes": "nodes",
    "leaves": "leaves",
    "levels": [1] * 8,
    "upper": [8, 7, 6, 5, 4, 3, 2, 1],
}
BUDGETS = {
    "epsilon": {"epsilon": 1},
    "rho": {"rho": "1/2"},
    "laplace for rho": {"rho": "1/2", "mechanism": "discrete_laplace"},
    "change_one": {"epsilon": 1, "neighbors": "change_one"},
    "change_one, rho": {"rho": 1, "neighbors": "change_one", "max_contributions": 3},
    "invariants": {"epsilon": 1, "invariants": [0, privacy.Level(2)]},
}


def weights(tree: gm.Tree, objective) -> np.ndarray:
    """The weight of each node's squared error."""
    if objective == "nodes":
        return np.full(tree.n, 1 / tree.n)
    if objective == "leaves":
        return (tree.child_count == 0) / tree.n_leaves
    return np.array(objective)[tree.depth - 1] / np.bincount(tree.depth)[tree.depth]


def expected(tree: gm.Tree, objective, shares, **options) -> float:
    _, exact, ledger = privacy.allocate(tree, shares=shares, **options)
    variance, _ = measurement_cumulants(tree, ledger, exact)
    post = gm.Consistency(tree, {"node": variance})
    return float(weights(tree, objective) @ post.node_variance())


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS.keys())
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_better_than_equal_shares_on_a_census(objective, budget):
    shares = gm.privacy.optimal_shares(CENSUS, objective=objective, **budget)
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    assert expected(CENSUS, objective, shares, **budget) < 0.99 * expected(
        CENSUS, objective, None, **budget
    )


@pytest.mark.parametrize("objective", ["nodes", "leaves", [1] * 8])
def test_better_than_equal_shares_in_simulation(monkeypatch, objective):
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(1))
    counts = np.zeros(CENSUS.n_leaves, int)
    shares = gm.privacy.optimal_shares(CENSUS, epsilon=1, objective=objective)
    weight = weights(CENSUS, objective)

    def simulated(shares):
        runs = [gm.release(CENSUS, counts, epsilon=1, shares=shares) for _ in range(20)]
        return np.mean([weight @ r.values**2 for r in runs])

    equal, best = simulated(None), simulated(shares)
    assert best < 0.95 * equal
    # The noise is seeded; the scatter of these means is 5 % at most.
    assert best == pytest.approx(expected(CENSUS, objective, shares, epsilon=1), rel=0.2)
    assert equal == pytest.approx(expected(CENSUS, objective, None, epsilon=1), rel=0.2)


GRID = [x for x in product(range(0, 21, 1), repeat=3) if sum(x) == 20 and x[2]]
SMALL = {
    "complete": gm.shapes.complete(4, 3),
    "uneven": gm.Tree.from_parents([-1, 0, 0, 0, 1, 1, 2, 2, 2]),
    "only children": gm.Tree.from_parents([-1, 0, 0, 1, 2]),
}


@pytest.mark.parametrize("tree", SMALL.values(), ids=SMALL.keys())
@pytest.mark.parametrize("budget", [name for name in BUDGETS if name != "invariants"])
@pytest.mark.parametrize("objective", ["nodes", "leaves", [1, 1, 1], [5, 1, 0]])
def test_no_worse_than_any_shares_on_a_grid(tree, budget, objective):
    """All shares in steps of 5 %. Ours have four digits, so they are slightly off the optimum."""
    options = BUDGETS[budget]
    shares = gm.privacy.optimal_shares(tree, objective=objective, **options)
    ours = expected(tree, objective, shares, **options)
    for other in GRID:
        try:
            theirs = expected(tree, objective, other, **options)
        except ValueError:  # some leaf without any measurement above it
            continue
        assert ours <= theirs * 1.001


def test_shares_for_noise_of_any_size():
    """With a budget the discrete noise is taken into account, without one it is large."""
    tree = gm.shapes.complete(5, 4)
    unbounded = gm.privacy.optimal_shares(tree, objective=[1] * 4)
    small = gm.privacy.optimal_shares(tree, epsilon="1/1000", objective=[1] * 4)
    np.testing.assert_allclose(unbounded, small, atol=2e-3)
    options = {"epsilon": 30}
    shares = gm.privacy.optimal_shares(tree, objective="nodes", **options)
    assert expected(tree, "nodes", shares, **options) <= expected(
        tree, "nodes", gm.privacy.optimal_shares(tree), **options
    )


def test_free_root_where_records_move():
    shares = gm.privacy.optimal_shares(gm.shapes.complete(3, 3), epsilon=1, neighbors="change_one")
    assert shares[0] == max(shares)
    # Two deepest leaves that part below the root: other pairs become the worst on the way.
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1, 3, 3, 2])
    options = {"epsilon": 1, "neighbors": "change_one"}
    shares = gm.privacy.optimal_shares(tree, objective="nodes", **options)
    assert expected(tree, "nodes", shares, **options) < expected(tree, "nodes", None, **options)


def test_a_single_node():
    assert gm.privacy.optimal_shares(gm.shapes.chain(1)) == (1.0,)
    assert gm.privacy.optimal_shares(gm.shapes.chain(1), rho=1, neighbors="change_one") == (1.0,)


def test_what_follows_from_invariants_gets_no_share():
    tree = gm.shapes.complete(2, 3)
    shares = gm.privacy.optimal_shares(
        tree, epsilon=1, invariants=[privacy.Level(2)], objective=[1, 1, 1]
    )
    assert shares == (0, 0, 1)
    with pytest.raises(ValueError, match="must leave a level to measure"):
        gm.privacy.optimal_shares(tree, epsilon=1, invariants=[privacy.Level(3)])


@pytest.mark.parametrize("neighbors", ["add_remove", "change_one"])
@pytest.mark.parametrize("objective", ["ranges", "quantiles"])
@pytest.mark.parametrize("fanout", [5, 10])
def test_no_shares_on_a_grid_serve_ranges_better(fanout, objective, neighbors):
    """With Laplace noise there are several local minima, some of them a third above the best."""
    tree, terms = gm.shapes.complete(fanout, 4), {"epsilon": 1, "neighbors": neighbors}
    error = ranges._of_quantiles if objective == "quantiles" else ranges._of_ranges

    def mean_error(shares):
        allocation = allocate(tree, shares=shares, **terms)
        return error(solver_of_counts(tree, allocation.ledger, None))

    ours = mean_error(privacy.optimal_shares(tree, objective=objective, **terms))
    steps = [x for x in product(range(11), repeat=3) if sum(x) <= 9]
    grid = [[*x, 10 - sum(x)] for x in steps]
    assert ours <= 1.001 * min(map(mean_error, grid))


@pytest.mark.parametrize("objective", ["ranges", "quantiles"])
def test_shares_for_ranges_of_few_leaves(objective):
    shares = privacy.optimal_shares(gm.shapes.complete(2, 3), objective=objective)
    assert len(shares) == 3
    assert max(shares) > 0


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"objective": "sums"}, ValueError, "'objective' must be 'nodes', 'leaves', 'ranges'"),
        ({"objective": [1, 2]}, ValueError, r"must have one weight per level \(3\)"),
        ({"objective": [1, -1, 1]}, ValueError, "none negative"),
        ({"objective": [0, 0, 0]}, ValueError, "not all 0"),
        ({"objective": [1, np.inf, 0]}, ValueError, "finite weights"),
        ({"objective": ["a", "b", "c"]}, TypeError, "must hold real numbers"),
        ({"epsilon": 1, "rho": 1}, ValueError, "not both"),
        ({"neighbors": "anyone"}, ValueError, "'neighbors' must be"),
    ],
)
def test_refused(options, error, text):
    with pytest.raises(error, match=text):
        gm.privacy.optimal_shares(gm.shapes.complete(2, 3), **options)


def test_too_many_levels():
    with pytest.raises(ValueError, match="Argument 'tree' must have at most 100 levels, not 101"):
        gm.privacy.optimal_shares(gm.shapes.chain(101))


def test_a_budget_without_bounds_ends_the_search_at_once():
    # Above a certain loss there is almost no noise left, so larger budgets gain nothing.
    tree = gm.shapes.complete(2, 3)
    for budget in ({"epsilon": 2**63}, {"rho": 2**63, "mechanism": "discrete_laplace"}):
        with at_most(30, f"optimal_shares({budget})"):
            assert len(gm.privacy.optimal_shares(tree, **budget)) == 3
