"""Least squares without negative values: an active set on the sparse solver, with a certificate.

A set of bottom series is held at zero, and all other ones are free. The sparse solver finds the
optimum for that set. Then free series that came out negative are held, and held series that the
objective would like to increase are set free, all together (block principal pivoting: J. Kim and
H. Park, SIAM J. Sci. Comput. 33, 2011). If that makes no progress three times in a row, only the
last series is exchanged, which cannot cycle. At the end no series is on the wrong side, so that the
result is the exact optimum.

Values known exactly could contradict each other while too many series are held. So they are treated
as very precise measurements, and the amounts by which they are missed are added to them for another
round. Bottom series that were not measured are treated as very imprecise measurements of zero.

The certificate does not depend on how the result x was found. Let v' be measurements for which x
satisfies the conditions of optimality exactly. In units of standard deviations, the optimum is the
projection of the measurements onto a convex set, and x is the projection of v'. Projections are
never farther apart than the points that are projected. So x is at most as far from the optimum as
v' is from the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from gmtree._progress import Progress
from gmtree.consistency.sparse.solver import (
    ContradictionError,
    ConvergenceError,
    Preconditioner,
    SparseSolver,
)

# Variances used for 0 and for infinity, in units of the smallest and of the largest variance.
PRECISE, IMPRECISE = 1e-10, 1e20
# Allowed rounding in values known exactly, relative to the largest value.
EXACT_ROUNDING = 1e-12
# Relative rounding of values, and of sums of gradients.
ROUNDING = 1e-14
# Number of exchanges of all series on the wrong side that may fail to reduce their number.
PATIENCE = 3


@dataclass(frozen=True)
class NonnegativeInfo:
    """Information about the search for an optimum without negative cells.

    Attributes
    ----------
    iterations : int
        Number of problems without bounds that were solved.
    at_bound : int
        Number of cells of leaves that are zero.
    violation : float
        In units of values: the largest distance by which a value known exactly is missed, or by
        which a measurement would have to change for the result to be its exact optimum.
    gap : float
        Upper bound of the amount by which the objective exceeds its optimum. The objective is half
        the sum of squared standardised differences.
    distance : float
        ``sqrt(2 gap)``: how far any measured value can be from its optimum, in standard deviations
        and apart from the rounding of the value itself.
    """

    iterations: int
    at_bound: int
    violation: float
    gap: float
    state: Any = field(default=None, repr=False, compare=False)

    @property
    def distance(self) -> float:
        """How far any measured value can be from its optimum, in standard deviations."""
        return float(np.sqrt(2 * self.gap))


def nonnegative_optimum(
    A: Any,
    variance: np.ndarray,
    y: np.ndarray,
    tolerance: float,
    most: int,
    *,
    held: np.ndarray | None = None,
    precondition: Preconditioner | None = None,
) -> tuple[np.ndarray, NonnegativeInfo]:
    """Values of all series, none below zero, that are closest to the measurements.

    Parameters
    ----------
    A, variance, precondition
        As in :class:`gmtree.consistency.sparse.solver.SparseSolver`.
    y : array of shape (series,)
    tolerance : float
        Largest `distance` of the result from the optimum.
    most : int
        Largest number of problems to solve, each with some series fixed at zero and no bounds.
    held : array of bool by bottom series, optional
        Bottom series that are probably zero in the optimum: the first guess.

    Raises
    ------
    ConvergenceError
        If the tolerance is not reached.
    ContradictionError
        If values known exactly cannot be met without negative values.
    """
    measured = np.isfinite(variance)
    # A power of two, so that squares neither overflow nor vanish.
    _, exponent = np.frexp(abs(y[measured]).max(initial=0))
    search = _Search(A, variance, np.ldexp(np.where(measured, y, 0), -exponent), precondition)
    held = np.zeros(search.n_b, bool) if held is None else held.copy()
    with Progress(most, "values not below zero") as progress:
        x, multipliers = search.run(held, most, progress, exponent)
    moved, gap = search.certificate(x, multipliers)
    values = search.sums(x)
    missed = abs(values - search.y)[variance == 0].max(initial=0)
    violation = float(np.ldexp(max(missed, abs(moved).max(initial=0)), exponent))
    deviations = moved[moved != 0] / np.sqrt(variance[moved != 0])
    distance = float(np.ldexp(np.linalg.norm(deviations) + np.sqrt(2 * gap), exponent))
    info = NonnegativeInfo(search.solves, int(np.count_nonzero(x == 0)), violation, distance**2)
    if not info.distance <= tolerance:
        raise ConvergenceError(
            f"The optimum without negative values was found to {info.distance:.1e} standard "
            f"deviations, not {tolerance:.1e}, because of rounding. Use a larger `tolerance`."
        )
    with np.errstate(over="ignore"):
        return np.ldexp(values, exponent), info


class _Search:
    """The search for one set of measurements, whose values are at most 1."""

    def __init__(
        self, A: Any, variance: np.ndarray, y: np.ndarray, precondition: Preconditioner | None
    ) -> None:
        self._A = sparse.csr_array(A, dtype=np.float64)
        self._AT = self._A.T.tocsr()
        self._size = abs(self._AT)
        self._n_a, self.n_b = self._A.shape
        self._variance, self.y, self._precondition = variance, y, precondition
        self.solves = 0
        usable = variance[(variance > 0) & np.isfinite(variance)]
        low, high = (usable.min(), usable.max()) if usable.size else (1.0, 1.0)
        self._w = np.where(variance == 0, PRECISE * low, variance)
        bottom = self._w[self._n_a :]
        bottom[np.isinf(bottom)] = IMPRECISE * max(high, np.sqrt(high))

    def sums(self, bottom: np.ndarray) -> np.ndarray:
        """Values of all series."""
        return np.concatenate([self._A @ bottom, bottom])

    def run(
        self, held: np.ndarray, most: int, progress: Progress, exponent: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values of bottom series and multipliers of all series, with exact values met."""
        exact, target, before = self._variance == 0, self.y.copy(), np.inf
        while True:
            x, multipliers = self._exchange(held, target, most, progress)
            x = np.maximum(x, 0)
            missed = np.where(exact, self.y - self.sums(x), 0)
            k = int(np.argmax(abs(missed)))
            worst = abs(missed[k])
            if worst <= EXACT_ROUNDING * max(1, abs(x).max(initial=0)):
                return x, multipliers
            if worst > 0.5 * before:
                raise ContradictionError(k, float(np.ldexp(worst, exponent)))
            before = worst
            target += missed

    def _exchange(
        self, held: np.ndarray, target: np.ndarray, most: int, progress: Progress
    ) -> tuple[np.ndarray, np.ndarray]:
        """The optimum for positive variances; `held` is changed to its held series."""
        fewest, patience = held.size + 1, PATIENCE
        while True:
            if self.solves == most:
                raise ConvergenceError(
                    f"The optimum without negative values was not found in {most} iterations. "
                    "Allow more `iterations`."
                )
            x, multipliers, wrong = self._optimum(held, target)
            self.solves += 1
            progress.advance(1)
            count = int(np.count_nonzero(wrong))
            if count == 0:
                return x, multipliers
            if count < fewest:
                fewest, patience = count, PATIENCE
            elif patience:
                patience -= 1
            else:
                wrong[: np.flatnonzero(wrong)[-1]] = False
            held ^= wrong

    def _optimum(
        self, held: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, multipliers, and the series on the wrong side, for a set of held series."""
        free = np.flatnonzero(~held)
        used = np.concatenate([np.arange(self._n_a), self._n_a + free])
        solver = SparseSolver(self._AT[free].T, self._w[used], self._precondition)
        solution = solver.solve(target[used], tolerance=1e-13)
        x = np.zeros(held.size)
        x[free] = solution.values[self._n_a :]
        multipliers = -target / self._w
        multipliers[used] = solution.multipliers
        slope, noise = self._slopes(multipliers)
        negative = x < -ROUNDING * abs(solution.values).max(initial=0)
        return x, multipliers, np.where(held, slope < -noise, negative)

    def _slopes(self, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the objective by bottom series, and its largest rounding error."""
        above, own = multipliers[: self._n_a], multipliers[self._n_a :]
        return self._AT @ above + own, ROUNDING * (self._size @ abs(above) + abs(own))

    def certificate(self, x: np.ndarray, multipliers: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a change of the measurements that makes x optimal up to a gap, and this gap.

        Only bottom series that were not measured can contribute to the gap. Their conditions
        are met by changing the most precise aggregate that contains them.
        """
        w, n_a = self._variance, self._n_a
        multipliers = np.where(np.isinf(w), 0, multipliers)
        slope, noise = self._slopes(multipliers)
        wrong = np.where(x > 0, slope, np.minimum(slope, 0))
        wrong[abs(wrong) <= noise] = 0
        values, measured = self.sums(x), np.isfinite(w)
        own = measured[n_a:]
        multipliers[n_a:][own] -= wrong[own]
        gap = float(np.sum((wrong * x)[~own & (wrong > 0)]))
        for j in np.flatnonzero(~own & (wrong < 0)):
            rows = self._A[:, [j]].nonzero()[0]
            row = rows[np.argmin(w[rows])]
            multipliers[row] -= wrong[j]
            gap -= wrong[j] * values[row]
        weighted = np.where(measured, w, 0) * multipliers
        moved = np.where(measured & (w > 0), values - self.y - weighted, 0)
        moved[abs(moved) <= ROUNDING * (abs(values) + abs(self.y) + abs(weighted))] = 0
        return moved, gap
