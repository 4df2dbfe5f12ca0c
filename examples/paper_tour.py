r"""A tour of the paper that introduced Generation Matrices, on a tree of ten nodes.

The tour states each definition, property, theorem, corollary and algorithm of "Generation Matrix:
An Embeddable Matrix Representation for Hierarchical Trees", computes it with gmtree, and checks the
result with dense linear algebra or a plain loop. ``help(gmtree.gmc)`` has a table of the paper's
names and those of gmtree. Run the tour with

    python examples/paper_tour.py

The paper counts nodes from 1. Here node 0 is the root, as in numpy. The example tree of the paper
has ten nodes in descending order of height, of which the last five are leaves, and a 2-order
subtree of two nodes. This tree agrees with that, but the paper may join the nodes in another way:

            0
          /   \
         1     4
        / \   / \
       2   3 8   9
      / \  |
     5   6 7
"""

from __future__ import annotations

import re

import numpy as np

import gmtree as gm

TREE = gm.Tree.from_parents([-1, 0, 1, 1, 0, 2, 2, 3, 4, 4])
NODE = np.array([2.0, -1.0, 3.0, 0.5, 4.0, 1.5, -3.0, 5.0, 2.5, 6.0])
EDGE = np.array([1.0, 2.0, -0.5, 1.0, 3.0, 1.0, -2.0, 0.25, 1.0, 2.0])
COUNTS = np.array([3, 1, 4, 1, 5])
ONE = np.ones(10)
# Numbers of statements in the paper. At the end all of them must have been shown.
IN_THE_PAPER = {"Definition": 11, "Property": 11, "Theorem": 9, "Corollary": 2, "Algorithm": 2}
SHOWN: set[tuple[str, int]] = set()


def section(title: str) -> None:
    print(f"\n{title}\n{'=' * len(title)}")


def show(statement: str, value: object, expected: object) -> None:
    """Print a statement of the paper beside what gmtree computes, and check it."""
    np.testing.assert_allclose(
        np.asarray(value, dtype=float), np.asarray(expected, dtype=float), atol=1e-12
    )
    say(statement)
    # Adding zero turns -0 into 0.
    text = np.array2string(
        np.asarray(value) + 0, precision=3, suppress_small=True, max_line_width=96
    )
    print("    " + text.replace("\n", "\n    "))


def say(statement: str) -> None:
    """Print a statement that has been checked, and remember its number in the paper."""
    found = re.match(r"(\w+) (\d+)", statement)
    if found and found[1] in IN_THE_PAPER:
        SHOWN.add((found[1], int(found[2])))
    print(f"\n{statement}")


# --------------------------------------------------------------------------- preliminaries


def trees() -> None:
    section("Trees: heights, order, k-order subtrees")
    TREE.show()
    roots = np.flatnonzero(TREE.parent < 0)
    show("Definition 1, a hierarchical tree has one root; all other nodes are below it", roots, [0])
    assert TREE.subtree_size[TREE.root] == TREE.n
    height = [4, 3, 2, 2, 2, 1, 1, 1, 1, 1]
    show(
        "Definition 2, height: 1 at a leaf, else one more than the highest child",
        TREE.node_height,
        height,
    )
    for k, nodes in enumerate([range(10), range(5), range(2), range(1)]):
        show(
            f"Definition 3, T({k}), the nodes of height above {k}, are {len(nodes)} of 10",
            TREE.k_order_subtree(k).parent,
            TREE.parent[list(nodes)],
        )
    for a in range(4):
        for b in range(4 - a):
            assert TREE.k_order_subtree(a).k_order_subtree(b) == TREE.k_order_subtree(a + b)
    say("Transitivity, T(a)(b) = T(a + b): holds for all a + b < 4")


