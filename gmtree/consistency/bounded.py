"""The exact consistent optimum with leaves bounded from below, in a handful of O(n) passes.

The method: solve without bounds. Hold every leaf that falls below its bound at the bound,
permanently. Repeat with the held leaves until no leaf falls below its bound.

Why it is exact. Count each leaf from its bound, so that all bounds are 0, and write the problem
in the values x of the leaves alone: minimise ``x' Q x / 2 - c' x`` over ``x >= 0``, where
``Q[i, j]`` is the sum of ``1 / s`` over the common ancestors of leaves i and j, and a leaf counts
as its own ancestor. Such a matrix is *ultrametric*, ``Q[i, j] >= min(Q[i, k], Q[k, j])``: where k's
path to the root meets those of i and j, the upper one of the two meetings is above all three. If
all leaves were measured, it is strictly ultrametric, ``Q[i, i] > Q[i, j]``. The inverse of a
strictly ultrametric matrix has no positive entry off its diagonal (Martinez, Michon and San Martin
1994), and the block of Q that remains when some leaves are held is strictly ultrametric as well.

Let H be leaves that are 0 in the optimum x*, and y the solution with H held and no other bound.
Outside H, x* and y solve the same equations except for the multipliers m of the bounds,

    Q y = c,    Q x* = c + m,    so    x* = y + A m,    A the inverse of Q outside H,

with ``m >= 0`` and ``m_j = 0`` wherever ``x*_j > 0``. Suppose ``y_i < 0``. If x*_i were positive,
m_i would be 0, only off-diagonal entries of row i of A would contribute, and ``x*_i = y_i + sum of
A_ij m_j <= y_i < 0``: a contradiction. So ``x*_i = 0``, and i may join H (Chandrasekaran 1970 has
this for linear complementarity with any such A). The set only grows, so the method ends. Its final
y is not negative, and is the best among all values with H held. The optimum is one of these values,
so y is the optimum.

Values known exactly and nodes not measured are the limits ``s -> 0`` and ``s -> inf`` of this: a
leaf that is negative in the limit of y is negative shortly before it, and so it is 0 in every
optimum on the way, and in their limit. If siblings are undetermined there are several optima, and
the limit depends on how their variances grow. This does no harm: there still is an optimum with H
held, and the next solution starts from H again.

The cost. Call the distance by which leaves fall below their bounds their deficit. When leaves are
held, the other leaves together fall by at most the deficit. So the leaves that are held next have a
deficit of at most their own part of this fall. Consider a star in which the root and the leaves not
held have the total variance t. Leaves with a share f of t have at most f times the previous
deficit, and leave (1 - f) t. So the product of deficit and remaining variance falls to a quarter or
less, and the number of rounds is at most logarithmic in the range of values and variances.
Experiments on other trees needed as few passes. A pass is not a whole sweep, either: each node
stores the point at which a leaf below it falls below its bound, and only the paths to such leaves
are entered and recomputed. Three numbers are kept for the leaves of a family, so these leaves are
read again only if one of them must be held. A leaf is held once, so all passes together enter at
most as many nodes as the held leaves have ancestors, counted for each leaf separately.

References
----------
R. Chandrasekaran, "A special case of the complementary pivot problem", Opsearch 7 (1970).
S. Martinez, G. Michon, J. San Martin, "Inverse of strictly ultrametric matrices are of
Stieltjes type", SIAM J. Matrix Anal. Appl. 15 (1994).
"""

from __future__ import annotations

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import bounded as kernels
from gmtree.consistency import sweeps
from gmtree.consistency.exact import Tolerance
from gmtree.consistency.factor import Factor

# Larger numbers are divided by a power of two first. Then their sums cannot overflow, nor can their
# ratios to variances, nor the products of these ratios with other variances.
LARGEST_EXPONENT = 200
LARGEST = 2.0**LARGEST_EXPONENT

# Columns that are copied to rows at a time: as many as a cache line holds numbers.
_COLUMNS = 8


def project_bounded(
    factor: Factor, threads: int | None, v: np.ndarray, bounds: np.ndarray, out: np.ndarray
) -> int:
    """Write the optimum with bounded leaves into `out`; returns the most passes of any column.

    Columns are solved one after the other. Reading one column from memory takes as long as reading
    all columns of its cache lines, so that several columns are copied to rows at a time.
    """
    if v.ndim > 1 or factor.exact.size:
        # A single column is checked while it is solved, before anything is written.
        check.finite("noisy", v)
    if factor.exact.size:
        sweeps.sums_below(factor, threads, v)
    solver = BoundedSolver(factor, bounds, threads)
    tolerance = Tolerance.of(v.dtype)
    if v.ndim == 1 and out.dtype == np.float64 and out.flags.c_contiguous:
        passes, fits = solver.solve(np.ascontiguousarray(v, np.float64), out, tolerance)
    else:
        n, passes, fits = factor.tree.n, 0, True
        measured, results = v.reshape(n, -1), out.reshape(n, -1)
        for first in range(0, measured.shape[1], _COLUMNS):
            columns = slice(first, first + _COLUMNS)
            rows = np.empty(measured[:, columns].T.shape)
            _copy(measured[:, columns], rows.T, threads)
            for row in rows:
                taken, row_fits = solver.solve(row, row, tolerance)
                passes, fits = max(passes, taken), fits and row_fits
            _copy(rows.T, results[:, columns], threads)
        if out.dtype != np.float64:
            fits = bool(np.isfinite(out).all())
    if not fits:
        sweeps.refuse_overflow(out)
    return passes


