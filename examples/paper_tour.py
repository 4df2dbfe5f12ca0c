r"""A tour of the paper that introduced Generation Matrices, on a tree of ten nodes.

Each definition, property and theorem of "Generation Matrix: An Embeddable Matrix
Representation for Hierarchical Trees" is stated, computed with gmtree, printed, and checked
against dense linear algebra. Run it with

    python examples/paper_tour.py

The paper counts nodes from 1; here, as in numpy, node 0 is the root. Its text says of the example
tree that it has ten nodes in descending order of height, that the leaves are the last five, and
that a 2-order subtree is left of it. This tree has all that; how its nodes are joined is our own
choice:

            0
          /   \
         1     4
        / \   / \
       2   3 8   9
      / \  |
     5   6 7
"""

from __future__ import annotations

import numpy as np

import gmtree as gm

TREE = gm.Tree.from_parents([-1, 0, 1, 1, 0, 2, 2, 3, 4, 4])
NODE = np.array([2.0, -1.0, 3.0, 0.5, 4.0, 1.5, -3.0, 5.0, 2.5, 6.0])
EDGE = np.array([1.0, 2.0, -0.5, 1.0, 3.0, 1.0, -2.0, 0.25, 1.0, 2.0])


def section(title: str) -> None:
    print(f"\n{title}\n{'=' * len(title)}")


def show(statement: str, value: object, expected: object) -> None:
    """Print a statement of the paper beside what gmtree computes, and check it."""
    np.testing.assert_allclose(
        np.asarray(value, dtype=float), np.asarray(expected, dtype=float), atol=1e-12
    )
    print(f"\n{statement}")
    # Adding zero turns -0 into 0.
    text = np.array2string(
        np.asarray(value) + 0, precision=3, suppress_small=True, max_line_width=96
    )
    print("    " + text.replace("\n", "\n    "))


def trees() -> None:
    section("Trees: heights, order, k-order subtrees")
    height = [4, 3, 2, 2, 2, 1, 1, 1, 1, 1]
    show("Height: 1 at a leaf, else one more than the highest child", TREE.node_height, height)
    steps = np.diff(TREE.node_height)
    show("Descending order of height: no step from i to i + 1 is up", steps, np.minimum(steps, 0))
    for k, nodes in enumerate([range(10), range(5), range(2), range(1)]):
        show(
            f"T({k}), the nodes of height above {k}, are {len(nodes)} of 10",
            TREE.subtree(k).parent,
            TREE.parent[list(nodes)],
        )
    for a in range(4):
        for b in range(4 - a):
            assert TREE.subtree(a).subtree(b) == TREE.subtree(a + b)
    print("\nTransitivity T(a)(b) = T(a + b): holds for all a + b < 4")


def generation_matrices() -> None:
    section("Generation Matrix")
    G = gm.GenerationMatrix(TREE, NODE, EDGE)
    dense = np.diag(NODE)
    for i in range(1, 10):
        dense[i, TREE.parent[i]] = -EDGE[i]
    show("G: node weights on the diagonal, minus edge weights at (i, parent)", G.toarray(), dense)
    show("Sparsity: 2n - 1 non-zero entries", G.nnz, 2 * 10 - 1)
    above = np.count_nonzero(np.triu(G.toarray(), 1))
    show("Lower triangular, since parents come first: entries above the diagonal", above, 0)
    show("2-order submatrix: the leading block of G", G.submatrix(2).toarray(), dense[:2, :2])
    structure = gm.GenerationMatrix(TREE)
    assert G.is_similar(structure)
    print("\nSimilar matrices have their non-zero entries in the same places: G ~ structure matrix")

    v = np.arange(1.0, 11)
    show("Upward propagation, G^-T v", G.T.solve(v), np.linalg.solve(dense.T, v))
    show("Downward propagation, G^-1 v", G.solve(v), np.linalg.solve(dense, v))
    reached = gm.GenerationMatrix(TREE).T.solve(np.eye(10)[7])
    show("Upward, the value of node 7 reaches itself and its ancestors", reached, on_path(7))

    H = gm.MappingMatrix(np.arange(5) + 5, 10)
    show("Mapping matrix of the leaves, x_i = v_(i+5): H H^T = I", H @ H.T.toarray(), np.eye(5))
    assert TREE.leaves.tolist() == H.index.tolist()
    x = np.array([3, 1, 4, 1, 5])
    show("BuildTree, G^-T H^T x", TREE.aggregate(x), structure.T.solve(H.T @ x))
    show("and its inverse, H v", TREE.restrict(TREE.aggregate(x)), x)