def privacy() -> None:
    section("Differential privacy and consistency")
    # The density of Laplace noise is exp(-|noise| / scale) up to a factor. Between data sets that
    # differ by one person in one leaf, the ratio of the densities is largest where the output is
    # one of the two sets of true values.
    epsilon = 1.0
    scale, v = TREE.height / epsilon, TREE.aggregate(COUNTS)
    largest = []
    for person in np.eye(TREE.n_leaves, dtype=int):
        neighbour = TREE.aggregate(COUNTS + person)
        largest.append(np.abs(neighbour - v).sum() / scale)
    show(
        "Definition 4, epsilon-differential privacy: noise of scale h / epsilon at each node of a\n"
        "path keeps the logarithm of every ratio of densities below, for one person in each leaf,",
        largest,
        epsilon * TREE.depth[TREE.leaves] / TREE.height,
    )
    assert max(largest) <= epsilon
    ledger = gm.release(TREE, COUNTS, epsilon=1).ledger
    show("  gm.release(tree, counts, epsilon=1).ledger.total", float(ledger.total), epsilon)
    M = gm.ConstraintMatrix(TREE)
    dense = np.zeros((10, 5))
    for i in range(10):
        if i < 5:
            dense[i, i] = 1
        if i > 0:
            dense[i, TREE.parent[i]] = -1
    show("Definition 5, constraints M: 1 at (i, i), -1 at (i, parent)", M.toarray(), dense)
    show("  a tree of sums keeps them: M^T v = 0", M.T @ TREE.aggregate(COUNTS), np.zeros(5))
    steps = np.diff(TREE.node_height)
    show(
        "Definition 6, descending order of height: no step from i to i + 1 is up",
        steps,
        np.minimum(steps, 0),
    )
    shuffled = gm.Tree.from_parents([3, 3, 0, -1, 0])
    show(
        "  any numbering: the nodes of another tree in that order",
        shuffled.node_height[shuffled.order],
        [3, 2, 1, 1, 1],
    )


# --------------------------------------------------------------------------- Generation Matrix


def generation_matrices() -> None:
    section("Generation Matrix")
    G = gm.GenerationMatrix(TREE, NODE, EDGE)
    dense = np.diag(NODE)
    for i in range(1, 10):
        dense[i, TREE.parent[i]] = -EDGE[i]
    show(
        "Definition 7, G: node weights on the diagonal, minus edge weights at (i, parent)",
        G.toarray(),
        dense,
    )
    above = np.count_nonzero(np.triu(G.toarray(), 1))
    show("  lower triangular, since parents come first: entries above the diagonal", above, 0)
    show("  2-order submatrix: the leading block of G", G.submatrix(2).toarray(), dense[:2, :2])
    structure = gm.GenerationMatrix(TREE)
    assert G.is_similar(structure)
    assert not G.is_similar(gm.GenerationMatrix(gm.shapes.chain(10)))
    say(
        "Definition 8, similar: non-zero entries in the same places. G is similar to the\n"
        "structure matrix, not to that of a chain of ten nodes"
    )
    H = gm.MappingMatrix(np.arange(5) + 5, 10)
    assert TREE.leaves.tolist() == H.index.tolist()
    show(
        "Definition 9, mapping matrix of the leaves, x_i = v_(i+5): H H^T = I",
        H @ H.T.toarray(),
        np.eye(5),
    )
    show("  H^T e_i = e_(s_i), for i = 1", H.T @ np.eye(5)[1], np.eye(10)[6])
    show("BuildTree, G^-T H^T x", TREE.aggregate(COUNTS), structure.T.solve(H.T @ COUNTS))
    show("  and its inverse, H v", TREE.leaf_values(TREE.aggregate(COUNTS)), COUNTS)
    F = gm.MappingMatrix(TREE.parent[5:], 5)
    M = gm.ConstraintMatrix(TREE).toarray()
    show(
        "H_S(f), the parents of the leaves, which repeat; below T(1), M is minus that",
        F.toarray(),
        -M[5:],
    )
    show("  its transpose adds up the leaves of each node", F.T @ COUNTS, F.T.toarray() @ COUNTS)


def propagation() -> None:
    section("Sparsity and propagation")
    G = gm.GenerationMatrix(TREE, NODE, EDGE)
    dense, v = G.toarray(), np.arange(1.0, 11)
    show("Property 1, sparsity: 2n - 1 non-zero entries", G.nnz, np.count_nonzero(dense))
    up = v.copy()
    for i in range(9, -1, -1):
        for j in TREE.children(i):
            up[i] -= dense[j, i] * up[j]
        up[i] /= dense[i, i]
    show("Property 2, upward propagation: G^-T v is a recursion from the leaves", G.T.solve(v), up)
    down = v.copy()
    for i in range(10):
        if i > 0:
            down[i] -= dense[i, TREE.parent[i]] * down[TREE.parent[i]]
        down[i] /= dense[i, i]
    show("Property 3, downward propagation: G^-1 v is one from the root", G.solve(v), down)
    structure = gm.GenerationMatrix(TREE)
    reached = structure.T.solve(np.eye(10)[7])
    show("Corollary 1, upward the value of node 7 reaches its ancestors", reached, on_path(7))
    below = [1.0 if on_path(j)[1] else 0.0 for j in range(10)]
    show("  downward that of node 1 reaches its descendants", structure.solve(np.eye(10)[1]), below)


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
    dense = G.toarray()
    show("Property 4, (I - G^T) 1: number of children", ONE - G.T @ ONE, TREE.child_count)
    show("Property 5, G^-T 1: number of nodes in each subtree", G.T.solve(ONE), TREE.subtree_size)
    show("Property 6, G^-1 1: depth, the root having 1", G.solve(ONE), TREE.depth)
    inverse = G.inverse().toarray()
    show("Property 7, G^-1 is 1 at (i, j) where j is i or above", inverse, np.linalg.inv(dense))
    nodes = np.arange(10)
    show("  the same for all pairs", TREE.is_ancestor(nodes, nodes[:, None]).astype(int), inverse)
    show(
        "Property 8, G G^T is 1 off the diagonal where i and j are siblings",
        G.siblings().toarray(),
        dense @ dense.T,
    )
    same_parent = TREE.parent[:, None] == TREE.parent
    np.testing.assert_array_equal(
        (G.siblings().toarray() == 1) & (np.eye(10) == 0), same_parent & (np.eye(10) == 0)
    )
    show(
        "Property 9, (G^T G)^-1 counts common ancestors; the depth on the diagonal",
        TREE.common_ancestors(nodes[:, None], nodes),
        np.linalg.inv(dense.T @ dense),
    )
    show("  one pair: the lowest common ancestor of 5 and 7", TREE.lca(5, 7), 1)


