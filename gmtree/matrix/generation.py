"""`GenerationMatrix`: recursions over a tree as products and solves, each of which is one sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _memory, _sweep
from gmtree import _validate as check
from gmtree._kernels import sparse
from gmtree.matrix.operators import TreeMatrix
from gmtree.readers import matrices
from gmtree.tree import Tree

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Sweep = Callable[..., None]


class GenerationMatrix(TreeMatrix):
    """The Generation Matrix G of a tree; recursions over the tree are solves with G.

    ``G[i, i]`` is the weight of node i, and ``G[i, parent(i)]`` is minus the weight of the edge
    from i to its parent. Rows and columns are in your own numbering. In canonical order G is lower
    triangular.

    Parameters
    ----------
    tree : Tree
    node_weight, edge_weight : array of n non-zero reals, or one number, optional
        Weights of the nodes, and of the edges to their parents (the root's entry is ignored). By
        default all weights are 1, and G is the *structure matrix*.
    threads : int, optional
        Number of threads that share a sweep over a large tree. By default there is one for each
        available core. Results do not depend on this number.

    Attributes
    ----------
    tree : Tree
        The tree of the matrix.

    Notes
    -----
    ``G.solve(v)`` passes values down, ``z_i = (v_i + e_i z_parent) / w_i``. ``G.T.solve(v)`` passes
    them up, ``z_i = (v_i + sum of e_c z_c over children) / w_i``. Each is one sweep over flat
    arrays. Values have the shape ``(n,)`` or ``(n, k)``. The types float32 and float64 are kept.
    The structure matrix sums integers exactly, and raises an error if a sum does not fit into 64
    bits. NaN and infinity propagate as in numpy.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    >>> G = gm.GenerationMatrix(tree)
    >>> G.toarray().astype(int)
    array([[ 1,  0,  0,  0,  0],
           [-1,  1,  0,  0,  0],
           [-1,  0,  1,  0,  0],
           [ 0, -1,  0,  1,  0],
           [ 0, -1,  0,  0,  1]])
    >>> G.T.solve(np.ones(5))  # nodes below and including each
    array([5., 3., 1., 1., 1.])
    >>> G.solve(np.ones(5))  # depth of each
    array([1., 2., 2., 3., 3.])
    """

    def __init__(
        self,
        tree: Tree,
        node_weight: Any = None,
        edge_weight: Any = None,
        *,
        threads: int | None = None,
    ) -> None:
        check.instance("tree", tree, Tree)
        self.tree = tree
        self.shape = (tree.n, tree.n)
        self._threads = check.threads("threads", threads)
        self._layout = tree._natural_layout
        node = check.weights("node_weight", node_weight, tree.n)
        edge = check.weights("edge_weight", edge_weight, tree.n, root=tree.root)
        given = [w for w in (node, edge) if w is not None]
        self.dtype = np.result_type(*given) if given else np.dtype(np.float64)
        self._node, self._edge = self._by_position(node), self._by_position(edge)

    @classmethod
    def from_matrix(cls, A: Any) -> GenerationMatrix:
        """Make a `GenerationMatrix` from its entries, by finding its tree and its weights.

        A weighted tree and its Generation Matrix determine each other: the parent of i is the
        column of the only entry of row i that is not on the diagonal.

        Parameters
        ----------
        A : array or scipy sparse matrix of shape (n, n)
            The diagonal must not contain zeros. Each row except the root's must have exactly one
            other non-zero entry.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix.from_matrix([[2, 0, 0], [-1, 1, 0], [0, -3, 1]])
        >>> G.tree.parent, G.node_weight, G.edge_weight
        (array([-1,  0,  1], dtype=int32), array([2., 1., 1.]), array([1., 1., 3.]))
        """
        parent, node, edge = matrices.generation_matrix(A)
        tree = Tree.from_parents(parent)
        given = [None if np.all(weight == 1) else weight for weight in (node, edge)]
        return cls(tree, *given)

    def _by_position(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights in the order of sweep positions."""
        if weight is None:
            return None
        order = self._layout.order
        return _sweep.readonly((weight if order is None else weight[order]).astype(self.dtype))

    def _by_node(self, weight: np.ndarray | None) -> np.ndarray:
        if weight is None:
            return np.ones(self.tree.n, self.dtype)
        if self._layout.order is None:
            return weight
        out = np.empty_like(weight)
        out[self._layout.order] = weight
        return out

    @property
    def nnz(self) -> int:
        """Number of non-zero entries, 2n - 1."""
        return 2 * self.tree.n - 1

    @property
    def is_structure(self) -> bool:
        """Whether this is the structure matrix, that is, no weights were given."""
        return self._node is None and self._edge is None

    @property
    def node_weight(self) -> np.ndarray:
        """Weight of each node."""
        return self._by_node(self._node)

    @property
    def edge_weight(self) -> np.ndarray:
        """Weight of the edge from each node to its parent; 1 at the root."""
        return self._by_node(self._edge)

    # ------------------------------------------------------------------ products and solves

    def solve(
        self, v: Any, *, out: np.ndarray | None = None, overwrite: bool = False
    ) -> np.ndarray:
        """Solve ``G z = v``: the downward recursion ``z_i = (v_i + e_i z_parent) / w_i``.

        Parameters
        ----------
        v : array of shape (n,) or (n, k)
            Right-hand sides, with one row per node.
        out : array, optional
            Array that receives the result; it may be `v`. By default a new array is made.
        overwrite : bool
            Whether to write the result into `v`, which must be a writable array of the result's
            type. False by default.

        Examples
        --------
        >>> import numpy as np, gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(4), edge_weight=0.5)
        >>> G.solve(np.array([8.0, 0, 0, 0]))
        array([8., 4., 2., 1.])
        """
        return self._solve(_sweep.propagate, v, out, overwrite)

    def _solve(self, sweep: Sweep, v: Any, out: np.ndarray | None, overwrite: bool) -> np.ndarray:
        if check.flag("overwrite", overwrite):
            if out is not None:
                check.fail("out", "must not be given together with overwrite=True.")
            if not isinstance(v, np.ndarray):
                check.fail_type("v", "must be a numpy array to be overwritten.")
            if not v.flags.writeable:
                check.fail("v", "must be writable to be overwritten.")
        checked = self.tree._values("v", v)
        if overwrite:
            dtype = self._result_dtype(checked)
            if v.dtype != dtype:
                check.fail("v", f"must have dtype {dtype} to be overwritten, not {v.dtype}.")
            out = v
        growth = self.tree.n if sweep is _sweep.accumulate else self.tree.height
        return self._run(sweep, checked, out, growth, in_place=True)

    def _result_dtype(self, v: np.ndarray) -> np.dtype:
        """Type of the result: that of `v`, or float64 for integers if there are weights."""
        if self.is_structure or v.dtype.kind == "f":
            return v.dtype
        return np.result_type(v, self.dtype)

    def _run(
        self, sweep: Sweep, v: np.ndarray, out: np.ndarray | None, growth: int, *, in_place: bool
    ) -> np.ndarray:
        """Result of one sweep over validated values."""
        dtype = self._result_dtype(v)
        v = v.astype(dtype, copy=False)

        def operation(v: np.ndarray, out: np.ndarray) -> None:
            sweep(self._layout, v, out, self._node, self._edge, self._threads)

        return _sweep.deliver(
            operation, "v", v, out, v.shape, dtype, growth=growth, in_place=in_place
        )

    def _multiply(self, v: np.ndarray) -> np.ndarray:
        return self._run(_sweep.multiply, v, None, 2, in_place=False)

    def _multiply_transposed(self, v: np.ndarray) -> np.ndarray:
        return self._run(_sweep.multiply_transposed, v, None, self.tree.n, in_place=False)

    # ------------------------------------------------------------------ other forms

    def tocsr(self) -> csr_array:
        """G as a `scipy.sparse.csr_array`, rows and columns by node."""
        from scipy.sparse import csr_array

        tree, n = self.tree, self.tree.n
        indptr = np.arange(0, 2 * n + 1, 2, dtype=check.index_dtype(2 * n))
        indptr[tree.root + 1 :] -= 1
        indices, data = np.empty(self.nnz, indptr.dtype), np.empty(self.nnz, self.dtype)
        node = None if self._node is None else self.node_weight
        edge = None if self._edge is None else self.edge_weight
        parent, root = _sweep.unsigned(tree.parent), np.uint64(tree.root)
        sparse.generation_rows(parent, root, node, edge, _sweep.unsigned(indices), data)
        return csr_array((data, indices, indptr), shape=self.shape)

    def inverse(self) -> csr_array:
        """The inverse of G as a `scipy.sparse.csr_array`; use `solve` for products with it.

        Entry (i, j) is non-zero if and only if j is i or an ancestor of i. For the structure matrix
        it is then 1. The number of non-zero entries is the sum of the depths of all nodes. A
        ValueError with this number is raised if they would fill more than half of the memory.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.GenerationMatrix(gm.shapes.chain(3)).inverse().toarray().astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [1, 1, 1]])
        """
        from scipy.sparse import csr_array

        tree = self.tree
        nnz = int(tree.depth.sum(dtype=np.int64))
        index = check.index_dtype(nnz)
        _memory.refuse_above_limit(
            f"The inverse, with {nnz} non-zero entries,",
            nnz * (index.itemsize + self.dtype.itemsize),
            "G.solve(v) multiplies by the inverse without forming it, and "
            "tree.is_ancestor(i, j) answers pairs.",
        )
        indptr = np.zeros(tree.n + 1, index)
        np.cumsum(tree.depth, out=indptr[1:])
        indices, data = np.empty(nnz, index), np.empty(nnz, self.dtype)
        first = indptr[tree.root]
        indices[first] = tree.root
        data[first] = 1 if self._node is None else 1 / self._node[0]
        layout = self._layout
        weights = (layout.parent, layout.order, self._node, self._edge)
        args = (*weights, _sweep.unsigned(indptr), _sweep.unsigned(indices), data)
        with _sweep.team(layout, self._threads) as run:
            for segment in layout.segments:
                run(sparse.ancestor_rows, args, segment)
        return csr_array((data, indices, indptr), shape=self.shape)

    def siblings(self) -> csr_array:
        """The product ``G @ G.T`` as a `scipy.sparse.csr_array`, which shows the siblings.

        For the structure matrix an off-diagonal entry is 1 if the two nodes are siblings, -1 if one
        is the parent of the other, and 0 otherwise. With weights, the entry of two siblings is the
        product of the weights of their edges. A node with c children contributes ``c * c`` entries.
        A ValueError with the number of entries is raised if they would fill more than half of the
        memory.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.GenerationMatrix(gm.shapes.star(3)).siblings().toarray().astype(int)
        array([[ 1, -1, -1],
               [-1,  2,  1],
               [-1,  1,  2]])
        """
        children = self.tree.child_count.astype(np.int64)
        nnz = 1 + 2 * (self.tree.n - 1) + int(children @ children)
        _memory.refuse_above_limit(
            f"The product, with {nnz} non-zero entries,",
            nnz * (check.index_dtype(nnz).itemsize + self.dtype.itemsize),
            "Nodes i and j are siblings if tree.parent[i] == tree.parent[j].",
        )
        return self @ self.T

    def submatrix(self, k: int) -> GenerationMatrix:
        """The Generation Matrix of the k-order subtree, with the weights of its nodes.

        If the numbering is canonical, it is the leading block of G.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.complete(2, 3), node_weight=2)
        >>> G.submatrix(1).toarray()
        array([[ 2.,  0.,  0.],
               [-1.,  2.,  0.],
               [-1.,  0.,  2.]])
        """
        subtree = self.tree.k_order_subtree(k)
        kept = np.sort(self.tree.order[: subtree.n])
        node = None if self._node is None else self.node_weight[kept]
        edge = None if self._edge is None else self.edge_weight[kept]
        return GenerationMatrix(subtree, node, edge, threads=self._threads)

    def is_similar(self, other: GenerationMatrix) -> bool:
        """Whether the non-zero entries of two matrices are in the same places.

        This means that their trees have the same parents.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.star(3)
        >>> gm.GenerationMatrix(tree).is_similar(gm.GenerationMatrix(tree, edge_weight=2))
        True
        """
        check.instance("other", other, GenerationMatrix)
        return np.array_equal(self.tree.parent, other.tree.parent)

    # ------------------------------------------------------------------ eigenvectors and factors

    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues of G: the weight of each node.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.GenerationMatrix(gm.shapes.chain(3), node_weight=[3, 1, 2]).eigenvalues()
        array([3., 1., 2.])
        """
        return self.node_weight.copy()

    def right_eigenvector(self, i: int) -> np.ndarray:
        """The vector v with ``G @ v = w_i v`` that is 1 at node i and 0 outside its subtree.

        Below i it satisfies ``v_j = e_j v_parent / (w_j - w_i)``, which takes one downward sweep.
        Such a vector exists if and only if no descendant of i has the weight of i.

        Raises
        ------
        ValueError
            If there is no such vector. The message names a descendant of equal weight.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=[3, 1, 2])
        >>> v = G.right_eigenvector(1)
        >>> v, G @ v
        (array([0., 1., 1.]), array([0., 1., 1.]))
        """
        kin = self.tree.descendants(i)
        return self._eigenvector(_sweep.propagate, i, kin[kin != i], "right", "descendant")

    def left_eigenvector(self, i: int) -> np.ndarray:
        """The vector u with ``G.T @ u = w_i u``: 1 at i, and 0 except at i and its ancestors.

        Above i it satisfies ``u_parent = e_j u_j / (w_parent - w_i)``, which takes one walk to the
        root. Such a vector exists if and only if no ancestor of i has the weight of i.

        Raises
        ------
        ValueError
            If there is no such vector. The message names the nearest ancestor of equal weight.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=[3, 1, 2])
        >>> u = G.left_eigenvector(1)
        >>> u, G.T @ u
        (array([0.5, 1. , 0. ]), array([0.5, 1. , 0. ]))
        """
        return self._eigenvector(_sweep.accumulate, i, self.tree.ancestors(i), "left", "ancestor")

    def _eigenvector(
        self, sweep: Sweep, i: int, others: np.ndarray, side: str, kin: str
    ) -> np.ndarray:
        """The eigenvector that is 1 at node i, and 0 except at i and `others`."""
        node = self.node_weight
        gap = np.ones_like(node)
        gap[others] = node[others] - node[i]
        blocked = others[gap[others] == 0]
        if blocked.size:
            check.fail(
                "i",
                f"must have no {kin} of equal weight to have a {side} eigenvector; "
                f"nodes {i} and {blocked[0]} both have weight {node[i]:g}.",
            )
        out = np.zeros_like(node)
        out[i] = 1
        sweep(self._layout, out, out, self._by_position(gap), self._edge)
        return out

    def diagonal_decomposition(self) -> tuple[np.ndarray, np.ndarray]:
        """Vectors alpha and beta with ``G = diag(beta) @ S @ diag(alpha)``.

        S is the structure matrix. One downward sweep computes ``alpha_i = alpha_parent * w_i /
        e_i``, and ``beta = w / alpha``. At the root, alpha is the weight of the root, and beta is
        1. Weights may be negative.

        Raises
        ------
        ValueError
            If an entry of alpha or beta is too large or too small for a floating-point number.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(3), [3, 1, 2], [1, -2, 4])
        >>> G.diagonal_decomposition()
        (array([ 3.  , -1.5 , -0.75]), array([ 1.        , -0.66666667, -2.66666667]))
        """
        node = self.node_weight
        alpha = np.zeros(self.tree.n, self.dtype)
        alpha[self.tree.root] = node[self.tree.root]
        with np.errstate(divide="ignore", over="ignore"):
            # Exchanging the node and edge weights makes the solve multiply by w_i / e_i.
            _sweep.propagate(self._layout, alpha, alpha, self._edge, self._node, self._threads)
            beta = node / alpha
        least = np.finfo(self.dtype).tiny
        held = [np.isfinite(x) & (np.abs(x) >= least) for x in (alpha, beta)]
        bad = np.flatnonzero(~(held[0] & held[1]))
        if bad.size:
            raise ValueError(
                f"The diagonal decomposition does not fit into {self.dtype}: at node {bad[0]} the "
                f"product of the ratios of node and edge weights is {alpha[bad[0]]:g}."
            )
        return alpha, beta
