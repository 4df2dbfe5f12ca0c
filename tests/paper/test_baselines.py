"""The baselines agree with their published formulas, and have the errors that these imply."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import consistency as exact
from reference.consistency import problems
from trees import large_shapes, named_shapes, trees

import gmtree as gm
from gmtree import baselines

SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(3)
ALL = (
    baselines.processless,
    baselines.boosting,
    baselines.boosting_recursive,
    baselines.privtrie,
    baselines.privtrie_recursive,
    baselines.dense,
)
OPTIMAL = ALL[3:]


def boosting(parent: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Boosting in exact integers where it can be: with k^l as it stands in the formula."""
    n, root = len(parent), reference.root(parent)
    height, k = reference.heights(parent), len(reference.children(parent, root))
    if n == 1:
        return v.copy()
    z, x = v.copy(), np.empty(n)
    total = np.zeros(n)
    for i in sorted(range(n), key=lambda i: height[i]):
        for c in reference.children(parent, i):
            total[i] += z[c]
        if height[i] > 1:
            high, low = k ** height[i], k ** (height[i] - 1)
            if k > 1:
                z[i] = ((high - low) * v[i] + (low - 1) * total[i]) / (high - 1)
            else:
                z[i] = (v[i] + (height[i] - 1) * total[i]) / height[i]
    for i in sorted(range(n), key=lambda i: len(reference.ancestors(parent, i))):
        p = parent[i]
        x[i] = z[i] if p < 0 else z[i] + (x[p] - total[p]) / k
    return x


@given(trees(), SEEDS)
def test_boosting_by_its_formula(tree, seed):
    v = np.random.default_rng(seed).standard_normal(tree.n)
    expected = boosting(tree.parent, v)
    np.testing.assert_allclose(baselines.boosting(tree, v), expected, atol=1e-10)
    np.testing.assert_allclose(baselines.boosting_recursive(tree, v), expected, atol=1e-10)


@pytest.mark.parametrize(("fanout", "height"), [(1, 9), (2, 7), (3, 5), (10, 3), (50, 2)])
def test_boosting_is_optimal_on_complete_trees(fanout, height):
    tree = gm.shapes.complete(fanout, height)
    v = np.random.default_rng(0).normal(10, 3, tree.n)
    x = gm.reconcile(tree, v)
    np.testing.assert_allclose(baselines.boosting(tree, v), x, atol=1e-11)
    np.testing.assert_allclose(baselines.boosting_recursive(tree, v), x, atol=1e-11)


def test_boosting_is_not_consistent_on_other_trees():
    tree = gm.shapes.grouped(200, rng=1)
    v = np.random.default_rng(0).normal(10, 3, tree.n)
    assert gm.consistency_bias(tree, baselines.boosting(tree, v)) > 0.1
    assert gm.consistency_bias(tree, gm.reconcile(tree, v)) < 1e-12


def test_boosting_on_trees_whose_powers_overflow():
    """3^2000 is too large for a floating-point number, but the ratios are not."""
    spine = np.arange(-1, 1999)
    tree = gm.Tree.from_parents(np.concatenate([spine, [0, 0]]))
    v = np.random.default_rng(0).normal(10, 3, tree.n)
    x = baselines.boosting(tree, v)
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x, boosting_by_fractions(tree, v), atol=1e-9)


def boosting_by_fractions(tree: gm.Tree, v: np.ndarray) -> np.ndarray:
    """A path of nodes 0, 1, ..., with two more leaves below node 0."""
    k, n = 3, tree.n - 2
    z, total = v.copy(), np.zeros(n)
    for i in range(n - 2, -1, -1):
        height = n - i
        total[i] = z[i + 1] + (v[n:].sum() if i == 0 else 0)
        high, low = k**height, k ** (height - 1)
        # Python divides whole numbers of any size to the nearest floating-point number.
        z[i] = (high - low) / (high - 1) * v[i] + (low - 1) / (high - 1) * total[i]
    x = z.copy()
    for i in range(1, n):
        x[i] = z[i] + (x[i - 1] - total[i - 1]) / k
    x[n:] = v[n:] + (x[0] - total[0]) / k
    return x


