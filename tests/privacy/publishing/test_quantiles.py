"""Cumulative shares and quantiles of ordered leaves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import trees

import gmtree as gm
from gmtree import privacy
from gmtree.queries import random_ranges

EDGES = np.arange(33) * 4.0
TREE = gm.shapes.dyadic(EDGES)
COUNTS = np.random.default_rng(5).poisson(300 * np.exp(-((np.arange(32) - 9) ** 2) / 60))


def test_dyadic_trees():
    for bins in (1, 2, 3, 5, 8, 100):
        tree = gm.shapes.dyadic(np.linspace(-1, 1, bins + 1))
        assert (tree.n_leaves, tree.n) == (bins, 2 * bins - 1)
        assert tree.height == 1 + int(np.ceil(np.log2(bins)))
        np.testing.assert_array_equal(tree.leaves_left_to_right, tree.leaves)
        assert {*tree.child_count.tolist()} <= {0, 2}
        starts = [float(x[1:].split(",")[0]) for x in tree.labels[tree.leaves].tolist()]
        np.testing.assert_allclose(starts, np.linspace(-1, 1, bins + 1)[:-1])
    for wrong in ([1], [1, 1], [2, 1], [0, np.inf], "ab", [[0, 1]], [0, np.nan]):
        with pytest.raises((ValueError, TypeError), match="Argument 'edges' must"):
            gm.shapes.dyadic(wrong)


@settings(max_examples=40, deadline=None)
@given(trees(20), st.data())
def test_shares_and_quantiles_of_nearly_exact_counts(tree, data):
    counts = np.array(
        data.draw(st.lists(st.integers(0, 9), min_size=tree.n_leaves, max_size=tree.n_leaves))
    )
    counts[0] += 1
    r = gm.release(tree, counts, rho=10**4)
    ordered = tree.aggregate(counts)[tree.leaves_left_to_right]
    truth = np.cumsum(ordered) / ordered.sum()
    found = r.cdf()
    np.testing.assert_allclose(found.value, truth, atol=1e-9)
    q = data.draw(st.floats(0, 1))
    edges = np.arange(tree.n_leaves + 1) ** 2.0
    value, low, high = r.quantile(q, edges=edges)
    assert low <= value <= high
    inverted = np.interp(q, np.concatenate([[0], truth]), edges)
    if np.abs(truth - q).min() > 1e-6:
        assert value == pytest.approx(inverted)
        place = int(np.searchsorted(truth, q))
        assert r.quantile(q).value == tree.leaves_left_to_right[place]


def test_intervals_cover():
    truth = np.cumsum(COUNTS) / COUNTS.sum()
    wanted = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    bins = np.searchsorted(truth, wanted)
    for terms in ({"epsilon": "1/2"}, {"rho": "1/200"}):
        inside, of_share, widths = [], [], []
        for _ in range(60):
            r = gm.release(TREE, COUNTS, **terms)
            _, low, high = r.quantile(wanted, edges=EDGES, confidence=0.8)
            inside.append((low <= EDGES[bins]) & (EDGES[bins + 1] <= high))
            value, low, high = r.cdf(0.8)
            assert np.all((low <= value) & (value <= high))
            assert np.all(np.diff(value) >= 0)
            of_share.append((low <= truth + 1e-12) & (truth - 1e-12 <= high))
            widths.append(high - low)
        assert np.mean(inside) > 0.75
        assert np.mean(of_share) > 0.75
        # Intervals must not be [0, 1], which would always cover.
        assert np.mean(widths) < 0.25


def test_forms_of_quantiles():
    r = gm.release(TREE, COUNTS, rho=1)
    one = r.quantile(0.5, edges=EDGES)
    assert isinstance(one.value, float)
    assert one.low in EDGES
    assert one.high in EDGES
    several = r.quantile([0.5, 0.9], edges=EDGES)
    assert several.value.shape == (2,)
    assert several.value[0] == one.value
    leaf = r.quantile(0.5)
    assert EDGES[leaf.value - TREE.leaves[0]] is not None
    assert leaf.value in TREE.leaves
    assert r.quantile(0.5).low <= leaf.value <= r.quantile(0.5).high
    narrow = r.quantile(0.5, edges=EDGES, confidence=0.5)
    assert narrow.high - narrow.low <= one.high - one.low
    whole = gm.release(TREE, COUNTS, rho=1, nonnegative=True, integer=True)
    assert whole.cdf().value[-1] == 1


def test_no_records_at_all():
    r = gm.release(TREE, np.zeros(32, int), rho="1/100")
    share, low, high = r.cdf()
    assert not np.isnan(low).any()
    assert np.all(high - low >= 0)
    assert share.shape == (32,)
    value, low, high = r.quantile(0.5, edges=EDGES)
    assert low <= value <= high


def test_levels_that_are_not_measured():
    r = gm.release(TREE, COUNTS, rho=1, shares=[1, 1, 1, 0, 0, 0])
    _, low, high = r.quantile(0.5, edges=EDGES)
    assert 0 <= low < high <= EDGES[-1]
    assert np.isfinite(r.cdf().value).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"q": 1.5}, "'q' must be numbers from 0 to 1"),
        ({"q": np.nan}, "'q' must be"),
        ({"q": [[0.5]]}, "'q' must be numbers"),
        ({"q": 0.5, "edges": [1, 2]}, "'edges' must have one number more than there are leaves"),
        ({"q": 0.5, "edges": EDGES[::-1]}, "'edges' must be at least two finite numbers that"),
        ({"q": 0.5, "confidence": 1}, "'confidence' must be"),
    ],
)
def test_wrong_arguments(arguments, text):
    r = gm.release(TREE, COUNTS, rho=1)
    with pytest.raises(ValueError, match=text):
        r.quantile(**arguments)


# --------------------------------------------------------------------------- shares for ranges


@pytest.mark.parametrize("terms", [{"epsilon": 1}, {"rho": "1/10"}, {"epsilon": 1, "delta": 1e-9}])
def test_shares_for_ranges_serve_ranges_best(terms):
    tree = gm.shapes.dyadic(range(101))
    ranges = random_ranges(100, 500, 7)

    def error(shares):
        r = gm.release(tree, [5] * 100, shares=shares, **terms)
        return np.mean(r.range_std_error(ranges) ** 2)

    plan = gm.plan(tree, workload="ranges", **terms)
    assert sum(plan.shares) == 1
    by_objective = {
        name: error(privacy.optimal_shares(tree, objective=name, **terms))
        for name in ("nodes", "leaves", "ranges")
    }
    best = error(plan.shares)
    assert best == pytest.approx(by_objective["ranges"], rel=1e-3)
    assert best < 1.01 * min(by_objective.values())
    assert best < 0.9 * error([1] * tree.height)


def test_shares_for_quantiles():
    shares = gm.plan(TREE, rho="1/100", workload="quantiles").shares
    assert 0 < max(shares) < 1

    def error(shares):
        r = gm.release(TREE, COUNTS, rho="1/100", shares=shares)
        return np.mean([high - low for low, high in [r.cdf()[1:]]])

    assert error(shares) < error([1] * TREE.height)


def test_errors_against_opendp():
    """Quartiles from the same noisy trees."""
    dp = pytest.importorskip("opendp.prelude", reason="needs opendp")
    dp.enable_features("contrib")
    tree, wanted = gm.shapes.complete(2, 6), [0.25, 0.5, 0.75]
    truth = np.interp(wanted, np.concatenate([[0], np.cumsum(COUNTS)]) / COUNTS.sum(), EDGES)
    consistent = dp.t.make_consistent_b_ary_tree(branching_factor=2)
    theirs = dp.t.make_quantiles_from_counts(EDGES.tolist(), alphas=wanted, TA="f64")
    for rho in ("1/20000", "1/200", "1/10"):
        errors = []
        for _ in range(200):
            r = gm.release(tree, COUNTS, rho=rho)
            both = r.quantile(wanted, edges=EDGES).value, theirs(consistent(r.noisy.tolist()))
            errors.append([np.mean(np.abs(x - truth)) for x in both])
        ours, other = np.mean(errors, axis=0)
        print(f"rho {rho}: mean error {ours:.4f}, OpenDP {other:.4f}")
        assert ours <= other * 1.01


def test_workloads_of_plans():
    tree = gm.shapes.complete(3, 3)
    for name in ("nodes", "leaves"):
        shares = [Fraction(x) for x in privacy.optimal_shares(tree, rho=1, objective=name)]
        found = gm.plan(tree, rho=1, workload=name).shares
        assert [float(x) for x in found] == pytest.approx([float(x) for x in shares], rel=1e-2)
    with pytest.raises(ValueError, match="'objective' must be 'nodes', 'leaves', 'ranges', 'qu"):
        gm.plan(tree, rho=1, workload="median")
    with pytest.raises(ValueError, match="'workload' must be None with 'shares' or 'axes'"):
        gm.plan(tree, rho=1, workload="ranges", shares=[1, 1, 1])
