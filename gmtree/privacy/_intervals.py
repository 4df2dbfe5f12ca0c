"""Confidence intervals of consistent values.

A consistent value is a sum of many independent noises, near to normal where no single one
dominates and near to Laplace noise where one does. Between the two lie the sums of several equal
Laplace noises, and the laws that interpolate between these (variance-gamma laws, a normal whose
variance has a gamma distribution). Each value gets the quantile of the one among them that has
its variance and its fourth cumulant.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import kurtosis as kernels
from gmtree.consistency import Consistency

# Where less than this variance comes from elsewhere, errors keep close to whole numbers.
_LATTICE_VARIANCE = 1 / 16
# Noise of a smaller variance makes errors of sums that are visibly whole numbers.
_COARSE_VARIANCE = 2.0
_LARGEST_KURTOSIS = 12.0


def confidence(argument: str, level: Any) -> float:
    """A level of confidence above 0 and below 1."""
    value = check.real(argument, level)
    if not 0 < value < 1:
        check.fail(argument, f"must be above 0 and below 1, such as 0.95, not {level}.")
    return value


def half_widths(
    level: float, variance: np.ndarray, fourth: np.ndarray, kurtosis: float
) -> np.ndarray:
    """How far a value may be from the truth at this level of confidence.

    `kurtosis` is the largest excess kurtosis of any one noise; no sum exceeds it.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = fourth / variance**2
    # Neither rounding nor 0 / 0 (known exactly) and inf / inf (not known) may lead out of there.
    excess = np.clip(np.nan_to_num(excess), 0, kurtosis)
    width = np.interp(excess, *_quantiles(level))
    width *= np.sqrt(variance)
    return width


def lattice_half_widths(
    level: float, variance: np.ndarray, fourth: np.ndarray, rest: np.ndarray | float
) -> np.ndarray:
    """`half_widths` where errors are whole numbers but for a part of variance `rest`.

    To cover with at least the wanted probability, a whole number k of steps must be such that
    the error with another one spread evenly between -1/2 and 1/2 is within k + 1/2.
    """
    smooth = variance + 1 / 12
    width = half_widths(level, smooth, fourth - 1 / 120, np.inf)
    return np.maximum(np.ceil(width - 0.5), 0) + 2 * np.sqrt(rest)


def node_half_widths(
    level: float, post: Consistency, measured: np.ndarray | float, kappa: np.ndarray | float
) -> np.ndarray:
    """Half widths for all nodes, from variances and fourth cumulants of the measurements."""
    variance, fourth = post.node_variance(), node_fourths(post, kappa)
    smallest, kurtosis = _extremes(measured, kappa)
    width = half_widths(level, variance, fourth, kurtosis)
    # Cov(x_i, v_i) = Var x_i: so much of x_i's variance does not come from its own measurement.
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = variance * np.maximum(0, 1 - variance / measured)
    near = np.flatnonzero((rest < _LATTICE_VARIANCE) & (variance > 0))
    width[near] = lattice_half_widths(level, variance[near], fourth[near], rest[near])
    if smallest < _COARSE_VARIANCE:
        sums = np.flatnonzero(np.broadcast_to(np.isinf(measured), width.shape))
        width[sums] = _either(level, variance[sums], fourth[sums], width[sums])
    return width


def range_half_widths(
    level: float,
    post: Consistency,
    measured: np.ndarray | float,
    kappa: np.ndarray | float,
    ranges: np.ndarray,
) -> np.ndarray:
    """Half widths for sums over ranges of leaves."""
    variance, fourth = post.leaf_sum_variance(ranges), np.zeros(len(ranges))
    some = np.flatnonzero(ranges[:, 0] < ranges[:, 1])
    fourth[some] = range_fourths(post, kappa, ranges[some])
    smallest, kurtosis = _extremes(measured, kappa)
    width = half_widths(level, variance, fourth, kurtosis)
    if smallest < _COARSE_VARIANCE:
        width[some] = _either(level, variance[some], fourth[some], width[some])
    return width


