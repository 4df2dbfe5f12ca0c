"""Families so large that rounding which is the same for all children would add up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from trees import renumber

import gmtree as gm
from gmtree import _sweep, consistency
from gmtree._kernels import consistency as kernels

GIANT = 2 * consistency.GIANT_FAMILY  # any so large has an aligned stretch of half that size
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


def gaps(tree: gm.Tree, x: np.ndarray) -> np.ndarray:
    """parent - sum of children, with the sums correctly rounded."""
    start, child = tree._children
    return np.array(
        [
            abs(math.fsum([x[i], *(-x[child[start[i] : start[i + 1]]]).tolist()]))
            for i in tree.internal.tolist()
            if start[i + 1] - start[i] > 1
        ]
    )


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
    x = gm.consistent(tree, measurements(tree, values), s)
    assert gaps(tree, x).max() <= 1e-12 * np.abs(x).max() * tree.height


@pytest.mark.parametrize("shape", SHAPES)
def test_settling_moves_nothing_that_matters(shape, monkeypatch):
    tree = shape(6 * GIANT)
    v = measurements(tree, "offset")
    settled = gm.consistent(tree, v)
    monkeypatch.setattr(consistency, "GIANT_FAMILY", tree.n)
    np.testing.assert_allclose(settled, gm.consistent(tree, v), rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_float32(shape):
    tree = shape(3 * GIANT)
    v = measurements(tree, "offset").astype(np.float32)
    x = gm.consistent(tree, v)
    assert x.dtype == np.float32
    assert gaps(tree, x.astype(float)).max() <= 1e-6 * np.abs(x).max()
    precise = gm.consistent(tree, v.astype(float))
    np.testing.assert_allclose(x, precise, rtol=0, atol=1e-6 * np.abs(x).max())


def test_small_families_below_giant_ones_stay_consistent():
    tree = spider(6 * GIANT)
    x = gm.consistent(tree, measurements(tree, "offset"))
    below = np.flatnonzero(tree.parent > 0)
    np.testing.assert_allclose(x[tree.parent[below]], x[below], rtol=0, atol=1e-15)


def test_nearly_exact_children_hardly_move():
    """Of many children the least known takes what is left of all."""
    tree = star(2 * GIANT)
    v = measurements(tree, "beside 1e9")
    s = np.where(np.arange(tree.n) % 16 == 15, 1e-12, 1e12)
    v[s < 1] = 1
    x = gm.consistent(tree, v, s)
    np.testing.assert_allclose(x[s < 1], v[s < 1], rtol=1e-15)
    assert gaps(tree, x)[0] <= 1e-12 * np.abs(x).max() * tree.height


def test_small_children_among_large_ones_hardly_move():
    """What rounding leaves of large values is not for small ones to take."""
    for tree, level in ((star(GIANT), slice(1, None)), (spider(GIANT), slice(1, GIANT // 2 + 1))):
        v = np.full(tree.n, 1e9 / 3)
        v[::100] = 1
        v[tree.root] = v[level].sum() + 1e6 / 7
        x, one = gm.consistent(tree, v), np.flatnonzero(v == 1)
        # Equal siblings get equal values, up to rounding of their own size.
        leaves = one[tree.parent[one] == 0]
        assert np.ptp(x[leaves]) <= 1e-13


def test_columns():
    tree = star(2 * GIANT)
    v = measurements(tree, "offset")
    columns = gm.consistent(tree, np.stack([v, 2 * v], axis=1))
    for x in columns.T:
        assert gaps(tree, x)[0] <= 1e-12 * np.abs(x).max() * tree.height


def test_exactly_known_children_are_kept():
    tree = star(2 * GIANT)
    v = measurements(tree, "offset")
    s = np.ones(tree.n)
    s[1::2] = 0
    s[GIANT // 2 : GIANT] = 0
    x = gm.consistent(tree, v, s)
    np.testing.assert_array_equal(x[s == 0], v[s == 0])
    assert gaps(tree, x)[0] <= 1e-12 * np.abs(x).max() * tree.height


def test_undetermined_children_share_evenly():
    tree = star(2 * GIANT)
    v = measurements(tree, "offset")
    s = np.ones(tree.n)
    s[1 : GIANT + 1] = np.inf
    x = gm.consistent(tree, v, s)
    assert gaps(tree, x)[0] <= 1e-12 * np.abs(x).max() * tree.height
    assert np.ptp(x[1 : GIANT + 1]) <= 1e-12
    np.testing.assert_array_equal(x[GIANT + 1 :], v[GIANT + 1 :])


@pytest.mark.parametrize("size", [LONG - 1, LONG, LONG + 1, 2 * LONG, 3 * LONG + 5])
@pytest.mark.parametrize("variance", ["equal", "node"])
@pytest.mark.parametrize("below", [0, 1, 2])
def test_families_about_as_long_as_a_stretch(size, variance, below):
    """Two such families, behind some other nodes, at whatever offset from a stretch."""
    rng = np.random.default_rng(size)
    for before in (0, 1, LONG // 2):
        parent = [-1, 0, 0, *[0] * before, *[1] * size, *[2] * size]
        legs = np.arange(3 + before, len(parent))
        parent = np.r_[parent, np.repeat(legs, below)]
        tree = gm.Tree.from_parents(parent)
        v, s = rng.standard_normal(tree.n), variances(tree, variance)
        dense = gm.baselines.dense(tree, v, s)
        np.testing.assert_allclose(gm.consistent(tree, v, s), dense, rtol=0, atol=1e-11)


@pytest.mark.parametrize("variance", ["equal", "node"])
@pytest.mark.parametrize("shape", [*SHAPES, sizes_mixed])
def test_threads_do_not_change_a_bit(shape, variance, monkeypatch):
    monkeypatch.setattr(_sweep, "SMALLEST_SHARED_LEVEL", 64)
    tree = gm.Tree.from_parents(shape(3 * GIANT).parent)
    assert any(shared for _, _, shared in tree._layout.segments)
    v, s = measurements(tree, "offset"), variances(tree, variance)
    one = gm.consistent(tree, v, s, threads=1)
    for threads in (2, 3, 4, 5):
        assert gm.consistent(tree, v, s, threads=threads).tobytes() == one.tobytes()
