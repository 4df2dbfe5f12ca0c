"""Nodes that are not measured, numbers that are not finite, results too large to hold."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference.consistency import inconsistency, per_node, problems
from trees import trees

import gmtree as gm

SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(3)


def test_leaf_without_any_measurement_is_refused():
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    s = np.array([np.inf, np.inf, 1, 1, np.inf])
    message = "neither leaf 4 nor any node above it is measured, so its value could be anything"
    with pytest.raises(ValueError, match=message):
        gm.Consistency(tree, s)
    s[1] = 1
    assert np.isfinite(gm.Consistency(tree, s).project(np.ones(5))).all()


@given(trees(), SEEDS)
def test_which_leaf_is_refused(tree, seed):
    s = np.where(np.random.default_rng(seed).random(tree.n) < 0.6, np.inf, 1.0)
    bare = [i for i in tree.leaves if np.isinf(s[reference.ancestors(tree.parent, i)]).all()]
    if np.isinf(s).all():
        with pytest.raises(ValueError, match="no node is measured"):
            gm.Consistency(tree, per_node(s))
    elif bare:
        with pytest.raises(ValueError, match=f"neither leaf {bare[0]} nor"):
            gm.Consistency(tree, per_node(s))
    else:
        gm.Consistency(tree, per_node(s))


def test_one_unmeasured_child_is_the_rest():
    x = gm.reconcile(gm.shapes.star(4), [10, np.nan, 3, 4], [1, np.inf, 1, 1])
    np.testing.assert_allclose(x, [10, 3, 3, 4])


def test_unmeasured_siblings_share_evenly():
    x = gm.reconcile(
        gm.shapes.star(5), [10, np.nan, 4, np.inf, -np.inf], [1, np.inf, 1, np.inf, np.inf]
    )
    np.testing.assert_allclose(x, [10, 2, 4, 2, 2])


def test_unmeasured_subtrees_share_evenly():
    #        0
    #    1       2      nothing known of 2, and of 1 only through 3
    #  3   4    5 6
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    s = np.full(7, np.inf)
    s[[0, 3]] = 1
    x = gm.reconcile(tree, [10, 0, 0, 4, 0, 0, 0], s)
    np.testing.assert_allclose(x, [10, 7, 3, 4, 3, 1.5, 1.5])


@given(problems(max_n=12, kinds=("mixed",)))
def test_even_shares(problem):
    """Undetermined siblings share the rest of their parent evenly."""
    tree, s = problem.tree, problem.s
    x = problem.solver.project(problem.v)
    assert inconsistency(tree, x) <= 1e-12 * max(1, np.abs(x).max()) * tree.height

    def unknown(i: int) -> bool:
        below = tree.children(i)
        return np.isinf(s[i]) and (below.size == 0 or any(map(unknown, below.tolist())))

    def from_below(i: int) -> float:
        below = [c for c in tree.children(i).tolist() if not unknown(c)]
        inner = [c for c in tree.children(i).tolist() if unknown(c)]
        return sum(x[c] for c in below) + sum(map(from_below, inner))

    for i in tree.internal:
        family = [c for c in tree.children(i).tolist() if unknown(c)]
        shares = [x[c] - from_below(c) for c in family]
        np.testing.assert_allclose(shares, shares[:1] * len(shares), atol=1e-9)


@given(problems(max_n=30, kinds=("mixed",)), st.sampled_from([np.nan, np.inf, -np.inf, 1e300]))
def test_values_of_unmeasured_nodes_do_not_matter(problem, junk):
    v = problem.v.copy()
    v[np.isinf(problem.s)] = junk
    np.testing.assert_array_equal(problem.solver.project(v), problem.solver.project(problem.v))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("variance", [None, 2.0, [1, 0, np.inf]])
def test_values_that_are_no_numbers(bad, variance):
    with pytest.raises(ValueError, match=rf"'noisy' must be finite; node 1 is {bad}"):
        gm.reconcile(STAR, [1.0, bad, 3.0], variance)
    with pytest.raises(ValueError, match=rf"node 0 is {bad}"):
        gm.reconcile(STAR, [[1.0, bad], [2, 2], [3, 3]], variance)
    both = np.array([bad, -bad, 3.0])
    with pytest.raises(ValueError, match=f"node 0 is {bad}"):
        gm.reconcile(STAR, both, variance)


def test_values_that_are_no_numbers_change_nothing():
    tree = gm.shapes.complete(3, 3)
    post = gm.Consistency(tree)
    for i in range(tree.n):
        v = np.ones(tree.n)
        v[i] = np.nan
        out = np.full(tree.n, 7.0)
        with pytest.raises(ValueError, match=f"node {i} is nan"):
            post.project(v, out=out)
        np.testing.assert_array_equal(out, 7)
    with pytest.raises(ValueError, match="node 0 is nan"):
        gm.reconcile(gm.shapes.chain(1), [np.nan])


def test_large_finite_values_are_no_error():
    v = np.array([1e308, 1e307, 1.5e308], dtype=float)
    assert gm.reconcile(gm.shapes.chain(3), v, [0, 1, 1])[0] == 1e308


def test_sums_that_overflow():
    out = np.full(3, 7.0)
    with pytest.raises(ValueError, match="'noisy' must have sums that floating point numbers"):
        gm.Consistency(STAR).project([0, 1.5e308, 1.5e308], out=out)
    np.testing.assert_array_equal(out, 7)


TOO_LARGE = r"'noisy' must lead to consistent values, .* that {dtype} can hold; that of node {i} is"


@pytest.mark.parametrize("options", [{}, {"lower": -np.inf}, {"lower": -1.79e308}])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_results_that_overflow(options, columns):
    """All measurements and all sums fit into the type, but the result does not."""
    v = np.array([0.8e308, 1.7e308, -1.7e308])
    v = v.reshape(3, *(1 for _ in columns)) * np.ones(columns)
    with pytest.raises(ValueError, match=TOO_LARGE.format(dtype="float64", i=1)):
        gm.reconcile(STAR, v, **options)
    kept = v.copy()
    with pytest.raises(ValueError, match=TOO_LARGE.format(dtype="float64", i=1)):
        gm.reconcile(STAR, v, out=v, **options)
    np.testing.assert_array_equal(v, kept)
    out = np.zeros_like(v)
    with pytest.raises(ValueError, match="too large"):
        gm.reconcile(STAR, v, out=out, **options)
    assert np.isnan(out).all()


@pytest.mark.parametrize("options", [{}, {"lower": -np.inf}])
def test_results_that_overflow_float32(options):
    v = np.array([3e38, 3e38, -3e38], np.float32)
    with pytest.raises(ValueError, match=TOO_LARGE.format(dtype="float32", i=1)):
        gm.reconcile(STAR, v, **options)
    leaf = gm.Tree.from_parents([-1, 0, 0, 1])
    v = np.array([0, 0, 3e38, 3e38], np.float32)
    with pytest.raises(ValueError, match=TOO_LARGE.format(dtype="float32", i=0)):
        gm.reconcile(leaf, v, [np.inf, np.inf, 1, 1], **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lower", [1e308, [1.5e308, 0, 1.5e308]])
def test_bounds_whose_sums_overflow(dtype, lower):
    out = np.zeros(4, dtype)
    with pytest.raises(ValueError, match="'noisy' must lead to consistent values, within the bou"):
        gm.reconcile(gm.shapes.star(4), np.zeros(4, dtype), lower=lower, out=out)
    with pytest.raises(ValueError, match="'noisy'"):
        gm.reconcile(gm.shapes.star(4), np.zeros(4, dtype), lower=lower, integer=True)
    with pytest.raises(ValueError, match="'noisy'"):
        gm.reconcile(gm.shapes.chain(1), np.zeros(1, np.float32), lower=1e308)
    assert gm.reconcile(gm.shapes.chain(2), np.zeros(2), lower=1e308).tolist() == [1e308] * 2


@given(trees(max_n=12), SEEDS, st.booleans(), st.sampled_from([np.float64, np.float32]))
def test_finite_input_gives_finite_results_or_an_error(tree, seed, bounded, dtype):
    rng = np.random.default_rng(seed)
    limit = float(np.finfo(dtype).max)
    v = (rng.uniform(-1, 1, tree.n) * limit).astype(dtype)
    lower = rng.uniform(-1, 1, tree.n_leaves) * limit if bounded else None
    try:
        x, info = gm.Consistency(tree).project(v, lower=lower, return_info=True)
    except ValueError as error:
        message = str(error)
    else:
        message = "'noisy'"
        assert np.isfinite(x).all()
        assert not np.isnan(info.violation)
    assert "'noisy'" in message


def test_masked_entries_are_refused():
    post, masked = gm.Consistency(STAR), np.ma.array([1.0, 2, 3], mask=[0, 1, 0])
    message = "'noisy' must have no masked entries; entry 1 .* not measured has variance inf"
    for use in (post.project, post.track, lambda v: gm.reconcile(STAR, v, nonnegative=True)):
        with pytest.raises(ValueError, match=message):
            use(masked)
    for variance in (masked, {"node": masked}, {"level": masked[:2]}):
        with pytest.raises(ValueError, match="'variance' must have no masked entries"):
            gm.Consistency(STAR, variance)
    with pytest.raises(ValueError, match="'lower' must have no masked entries"):
        post.project(np.ones(3), lower=masked[:2])
    with pytest.raises(ValueError, match="'value' must have no masked entries"):
        post.track(np.ones(3)).update([0, 1, 2], masked)
    # A masked array without masked entries is treated like any other array.
    np.testing.assert_array_equal(post.project(np.ma.array([10.0, 4, 3])), [9, 5, 4])
