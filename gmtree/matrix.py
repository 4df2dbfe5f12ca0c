"""The matrices of a tree, as operators: products and solves are sweeps, nothing is stored twice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from gmtree import _memory, _sweep
from gmtree import _validate as check
from gmtree._kernels import sparse, spectral
from gmtree.tree import Tree

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator


class _Sparse(Protocol):
    """Matrices of ours and of scipy."""

    def tocsr(self) -> Any: ...


class _Operator(ABC):
    """What a matrix and its transpose have in common: products, and the matrix written out."""

    # numpy must leave `array @ A` to us rather than try it element by element.
    __array_ufunc__ = None

    shape: tuple[int, int]
    dtype: np.dtype

    @property
    @abstractmethod
    def nnz(self) -> int:
        """Number of non-zero entries."""

    @property
    @abstractmethod
    def T(self) -> _Operator:
        """The transpose."""

    @abstractmethod
    def _multiply(self, v: np.ndarray) -> np.ndarray:
        """The product with values that have been checked."""

    @abstractmethod
    def tocsr(self) -> csr_array:
        """The matrix in compressed sparse row format, a `scipy.sparse.csr_array`."""

    @abstractmethod
    def aslinearoperator(self) -> LinearOperator:
        """The matrix for scipy's iterative solvers, a `scipy.sparse.linalg.LinearOperator`."""

    @overload
    def __matmul__(self, v: _Sparse) -> csr_array: ...

    @overload
    def __matmul__(self, v: Any) -> np.ndarray: ...

    def __matmul__(self, v: Any) -> np.ndarray | csr_array:
        """The product with values, or with another matrix (then it is sparse)."""
        if hasattr(v, "tocsr"):
            return _sparse_product(self, v)
        return self._multiply(check.values("v", v, self.shape[1], per="column"))

    def __rmatmul__(self, v: Any) -> np.ndarray:
        return (self.T @ check.array("v", v).T).T

    def toarray(self) -> np.ndarray:
        """The matrix as a dense array, for small trees and for looking at.

        A matrix that would fill half of the memory is refused with a ValueError.
        """
        rows, columns = self.shape
        _memory.refuse_above_limit(
            f"The dense matrix of {rows} x {columns} entries",
            rows * columns * self.dtype.itemsize,
            "tocsr() gives a sparse matrix; products and solves need neither.",
        )
        return self.tocsr().toarray()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """What numpy sees in ``np.asarray(A)``: the dense matrix, always written out anew."""
        if copy is False:
            raise ValueError("A matrix of a tree is not stored as an array and must be copied.")
        return self.toarray().astype(self.dtype if dtype is None else dtype, copy=False)


class TreeMatrix(_Operator):
    """What every matrix here can do: ``A @ v``, ``A @ B``, ``A.T``, ``tocsr()``, ``toarray()``."""

    @abstractmethod
    def _multiply_transposed(self, v: np.ndarray) -> np.ndarray: ...

    @property
    def T(self) -> Transposed:
        """The transpose: a view that swaps the two products."""
        return Transposed(self)

    def aslinearoperator(self) -> LinearOperator:
        """The matrix for scipy's iterative solvers, a `scipy.sparse.linalg.LinearOperator`."""
        from scipy.sparse.linalg import LinearOperator

        # scipy probes with integers; the operator's type says real numbers come out.
        def forward(v: np.ndarray) -> np.ndarray:
            return self @ np.asarray(v, dtype=np.result_type(v, self.dtype))

        def backward(v: np.ndarray) -> np.ndarray:
            return self.T @ np.asarray(v, dtype=np.result_type(v, self.dtype))

        return LinearOperator(
            self.shape,
            matvec=forward,
            rmatvec=backward,
            matmat=forward,
            rmatmat=backward,
            dtype=self.dtype,
        )

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"{type(self).__name__}({rows} x {columns}, nnz={self.nnz}, dtype={self.dtype})"


