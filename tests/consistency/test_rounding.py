"""Whole numbers: floors or ceilings, exact sums, and documented ties and probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import bounded as slow
from reference.bounded import KINDS, noisy_counts, random_problem
from reference.consistency import per_node
from trees import all_parents, large_shapes, named_shapes, renumber, trees

import gmtree as gm
from gmtree.consistency import rounding
from gmtree.tree.families import Families

SEEDS = st.integers(0, 2**32 - 1)
HOW = (True, "random")
STAR = gm.shapes.star(4)


def rounded(tree: gm.Tree, x: np.ndarray, how: bool | str = True, rng=0) -> np.ndarray:
    """Whole numbers for values that are consistent already."""
    return rounding.round_consistent(tree, Families.of(tree), x, how, rng)


def assert_whole(tree: gm.Tree, k: np.ndarray, x: np.ndarray) -> None:
    """Check that the result is int64, adds up, and is less than 1 away from x everywhere."""
    assert k.dtype == np.int64
    assert k.shape == x.shape
    if tree.n > 1:
        assert not np.any(gm.ConstraintMatrix(tree).T @ k)
    for column, values in zip(k.reshape(tree.n, -1).T, x.reshape(tree.n, -1).T, strict=True):
        low, high = np.floor(values), np.ceil(values)
        assert np.all((low <= column) & (column <= high))


# --------------------------------------------------------------------------- every node, every sum


@given(SEEDS, st.sampled_from(KINDS), st.sampled_from(HOW), st.booleans())
def test_floor_or_ceiling_with_exact_sums(seed, kind, how, bounded):
    problem = random_problem(np.random.default_rng(seed), kind=kind)
    lower = problem.lower if bounded else None
    post = problem.solver
    x = post.project(problem.v, lower=lower)
    k = post.project(problem.v, lower=lower, integer=how, rng=1)
    assert_whole(problem.tree, k, x)


@given(SEEDS, st.sampled_from(KINDS))
def test_not_negative(seed, kind):
    problem = random_problem(np.random.default_rng(seed), kind=kind)
    post = problem.solver
    v = np.where(problem.s == 0, problem.tree.aggregate(np.ones(problem.lower.size)), problem.v)
    x = post.project(v, nonnegative=True)
    for how in HOW:
        k = post.project(v, nonnegative=True, integer=how, rng=1)
        assert_whole(problem.tree, k, x)
        assert np.all(k >= 0)


@given(trees(30), SEEDS, st.sampled_from([1, 2, 3, 10, None]))
def test_largest_fractions(tree, seed, parts):
    """Compared with a loop over nodes; coarse fractions produce many ties."""
    rng = np.random.default_rng(seed)
    leaf_values = rng.normal(0, 5, tree.n_leaves)
    if parts is not None:
        leaf_values = np.round(leaf_values * parts) / parts
    x = tree.aggregate(leaf_values)
    k = rounded(tree, x)
    assert k.tolist() == slow.round_largest(tree.parent, x)
    assert_whole(tree, k, x)


def test_all_small_trees():
    rng = np.random.default_rng(0)
    for n in range(1, 7):
        for ordered in all_parents(n):
            parent = renumber(ordered, rng.permutation(n))
            tree = gm.Tree.from_parents(parent)
            x = tree.aggregate(rng.integers(-8, 9, tree.n_leaves) / 4)
            assert rounded(tree, x).tolist() == slow.round_largest(parent, x)
            assert_whole(tree, rounded(tree, x, "random", n), x)


@pytest.mark.parametrize("how", HOW)
def test_named_shapes(how):
    rng = np.random.default_rng(1)
    for tree in named_shapes(3000).values():
        post = gm.Consistency(tree)
        v = noisy_counts(tree, rng)
        for nonnegative in (False, True):
            x = post.project(v, nonnegative=nonnegative)
            k = post.project(v, nonnegative=nonnegative, integer=how, rng=2)
            assert_whole(tree, k, x)
            if how is True:
                np.testing.assert_array_equal(k, rounded(tree, x))


def test_whole_numbers_are_left_alone():
    rng = np.random.default_rng(2)
    for tree in named_shapes(500).values():
        counts = tree.aggregate(rng.integers(-(10**6), 10**6, tree.n_leaves))
        for how in HOW:
            np.testing.assert_array_equal(gm.reconcile(tree, counts, integer=how), counts)


# --------------------------------------------------------------------------- ties


@pytest.mark.parametrize(
    ("leaf_values", "expected"),
    [
        ([0.5, 0.5], [1, 1, 0]),
        ([0.5, 0.5, 0.5], [2, 1, 1, 0]),  # a half goes up at the root
        ([-0.5, -0.5, -0.5], [-1, 0, 0, -1]),
        ([0.2, 0.6, 0.2], [1, 0, 1, 0]),
        ([0.25, 0.25], [1, 1, 0]),
        ([0.2, 0.2], [0, 0, 0]),
        ([1 / 3, 1 / 3, 1 / 3], [1, 1, 0, 0]),
        ([2.75, -0.25, -2.25], [0, 3, 0, -3]),
    ],
)
def test_ties_go_to_the_smallest_number(leaf_values, expected):
    tree = gm.shapes.star(len(leaf_values) + 1)
    assert rounded(tree, tree.aggregate(leaf_values)).tolist() == expected
    # Ties depend on numbers, not on positions: the same leaves in reverse, with the root last.
    n = tree.n
    upside_down = gm.Tree.from_parents(np.r_[np.full(n - 1, n - 1), -1])
    x = np.r_[np.array(leaf_values), np.sum(leaf_values)]
    assert rounded(upside_down, x).tolist() == [*expected[1:], expected[0]]


def test_the_last_digits_decide_no_tie():
    """Thirds that floating point rounds differently are still a tie."""
    a, b = np.nextafter(2 / 3, 0), np.nextafter(2 / 3, 1)
    for first, second in ((a, b), (b, a)):
        assert rounded(STAR, np.array([4 / 3, first, second, 0])).tolist() == [1, 1, 0, 0]
    # As in a projection: 8/3 and 2/3 have the same fraction.
    k = gm.reconcile(STAR, [2.0, 3.0, 1.0, -4.0], nonnegative=True, integer=True)
    assert k.tolist() == [3, 3, 0, 0]
    # A half with a rounding error is rounded up, too.
    x = np.array([np.nextafter(2.5, 0), 1.25, 1.25, 0])
    assert rounded(STAR, x).tolist() == [3, 2, 1, 0]


def test_a_half_is_a_half_to_the_last_of_thirty_digits():
    """At the root, too, fractions count in steps of 2**-30, and halves are rounded up."""
    tree = gm.shapes.chain(1)
    for below, up in ((2.0**-32, 1), (2.0**-31, 1), (2.0**-30, 0), (2.0**-21, 0)):
        x = np.array([7.5 - below])
        assert rounded(tree, x).tolist() == [7 + up]
        assert slow.round_largest(tree.parent, x) == [7 + up]


def test_which_node_an_error_names():
    tree = gm.Tree.from_parents([2, 2, -1])
    with pytest.raises(ValueError, match="node 1 is not"):
        rounded(tree, np.array([0, 2.0**53 + 2, 2.0**53 + 2]))
    with pytest.raises(ValueError, match=r"node 2 is 9, but its children cannot be rounded"):
        rounded(tree, np.array([3.5, 3.5, 9]))


def test_large_families():
    """Families of many sizes, with more and fewer units than takers, some fractions alike."""
    rng = np.random.default_rng(3)
    for m in (1, 2, 3, 10, 100, 1000):
        for spread in (1e-8, 0.01, 1):
            leaf_values = rng.integers(-3, 4, m) + rng.random() + spread * rng.random(m)
            tree = gm.shapes.star(m + 1)
            x = tree.aggregate(leaf_values)
            k = rounded(tree, x)
            assert k.tolist() == slow.round_largest(tree.parent, x)


# --------------------------------------------------------------------------- near whole numbers


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("noise", [1e-16, 1e-13, 1e-10])
def test_whole_but_for_rounding(how, noise):
    """Values off by a rounding error become the whole numbers they were."""
    rng = np.random.default_rng(4)
    for tree in named_shapes(300).values():
        counts = tree.aggregate(rng.integers(-3, 4, tree.n_leaves))
        for _ in range(5):
            x = counts + noise * rng.standard_normal(tree.n)
            # At random, a value with a tiny error is rounded wrongly with a tiny probability.
            np.testing.assert_array_equal(rounded(tree, x, how, rng), counts)


def test_thirds_that_add_up():
    """Each leaf is a third, and the sums are whole except for rounding, on many levels."""
    tree = gm.shapes.complete(3, 7)
    x = gm.reconcile(tree, tree.aggregate(np.full(tree.n_leaves, 1 / 3)))
    whole = np.round(x)
    near = np.abs(x - whole) < 1e-9
    assert near.sum() == tree.n_internal
    for how in HOW:
        k = rounded(tree, x, how)
        assert not np.any(gm.ConstraintMatrix(tree).T @ k)
        np.testing.assert_array_equal(k[near], whole[near])
        assert set(k[tree.leaves]) == {0, 1}


@pytest.mark.parametrize("how", HOW)
def test_known_totals_are_kept(how):
    """A count that is known exactly does not change, and its children add up to it."""
    rng = np.random.default_rng(5)
    for tree in named_shapes(400).values():
        true = tree.aggregate(rng.poisson(1, tree.n_leaves))
        known = rng.random(tree.n) < 0.2
        s = np.where(known, 0, rng.uniform(0.1, 10, tree.n))
        v = true + np.where(known, 0, rng.laplace(0, 3, tree.n))
        k = gm.reconcile(tree, v, per_node(s), nonnegative=True, integer=how, rng=6)
        np.testing.assert_array_equal(k[known], true[known])
        assert np.all(k >= 0)
        assert not np.any(gm.ConstraintMatrix(tree).T @ k)


def test_zero_stays_zero():
    """A tiny number of either sign below a zero, as rounding leaves them."""
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    x = np.array([0, 1e-17, -1e-17, -3e-17, 4e-17])
    for how in HOW:
        assert rounded(tree, x, how).tolist() == [0, 0, 0, 0, 0]


# --------------------------------------------------------------------------- large numbers


@pytest.mark.parametrize("how", HOW)
def test_as_large_as_they_can_be(how):
    """Up to 2**53 sums of whole numbers are exact."""
    large = 2**53
    for leaf_values in ([large - 5, 5, 0], [-large + 1, 1, -2], [large, -large, 1]):
        x = STAR.aggregate(leaf_values)
        k = gm.reconcile(STAR, x, [0, 0, 0, 0], integer=how)
        assert k.tolist() == x.tolist()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("sign", [1, -1])
def test_too_large(how, sign):
    x = sign * np.array([2.0**53 + 2, 2.0**53, 2.0, 0.0])
    out = np.full(4, 7)
    with pytest.raises(ValueError, match=r"'noisy' must be below 2\*\*53 .*; node 0 is not") as e:
        gm.reconcile(STAR, x, 0, integer=how, out=out)
    assert isinstance(e.value, OverflowError)
    assert out.tolist() == [7] * 4


def test_large_with_fractions():
    """Near 2**51 floats still have quarters; errors of projection are about as large."""
    rng = np.random.default_rng(7)
    for tree in named_shapes(200).values():
        v = tree.aggregate(rng.random(tree.n_leaves) * 2.0**47 / tree.n_leaves)
        post = gm.Consistency(tree)
        assert_whole(tree, post.project(v, integer=True), post.project(v))


def test_values_that_do_not_add_up():
    """Differences that pass as rounding of known values may be too large for whole numbers."""
    s, v = 0, np.array([1e13 + 50, 5e12 + 0.5, 5e12 - 0.5, 0])
    assert gm.reconcile(STAR, v, s)[0] == 1e13 + 50
    out = np.full(4, 7)
    with pytest.raises(
        ValueError, match="node 0 is 10000000000050, but its children cannot be rounded"
    ):
        gm.reconcile(STAR, v, s, integer=True, out=out)
    assert out.tolist() == [7] * 4


# --------------------------------------------------------------------------- random rounding


def simulate(tree: gm.Tree, x: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Mean of many random roundings of x."""
    rng = np.random.default_rng(seed)
    families = Families.of(tree)
    total = np.zeros(tree.n)
    for _ in range(draws):
        k = rounding.round_consistent(tree, families, x, "random", rng)
        total += k - np.floor(x)
    return total / draws


