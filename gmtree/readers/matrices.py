"""Trees from matrices: adjacency, Laplacian, distances, Generation Matrix and structure matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def generation_matrix(A: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parents, node weights and edge weights, from a Generation Matrix."""
    matrix = _square("A", A)
    node = matrix.diagonal().astype(np.float64)
    if not node.all():
        i = int(np.flatnonzero(node == 0)[0])
        check.fail("A", f"must have a non-zero diagonal; row {i} has 0.")
    parent, above = _one_parent(matrix)
    edge = np.negative(above)
    edge[parent < 0] = 1
    return parent, node, edge


def from_structure(A: Any) -> np.ndarray:
    """Parents from a structure matrix."""
    parent, node, edge = generation_matrix(A)
    bad = np.flatnonzero((node != 1) | (edge != 1))
    if bad.size:
        check.fail(
            "A",
            f"must hold 1 on the diagonal and -1 off it; row {bad[0]} holds {node[bad[0]]:g} "
            f"and {-edge[bad[0]]:g}. For a matrix with weights, use GenerationMatrix.from_matrix.",
        )
    return parent


def from_adjacency(A: Any, root: int | None) -> np.ndarray:
    """Parents from an adjacency matrix, which must be directed if `root` is None."""
    matrix = _square("A", A)
    if matrix.diagonal().any():
        i = int(np.flatnonzero(matrix.diagonal())[0])
        check.fail("A", f"must have a zero diagonal; node {i} is its own neighbour.")
    if root is not None:
        return _rooted_at("A", matrix, root)
    if matrix.nnz and _first_asymmetry(matrix) is None:
        check.fail(
            "root", "must be given, because matrix 'A' is symmetric, so its tree is undirected."
        )
    return _one_parent(matrix)[0]


def from_laplacian(L: Any, root: int) -> np.ndarray:
    """Parents from a Laplacian matrix."""
    matrix = _square("L", L).astype(np.float64)
    excess, scale = np.abs(matrix.sum(axis=1)), abs(matrix).sum(axis=1)
    bad = np.flatnonzero(excess > 1e-9 * scale)
    if bad.size:
        check.fail("L", f"must have rows that add up to 0; the sum of row {bad[0]} is not 0.")
    return _rooted_at("L", _off_diagonal(matrix), root)


def from_distances(D: Any, root: int) -> np.ndarray:
    """Parents from the number of edges between every two nodes.

    The parent of a node is its neighbour (a node at distance 1) that is nearer to the root. All
    entries are then checked from the root down: ``D[i, j] = D[parent(i), j] + 1`` for nodes j
    before i.
    """
    distances = check.reals("D", D)
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1] or distances.size == 0:
        check.fail("D", f"must be a square matrix, not have shape {distances.shape}.")
    n = distances.shape[0]
    root = check.node_number("root", root, n)
    child, above = np.nonzero(distances == 1)
    nearer = distances[root][above] < distances[root][child]
    child, above = child[nearer], above[nearer]
    count = np.bincount(child, minlength=n)
    count[root] += 1
    bad = np.flatnonzero(count != 1)
    if bad.size:
        check.fail(
            "D",
            f"must be the distances of a tree; node {bad[0]} has {count[bad[0]] - (bad[0] == root)}"
            " neighbours at distance 1 that are nearer to the root.",
        )
    parent = np.full(n, -1, dtype=check.index_dtype(n))
    parent[child] = above
    expected = np.zeros((n, n))
    done: list[int] = []
    for i in np.argsort(distances[root], kind="stable").tolist():
        if done:
            expected[i, done] = expected[done, i] = expected[parent[i], done] + 1
        done.append(i)
    differs = np.argwhere(expected != distances)
    if differs.size:
        i, j = differs[0]
        check.fail(
            "D",
            f"must be the distances of a tree; the entry of nodes {i} and {j} is "
            f"{distances[i, j]:g} instead of {expected[i, j]:g}.",
        )
    return parent


def _square(argument: str, A: Any) -> csr_array:
    """Copy of a real square matrix as a csr_array without stored zeros."""
    from scipy.sparse import csr_array

    given = A.tocsr() if hasattr(A, "tocsr") else check.array(argument, A)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.shape[0] == 0:
        check.fail(argument, f"must be a square matrix, not have shape {given.shape}.")
    check.of_kind(argument, given, "biuf", "real numbers")
    matrix = csr_array(given, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        row = np.searchsorted(matrix.indptr, bad[0], side="right") - 1
        check.fail(argument, f"must be finite; row {row} holds {matrix.data[bad[0]]}.")
    return matrix


def _off_diagonal(matrix: csr_array) -> csr_array:
    from scipy.sparse import csr_array

    row, column = matrix.nonzero()
    off = row != column
    return csr_array((matrix.data[off], (row[off], column[off])), shape=matrix.shape)


def _one_parent(matrix: csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Column and value of the only off-diagonal entry of each row; -1 and 0 for the root."""
    off = _off_diagonal(matrix)
    count = np.diff(off.indptr)
    if count.max() > 1:
        i = int(np.flatnonzero(count > 1)[0])
        check.fail(
            "A",
            f"must have at most one off-diagonal entry per row, in the column of the parent; "
            f"row {i} has {count[i]}.",
        )
    child = np.flatnonzero(count)
    parent = np.full(matrix.shape[0], -1, dtype=check.index_dtype(matrix.shape[0]))
    value = np.zeros(matrix.shape[0])
    parent[child], value[child] = off.indices, off.data
    return parent, value


def _rooted_at(argument: str, neighbours: csr_array, root: int) -> np.ndarray:
    """Parents in an undirected tree with a given root, from its symmetric adjacency matrix."""
    from scipy.sparse.csgraph import breadth_first_order

    n = neighbours.shape[0]
    root = check.node_number("root", root, n)
    first = _first_asymmetry(neighbours)
    if first is not None:
        i, j = first
        check.fail(argument, f"must be symmetric; entries ({i}, {j}) and ({j}, {i}) differ.")
    reached, above = breadth_first_order(neighbours, root, directed=True)
    if reached.size < n:
        missed = np.ones(n, bool)
        missed[reached] = False
        i = int(np.flatnonzero(missed)[0])
        check.fail(argument, f"must be connected; node {i} cannot be reached from the root {root}.")
    if neighbours.nnz > 2 * (n - 1):
        check.fail(
            argument,
            f"must have no cycle; it has {neighbours.nnz // 2} edges, "
            f"but a tree of {n} nodes has {n - 1}.",
        )
    parent = above.astype(check.index_dtype(n))
    parent[root] = -1
    return parent


def _first_asymmetry(matrix: csr_array) -> tuple[int, int] | None:
    """Row and column of the first entry that differs from its mirror image, or None."""
    row, column = (matrix != matrix.T).nonzero()
    return (int(row[0]), int(column[0])) if row.size else None