class Transposed(_Operator):
    """The transpose of a `TreeMatrix`; ``A.T.T is A``."""

    def __init__(self, matrix: TreeMatrix) -> None:
        self._matrix = matrix
        self.shape = matrix.shape[::-1]
        self.dtype = matrix.dtype

    @property
    def T(self) -> TreeMatrix:
        """The matrix this is the transpose of."""
        return self._matrix

    @property
    def nnz(self) -> int:
        """Number of non-zero entries."""
        return self._matrix.nnz

    def _multiply(self, v: np.ndarray) -> np.ndarray:
        return self._matrix._multiply_transposed(v)

    def solve(
        self, v: Any, *, out: np.ndarray | None = None, overwrite: bool = False
    ) -> np.ndarray:
        """Solve with the transpose: the upward recursion of a `GenerationMatrix`.

        Sums of float32 values are taken in float64 and rounded once.
        """
        if not isinstance(self._matrix, GenerationMatrix):
            raise TypeError(f"A {type(self._matrix).__name__} is not square and has no solve.")
        return self._matrix._solve(_sweep.accumulate, v, out, overwrite)

    def tocsr(self) -> csr_array:
        """The transpose in compressed sparse row format."""
        return self._matrix.tocsr().T.tocsr()

    def aslinearoperator(self) -> LinearOperator:
        """The transpose for scipy's iterative solvers."""
        return self._matrix.aslinearoperator().T

    def __repr__(self) -> str:
        return f"{self._matrix!r}.T"


def _sparse_product(a: _Operator, b: Any) -> csr_array:
    """The product of two matrices as a csr_array; refuses one that would fill the memory."""
    if a.shape[1] != b.shape[0]:
        check.fail("v", f"must have {a.shape[1]} rows, one per column, not shape {b.shape}.")
    left, right = a.tocsr(), b.tocsr()
    # Column k of the left meets row k of the right; entries that fall together are counted twice.
    met = np.bincount(left.indices, minlength=a.shape[1]) @ np.diff(right.indptr).astype(np.int64)
    _memory.refuse_above_limit(
        f"The product with its up to {met} non-zero entries",
        int(met) * (check.index_dtype(met).itemsize + np.result_type(left, right).itemsize),
        "A @ (B @ v) multiplies by it without forming it.",
    )
    product = (left @ right).tocsr()
    product.sort_indices()
    return product


