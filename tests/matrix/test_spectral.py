"""Eigenvectors, the inverse, siblings and the diagonal decomposition of Generation Matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import pairs as reference_pairs
from scipy import sparse
from trees import named_shapes, parents, trees

import gmtree as gm
from gmtree import _memory, _sweep

seeds = st.integers(0, 2**32 - 1)


def few_weights(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Node weights with many ties, so that some eigenvectors exist; edge weights of any sign."""
    rng = np.random.default_rng(seed)
    node = rng.choice([-2.0, -1.0, 1.0, 2.5, 4.0], n)
    return node, rng.uniform(0.5, 2, n) * rng.choice([-1, 1], n)


# --------------------------------------------------------------------------- eigenvectors


@given(parents(max_n=15), seeds)
def test_right_eigenvectors_exist_exactly_by_the_rule(parent, seed):
    tree = gm.Tree.from_parents(parent)
    node, edge = few_weights(tree.n, seed)
    G = gm.GenerationMatrix(tree, node, edge)
    for i in range(tree.n):
        blocking = reference_pairs.same_weight_below(parent, node, i)
        if blocking:
            with pytest.raises(ValueError, match="right eigenvector; nodes") as error:
                G.right_eigenvector(i)
            named = {f"nodes {i} and {j} both have weight {node[i]:g}." for j in blocking}
            assert any(text in str(error.value) for text in named)
            assert not solvable(G.toarray(), node[i], i)
        else:
            v = G.right_eigenvector(i)
            np.testing.assert_allclose(G @ v, node[i] * v, atol=1e-10 * np.abs(v).max())
            assert v[i] == 1
            outside = [j for j in range(tree.n) if not reference_pairs.is_ancestor(parent, i, j)]
            assert not v[outside].any()


@given(parents(max_n=15), seeds)
def test_left_eigenvectors_exist_exactly_by_the_rule(parent, seed):
    tree = gm.Tree.from_parents(parent)
    node, edge = few_weights(tree.n, seed)
    G = gm.GenerationMatrix(tree, node, edge)
    for i in range(tree.n):
        blocking = reference_pairs.same_weight_above(parent, node, i)
        if blocking:
            text = f"left eigenvector; nodes {i} and {blocking[0]} both have weight {node[i]:g}"
            with pytest.raises(ValueError, match=text):
                G.left_eigenvector(i)
            path = [j for j in range(tree.n) if reference_pairs.is_ancestor(parent, j, i)]
            on_path = G.toarray()[np.ix_(path, path)]
            assert not solvable(on_path.T, node[i], path.index(i))
        else:
            u = G.left_eigenvector(i)
            np.testing.assert_allclose(G.T @ u, node[i] * u, atol=1e-10 * np.abs(u).max())
            assert u[i] == 1
            off = [j for j in range(tree.n) if not reference_pairs.is_ancestor(parent, j, i)]
            assert not u[off].any()


def solvable(A: np.ndarray, eigenvalue: float, i: int) -> bool:
    """Whether A has an eigenvector for this eigenvalue that is not zero at i."""
    _, values, vectors = np.linalg.svd(A - eigenvalue * np.eye(len(A)))
    null = vectors[values < 1e-9 * max(values.max(), 1)]
    return bool(np.any(np.abs(null[:, i]) > 1e-6))


@given(trees(), seeds)
def test_eigenvalues_are_the_node_weights(tree, seed):
    node, edge = few_weights(tree.n, seed)
    G = gm.GenerationMatrix(tree, node, edge)
    np.testing.assert_array_equal(G.eigenvalues(), node)
    np.testing.assert_array_equal(gm.GenerationMatrix(tree).eigenvalues(), np.ones(tree.n))


def test_eigenvalues_are_a_copy():
    G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=[3, 1, 2])
    G.eigenvalues()[:] = 0
    np.testing.assert_array_equal(G.node_weight, [3, 1, 2])


@pytest.mark.parametrize("shape", named_shapes(12))
def test_structure_matrix_has_eigenvectors_only_at_leaves_and_at_the_root(shape):
    tree = named_shapes(12)[shape]
    G = gm.GenerationMatrix(tree)
    for i in range(tree.n):
        unit = np.eye(tree.n)[i]
        if tree.child_count[i] == 0:
            np.testing.assert_array_equal(G.right_eigenvector(i), unit)
        else:
            with pytest.raises(ValueError, match="no descendant of equal weight"):
                G.right_eigenvector(i)
        if i == tree.root:
            np.testing.assert_array_equal(G.left_eigenvector(i), unit)
        else:
            with pytest.raises(ValueError, match=f"nodes {i} and {tree.parent[i]} both"):
                G.left_eigenvector(i)


@given(parents(max_n=12), seeds)
def test_distinct_weights_diagonalise(parent, seed):
    tree = gm.Tree.from_parents(parent)
    rng = np.random.default_rng(seed)
    node = rng.permutation(np.arange(1.0, tree.n + 1))
    G = gm.GenerationMatrix(tree, node, rng.uniform(0.1, 0.5, tree.n))
    V = np.column_stack([G.right_eigenvector(i) for i in range(tree.n)])
    U = np.column_stack([G.left_eigenvector(i) for i in range(tree.n)])
    np.testing.assert_allclose(U.T @ V, np.eye(tree.n), atol=1e-9)
    np.testing.assert_allclose(V @ np.diag(node) @ U.T, G.toarray(), atol=1e-8)


def test_eigenvectors_keep_float32():
    node = np.array([3, 1, 2], np.float32)
    G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=node)
    assert G.right_eigenvector(0).dtype == np.float32
    assert G.left_eigenvector(2).dtype == np.float32


