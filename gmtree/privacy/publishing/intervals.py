"""Confidence intervals of consistent values.

The error of a consistent value is a sum of many independent noises. It is nearly normal if no
single noise dominates, and nearly Laplace if one does. Between the two are the sums of several
equal Laplace noises, and the laws that interpolate between these sums: variance-gamma laws, that
is, a normal variable whose variance has a gamma distribution. Each value gets the quantile of the
variance-gamma law that has its variance and its fourth cumulant.

Noise is a whole number, so that an error changes in steps. Their size is the largest weight that
any measurement has in the error. If we add a uniform variable as wide as a step, the error has a
smooth law with known cumulants. Whenever this sum is within w, the error itself is within w plus
half a step. Half-widths computed in this way reach the next error that can occur, and cover the
truth with at least the wanted probability even if the noise is small compared with the steps.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import cumulants as kernels
from gmtree.consistency import Consistency

_LARGEST_KURTOSIS = 12.0


def proper_confidence(confidence: Any) -> float:
    """A confidence above 0 and below 1."""
    value = check.real("confidence", confidence)
    if not 0 < value < 1:
        check.fail("confidence", f"must be above 0 and below 1, such as 0.95, not {value}.")
    return value


class ErrorLaws:
    """Laws of the errors of consistent values, from those of the measurements.

    `measured` and `kappa` are variances and fourth cumulants of the measurements' noise, by node,
    or one number if all are equal.
    """

    def __init__(
        self, post: Consistency, measured: np.ndarray | float, kappa: np.ndarray | float
    ) -> None:
        self._post, self._kappa = post, kappa
        s, k = np.atleast_1d(measured), np.atleast_1d(kappa)
        noisy = (s > 0) & np.isfinite(s)
        # The excess kurtosis of a sum is at most the largest one among its summands.
        self._kurtosis = float(np.max(k[noisy] / s[noisy] ** 2, initial=0.0))
        self._is_noisy: np.ndarray | float = noisy.astype(float) if np.ndim(measured) else 1.0

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Fourth cumulant and largest step of each node's error."""
        powers = node_fourths(self._post, self._is_noisy)
        if np.ndim(self._kappa):
            return node_fourths(self._post, self._kappa), _largest_step(powers)
        return powers * self._kappa, _largest_step(powers)

    def node_half_widths(self, confidence: float) -> np.ndarray:
        """The half-width of each node's interval at this confidence."""
        return half_widths(confidence, self._post.node_variance(), *self._nodes, self._kurtosis)

    def range_half_widths(self, confidence: float, ranges: np.ndarray) -> np.ndarray:
        """Half-widths for sums over ranges of leaves."""
        fourth, step = np.zeros((2, len(ranges)))
        some = np.flatnonzero(ranges[:, 0] < ranges[:, 1])
        fourth[some] = range_fourths(self._post, self._kappa, ranges[some])
        step[some] = _largest_step(range_fourths(self._post, self._is_noisy, ranges[some]))
        variance = self._post.range_variance(ranges)
        return half_widths(confidence, variance, fourth, step, self._kurtosis)


def half_widths(
    confidence: float, variance: np.ndarray, fourth: np.ndarray, step: np.ndarray, kurtosis: float
) -> np.ndarray:
    """Half-widths for errors with these cumulants and steps.

    A uniform variable as wide as a step has the variance step^2 / 12 and the fourth cumulant
    -step^4 / 120.
    """
    smooth = quantiles(confidence, variance + step**2 / 12, fourth - step**4 / 120, kurtosis)
    return smooth + step / 2


def widest(
    confidence: float, variance: np.ndarray, kurtosis: float, least_variance: float
) -> np.ndarray:
    """Half-widths for estimates of which only the variance is known.

    They are best linear estimates of cells of tables, from noise of at most this excess kurtosis
    and at least this variance s. The weight of a measurement is at most 1, and the square of the
    weight times the variance of the measurement is at most the variance of the estimate. So no step
    of an error is larger than sqrt(variance / s). Of all laws with an excess kurtosis from 0 to
    that of the noise, the one with the largest quantile is used.
    """
    step = np.minimum(np.sqrt(variance / least_variance), 1.0)
    excess, found = _quantiles_by_kurtosis(confidence)
    # The excess kurtosis of nearly normal noise may be rounded below 0.
    largest = min(max(kurtosis, 0.0), _LARGEST_KURTOSIS)
    factor = max(found[excess <= largest].max(), float(np.interp(largest, excess, found)))
    return factor * np.sqrt(variance + step**2 / 12) + step / 2


