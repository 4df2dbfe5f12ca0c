"""Families so large that equal rounding errors of all children would add up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference.consistency import per_node
from trees import large_shapes, named_shapes, renumber

import gmtree as gm
from gmtree import _sweep
from gmtree._kernels import projection as kernels
from gmtree.bench import bars

GIANT = 1 << 14
LONG = int(kernels.LONG)


def star(m: int) -> gm.Tree:
    return gm.shapes.star(m)


def spider(m: int) -> gm.Tree:
    """A root whose many children have one child each."""
    half = m // 2
    return gm.Tree.from_parents(np.r_[-1, np.zeros(half, int), 1 + np.arange(half)])


def broom(m: int) -> gm.Tree:
    """A root with many leaves and many pairs of leaves."""
    third = m // 6
    above = np.zeros(m - 2 * third - 1, int)
    pairs = above.size - third + 1 + np.repeat(np.arange(third), 2)
    return gm.Tree.from_parents(np.r_[-1, above, pairs])


def shuffled(m: int) -> gm.Tree:
    return gm.Tree.from_parents(renumber(broom(m).parent, np.random.default_rng(3).permutation(m)))


def two_heights(m: int) -> gm.Tree:
    """Two families, one giant and one small, each of leaves and of nodes with one child.

    By position, children of the small family stand between two kinds of children of the other.
    """
    third = m // 3 + 37
    few = [1] * 50
    above = np.r_[-1, 0, 0, np.full(2 * third, 2), few, few]
    legs = np.r_[3 + np.arange(third), 3 + 2 * third + np.arange(50)]
    return gm.Tree.from_parents(np.r_[above, legs])


def sizes_mixed(m: int) -> gm.Tree:
    """Families of 3 to 40 leaves."""
    size = np.random.default_rng(5).integers(3, 41, m // 22)
    return gm.Tree.from_parents(
        np.r_[-1, np.zeros(size.size, int), np.repeat(1 + np.arange(size.size), size)]
    )


SHAPES = [star, spider, broom, shuffled, two_heights]


def gaps(tree: gm.Tree, v: np.ndarray, x: np.ndarray, s: np.ndarray | None = None) -> np.ndarray:
    """|parent - sum of children| of x, relative to the sum of the sizes of the children.

    The size of a child is the larger one of |x| and |v|; where it was not measured, the sum of the
    sizes of its own children stands for |v|. Sums are correctly rounded.
    """
    start, child = tree._children
    size = np.maximum(np.abs(v), np.abs(x)).astype(float)
    missing = np.zeros(tree.n, bool) if s is None else np.isinf(s)
    size[missing] = np.abs(x[missing])
    gap = np.zeros(tree.n)
    for i in tree.order[: tree.n_internal][::-1].tolist():
        family = child[start[i] : start[i + 1]]
        below = size[family].sum()
        gap[i] = abs(math.fsum([x[i], *(-x[family]).tolist()])) / max(below, 1e-300)
        if missing[i]:
            size[i] = max(size[i], below)
    return gap[tree.internal]


def measurements(tree: gm.Tree, kind: str) -> np.ndarray:
    v = np.random.default_rng(0).standard_normal(tree.n)
    if kind == "beside 1e9":
        return np.where(np.random.default_rng(1).random(tree.n) < 0.01, 1e9, 1.0) * v
    # A mean other than zero: parents disagree with their children by much more than they are.
    return v + {"noise": 0.0, "offset": 0.3}[kind]


def variances(tree: gm.Tree, kind: str) -> np.ndarray | None:
    rng = np.random.default_rng(2)
    if kind == "mixed":
        return rng.choice([0.0, 0.1, 1.0, 1e3, np.inf], tree.n, p=[0, 0.3, 0.3, 0.2, 0.2])
    return {"equal": None, "tenth": np.full(tree.n, 0.1), "node": rng.uniform(0.5, 2, tree.n)}[kind]


@pytest.mark.parametrize("values", ["noise", "offset", "beside 1e9"])
@pytest.mark.parametrize("variance", ["equal", "tenth", "node", "mixed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_parents_are_sums_of_very_many_children(shape, variance, values):
    tree = shape(6 * GIANT)
    s = variances(tree, variance)
    if s is not None and variance == "mixed":
        s[tree.root] = 1
    v = measurements(tree, values)
    x = gm.reconcile(tree, v, s)
    assert gaps(tree, v, x, s).max() <= 1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_float32(shape):
    tree = shape(3 * GIANT)
    v = measurements(tree, "offset").astype(np.float32)
    x = gm.reconcile(tree, v)
    assert x.dtype == np.float32
    assert gaps(tree, v, x.astype(float)).max() <= 1e-6
    precise = gm.reconcile(tree, v.astype(float))
    np.testing.assert_allclose(x, precise, rtol=0, atol=1e-6 * np.abs(x).max())


def test_small_families_below_giant_ones_stay_consistent():
    tree = spider(6 * GIANT)
    x = gm.reconcile(tree, measurements(tree, "offset"))
    below = np.flatnonzero(tree.parent > 0)
    np.testing.assert_allclose(x[tree.parent[below]], x[below], rtol=0, atol=1e-15)


@pytest.mark.parametrize("m", [GIANT, 6 * GIANT])
@pytest.mark.parametrize("variance", ["equal", "node"])
def test_equal_children_among_large_ones_stay_equal(m, variance):
    """Small children must not absorb the rounding error of a sum of large values."""
    tree = star(m)
    small = np.arange(m) % 100 == 7
    s = variances(tree, variance)
    if s is not None:
        s[small] = 1
    for seed in range(3):
        v = 1e9 * np.random.default_rng(seed).standard_normal(m)
        v[small] = 1
        x = gm.reconcile(tree, v, s)
        # The large values do not add up, so that there is a difference to share.
        assert np.all(abs(x[small] - 1) > 1e4)
        assert np.ptp(x[small]) == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variance", ["equal", "node"])
def test_columns(shape, variance):
    """Also for numbers whose rounding does not average out: a tenth, added up many times."""
    tree = shape(12 * GIANT)
    s = variances(tree, variance)
    noisy = np.stack([measurements(tree, "offset"), np.full(tree.n, 0.1)], axis=1)
    x = gm.reconcile(tree, noisy, s)
    for column, values in zip(noisy.T, x.T, strict=True):
        assert gaps(tree, column, values).max() <= 3e-13
        one = gm.reconcile(tree, np.ascontiguousarray(column), s)
        np.testing.assert_allclose(values, one, rtol=0, atol=1e-10)


def test_exactly_known_children_are_kept():
    tree = star(2 * GIANT)
    v = measurements(tree, "offset")
    s = np.ones(tree.n)
    s[1::2] = 0
    s[GIANT // 2 : GIANT] = 0
    x = gm.reconcile(tree, v, s)
    np.testing.assert_array_equal(x[s == 0], v[s == 0])
    assert gaps(tree, v, x, s)[0] <= 1e-12


def test_undetermined_children_share_evenly():
    tree = star(2 * GIANT)
    v = measurements(tree, "offset")
    s = np.ones(tree.n)
    s[1 : GIANT + 1] = np.inf
    x = gm.reconcile(tree, v, s)
    assert gaps(tree, v, x, s)[0] <= 1e-12
    assert np.ptp(x[1 : GIANT + 1]) <= 1e-12
    np.testing.assert_array_equal(x[GIANT + 1 :], v[GIANT + 1 :])


@pytest.mark.parametrize("size", [LONG - 1, LONG, LONG + 1, 3 * LONG + 5])
@pytest.mark.parametrize("variance", ["equal", "node"])
@pytest.mark.parametrize("below", [0, 1])
def test_families_about_as_long_as_a_stretch(size, variance, below):
    """Two families of `size` children after other nodes, at any offset from a stretch."""
    rng = np.random.default_rng(size)
    for before in (0, 1, LONG // 2):
        parent = [-1, 0, 0, *[0] * before, *[1] * size, *[2] * size]
        legs = np.arange(3 + before, len(parent))
        parent = np.r_[parent, np.repeat(legs, below)]
        tree = gm.Tree.from_parents(parent)
        v, s = rng.standard_normal(tree.n), variances(tree, variance)
        dense = gm.baselines.dense(tree, v, s)
        np.testing.assert_allclose(gm.reconcile(tree, v, s), dense, rtol=0, atol=1e-11)


@pytest.mark.parametrize("variance", ["equal", "node"])
@pytest.mark.parametrize("shape", [*SHAPES, sizes_mixed])
def test_threads_do_not_change_a_bit(shape, variance, monkeypatch):
    monkeypatch.setattr(_sweep, "SMALLEST_SHARED_LEVEL", 64)
    tree = gm.Tree.from_parents(shape(3 * GIANT).parent)
    assert any(shared for _, _, shared in tree._layout.segments)
    v, s = measurements(tree, "offset"), variances(tree, variance)
    for noisy in (v, np.stack([v, -v], axis=1)):
        one = gm.reconcile(tree, noisy, s, threads=1)
        for threads in (2, 3, 4, 5):
            assert gm.reconcile(tree, noisy, s, threads=threads).tobytes() == one.tobytes()


@pytest.mark.large
@pytest.mark.parametrize("name", named_shapes(10))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_on_large_trees_are_as_good_as_documented(name, dtype):
    tree = large_shapes()[name]
    limit = {np.float64: 1e-12, np.float32: 1e-6}[dtype]
    for variance in ("equal", "node"):
        s = variances(tree, variance)
        post = gm.Consistency(tree, per_node(s))
        for values in ("noise", "offset", "beside 1e9"):
            v = measurements(tree, values).astype(dtype)
            x = post.project(v)
            assert bars._largest_gap(post, v, x) <= limit


@pytest.mark.parametrize("name", ["binary", "caterpillar", "grouped, depth first"])
def test_sums_with_variances_of_many_magnitudes(name):
    tree = named_shapes(20_000)[name]
    variance = 10.0 ** np.random.default_rng(3).uniform(-8, 8, tree.n)
    post = gm.Consistency(tree, variance)
    v = measurements(tree, "beside 1e9")
    assert bars._largest_gap(post, v, post.project(v)) <= 1e-12
