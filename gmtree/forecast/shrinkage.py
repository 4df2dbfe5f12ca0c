"""Shrunk covariances of residuals as weights: MinT with ``mint_shrink``, without a large matrix.

The covariance is ``W = D + U U'``: a diagonal, and the T periods of residuals as columns of U. With
one number f for each period, normal and independent, a base forecast is ``y = x + U f + e`` with
errors e of variance D. For given f the coherent x closest to ``y - U f`` is a projection P with
the weights of D alone, and f itself solves T equations:

    (1 + U' D^-1 (1 - P) U) f = U' D^-1 (1 - P) y,      x = P (y - U f).

So it takes T projections more than without U, and products of T by T: nothing of the size of the
number of series squared. The intensity of shrinkage is that of Schaefer and Strimmer for
correlations; the sums over all pairs of series in it are sums over pairs of periods as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.solver import Weights
from gmtree.forecast.structure import Structure

# Least variance of a series, and what keeps quotients finite for residuals that are constant or
# uncorrelated: as hierarchicalforecast has it.
RIDGE = 2e-8


def intensity(standard: np.ndarray) -> float:
    """How much correlations are shrunk, between 0 and 1, for rows divided by their deviations.

    It is ``sum of var(r_ij) / sum of r_ij^2`` over pairs of series, where r_ij is the mean of
    ``z_it z_jt`` over the T periods.
    """
    T = standard.shape[1]
    gram = standard.T @ standard
    squares = standard**2
    # Sums over all pairs, without those of a series with itself.
    own = squares.mean(axis=1)
    of_correlations = float(np.sum(gram**2)) / T**2 - float(np.sum(own**2))
    fourth = float(np.sum(squares.sum(axis=0) ** 2)) - float(np.sum(squares**2))
    of_variances = (fourth - T * of_correlations) / (T * (T - 1))
    return min(1.0, max(0.0, of_variances / (of_correlations + 2 * RIDGE)))


class Shrunk:
    """Coherent values with weights of a shrunk covariance.

    Parameters
    ----------
    structure : Structure
    residuals : array of shape (n, T)
        Without missing values.
    threads : int, optional
    """

    def __init__(self, structure: Structure, residuals: np.ndarray, threads: int | None) -> None:
        T = residuals.shape[1]
        if T < 3:
            check.fail("Y_df", f"must have at least 3 periods for 'mint_shrink', not {T}.")
        if np.isnan(residuals).any():
            k = int(np.argmax(np.isnan(residuals).any(axis=1)))
            check.fail("Y_df", "must have residuals in all periods for 'mint_shrink'; "
                       f"{structure.name(k)} has not.")  # fmt: skip
        centred = residuals - residuals.mean(axis=1, keepdims=True)
        variance = np.square(centred).sum(axis=1) / (T - 1)
        deviation = np.sqrt(variance * (T - 1) / T) + RIDGE
        self.intensity = intensity(centred / deviation[:, None])
        variance = np.maximum(variance, RIDGE)
        diagonal = self.intensity * variance
        if self.intensity <= 0:
            check.fail("Y_df", "must have residuals whose covariance can be shrunk; these have no "
                       "noise in their correlations.")  # fmt: skip
        self._deviation = np.sqrt(variance)
        self._weights = Weights(structure, diagonal, None, threads)
        self._columns = np.sqrt((1 - self.intensity) / (T - 1)) * centred
        self._coherent = self._weights.project(self._columns)
        # D^-1 (1 - P) U, which gives the right-hand side for any y as well.
        self._apart = (self._columns - self._coherent) / diagonal[:, None]
        system = np.eye(T) + self._columns.T @ self._apart
        self._solve = np.linalg.inv((system + system.T) / 2)

    def project(self, y: np.ndarray) -> np.ndarray:
        """Coherent values of each column."""
        if np.isnan(y).any():
            check.fail("Y_hat_df", "must have no missing forecasts for 'mint_shrink'.")
        factors = self._solve @ (self._apart.T @ y)
        return self._weights.project(y) - self._coherent @ factors

    linear = project

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Variances where base forecasts have the variances `noise` and the shrunk correlations."""
        out = np.empty(noise.shape)
        for k in range(noise.shape[1]):
            own = self.intensity * noise[:, k]
            # The part without correlations: P less the projected periods times their factors.
            factors = self._apart @ self._solve
            mixed = self._weights.project(own[:, None] * factors)
            inner = factors.T @ (own[:, None] * factors)
            variance = self._weights.noise_variance(own[:, None])[:, 0]
            variance -= 2 * np.sum(mixed * self._coherent, axis=1)
            variance += np.sum((self._coherent @ inner) * self._coherent, axis=1)
            shared = self._columns * (np.sqrt(noise[:, k]) / self._deviation)[:, None]
            variance += np.sum(self.project(shared) ** 2, axis=1)
            out[:, k] = np.maximum(variance, 0)
        return out


def refuse_bounds(nonnegative: Any) -> None:
    """Refuse bounds: with correlations the method for them is no longer exact."""
    if nonnegative:
        check.fail("nonnegative", "must be False for 'mint_shrink'.")
