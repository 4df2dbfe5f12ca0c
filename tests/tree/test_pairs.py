"""Ancestors, lowest common ancestors and distances of pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import pairs as reference_pairs
from trees import all_parents, named_shapes, parents, renumber, trees

import gmtree as gm
from gmtree import _memory
from gmtree.tree.pairs import PathIndex


def all_pairs(tree: gm.Tree) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.arange(tree.n)
    return nodes[:, None], nodes[None, :]


def table(twin, parent: np.ndarray) -> list[list]:
    nodes = range(len(parent))
    return [[twin(parent, i, j) for j in nodes] for i in nodes]


def check_all_pairs(parent: np.ndarray) -> None:
    tree = gm.Tree.from_parents(parent)
    pairs = all_pairs(tree)
    np.testing.assert_array_equal(tree.lca(*pairs), table(reference_pairs.lca, parent))
    np.testing.assert_array_equal(
        tree.is_ancestor(*pairs), table(reference_pairs.is_ancestor, parent)
    )
    np.testing.assert_array_equal(tree.distance(*pairs), table(reference_pairs.distance, parent))
    counts = [[len(common) for common in row] for row in table(_common, parent)]
    np.testing.assert_array_equal(tree.common_ancestors(*pairs), counts)


_common = reference_pairs.common_ancestors


@pytest.mark.parametrize("n", range(1, 7))
def test_all_small_trees(n):
    rng = np.random.default_rng(n)
    for parent in all_parents(n):
        check_all_pairs(parent)
        check_all_pairs(renumber(parent, rng.permutation(n)))


@given(parents(max_n=25))
def test_random_trees(parent):
    check_all_pairs(parent)


@pytest.mark.parametrize("shape", named_shapes(10))
@pytest.mark.parametrize("n", [1, 2, 33])
def test_named_shapes(shape, n):
    check_all_pairs(named_shapes(n)[shape].parent)


@given(trees(max_n=30))
def test_heavy_paths_match_their_definition(tree):
    tree = tree.canonical()
    paths = PathIndex(tree._layout, None)
    head = reference_pairs.heads(tree.parent)
    np.testing.assert_array_equal(paths._jump[:, 0], head)
    above = [0 if h == 0 else tree.parent[h] for h in head]
    np.testing.assert_array_equal(paths._jump[:, 1], above)


@pytest.mark.parametrize("shape", named_shapes(10))
def test_a_walk_to_the_root_changes_paths_at_most_log2_n_times(shape):
    tree = named_shapes(2000)[shape].canonical()
    jump = tree._paths._jump.astype(np.int64)
    at, steps = np.arange(tree.n), 0
    while np.any(jump[at, 0] > 0):
        at = np.where(jump[at, 0] > 0, jump[at, 1], at)
        steps += 1
    assert steps <= math.log2(tree.n)


# --------------------------------------------------------------------------- lengths


@given(parents(max_n=20), st.integers(0, 2**32 - 1))
def test_weighted_distance(parent, seed):
    tree = gm.Tree.from_parents(parent)
    rng = np.random.default_rng(seed)
    whole = rng.integers(-5, 6, tree.n)
    real = rng.normal(size=tree.n)
    pairs = all_pairs(tree)
    exact = tree.distance(*pairs, edge=whole)
    assert exact.dtype == np.int64
    np.testing.assert_array_equal(exact, reference_pairs.distances(parent, whole))
    np.testing.assert_allclose(
        tree.distance(*pairs, edge=real), reference_pairs.distances(parent, real), atol=1e-12
    )


@given(trees())
def test_distance_with_one_length_for_all(tree):
    pairs = all_pairs(tree)
    np.testing.assert_array_equal(tree.distance(*pairs, edge=3), 3 * tree.distance(*pairs))


def test_length_at_the_root_is_ignored_and_not_changed():
    tree = gm.shapes.star(3)
    edge = np.array([np.nan, 1.0, 2.0])
    assert tree.distance(1, 2, edge=edge) == 3.0
    assert np.isnan(edge[0])


def test_float32_lengths_are_summed_in_float64():
    tree = gm.shapes.chain(3)
    assert tree.distance([0], [2], edge=np.ones(3, np.float32)).dtype == np.float64


def test_exact_integer_lengths_beyond_float64():
    tree = gm.shapes.chain(3)
    assert tree.distance(0, 2, edge=[0, 2**55 + 1, 1]) == 2**55 + 2


def test_integer_lengths_that_could_overflow_are_refused():
    with pytest.raises(gm.IntegerOverflowError, match="'edge' must have sums along paths that fit"):
        gm.shapes.chain(3).distance(0, 2, edge=2**62)


@pytest.mark.parametrize(
    ("edge", "error", "message"),
    [
        ([1.0, np.inf, 1.0], ValueError, "'edge' must be finite; node 1 is inf"),
        ([1.0, 2.0], ValueError, r"'edge' must be one number or have shape \(3,\), not \(2,\)"),
        (["a", "b", "c"], TypeError, "'edge' must hold real numbers"),
        ([True, True, True], TypeError, "'edge' must hold real numbers, not dtype bool"),
    ],
)
def test_bad_lengths(edge, error, message):
    with pytest.raises(error, match=message):
        gm.shapes.star(3).distance(0, 1, edge=edge)


# --------------------------------------------------------------------------- arguments


def test_scalars_give_plain_python_numbers():
    tree = gm.shapes.complete(2, 3)
    assert type(tree.lca(3, 4)) is int
    assert type(tree.is_ancestor(np.int64(1), 3)) is bool
    assert type(tree.common_ancestors(3, np.array(4))) is int
    assert type(tree.distance(3, 4)) is int
    assert type(tree.distance(3, 4, edge=0.5)) is float


def test_arrays_broadcast():
    tree = gm.shapes.complete(2, 3)
    i, j = np.array([[3], [5]]), np.array([4, 6, 0], dtype=np.uint8)
    expected = [[1, 0, 0], [0, 2, 0]]
    np.testing.assert_array_equal(tree.lca(i, j), expected)
    np.testing.assert_array_equal(tree.lca(3, [4, 5]), [1, 0])
    assert tree.distance(i, j).shape == (2, 3)
    assert tree.lca([], []).shape == (0,)
    assert tree.distance(np.empty((0, 2), int), 1).shape == (0, 2)


def test_dtypes():
    tree = gm.shapes.complete(2, 3)
    assert tree.lca([3], [4]).dtype == tree.parent.dtype
    assert tree.distance([3], [4]).dtype == np.int64
    assert tree.common_ancestors([3], [4]).dtype == np.int64


@pytest.mark.parametrize("query", ["lca", "is_ancestor", "common_ancestors", "distance"])
def test_bad_nodes(query):
    ask = getattr(gm.shapes.star(4), query)
    with pytest.raises(ValueError, match="'i' must hold node numbers from 0 to 3, not 4"):
        ask(4, 0)
    with pytest.raises(ValueError, match="'j' must hold node numbers from 0 to 3, not -1"):
        ask([0, 1], [0, -1])
    with pytest.raises(TypeError, match="'i' must hold node numbers"):
        ask(0.5, 0)
    with pytest.raises(ValueError, match=r"'j' must have a shape that fits 'i', \(3,\)"):
        ask([0, 1, 2], [0, 1])


def test_the_index_is_built_once_and_counted():
    tree = gm.shapes.random_recursive(1000, 1)
    before = tree.nbytes
    tree.lca(1, 2)
    index = tree._cache["_paths"]
    tree.is_ancestor(3, 4)
    assert tree._cache["_paths"] is index
    assert tree.nbytes == before + 8 * tree.n


# --------------------------------------------------------------------------- large trees


@pytest.mark.large
def test_chain_of_a_million_in_any_order():
    n = 1_000_000
    rng = np.random.default_rng(0)
    number = rng.permutation(n)
    tree = gm.Tree.from_parents(renumber(gm.shapes.chain(n).parent, number))
    a, b = rng.integers(0, n, (2, 1000))
    i, j = number[a], number[b]
    np.testing.assert_array_equal(tree.lca(i, j), number[np.minimum(a, b)])
    np.testing.assert_array_equal(tree.distance(i, j), abs(a - b))
    np.testing.assert_array_equal(tree.is_ancestor(i, j), a <= b)


@pytest.mark.large
def test_random_pairs_of_a_large_tree_against_walks():
    tree = gm.shapes.random_recursive(1_000_000, 3)
    rng = np.random.default_rng(4)
    i, j = rng.integers(0, tree.n, (2, 200))
    parent = tree.parent.tolist()
    expected = [reference_pairs.lca(parent, a, b) for a, b in zip(i, j, strict=True)]
    np.testing.assert_array_equal(tree.lca(i, j), expected)
    steps = [reference_pairs.distance(parent, a, b) for a, b in zip(i, j, strict=True)]
    np.testing.assert_array_equal(tree.distance(i, j), steps)


def test_memory_limit_has_a_fallback(monkeypatch):
    def unknown(name: str) -> int:
        raise ValueError(name)

    assert _memory.limit() > 2**20
    monkeypatch.setattr(_memory.os, "sysconf", unknown, raising=False)
    assert _memory.limit() == 4 * 2**30


def test_twin_of_depths():
    tree = gm.shapes.caterpillar(9)
    nodes = np.arange(9)
    np.testing.assert_array_equal(
        tree.common_ancestors(nodes, nodes), reference.depths(tree.parent)
    )


def test_a_distance_that_only_both_halves_of_a_path_overflow_is_refused():
    tree = gm.shapes.complete(2, 3)
    with pytest.raises(gm.IntegerOverflowError, match="Argument 'edge' must have sums along"):
        tree.distance(3, 5, edge=3 * 10**18)  # each is 6e18 from the root, which makes 12e18
    assert tree.distance(3, 5, edge=7 * 10**17) == 28 * 10**17
