"""Messages of subtrees to the rest of the tree; whole numbers if some of them are given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import messages as reference

import gmtree as gm
from gmtree.consistency import round_values


def random_problem(seed):
    rng = np.random.default_rng(seed)
    tree = gm.shapes.random_recursive(int(rng.integers(2, 40)), rng=rng)
    number = rng.permutation(tree.n)
    parent = np.full(tree.n, -1)
    parent[number] = np.where(tree.parent < 0, -1, number[tree.parent])
    tree = gm.Tree.from_parents(parent)
    v, s = rng.normal(size=tree.n) * 3 + 2, rng.uniform(0.5, 3, tree.n)
    return tree, v, s, rng


@given(st.integers(0, 10**6))
def test_a_leaf_with_the_message_stands_for_the_subtree(seed):
    tree, v, s, rng = random_problem(seed)
    s[rng.integers(tree.n)] = 0
    i = int(rng.integers(tree.n))
    post = gm.Consistency(tree, {"node": s})
    told = post.messages(v, [i])
    # The subtree of i as a tree of its own.
    below = np.sort(tree.descendants(i))
    inside = np.append(below[below != i], i)
    place = {int(node): k for k, node in enumerate(inside)}
    parent = [-1 if node == i else place[int(tree.parent[node])] for node in inside]
    alone = gm.Consistency(gm.Tree.from_parents(parent), {"node": s[inside]})
    assert told.estimate[0] == pytest.approx(alone.project(v[inside])[place[i]], abs=1e-9)
    assert told.variance[0] == pytest.approx(alone.node_variance()[place[i]], abs=1e-12)
    # The rest of the tree, with a leaf in place of the subtree.
    rest = np.array([node for node in range(tree.n) if node == i or node not in place])
    place = {int(node): k for k, node in enumerate(rest)}
    parent = [-1 if tree.parent[node] < 0 else place[int(tree.parent[node])] for node in rest]
    noisy, variance = v[rest], s[rest]
    noisy[place[i]], variance[place[i]] = told.estimate[0], told.variance[0]
    x = gm.Consistency(gm.Tree.from_parents(parent), {"node": variance}).project(noisy)
    np.testing.assert_allclose(x, post.project(v)[rest], atol=1e-9)


@given(st.integers(0, 10**6))
def test_least_is_where_the_first_leaf_falls(seed):
    tree, v, s, rng = random_problem(seed)
    held = tree.leaves[rng.random(tree.n_leaves) < 0.2]
    s[held], v[held] = 0, 0
    i = tree.root
    least = gm.Consistency(tree, {"node": s}).messages(v, i, nonnegative=True).least[0]
    free = np.setdiff1d(tree.leaves, held)
    if not free.size:
        assert least == -np.inf
        return
    # The value of the root is set a little above and below.
    for step in (1e-6, -1e-6):
        exact, known = s.copy(), v.copy()
        exact[i], known[i] = 0, least + step * max(1, abs(least))
        x = gm.Consistency(tree, {"node": exact}).project(known)
        assert (x[free].min() > -1e-12) == (step > 0)


@given(st.integers(0, 10**6))
def test_all_nodes_tell_what_a_recursion_finds(seed):
    tree, v, s, rng = random_problem(seed)
    held = tree.leaves[rng.random(tree.n_leaves) < 0.2]
    s[held], v[held] = 0, 0.5
    told = gm.Consistency(tree, {"node": s}).messages(v, lower=0.5)
    known = reference.messages(tree.parent.tolist(), v, s, 0.5)
    for a, b in zip(told, known, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_equal_variances_and_one_node():
    tree = gm.shapes.complete(2, 3)
    v = np.arange(7.0)
    equal = gm.Consistency(tree, 2.0).messages(v, nonnegative=True)
    each = gm.Consistency(tree, np.full(7, 2.0)).messages(v, nonnegative=True)
    for a, b in zip(equal, each, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    single = gm.Consistency(gm.Tree.from_parents([-1])).messages([3.0], nonnegative=True)
    assert (single.estimate[0], single.variance[0], single.least[0]) == (3, 1, 0)
    assert gm.Consistency(tree).messages(v).least is None
    with pytest.raises(ValueError, match=r"'noisy' must have shape .*, one value per node"):
        gm.Consistency(tree).messages(np.ones((7, 2)))
    with pytest.raises(ValueError, match="'nodes'"):
        gm.Consistency(tree).messages(v, [7])


@given(st.integers(0, 10**6))
def test_given_numbers_are_kept_and_sums_are_exact(seed):
    tree, v, s, rng = random_problem(seed)
    x = gm.Consistency(tree, {"node": s}).project(v)
    assert np.array_equal(
        round_values(tree, x), gm.Consistency(tree, {"node": s}).project(v, integer=True)
    )
    whole = gm.Consistency(tree, {"node": s}).project(v, integer="random", rng=rng)
    some = np.flatnonzero(rng.random(tree.n) < 0.3)
    fixed = {int(i): int(whole[i]) for i in some}
    k = round_values(tree, x, given=fixed)
    assert all(k[i] == n for i, n in fixed.items())
    assert gm.consistency_bias(tree, k) == 0
    assert np.all(np.abs(k - x) < 1 + 1e-9)


def test_wrong_given_numbers():
    tree, x = gm.shapes.star(3), [2.5, 1.5, 1.0]
    with pytest.raises(ValueError, match="'given' must be less than 1 away"):
        round_values(tree, x, given={0: 4})
    with pytest.raises(TypeError, match="'given' must hold whole numbers"):
        round_values(tree, x, given={0: 2.0})
    with pytest.raises(ValueError, match="'values' must be consistent to within one"):
        round_values(tree, x, given={0: 3, 1: 1})
