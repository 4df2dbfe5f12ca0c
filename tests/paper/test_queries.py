from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import queries as reference
from trees import all_parents, named_shapes, trees

import gmtree as gm
from gmtree import queries

# --------------------------------------------------------------------------- random ranges


def test_all_ranges_can_be_drawn():
    for m in range(1, 8):
        drawn = queries.random_ranges(m, comb(m + 1, 2), rng=m)
        assert drawn.dtype == np.int64
        assert sorted(map(tuple, drawn.tolist())) == reference.all_ranges(m)


@given(st.integers(1, 2**31), st.integers(0, 200), st.integers(0, 5))
def test_ranges_are_distinct_and_within(m, q, seed):
    q = min(q, comb(m + 1, 2))
    ranges = queries.random_ranges(m, q, seed)
    assert ranges.shape == (q, 2)
    assert np.all((ranges[:, 0] >= 0) & (ranges[:, 0] < ranges[:, 1]) & (ranges[:, 1] <= m))
    assert len(set(map(tuple, ranges.tolist()))) == q


def test_ranges_are_equally_likely():
    counts = np.zeros((6, 6))
    rng = np.random.default_rng(5)
    draws = 3000
    for _ in range(draws):
        for a, b in queries.random_ranges(5, 3, rng):
            counts[a, b] += 1
    share = 3 / 15
    seen = counts[np.triu_indices(6, 1)]
    assert seen.sum() == counts.sum()
    assert np.abs(seen - draws * share).max() < 5 * np.sqrt(draws * share * (1 - share))


def test_ranges_repeat_with_the_seed():
    first, again = (queries.random_ranges(10**6, 50, rng=3) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, queries.random_ranges(10**6, 50, rng=4))


def test_a_huge_number_of_leaves():
    ranges = queries.random_ranges(2**31, 10_000, rng=0)
    # The length of a random range has the mean (m + 2) / 3.
    assert ranges[:, 1].max() <= 2**31
    assert abs(np.diff(ranges).mean() / 2**31 - 1 / 3) < 0.02


# --------------------------------------------------------------------------- covers


def test_highest_cover_is_the_fewest_on_all_small_trees():
    for n in range(1, 6):
        for parent in all_parents(n):
            tree = gm.Tree.from_parents(parent)
            for a, b in reference.all_ranges(tree.n_leaves):
                cover = reference.highest_cover(tree, a, b)
                fewest = reference.fewest_covers(tree, a, b)
                assert cover in fewest
                # Two smallest covers differ only by only children in place of their parents.
                for other in fewest:
                    below = reference.spans(tree)
                    assert sorted(map(sorted, (below[i] for i in other))) == sorted(
                        map(sorted, (below[i] for i in cover))
                    )


def check_covers(tree: gm.Tree, ranges: list[tuple[int, int]], **options) -> None:
    # Values are distinct powers of two, so a sum identifies its summands.
    values = 2.0 ** np.arange(tree.n) if tree.n <= 50 else np.random.default_rng(0).random(tree.n)
    got = queries.range_sum(tree, values, np.array(ranges).reshape(-1, 2), **options)
    expected = [reference.cover_sum(tree, values, a, b) for a, b in ranges]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_cover_on_all_small_trees():
    for n in range(1, 7):
        for parent in all_parents(n):
            tree = gm.Tree.from_parents(parent)
            check_covers(tree, [(0, 0), *reference.all_ranges(tree.n_leaves)])


@given(trees(), st.data())
def test_cover_on_random_trees(tree, data):
    every = reference.all_ranges(tree.n_leaves)
    check_covers(tree, data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=20)))


