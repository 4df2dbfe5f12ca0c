"""Variances for all nodes, by node and by level, and variances that are refused."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from trees import trees

import gmtree as gm

SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(3)


@given(trees(), SEEDS)
def test_forms_of_variance_agree(tree, seed):
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(tree.n)
    equal = gm.reconcile(tree, v)
    np.testing.assert_array_equal(gm.reconcile(tree, v, 7), equal)
    np.testing.assert_allclose(gm.reconcile(tree, v, np.full(tree.n, 7.0)), equal, atol=1e-13)
    levels = rng.uniform(0.1, 10, tree.height)
    by_node = levels[np.array(reference.depths(tree.parent)) - 1]
    expected = gm.reconcile(tree, v, {"node": by_node})
    np.testing.assert_array_equal(gm.reconcile(tree, v, {"level": levels}), expected)
    np.testing.assert_array_equal(gm.reconcile(tree, v, {"level": 7.0}), equal)
    if tree.height < tree.n:
        np.testing.assert_array_equal(gm.reconcile(tree, v, levels.tolist()), expected)
        np.testing.assert_array_equal(gm.reconcile(tree, v, by_node), expected)


def test_levels_count_from_the_root():
    x = gm.reconcile(gm.shapes.complete(2, 3), np.arange(7.0), [0, np.inf, 1])
    assert x[0] == 0
    np.testing.assert_allclose(x[3:], np.arange(3, 7) - 18 / 4)


NAMED = gm.Tree.from_levels(
    {"level": ["NY", "NY", "VT"], "county": ["Albany", "Orange", "Orange"]},
    levels=["level", "county"],
)


@pytest.mark.parametrize(
    ("variance", "levels"),
    [
        ({"level": 2.0, "county": 4.0}, [1, 2, 4]),
        ({"total": 9.0, "level": np.inf}, [9, np.inf, 1]),
        ({"level": 2.0}, [1, 2, 1]),
        ({"level": [3, 2, 4]}, [3, 2, 4]),
    ],
)
def test_variances_by_the_names_of_levels(variance, levels):
    v = NAMED.aggregate([4.0, 5.0, 6.0]) + np.arange(6.0) / 8
    post = gm.Consistency(NAMED, variance)
    np.testing.assert_array_equal(post.project(v), gm.reconcile(NAMED, v, levels))
    if np.isscalar(variance.get("level", 1)):
        frame = gm.reconcile_frame(NAMED.to_frame(x=v), ["level", "county"], "x", variance=variance)
        np.testing.assert_allclose(frame["x"], post.project(v))


def test_noise_by_the_names_of_levels():
    post = gm.Consistency(NAMED)
    found = post.node_variance(noise={"total": 3.0, "county": 2.0})
    np.testing.assert_array_equal(found, post.node_variance(noise={"level": [3.0, 1.0, 2.0]}))


@pytest.mark.parametrize(
    ("variance", "message"),
    [
        (
            {"state": 1.0},
            r"must have levels of the tree as keys \('total', 'level', 'county'\), not 'state'",
        ),
        ({"county": -1.0}, r"'variance\['county'\]' must not be negative or NaN; it is -1"),
        ({"county": np.nan}, r"'variance\['county'\]' must not be negative or NaN; it is nan"),
        ({"county": 1e101}, "must be 0, inf or from 1e-100 to 1e.100; node 3 has 1e.101"),
    ],
)
def test_bad_variances_by_the_names_of_levels(variance, message):
    with pytest.raises(ValueError, match=message):
        gm.Consistency(NAMED, variance)


@pytest.mark.parametrize(
    ("variance", "message"),
    [
        (-1, r"must not be negative or NaN, not -1\.0"),
        (np.nan, "must not be negative or NaN, not nan"),
        ([1, -2, 1], "node 1 has -2.0"),
        ([1, 1, np.nan], "node 2 has nan"),
        ([1, 1, 1, 1], "one per node .3. or one per level .2., not have shape .4,."),
        ([[1, 1, 1]], "not have shape"),
        ([np.nan, 1], "level 1 has nan"),
        (1e-101, "must be 0, inf or from 1e-100 to 1e.100, not 1e-101"),
        ([1, 1e101, 1], "must be 0, inf or from 1e-100 to 1e.100; node 1 has 1e.101"),
        ([np.inf] * 3, "no node is measured"),
    ],
)
def test_bad_variance(variance, message):
    with pytest.raises(ValueError, match=message):
        gm.Consistency(STAR, variance)


SHUFFLED_CHAIN = gm.Tree.from_parents([1, -1, 0])  # node 1 is the root, 0 below it, then 2


@pytest.mark.parametrize(
    ("variance", "message"),
    [
        ([1, 2, 3], "this tree has 3 nodes and 3 levels, and node 0 is on level 2; write {'node'"),
        ([1, 1, 2], None),
        ([2, 2, 2], None),
        ({"node": [1, 2, 3]}, None),
        ({"node": [1, 2]}, r"must be one number, one per node \(3\), not have shape \(2,\)"),
        ({"level": np.ones((3, 1))}, r"one per level \(3\), not have shape \(3, 1\)"),
        ({"level": [1, -2, 3]}, "must not be negative or NaN; level 2 has -2.0"),
        ({"node": [1, 2, -3]}, "must not be negative or NaN; node 2 has -3.0"),
        ({"leaf": [1, 2, 3]}, "must be {'node': .* its keys are 'leaf'"),
        ({"level": 1, "node": 1}, "its keys are 'level', 'node'"),
        ({}, "its keys are missing"),
    ],
)
def test_variances_per_node_or_per_level_on_a_chain(variance, message):
    if message is None:
        gm.Consistency(SHUFFLED_CHAIN, variance)
        return
    with pytest.raises(ValueError, match=f"'variance' .*{message}"):
        gm.Consistency(SHUFFLED_CHAIN, variance)


def test_a_chain_from_the_root_down_has_one_reading():
    v, s = np.array([1.0, 5, 9]), [1, 2, 3]
    expected = np.average(v, weights=1 / np.array(s))
    for variance in (s, {"node": s}, {"level": s}):
        np.testing.assert_allclose(gm.reconcile(gm.shapes.chain(3), v, variance), expected)
    by_level = gm.reconcile(SHUFFLED_CHAIN, v, {"level": s})
    np.testing.assert_allclose(by_level, np.average(v[[1, 0, 2]], weights=1 / np.array(s)))


def test_which_node_an_error_names_in_another_numbering():
    tree = gm.Tree.from_parents([4, 4, 0, 0, -1])
    with pytest.raises(ValueError, match="node 3 has nan"):
        gm.Consistency(tree, [1, 1, 1, np.nan, -1])
    with pytest.raises(ValueError, match="neither leaf 3 nor"):
        gm.Consistency(tree, [np.inf, 1, 1, np.inf, np.inf])
    # Of two nodes that contradict their children the smaller number, not the higher one.
    with pytest.raises(ValueError, match=r"node 0 is 5.0 but its children add up to 7.0"):
        gm.reconcile(tree, [5.0, 1, 3, 4, 9], 0)
    with pytest.raises(ValueError, match=r"node 0 is 5.0"):
        gm.reconcile(tree, np.array([[7.0, 5], [1, 1], [3, 3], [4, 4], [9, 6]]), 0)


def test_variances_at_the_ends_of_their_range():
    small, large = 1e-100, 1e100
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    x = gm.reconcile(tree, [10.0, 4, 4, 1, 1], [0, small, small, large, large])
    np.testing.assert_allclose(x, [10, 5, 5, 2.5, 2.5], rtol=1e-14)
    for s in (small, large):
        for size in (1e-200, 1e-20, 1e9, 1e200):
            x = gm.reconcile(STAR, [size, 0, 0], [s] * 3)
            np.testing.assert_allclose(x, size * np.array([2, 1, 1]) / 3, rtol=1e-14)


def test_bad_types():
    with pytest.raises(TypeError, match="'variance' must hold real numbers"):
        gm.Consistency(STAR, ["a", "b", "c"])
    with pytest.raises(TypeError, match="'tree' must be a Tree, not ndarray"):
        gm.Consistency(np.array([-1, 0, 0]))
    with pytest.raises(TypeError, match="'threads' must be a whole number"):
        gm.Consistency(STAR, threads=1.5)
    with pytest.raises(ValueError, match="'threads' must be at least 1, not 0"):
        gm.Consistency(STAR, threads=0)


def test_variance_is_not_changed_nor_followed():
    s = np.array([1.0, 2.0, 3.0])
    post = gm.Consistency(STAR, s)
    before = post.project([10, 4, 3])
    np.testing.assert_array_equal(s, [1, 2, 3])
    s[:] = 0
    np.testing.assert_array_equal(post.project([10, 4, 3]), before)
    assert post.node_variance()[0] > 0
