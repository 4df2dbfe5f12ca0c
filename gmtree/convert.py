"""Other matrices of a tree, trees from such matrices, and networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _memory, _sweep
from gmtree import _validate as check
from gmtree._kernels import pairs as pair_kernels
from gmtree._kernels import sparse as kernels
from gmtree.labels.distinct import as_objects, is_missing
from gmtree.matrix import GenerationMatrix
from gmtree.tree import Tree
from gmtree.tree.pairs import edge_lengths, sums_from_root

if TYPE_CHECKING:
    from networkx import DiGraph
    from scipy.sparse import csr_array

# --------------------------------------------------------------------------- sparse matrices


def adjacency(tree: Tree, directed: bool = True, *, edge: Any = None) -> csr_array:
    """The adjacency matrix of a tree.

    Parameters
    ----------
    tree : Tree
    directed : bool
        True gives the matrix of edges from child to parent, ``I - G`` for the structure matrix
        G: row i has its entry in the column of i's parent. False gives that plus its transpose.
    edge : array of n non-zero reals, or one number, optional
        Weight of the edge from each node to its parent (the root's entry is ignored).

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
    """The Laplacian matrix of a tree: degrees on the diagonal, -1 between neighbours.

    It equals ``G.T @ G`` for the structure matrix G, less one at the root.

    Parameters
    ----------
    tree : Tree
    edge : array of n non-zero reals, or one number, optional
        Weight of the edge from each node to its parent (the root's entry is ignored). The
        diagonal then holds the sum of the weights at each node.

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
    # Every node has its children, its parent and, if wanted, itself in its row.
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
    """Distances between all pairs of nodes, or of some of them, as a dense matrix.

    For a large tree use :meth:`Tree.distance`, which answers pairs without the matrix.

    Parameters
    ----------
    tree : Tree
    edge : array of n reals, or one number, optional
        Length of the edge from each node to its parent (the root's entry is ignored); by
        default 1, so that distances count edges.
    nodes : array of int, optional
        Nodes to which rows and columns belong, in this order; by default all. With
        ``tree.leaves`` this is the patristic distance matrix of the leaves.

    Returns
    -------
    array of shape (n, n), or (k, k) for k nodes
        int64, or float64 where lengths are.

    Notes
    -----
    Lengths that are integers are summed exactly. Among some `nodes` others are rounded relative to
    the distance from the root, as in :meth:`Tree.distance`.

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
    chosen = None if nodes is None else _chosen("nodes", nodes, tree.n)
    n = tree.n if chosen is None else chosen.size
    _memory.refuse_above_limit(
        f"The distance matrix of {n} nodes", 8 * n * n, "tree.distance(i, j) answers pairs."
    )
    if chosen is None and (lengths is None or lengths.dtype == np.int64):
        chosen = np.arange(n)
    if chosen is not None:
        return tree._paths.matrix(chosen, tree._depth_first(chosen), from_root, from_root)
    out = np.zeros((n, n))
    layout = tree._natural_layout
    pair_kernels.all_distances(layout.parent, layout.order, lengths, out, 1, n)
    return out


def _chosen(argument: str, nodes: Any, n: int) -> np.ndarray:
    """Node numbers in a row."""
    a = check.node_numbers(argument, nodes, n)
    if a.ndim != 1:
        check.fail(argument, f"must be a list of nodes, not have shape {a.shape}.")
    return a


def ancestral_matrix(tree: Tree, *, edge: Any = None) -> np.ndarray:
    """The number of edges shared by the paths from the root to each two leaves.

    Rows and columns follow ``tree.leaves``. An entry is the number of common ancestors less
    one; for a large tree use :meth:`Tree.common_ancestors`.

    Parameters
    ----------
    tree : Tree
    edge : array of n reals, or one number, optional
        Length of the edge from each node to its parent (the root's entry is ignored); the
        matrix then holds the sum of the lengths of shared edges.

    Returns
    -------
    array of shape (n_leaves, n_leaves)
        int64, or float64 where lengths are.

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
        "tree.common_ancestors(i, j) answers pairs.",
    )
    return tree.cophenetic(from_root)


def _lengths(tree: Tree, edge: Any) -> tuple[np.ndarray | None, np.ndarray]:
    """Length of each edge, None if all are one; distance of each node from the root."""
    check.instance("tree", tree, Tree)
    if edge is None:
        return None, tree.depth.astype(np.int64) - 1
    sums = sums_from_root("edge", edge, tree._natural_layout, tree.root, tree.height)
    return edge_lengths("edge", edge, tree.n, tree.root), sums


# --------------------------------------------------------------------------- trees from matrices


def generation_matrix_from(A: Any) -> GenerationMatrix:
    """The Generation Matrix whose entries are those of a given matrix.

    A weighted tree and its Generation Matrix determine each other: the parent of i is the column
    of the one entry beside the diagonal in row i.

    Parameters
    ----------
    A : array or scipy sparse matrix of shape (n, n)
        With a non-zero diagonal, and one more non-zero entry in every row but the root's.

    Examples
    --------
    >>> import gmtree as gm
    >>> G = gm.generation_matrix_from([[2, 0, 0], [-1, 1, 0], [0, -3, 1]])
    >>> G.tree.parent, G.node, G.edge
    (array([-1,  0,  1], dtype=int32), array([2., 1., 1.]), array([1., 1., 3.]))
    """
    matrix = _square("A", A)
    node = matrix.diagonal().astype(np.float64)
    if not node.all():
        i = int(np.flatnonzero(node == 0)[0])
        check.fail("A", f"must have a non-zero diagonal; row {i} has 0.")
    parent, above = _one_parent("A", matrix)
    edge = np.negative(above)
    edge[parent < 0] = 1
    tree = Tree._build("A", parent)
    return GenerationMatrix(
        tree,
        None if np.all(node == 1) else node,
        None if np.all(edge == 1) else edge,
    )


def tree_from_structure(A: Any) -> Tree:
    """The tree of a structure matrix: 1 on the diagonal, -1 in the column of the parent.

    Parameters
    ----------
    A : array or scipy sparse matrix of shape (n, n)

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.tree_from_structure([[1, 0, 0], [-1, 1, 0], [-1, 0, 1]]).parent
    array([-1,  0,  0], dtype=int32)
    """
    G = generation_matrix_from(A)
    if not G.is_structure:
        bad = np.flatnonzero((G.node != 1) | (G.edge != 1))
        check.fail(
            "A",
            f"must hold 1 on the diagonal and -1 beside it; row {bad[0]} holds "
            f"{G.node[bad[0]]:g} and {-G.edge[bad[0]]:g}. generation_matrix_from keeps weights.",
        )
    return G.tree


def tree_from_adjacency(A: Any, root: int | None = None) -> Tree:
    """The tree of an adjacency matrix.

    Parameters
    ----------
    A : array or scipy sparse matrix of shape (n, n)
        Any non-zero entry is an edge.
    root : int, optional
        None means that A is directed, with the entry of row i in the column of i's parent.
        With a root, A is the symmetric matrix of an undirected tree.

    Examples
    --------
    >>> import gmtree as gm
    >>> A = gm.adjacency(gm.shapes.chain(3), directed=False)
    >>> gm.tree_from_adjacency(A, root=1).parent
    array([ 1, -1,  1], dtype=int32)
    """
    matrix = _square("A", A)
    if matrix.diagonal().any():
        i = int(np.flatnonzero(matrix.diagonal())[0])
        check.fail("A", f"must have a zero diagonal; node {i} is its own neighbour.")
    if root is not None:
        return _rooted_at("A", matrix, root)
    if matrix.nnz and _first_asymmetry(matrix) is None:
        check.fail("root", "must be given, since matrix 'A' is symmetric: its tree is undirected.")
    return Tree._build("A", _one_parent("A", matrix)[0])


def tree_from_laplacian(L: Any, root: int) -> Tree:
    """The tree of a Laplacian matrix, weighted or not, rooted at a given node.

    Parameters
    ----------
    L : array or scipy sparse matrix of shape (n, n)
        Symmetric, with rows that add up to zero.
    root : int

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.tree_from_laplacian([[1, -1, 0], [-1, 2, -1], [0, -1, 1]], root=1).parent
    array([ 1, -1,  1], dtype=int32)
    """
    matrix = _square("L", L).astype(np.float64)
    excess, scale = np.abs(matrix.sum(axis=1)), abs(matrix).sum(axis=1)
    bad = np.flatnonzero(excess > 1e-9 * scale)
    if bad.size:
        check.fail("L", f"must have rows that add up to 0; row {bad[0]} does not.")
    return _rooted_at("L", _off_diagonal(matrix), root)


def tree_from_distances(D: Any, root: int) -> Tree:
    """The tree whose nodes have these distances, in edges, rooted at a given node.

    The parent of a node is its neighbour, at distance 1, that is nearer to the root. Whether D
    belongs to a tree at all is checked against all its distances.

    Parameters
    ----------
    D : array of shape (n, n)
    root : int

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.tree_from_distances([[0, 2, 1], [2, 0, 1], [1, 1, 0]], root=0).parent
    array([-1,  2,  0], dtype=int32)
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
    tree = Tree._build("D", parent)
    differs = np.argwhere(distance_matrix(tree) != distances)
    if differs.size:
        i, j = differs[0]
        check.fail(
            "D",
            f"must be the distances of a tree; between nodes {i} and {j} it has "
            f"{distances[i, j]:g} instead of {tree.distance(i, j)}.",
        )
    return tree


def _square(argument: str, A: Any) -> csr_array:
    """A real square matrix as a csr_array of our own, without stored zeros."""
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


def _one_parent(argument: str, matrix: csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Column and value of the one entry beside the diagonal in each row; -1 and 0 at the root."""
    off = _off_diagonal(matrix)
    count = np.diff(off.indptr)
    if count.max() > 1:
        i = int(np.flatnonzero(count > 1)[0])
        check.fail(
            argument,
            f"must have at most one entry beside the diagonal in each row, in the column of the "
            f"parent; row {i} has {count[i]}.",
        )
    child = np.flatnonzero(count)
    parent = np.full(matrix.shape[0], -1, dtype=check.index_dtype(matrix.shape[0]))
    value = np.zeros(matrix.shape[0])
    parent[child], value[child] = off.indices, off.data
    return parent, value


def _rooted_at(argument: str, neighbours: csr_array, root: int) -> Tree:
    """The undirected tree with these symmetric neighbours, rooted at `root`."""
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
        check.fail(argument, f"must be connected; node {i} is not reached from the root {root}.")
    if neighbours.nnz > 2 * (n - 1):
        check.fail(
            argument,
            f"must have no cycle; it has {neighbours.nnz // 2} edges, a tree of {n} nodes {n - 1}.",
        )
    parent = above.astype(check.index_dtype(n))
    parent[root] = -1
    return Tree._build(argument, parent)


def _first_asymmetry(matrix: csr_array) -> tuple[int, int] | None:
    """Row and column of the first entry that differs from the one across the diagonal."""
    row, column = (matrix != matrix.T).nonzero()
    return (int(row[0]), int(column[0])) if row.size else None


# --------------------------------------------------------------------------- networkx


def to_networkx(tree: Tree) -> DiGraph:
    """The tree as a networkx digraph with edges from parent to child.

    Nodes are the labels of the tree where all are given and distinct, and node numbers otherwise.
    Labels are also kept as the attribute ``label`` of the nodes. The lengths of a tree with
    :attr:`Tree.edge_length` become the attribute ``weight`` of the edges, where algorithms of
    networkx look for them; an edge without a length has no such attribute, and networkx then
    counts it as 1.

    :meth:`Tree.from_networkx` leads back, to the same numbers, labels and lengths of edges. What
    does not come back is the length of a root, which has no edge, and the names of levels. A tree
    without labels gets the numbers of its nodes as labels.

    Examples
    --------
    >>> import gmtree as gm
    >>> graph = gm.to_networkx(gm.shapes.star(3))
    >>> list(graph.edges)
    [(0, 1), (0, 2)]
    >>> tree = gm.Tree.from_newick("(cat:1,dog:7)mammal;")
    >>> list(gm.to_networkx(tree).edges(data="weight"))
    [('mammal', 'cat', 1.0), ('mammal', 'dog', 7.0)]
    """
    check.instance("tree", tree, Tree)
    networkx = check.optional("networkx", "graph", "to_networkx")
    graph = networkx.DiGraph()
    names: list[Any] = list(range(tree.n))
    if tree.labels is None:
        graph.add_nodes_from(names)
    else:
        labels = as_objects(tree.labels).tolist()
        if len(set(labels)) == tree.n and not any(map(is_missing, labels)):
            names = labels
        graph.add_nodes_from((name, {"label": x}) for name, x in zip(names, labels, strict=True))
    parents = tree.parent.tolist()
    lengths = [None] * tree.n if tree.edge_length is None else tree.edge_length.tolist()
    weights = [{} if is_missing(x) else {"weight": x} for x in lengths]
    graph.add_edges_from((names[p], names[i], weights[i]) for i, p in enumerate(parents) if p >= 0)
    return graph
