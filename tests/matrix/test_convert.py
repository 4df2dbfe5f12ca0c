"""Adjacency, Laplacian, distance and ancestral matrices, and the way back to the tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import pairs as reference_pairs
from scipy import sparse
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from trees import all_parents, named_shapes, parents, renumber, trees

import gmtree as gm
from gmtree import _memory

seeds = st.integers(0, 2**32 - 1)


def lengths(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2, n) * rng.choice([-1, 1], n)


def check_sparse(matrix: sparse.csr_array, expected: np.ndarray) -> None:
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.dtype == np.float64
    matrix.check_format(full_check=True)
    assert np.all(np.diff(matrix.indices)[_within_rows(matrix)] > 0)
    assert matrix.nnz == np.count_nonzero(matrix.data)
    np.testing.assert_allclose(matrix.toarray(), expected, atol=1e-12)


def _within_rows(matrix: sparse.csr_array) -> np.ndarray:
    """A mask of neighbouring entries that belong to one row."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return row[1:] == row[:-1]


def check_forward(parent: np.ndarray, edge: np.ndarray | None) -> None:
    tree = gm.Tree.from_parents(parent)
    A = reference_pairs.adjacency(parent, edge)
    check_sparse(gm.adjacency(tree, edge=edge), A)
    check_sparse(gm.adjacency(tree, directed=False, edge=edge), A + A.T)
    L = gm.laplacian(tree, edge=edge)
    np.testing.assert_allclose(L.toarray(), reference_pairs.laplacian(parent, edge), atol=1e-12)
    L.check_format(full_check=True)
    assert L.nnz == 3 * tree.n - 2
    assert np.all(np.diff(L.indices)[_within_rows(L)] > 0)
    np.testing.assert_allclose(
        gm.distance_matrix(tree, edge=edge), reference_pairs.distances(parent, edge), atol=1e-12
    )
    np.testing.assert_allclose(
        gm.ancestral_matrix(tree, edge=edge), reference_pairs.ancestral(parent, edge), atol=1e-12
    )


@pytest.mark.parametrize("n", range(1, 7))
def test_all_small_trees(n):
    rng = np.random.default_rng(n)
    for parent in all_parents(n):
        check_forward(parent, None)
        check_forward(renumber(parent, rng.permutation(n)), lengths(n, 1))


@given(parents(max_n=25), seeds)
def test_random_trees(parent, seed):
    check_forward(parent, None)
    check_forward(parent, lengths(len(parent), seed))


@pytest.mark.parametrize("shape", named_shapes(10))
@pytest.mark.parametrize("n", [1, 2, 30])
def test_named_shapes(shape, n):
    check_forward(named_shapes(n)[shape].parent, None)


@given(parents(max_n=15), seeds)
def test_whole_lengths_stay_exact(parent, seed):
    tree = gm.Tree.from_parents(parent)
    edge = np.random.default_rng(seed).integers(-9, 10, tree.n)
    D, C = gm.distance_matrix(tree, edge=edge), gm.ancestral_matrix(tree, edge=edge)
    assert D.dtype == C.dtype == np.int64
    np.testing.assert_array_equal(D, reference_pairs.distances(parent, edge))
    np.testing.assert_array_equal(C, reference_pairs.ancestral(parent, edge))


@given(trees(max_n=20), seeds)
def test_matrices_agree_with_pairs(tree, seed):
    i = np.arange(tree.n)[:, None]
    edge = lengths(tree.n, seed)
    np.testing.assert_array_equal(gm.distance_matrix(tree), tree.distance(i, i.T))
    np.testing.assert_allclose(
        gm.distance_matrix(tree, edge=edge), tree.distance(i, i.T, edge=edge), atol=1e-12
    )
    leaves = tree.leaves[:, None]
    np.testing.assert_array_equal(
        gm.ancestral_matrix(tree), tree.common_ancestors(leaves, leaves.T) - 1
    )


@given(parents(max_n=15), seeds)
def test_distances_among_some_nodes(parent, seed):
    """Pairs in any order, repeated pairs, and no pairs."""
    tree, rng = gm.Tree.from_parents(parent), np.random.default_rng(seed)
    nodes = rng.integers(0, tree.n, rng.integers(0, 2 * tree.n))
    for edge in (None, rng.integers(-9, 10, tree.n), lengths(tree.n, seed)):
        D = gm.distance_matrix(tree, edge, nodes=nodes)
        expected = reference_pairs.distances(parent, edge)[np.ix_(nodes, nodes)]
        np.testing.assert_allclose(D, expected, atol=1e-12)
        assert D.dtype == (np.float64 if edge is not None and edge.dtype.kind == "f" else np.int64)
        assert not D.diagonal().any()