class GenerationMatrix(TreeMatrix):
    """The Generation Matrix G of a tree: recursions over the tree become solves with it.

    ``G[i, i]`` is the weight of node i and ``G[i, parent(i)]`` minus the weight of the edge
    from i to its parent. With nodes in canonical order G is lower triangular; here rows and
    columns are in your own numbering.

    Parameters
    ----------
    tree : Tree
    node, edge : array of n non-zero reals, or one number, optional
        Weights of nodes and of edges to the parent (the root's entry is ignored). None means
        ones and stores nothing: the *structure matrix*.
    threads : int, optional
        Threads that share a sweep over a large tree; by default the cores at hand. Results
        do not depend on it.

    Attributes
    ----------
    tree : Tree
        The tree that the matrix belongs to.

    Notes
    -----
    ``G.solve(v)`` sends values down, ``z_i = (v_i + e_i z_parent) / w_i``, and
    ``G.T.solve(v)`` up, ``z_i = (v_i + sum of e_c z_c over children) / w_i``. Each is one
    sweep over flat arrays. Values may be ``(n,)`` or ``(n, k)``; float32 and float64 are kept,
    and with the structure matrix integers are summed exactly, or refused where a sum does not
    fit into 64 bits. NaN and infinity pass through as in numpy.

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
        self, tree: Tree, node: Any = None, edge: Any = None, *, threads: int | None = None
    ) -> None:
        check.instance("tree", tree, Tree)
        self.tree = tree
        self.shape = (tree.n, tree.n)
        self._threads = check.threads("threads", threads)
        self._layout = tree._natural_layout
        node = check.weights("node", node, tree.n)
        edge = check.weights("edge", edge, tree.n, root=tree.root)
        given = [w for w in (node, edge) if w is not None]
        self.dtype = np.result_type(*given) if given else np.dtype(np.float64)
        self._node, self._edge = self._by_position(node), self._by_position(edge)

    def _by_position(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights in the order a sweep meets them."""
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
        """Whether all weights are one because none were given."""
        return self._node is None and self._edge is None

    @property
    def node(self) -> np.ndarray:
        """Weight of each node."""
        return self._by_node(self._node)

    @property
    def edge(self) -> np.ndarray:
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
        out : array, optional
            Where to put the result; it may be `v`.
        overwrite : bool
            Put the result into `v`, which must be an array of the result's type.

        Examples
        --------
        >>> import numpy as np, gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(4), edge=0.5)
        >>> G.solve(np.array([8.0, 0, 0, 0]))
        array([8., 4., 2., 1.])
        """
        return self._solve(_sweep.propagate, v, out, overwrite)

    def _solve(self, sweep: Any, v: Any, out: np.ndarray | None, overwrite: bool) -> np.ndarray:
        if check.flag("overwrite", overwrite):
            if out is not None:
                check.fail("out", "must not be given together with overwrite=True.")
            if not isinstance(v, np.ndarray):
                check.fail_type("v", "must be a numpy array to be overwritten.")
            if not v.flags.writeable:
                check.fail("v", "must be writable to be overwritten.")
        checked = check.values("v", self.tree._aligned("v", v), self.tree.n)
        if overwrite:
            dtype = self._result_dtype(checked)
            if v.dtype != dtype:
                check.fail("v", f"must have dtype {dtype} to be overwritten, not {v.dtype}.")
            out = v
        growth = self.tree.n if sweep is _sweep.accumulate else self.tree.height
        return self._run(sweep, checked, out, growth, in_place=True)

    def _result_dtype(self, v: np.ndarray) -> np.dtype:
        """Floating-point values keep their type; integers stay exact where there are no weights."""
        if self.is_structure or v.dtype.kind == "f":
            return v.dtype
        return np.result_type(v, self.dtype)

    def _run(
        self, sweep: Any, v: np.ndarray, out: np.ndarray | None, growth: int, *, in_place: bool
    ) -> np.ndarray:
        """Run a sweep over values that have been checked."""
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
        node = None if self._node is None else self.node
        edge = None if self._edge is None else self.edge
        parent, root = _sweep.unsigned(tree.parent), np.uint64(tree.root)
        sparse.generation_rows(parent, root, node, edge, _sweep.unsigned(indices), data)
        return csr_array((data, indices, indptr), shape=self.shape)

    def inverse(self) -> csr_array:
        """The inverse of G as a `scipy.sparse.csr_array`; for products with it use `solve`.

        Entry (i, j) is not zero exactly where j is i or an ancestor of i, and 1 there for the
        structure matrix. There are as many such entries as the depths of all nodes add up to;
        where they would fill half of the memory, a ValueError says how many that is.

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
            f"The inverse with its {nnz} non-zero entries",
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
        """The product ``G @ G.T`` as a `scipy.sparse.csr_array`, named for what it shows.

        For the structure matrix an entry off the diagonal is 1 exactly where two nodes are
        siblings; it is -1 where one is the parent of the other. With weights, siblings i and j
        have the product of the weights of their edges. A node with c children brings ``c * c``
        entries; where all of them would fill half of the memory, a ValueError says how many
        there are.

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
            f"The product with its {nnz} non-zero entries",
            nnz * (check.index_dtype(nnz).itemsize + self.dtype.itemsize),
            "Nodes i and j are siblings where tree.parent[i] == tree.parent[j].",
        )
        return self @ self.T

    def submatrix(self, k: int) -> GenerationMatrix:
        """The Generation Matrix of the k-order subtree, with the weights of its nodes.

        In canonical numbering it is the leading block of G.
        """
        subtree = self.tree.subtree(k)
        kept = np.sort(self.tree.order[: subtree.n])
        node = None if self._node is None else self.node[kept]
        edge = None if self._edge is None else self.edge[kept]
        return GenerationMatrix(subtree, node, edge, threads=self._threads)

    def is_similar(self, other: GenerationMatrix) -> bool:
        """Whether both have their non-zero entries in the same places.

        That is, whether they belong to trees of the same structure and numbering.
        """
        check.instance("other", other, GenerationMatrix)
        return np.array_equal(self.tree.parent, other.tree.parent)

    # ------------------------------------------------------------------ eigenvectors and factors

    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues of G: the weight of each node.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.GenerationMatrix(gm.shapes.chain(3), node=[3, 1, 2]).eigenvalues()
        array([3., 1., 2.])
        """
        return self.node.copy()

    def right_eigenvector(self, i: int) -> np.ndarray:
        """The vector v with ``G @ v = w_i v`` that is 1 at node i and 0 outside its subtree.

        Below i it is ``v_j = e_j v_parent / (w_j - w_i)``: one downward sweep. There is such a
        vector exactly if no descendant of i has the weight of i.

        Raises
        ------
        ValueError
            Where there is none; the message names a descendant of the same weight.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(3), node=[3, 1, 2])
        >>> v = G.right_eigenvector(1)
        >>> v, G @ v
        (array([0., 1., 1.]), array([0., 1., 1.]))
        """
        below = np.zeros(self.tree.n, np.bool_)
        return self._eigenvector(i, "right", "descendant", below)

    def left_eigenvector(self, i: int) -> np.ndarray:
        """The vector u with ``G.T @ u = w_i u`` that is 1 at node i and 0 but at its ancestors.

        Above i it is ``u_parent = e_j u_j / (w_parent - w_i)``: one walk up. There is such a
        vector exactly if no ancestor of i has the weight of i.

        Raises
        ------
        ValueError
            Where there is none; the message names the nearest ancestor of the same weight.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(3), node=[3, 1, 2])
        >>> u = G.left_eigenvector(1)
        >>> u, G.T @ u
        (array([0.5, 1. , 0. ]), array([0.5, 1. , 0. ]))
        """
        return self._eigenvector(i, "left", "ancestor")

    def _eigenvector(self, i: int, side: str, kin: str, *mark: np.ndarray) -> np.ndarray:
        """Run one kernel of `spectral` from node i; `mark` is what it needs to remember."""
        i = check.node_number("i", i, self.tree.n)
        layout = self._layout
        position = i if layout.order is None else int(self.tree.rank[i])
        out = np.zeros(self.tree.n, self.dtype)
        out[i] = 1
        for flags in mark:
            flags[position] = True
        kernel = spectral.right_eigenvector if side == "right" else spectral.left_eigenvector
        weights = (layout.parent, layout.order, self._node, self._edge)
        blocked = kernel(*weights, *mark, out, position)
        if blocked >= 0:
            other = blocked if layout.order is None else layout.order[blocked]
            weight = 1 if self._node is None else self._node[position]
            check.fail(
                "i",
                f"must have no {kin} of its own weight to have a {side} eigenvector; "
                f"nodes {i} and {other} both have weight {weight:g}.",
            )
        return out

    def diagonal_decomposition(self) -> tuple[np.ndarray, np.ndarray]:
        """Vectors alpha, beta with ``G = diag(beta) @ S @ diag(alpha)``, S the structure matrix.

        ``alpha_i = alpha_parent * w_i / e_i`` in one downward sweep, and ``beta = w / alpha``.
        Weights may have either sign. At the root alpha is its weight and beta is 1.

        Raises
        ------
        ValueError
            Where the ratios multiply up to more than a floating-point number holds.

        Examples
        --------
        >>> import gmtree as gm
        >>> G = gm.GenerationMatrix(gm.shapes.chain(3), node=[3, 1, 2], edge=[1, -2, 4])
        >>> G.diagonal_decomposition()
        (array([ 3.  , -1.5 , -0.75]), array([ 1.        , -0.66666667, -2.66666667]))
        """
        node = self.node
        alpha = np.zeros(self.tree.n, self.dtype)
        alpha[self.tree.root] = node[self.tree.root]
        with np.errstate(divide="ignore", over="ignore"):
            # The solve with node and edge weights exchanged multiplies by their ratio.
            _sweep.propagate(self._layout, alpha, alpha, self._edge, self._node, self._threads)
            beta = node / alpha
        least = np.finfo(self.dtype).tiny
        held = [np.isfinite(x) & (np.abs(x) >= least) for x in (alpha, beta)]
        bad = np.flatnonzero(~(held[0] & held[1]))
        if bad.size:
            raise ValueError(
                f"The diagonal decomposition does not fit into {self.dtype}: the ratios of node "
                f"and edge weights multiply up to {alpha[bad[0]]:g} at node {bad[0]}."
            )
        return alpha, beta