def binary_trees_and_others() -> dict[str, gm.Tree]:
    shapes = named_shapes(40)
    return {name: shapes[name] for name in ("star", "caterpillar", "binary", "random, shuffled")}


@pytest.mark.parametrize("name", binary_trees_and_others())
@pytest.mark.parametrize("whole_root", [False, True])
def test_expectations_are_the_values(name, whole_root):
    """Each node is rounded up with the probability given by its fraction.

    By Hoeffding's bound a mean of 4000 draws is off by more than 0.05 with a chance below
    2 exp(-2 * 4000 * 0.05**2) = 4e-9; there are some 300 means in all, and the seeds are fixed.
    """
    tree = binary_trees_and_others()[name]
    rng = np.random.default_rng(8)
    leaf_values = rng.normal(0, 3, tree.n_leaves)
    if whole_root:
        leaf_values[-1] += np.round(leaf_values.sum()) - leaf_values.sum()
    x = tree.aggregate(leaf_values)
    if whole_root:
        x[tree.root] = np.round(x[tree.root])
    found = simulate(tree, x, 4000, 9)
    assert np.abs(found - (x - np.floor(x))).max() <= 0.05


@pytest.mark.parametrize("total", [3.0, np.nextafter(3, 0), np.nextafter(3, 4)])
def test_chances_below_a_whole_total(total):
    """The fractions may add up to just below or above the total: no leaf is at a disadvantage.

    The same bound as above for ten means.
    """
    tree = gm.shapes.star(6)
    sums = []
    for leaf_values in ([0.3, 0.9, 0.9, 0.7, 0.2], [0.1, 0.4, 0.9, 0.7, 0.9]):
        # Rounded after each step: the `sum` of Python 3.12 and later adds more exactly.
        sums.append(np.cumsum(leaf_values)[-1])
        x = np.array([total, *leaf_values])
        found = simulate(tree, x, 4000, 10)
        assert np.abs(found[1:] - leaf_values).max() <= 0.05
    assert min(sums) < 3 <= max(sums)