def _either(
    level: float, variance: np.ndarray, fourth: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """Wide enough whether or not errors are whole numbers."""
    lattice = lattice_half_widths(level, variance, fourth, 0.0)
    return np.where(variance > 0, np.maximum(width, lattice), width)


def _extremes(measured: np.ndarray | float, kappa: np.ndarray | float) -> tuple[float, float]:
    """The smallest variance and the largest excess kurtosis of any noise."""
    s, k = np.atleast_1d(measured), np.atleast_1d(kappa)
    noisy = (s > 0) & np.isfinite(s)
    return float(s[noisy].min()), float(np.max(k[noisy] / s[noisy] ** 2, initial=0.0))


@lru_cache(maxsize=16)
def _quantiles(level: float) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided quantiles of variance-gamma laws of variance one, by their excess kurtosis."""
    from scipy.special import erfc, gammainccinv

    excess = np.arange(0, _LARGEST_KURTOSIS + 0.01, 1 / 16)
    # Equal steps in w with u = w^3 the probability to be above: most of them in the upper tail.
    w = (np.arange(1000) + 0.5) / 1000
    weight = 3 * w**2 / 1000
    shape = 3 / excess[1:, None]
    spread = np.sqrt(2 * gammainccinv(shape, w**3) / shape)
    with np.errstate(divide="ignore", over="ignore"):
        low, high = np.zeros(shape.size), np.full(shape.size, 64.0)
        for _ in range(50):
            middle = (low + high) / 2
            above = erfc(middle[:, None] / spread) @ weight > 1 - level
            low, high = np.where(above, middle, low), np.where(above, high, middle)
    return excess, np.concatenate([[_normal_quantile(level)], high])


def _normal_quantile(level: float) -> float:
    from scipy.special import ndtri

    return -float(ndtri((1 - level) / 2))


# --------------------------------------------------------------------------- fourth cumulants


def node_fourths(post: Consistency, kappa: np.ndarray | float) -> np.ndarray:
    """Fourth cumulant of every consistent value, from those of the measurements' noise.

    `kappa` is by node, or one number where all variances are equal too.
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
    return tree.from_positions(below)


def range_fourths(post: Consistency, kappa: np.ndarray | float, ranges: np.ndarray) -> np.ndarray:
    """Fourth cumulants of sums over ranges of leaves, none of them empty."""
    tree, factor = post.tree, post._factor
    out = np.empty(len(ranges))
    if tree.n == 1:
        return np.full(len(ranges), kappa, float)
    noise, unit = _by_position(post, kappa)
    below, _ = _from_below(post, noise)
    start, child = tree._children
    child = child[: tree.n - 1]
    place = np.zeros(tree.n, child.dtype)
    place[child] = np.arange(child.size)
    share = np.empty(tree.n)
    kernels.shares(tree._position_parent, *factor.weights, share)
    running = np.empty((2, child.size))
    for sums, x in zip(running, (share, below), strict=True):
        kernels.family_sums(start, child, tree.rank, x, sums)
    climb = kernels.Climb(
        tree._position_parent, tree.order, tree.rank,
        *factor.weights, noise, below, start, place, *running,
    )  # fmt: skip
    path, weight = np.empty((3, tree.height), child.dtype), np.empty((3, tree.height))
    kernels.range_fourths(climb, tree.leaves, ranges, path, weight, out)
    return out * unit


def _by_position(post: Consistency, kappa: np.ndarray | float) -> tuple[np.ndarray | None, float]:
    """Noise by position and 1, or None (all equal) and the common cumulant."""
    if post._factor.s is None:
        return None, float(kappa)
    return _sweep.readonly(post.tree.to_positions(np.asarray(kappa, float))), 1.0


def _from_below(post: Consistency, noise: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Fourth cumulants of the upward sweep, and their sums over children."""
    tree, factor, layout = post.tree, post._factor, post.tree._layout
    below, inside = np.empty(tree.n), np.zeros(tree.n_internal)
    args = (layout.parent, factor.s, factor.t, noise, below, inside)
    with _sweep.team(layout, post._threads) as run:
        for segment in reversed(layout.segments):
            run(kernels.collect, args, segment)
    kernels.collect(*args, 0, 1)
    return below, inside