def _copy(source: np.ndarray, target: np.ndarray, threads: int | None) -> None:
    """Copy between columns and rows in blocks that fit into the processor's cache."""

    def copy(begin: int, end: int) -> None:
        with np.errstate(over="ignore"):
            for first in range(begin, end, 4096):
                stop = min(first + 4096, end)
                np.copyto(target[first:stop], source[first:stop], casting="same_kind")

    _sweep.in_shares(len(source), copy, _sweep.SMALLEST_SHARED_LEVEL, threads)


class BoundedSolver:
    """Find the optimum for one column of measurements after the other, reusing the same memory.

    `bounds` has one number per leaf, in the order of ``tree.leaves``, or one for all.
    """

    def __init__(self, factor: Factor, bounds: np.ndarray, threads: int | None) -> None:
        n_internal = factor.tree.n_internal
        self._factor, self._threads, self._bounds = factor, threads, bounds
        finite = bounds[np.isfinite(bounds)]
        self._largest_bound = float(abs(finite).max(initial=0))
        self._flags = {name: np.empty(n_internal, np.uint8) for name in ("dirty", "entered")}
        names = ("leaf_t", "leaf_b", "leaf_tau", "inner_t", "b", "tau", "d")
        self._numbers = {name: np.empty(n_internal) for name in names}
        self._low = np.empty(n_internal) if factor.has_undetermined else self._numbers["d"]

    def solve(self, v: np.ndarray, out: np.ndarray, tolerance: Tolerance) -> tuple[int, bool]:
        """Write the optimum for `v`, by node, into `out`, which may be `v`.

        Returns the number of passes, and whether float64 could hold all results; those that are
        too large become infinite. Values that are not finite are refused, and
        so are exactly known values that leave no room for the bounds.
        """
        if not self._factor.some_exact and self._largest_bound <= LARGEST:
            passes = self._solve(v, self._bounds, out)
            if passes is not None:
                return passes, True
        check.finite("noisy", v)
        largest = max(float(v.max()), -float(v.min()), self._largest_bound)
        shift = max(0, int(np.frexp(largest)[1]) - LARGEST_EXPONENT)
        noisy, bounds = (np.ldexp(a, -shift) if shift else a for a in (v, self._bounds))
        self._refuse_infeasible(v, noisy, bounds, tolerance)
        passes = self._solve(noisy, bounds, out)
        assert passes is not None  # all values are within range now
        if shift:
            with np.errstate(over="ignore"):
                np.ldexp(out, shift, out=out)
        return passes, shift == 0 or bool(np.isfinite(out).all())

    def _refuse_infeasible(
        self, v: np.ndarray, noisy: np.ndarray, bounds: np.ndarray, tolerance: Tolerance
    ) -> None:
        """Refuse exactly known values below the least possible sum of their leaves.

        `noisy` and `bounds` may be scaled; `v` holds the measurements for the error message.
        """
        factor, tree, layout = self._factor, self._factor.tree, self._factor.tree._layout
        if not factor.some_exact:
            return
        least, lost, size = np.zeros((3, tree.n))
        least[tree._sweep_rank[tree.leaves]] = bounds
        fractional = np.zeros(tree.n, bool)
        problem = (layout.parent, layout.order, _sweep.readonly(noisy), factor.s)
        bad = kernels.least_sums(*problem, least, lost, size, fractional, *tolerance)
        if bad >= 0:
            i = int(tree._sweep_order[bad])
            check.fail(
                "noisy",
                "must leave room for the lower bounds; ",
                check.Node(i),
                f" is known exactly to be {v[i]:.15g}, less than the bounds and known values "
                "below it add up to.",
            )

    def _solve(self, v: np.ndarray, bounds: np.ndarray, out: np.ndarray) -> int | None:
        """Return the number of passes, or None if a value is too large or not finite."""
        tree = self._factor.tree
        if tree.n == 1:
            if not abs(v[0]) <= LARGEST:
                return None
            out[0] = np.maximum(v, bounds)[0]
            return 1
        layout = self._factor.family_layout
        bound = split = None
        if bounds.any():
            bound = np.zeros(tree.n)
            bound[tree._sweep_rank[tree.leaves]] = bounds
        if self._factor.has_undetermined:
            split = np.isinf(self._factor.t).view(np.uint8)
        state = kernels.State(
            parent=layout.parent,
            order=layout.order,
            **self._factor.families._asdict(),
            v=_sweep.readonly(v),
            s=self._factor.s,
            bound=bound,
            split=split,
            **self._flags,
            **self._numbers,
            low=self._low,
        )
        # Rounding must not make sums of non-negative numbers negative.
        floor = 0.0 if bounds.min() >= 0 else -np.inf
        seen = np.zeros(1, bool)
        with _sweep.team(layout, self._threads) as run:
            for segment in layout.segments:
                run(kernels.begin, (state, LARGEST, seen), segment, True)
            if seen[0]:
                return None
            passes = _grow(state, layout.segments, run)
            for segment in layout.segments:
                run(kernels.write, (state, out, floor), segment, True)
        return passes


def _grow(state: kernels.State, segments: tuple[_sweep.Segment, ...], run: _sweep.Run) -> int:
    """Hold leaves until none is below its bound; returns the number of passes."""
    passes = 0
    while state.dirty.any():
        for segment in reversed(segments):
            run(kernels.collect, (state,), segment, True)
        for segment in segments:
            run(kernels.scan, (state,), segment, True)
        passes += 1
    return passes