def spectrum() -> None:
    section("Eigenvalues, eigenvectors, diagonal decomposition")
    G = gm.GenerationMatrix(TREE, NODE, EDGE)
    dense = G.toarray()
    show("Property 10, the eigenvalues are the node weights", G.eigenvalues(), NODE)
    for i in (1, 7):
        v, u = G.right_eigenvector(i), G.left_eigenvector(i)
        show(
            f"  right eigenvector of node {i}, on its descendants: G v = w_{i} v",
            v,
            dense @ v / NODE[i],
        )
        show(
            f"  left eigenvector of node {i}, on its ancestors: u^T G = w_{i} u^T",
            u,
            u @ dense / NODE[i],
        )
    structure = gm.GenerationMatrix(TREE)
    try:
        structure.left_eigenvector(7)
    except ValueError as error:
        print(f"\n  equal weights on a path leave no such vector:\n    {error}")
    else:
        raise AssertionError("The structure matrix has no left eigenvector at node 7.")
    alpha, beta = G.diagonal_decomposition()
    show(
        "Property 11, G = diag(beta) S diag(alpha), S the structure matrix",
        beta[:, None] * structure.toarray() * alpha,
        dense,
    )
    show("  alpha_i = alpha_parent * w_i / e_i, for weights of either sign", alpha, NODE / beta)


def conversions() -> None:
    section("Other matrices, and back")
    G = gm.GenerationMatrix(TREE).toarray()
    common = np.linalg.inv(G.T @ G)
    A = gm.adjacency(TREE)
    show("Theorem 1, adjacency, child to parent: A = I - G", A.toarray(), np.eye(10) - G)
    both = gm.adjacency(TREE, directed=False)
    show("  undirected: A + A^T", both.toarray(), 2 * np.eye(10) - G - G.T)
    root = np.outer(np.eye(10)[0], np.eye(10)[0])
    L = gm.laplacian(TREE)
    show("Theorem 2, Laplacian: G^T G - e_1 e_1^T", L.toarray(), G.T @ G - root)
    depth = np.linalg.inv(G) @ np.ones((10, 10))
    D = gm.distance_matrix(TREE)
    show(
        "Theorem 3, distance: G^-1 J + J G^-T - 2 (G^T G)^-1, J all ones",
        D,
        depth + depth.T - 2 * common,
    )
    C = gm.ancestral_matrix(TREE)
    show("Theorem 4, ancestral, on leaves: H (G^T G)^-1 H^T - 1", C, common[5:, 5:] - 1)
    assert gm.Tree.from_structure(G) == TREE
    assert gm.Tree.from_adjacency(A) == TREE
    assert gm.Tree.from_adjacency(both, root=0) == TREE
    assert gm.Tree.from_laplacian(L, root=0) == TREE
    assert gm.Tree.from_distances(D, root=0) == TREE
    say("G, A, A + A^T, L and D all lead back to the tree, the last three with its root")


# --------------------------------------------------------------------------- consistent release


def errors() -> None:
    section("The error of the optimal consistent values")
    dense = gm.ConstraintMatrix(TREE).toarray()
    projection = np.eye(10) - dense @ np.linalg.inv(dense.T @ dense) @ dense.T
    post = gm.Consistency(TREE)
    show(
        "Theorem 5, summed over all nodes the mean square error falls from n to m times that of\n"
        "one measurement: the trace of the projection",
        np.trace(projection),
        TREE.n_leaves,
    )
    show("  and how it is shared among the nodes", post.node_variance(), np.diag(projection))


