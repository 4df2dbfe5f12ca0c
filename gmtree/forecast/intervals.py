"""Intervals and sample paths of coherent forecasts.

Base forecasts that are independent and normal have coherent values that are normal, too; their
variances are exact. Bootstrapped paths add stretches of past residuals, of all series at
once, to the base forecasts: that keeps how series and steps belong together. Making paths coherent
is linear, so that each period of residuals is made coherent once, and paths are put together from
those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from gmtree import _validate as check

Project = Callable[[np.ndarray], np.ndarray]


def normal_quantiles(mean: np.ndarray, deviation: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Quantiles of normal distributions, along a new last axis."""
    return mean[..., None] + ndtri(q) * deviation[..., None]


class Normal:
    """Coherent paths from independent normal base forecasts."""

    def __init__(self, y_hat: np.ndarray, sigma: np.ndarray, project: Project, seed: Any) -> None:
        self._y_hat, self._sigma, self._project = y_hat, sigma, project
        self._seed = seed

    def get_samples(self, num_samples: int) -> np.ndarray:
        """Coherent paths of shape (series, steps, samples)."""
        rng = np.random.default_rng(self._seed)
        n, steps = self._y_hat.shape
        out = np.empty((n, steps, num_samples))
        for k in range(num_samples):
            out[:, :, k] = self._project(
                self._y_hat + self._sigma * rng.standard_normal((n, steps))
            )
        return out


class Bootstrap:
    """Coherent paths from base forecasts and stretches of past residuals."""

    def __init__(
        self,
        y_hat: np.ndarray,
        residuals: np.ndarray,
        project: Project,
        num_samples: int,
        seed: Any,
    ) -> None:
        steps = y_hat.shape[1]
        complete = residuals[:, ~np.isnan(residuals).any(axis=0)]
        if complete.shape[1] <= steps:
            check.fail(
                "Y_df",
                f"must have more than {steps} periods with residuals of all series for a bootstrap "
                f"of {steps} steps, not {complete.shape[1]}.",
            )
        self._steps, self._seed, self.num_samples = steps, seed, num_samples
        self._mean = project(y_hat)
        self._residuals = project(complete)

    def _starts(self, num_samples: int) -> np.ndarray:
        rng = np.random.default_rng(self._seed)
        return rng.choice(np.arange(self._residuals.shape[1] - self._steps), size=num_samples)

    def get_samples(self, num_samples: int) -> np.ndarray:
        """Coherent paths of shape (series, steps, samples)."""
        starts = self._starts(num_samples)
        n = self._mean.shape[0]
        out = np.empty((n, self._steps, num_samples))
        for step in range(self._steps):
            out[:, step] = self._mean[:, [step]] + self._residuals[:, starts + step]
        return out

    def quantiles(self, q: np.ndarray) -> np.ndarray:
        """Quantiles of the paths, step by step: all paths at once would not fit into memory."""
        starts = self._starts(self.num_samples)
        out = np.empty((*self._mean.shape, q.size))
        for step in range(self._steps):
            paths = self._mean[:, [step]] + self._residuals[:, starts + step]
            out[:, step] = np.quantile(paths, q, axis=1).T
        return out