def test_expectations_of_a_projection():
    """From measurements to whole numbers, with and without bounds; the bound as above."""
    tree = gm.shapes.grouped(12, rng=3)
    v = np.random.default_rng(11).normal(1, 2, tree.n)
    post, rng = gm.Consistency(tree), np.random.default_rng(12)
    for nonnegative in (False, True):
        x = post.project(v, nonnegative=nonnegative)
        columns = np.repeat(v[:, None], 4000, axis=1)
        k = post.project(columns, nonnegative=nonnegative, integer="random", rng=rng)
        assert_whole(tree, k, np.repeat(x[:, None], 4000, axis=1))
        assert np.abs(k.mean(axis=1) - x).max() <= 0.05


def test_seeds():
    tree = gm.shapes.grouped(200, rng=1)
    v = np.random.default_rng(13).normal(1, 2, tree.n)
    post = gm.Consistency(tree)

    def draw(rng) -> np.ndarray:
        return post.project(v, integer="random", rng=rng)

    np.testing.assert_array_equal(draw(5), draw(5))
    np.testing.assert_array_equal(draw(np.random.default_rng(5)), draw(5))
    assert np.any(draw(5) != draw(6))
    assert np.any(draw(None) != draw(None))
    generator = np.random.default_rng(5)
    assert np.any(draw(generator) != draw(generator))


