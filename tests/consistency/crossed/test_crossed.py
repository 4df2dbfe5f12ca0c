"""Crossed trees: compared with dense algebra; exact and missing values, bounds, bad input."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from reference.tables import crossed, leaf_sums
from scipy.optimize import nnls

import gmtree as gm
from gmtree.consistency.sparse import ConvergenceError, solver


def random_trees(rng, count, most=8):
    return [gm.shapes.random_recursive(int(rng.integers(1, most)), rng) for _ in range(count)]


def consistent(trees, rng):
    """Values that are consistent along every tree."""
    x = rng.normal(size=[tree.n_leaves for tree in trees])
    for axis, tree in enumerate(trees):
        x = np.moveaxis(np.tensordot(leaf_sums(tree), x, (1, axis)), 0, axis)
    return x


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_products_of_variances_are_exact(count):
    rng = np.random.default_rng(count)
    for _ in range(25):
        trees = random_trees(rng, count, most=8 if count < 4 else 5)
        y = rng.normal(0, 10, [tree.n for tree in trees])
        given = [np.exp(rng.normal(0, 1, tree.n)) for tree in trees]
        s = reduce(np.multiply.outer, given)
        expected = crossed(trees, y, s)
        for variance in ([{"node": a} for a in given], s):
            post = gm.CrossedConsistency(trees, variance)
            x, info = post.project(y, return_info=True)
            np.testing.assert_allclose(x, expected.value, atol=1e-10 * abs(y).max())
            np.testing.assert_allclose(post.node_variance(), expected.variance, rtol=1e-9)
            assert info.iterations == 0
        np.testing.assert_allclose(post.variance_at(*[0] * count), expected.variance.flat[0])


@pytest.mark.parametrize("count", [2, 3])
def test_any_variances(count):
    rng = np.random.default_rng(count)
    for _ in range(15):
        trees = random_trees(rng, count)
        y = rng.normal(0, 10, [tree.n for tree in trees])
        s = np.exp(rng.normal(0, 1.5, y.shape))
        expected = crossed(trees, y, s)
        post = gm.CrossedConsistency(trees, s)
        x, info = post.project(y, return_info=True)
        np.testing.assert_allclose(x, expected.value, atol=1e-8 * abs(y).max())
        assert info.residual <= 1e-9
        np.testing.assert_allclose(post.node_variance(), expected.variance, rtol=1e-8)
        place = tuple(int(rng.integers(n)) for n in y.shape)
        assert post.variance_at(*place) == pytest.approx(expected.variance[place], rel=1e-7)


def test_missing_and_exact_values_among_any_variances():
    rng = np.random.default_rng(7)
    seen = 0
    for _ in range(60):
        trees = random_trees(rng, 2, most=7)
        truth = consistent(trees, rng)
        s = np.exp(rng.normal(0, 1, truth.shape))
        s[rng.random(s.shape) < 0.3] = np.inf
        s[rng.random(s.shape) < 0.1] = 0
        y = truth + np.where(np.isfinite(s), np.sqrt(np.where(np.isfinite(s), s, 0)), np.nan) * (
            rng.normal(size=s.shape)
        )
        expected = crossed(trees, np.nan_to_num(y), s)
        known = np.isfinite(expected.variance)
        measured = np.isfinite(s).astype(float)
        for axis, tree in enumerate(trees):
            above = leaf_sums(tree).T
            measured = np.moveaxis(np.tensordot(above, measured, (1, axis)), 0, axis)
        if (measured == 0).any():
            with pytest.raises(ValueError, match="could be anything"):
                gm.CrossedConsistency(trees, s)
            continue
        post = gm.CrossedConsistency(trees, s)
        x = post.project(y)
        scale = abs(expected.value).max()
        np.testing.assert_allclose(x[known], expected.value[known], atol=1e-8 * scale)
        variance = post.node_variance()
        np.testing.assert_array_equal(np.isfinite(variance), known)
        np.testing.assert_allclose(variance[known], expected.variance[known], rtol=1e-6, atol=1e-9)
        seen += 1
    assert seen > 20


def test_missing_rows_among_products_are_split_evenly():
    one, two = gm.shapes.star(3), gm.shapes.star(3)
    post = gm.CrossedConsistency([one, two], [[1.0, np.inf, np.inf], None])
    y = np.array([[9.0, 4.0, 2.0], [np.nan] * 3, [0.0, 1.0, 5.0]])
    x = post.project(y)
    np.testing.assert_allclose(x[1], x[2])
    np.testing.assert_allclose(x[0], gm.Consistency(two).project(y[0]))
    assert np.isinf(post.node_variance()[1:]).all()


def test_exact_rows_are_kept_or_refused():
    one, two = gm.shapes.star(3), gm.shapes.star(3)
    rng = np.random.default_rng(0)
    for variance in ([[0.0, 1.0, 2.0], None], np.array([[0.0] * 3, [1.0, 2, 3], [2.0, 1, 1]])):
        post = gm.CrossedConsistency([one, two], variance)
        y = rng.normal(size=(3, 3))
        y[0] = [5.0, 2.0, 3.0]
        x = post.project(y)
        np.testing.assert_allclose(x[0], y[0], atol=1e-9)
        y[0] = [5.0, 2.0, 4.0]
        out = np.full((3, 3), 7.0)
        with pytest.raises(ValueError, match=r"known exactly .* pair \(0, \d\)"):
            post.project(y, out=out)
        assert (out == 7).all()


@pytest.mark.parametrize("given", ["equal", "product", "any"])
def test_pairs_that_do_not_exist_are_no_part_of_the_problem(given):
    rng = np.random.default_rng(3)
    for _ in range(15):
        trees = random_trees(rng, 2)
        y = rng.normal(0, 10, [tree.n for tree in trees])
        variance = {
            "equal": None,
            "product": [{"node": np.exp(rng.normal(0, 1, tree.n))} for tree in trees],
            "any": np.exp(rng.normal(0, 1, y.shape)),
        }[given]
        s = np.ones(y.shape) if given == "equal" else variance
        s = reduce(np.multiply.outer, [a["node"] for a in s]) if given == "product" else s
        exists = rng.random([tree.n_leaves for tree in trees]) < 0.6
        exists.flat[0] = True
        expected = crossed(trees, y, s, exists)
        post = gm.CrossedConsistency(trees, variance, exists=exists)
        x = post.project(y)
        np.testing.assert_allclose(x, expected.value, atol=1e-8 * abs(y).max())
        assert (x[np.ix_(trees[0].leaves, trees[1].leaves)][~exists] == 0).all()
        np.testing.assert_allclose(post.node_variance(), expected.variance, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("given", ["equal", "any", "exists"])
def test_nonnegative_beside_nnls(given):
    rng = np.random.default_rng(4)
    for _ in range(8):
        trees = random_trees(rng, 2)
        y = rng.normal(1, 5, [tree.n for tree in trees])
        s = np.ones(y.shape) if given == "equal" else np.exp(rng.normal(0, 1, y.shape))
        exists = np.ones([tree.n_leaves for tree in trees], bool)
        if given == "exists":
            exists = rng.random(exists.shape) < 0.7
            exists.flat[0] = True
        S = reduce(np.kron, [leaf_sums(tree) for tree in trees]) * exists.ravel()
        best, _ = nnls(S / np.sqrt(s.reshape(-1, 1)), (y / np.sqrt(s)).ravel(), maxiter=10**5)
        post = gm.CrossedConsistency(trees, s, exists=exists)
        x, info = post.project(y, nonnegative=True, return_info=True)
        np.testing.assert_allclose(x.ravel(), S @ best, atol=1e-4)
        assert x.min() >= 0
        assert info.violation < 1e-4
        gap = 0.5 * np.sum((x - y) ** 2 / s) - 0.5 * np.sum((S @ best - y.ravel()) ** 2 / s.ravel())
        assert gap <= info.gap + 1e-9


def test_nonnegative_keeps_exact_values():
    rng = np.random.default_rng(0)
    one, two = gm.shapes.star(4), gm.shapes.star(3)
    s = np.ones((4, 3))
    s[0, 0] = s[1, 2] = 0
    y = rng.normal(0, 5, (4, 3))
    y[0, 0], y[1, 2] = 10, 3
    x = gm.CrossedConsistency([one, two], s).project(y, nonnegative=True)
    assert x[0, 0] == pytest.approx(10, abs=1e-5)
    assert x[1, 2] == pytest.approx(3, abs=1e-5)
    y[0, 0] = -1
    with pytest.raises(ValueError, match=r"pair \(0, 0\) is -1"):
        gm.CrossedConsistency([one, two], s).project(y, nonnegative=True)
    y[0, 0] = 1
    with pytest.raises(ValueError, match=r"pair .* is missed by"):
        gm.CrossedConsistency([one, two], s).project(y, nonnegative=True, iterations=50)


@pytest.mark.parametrize("shapes", [(40, 9), (5, 700), (3, 40, 9), (9, 4, 3)])
def test_every_axis_is_swept_as_consistency_does(shapes):
    rng = np.random.default_rng(1)
    trees = [gm.shapes.random_recursive(n, rng) for n in shapes]
    given = [{"node": rng.uniform(1, 2, n)} for n in shapes]
    y = rng.normal(size=shapes)
    x = y
    for axis, (tree, s) in enumerate(zip(trees, given, strict=True)):
        flat = np.moveaxis(x, axis, 0).reshape(tree.n, -1)
        moved = gm.Consistency(tree, s).project(np.ascontiguousarray(flat))
        x = np.moveaxis(moved.reshape(tree.n, *np.delete(shapes, axis)), 0, axis)
    for threads in (1, 2):
        post = gm.CrossedConsistency(trees, given, threads=threads)
        np.testing.assert_allclose(post.project(y), x, atol=1e-12)
    single = post.project(y.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, x, atol=1e-4)
    again = y.copy()
    np.testing.assert_array_equal(post.project(again, out=again), post.project(y))


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(0)
    trees = [gm.shapes.grouped(60_000, rng=0), gm.shapes.complete(3, 3)]
    y = rng.normal(size=(trees[0].n, trees[1].n))
    one, two = (gm.CrossedConsistency(trees, threads=k).project(y) for k in (1, 3))
    np.testing.assert_array_equal(one, two)


def test_without_a_factor_conjugate_gradients_find_the_same(monkeypatch):
    rng = np.random.default_rng(1)
    trees = [gm.shapes.grouped(20, rng=0), gm.shapes.grouped(20, rng=1)]
    s = np.exp(rng.normal(0, 1, [tree.n for tree in trees]))
    s[0, 1] = np.inf
    y, exists = rng.normal(size=s.shape), rng.random([tree.n_leaves for tree in trees]) < 0.9
    for mask in (None, exists):
        direct = gm.CrossedConsistency(trees, s, exists=mask).project(y)
        with monkeypatch.context() as patched:
            patched.setattr(solver, "MOST_OPERATIONS", -1)
            post = gm.CrossedConsistency(trees, s, exists=mask)
            x, info = post.project(y, return_info=True)
        assert 0 < info.iterations < 100
        assert info.residual <= 2e-10
        np.testing.assert_allclose(x, direct, atol=1e-8)


def test_not_converging_is_an_error(monkeypatch):
    rng = np.random.default_rng(0)
    trees = [gm.shapes.grouped(20, rng=0), gm.shapes.grouped(20, rng=1)]
    s = np.exp(rng.normal(0, 2, [tree.n for tree in trees]))
    monkeypatch.setattr(solver, "MOST_OPERATIONS", -1)
    post = gm.CrossedConsistency(trees, s)
    with pytest.raises(ConvergenceError, match=r"in 3 iterations, not 1\.0e-10"):
        post.project(rng.normal(size=s.shape), iterations=3)
    with pytest.raises(ValueError, match="Use variance_at"):
        post.node_variance()


def test_a_pair_of_leaves_that_nothing_measures_is_refused():
    s = np.ones((3, 3))
    s[:2, :2] = np.inf
    with pytest.raises(ValueError, match=r"neither pair \(1, 1\) nor any pair above it"):
        gm.CrossedConsistency([gm.shapes.star(3)] * 2, s)


STAR = gm.shapes.star(3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((STAR,), "'trees' must be a list of trees"),
        (([],), "at least one tree"),
        (([STAR, 3],), "entry 1 is a int"),
        (([STAR, STAR], [1.0]), r"one entry per tree \(2\), not 1"),
        (([STAR, STAR], [1.0, [1.0, -1.0, 1.0]]), r"node 1 has -1.0. \(tree 1\)"),
        (([STAR, STAR], np.ones((3, 4))), r"of shape \(3, 3\), not of shape \(3, 4\)"),
        (([STAR, STAR], np.diag([1.0, -1.0, 1.0])), r"pair \(1, 1\) has -1"),
        (([STAR, STAR], np.array("a")), "real numbers"),
        (
            ([STAR, STAR], [[0.0, 1, 1], [1.0, 1, np.inf]]),
            "not be 0 in one tree and inf in another",
        ),
    ],
)
def test_bad_problems(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        gm.CrossedConsistency(*arguments)


def test_bad_masks_and_measurements():
    with pytest.raises(TypeError, match="'exists' must hold bools"):
        gm.CrossedConsistency([STAR, STAR], exists=np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"one entry per pair of leaves \(2, 2\)"):
        gm.CrossedConsistency([STAR, STAR], exists=np.ones((3, 2), bool))
    with pytest.raises(ValueError, match="true for some pair"):
        gm.CrossedConsistency([STAR, STAR], exists=np.zeros((2, 2), bool))
    post = gm.CrossedConsistency([STAR, STAR])
    assert "products" in repr(post)
    y = np.ones((3, 3))
    y[1, 2] = np.nan
    for noisy, options, words in [
        (y, {}, r"finite; pair \(1, 2\) is nan"),
        (np.ones((3, 2)), {}, r"one value per pair \(3, 3\), not \(3, 2\)"),
        (np.ones((3, 3)), {"nonnegative": 2}, "True or False"),
        (np.ones((3, 3)), {"tolerance": -1.0}, "'tolerance' must be positive"),
        (np.ones((3, 3)), {"out": np.empty(3)}, "'out' must have shape"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            post.project(noisy, **options)
    with pytest.raises(ValueError, match="one for each tree"):
        post.variance_at(1)


@pytest.mark.parametrize("kind", ["products", "any", "exact", "missing pairs"])
def test_variances_under_other_noise(kind):
    rng = np.random.default_rng(5)
    for _ in range(6):
        trees = random_trees(rng, 2, most=6)
        shape = tuple(tree.n for tree in trees)
        s = np.exp(rng.normal(0, 1, shape))
        exists = None
        if kind == "products":
            s = np.multiply.outer(*(np.exp(rng.normal(0, 1, n)) for n in shape))
        elif kind == "exact":
            s[0, 0] = 0
        elif kind == "missing pairs":
            exists = rng.random([tree.n_leaves for tree in trees]) < 0.7
            exists[0, 0] = True
        post = gm.CrossedConsistency(trees, s, exists=exists)
        noise = rng.exponential(size=shape)
        # The matrix of the projection, from one measurement at a time.
        expected = np.zeros(shape)
        for place in np.ndindex(shape):
            unit = np.zeros(shape)
            unit[place] = 1
            expected += noise[place] * post.project(unit, tolerance=1e-12) ** 2
        np.testing.assert_allclose(post.node_variance(noise=noise), expected, rtol=1e-6, atol=1e-12)
    with pytest.raises(ValueError, match="'noise' must be one number or an array"):
        post.node_variance(noise=np.ones(3))
    with pytest.raises(ValueError, match="'noise' must be finite"):
        post.node_variance(noise=-1.0)


def test_frames_with_labels_are_refused():
    pd = pytest.importorskip("pandas")
    post, y = gm.CrossedConsistency([STAR, STAR]), np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(post.project(pd.DataFrame(y)), post.project(y))
    rows, columns = pd.DataFrame(y, index=list("cab")), pd.DataFrame(y, columns=list("cab"))
    for frame in (rows, columns, pd.DataFrame(y).iloc[[2, 0, 1]]):
        with pytest.raises(ValueError, match="'noisy' must have no labels of rows or columns"):
            post.project(frame)
        with pytest.raises(ValueError, match="'variance' must have no labels"):
            gm.CrossedConsistency([STAR, STAR], frame + 1)
        with pytest.raises(ValueError, match="'noise' must have no labels"):
            post.node_variance(frame)
    exists = pd.DataFrame(np.eye(2, dtype=bool), columns=["a", "b"])
    with pytest.raises(ValueError, match="'exists' must have no labels"):
        gm.CrossedConsistency([STAR, STAR], exists=exists)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("own", [1.0, 0.0, np.nan])
@pytest.mark.parametrize("none", [(2, 2), 2], ids=["a pair of leaves", "a leaf with its sum"])
def test_pairs_that_do_not_exist_may_hold_anything(nonnegative, own, none):
    rng = np.random.default_rng(3)
    s, y = np.exp(rng.normal(0, 1, (3, 3))), rng.normal(5, 3, (3, 3))
    exists = np.ones((3, 3), bool)
    exists[none] = False
    found = []
    for value in (0.0, np.nan, -7.0):
        s[none], y[none] = own, value
        post = gm.CrossedConsistency([STAR, STAR], s, exists=exists[1:, 1:])
        found.append(post.project(y, nonnegative=nonnegative))
        noise = np.where(np.isnan(y), np.nan, 1.0)
        np.testing.assert_allclose(post.node_variance(noise), post.node_variance(1.0))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    assert not found[0][none].any()
