"""Least squares for series and their aggregates, for any sparse aggregation matrix.

Bottom series b and aggregates ``a = A b`` are measured with variances ``w``; 0 means known exactly,
and infinity means not measured. The solver finds the b that minimise the sum of squared
differences, each divided by its variance.

Let x be the values of a basis (`gmtree.consistency.sparse.basis`), with measurements y and
variances W. All other measured series have the values ``L x``, measurements v and variances V. The
optimum is

    x = y + W L' z,    (V + L W L') z = v - L y,

with one equation for each measurement that is not in the basis. In units of standard deviations the
matrix is ``I + C C'`` with ``C = V^-1/2 L W^1/2``. By the choice of the basis, no entry of C is
much larger than that of L, so that the matrix is well conditioned. It is factored once. If the
factor would not fit into memory, the equations are solved by conjugate gradients. Their residual r
bounds the errors of the result: the sum of squared errors of all measured series, each in units of
its own variance, is ``r' (I + C C')^-1 r``, which is at most ``r' r``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from gmtree import _memory
from gmtree._kernels import sparse as kernels
from gmtree._progress import Progress
from gmtree.consistency.sparse.basis import ROUNDING, Basis

# Largest number of multiplications for factoring, which take about a quarter of an hour.
MOST_OPERATIONS = 1e12
# Bytes per entry of a matrix and of both factors.
MATRIX_BYTES, FACTOR_BYTES = 12, 24
# Largest number of corrections of a solution by its own residual.
CORRECTIONS = 4
# Bytes for the rows of which variances are computed at a time.
BLOCK_BYTES = 1 << 26

Preconditioner = Callable[[np.ndarray], np.ndarray]


class ConvergenceError(ValueError, ArithmeticError):
    """An iterative method did not reach its tolerance."""


class ContradictionError(ValueError):
    """A value that is known exactly contradicts other exact values.

    Attributes
    ----------
    series : int
        Aggregates are counted first, bottom series after them.
    difference : float
    """

    def __init__(self, series: int, difference: float) -> None:
        super().__init__(f"Series {series} differs by {difference:.6g}.")
        self.series, self.difference = series, difference


class Solution(NamedTuple):
    """Optimal values of all series, and how they were found.

    Attributes
    ----------
    values : array of the shape of the measurements
    multipliers : array of the same shape
        The gradient of the objective with respect to the value of each series. The objective is
        half the sum of squared differences, each divided by its variance. For each bottom series,
        the multipliers of all series that contain it add up to 0. They are not computed as
        differences of values, so they are accurate even for very precise measurements.
    iterations : int
        Number of iterations of conjugate gradients; 0 if the equations were factored.
    residual : float
        Bound of the errors that conjugate gradients leave, as a fraction of the differences between
        measurements. Errors and differences are norms in units of standard deviations.
    """

    values: np.ndarray
    multipliers: np.ndarray
    iterations: int
    residual: float


class SparseSolver:
    """Optimal values of bottom series and aggregates, and their variances.

    Series are numbered with the aggregates first, in the order of the rows of `A`, and the bottom
    series after them, in the order of its columns.

    Parameters
    ----------
    A : sparse array of shape (aggregates, bottom series)
    variance : array of shape (series,)
        0 for values known exactly, inf for those that are not measured.
    precondition : function, optional
        Solves approximately with ``diag(w_a) + A diag(w_b) A'`` for a vector by aggregate. Used
        if no factor fits into memory and all bottom series are measured well enough.
    """

    def __init__(
        self, A: Any, variance: np.ndarray, precondition: Preconditioner | None = None
    ) -> None:
        self._A = sparse.csr_array(A, dtype=np.float64)
        self._A.sum_duplicates()
        n_a = self._A.shape[0]
        self._w = variance
        self._basis = basis = Basis.of(self._A, variance[:n_a], variance[n_a:])
        is_basic = np.zeros(variance.size, bool)
        is_basic[basis.series] = True
        others = np.flatnonzero(~is_basic & np.isfinite(variance))
        w = variance[basis.series]
        self._is_free = np.isinf(w)
        L = self._combinations(others)
        if self._is_free.any():
            # Measured series do not depend on series that nothing determines.
            L = L @ sparse.diags_array((~self._is_free).astype(float))
        exact = variance[others] == 0
        self._exact, self._exact_rows = others[exact], L[exact] if exact.any() else L[:0]
        self._others: np.ndarray = others[~exact]
        self._L = L[~exact] if exact.any() else L
        self._deviation = np.sqrt(variance[self._others])
        self._basic_deviation = np.sqrt(np.where(self._is_free, 0, w))
        C = _scaled(1 / self._deviation, self._L, self._basic_deviation)
        if precondition is not None and np.array_equal(self._others, np.flatnonzero(
            np.isfinite(variance[:n_a]))):  # fmt: skip
            precondition = self._in_deviations(precondition)
        else:
            precondition = None
        self._system = _System(C, precondition)

    def _in_deviations(self, precondition: Preconditioner) -> Preconditioner:
        """Convert equations of all aggregates to those of measured ones, in deviations."""

        def apply(r: np.ndarray) -> np.ndarray:
            every = np.zeros(self._A.shape[0])
            every[self._others] = r * self._deviation
            return precondition(every)[self._others] * self._deviation

        return apply

    def _combinations(self, series: np.ndarray) -> sparse.csr_array:
        """Series as combinations of basic series, in compressed rows."""
        n_a, bottom = self._A.shape[0], self._basis.bottom
        exchanged = self._basis.series.min(initial=n_a) < n_a
        if not exchanged and np.array_equal(series, np.arange(n_a)):
            return self._A
        aggregates = self._A[series[series < n_a]]
        if exchanged:
            aggregates = _dropped(aggregates @ bottom)
        rows = sparse.vstack([aggregates, bottom[series[series >= n_a] - n_a]], format="csr")
        # Rows in the order asked for, not aggregates first.
        order = np.argsort(np.argsort(series >= n_a, kind="stable"), kind="stable")
        return rows[order]

    # ------------------------------------------------------------------ values

    def solve(
        self, y: np.ndarray, *, rounding: float = 1e-11, tolerance: float = 1e-10, most: int = 5000
    ) -> Solution:
        """Optimal values of all series from one measurement of each.

        Parameters
        ----------
        y : array of shape (series,) or (series, columns)
            Must be finite for series with a finite variance.
        rounding : float
            Allowed relative error of values that are known exactly.
        tolerance, most
            For conjugate gradients: the largest error of all values, relative to the differences
            between measurements, both in standard deviations; and the largest number of iterations.
        """
        measured = np.isfinite(self._w)
        v = np.where(measured[:, None], y[:, None] if y.ndim == 1 else y, 0.0)
        # Powers of two, so that values neither overflow nor vanish in units of deviations.
        _, exponent = np.frexp(abs(v).max(axis=0, initial=0))
        v = np.ldexp(v.astype(np.float64, copy=False), -exponent)
        self._refuse_contradictions(v, exponent, rounding)
        x, z, iterations, residual = self._basic_values(v, tolerance, most)
        bottom = self._basis.bottom @ self._with_free(x)
        multiplier = np.zeros(v.shape)
        multiplier[self._others] = -z / self._deviation[:, None]
        multiplier[self._basis.series] = -(self._L.T @ multiplier[self._others])
        with np.errstate(over="ignore"):
            values = np.ldexp(np.vstack([self._A @ bottom, bottom]), exponent)
            multiplier = np.ldexp(multiplier, exponent)
        return Solution(values.reshape(y.shape), multiplier.reshape(y.shape), iterations, residual)

    def _basic_values(
        self, v: np.ndarray, tolerance: float, most: int
    ) -> tuple[np.ndarray, np.ndarray, int, float]:
        """Optimal values x of the basic series, and the solution z of the equations."""
        y, v = v[self._basis.series], v[self._others]
        system, scale = self._system, self._basic_deviation[:, None]
        deviation = self._deviation[:, None]
        r = (v - self._L @ y) / deviation
        if system.factor is None:
            z, iterations, residual = system.iterate(r, tolerance, most)
            return y + scale * (system.CT @ z), z, iterations, residual
        z = system.solve(r)
        x, before = y + scale * (system.CT @ z), np.inf
        for _ in range(CORRECTIONS):
            step = system.solve((v - self._L @ x) / deviation - z)
            moved = abs(step * deviation).max(initial=0)
            # The limit of rounding is reached if corrections no longer become smaller.
            if not moved < 0.5 * before:
                break
            z, before = z + step, moved
            x = y + scale * (system.CT @ z)
        return x, z, 0, 0.0

    def _with_free(self, x: np.ndarray) -> np.ndarray:
        """Give free basic series the values for which the bottom series have the least squares."""
        if not self._is_free.any():
            return x
        rows, system = self._free_rows
        x[self._is_free] = 0
        known = rows @ x
        z = system.solve(known)
        x[self._is_free] = -(system.CT @ z)
        return x

    @cached_property
    def _free_rows(self) -> tuple[sparse.csr_array, _System]:
        """Bottom series that depend on free series but are not free, and the equations for them."""
        is_basic = np.zeros(self._w.size, bool)
        is_basic[self._basis.series] = True
        rows = self._basis.bottom[~is_basic[self._A.shape[0] :]]
        C = rows[:, np.flatnonzero(self._is_free)]
        depends = np.diff(C.indptr) > 0
        return rows[depends], _System(C[depends], None)

    def _refuse_contradictions(self, y: np.ndarray, exponent: np.ndarray, rounding: float) -> None:
        """Refuse exact values that differ from the combinations of exact values they must equal."""
        if not self._exact.size:
            return
        own, basic = y[self._exact], y[self._basis.series]
        difference = abs(own - self._exact_rows @ basic)
        size = abs(own) + abs(self._exact_rows) @ abs(basic)
        bad = np.argwhere(difference > rounding * size)
        if bad.size:
            k, column = bad[np.argmin(self._exact[bad[:, 0]])]
            amount = np.ldexp(difference[k, column], exponent[column])
            raise ContradictionError(int(self._exact[k]), float(amount))

    # ------------------------------------------------------------------ errors

    @cached_property
    def undetermined(self) -> np.ndarray:
        """Series whose values are not determined by the measurements, as a mask."""
        if not self._is_free.any():
            return np.zeros(self._w.size, bool)
        free = self._basis.bottom[:, np.flatnonzero(self._is_free)]
        return np.concatenate(
            [np.diff(_dropped(self._A @ free).indptr) > 0, np.diff(free.indptr) > 0]
        )

    @property
    def operations(self) -> float:
        """Approximate number of multiplications for the variance of one series."""
        factor = self._system.factor
        if factor is None:
            return np.inf
        return float(2 * factor.nnz + self._L.nnz + self._w.size)

    def variances(
        self,
        series: np.ndarray | None = None,
        noise: np.ndarray | None = None,
        *,
        tolerance: float = 1e-10,
        most: int = 5000,
    ) -> np.ndarray:
        """Variances of the optimal values of some series, or of all; inf if undetermined.

        Parameters
        ----------
        series : array of int, optional
        noise : array of shape (series,) or (series, columns), optional
            True variances of the measurements, if they differ from the weights. They must be finite
            for measured series. Each column is a set of variances, with a column in the result.
        tolerance, most
            For conjugate gradients, as in :meth:`solve`.
        """
        if series is None:
            series = np.arange(self._w.size)
        noise = self._w if noise is None else noise
        noise = np.where(np.isfinite(self._w), noise.T, 0).T
        out = np.empty((series.size, *noise.shape[1:]))
        rows = max(1, BLOCK_BYTES // (8 * self._w.size))
        with Progress(series.size, "variances") as progress:
            for start in range(0, series.size, rows):
                block = slice(start, start + rows)
                out[block] = self._variances(series[block], noise, tolerance, most)
                progress.advance(rows)
        out[self.undetermined[series]] = np.inf
        return out

    def _variances(
        self, series: np.ndarray, noise: np.ndarray, tolerance: float, most: int
    ) -> np.ndarray:
        """Squares of the coefficients of all measurements, times their variances."""
        rows = self._combinations(series)
        scaled = rows @ sparse.diags_array(self._basic_deviation)
        solved = self._system.solve((self._system.C @ scaled.T).toarray(), tolerance, most)
        solved /= self._deviation[:, None]
        basic = rows.toarray().T - self._L.T @ solved
        np.square(solved, out=solved)
        np.square(basic, out=basic)
        return solved.T @ noise[self._others] + basic.T @ noise[self._basis.series]


class _System:
    """Equations ``(I + C C') z = r``."""

    def __init__(self, C: sparse.csr_array, precondition: Preconditioner | None) -> None:
        self.C, self.CT = C, C.T.tocsr()
        self._precondition = precondition
        self._order, self.factor = _factored(C, self.CT)

    def solve(self, r: np.ndarray, tolerance: float = 1e-10, most: int = 5000) -> np.ndarray:
        """The solution for each column of `r`."""
        if self.factor is None:
            return self.iterate(r, tolerance, most)[0]
        z = np.empty(r.shape)
        z[self._order] = self.factor.solve(np.ascontiguousarray(r[self._order]))
        return z

    def iterate(self, r: np.ndarray, tolerance: float, most: int) -> tuple[np.ndarray, int, float]:
        """Solve by conjugate gradients; returns solution, iterations and relative residual."""
        z = np.empty(r.shape)
        iterations, worst = 0, 0.0
        with Progress(most * r.shape[1], "conjugate gradients") as progress:
            for k, column in enumerate(r.T):
                z[:, k], done, residual = self._iterate_column(column, tolerance, most, progress)
                iterations, worst = max(iterations, done), max(worst, residual)
        return z, iterations, worst

    def _iterate_column(
        self, r: np.ndarray, tolerance: float, most: int, progress: Progress
    ) -> tuple[np.ndarray, int, float]:
        C, CT = self.C, self.CT
        weight = 1 / (1 + (C * C).sum(axis=1))
        precondition = self._precondition or (lambda r: weight * r)
        z, size = np.zeros(r.size), float(np.linalg.norm(r))
        rest, product, p = r.copy(), 1.0, np.zeros(r.size)
        for done in range(most + 1):
            residual = float(np.linalg.norm(rest))
            if residual <= tolerance * size:
                # The residual was only updated at each step, so the true residual is computed here.
                rest = r - z - C @ (CT @ z)
                residual = float(np.linalg.norm(rest))
                if residual <= 2 * tolerance * size:
                    return z, done, residual / size if size else 0.0
                p[:] = 0
            if done == most:
                break
            direction = precondition(rest)
            before, product = product, float(rest @ direction)
            p = direction + (product / before) * p
            step = p + C @ (CT @ p)
            length = product / float(p @ step)
            z += length * p
            rest -= length * step
            progress.advance(1)
        raise ConvergenceError(
            f"Conjugate gradients reached a residual of {residual / size:.1e} in {most} "
            f"iterations, not {tolerance:.1e}. Allow more `iterations`, or a larger `tolerance`."
        )


def _factored(
    C: sparse.csr_array, CT: sparse.csr_array
) -> tuple[np.ndarray, SuperLU | _Nothing | None]:
    """The order of elimination and the factor of ``I + C C'``; None if it would not fit."""
    n = C.shape[0]
    order = np.arange(n)
    if n == 0:
        return order, _Nothing()
    entries = _memory.limit() // MATRIX_BYTES
    if min(n * n, int((np.bincount(C.indices).astype(np.int64) ** 2).sum())) > entries:
        return order, None
    M = C @ CT
    # Series that overlap few other series are eliminated first.
    order = np.argsort(np.diff(M.indptr), kind="stable")
    M, rank = M[order], np.argsort(order)
    # The matrix is symmetric, so its rows are its columns.
    rows = (M.data, rank[M.indices].astype(np.int32), M.indptr.astype(np.int32))
    M = sparse.csc_matrix(rows, shape=(n, n))
    M.sort_indices()
    M.setdiag(M.diagonal() + 1)
    count = np.zeros(n, np.int64)
    fits = kernels.factor_counts(
        M.indptr.view(np.uint32), M.indices.view(np.uint32), np.empty(n, np.uint32),
        np.empty(n, np.uint32), count, _memory.limit() // FACTOR_BYTES,
    )  # fmt: skip
    if not fits or float((count.astype(float) ** 2).sum()) > MOST_OPERATIONS:
        return order, None
    return order, splu(
        M, permc_spec="NATURAL", diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )  # fmt: skip


class _Nothing:
    """Takes the place of the factor if there are no equations to solve."""

    nnz = 0

    def solve(self, r: np.ndarray) -> np.ndarray:
        return r


def _scaled(left: np.ndarray, a: sparse.csr_array, right: np.ndarray) -> sparse.csr_array:
    """A matrix in compressed rows, with its rows scaled by `left` and its columns by `right`."""
    data = a.data * np.repeat(left, np.diff(a.indptr)) * right[a.indices]
    return sparse.csr_array((data, a.indices, a.indptr), shape=a.shape)


def _dropped(a: sparse.csr_array) -> sparse.csr_array:
    """Drop entries that are rounding errors."""
    a.data[abs(a.data) <= ROUNDING * abs(a.data).max(initial=0)] = 0
    a.eliminate_zeros()
    return a