def test_largest_fractions_ignore_the_seed():
    tree = gm.shapes.grouped(200, rng=1)
    v = np.random.default_rng(14).normal(1, 2, tree.n)
    first = gm.reconcile(tree, v, integer=True, rng=1)
    np.testing.assert_array_equal(gm.reconcile(tree, v, integer=True, rng=2), first)
    np.testing.assert_array_equal(gm.reconcile(tree, v, integer=True), first)


# --------------------------------------------------------------------------- forms of input


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_columns(how, nonnegative):
    rng = np.random.default_rng(15)
    for tree in named_shapes(100).values():
        post, v = gm.Consistency(tree), rng.normal(1, 2, (tree.n, 3))
        k = post.project(v, nonnegative=nonnegative, integer=how, rng=3)
        assert_whole(tree, k, post.project(v, nonnegative=nonnegative))
        if how is True:
            for column, values in zip(k.T, v.T, strict=True):
                one = post.project(values, nonnegative=nonnegative, integer=True)
                np.testing.assert_array_equal(column, one)
        # Columns are drawn one after the other from one generator.
        generator = np.random.default_rng(3)
        each = [
            post.project(values, nonnegative=nonnegative, integer=how, rng=generator)
            for values in v.T
        ]
        np.testing.assert_array_equal(k, np.stack(each, axis=1))
    assert gm.reconcile(STAR, np.zeros((4, 0)), integer=how).shape == (4, 0)


