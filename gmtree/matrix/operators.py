"""Base classes of the matrices of a tree, with products, transposes and conversions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from gmtree import _memory, _sweep
from gmtree import _validate as check

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator


class _Sparse(Protocol):
    """A sparse matrix of gmtree or scipy."""

    def tocsr(self) -> Any: ...


class _Operator(ABC):
    """A matrix or its transpose, with products and conversions to arrays."""

    # Makes numpy call `__rmatmul__` for `array @ A`, instead of multiplying element by element.
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
        """The product with validated values."""

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
        """The product with an array of values, or the sparse product with a sparse matrix."""
        if hasattr(v, "tocsr"):
            return _sparse_product(self, v)
        return self._multiply(check.values("v", v, self.shape[1], per="column"))

    def __rmatmul__(self, v: Any) -> np.ndarray:
        return (self.T @ check.array("v", v).T).T

    def toarray(self) -> np.ndarray:
        """The matrix as a dense array, for small trees and for inspection.

        A ValueError is raised if the matrix would fill more than half of the memory.
        """
        rows, columns = self.shape
        _memory.refuse_above_limit(
            f"The dense matrix of {rows} x {columns} entries",
            rows * columns * self.dtype.itemsize,
            "tocsr() gives a sparse matrix. For products and solves no array is needed.",
        )
        return self.tocsr().toarray()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The dense matrix for ``np.asarray(A)``, always a new array."""
        if copy is False:
            raise ValueError(
                "copy=False is impossible, because a matrix of a tree is not stored as an array."
            )
        return self.toarray().astype(self.dtype if dtype is None else dtype, copy=False)


class TreeMatrix(_Operator):
    """A matrix of a tree: ``A @ v``, ``A @ B``, ``A.T``, ``tocsr()`` and ``toarray()``."""

    @abstractmethod
    def _multiply_transposed(self, v: np.ndarray) -> np.ndarray: ...

    @property
    def T(self) -> Transposed:
        """The transpose: a view that swaps the two products."""
        return Transposed(self)

    def aslinearoperator(self) -> LinearOperator:
        """The matrix for scipy's iterative solvers, a `scipy.sparse.linalg.LinearOperator`.

        Examples
        --------
        >>> import numpy as np, gmtree as gm
        >>> from scipy.sparse.linalg import lsqr
        >>> G = gm.GenerationMatrix(gm.shapes.star(3))
        >>> lsqr(G.aslinearoperator(), np.array([1.0, 1.0, 1.0]))[0].round(6)
        array([1., 2., 2.])
        """
        from scipy.sparse.linalg import LinearOperator

        # scipy applies the operator to integers, but declares its results to be floating-point.
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
        """The original matrix."""
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
        """Solve ``G.T z = v``: the upward recursion ``z_i = (v_i + sum of e_c z_c) / w_i``.

        The parameters are those of :meth:`GenerationMatrix.solve`. Sums of float32 values are
        computed in float64 and rounded once.

        Examples
        --------
        >>> import numpy as np, gmtree as gm
        >>> gm.GenerationMatrix(gm.shapes.star(3)).T.solve(np.array([0.0, 2.0, 3.0]))
        array([5., 2., 3.])
        """
        solve = getattr(self._matrix, "_solve", None)
        if solve is None:
            raise TypeError(f"A {type(self._matrix).__name__} is not square and has no solve.")
        return solve(_sweep.accumulate, v, out, overwrite)

    def tocsr(self) -> csr_array:
        """The transpose in compressed sparse row format."""
        return self._matrix.tocsr().T.tocsr()

    def aslinearoperator(self) -> LinearOperator:
        """The transpose for scipy's iterative solvers."""
        return self._matrix.aslinearoperator().T

    def __repr__(self) -> str:
        return f"{self._matrix!r}.T"


def _sparse_product(a: _Operator, b: Any) -> csr_array:
    """The product of two matrices as a csr_array; refused if it would fill the memory."""
    if a.shape[1] != b.shape[0]:
        check.fail("v", f"must have {a.shape[1]} rows, one per column, not shape {b.shape}.")
    left, right = a.tocsr(), b.tocsr()
    # Column k of the left matrix meets row k of the right one. The sum is an upper bound of the
    # number of entries, since entries at the same place are counted more than once.
    met = np.bincount(left.indices, minlength=a.shape[1]) @ np.diff(right.indptr).astype(np.int64)
    _memory.refuse_above_limit(
        f"The product, with up to {met} non-zero entries,",
        int(met) * (check.index_dtype(met).itemsize + np.result_type(left, right).itemsize),
        "A @ (B @ v) multiplies by it without forming it.",
    )
    product = (left @ right).tocsr()
    product.sort_indices()
    return product