@pytest.mark.parametrize("shape", named_shapes(20))
def test_cover_with_few_and_many_ranges(shape):
    tree = named_shapes(20)[shape]
    every = reference.all_ranges(tree.n_leaves)
    check_covers(tree, every)
    # In a large tree, few ranges are added up sibling by sibling, without prefix sums.
    for pair in every[:: max(1, len(every) // 10)]:
        check_covers(tree, [pair])


@pytest.mark.parametrize("shape", named_shapes(3000))
def test_one_range_of_a_larger_tree(shape):
    tree = named_shapes(3000)[shape]
    values = np.random.default_rng(1).integers(-1000, 1000, tree.n)
    ranges = queries.random_ranges(tree.n_leaves, min(5, tree.n_leaves), rng=2)
    below = tree.aggregate(np.ones(tree.n_leaves, dtype=int))
    position = np.empty(tree.n, dtype=int)
    position[tree.leaves_left_to_right] = np.arange(tree.n_leaves)
    for i in tree.order[::-1]:
        children = tree.children(i)
        if children.size:
            position[i] = position[children].min()
    inside = [(position >= a) & (position + below <= b) for a, b in ranges]
    expected = [values[x & ~np.where(tree.parent < 0, False, x[tree.parent])].sum() for x in inside]
    for k, pair in enumerate(ranges):
        assert queries.range_sum(tree, values, [pair]) == expected[k]
    assert queries.range_sum(tree, values, ranges).tolist() == expected


def test_threads_share_many_ranges(monkeypatch):
    monkeypatch.setattr(queries, "_SMALLEST_SHARE", 50)
    tree = gm.shapes.grouped(500, rng=0)
    values = np.random.default_rng(0).integers(0, 100, tree.n)
    ranges = queries.random_ranges(tree.n_leaves, 1000, rng=0)
    whole = queries.range_sum(tree, values, ranges)
    parts = [queries.range_sum(tree, values, part) for part in np.array_split(ranges, 30)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_only_children_leave_the_highest_node():
    tree = gm.shapes.chain(5)
    assert queries.range_sum(tree, [1, 2, 3, 4, 5], [[0, 1]]) == [1]
    fork = gm.Tree.from_parents([-1, 0, 0, 1, 3])
    assert queries.range_sum(fork, [1, 2, 4, 8, 16], [[0, 1], [1, 2]]).tolist() == [2, 4]


@given(trees(), st.integers(0, 3))
def test_consistent_values_need_no_choice(tree, k):
    rng = np.random.default_rng(k)
    shape = (tree.n_leaves, k) if k else tree.n_leaves
    counts = rng.integers(-50, 50, shape)
    values = tree.aggregate(counts)
    ranges = np.array(reference.all_ranges(tree.n_leaves))
    cover = queries.range_sum(tree, values, ranges)
    leaves = queries.range_sum(tree, values, ranges, method="leaves")
    assert cover.dtype == np.int64
    assert np.array_equal(cover, leaves)
    expected = [reference.leaf_sum(tree, values, a, b) for a, b in ranges]
    assert np.array_equal(leaves, np.array(expected).reshape(leaves.shape))


@given(trees(20), st.integers(1, 3), st.sampled_from(["float32", "float64", "int64"]))
def test_columns_are_answered_as_vectors(tree, k, dtype):
    values = (100 * np.random.default_rng(k).standard_normal((tree.n, k))).astype(dtype)
    ranges = np.array(reference.all_ranges(tree.n_leaves))
    for method in ("cover", "leaves"):
        together = queries.range_sum(tree, values, ranges, method=method)
        assert together.dtype == np.dtype(dtype)
        for j in range(k):
            alone = queries.range_sum(tree, values[:, j], ranges, method=method)
            assert np.array_equal(together[:, j], alone)


def test_large_integers_are_summed_exactly():
    tree = gm.shapes.star(5)
    large = 2**62 - 1
    values = np.array([0, large, -large, large, 3])
    ranges = [[0, 2], [0, 3], [2, 4], [1, 3]]
    for method in ("cover", "leaves"):
        got = queries.range_sum(tree, values, ranges, method=method)
        assert got.tolist() == [0, large, large + 3, 0]
    with pytest.raises(gm.IntegerOverflowError, match="Argument 'values' must have sums over"):
        queries.range_sum(
            gm.shapes.star(4), [0, large, large, large], [[0, 3], [0, 2], [1, 3]], method="leaves"
        )


def test_inputs_are_not_changed():
    tree = gm.shapes.caterpillar(21)
    values, ranges = np.arange(21.0), np.array([[0, 3], [2, 9]])
    values.flags.writeable = ranges.flags.writeable = False
    for method in ("cover", "leaves"):
        queries.range_sum(tree, values, ranges, method=method)
    queries.range_sum(tree, values[::-1], ranges[::-1].astype(">i2"))
    assert np.array_equal(values, np.arange(21.0))


# --------------------------------------------------------------------------- errors of queries


@given(trees(20), st.integers(0, 3))
def test_rmse(tree, k):
    rng = np.random.default_rng(k)
    counts = rng.integers(0, 50, tree.n_leaves)
    truth = tree.aggregate(counts)
    noisy = truth + rng.laplace(scale=5, size=tree.n)
    assert queries.node_rmse(noisy, truth) == pytest.approx(reference.rmse(noisy, truth))
    ranges = queries.random_ranges(tree.n_leaves, min(10, tree.n_leaves), rng)
    expected = reference.rmse(
        [reference.cover_sum(tree, noisy, a, b) for a, b in ranges],
        [reference.leaf_sum(tree, truth, a, b) for a, b in ranges],
    )
    for given_truth in (counts, truth):
        got = queries.range_rmse(tree, noisy, given_truth, ranges)
        assert isinstance(got, float)
        assert got == pytest.approx(expected)


def test_rmse_of_several_releases():
    tree = gm.shapes.grouped(50, rng=0)
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 50, tree.n_leaves)
    truth = tree.aggregate(counts)
    noisy = truth[:, None] + rng.standard_normal((tree.n, 3))
    ranges = queries.random_ranges(tree.n_leaves, 40, rng)
    for columns in (truth, np.stack([truth] * 3, axis=1)):
        assert queries.node_rmse(noisy, columns) == pytest.approx(
            [queries.node_rmse(noisy[:, j], truth) for j in range(3)]
        )
    for columns in (counts, np.stack([counts] * 3, axis=1)):
        assert queries.range_rmse(tree, noisy, columns, ranges) == pytest.approx(
            [queries.range_rmse(tree, noisy[:, j], truth, ranges) for j in range(3)]
        )


def test_a_consistent_and_exact_release_has_no_error():
    tree = gm.shapes.random_recursive(200, rng=0)
    counts = np.arange(tree.n_leaves)
    ranges = queries.random_ranges(tree.n_leaves, 100, rng=0)
    assert queries.range_rmse(tree, tree.aggregate(counts), counts, ranges) == 0
    assert queries.node_rmse(counts, counts) == 0


# --------------------------------------------------------------------------- expectation


@given(trees(30))
def test_cover_probability_counts_covers(tree):
    every = np.array(reference.all_ranges(tree.n_leaves))
    times = np.zeros(tree.n)
    for a, b in every:
        times[list(reference.highest_cover(tree, a, b))] += 1
    got = queries.cover_probability(tree)
    np.testing.assert_allclose(got, times / len(every), atol=1e-12)
    sizes = queries.range_sum(tree, np.ones(tree.n, dtype=int), every)
    assert sizes.mean() == pytest.approx(got.sum())


@pytest.mark.parametrize("shape", named_shapes(40))
def test_expected_error_of_noisy_ranges(shape):
    tree = named_shapes(40)[shape]
    rng = np.random.default_rng(7)
    scale = rng.uniform(1, 3, tree.n)
    expected = queries.cover_probability(tree) @ (2 * scale**2)
    every = np.array(reference.all_ranges(tree.n_leaves))
    noise = rng.laplace(size=(tree.n, 100)) * scale[:, None]
    error = queries.range_rmse(tree, noise, np.zeros(tree.n_leaves), every) ** 2
    assert abs(error.mean() - expected) < 5 * error.std() / np.sqrt(error.size)


def expected_cover_of_complete_binary(height: int) -> float:
    """The expected number of nodes, by sums over each level in closed form."""
    m = 2 ** (height - 1)
    total = 0
    for depth in range(height):
        count, size = 2**depth, m >> depth
        # The sum over i of (i size + 1) (m - i size - size + 1), the ranges containing node i.
        once, squared = count * (count - 1) // 2, (count - 1) * count * (2 * count - 1) // 6
        containing = count * (m - size + 1) + once * size * (m - size) - squared * size**2
        total += containing * (1 if depth == height - 1 else -1)
    return total / comb(m + 1, 2)


def test_expected_cover_of_complete_binary_trees():
    for height in range(1, 15):
        probability = queries.cover_probability(gm.shapes.complete(2, height))
        assert probability.sum() == pytest.approx(expected_cover_of_complete_binary(height))


def test_the_known_errors_of_synthetic_data():
    # Laplace noise of scale h = height has the variance 2 h^2.
    rmse = {h: h * np.sqrt(2 * expected_cover_of_complete_binary(h)) for h in (24, 25)}
    assert rmse[24] == pytest.approx(155.6, abs=0.1)
    assert rmse[25] == pytest.approx(165.8, abs=0.1)


# --------------------------------------------------------------------------- bad input


TREE = gm.shapes.complete(2, 3)
VALUES = np.arange(7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: queries.random_ranges(0, 1), "'m' must be at least 1, not 0"),
        (lambda: queries.random_ranges(2**31 + 1, 1), r"'m' must be at most 2\*\*31"),
        (
            lambda: queries.random_ranges(3, 7),
            "'q' must be at most 6, the number of ranges of 3 leaves",
        ),
        (lambda: queries.random_ranges(3, -1), "'q' must be at least 0"),
        (lambda: queries.range_sum(TREE, VALUES, [[0, 1], [3, 2]]), r"row 1 is \[3, 2\]"),
        (lambda: queries.range_sum(TREE, VALUES, [[0, 5]]), "0 <= a <= b <= 4"),
        (lambda: queries.range_sum(TREE, VALUES, [[-1, 2]]), r"row 0 is \[-1, 2\]"),
        (lambda: queries.range_sum(TREE, VALUES, [0, 2]), r"shape \(q, 2\)"),
        (lambda: queries.range_sum(TREE, VALUES[:6], [[0, 2]]), "'values' must have shape"),
        (lambda: queries.range_sum(TREE, [0, 0, np.nan, 0, 0, 0, 0], [[0, 2]]), "node 2 is nan"),
        (lambda: queries.range_sum(TREE, VALUES, [[0, 2]], method="both"), "'cover' or 'leaves'"),
        (lambda: queries.range_rmse(TREE, VALUES, VALUES, np.zeros((0, 2), int)), "not be empty"),
        (lambda: queries.range_rmse(TREE, VALUES, VALUES[:5], [[0, 2]]), r"per leaf \(4\)"),
        (lambda: queries.range_rmse(TREE, VALUES, 3, [[0, 2]]), "'truth' must have one row"),
        (lambda: queries.node_rmse(3.0, 3.0), "'values' must have at least one row"),
        (lambda: queries.node_rmse([1, 2], [1, 2, 3]), r"'truth' must have shape \(2,\)"),
        (lambda: queries.node_rmse([1, 2], [[1, 2], [3, 4]]), "'truth' must have one column"),
    ],
)
def test_bad_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: queries.random_ranges(3.0, 1), "'m' must be a whole number"),
        (lambda: queries.range_sum(TREE, VALUES, [[0.0, 1.0]]), "'ranges' must hold positions"),
        (lambda: queries.range_sum(TREE, ["a"] * 7, [[0, 1]]), "'values' must hold real numbers"),
    ],
)
def test_bad_types(call, message):
    with pytest.raises(TypeError, match=message):
        call()
