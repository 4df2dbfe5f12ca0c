"""Every identity about Generation Matrices, on all small trees and on random ones."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import pairs as reference_pairs
from trees import all_parents, named_shapes, renumber, trees

import gmtree as gm


def check_structure(tree: gm.Tree) -> None:
    """Properties of one or two nodes as expressions in the structure matrix."""
    parent, n = tree.parent.tolist(), tree.n
    S = gm.GenerationMatrix(tree)
    G, one, nodes = S.toarray(), np.ones(n), np.arange(n)
    inverse = np.linalg.inv(G)

    # Sparsity: 2n - 1 entries, one in the root's row and two in the others.
    entries = np.count_nonzero(G, axis=1)
    assert S.nnz == S.tocsr().nnz == entries.sum() == 2 * n - 1
    assert entries[tree.root] == 1

    # Children, subtree sizes, depths.
    counts = [len(reference.children(parent, i)) for i in range(n)]
    np.testing.assert_array_equal((np.eye(n) - G.T) @ one, counts)
    np.testing.assert_array_equal(one - S.T @ one, counts)
    np.testing.assert_array_equal(tree.child_count, counts)
    np.testing.assert_array_equal(S.T.solve(one), reference.subtree_sizes(parent))
    np.testing.assert_array_equal(tree.subtree_size, S.T.solve(one))
    np.testing.assert_array_equal(S.solve(one), reference.depths(parent))
    np.testing.assert_array_equal(tree.depth, S.solve(one))

    # The inverse marks ancestors.
    np.testing.assert_allclose(S.inverse().toarray(), inverse, atol=1e-12)
    np.testing.assert_allclose(tree.is_ancestor(nodes, nodes[:, None]), inverse, atol=1e-12)

    # G G^T marks siblings off the diagonal.
    siblings = [[parent[i] == parent[j] and i != j for j in range(n)] for i in range(n)]
    product = S.siblings().toarray()
    np.testing.assert_array_equal((product == 1) & ~np.eye(n, dtype=bool), siblings)
    np.testing.assert_array_equal(product, G @ G.T)

    # (G^T G)^-1 counts common ancestors.
    common = np.linalg.inv(G.T @ G)
    np.testing.assert_allclose(tree.common_ancestors(nodes[:, None], nodes), common, atol=1e-9)
    np.testing.assert_array_equal(tree.common_ancestors(nodes, nodes), tree.depth)


def check_conversions(tree: gm.Tree) -> None:
    """The other matrices of a tree, as expressions in its structure matrix."""
    n = tree.n
    G = gm.GenerationMatrix(tree).toarray()
    common = np.linalg.inv(G.T @ G)
    A = gm.adjacency(tree).toarray()
    np.testing.assert_array_equal(A, np.eye(n) - G)
    np.testing.assert_array_equal(gm.adjacency(tree, directed=False).toarray(), A + A.T)
    unit = np.eye(n)[tree.root]
    np.testing.assert_array_equal(gm.laplacian(tree).toarray(), G.T @ G - np.outer(unit, unit))
    depth = np.linalg.inv(G) @ np.ones((n, n))
    np.testing.assert_allclose(gm.distance_matrix(tree), depth + depth.T - 2 * common, atol=1e-9)
    H = gm.MappingMatrix(tree.leaves, n).toarray()
    np.testing.assert_allclose(gm.ancestral_matrix(tree), H @ common @ H.T - 1, atol=1e-9)
    # Weighted: with the square roots of weights in G, the same product is the Laplacian.
    edge = np.arange(1.0, n + 1)
    root_of = np.sqrt(edge)
    weighted = gm.GenerationMatrix(tree, root_of, root_of).toarray()
    expected = weighted.T @ weighted - edge[tree.root] * np.outer(unit, unit)
    np.testing.assert_allclose(gm.laplacian(tree, edge=edge).toarray(), expected, atol=1e-12)


def check_weighted(tree: gm.Tree, seed: int) -> None:
    """Identities for weights of either sign."""
    n = tree.n
    rng = np.random.default_rng(seed)
    node, edge = rng.uniform(1, 2, (2, n)) * rng.choice([-1, 1], (2, n))
    G = gm.GenerationMatrix(tree, node, edge)
    dense = G.toarray()
    S = gm.GenerationMatrix(tree)
    v = rng.normal(size=n)

    # Propagation upward and downward.
    np.testing.assert_allclose(G.solve(v), np.linalg.solve(dense, v), atol=1e-8)
    np.testing.assert_allclose(G.T.solve(v), np.linalg.solve(dense.T, v), atol=1e-8)

    # A value affects its descendants downward, and its ancestors upward.
    i = int(rng.integers(n))
    unit = np.eye(n)[i]
    np.testing.assert_array_equal(G.solve(unit) != 0, tree.is_ancestor(i, np.arange(n)))
    np.testing.assert_array_equal(G.T.solve(unit) != 0, tree.is_ancestor(np.arange(n), i))

    # Diagonal decomposition.
    alpha, beta = G.diagonal_decomposition()
    np.testing.assert_allclose(np.diag(beta) @ S.toarray() @ np.diag(alpha), dense, atol=1e-12)

    # Eigenvalues and eigenvectors.
    np.testing.assert_array_equal(G.eigenvalues(), node)
    right, left = G.right_eigenvector(i), G.left_eigenvector(i)
    np.testing.assert_allclose(dense @ right, node[i] * right, atol=1e-9 * abs(right).max())
    np.testing.assert_allclose(dense.T @ left, node[i] * left, atol=1e-9 * abs(left).max())

    # Similarity.
    assert G.is_similar(S)
    assert np.array_equal(dense != 0, S.toarray() != 0)


def check_subtrees(tree: gm.Tree) -> None:
    """k-order subtrees are transitive and their matrices are leading blocks."""
    canonical = tree.canonical()
    rng = np.random.default_rng(0)
    node, edge = rng.uniform(1, 2, (2, tree.n))
    G = gm.GenerationMatrix(canonical, node, edge)
    dense = G.toarray()
    np.testing.assert_array_equal(dense, np.tril(dense))
    height = reference.heights(tree.parent.tolist())
    for k in range(tree.height):
        part = tree.k_order_subtree(k)
        assert part.n == sum(h > k for h in height)
        np.testing.assert_array_equal(G.submatrix(k).toarray(), dense[: part.n, : part.n])
        for more in range(part.height):
            assert part.k_order_subtree(more) == tree.k_order_subtree(k + more)
    assert tree.k_order_subtree(0) == tree


def check_mapping(tree: gm.Tree) -> None:
    """Mapping matrices pick and put back; building a tree is G^-T H^T."""
    n, leaves = tree.n, tree.leaves
    H = gm.MappingMatrix(leaves, n)
    np.testing.assert_array_equal(H.toarray() @ H.toarray().T, np.eye(leaves.size))
    x = np.arange(1.0, leaves.size + 1)
    G = gm.GenerationMatrix(tree)
    np.testing.assert_array_equal(tree.aggregate(x), G.T.solve(H.T @ x))
    np.testing.assert_array_equal(tree.leaf_values(tree.aggregate(x)), x)
    np.testing.assert_array_equal(H @ tree.aggregate(x), x)
    # Canonical order as a mapping: it turns G into the matrix of the canonical tree.
    P = gm.MappingMatrix(tree.order, n).toarray()
    np.testing.assert_array_equal(
        P @ G.toarray() @ P.T, gm.GenerationMatrix(tree.canonical()).toarray()
    )
    heights = tree.node_height[tree.order].astype(int)
    assert np.all(np.diff(heights) <= 0)


def check_constraints(tree: gm.Tree) -> None:
    """M is the inner part of G, and inner-product equivalent to a Generation Matrix."""
    G = gm.GenerationMatrix(tree).toarray()
    M = gm.ConstraintMatrix(tree).toarray()
    np.testing.assert_array_equal(M, G[:, tree.internal])
    if tree.n_internal == 0:
        return
    np.testing.assert_array_equal(M.T @ tree.aggregate(np.ones(tree.n_leaves)), 0)
    theta = np.array(list(reference_pairs.theta(tree.parent.tolist()).values()))
    node = np.sqrt(1 + theta)
    equivalent = gm.GenerationMatrix(tree.k_order_subtree(1), node, 1 / node)
    small = equivalent.toarray()
    np.testing.assert_allclose(small.T @ small, M.T @ M, atol=1e-12)
    # Two solves replace the inverse of M^T M, and the trace of the projection is n - n_1 = m.
    x = np.random.default_rng(1).normal(size=tree.n_internal)
    np.testing.assert_allclose(
        equivalent.solve(equivalent.T.solve(x)), np.linalg.solve(M.T @ M, x), atol=1e-9
    )
    projection = np.eye(tree.n) - M @ np.linalg.inv(M.T @ M) @ M.T
    np.testing.assert_allclose(np.trace(projection), tree.n_leaves)


def check_everything(tree: gm.Tree, seed: int) -> None:
    check_structure(tree)
    check_conversions(tree)
    check_weighted(tree, seed)
    check_subtrees(tree)
    check_mapping(tree)
    check_constraints(tree)


@pytest.mark.parametrize("n", range(1, 7))
def test_all_small_trees(n):
    rng = np.random.default_rng(n)
    for seed, parent in enumerate(all_parents(n)):
        check_everything(gm.Tree.from_parents(parent), seed)
        check_everything(gm.Tree.from_parents(renumber(parent, rng.permutation(n))), seed)


@given(trees(max_n=25), st.integers(0, 2**32 - 1))
def test_random_trees(tree, seed):
    check_everything(tree, seed)


@pytest.mark.parametrize("shape", named_shapes(20))
def test_named_shapes(shape):
    check_everything(named_shapes(20)[shape], 0)


def test_the_tour_runs_and_prints(capsys):
    tour = Path(__file__).parents[2] / "examples" / "paper_tour.py"
    run_path(str(tour), run_name="__main__")
    out = capsys.readouterr().out
    # The tour itself checks that it has shown everything.
    assert "All 11 definitions, 11 properties, 9 theorems, 2 corollaries and 2 algorithms" in out
    assert all(f"\nTheorem {k}, " in out for k in range(1, 10))