class ConstraintMatrix(TreeMatrix):
    """The consistency constraints M of a tree: ``M.T @ v`` is zero where v is consistent.

    One row per node and one column per inner node, in the order of ``tree.internal``:
    ``(M.T @ v)[j]`` is the value of inner node j minus the sum of its children. M consists of
    those columns of the structure matrix.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> M = gm.ConstraintMatrix(gm.Tree.from_parents([-1, 0, 0, 1, 1]))
    >>> M.T @ np.array([35, 30, 5, 10, 21])
    array([ 0, -1])
    """

    def __init__(self, tree: Tree, *, threads: int | None = None) -> None:
        self._structure = GenerationMatrix(tree, threads=threads)
        self.tree = tree
        self.shape = (tree.n, tree.n_internal)
        self.dtype = self._structure.dtype
        self._columns = MappingMatrix(tree.internal, tree.n)

    @property
    def nnz(self) -> int:
        """Number of non-zero entries: one per inner node, one per edge."""
        return self.tree.n_internal + self.tree.n - 1

    def _multiply(self, v: np.ndarray) -> np.ndarray:
        return self._structure._multiply(self._columns._multiply_transposed(v))

    def _multiply_transposed(self, v: np.ndarray) -> np.ndarray:
        return self._columns._multiply(self._structure._multiply_transposed(v))

    def tocsr(self) -> csr_array:
        """M as a `scipy.sparse.csr_array`."""
        return self._structure.tocsr()[:, self.tree.internal].tocsr()


