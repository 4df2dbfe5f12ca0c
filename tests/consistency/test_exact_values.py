"""Values known exactly are kept to the bit, and refused if they contradict each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.consistency import problems

import gmtree as gm

SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(3)


@given(problems(max_n=40, kinds=("mixed",)), SEEDS)
def test_exact_values_are_kept_bit_for_bit(problem, seed):
    known = problem.s == 0
    # Values with random digits, so that sums of them are rounded.
    scale = np.random.default_rng(seed).uniform(0.9, 1.1)
    v = problem.tree.aggregate(problem.tree.leaf_values(problem.v * scale))
    x = problem.solver.project(v)
    np.testing.assert_array_equal(x[known], v[known])


def test_exact_total():
    x = gm.reconcile(STAR, [10.0, 4.0, 3.0], [0, 1, 1])
    np.testing.assert_array_equal(x, [10, 5.5, 4.5])
    x = gm.reconcile(STAR, [10.0, 4.0, 3.0], [1, 0, 1])
    np.testing.assert_array_equal(x, [8.5, 4, 4.5])
    everything = gm.reconcile(STAR, [7.0, 4.0, 3.0], 0)
    np.testing.assert_array_equal(everything, [7, 4, 3])


def test_contradiction_names_the_node():
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    s = [1, 0, 1, 0, 0]
    v = np.array([1.0, 7.0, 5.0, 3.0, 3.0])
    message = r"'noisy' must agree .* node 1 is 7.0 but its children add up to 6.0"
    with pytest.raises(ValueError, match=message):
        gm.reconcile(tree, v, s)
    columns = np.stack([v, v], axis=1)
    columns[1, 0] = 6
    with pytest.raises(ValueError, match=message):
        gm.reconcile(tree, columns, s)
    with pytest.raises(ValueError, match=message):
        gm.Consistency(tree, s).track(v)


def test_contradiction_through_a_node_that_is_not_measured():
    tree = gm.Tree.from_parents([-1, 0, 1, 1])
    with pytest.raises(ValueError, match=r"node 0 is 10.0 but its children add up to 9.0"):
        gm.reconcile(tree, [10.0, np.nan, 4.0, 5.0], [0, np.inf, 0, 0])
    with pytest.raises(ValueError, match=r"node 0 is 10.0 but its children add up to 9.0"):
        gm.reconcile(tree, [10.0, 3.0, 4.0, 5.0], [0, 2.0, 0, 0])


def test_contradiction_by_one_in_ten_billion():
    v = np.array([10_000_000_001.0, 4e9, 6e9])
    with pytest.raises(ValueError, match="node 0"):
        gm.reconcile(STAR, v, 0)


@pytest.mark.parametrize(
    ("tree", "v", "s"),
    [
        (STAR, [1e12 + 5, 5e11, 5e11], [0, 0, 0]),
        (STAR, [-(2.0**52), -(2.0**51), 1 - 2.0**51], [0, 0, 0]),
        # Node 1 is not measured, or measured badly and known through its children.
        (gm.Tree.from_parents([-1, 0, 1, 1]), [1e12 + 1, 0, 5e11, 5e11], [0, np.inf, 0, 0]),
        (gm.Tree.from_parents([-1, 0, 1, 1]), [1e12 + 1, 0.5, 5e11, 5e11], [0, 49.0, 0, 0]),
    ],
)
def test_whole_numbers_are_compared_exactly(tree, v, s):
    post = gm.Consistency(tree, s)
    for noisy in (np.array(v), np.array(v)[:, None] * [1, 1]):
        with pytest.raises(ValueError, match=r"node 0 is .* but its children add up to"):
            post.project(noisy)
        with pytest.raises(ValueError, match=r"node 0 is .* but its children add up to"):
            post.project(noisy, lower=-np.inf)


def test_numbers_that_may_have_been_rounded_are_compared_with_tolerance():
    # One fraction among the known values is enough, at the node or below it.
    for v in ([1e12 + 5, 5e11 + 0.25, 5e11 - 0.25], [1e12 + 5.5, 5e11, 5e11]):
        assert gm.reconcile(STAR, v, 0)[0] == v[0]
    # Nodes below a known node do not count above it; nodes below other nodes do.
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    v = np.array([2e12 + 3, 1e12, 1e12, 5e11 + 0.25, 5e11 - 0.25])
    with pytest.raises(ValueError, match="node 0 is"):
        gm.reconcile(tree, v, 0)
    assert gm.reconcile(tree, v, [0, np.inf, 0, 0, 0])[0] == v[0]
    # From 2**53 on whole numbers are rounded too, for float32 from 2**24 on.
    assert gm.reconcile(STAR, [2.0**53 + 2, 2.0**53, 1.0], 0)[0] == 2.0**53 + 2
    v = np.array([2.0**24 + 2, 2.0**24, 1.0], np.float32)
    assert gm.reconcile(STAR, v, 0)[0] == v[0]
    with pytest.raises(ValueError, match="node 0 is"):
        gm.reconcile(STAR, v - np.float32(2.0**20 + 1), 0)


def test_sizes_of_known_sums_stop_at_known_nodes():
    """The tolerance is relative to the children of a node, not to nodes further below."""
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    v = np.array([0.75, 0.5, 0.25 + 1e-9, 1e9, 0.5 - 1e9])
    with pytest.raises(ValueError, match=r"node 0 is 0.75 but its children add up to 0.75"):
        gm.reconcile(tree, v, 0)
    # Without knowing node 1 its children count, with all that may be rounded in them.
    assert gm.reconcile(tree, v, [0, np.inf, 0, 0, 0])[0] == 0.75
    assert gm.reconcile(tree, v, [0, 3.0, 0, 0, 0])[0] == 0.75


def test_large_families_of_known_values_do_not_contradict():
    """0.1 ten million times, added up one by one, is off by more than the tolerance."""
    tree = gm.shapes.star(10**6 + 1)
    v = np.full(tree.n, 0.1)
    v[0] = 10**5
    assert gm.reconcile(tree, v, 0)[0] == 10**5
    x = gm.reconcile(tree, v, {"level": [0, 1]}, lower=0.1)
    np.testing.assert_allclose(x[1:], 0.1)


def test_contradiction_leaves_everything_as_it_was():
    v = np.array([8.0, 4.0, 3.0])
    post = gm.Consistency(STAR, 0)
    out = np.full(3, -1.0)
    with pytest.raises(ValueError, match="node 0"):
        post.project(v, out=out)
    np.testing.assert_array_equal(out, -1)
    with pytest.raises(ValueError, match="node 0"):
        post.project(v, out=v)
    np.testing.assert_array_equal(v, [8, 4, 3])
    np.testing.assert_array_equal(post.project([7.0, 4.0, 3.0]), [7, 4, 3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounded_sums_do_not_contradict(dtype):
    rng = np.random.default_rng(0)
    tree = gm.shapes.grouped(500, rng=1)
    v = tree.aggregate(rng.standard_normal(tree.n_leaves)).astype(dtype)
    np.testing.assert_array_equal(gm.reconcile(tree, v, 0), v)
    # The children add up to 2.8e-17, not 0, in floating point.
    v = np.array([0, 0.1, 0.2, -0.3], dtype)
    star = gm.shapes.star(4)
    np.testing.assert_array_equal(gm.reconcile(star, v, 0), v)
    middle = gm.Tree.from_parents([-1, 0, 1, 1, 1])
    s = [0, np.inf, 0, 0, 0]
    found = gm.reconcile(middle, np.array([0, 9, 0.1, 0.2, -0.3], dtype), s)
    np.testing.assert_array_equal(found[[0, 2, 3, 4]], v)