def quantiles(
    confidence: float, variance: np.ndarray, fourth: np.ndarray, kurtosis: float
) -> np.ndarray:
    """Two-sided quantiles of laws with these cumulants; no excess kurtosis is above `kurtosis`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = fourth / variance**2
    # Rounding errors, 0 / 0 (values known exactly) and inf / inf (unknown values) are moved into
    # the range of possible kurtoses.
    excess = np.clip(np.nan_to_num(excess), 0, kurtosis)
    return np.interp(excess, *_quantiles_by_kurtosis(confidence)) * np.sqrt(variance)


def _largest_step(fourth_powers: np.ndarray) -> np.ndarray:
    """A bound of the largest weight, from the sum of fourth powers of all weights.

    No weight exceeds 1. A measurement enters the estimate of its node with a weight from 0 to 1,
    each step up or down the tree multiplies the weight by such a number, and a sibling's part is
    subtracted once.
    """
    return np.minimum(np.nan_to_num(fourth_powers, nan=1.0), 1.0) ** 0.25


@lru_cache(maxsize=16)
def _quantiles_by_kurtosis(confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided quantiles of variance-gamma laws of variance one, by their excess kurtosis."""
    from scipy.special import erfc, gammainccinv, ndtri

    excess = np.arange(0, _LARGEST_KURTOSIS + 0.01, 1 / 16)
    # Gauss-Legendre nodes in w, where u = w^3 is the upper tail probability: many are in the tail.
    node, weight = np.polynomial.legendre.leggauss(100)
    w = (1 + node) / 2
    weight *= 3 * w**2 / 2
    shape = 3 / excess[1:, None]
    spread = np.sqrt(2 * gammainccinv(shape, w**3) / shape)
    with np.errstate(divide="ignore", over="ignore"):
        low, high = np.zeros(shape.size), np.full(shape.size, 64.0)
        for _ in range(50):
            middle = (low + high) / 2
            above = erfc(middle[:, None] / spread) @ weight > 1 - confidence
            low, high = np.where(above, middle, low), np.where(above, high, middle)
    return excess, np.concatenate([[-ndtri((1 - confidence) / 2)], high])


# --------------------------------------------------------------------------- fourth cumulants


def node_fourths(post: Consistency, kappa: np.ndarray | float) -> np.ndarray:
    """Fourth cumulant of every consistent value, from those of the measurements' noise.

    `kappa` has one entry per node, or is one number if all variances are equal, too.
    """
    tree, factor, layout = post.tree, post._factor, post.tree._layout
    if tree.n == 1:
        return np.full(1, kappa, float)
    noise, unit = _by_position(post, kappa)
    below, inside = _from_below(post, noise)
    lean, outside = np.empty((2, tree.n_internal))
    kernels.spread_root(factor.s, factor.t, noise, lean, outside)
    with _sweep.team(layout, post._threads) as run:
        args = (layout.parent, *factor.weights, noise, below, inside, lean, outside)
        for segment in layout.segments:
            run(kernels.spread, args, segment)
    below *= unit
    return tree._from_positions(below)


def range_fourths(post: Consistency, kappa: np.ndarray | float, ranges: np.ndarray) -> np.ndarray:
    """Fourth cumulants of sums over ranges of leaves, which must not be empty."""
    tree, factor = post.tree, post._factor
    out = np.empty(len(ranges))
    if tree.n == 1:
        return np.full(len(ranges), kappa, float)
    noise, unit = _by_position(post, kappa)
    below, _ = _from_below(post, noise)
    layout, (start, child, place) = tree._layout, tree._child_lists
    share = np.empty(tree.n)
    kernels.shares(layout.parent, *factor.weights, share)
    running = np.empty((2, child.size))
    for sums, x in zip(running, (share, below), strict=True):
        kernels.family_sums(start, child, factor.rank, x, sums)
    climb = kernels.Climb(
        layout.parent, layout.order, factor.rank,
        *factor.weights, noise, below, start, place, *running,
    )  # fmt: skip
    path, weight = np.empty((3, tree.height), child.dtype), np.empty((3, tree.height))
    kernels.range_fourths(climb, tree.leaves_left_to_right, ranges, path, weight, out)
    return out * unit


def _by_position(post: Consistency, kappa: np.ndarray | float) -> tuple[np.ndarray | None, float]:
    """Fourth cumulants by position and the factor 1; if all are equal, None and the common one."""
    if post._factor.s is None:
        return None, float(kappa)
    return _sweep.readonly(post.tree._to_positions(np.asarray(kappa, float))), 1.0


def _from_below(post: Consistency, noise: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Fourth cumulants of the upward estimates, and the sums of those of each node's children."""
    tree, factor, layout = post.tree, post._factor, post.tree._layout
    below, inside = np.empty(tree.n), np.zeros(tree.n_internal)
    args = (layout.parent, factor.s, factor.t, noise, below, inside)
    with _sweep.team(layout, post._threads) as run:
        for segment in reversed(layout.segments):
            run(kernels.collect, args, segment)
    kernels.collect(*args, 0, 1)
    return below, inside