@given(parents(max_n=15), seeds)
def test_cophenetic(parent, seed):
    tree, rng = gm.Tree.from_parents(parent), np.random.default_rng(seed)
    for height in (rng.normal(size=tree.n), rng.integers(-9, 9, tree.n), np.ones(tree.n, "f4")):
        C = tree.cophenetic(height)
        assert C.dtype == height.dtype
        np.testing.assert_array_equal(C, reference_pairs.cophenetic(parent, height))


@pytest.mark.parametrize("method", ["single", "average", "complete"])
@pytest.mark.parametrize("m", [2, 3, 60])
def test_cophenetic_distances_of_scipy(method, m):
    Z = linkage(np.random.default_rng(m).normal(size=(m, 2)), method)
    tree = gm.Tree.from_linkage(Z)
    expected = squareform(cophenet(Z))
    np.testing.assert_array_equal(tree.cophenetic(np.r_[np.zeros(m), Z[:, 2]]), expected)
    D = gm.distance_matrix(tree, nodes=tree.leaves)
    np.testing.assert_allclose(D, expected, atol=1e-12)
    # The sums of a tree's own lengths are kept; other lengths are read as they are now.
    pairs = tree.leaves[:, None], tree.leaves
    other = tree.edge_length.copy()
    for factor in (1, 2):
        other[:] = tree.edge_length * factor
        np.testing.assert_allclose(tree.distance(*pairs), expected, atol=1e-12)
        np.testing.assert_allclose(tree.distance(*pairs, other), expected * factor, atol=1e-12)


def test_lengths_of_a_tree_are_used_unless_edges_are_counted():
    tree = gm.Tree.from_newick("((a:1,b:2)c:4,d:8)e:16;")
    bare = gm.Tree.from_parents(tree.parent)
    for matrix in (gm.distance_matrix, gm.ancestral_matrix):
        np.testing.assert_array_equal(matrix(tree), matrix(bare, edge=tree.edge_length))
        for count in (matrix(tree, edge="count"), matrix(tree, edge=1)):
            np.testing.assert_array_equal(count, matrix(bare))
            assert count.dtype == np.int64
    i = np.arange(tree.n)[:, None]
    np.testing.assert_array_equal(tree.distance(i, i.T), gm.distance_matrix(tree))
    np.testing.assert_array_equal(
        tree.distance(i, i.T, edge="count"), gm.distance_matrix(tree, edge="count")
    )
    assert gm.distance_matrix(tree, nodes=tree.leaves).tolist()[0] == [0, 3, 13]
    with pytest.raises(ValueError, match="'edge' must be 'count' or hold lengths, not 'number'"):
        tree.distance(0, 1, edge="number")


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([0, 3], ValueError, "'nodes' must hold node numbers from 0 to 2, not 3"),
        ([0.5], TypeError, "'nodes' must hold node numbers"),
        (1, ValueError, r"'nodes' must be one-dimensional, not have shape \(\)"),
        ([[0, 1]], ValueError, r"'nodes' must be one-dimensional, not have shape \(1, 2\)"),
    ],
)
def test_wrong_nodes(nodes, error, message):
    with pytest.raises(error, match=message):
        gm.distance_matrix(gm.shapes.star(3), nodes=nodes)


def test_wrong_heights(monkeypatch):
    tree = gm.shapes.star(3)
    for height in ([1.0, 2.0], 1.0, np.ones((3, 1))):
        with pytest.raises(ValueError, match="'height' must have shape"):
            tree.cophenetic(height)
    with pytest.raises(TypeError, match="'height'"):
        tree.cophenetic(["a", "b", "c"])
    monkeypatch.setattr(_memory, "limit", lambda: 8)
    with pytest.raises(ValueError, match=r"2 leaves would take .* height\[tree\.lca"):
        tree.cophenetic([1.0, 2.0, 3.0])


def test_one_weight_for_all_edges():
    tree = gm.shapes.caterpillar(7)
    for function in (gm.adjacency, gm.laplacian):
        np.testing.assert_array_equal(
            function(tree, edge=2).toarray(), 2 * function(tree).toarray()
        )
    for function in (gm.distance_matrix, gm.ancestral_matrix):
        np.testing.assert_array_equal(function(tree, edge=2), 2 * function(tree))


