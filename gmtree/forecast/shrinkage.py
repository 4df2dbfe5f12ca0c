"""Shrunk covariances of residuals as weights: MinT with ``mint_shrink``, without a large matrix.

The covariance is ``W = D + U U'``: a diagonal, and the T periods of residuals as columns of U. With
one number f for each period, normal and independent, a base forecast is ``y = x + U f + e`` with
errors e of variance D. For given f the coherent x closest to ``y - U f`` is a projection P with
the weights of D alone, and f itself solves T equations:

    (1 + U' D^-1 (1 - P) U) f = U' D^-1 (1 - P) y,      x = P (y - U f).

So it takes T more projections than without U, and matrices of size T by T, but no matrix over all
pairs of series. The intensity of shrinkage is that of Schaefer and Strimmer for correlations. Its
sums over all pairs of series are computed as sums over pairs of periods.

If values must not be negative, the problem is split in the same way. For given f, the best x is the
non-negative optimum for ``y - U f`` with the weights of D alone. This leaves a convex function of
the T numbers f, with the gradient ``f - U' D^-1 (y - U f - x)`` and with second derivatives of
the form above, where P keeps the leaves at zero that are zero in x. Newton's method with a line
search finds its minimum. The function grows at least as fast as ``|f|^2 / 2`` from its minimum, so
that x is at most the length of the gradient away from the optimum, in standard deviations.
"""

from __future__ import annotations

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.sparse import ConvergenceError
from gmtree.forecast.methods import Method
from gmtree.forecast.solver import MOST_SOLVES, NONNEGATIVE_TOLERANCE, Weights
from gmtree.forecast.structure import Structure
from gmtree.forecast.variances import with_all

# Least variance of a series, as in hierarchicalforecast. It also keeps quotients finite if
# residuals are constant or uncorrelated.
RIDGE = 2e-8
# Rounding error of a gradient, relative to its terms.
ROUNDING = 1e-13
# The line search accepts a step if the objective falls by this fraction of the decrease that the
# gradient predicts.
LEAST_DECREASE = 1e-4


def intensity(standard: np.ndarray) -> float:
    """The shrinkage intensity of the correlations of standardized rows, from 0 to 1.

    It is ``sum of var(r_ij) / sum of r_ij^2`` over pairs of series, where r_ij is the mean of
    ``z_it z_jt`` over the T periods.
    """
    T = standard.shape[1]
    gram = standard.T @ standard
    squares = standard**2
    # Sums over all pairs of different series: sums over all pairs minus the pairs of a series with
    # itself.
    own = squares.mean(axis=1)
    of_correlations = float(np.sum(gram**2)) / T**2 - float(np.sum(own**2))
    fourth = float(np.sum(squares.sum(axis=0) ** 2)) - float(np.sum(squares**2))
    of_variances = (fourth - T * of_correlations) / (T * (T - 1))
    return min(1.0, max(0.0, of_variances / (of_correlations + 2 * RIDGE)))


