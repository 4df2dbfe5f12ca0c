"""Intervals and sample paths of coherent forecasts.

If base forecasts are normal, coherent forecasts are normal, too, and their variances are computed
exactly. A bootstrap adds stretches of past residuals to the base forecasts. Each stretch is taken
from all series at the same time, which keeps the dependence between series and between steps.
Because reconciliation is linear, each period of residuals is made coherent only once, and the paths
are put together from the coherent residuals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from scipy.special import ndtri

from gmtree import _validate as check
from gmtree._progress import Progress
from gmtree.forecast.methods import Method
from gmtree.forecast.variances import Residuals, with_all

# Number of paths for the quantiles of a bootstrap, as in hierarchicalforecast.
SAMPLES = 200
# Number of path values that are made coherent together.
BATCH = 1 << 20


class Normal:
    """Coherent distributions of normal base forecasts with standard deviations `sigma`."""

    y_hat: np.ndarray  # set by reconcilers, as hierarchicalforecast's samplers have it

    def __init__(
        self, method: Method, y_hat: np.ndarray, mean: np.ndarray, sigma: np.ndarray, seed: Any
    ) -> None:
        self._base, self._mean, self._sigma = y_hat, mean, sigma
        self._method, self._seed = method, seed

    @cached_property
    def deviation(self) -> np.ndarray:
        """Standard deviations of the coherent forecasts."""
        return np.sqrt(self._method.noise_variance(np.square(self._sigma)))

    def quantiles(self, q: np.ndarray, mean: np.ndarray) -> list[np.ndarray]:
        """Return the quantiles of distributions about `mean`."""
        found = [z * self.deviation for z in ndtri(q)]
        for x in found:
            x += mean
            if self._method.cut_intervals:
                np.maximum(x, 0, out=x)
        return found

    def get_samples(self, num_samples: int) -> np.ndarray:
        """Return coherent paths of shape (series, steps, samples)."""
        rng = np.random.default_rng(self._seed)
        (n, steps), method = self._mean.shape, self._method
        out = np.empty((n, steps, num_samples))
        batch = max(1, BATCH // self._mean.size)
        with Progress(num_samples, "sample paths") as progress:
            for first in range(0, num_samples, batch):
                count = min(batch, num_samples - first)
                errors = np.hstack([method.draw(self._sigma, rng) for _ in range(count)])
                y, mean = (np.tile(x, count) for x in (self._base, self._mean))
                paths = method.path(y, mean, errors).reshape(n, count, steps)
                out[:, :, first : first + count] = paths.transpose(0, 2, 1)
                progress.advance(count)
        return out


class Bootstrap:
    """Coherent paths from base forecasts and stretches of past residuals.

    `ahead` is the distance of each step from the end of the past. By default steps are consecutive;
    in a cross-validation, each window starts again.
    """

    how = "bootstrap"
    keeps_stretches = True
    y_hat: np.ndarray  # set by reconcilers, as hierarchicalforecast's samplers have it

    def __init__(
        self,
        method: Method,
        y_hat: np.ndarray,
        mean: np.ndarray,
        residuals: Residuals | None,
        seed: Any,
        num_samples: int = SAMPLES,
        ahead: np.ndarray | None = None,
    ) -> None:
        if residuals is None:
            check.fail("Y_df", "must hold values and fitted values of the model in each period for "
                       f"intervals_method={self.how!r}.")  # fmt: skip
        if not residuals.is_aligned:
            self._refuse("with temporal=True: residuals of several frequencies are not of the same "
                         "periods")  # fmt: skip
        if method.nonnegative:
            self._refuse("with nonnegative=True: nonnegative reconciliation is not compatible with "
                         "residuals that are added afterwards")  # fmt: skip
        if not method.is_linear:
            self._refuse("with proportions of forecasts")
        if method.by_step:
            self._refuse("with a variance for each step")
        if np.isnan(y_hat).any():
            check.fail("Y_hat_df", "must have no missing forecasts for intervals_method="
                       f"{self.how!r}.")  # fmt: skip
        self._ahead = np.arange(y_hat.shape[1]) if ahead is None else ahead
        self._steps = int(self._ahead.max()) + 1 if self.keeps_stretches else 1
        use = f"intervals_method={self.how!r}"
        complete = with_all(residuals.values, residuals.name, self._steps + 1, use)
        self._mean, self._seed = mean, seed
        self._residuals, self.num_samples = method.project(complete), num_samples

    def _refuse(self, rule: str) -> NoReturn:
        check.fail("intervals_method", f"must not be {self.how!r} {rule}.")

    def _paths(self, mean: np.ndarray, num_samples: int) -> Iterator[np.ndarray]:
        """Yield the paths of each step, of shape (series, samples)."""
        starts = np.random.default_rng(self._seed).choice(
            np.arange(self._residuals.shape[1] - self._steps), size=num_samples
        )
        for step, ahead in enumerate(self._ahead):
            yield mean[:, [step]] + self._residuals[:, starts + ahead]

    def get_samples(self, num_samples: int) -> np.ndarray:
        """Return coherent paths of shape (series, steps, samples)."""
        return np.stack(list(self._paths(self._mean, num_samples)), axis=1)

    def quantiles(self, q: np.ndarray, mean: np.ndarray) -> list[np.ndarray]:
        """Return the quantiles of paths about `mean`."""
        # Step by step, because all paths together might not fit into memory.
        found = [np.quantile(paths, q, axis=1) for paths in self._paths(mean, self.num_samples)]
        return list(np.stack(found, axis=2))


class Conformal(Bootstrap):
    """Intervals from the coherent residuals of each series in all periods, equal for all steps."""

    how = "conformal"
    keeps_stretches = False

    def _paths(self, mean: np.ndarray, num_samples: int) -> Iterator[np.ndarray]:
        rng = np.random.default_rng(self._seed)
        for step in range(mean.shape[1]):
            periods = rng.choice(self._residuals.shape[1], size=num_samples)
            yield mean[:, [step]] + self._residuals[:, periods]

    def quantiles(self, q: np.ndarray, mean: np.ndarray) -> list[np.ndarray]:
        """Return `mean` plus the quantiles of the residuals."""
        return [mean + x[:, None] for x in np.quantile(self._residuals, q, axis=1)]


class Paths:
    """Coherent paths that were made from sample paths of base forecasts."""

    def __init__(self, samples: np.ndarray) -> None:
        self._samples = samples

    def get_samples(self, num_samples: int) -> np.ndarray:
        """Return all paths, of shape (series, steps, samples)."""
        return self._samples

    def quantiles(self, q: np.ndarray, mean: np.ndarray) -> list[np.ndarray]:
        """Return the quantiles of the paths."""
        return list(np.quantile(self._samples, q, axis=2))


# --------------------------------------------------------------------------- levels of intervals


def check_levels(level: Any) -> list[float]:
    """Return levels in percent, in ascending order and with the types that they were given in."""
    if isinstance(level, (str, Mapping)) or not isinstance(level, (Sequence, np.ndarray)):
        level = [level]
    found = []
    for x in np.atleast_1d(level) if isinstance(level, np.ndarray) else level:
        number = check.real("level", x)
        if not 0 <= number < 100:
            check.fail("level", f"must hold percentages from 0 to below 100, not {x}.")
        if 0 < number < 1:
            check.fail("level", f"must hold percentages such as 90, not fractions such as {x}.")
        found.append(x.item() if isinstance(x, np.generic) else x)
    if not found:
        check.fail("level", "must hold at least one percentage.")
    return sorted(found)


def quantiles_of(level: Sequence[float]) -> np.ndarray:
    """Return the lower and upper quantiles of all levels, ascending."""
    low = [(100 - x) / 200 for x in level]
    return np.sort(np.array([*low, *(1 - x for x in low)]))
