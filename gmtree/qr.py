"""The "LO"-QR decomposition of dense matrices: an orthogonal times a lower triangular matrix.

The decomposition of a constraint matrix shows step by step how a Generation Matrix on the internal
nodes of a tree arises. :class:`gmtree.Consistency` computes this matrix in one sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check


def householder(M: Any, rows: Any, column: int) -> np.ndarray:
    """The (S, j)-Householder transformation of M: ``Q @ M`` for a reflection Q.

    Q changes only the rows in S. In column j, the first of these rows gets the norm of the entries
    in S, and all other rows in S get zero.

    Parameters
    ----------
    M : array of shape (n, m)
    rows : sequence of distinct row numbers, S
        The first of these rows gets the norm.
    column : int
        The column j.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.householder([[3.0, 1.0], [4.0, 0.0]], rows=[0, 1], column=0)
    array([[5. , 0.6],
           [0. , 0.8]])
    """
    matrix = _matrix(M)
    rows = _places("rows", rows, matrix.shape[0])
    column = check.count("column", column, least=0)
    _reflect(matrix, rows, int(_places("column", [column], matrix.shape[1])[0]))
    return matrix


def lo_qr(M: Any) -> tuple[np.ndarray, np.ndarray]:
    """Factor M into an orthogonal Q and a lower triangular L: ``M = Q @ [L; 0]``.

    The columns are eliminated from the last to the first, each by one :func:`householder`
    transformation. The diagonal of L is non-negative.

    Parameters
    ----------
    M : array of shape (n, m), n >= m
        Also any object with a method ``toarray``.

    Returns
    -------
    Q : array of shape (n, n)
        The orthogonal factor.
    L : array of shape (m, m)
        The lower triangular factor.

    Notes
    -----
    For the :class:`gmtree.ConstraintMatrix` of a tree in canonical order, L is a Generation
    Matrix of ``tree.k_order_subtree(1)`` with ``L.T @ L = M.T @ M``.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> M = gm.ConstraintMatrix(gm.shapes.complete(2, 3))
    >>> Q, L = gm.lo_qr(M)
    >>> (L**2).round(3)
    array([[2.333, 0.   , 0.   ],
           [0.333, 3.   , 0.   ],
           [0.333, 0.   , 3.   ]])
    >>> np.allclose(Q[:, :3] @ L, M.toarray())
    True
    """
    matrix = _matrix(M)
    n, m = matrix.shape
    if n < m:
        check.fail("M", f"must have at least as many rows as columns, not shape {(n, m)}.")
    # The reflections that transform M into [L; 0] transform the identity into the transpose of Q.
    both = np.hstack([matrix, np.eye(n)])
    for t in range(m - 1, -1, -1):
        _reflect(both, np.r_[t, 0:t, m:n], t)
    return both[:, m:].T.copy(), both[:m, :m].copy()


def _reflect(matrix: np.ndarray, rows: np.ndarray, column: int) -> None:
    """Apply the reflection that turns ``matrix[rows, column]`` into its norm times e_1."""
    x = matrix[rows, column]
    scale = np.abs(x).max()
    if scale == 0:
        return
    x /= scale
    first, rest = x[0], x[1:] @ x[1:]
    norm = np.sqrt(first * first + rest)
    # This is first - norm, written without cancellation for positive `first`.
    omega = x.copy()
    omega[0] = -rest / (first + norm) if first > 0 else first - norm
    largest = np.abs(omega).max()
    if largest > 0:
        omega /= largest
        block = matrix[rows]
        matrix[rows] = block - np.outer(2 / (omega @ omega) * omega, omega @ block)
    matrix[rows, column] = 0
    matrix[rows[0], column] = norm * scale


def _matrix(M: Any) -> np.ndarray:
    """Copy of a real matrix as float64."""
    a = check.reals("M", M.toarray() if hasattr(M, "toarray") else M, booleans=True)
    if a.ndim != 2 or a.size == 0:
        check.fail(
            "M", f"must be a matrix with at least one row and column, not have shape {a.shape}."
        )
    own = np.array(a, dtype=np.float64)
    check.finite("M", own, per="row")
    return own


def _places(argument: str, places: Any, size: int) -> np.ndarray:
    """Distinct numbers of rows or columns, each below `size`."""
    places = check.integer_vector(argument, places)
    bad = places[(places < 0) | (places >= size)]
    if bad.size:
        check.fail(argument, f"must have entries from 0 to {size - 1}, not {bad[0]}.")
    if np.unique(places).size < places.size:
        check.fail(argument, f"must be distinct, not {check.some(places)}.")
    return places
