"""The certificate of optimality: it accepts all optima, and measures wrong values."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import bounded as slow
from reference.bounded import KINDS, POSITIVE, noisy_counts, random_problem, random_problems
from reference.consistency import per_node
from trees import named_shapes

import gmtree as gm
from gmtree.consistency.certificate import violation

SEEDS = st.integers(0, 2**32 - 1)


def violated(tree, x, v, s, lower) -> float:
    """The certificate for variances by node."""
    bounds = np.full(tree.n, -np.inf)
    bounds[tree.leaves] = lower
    return violation(tree, x, v, None if s is None else tree._to_positions(s), bounds, None)


@given(SEEDS, st.sampled_from(KINDS))
def test_the_certificate_accepts_optima_found_otherwise(seed, kind):
    problem = random_problem(np.random.default_rng(seed), kind=kind)
    x = slow.active_set(problem)
    leaves = problem.tree.leaves
    # Held leaves are at their bounds exactly, and known values exactly known.
    x[leaves] = np.where(x[leaves] < problem.lower + 1e-9, problem.lower, x[leaves])
    assert violated(problem.tree, x, problem.v, problem.s, problem.lower) <= 1e-8 * problem.scale


@given(SEEDS, st.sampled_from(POSITIVE))
def test_the_certificate_finds_a_leaf_that_moved(seed, kind):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, kind=kind)
    tree, x = problem.tree, problem.solve()
    move = np.zeros(tree.n_leaves)
    j = rng.integers(tree.n_leaves)
    move[j] = rng.choice([-1, 1]) * 10 ** rng.uniform(-6, 0)
    moved = x + tree.aggregate(move)
    # A leaf that moved together with its ancestors has to move back.
    found = violated(tree, moved, problem.v, problem.s, problem.lower)
    assert found >= 0.4 * abs(move[j])
    if x[tree.leaves[j]] > problem.lower[j] + abs(move[j]):
        assert found <= 100 * abs(move[j]) * problem.s.max() / problem.s.min()


@pytest.mark.parametrize("shape", ["caterpillar", "binary", "grouped", "random, shuffled"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_certificate_finds_leaves_that_traded(shape, weighted):
    """Trades of two leaves are found at any depth, though common ancestors do not change."""
    rng = np.random.default_rng(25)
    tree = named_shapes(3000)[shape]
    v = noisy_counts(tree, rng, zeros=0)
    s = rng.uniform(0.5, 2, tree.n) if weighted else None
    x = gm.reconcile(tree, v, s, nonnegative=True)
    low = np.zeros(tree.n_leaves)
    assert violated(tree, x, v, s, low) <= 1e-12 * abs(v).max()
    free = np.flatnonzero(x[tree.leaves] > 1)
    for _ in range(20):
        a, b = rng.choice(free, 2, replace=False)
        trade = np.zeros(tree.n_leaves)
        trade[a], trade[b] = 0.5, -0.5
        assert violated(tree, x + tree.aggregate(trade), v, s, low) >= 0.1


def test_the_certificate_finds_wrong_sets_of_leaves():
    """A leaf that is held without need, and a leaf below its bound that is not held."""
    tried = 0
    for problem in random_problems(60, 26, kind="weighted"):
        tree, leaves = problem.tree, reference.leaves(problem.parent)
        x = problem.solve()
        held = np.flatnonzero(x[leaves] == problem.lower).tolist()
        gap = x[leaves] - problem.lower
        for j in range(len(leaves)):
            other = [k for k in held if k != j] if j in held else [*held, j]
            y = slow.with_held(problem, other)
            assert y is not None
            y[np.array(leaves)[other]] = problem.lower[other]
            change = abs(y - x).max()
            if change > 1e-3 and (j in held or gap[j] > 1e-3):
                tried += 1
                assert violated(tree, y, problem.v, problem.s, problem.lower) >= 0.05 * change
    assert tried > 100


def test_the_certificate_finds_what_is_not_consistent_or_not_kept():
    tree = gm.shapes.complete(2, 3)
    s = np.array([1.0, 0, 1, 1, 1, 1, 0])
    v = np.array([9.0, 4, 5, 2, 1, 3, 1])
    x = gm.reconcile(tree, v, s, nonnegative=True)
    low = np.zeros(4)
    assert violated(tree, x, v, s, low) <= 1e-15
    for i in range(7):
        y = x.copy()
        y[i] += 0.25
        assert violated(tree, y, v, s, low) >= 0.25
    y = x + tree.aggregate([0.5, 0, 0, 0])
    assert violated(tree, y, v, s, low) >= 0.5
    below = x + tree.aggregate([-3.0, 3, 0, 0])
    assert violated(tree, below, v, s, low) >= -below.min()


def test_the_certificate_knows_trades_below_known_nodes():
    """Two leaves below a known total: only their difference can be wrong."""
    s = np.array([0, 1.0, 3.0])
    v, low = np.array([10.0, 4, 3]), np.zeros(2)
    tree = gm.shapes.star(3)
    assert violated(tree, np.array([10, 4.75, 5.25]), v, s, low) <= 1e-15
    assert violated(tree, np.array([10, 5.75, 4.25]), v, s, low) == pytest.approx(1)
    # All leaves are at their bounds, which add up to the total, so nothing can move.
    tight = np.array([6.0, 4.0])
    assert violated(tree, np.array([10, 6, 4.0]), v, s, tight) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_certificate_refuses_what_is_not_finite(bad):
    tree = gm.shapes.complete(2, 3)
    v = np.arange(7.0)
    x = gm.reconcile(tree, v)
    for i in range(7):
        y = x.copy()
        y[i] = bad
        for s in (None, np.ones(7)):
            assert violated(tree, y, v, s, -np.inf) == np.inf
    # A violation that cannot be computed does not count as zero.
    assert violated(tree, np.zeros(7), np.where(v < 3, 1.7e308, -1.7e308), None, -np.inf) > 0
    assert violated(gm.shapes.star(3), np.array([1.7e308, 1.7e308, 0]), v[:3], None, 0) > 0
    chain, huge = gm.shapes.chain(3), np.array([1.7e308, 1.7e308, -1.7e308])
    assert violated(chain, np.zeros(3), huge, np.full(3, 1e-100), -np.inf) == np.inf


def test_the_certificate_of_a_plain_projection():
    rng = np.random.default_rng(27)
    for tree in named_shapes(200).values():
        for s in (None, 10 ** rng.uniform(-3, 3, tree.n)):
            v = rng.normal(0, 3, tree.n)
            x, info = gm.Consistency(tree, per_node(s)).project(v, return_info=True)
            assert info.passes == 1
            assert info.at_bound == 0
            assert info.violation <= 1e-12 * abs(v).max()
            off = violated(tree, x + tree.aggregate(np.eye(1, tree.n_leaves)[0]), v, s, -np.inf)
            assert off >= 0.4