def on_path(i: int) -> np.ndarray:
    """1 at node i and its ancestors."""
    marked = np.zeros(10)
    while i >= 0:
        marked[i] = 1
        i = TREE.parent[i]
    return marked


def properties() -> None:
    section("Properties of the structure matrix G")
    G = gm.GenerationMatrix(TREE)
    dense, one = G.toarray(), np.ones(10)
    show("(I - G^T) 1: number of children", one - G.T @ one, TREE.child_count)
    show("G^-T 1: number of nodes in each subtree", G.T.solve(one), TREE.subtree_size)
    show("G^-1 1: depth, the root having 1", G.solve(one), TREE.depth)
    inverse = G.inverse().toarray()
    show("G^-1 is 1 at (i, j) where j is i or an ancestor", inverse, np.linalg.inv(dense))
    nodes = np.arange(10)
    show("  the same for all pairs", TREE.is_ancestor(nodes, nodes[:, None]).astype(int), inverse)
    show(
        "G G^T is 1 off the diagonal where i and j are siblings",
        G.siblings().toarray(),
        dense @ dense.T,
    )
    same_parent = TREE.parent[:, None] == TREE.parent
    np.testing.assert_array_equal(
        (G.siblings().toarray() == 1) & (np.eye(10) == 0), same_parent & (np.eye(10) == 0)
    )
    show(
        "(G^T G)^-1 counts common ancestors; the depth on the diagonal",
        TREE.common_ancestors(nodes[:, None], nodes),
        np.linalg.inv(dense.T @ dense),
    )
    print(f"\nOne pair: the lowest common ancestor of 5 and 7 is {TREE.lca(5, 7)}")
    assert TREE.lca(5, 7) == 1


def spectrum() -> None:
    section("Eigenvalues, eigenvectors, diagonal decomposition")
    G = gm.GenerationMatrix(TREE, NODE, EDGE)
    dense = G.toarray()
    show("The eigenvalues are the node weights", G.eigenvalues(), NODE)
    for i in (1, 7):
        v, u = G.right_eigenvector(i), G.left_eigenvector(i)
        show(
            f"Right eigenvector of node {i}, on its descendants: G v = w_{i} v",
            v,
            dense @ v / NODE[i],
        )
        show(
            f"Left eigenvector of node {i}, on its ancestors: u^T G = w_{i} u^T",
            u,
            u @ dense / NODE[i],
        )
    structure = gm.GenerationMatrix(TREE)
    try:
        structure.left_eigenvector(7)
    except ValueError as error:
        print(f"\nEqual weights on a path leave no such vector:\n    {error}")
    else:
        raise AssertionError("The structure matrix has no left eigenvector at node 7.")
    alpha, beta = G.diagonal_decomposition()
    show("alpha_i = alpha_parent * w_i / e_i, for weights of either sign", alpha, NODE / beta)
    show(
        "G = diag(beta) S diag(alpha), S the structure matrix",
        beta[:, None] * structure.toarray() * alpha,
        dense,
    )