@pytest.mark.large
def test_large_sparse_matrices_against_scipy():
    tree = named_shapes(1_000_000)["random, shuffled"]
    child = np.flatnonzero(tree.parent >= 0)
    half = sparse.coo_array(
        (np.ones(child.size), (child, tree.parent[child])), shape=(tree.n, tree.n)
    ).tocsr()
    A = (half + half.T).tocsr()
    L = (sparse.diags_array(A.sum(axis=1)) - A).tocsr()
    assert (gm.adjacency(tree) != half).nnz == 0
    assert (gm.adjacency(tree, directed=False) != A).nnz == 0
    assert (gm.laplacian(tree) != L).nnz == 0


# --------------------------------------------------------------------------- refusals


def test_dense_matrices_that_do_not_fit_name_the_size_and_the_pairs(monkeypatch):
    monkeypatch.setattr(_memory, "limit", lambda: 10**9)
    tree = gm.shapes.star(20_001)
    with pytest.raises(ValueError, match=r"20001 nodes would take 3\.2 GB.*tree\.distance"):
        gm.distance_matrix(tree)
    text = r"20000 leaves would take 3\.2 GB.*tree\.common_ancestors"
    with pytest.raises(ValueError, match=text):
        gm.ancestral_matrix(tree)


def test_the_limit_is_half_of_the_memory(monkeypatch):
    monkeypatch.setattr(_memory, "limit", lambda: 8 * 10 * 10)
    assert gm.distance_matrix(gm.shapes.star(10)).shape == (10, 10)
    with pytest.raises(ValueError, match="more than half of this machine's memory"):
        gm.distance_matrix(gm.shapes.star(11))


@pytest.mark.parametrize(
    "function",
    [gm.adjacency, gm.laplacian, gm.distance_matrix, gm.ancestral_matrix],
)
def test_not_a_tree(function):
    with pytest.raises(TypeError, match="'tree' must be a Tree, not list"):
        function([-1, 0])


@pytest.mark.parametrize("function", [gm.adjacency, gm.laplacian])
def test_weights_must_not_be_zero(function):
    with pytest.raises(ValueError, match="'edge' must be finite and not zero; node 2 has weight 0"):
        function(gm.shapes.star(3), edge=[0, 1, 0])


# --------------------------------------------------------------------------- the way back