def test_float32_is_summed_in_float64():
    """Sums near 10**8 have no units in float32, but are exact in the result."""
    rng = np.random.default_rng(16)
    tree = gm.shapes.complete(10, 4)
    v = tree.aggregate(rng.random(tree.n_leaves) * 1e5).astype(np.float32)
    x = gm.reconcile(tree, v.astype(float), nonnegative=True)
    k, info = gm.Consistency(tree).project(v, nonnegative=True, integer=True, return_info=True)
    assert_whole(tree, k, x)
    assert info.violation <= 1e-12 * x.max()


@pytest.mark.parametrize("how", HOW)
def test_out(how):
    v = np.array([2.0, 3.0, 1.0, -4.0])
    expected = gm.reconcile(STAR, v, nonnegative=True, integer=how, rng=1)
    for out in (np.zeros(4, np.int64), np.zeros(8, np.int64)[::2]):
        found = gm.reconcile(STAR, v, nonnegative=True, integer=how, rng=1, out=out)
        assert found is out
        np.testing.assert_array_equal(out, expected)
    for dtype in (np.float64, np.int32):
        with pytest.raises(ValueError, match=r"'out' must have shape \(4,\) and dtype int64"):
            gm.reconcile(STAR, v, integer=how, out=np.zeros(4, dtype))
    assert v.tolist() == [2, 3, 1, -4]


def test_info_is_that_of_the_optimum():
    post = gm.Consistency(STAR)
    v = [2.0, 3.0, 1.0, -4.0]
    _, info = post.project(v, nonnegative=True, return_info=True)
    _, whole = post.project(v, nonnegative=True, integer=True, return_info=True)
    assert whole == info


@pytest.mark.parametrize("how", ["largest", 1, None, "True", 0.5])
def test_unknown_ways(how):
    with pytest.raises(ValueError, match="'integer' must be True, False or 'random', not"):
        gm.reconcile(STAR, np.zeros(4), integer=how)


def test_numpy_booleans():
    v = [2.0, 3.0, 1.0, -4.0]
    assert gm.reconcile(STAR, v, integer=np.True_).dtype == np.int64
    assert gm.reconcile(STAR, v, integer=np.False_).dtype == np.float64


def test_single_node():
    tree = gm.shapes.chain(1)
    assert gm.reconcile(tree, [2.5], integer=True).tolist() == [3]
    assert gm.reconcile(tree, [2.4], integer=True).tolist() == [2]
    assert gm.reconcile(tree, [-2.5], integer=True).tolist() == [-2]
    assert gm.reconcile(tree, [-2.5], integer=True, nonnegative=True).tolist() == [0]
    assert {gm.reconcile(tree, [2.5], integer="random", rng=i)[0] for i in range(20)} == {2, 3}


def test_bounds_that_are_not_whole():
    """The floor of a bound is the least whole number a leaf can get."""
    lower = [0.5, 0.5, 3.0]
    k = gm.reconcile(STAR, [0.0, 0, 0, 0], lower=lower, integer=True)
    assert k.tolist() == [4, 1, 0, 3]
    assert np.all(k[1:] >= np.floor(lower))


# --------------------------------------------------------------------------- large trees


@pytest.mark.large
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("name", named_shapes(3))
def test_large_trees(name, nonnegative, how):
    tree = large_shapes()[name]
    rng = np.random.default_rng(18)
    counts = np.where(rng.random(tree.n_leaves) < 0.4, 0, rng.geometric(0.02, tree.n_leaves))
    v = tree.aggregate(counts) + rng.laplace(0, 8, tree.n)
    post = gm.Consistency(tree)
    x = post.project(v, nonnegative=nonnegative)
    k = post.project(v, nonnegative=nonnegative, integer=how, rng=19)
    assert_whole(tree, k, x)
    assert not nonnegative or np.all(k >= 0)
    if how is True:
        np.testing.assert_array_equal(post.project(v, nonnegative=nonnegative, integer=True), k)


def test_whole_bounds_and_whole_exact_values_are_kept():
    known = gm.Consistency(STAR, variance=[0, 1, 1, 1])
    k = known.project([7.0, 1.2, 2.9, 0.1], lower=[2.0, -np.inf, 1.0], integer=True)
    assert k[0] == 7
    assert np.all(k[1:] >= [2, -np.inf, 1])