class Shrunk(Method):
    """Weighted least squares with a shrunk covariance of residuals.

    Parameters
    ----------
    structure : Structure
    residuals : array of shape (n, T)
        Periods in which some residuals are NaN are left out.
    ridge : float
        Least variance of a series.
    nonnegative : bool
    threads : int, optional
    """

    def __init__(
        self,
        structure: Structure,
        residuals: np.ndarray,
        ridge: float,
        nonnegative: bool,
        threads: int | None,
    ) -> None:
        self.nonnegative = self.cut_intervals = nonnegative
        self._structure, self._threads = structure, threads
        residuals = with_all(residuals, structure.name, 3, "'mint_shrink'")
        T = residuals.shape[1]
        centred = residuals - residuals.mean(axis=1, keepdims=True)
        variance = np.square(centred).sum(axis=1) / (T - 1)
        deviation = np.sqrt(variance * (T - 1) / T) + RIDGE
        self.intensity = intensity(centred / deviation[:, None])
        if self.intensity <= 0:
            check.fail("Y_df", "must have residuals with noisy correlations; without noise, "
                       "'mint_shrink' would not shrink their covariance.")  # fmt: skip
        raised = np.maximum(variance, ridge)
        # The part of each variance that no other series shares.
        shared = (1 - self.intensity) * variance
        self._own = np.where(variance < ridge, 1 - shared / raised, self.intensity)
        self._diagonal = diagonal = self._own * raised
        self._weights = Weights(structure, diagonal, threads)
        self._columns = np.sqrt((1 - self.intensity) / (T - 1)) * centred
        self._deviation = np.sqrt(raised)
        self._coherent = self._weights.project(self._columns)
        # D^-1 (1 - P) U. Its transpose times y is the right-hand side of the equations for f.
        self._apart = (self._columns - self._coherent) / diagonal[:, None]
        system = np.eye(T) + self._columns.T @ self._apart
        self._solve = np.linalg.inv((system + system.T) / 2)

    def project(self, y: np.ndarray) -> np.ndarray:
        """Return the closest coherent values, in the metric of the covariance."""
        if np.isnan(y).any():
            check.fail("Y_hat_df", "must have no missing forecasts for 'mint_shrink'.")
        if not self.nonnegative:
            return self._closest(y)
        return np.stack([self._optimum(column) for column in y.T], axis=1)

    def _factors(self, y: np.ndarray) -> np.ndarray:
        return self._solve @ (self._apart.T @ y)

    def _closest(self, y: np.ndarray) -> np.ndarray:
        """Return the closest coherent values, which may be negative."""
        return self._weights.project(y) - self._coherent @ self._factors(y)

    def _optimum(self, y: np.ndarray) -> np.ndarray:
        """Return the closest coherent values that are not negative, for one column."""
        f = self._factors(y)
        x, value, gradient, allowed = self._at(y, f)
        for _ in range(MOST_SOLVES):
            if np.linalg.norm(gradient) <= allowed:
                return x
            step = -np.linalg.solve(self._second_derivatives(x), gradient)
            promised, length = float(gradient @ step), 1.0
            found = self._at(y, f + step)
            while found[1] > value + LEAST_DECREASE * length * promised and length > ROUNDING:
                length /= 2
                found = self._at(y, f + length * step)
            f = f + length * step
            x, value, gradient, allowed = found
        raise ConvergenceError(
            "The optimum of 'mint_shrink' without negative values was found only to within "
            f"{np.linalg.norm(gradient):.1e} standard deviations instead of {allowed:.1e}."
        )

    def _at(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, float, np.ndarray, float]:
        """For given f: the best x, the objective, its gradient, and how long that may be."""
        U, base = self._columns, y - self._columns @ f
        x = self._weights.project(base[:, None], True)[:, 0]
        rest = (base - x) / self._diagonal
        size = np.linalg.norm(abs(U).T @ ((abs(base) + abs(x)) / self._diagonal))
        allowed = NONNEGATIVE_TOLERANCE + ROUNDING * float(size)
        return x, float(f @ f + (base - x) @ rest) / 2, f - U.T @ rest, allowed

    def _second_derivatives(self, x: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the objective if the same leaves stay at zero."""
        held = self._structure.leaf[x[self._structure.leaf] == 0]
        diagonal, U = self._diagonal.copy(), self._columns.copy()
        diagonal[held], U[held] = 0, 0
        coherent = Weights(self._structure, diagonal, self._threads).project(U)
        apart = (self._columns - coherent) / self._diagonal[:, None]
        return np.eye(U.shape[1]) + self._columns.T @ apart

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Variances if base forecasts have the variances `noise` and the shrunk correlations."""
        factors = self._apart @ self._solve
        own = self._own[:, None] * noise
        out = self._weights.noise_variance(own)
        for k in range(noise.shape[1]):
            # First the errors that are independent between series. The linear map applied to them
            # is P minus the projected columns of U times their factors.
            mixed = self._weights.project(own[:, [k]] * factors)
            inner = factors.T @ (own[:, [k]] * factors)
            out[:, k] -= 2 * np.sum(mixed * self._coherent, axis=1)
            out[:, k] += np.sum((self._coherent @ inner) * self._coherent, axis=1)
            shared = self._columns * (np.sqrt(noise[:, k]) / self._deviation)[:, None]
            out[:, k] += np.sum(self._closest(shared) ** 2, axis=1)
        return np.maximum(out, 0, out=out)

    def draw(self, sigma: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw errors with the shrunk correlations: a part for each series and a shared part."""
        own = np.sqrt(self._own)[:, None] * rng.standard_normal(sigma.shape)
        shared = self._columns @ rng.standard_normal((self._columns.shape[1], sigma.shape[1]))
        return sigma * (own + shared / self._deviation[:, None])
