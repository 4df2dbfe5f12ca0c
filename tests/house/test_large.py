"""Trees of a million nodes and more, checked by identities instead of slow twins."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from trees import named_shapes, renumber

import gmtree as gm

pytestmark = pytest.mark.large

MILLION = 10**6


@pytest.fixture(scope="module")
def shapes() -> dict[str, gm.Tree]:
    return named_shapes(MILLION)


NAMES = [
    "chain",
    "star",
    "caterpillar",
    "binary",
    "grouped",
    "random",
    "random, canonical",
    "random, shuffled",
    "chain, shuffled",
]


def below(tree: gm.Tree) -> tuple[np.ndarray, np.ndarray]:
    """All nodes but the root, and their parents."""
    child = np.flatnonzero(tree.parent >= 0)
    return child, tree.parent[child]


@pytest.mark.parametrize("name", NAMES)
def test_structure(shapes, name):
    tree = gm.Tree.from_parents(shapes[name].parent)
    child, above = below(tree)
    assert tree.n == child.size + 1
    np.testing.assert_array_equal(tree.depth[child], tree.depth[above] + 1)
    assert tree.depth[tree.root] == 1
    sizes = np.bincount(above, weights=tree.subtree_size[child], minlength=tree.n)
    np.testing.assert_array_equal(tree.subtree_size, 1 + sizes)
    highest = np.zeros(tree.n, tree.node_height.dtype)
    np.maximum.at(highest, above, tree.node_height[child])
    np.testing.assert_array_equal(tree.node_height, 1 + highest)
    # Sorting by height, position of the parent, and number does not change the order.
    np.testing.assert_array_equal(tree.rank[tree.order], np.arange(tree.n))
    above_rank = np.where(tree.parent < 0, -1, tree.rank[tree.parent])
    expected = np.lexsort((np.arange(tree.n), above_rank, -tree.node_height))
    np.testing.assert_array_equal(tree.order, expected)
    np.testing.assert_array_equal(np.sort(tree.leaves), np.flatnonzero(tree.child_count == 0))
    assert tree.n_leaves == tree.leaves.size


@pytest.mark.parametrize("name", NAMES)
def test_sweeps(shapes, name):
    tree = shapes[name]
    G = gm.GenerationMatrix(tree)
    ones = np.ones(tree.n, np.int64)
    np.testing.assert_array_equal(G.solve(ones), tree.depth)
    np.testing.assert_array_equal(G.T.solve(ones), tree.subtree_size)
    v = np.random.default_rng(1).integers(-(10**6), 10**6, (tree.n, 2))
    np.testing.assert_array_equal(G @ G.solve(v), v)
    np.testing.assert_array_equal(G.T @ G.T.solve(v), v)
    np.testing.assert_array_equal(G @ v, G.tocsr().astype(int) @ v)
    x = v[: tree.n_leaves, 0]
    y = tree.aggregate(x)
    assert y[tree.root] == x.sum()
    assert not np.any(gm.ConstraintMatrix(tree).T @ y)
    np.testing.assert_array_equal(tree.leaf_values(y), x)


@pytest.mark.parametrize("name", NAMES)
def test_weighted_sweeps(shapes, name):
    tree = shapes[name]
    rng = np.random.default_rng(2)
    G = gm.GenerationMatrix(tree, rng.uniform(1, 2, tree.n), rng.uniform(0.5, 1, tree.n))
    u, v = rng.standard_normal((2, tree.n))
    down, up = G.solve(u), G.T.solve(v)
    np.testing.assert_allclose(G @ down, u, rtol=0, atol=1e-9)
    scale = max(1.0, abs(up).max())
    np.testing.assert_allclose(G.T @ up, v, rtol=0, atol=1e-12 * scale)
    size = np.linalg.norm(down) * np.linalg.norm(v)
    assert down @ v == pytest.approx(u @ up, abs=1e-10 * size)
    for threads in (1, 3):
        other = gm.GenerationMatrix(tree, G.node_weight, G.edge_weight, threads=threads)
        assert other.solve(u).tobytes() == down.tobytes()
        assert other.T.solve(v).tobytes() == up.tobytes()


def test_leaves_from_left_to_right():
    tree = named_shapes(100_000)["random, shuffled"]
    children: list[list[int]] = [[] for _ in range(tree.n)]
    for i, p in enumerate(tree.parent.tolist()):
        if p >= 0:
            children[p].append(i)
    leaves, stack = [], [tree.root]
    while stack:
        i = stack.pop()
        if not children[i]:
            leaves.append(i)
        stack.extend(reversed(children[i]))
    np.testing.assert_array_equal(tree.leaves_left_to_right, leaves)


def test_a_cycle_among_many_nodes(shapes):
    parent = shapes["random, shuffled"].parent.copy()
    a = int(np.flatnonzero(parent >= 0)[-1])
    parent[a] = a
    with pytest.raises(ValueError, match=f"node {a} is its own parent"):
        gm.Tree.from_parents(parent)


TEN_MILLION = 10**7


@pytest.mark.parametrize("upside_down", [False, True])
def test_chain_of_ten_million(upside_down):
    n = TEN_MILLION
    tree = gm.shapes.chain(n)
    if upside_down:
        tree = gm.Tree.from_parents(renumber(tree.parent, np.arange(n)[::-1]))
        np.testing.assert_array_equal(tree.order, np.arange(n)[::-1])
    assert tree.height == n
    assert tree.n_leaves == 1
    G = gm.GenerationMatrix(tree)
    v = np.ones(n)
    step = -1 if upside_down else 1
    np.testing.assert_array_equal(G.solve(v)[::step], np.arange(1, n + 1))
    np.testing.assert_array_equal(G.T.solve(v)[::step], np.arange(n, 0, -1))


@pytest.mark.parametrize("root", [0, 5_000_000])
def test_star_of_ten_million(root):
    n = TEN_MILLION
    parent = np.full(n, root)
    parent[root] = -1
    tree = gm.shapes.star(n) if root == 0 else gm.Tree.from_parents(parent)
    np.testing.assert_array_equal(tree.parent, parent)
    assert tree.height == 2
    G = gm.GenerationMatrix(tree)
    v = np.ones(n)
    depth, size = G.solve(v), G.T.solve(v)
    assert depth[root] == 1
    assert size[root] == n
    depth[root], size[root] = 2, 1
    assert np.all(depth == 2)
    assert np.all(size == 1)


@pytest.mark.parametrize("name", ["random, shuffled", "chain, shuffled", "random", "binary"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_memory(shapes, name, dtype):
    """A tree keeps at most 16 bytes per node and takes at most 48 while it is built."""
    parent = shapes[name].parent.astype(dtype)
    gm.Tree.from_parents(parent)  # machine code stays in memory
    tracemalloc.start()
    try:
        tree = gm.Tree.from_parents(parent)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    few = 10_000
    assert peak <= 48 * tree.n + few
    assert kept <= 16 * tree.n + few
    assert tree.nbytes <= 16 * tree.n + few