@pytest.mark.parametrize("side", ["right_eigenvector", "left_eigenvector"])
def test_eigenvector_of_no_node(side):
    G = gm.GenerationMatrix(gm.shapes.chain(3))
    with pytest.raises(ValueError, match="'i' must hold node numbers from 0 to 2, not 3"):
        getattr(G, side)(3)
    with pytest.raises(TypeError, match="'i' must be one node number"):
        getattr(G, side)([0, 1])


@pytest.mark.large
def test_eigenvectors_of_a_long_chain():
    n = 1_000_000
    node = np.where(np.arange(n) % 2, 2.0, 3.0)
    node[0] = 1.0
    G = gm.GenerationMatrix(gm.shapes.chain(n), node_weight=node)
    v = G.right_eigenvector(0)
    np.testing.assert_allclose(G @ v, v, atol=1e-300)
    with pytest.raises(ValueError, match="nodes 999999 and 999997 both have weight 2"):
        G.left_eigenvector(n - 1)


# --------------------------------------------------------------------------- inverse


@given(trees(max_n=25), seeds)
def test_inverse_is_the_dense_inverse(tree, seed):
    node, edge = few_weights(tree.n, seed)
    for G in (gm.GenerationMatrix(tree), gm.GenerationMatrix(tree, node, edge)):
        inverse = G.inverse()
        assert isinstance(inverse, sparse.csr_array)
        inverse.check_format(full_check=True)
        assert inverse.has_canonical_format
        assert inverse.nnz == tree.depth.sum()
        np.testing.assert_allclose(inverse @ G.toarray(), np.eye(tree.n), atol=1e-7)


@given(trees())
def test_inverse_of_the_structure_matrix_marks_ancestors(tree):
    nodes = np.arange(tree.n)
    inverse = gm.GenerationMatrix(tree).inverse().toarray()
    np.testing.assert_array_equal(inverse, tree.is_ancestor(nodes, nodes[:, None]))


@pytest.mark.parametrize("threads", [1, 3])
def test_inverse_of_a_tree_shared_between_threads(threads, monkeypatch):
    monkeypatch.setattr(_sweep, "SMALLEST_SHARED_LEVEL", 4)
    tree = gm.shapes.grouped(500, rng=1)
    assert any(shared for _, _, shared in tree._layout.segments)
    v = np.random.default_rng(2).normal(size=tree.n)
    G = gm.GenerationMatrix(tree, node_weight=2.0, edge_weight=-0.5, threads=threads)
    np.testing.assert_allclose(G.inverse() @ v, G.solve(v), atol=1e-12)


def test_inverse_keeps_float32():
    G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=np.float32(2))
    assert G.inverse().dtype == np.float32


def test_inverse_too_large_is_refused_with_the_number(monkeypatch):
    monkeypatch.setattr(_memory, "limit", lambda: 10**9)
    n = 20_000
    text = rf"{n * (n + 1) // 2} non-zero entries, would take 2\.4 GB.*tree\.is_ancestor"
    with pytest.raises(ValueError, match=text):
        gm.GenerationMatrix(gm.shapes.chain(n)).inverse()


# --------------------------------------------------------------------------- siblings


@given(trees(max_n=25), seeds)
def test_siblings_is_the_product_with_the_transpose(tree, seed):
    node, edge = few_weights(tree.n, seed)
    for G in (gm.GenerationMatrix(tree), gm.GenerationMatrix(tree, node, edge)):
        product = G.siblings()
        assert isinstance(product, sparse.csr_array)
        assert product.has_sorted_indices
        np.testing.assert_allclose(product.toarray(), G.toarray() @ G.toarray().T)
        children = tree.child_count.astype(int)
        assert product.nnz == 2 * tree.n - 1 + children @ children


def test_siblings_too_large_is_refused_with_the_number(monkeypatch):
    n = 20_000
    monkeypatch.setattr(_memory, "limit", lambda: 10**9)
    with pytest.raises(ValueError, match=f"{n * n} non-zero entries, would take"):
        gm.GenerationMatrix(gm.shapes.star(n)).siblings()


# --------------------------------------------------------------------------- decomposition


@given(parents(max_n=25), seeds)
def test_diagonal_decomposition(parent, seed):
    tree = gm.Tree.from_parents(parent)
    node, edge = few_weights(tree.n, seed)
    alpha, beta = gm.GenerationMatrix(tree, node, edge).diagonal_decomposition()
    expected = reference_pairs.diagonal_decomposition(parent, node, edge)
    np.testing.assert_allclose(alpha, expected[0], rtol=1e-12)
    np.testing.assert_allclose(beta, expected[1], rtol=1e-12)


@given(trees(), seeds)
def test_diagonal_decomposition_gives_the_matrix_back(tree, seed):
    node, edge = few_weights(tree.n, seed)
    structure = gm.GenerationMatrix(tree).toarray()
    for weights in [(None, None), (node, None), (None, edge), (node, edge)]:
        G = gm.GenerationMatrix(tree, *weights)
        alpha, beta = G.diagonal_decomposition()
        np.testing.assert_allclose(beta[:, None] * structure * alpha, G.toarray(), rtol=1e-12)


def test_diagonal_decomposition_keeps_float32():
    G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=np.float32(2))
    assert {x.dtype for x in G.diagonal_decomposition()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(("node", "value"), [(2.0, "inf"), (0.5, "")])
def test_diagonal_decomposition_out_of_range_names_the_node(node, value):
    G = gm.GenerationMatrix(gm.shapes.chain(2000), node_weight=node)
    with pytest.raises(ValueError, match=rf"float64: at node 102\d the product .* is {value}"):
        G.diagonal_decomposition()
