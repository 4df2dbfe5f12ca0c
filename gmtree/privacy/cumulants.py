"""Second and fourth cumulants of the noise, as the samplers draw it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gmtree.privacy.ledger import Ledger
from gmtree.tree import Tree

# A variance of 0 would say that there is no noise. Noise of a variance below this one is 0 but
# for a chance of less than 2^-300.
SMALLEST_VARIANCE = 1e-100
# The same for cells, so that the mean of many measurements is still above it.
_SMALLEST_OF_CELLS = 1e-90
# From here on the discrete Gaussian differs from the continuous one by less than rounding.
_SMOOTH_SIGMA = 3.0


def noise_moments(mechanism: str, scale: Fraction) -> tuple[float, float]:
    """Variance and fourth cumulant of noise with this scale (or sigma).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from gmtree.privacy.cumulants import noise_moments
    >>> variance, fourth = noise_moments("discrete_laplace", Fraction(8))
    >>> round(variance, 3), round(fourth / variance**2, 3)
    (127.833, 3.008)
    """
    if mechanism == "discrete_laplace":
        variance = laplace_variance(1 / scale)
        # The difference of two geometric variables.
        return variance, variance * (1 + 3 * variance)
    return _gaussian_moments(float(scale))


def laplace_variance(rate: Fraction | float) -> float:
    """2 p / (1 - p)^2 with p = exp(-rate), without cancellation."""
    half = min(float(rate) / 2, 350.0)
    return max(0.5 / math.sinh(half) ** 2, SMALLEST_VARIANCE)


def _gaussian_moments(sigma: float) -> tuple[float, float]:
    if sigma >= _SMOOTH_SIGMA:
        return sigma**2, 0.0
    x = np.arange(1.0, 128.0)
    with np.errstate(under="ignore"):
        # Both signs together; the outcome 0 has weight one.
        weight = 2 * np.exp(-0.5 * (x / sigma) ** 2)
    total = 1 + weight.sum()
    variance = float((weight * x**2).sum() / total)
    if variance < SMALLEST_VARIANCE:
        return SMALLEST_VARIANCE, SMALLEST_VARIANCE
    return variance, float((weight * x**4).sum() / total) - 3 * variance**2


def measurement_cumulants(
    tree: Tree, ledger: Ledger, exact: np.ndarray | None
) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Variance and fourth cumulant of each measurement; one number where all are alike.

    The variance is 0 for what is known exactly and inf where nothing was measured.
    """
    moments = [
        (np.inf, 0.0) if scale is None else noise_moments(ledger.mechanism, scale)
        for scale in ledger.scales
    ]
    if exact is None and len(set(moments)) == 1:
        return moments[0]
    variance, fourth = (np.array(x)[tree.depth - 1] for x in zip(*moments, strict=True))
    if exact is not None:
        variance[exact] = fourth[exact] = 0
    return variance, fourth


def query_variances(
    tree: Tree, ledger: Ledger, exact: np.ndarray | None
) -> dict[tuple[str, ...], dict[str, np.ndarray]]:
    """Variances of the measured queries of tables, by query and node, as in `TableConsistency`."""
    workload, found = ledger.workload, {}
    for k, query in enumerate(workload.queries):
        scales = ledger.scales[k :: len(workload.queries)]
        by_level = [
            np.inf
            if scale is None
            else max(noise_moments(ledger.mechanism, scale)[0], _SMALLEST_OF_CELLS)
            for scale in scales
        ]
        variance = np.array(by_level)[tree.depth - 1]
        if exact is not None and workload.cells[k] == 1:
            variance[exact] = 0
        found[query or ()] = {"node": variance}
    return found