FORMATS = [
    lambda A: A.toarray(),
    lambda A: A.toarray().astype(int).tolist(),
    lambda A: A,
    lambda A: A.tocoo(),
    lambda A: sparse.csc_matrix(A),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("n", range(1, 7))
def test_all_small_trees_come_back(n, form):
    rng = np.random.default_rng(n)
    for parent in all_parents(n):
        check_back(gm.Tree.from_parents(renumber(parent, rng.permutation(n))), form)


@given(trees(max_n=25), st.sampled_from(FORMATS))
def test_random_trees_come_back(tree, form):
    check_back(tree, form)


def check_back(tree: gm.Tree, form) -> None:
    root = tree.root
    assert gm.Tree.from_structure(form(gm.GenerationMatrix(tree).tocsr())) == tree
    assert gm.Tree.from_adjacency(form(gm.adjacency(tree))) == tree
    assert gm.Tree.from_adjacency(form(gm.adjacency(tree, directed=False)), root) == tree
    assert gm.Tree.from_laplacian(form(gm.laplacian(tree)), root) == tree
    assert gm.Tree.from_distances(gm.distance_matrix(tree), root) == tree


@given(trees(max_n=25), seeds)
def test_weighted_matrices_come_back(tree, seed):
    edge = lengths(tree.n, seed)
    assert gm.Tree.from_adjacency(gm.adjacency(tree, edge=edge)) == tree
    assert gm.Tree.from_laplacian(gm.laplacian(tree, edge=abs(edge)), tree.root) == tree
    G = gm.GenerationMatrix(tree, lengths(tree.n, seed + 1), edge)
    for A in (G, G.tocsr(), G.toarray()):
        back = gm.GenerationMatrix.from_matrix(A)
        assert back.tree == tree
        np.testing.assert_array_equal(back.node_weight, G.node_weight)
        np.testing.assert_array_equal(back.edge_weight, G.edge_weight)


def test_a_structure_matrix_comes_back_as_one():
    G = gm.GenerationMatrix(gm.shapes.caterpillar(6))
    assert gm.GenerationMatrix.from_matrix(G).is_structure


@given(trees(max_n=15), st.data())
def test_any_node_can_be_the_root(tree, data):
    root = data.draw(st.integers(0, tree.n - 1))
    other = gm.Tree.from_laplacian(gm.laplacian(tree), root)
    assert other.root == root
    assert gm.Tree.from_distances(gm.distance_matrix(tree), root) == other
    assert gm.Tree.from_adjacency(gm.adjacency(tree, directed=False), root) == other
    np.testing.assert_array_equal(gm.distance_matrix(other), gm.distance_matrix(tree))


def test_given_matrices_are_not_changed():
    A = sparse.csr_array(([1.0, 0.0, 1.0, 1.0], [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))
    A.data[2] = -1
    before = [x.copy() for x in (A.data, A.indices, A.indptr)]
    assert gm.Tree.from_structure(A).parent.tolist() == [-1, 0]
    for old, new in zip(before, (A.data, A.indices, A.indptr), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("A", "error", "message"),
    [
        ([[1, 0], [-1, 0]], ValueError, "'A' must have a non-zero diagonal; row 1 has 0"),
        ([[1, 0, 0], [0, 1, 0], [-1, -1, 1]], ValueError, "'A' must have at most one.*row 2 has 2"),
        ([[1, -1], [-1, 1]], ValueError, "'A' must have a root"),
        ([[1, 0], [0, 1]], ValueError, "'A' must have one root; nodes 0 and 1"),
        ([[1, 0], [-2, 1]], ValueError, "'A' must hold 1 on the diagonal.*row 1 holds 1 and -2"),
        (
            [[1, 0], [1, 1]],
            ValueError,
            "row 1 holds 1 and 1. For .* use GenerationMatrix.from_matrix",
        ),
        ([1, 2], ValueError, r"'A' must be a square matrix, not have shape \(2,\)"),
        (np.ones((2, 3)), ValueError, "'A' must be a square matrix"),
        (np.ones((0, 0)), ValueError, "'A' must be a square matrix"),
        ([[1, 0], [np.nan, 1]], ValueError, "'A' must be finite; row 1 holds nan"),
        ([["a"]], TypeError, "'A' must hold real numbers"),
        (
            [[1, 0, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1], [0, -1, 0, 1]],
            ValueError,
            "'A' must have no cycle",
        ),
    ],
)
def test_not_a_structure_matrix(A, error, message):
    with pytest.raises(error, match=message):
        gm.Tree.from_structure(A)


@pytest.mark.parametrize(
    ("A", "root", "message"),
    [
        ([[0, 1], [1, 0]], None, "'root' must be given, because matrix 'A' is symmetric"),
        ([[1, 0], [1, 0]], None, "'A' must have a zero diagonal; node 0 is its own"),
        ([[0, 0], [1, 0]], 0, r"'A' must be symmetric; entries \(0, 1\) and \(1, 0\) differ"),
        ([[0, 0], [0, 0]], 0, "'A' must be connected; node 1 cannot be reached from the root 0"),
        (1 - np.eye(3), 0, "'A' must have no cycle; it has 3 edges, but a tree of 3 nodes has 2"),
        ([[0, 1], [1, 0]], 2, "'root' must hold node numbers from 0 to 1, not 2"),
    ],
)
def test_not_an_adjacency_matrix(A, root, message):
    with pytest.raises(ValueError, match=message):
        gm.Tree.from_adjacency(A, root)


def test_not_a_laplacian():
    with pytest.raises(ValueError, match="'L' must have rows that add up to 0; the sum of row 1"):
        gm.Tree.from_laplacian([[1, -1], [-1, 2]], 0)
    with pytest.raises(ValueError, match="'L' must have no cycle"):
        gm.Tree.from_laplacian(3 * np.eye(3) - 1, 0)
    with pytest.raises(ValueError, match="'L' must be symmetric"):
        gm.Tree.from_laplacian([[1, -1], [-2, 2]], 0)


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (1 - np.eye(3, dtype=int), "the entry of nodes 1 and 2 is 1 instead of 2"),
        ([[0, 3], [3, 0]], "node 1 has 0 neighbours at distance 1 that are nearer"),
        ([[0, 1, 1, 2], [1, 0, 2, 1], [1, 2, 0, 1], [2, 1, 1, 0]], "node 3 has 2 neighbours"),
        ([[-1, 1], [1, 0]], "the entry of nodes 0 and 0 is -1 instead of 0"),
        ([[0, 1], [1, np.nan]], "the entry of nodes 1 and 1 is nan instead of 0"),
        (np.zeros((2, 3)), "'D' must be a square matrix"),
    ],
)
def test_not_distances(D, message):
    with pytest.raises(ValueError, match=message):
        gm.Tree.from_distances(D, 0)


def test_distances_of_another_type():
    with pytest.raises(TypeError, match="'D' must hold real numbers, not dtype complex128"):
        gm.Tree.from_distances(np.zeros((1, 1), complex), 0)