def conversions() -> None:
    section("Other matrices, and back")
    G = gm.GenerationMatrix(TREE).toarray()
    common = np.linalg.inv(G.T @ G)
    show("Adjacency, child to parent: A = I - G", gm.adjacency(TREE).toarray(), np.eye(10) - G)
    A = gm.adjacency(TREE, directed=False)
    show("Undirected: A + A^T", A.toarray(), 2 * np.eye(10) - G - G.T)
    root = np.outer(np.eye(10)[0], np.eye(10)[0])
    show("Laplacian: G^T G - e_1 e_1^T", gm.laplacian(TREE).toarray(), G.T @ G - root)
    depth = np.linalg.inv(G) @ np.ones((10, 10))
    D = gm.distance_matrix(TREE)
    show("Distance: G^-1 J + J G^-T - 2 (G^T G)^-1, J all ones", D, depth + depth.T - 2 * common)
    C = gm.ancestral_matrix(TREE)
    show("Ancestral, on leaves: H (G^T G)^-1 H^T - 1", C, common[5:, 5:] - 1)
    assert gm.tree_from_structure(G) == TREE
    assert gm.tree_from_adjacency(gm.adjacency(TREE)) == TREE
    assert gm.tree_from_adjacency(A, root=0) == TREE
    assert gm.tree_from_laplacian(gm.laplacian(TREE), root=0) == TREE
    assert gm.tree_from_distances(D, root=0) == TREE
    print("\nG, A, A + A^T, L and D all lead back to the tree, the last three with its root")


def lo_qr() -> None:
    section('"LO" QR decomposition of the constraints')
    M = gm.ConstraintMatrix(TREE)
    step = M.toarray()
    show(
        "M: the columns of G that belong to inner nodes",
        step,
        gm.GenerationMatrix(TREE).toarray()[:, :5],
    )
    similar = gm.GenerationMatrix(TREE.subtree(1)).toarray() != 0
    for t in range(4, -1, -1):
        np.testing.assert_array_equal(step[:5] != 0, similar)
        assert np.all(np.count_nonzero(step[5:], axis=1) == 1)
        assert not step[5:, t + 1 :].any()
        step = gm.householder(step, [t, *range(t), *range(5, 10)], t)
    print("\nBefore each Householder step: the upper half is similar to G of T(1), each row of the")
    print("lower half has one entry, and the columns already treated are zero there")
    Q, L = gm.lo_qr(M)
    show("M = Q [L; 0] with Q orthogonal", Q[:, :5] @ L, M.toarray())
    show("L", L, step[:5])

    # theta_i = number of children - sum of 1 / (1 + theta_j) over inner children j.
    theta = TREE.child_count[:5].astype(float)
    for i in range(4, 0, -1):
        theta[TREE.parent[i]] -= 1 / (1 + theta[i])
    node = np.sqrt(1 + theta)
    G = gm.GenerationMatrix(TREE.subtree(1), node, 1 / node)
    show("theta, from the last inner node to the first", theta, np.diag(L) ** 2 - 1)
    show(
        "L is the Generation Matrix of T(1) with weights sqrt(1 + theta) and inverse",
        G.toarray(),
        L,
    )
    show("Inner-product equivalence: M^T M = G^T G", M.T @ M.toarray(), L.T @ L)

    noisy = np.array([14.3, 8.9, 3.6, 4.4, 5.2, 3.3, 0.8, 4.1, 0.7, 5.5])
    consistent = noisy - M @ G.solve(G.T.solve(M.T @ noisy))
    dense = M.toarray()
    closest = noisy - dense @ np.linalg.solve(dense.T @ dense, dense.T @ noisy)
    show("Optimal consistent values: v - M G^-1 G^-T M^T v", consistent, closest)
    error = (M.T @ consistent).round(12)
    show("  every node is the sum of its children: M^T v = 0", error, np.zeros(5))
    projection = np.eye(10) - dense @ np.linalg.inv(dense.T @ dense) @ dense.T
    show(
        "  the mean square error falls by m / n: the projection has trace m",
        np.trace(projection),
        5,
    )


def main() -> None:
    print(f"{TREE}, parents {TREE.parent.tolist()}")
    trees()
    generation_matrices()
    properties()
    spectrum()
    conversions()
    lo_qr()
    print("\nEvery identity above was checked against dense linear algebra.")


if __name__ == "__main__":
    main()
