"""The constraint matrix of a tree, and the mapping matrix of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree.matrix.generation import GenerationMatrix
from gmtree.matrix.operators import TreeMatrix
from gmtree.tree import Tree

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class ConstraintMatrix(TreeMatrix):
    """The constraint matrix M of a tree: ``M.T @ v`` is zero if and only if v is consistent.

    M has one row per node, and one column per internal node in the order of ``tree.internal``.
    Entry j of ``M.T @ v`` is the value of this internal node minus the sum of its children. M
    consists of the columns of the structure matrix that belong to internal nodes.

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
        """Number of non-zero entries: one per internal node and one per edge."""
        return self.tree.n_internal + self.tree.n - 1

    def _multiply(self, v: np.ndarray) -> np.ndarray:
        return self._structure._multiply(self._columns._multiply_transposed(v))

    def _multiply_transposed(self, v: np.ndarray) -> np.ndarray:
        return self._columns._multiply(self._structure._multiply_transposed(v))

    def tocsr(self) -> csr_array:
        """M as a `scipy.sparse.csr_array`."""
        return self._structure.tocsr()[:, self.tree.internal].tocsr()


class MappingMatrix(TreeMatrix):
    """The mapping matrix H of an index: ``H @ v`` is ``v[index]``, and ``H.T @ x`` scatters x.

    Row i has a single 1, in column ``index[i]``. ``H.T @ x`` adds up all entries of x with the same
    index. ``H.T @ H`` is diagonal and counts how often each index occurs. If the indices are
    distinct, ``H @ H.T`` is the identity.

    Parameters
    ----------
    index : array of int from 0 to n - 1
        Column of the 1 in each row.
    n : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> H = gm.MappingMatrix([2, 0], 4)
    >>> H @ np.array([10, 11, 12, 13]), H.T @ np.array([5, 6])
    (array([12, 10]), array([6, 0, 5, 0]))

    The parents of the leaves repeat. The rows of the leaves in the constraint matrix are minus the
    mapping matrix of their parents:

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
