"""Other matrices of a tree: adjacency, Laplacian, distances and common ancestors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _memory, _sweep
from gmtree import _validate as check
from gmtree._kernels import pairs as pair_kernels
from gmtree._kernels import sparse as kernels
from gmtree.tree import Tree
from gmtree.tree.pairs import edge_lengths

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# --------------------------------------------------------------------------- sparse matrices


def adjacency(tree: Tree, directed: bool = True, *, edge: Any = None) -> csr_array:
    """The adjacency matrix of a tree.

    Parameters
    ----------
    tree : Tree
    directed : bool
        If True, only the edges from child to parent are entered: row i has its entry in the column
        of the parent of i. The matrix is then ``I - G``, with the structure matrix G. If False, the
        matrix is symmetric.
    edge : array of n non-zero reals, or one number, optional
        Weight of the edge from each node to its parent (the root's entry is ignored). By default
        every edge has weight 1.

    Returns
    -------
    scipy.sparse.csr_array

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.star(3)
    >>> gm.adjacency(tree).toarray().astype(int)
    array([[0, 0, 0],
           [1, 0, 0],
           [1, 0, 0]])
    >>> gm.adjacency(tree, directed=False).toarray().astype(int)
    array([[0, 1, 1],
           [1, 0, 0],
           [1, 0, 0]])
    """
    from scipy.sparse import csr_array

    weight = _edge_weights(tree, edge)
    if not check.flag("directed", directed):
        return _neighbour_matrix(tree, weight, None)
    n, root = tree.n, tree.root
    indptr = np.arange(n + 1, dtype=check.index_dtype(n))
    indptr[root + 1 :] -= 1
    indices = np.delete(tree.parent, root)
    data = np.ones(n - 1) if weight is None else np.delete(weight, root)
    return csr_array((data, indices, indptr), shape=(n, n))


def laplacian(tree: Tree, *, edge: Any = None) -> csr_array:
    """The Laplacian matrix of a tree, with degrees on the diagonal and -1 between neighbours.

    It equals ``G.T @ G``, with the structure matrix G, except that its diagonal entry at the root
    is smaller by one.

    Parameters
    ----------
    tree : Tree
    edge : array of n non-zero reals, or one number, optional
        Weight of the edge from each node to its parent (the root's entry is ignored). The diagonal
        then holds the sum of the weights of the edges at each node. By default every edge has
        weight 1.

    Returns
    -------
    scipy.sparse.csr_array

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.laplacian(gm.shapes.chain(3)).toarray().astype(int)
    array([[ 1, -1,  0],
           [-1,  2, -1],
           [ 0, -1,  1]])
    """
    weight = _edge_weights(tree, edge)
    if weight is None:
        degree = tree.child_count + 1.0
        degree[tree.root] -= 1
    else:
        degree = weight.copy()
        degree[tree.root] = 0
        below = np.delete(np.arange(tree.n), tree.root)
        degree += np.bincount(tree.parent[below], weight[below], tree.n)
    return _neighbour_matrix(tree, weight, degree)


def _edge_weights(tree: Tree, edge: Any) -> np.ndarray | None:
    check.instance("tree", tree, Tree)
    weight = check.weights("edge", edge, tree.n, root=tree.root)
    return None if weight is None else weight.astype(np.float64, copy=False)


def _neighbour_matrix(
    tree: Tree, weight: np.ndarray | None, diagonal: np.ndarray | None
) -> csr_array:
    from scipy.sparse import csr_array

    n = tree.n
    own = 1 if diagonal is None else 2
    nnz = n - 1 + own * n - 1
    start, child, _ = tree._child_lists
    # The row of a node has entries for its children, its parent and, with a diagonal, itself.
    indptr = np.arange(0, own * n + 1, own, dtype=check.index_dtype(nnz))
    indptr += start.view(tree.parent.dtype)
    indptr[tree.root + 1 :] -= 1
    indices, data = np.empty(nnz, indptr.dtype), np.empty(nnz)
    parent, root = _sweep.unsigned(tree.parent), np.uint64(tree.root)
    columns = _sweep.unsigned(indices)
    kernels.neighbour_rows(parent, root, start, child, weight, diagonal, columns, data)
    return csr_array((data, indices, indptr), shape=(n, n))


# --------------------------------------------------------------------------- dense matrices


def distance_matrix(tree: Tree, edge: Any = None, *, nodes: Any = None) -> np.ndarray:
    """Dense matrix of the distances between all pairs of nodes, or of some nodes.

    For a large tree use :meth:`Tree.distance`, which computes single pairs without the matrix.

    Parameters
    ----------
    tree : Tree
    edge : array of n reals, one number, or "count", optional
        Length of the edge from each node to its parent (the root's entry is ignored). By default
        :attr:`Tree.edge_length` if the tree has lengths, and otherwise every edge counts 1.
        ``"count"`` counts edges even if the tree has lengths.
    nodes : array of int, optional
        Nodes of the rows and columns, in this order; by default all nodes. With ``tree.leaves`` the
        result is the patristic distance matrix.

    Returns
    -------
    array of shape (n, n), or (k, k) for k nodes
        float64, or int64 if edges are counted or lengths are integers.

    Notes
    -----
    Integer lengths are summed exactly. If `nodes` is given, sums of other lengths are rounded
    relative to the distance from the root, as in :meth:`Tree.distance`.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.distance_matrix(gm.shapes.star(3))
    array([[0, 1, 1],
           [1, 0, 2],
           [1, 2, 0]])
    >>> tree = gm.shapes.complete(2, 3)
    >>> gm.distance_matrix(tree, [0, 1, 1, 5, 6, 7, 8], nodes=[4, 3, 6])
    array([[ 0, 11, 16],
           [11,  0, 15],
           [16, 15,  0]])
    """
    lengths, from_root = _lengths(tree, edge)
    chosen = None if nodes is None else check.node_numbers("nodes", nodes, tree.n)
    if chosen is not None and chosen.ndim != 1:
        check.fail("nodes", f"must be one-dimensional, not have shape {chosen.shape}.")
    n = tree.n if chosen is None else chosen.size
    _memory.refuse_above_limit(
        f"The distance matrix of {n} nodes", 8 * n * n, "Use tree.distance(i, j) for single pairs."
    )
    if chosen is None and (lengths is None or lengths.dtype == np.int64):
        chosen = np.arange(n)
    if chosen is not None:
        return tree._paths.matrix(chosen, tree._depth_first(chosen), from_root, from_root)
    out = np.zeros((n, n))
    layout = tree._natural_layout
    pair_kernels.all_distances(layout.parent, layout.order, lengths, out, 1, n)
    return out


def ancestral_matrix(tree: Tree, *, edge: Any = None) -> np.ndarray:
    """Matrix of the lengths that the paths from the root to every two leaves share.

    Rows and columns are in the order of ``tree.leaves``. If edges are counted, an entry is the
    number of common ancestors minus one. For single pairs in a large tree use
    :meth:`Tree.common_ancestors`.

    Parameters
    ----------
    tree : Tree
    edge : array of n reals, one number, or "count", optional
        Lengths of edges, as in :func:`distance_matrix`.

    Returns
    -------
    array of shape (n_leaves, n_leaves)
        float64, or int64 if edges are counted or lengths are integers.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.ancestral_matrix(gm.shapes.complete(2, 3))
    array([[2, 1, 0, 0],
           [1, 2, 0, 0],
           [0, 0, 2, 1],
           [0, 0, 1, 2]])
    """
    _, from_root = _lengths(tree, edge)
    m = tree.n_leaves
    _memory.refuse_above_limit(
        f"The ancestral matrix of {m} leaves",
        8 * m * m,
        "Use tree.common_ancestors(i, j) for single pairs.",
    )
    return tree.cophenetic(from_root)


def _lengths(tree: Tree, edge: Any) -> tuple[np.ndarray | None, np.ndarray]:
    """Length of each edge (None if edges are counted), and distance of each node from the root."""
    check.instance("tree", tree, Tree)
    lengths = tree._lengths(edge)
    sums = tree._sums_from_root(lengths)
    if lengths is None:
        return None, sums.astype(np.int64) - 1
    return edge_lengths(lengths, tree.n, tree.root), sums
