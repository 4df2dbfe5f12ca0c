"""Methods of reconciliation, one small class each.

The method with a covariance of residuals is in `shrinkage.py`, those that divide forecasts are in
`topdown.py`, and `registry.py` chooses the class for the name of a method. Frames (`forecasts.py`)
and the classes for hierarchicalforecast (`reconcilers.py`) use them in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.bounds import Bounds
from gmtree.forecast.solver import Weights
from gmtree.forecast.structure import Structure


class Method(ABC):
    """Computes coherent values from base forecasts, and the effect of their errors."""

    nonnegative = False  # whether values are kept from being negative, which is not linear
    cut_intervals = False  # whether normal intervals end at zero
    by_step = False  # whether each step has its own weights
    is_linear = True  # whether values are linear in the base forecasts, apart from bounds

    @property
    def unbounded(self) -> Method:
        """The method without lower and upper bounds, which defines the errors."""
        return self

    @abstractmethod
    def project(self, y: np.ndarray) -> np.ndarray:
        """Return the coherent values of each column; NaN is a missing forecast."""

    @abstractmethod
    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Return the variances of coherent values of base forecasts with variances `noise`."""

    def draw(self, sigma: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw errors of base forecasts that have the standard deviations `sigma`."""
        return sigma * rng.standard_normal(sigma.shape)

    def path(self, y: np.ndarray, mean: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Return the coherent path of base forecasts with the given errors."""
        return self.project(y + error)


class Sums(Method):
    """Bottom-up: sums of the leaves, or of their positive parts.

    If only the forecasts of leaves have weights, the positive parts of the leaves are the closest
    non-negative values.
    """

    def __init__(self, structure: Structure, nonnegative: bool = False) -> None:
        self._structure, self.nonnegative = structure, nonnegative
        self.cut_intervals = nonnegative

    def project(self, y: np.ndarray) -> np.ndarray:
        """Return the sums of the leaves."""
        return self.noise_variance(np.maximum(y, 0) if self.nonnegative else y)

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Return the sums of the variances of the leaves."""
        leaves = np.ascontiguousarray(noise[self._structure.leaf])
        missing = np.isnan(leaves).any(axis=1)
        if missing.any():
            k = int(self._structure.leaf[int(np.argmax(missing))])
            check.fail("Y_hat_df", "must have a forecast of each leaf for bottom-up sums; "
                       f"{self._structure.name(k)} has none.")  # fmt: skip
        return self._structure.aggregate(leaves)


class Closest(Method):
    """Weighted least squares, with or without bounds."""

    def __init__(
        self, weights: Weights, nonnegative: bool = False, bounds: Bounds | None = None
    ) -> None:
        self.weights, self.nonnegative, self._bounds = weights, nonnegative, bounds
        self.cut_intervals = nonnegative
        self.by_step = weights.variance is not None and weights.variance.ndim == 2

    @property
    def unbounded(self) -> Method:
        """The method without lower and upper bounds."""
        return self if self._bounds is None else Closest(self.weights, self.nonnegative)

    def project(self, y: np.ndarray) -> np.ndarray:
        """Return the closest coherent values."""
        return self.weights.project(y, self.nonnegative, self._bounds)

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Return the variances of the values without bounds."""
        return self.weights.noise_variance(noise)


class ClippedFirst(Method):
    """Hierarchicalforecast's non-negative method.

    It sets negative base forecasts to zero before the optimization. Its intervals have the errors
    of bottom-up forecasts around the optimum.
    """

    nonnegative = True

    def __init__(self, optimum: Method, structure: Structure) -> None:
        self._optimum, self._sums = optimum, Sums(structure)
        self.by_step = optimum.by_step

    def project(self, y: np.ndarray) -> np.ndarray:
        """Return the closest non-negative values to the positive parts of base forecasts."""
        return self._optimum.project(np.maximum(y, 0))

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Return the variances of bottom-up forecasts."""
        return self._sums.noise_variance(noise)

    def path(self, y: np.ndarray, mean: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Return the optimum plus the errors of bottom-up forecasts."""
        return mean + self._sums.project(error)