def lo_qr() -> None:
    section('"LO" QR decomposition of the constraints')
    M = gm.ConstraintMatrix(TREE)
    dense = M.toarray()
    Q, L = gm.lo_qr(M)
    show("Definition 10, M = Q [L; 0]: Q orthogonal", Q.T @ Q, np.eye(10))
    show("  L lower triangular", L, np.tril(L))
    show("  and their product is M", Q[:, :5] @ L, dense)
    step = gm.householder(dense, [4, 0, 1, 2, 3, *range(5, 10)], 4)
    column = np.zeros(10)
    column[4] = np.linalg.norm(dense[:, 4])
    show(
        "Definition 11, an (S, j)-Householder transformation puts the norm of column j into\n"
        "the first row of S and zeros into the others",
        step[:, 4],
        column,
    )
    step = dense
    similar = gm.GenerationMatrix(TREE.k_order_subtree(1)).toarray() != 0
    for t in range(4, -1, -1):
        np.testing.assert_array_equal(step[:5] != 0, similar)
        assert np.all(np.count_nonzero(step[5:], axis=1) == 1)
        assert not step[5:, t + 1 :].any()
        step = gm.householder(step, [t, *range(t), *range(5, 10)], t)
    say(
        "Theorem 6, before each Householder step: the upper half is similar to G of T(1), each\n"
        "row of the lower half has one entry, and the columns already treated are zero there"
    )
    show("Theorem 7, in the end the lower half is zero", step[5:], np.zeros((5, 5)))
    show("  and the upper half is a Generation Matrix on T(1)", step[:5], L)
    show("Theorem 8, inner-product equivalence: M^T M = G^T G", M.T @ dense, L.T @ L)


def algorithms() -> None:
    section("GMC: the optimally consistent release")
    M, G = gm.ConstraintMatrix(TREE), gm.gmc.construct(TREE)
    dense = M.toarray()
    y = np.array([1.0, -2.0, 0.5, 3.0, -1.0])
    show(
        "Corollary 2, (M^T M)^-1 y is an upward and a downward propagation",
        G.solve(G.T.solve(y)),
        np.linalg.solve(dense.T @ dense, y),
    )
    _, L = gm.lo_qr(M)
    # Bottom up: theta_i = number of children - sum of 1 / (1 + theta_j) over inner children j.
    theta = TREE.child_count[:5].astype(float)
    for i in range(4, 0, -1):
        theta[TREE.parent[i]] -= 1 / (1 + theta[i])
    show("Theorem 9, theta", gm.Consistency(TREE).theta, theta)
    node = np.sqrt(1 + theta)
    weighted = gm.GenerationMatrix(TREE.k_order_subtree(1), node, 1 / node)
    show("  nodes weigh sqrt(1 + theta), edges one over that", weighted.toarray(), L)
    show("Algorithm 1 (stage 1), gm.gmc.construct(tree)", G.toarray(), L)

    v = gm.gmc.release(TREE, COUNTS, epsilon=1, rng=7)
    noise = gm.privacy.testing.continuous_laplace(TREE.height / 1, TREE.n, rng=7)
    noisy = TREE.aggregate(COUNTS) + noise
    closest = noisy - dense @ np.linalg.solve(dense.T @ dense, dense.T @ noisy)
    show("Algorithm 2 (GMC), gm.gmc.release(tree, counts, epsilon=1)", v, closest)
    show("  every node is the sum of its children: M^T v = 0", (M.T @ v).round(12), np.zeros(5))
    show("  stage 2 alone, v - M G^-1 G^-T M^T v", gm.gmc.with_square_roots(TREE, noisy), v)
    show("  the same without square roots", gm.gmc.without_square_roots(TREE, noisy), v)
    show("  and what to use: two fused sweeps", gm.Consistency(TREE).project(noisy), v)
    print("\nContinuous noise is for study. To publish, gm.release draws exact discrete noise:")
    released = gm.release(TREE, COUNTS, epsilon=1)
    print(f"    {released.ledger.mechanism}, epsilon = {released.ledger.total}")


def main() -> None:
    for part in (trees, privacy, generation_matrices, propagation, properties, spectrum):
        part()
    for part in (conversions, errors, lo_qr, algorithms):
        part()
    wanted = {(kind, k + 1) for kind, count in IN_THE_PAPER.items() for k in range(count)}
    assert wanted == SHOWN, f"not shown: {sorted(wanted - SHOWN)}"
    print(
        "\nAll 11 definitions, 11 properties, 9 theorems, 2 corollaries and 2 algorithms of the"
        "\npaper were shown above, each checked against dense linear algebra or a plain loop."
    )


if __name__ == "__main__":
    main()