@given(trees(), SEEDS)
def test_privtrie_and_dense_are_optimal(tree, seed):
    v = np.random.default_rng(seed).normal(10, 3, tree.n)
    x = gm.reconcile(tree, v)
    for method in OPTIMAL:
        np.testing.assert_allclose(method(tree, v), x, atol=1e-10)


@given(problems(max_n=30, kinds=("equal", "scalar", "level", "node")))
def test_dense_with_variances(problem):
    if problem.tree.n == 1:
        return
    expected = exact.dense(problem.parent, problem.v, problem.s)
    found = baselines.dense(problem.tree, problem.v, problem.given)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(problem.v).max())


def test_named_shapes():
    rng = np.random.default_rng(0)
    for tree in named_shapes(100).values():
        v = rng.normal(10, 3, tree.n)
        x = gm.reconcile(tree, v)
        for method in OPTIMAL:
            np.testing.assert_allclose(method(tree, v), x, atol=1e-9)
        expected = boosting(tree.parent, v)
        np.testing.assert_allclose(baselines.boosting(tree, v), expected, atol=1e-9)


@pytest.mark.parametrize("method", ALL)
def test_forms_of_values(method):
    v = np.array([10.0, 4.0, 3.0])
    found = method(STAR, v)
    np.testing.assert_array_equal(v, [10, 4, 3])
    assert not np.shares_memory(found, v)
    expected = [10, 4, 3] if method is baselines.processless else [9, 5, 4]
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(method(STAR, [10, 4, 3]), expected)
    single = method(STAR, v.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-6)
    frozen = v.astype(">f8")
    frozen.flags.writeable = False
    np.testing.assert_allclose(method(STAR, frozen), expected)
    one = np.array([3.5])
    found = method(gm.shapes.chain(1), one)
    assert found == [3.5]
    assert not np.shares_memory(found, one)


@pytest.mark.parametrize("method", ALL)
def test_bad_input(method):
    with pytest.raises(ValueError, match="'noisy' must be finite; node 1 is nan"):
        method(STAR, [1, np.nan, 1])
    with pytest.raises(ValueError, match=r"'noisy' must have shape \(3,\)"):
        method(STAR, np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"'noisy' must have shape \(3,\)"):
        method(STAR, [1, 1])
    with pytest.raises(TypeError, match="'tree' must be a Tree, not list"):
        method([-1, 0, 0], [1, 1, 1])


@pytest.mark.parametrize("name", ["boosting", "privtrie"])
def test_recursion_says_where_it_ends(name):
    tree = gm.shapes.chain(2 * sys.getrecursionlimit())
    recursive = getattr(baselines, f"{name}_recursive")
    message = rf"'tree' must have fewer levels .* not {tree.height}; use {name}, or"
    with pytest.raises(ValueError, match=message):
        recursive(tree, np.ones(tree.n))
    np.testing.assert_allclose(getattr(baselines, name)(tree, np.ones(tree.n)), 1)


def test_dense_refuses_large_trees():
    tree = gm.shapes.star(5001)
    with pytest.raises(ValueError, match=r"must have at most 5000 nodes .* not 5001"):
        baselines.dense(tree, np.ones(tree.n))


@pytest.mark.parametrize("bad", [0.0, np.inf])
def test_dense_needs_positive_variances(bad):
    message = f"'variance' must be positive and finite for .* node 2 has {bad}"
    with pytest.raises(ValueError, match=message):
        baselines.dense(STAR, [1, 1, 1], [1, 1, bad])


@pytest.mark.large
@pytest.mark.parametrize("name", list(named_shapes(10)))
def test_large_trees(name):
    tree = large_shapes()[name]
    v = np.random.default_rng(0).normal(10, 3, tree.n)
    x = gm.reconcile(tree, v)
    # Sums along a path of very many nodes lose six digits.
    np.testing.assert_allclose(baselines.privtrie(tree, v), x, rtol=0, atol=1e-7)
    boosted = baselines.boosting(tree, v)
    assert np.isfinite(boosted).all()
    if name in ("chain", "binary", "star", "chain, shuffled"):
        np.testing.assert_allclose(boosted, x, rtol=0, atol=1e-7)