class MappingMatrix(TreeMatrix):
    """The mapping matrix H of an index: ``H @ v`` picks ``v[index]``, ``H.T @ x`` puts it back.

    Row i has a single 1, in column ``index[i]``. Where the numbers in `index` are distinct,
    ``H @ H.T`` is the identity. They may also repeat: then ``H.T @ x`` adds up all entries of x
    that go to the same place, and ``H.T @ H`` is diagonal and counts them.

    Parameters
    ----------
    index : array of int in 0..n-1
    n : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> H = gm.MappingMatrix([2, 0], 4)
    >>> H @ np.array([10, 11, 12, 13]), H.T @ np.array([5, 6])
    (array([12, 10]), array([6, 0, 5, 0]))

    The parents of the leaves repeat. Below the inner nodes, the constraint matrix is minus the
    mapping matrix of them:

    >>> tree = gm.shapes.complete(2, 3)
    >>> F = gm.MappingMatrix(tree.parent[tree.leaves], tree.n_internal)
    >>> F.T @ np.array([1, 2, 3, 4])
    array([0, 3, 7])
    >>> np.array_equal(gm.ConstraintMatrix(tree).toarray()[tree.leaves], -F.toarray())
    True
    """

    def __init__(self, index: Any, n: int) -> None:
        n = check.count("n", n, least=1)
        index = check.array("index", index)
        if index.size or index.ndim != 1:
            index = check.integer_vector("index", index)
        check.node_numbers("index", index, n)
        index = index.astype(check.index_dtype(n))
        self._most_repeats = int(np.bincount(index).max()) if index.size else 0
        index.flags.writeable = False
        self.index = index
        self.shape = (index.size, n)
        self.dtype = np.dtype(np.float64)

    @property
    def nnz(self) -> int:
        """Number of non-zero entries, one per row."""
        return self.index.size

    def _multiply(self, v: np.ndarray) -> np.ndarray:
        return v[self.index]

    def _multiply_transposed(self, v: np.ndarray) -> np.ndarray:
        shape = (self.shape[1], *v.shape[1:])
        if self._most_repeats <= 1:
            out = np.zeros(shape, v.dtype)
            out[self.index] = v
            return out

        def add_up(x: np.ndarray, out: np.ndarray) -> None:
            out[...] = self._csr(x.dtype).T @ x

        growth = self._most_repeats
        return _sweep.deliver(add_up, "v", v, None, shape, v.dtype, growth=growth)

    def _csr(self, dtype: Any) -> csr_array:
        from scipy.sparse import csr_array

        rows = self.shape[0]
        return csr_array((np.ones(rows, dtype), self.index, np.arange(rows + 1)), shape=self.shape)

    def tocsr(self) -> csr_array:
        """H as a `scipy.sparse.csr_array`."""
        return self._csr(self.dtype)
