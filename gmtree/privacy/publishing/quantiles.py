"""Cumulative shares and quantiles of ordered leaves, such as ages, incomes or times of day.

Cumulative sums of the unbiased estimate are replaced by the closest non-decreasing sums. The sums
of the non-negative optimum do not decrease either, but its many small positive counts shift
quantiles towards sparse leaves.

Let A be the sum of the leaves up to k and B the sum of the remaining leaves. The leaves up to k
have a share of at most f of all records if D = (1 - f) A - f B is at most 0. The variance of the
estimate of D follows from the exact variances of A, B and A + B, so that its half-width w is known.
The interval of a share consists of all f with abs(D) <= w. The interval of a quantile goes from the
first leaf with D >= -w to the leaf after the last one with D <= w. If k is the true quantile, D is
not negative at k, and negative just before k. So each end is wrong only if a single D misses its
interval on one side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.publishing.intervals import proper_confidence, widest

_STEPS = 40


class Interval(NamedTuple):
    """Values with the ends of their confidence intervals.

    Attributes
    ----------
    value, low, high : array, or a number for a single value
    """

    value: Any
    low: Any
    high: Any


class OrderedLeaves:
    """Methods of releases whose leaves have an order."""

    def cdf(self, confidence: float = 0.95) -> Interval:
        """Cumulative shares of ordered leaves, such as ages or incomes, with intervals.

        Parameters
        ----------
        confidence : float
            Above 0 and below 1.

        Returns
        -------
        Interval
            ``value``, ``low`` and ``high``, with one entry per leaf in the order of
            ``tree.leaves_left_to_right``: the share of all records that are in this leaf or to the
            left of it. Values are computed from `estimate`, and never decrease. Each interval
            covers the true share with a probability of at least `confidence`, up to the
            approximation of :meth:`interval`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.dyadic([0, 18, 40, 65, 110]), [220, 280, 310, 190], rho=1)
        >>> share, low, high = r.cdf()
        >>> bool(((low <= share) & (share <= high)).all()), share.shape, float(share[-1])
        (True, (4,), 1.0)
        """
        leaves = _Leaves(self, confidence)
        total = leaves.values[-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            value = leaves.values[1:] / total if total > 0 else np.full(leaves.count, np.nan)
        start = np.nan_to_num(leaves.estimates[1:] / leaves.estimates[-1], nan=0.5)
        start = np.clip(start, 0, 1)
        low, high = (_edge(leaves, start, end) for end in (0.0, 1.0))
        return Interval(value, np.fmin(low, value), np.fmax(high, value))

    def quantile(self, q: Any, *, edges: Any = None, confidence: float = 0.95) -> Interval:
        """Quantiles of ordered leaves, such as the median age, with intervals.

        Parameters
        ----------
        q : float or sequence of float
            From 0 to 1, such as 0.5 for the median.
        edges : sequence of numbers, optional
            The ends of the leaves from left to right, one number more than there are leaves. Leaf k
            goes from ``edges[k]`` to ``edges[k + 1]``, and its records are assumed to be spread
            evenly. Without edges, quantiles are node numbers of leaves.
        confidence : float
            Above 0 and below 1.

        Returns
        -------
        Interval
            ``value``, ``low`` and ``high``, with one entry per quantile. Each interval covers the
            true quantile with a probability of at least `confidence`, up to the approximation of
            :meth:`interval`, and ends at edges.

        Examples
        --------
        >>> import gmtree as gm
        >>> edges = [0, 18, 40, 65, 110]
        >>> r = gm.release(gm.shapes.dyadic(edges), [22000, 28000, 31000, 19000], rho=1)
        >>> median, low, high = r.quantile(0.5, edges=edges)
        >>> round(median), low, high
        (40, 18.0, 65.0)
        """
        wanted = np.atleast_1d(_numbers("q", q))
        if wanted.ndim > 1 or not np.all((wanted >= 0) & (wanted <= 1)):
            check.fail("q", f"must be numbers from 0 to 1, not {q!r}.")
        leaves = _Leaves(self, confidence)
        scale = None if edges is None else proper_edges(edges, leaves.count)
        found = np.array([_one(leaves, x, scale) for x in wanted])
        if scale is None:
            found = leaves.order[found.astype(np.int64)]
        columns = found.reshape(-1, 3).T
        return Interval(*(columns if np.ndim(q) else columns[:, 0].tolist()))


def _edge(leaves: _Leaves, inside: np.ndarray, end: float) -> np.ndarray:
    """Find one end of each share's interval by bisection between `inside` and `end` (0 or 1)."""
    outside = np.full(leaves.count, end)
    where = slice(1, None)
    refuted = leaves.is_refuted(outside, where, end)
    good, bad = np.where(refuted, inside, outside), outside
    for _ in range(_STEPS):
        middle = (good + bad) / 2
        refuted = leaves.is_refuted(middle, where, end)
        good, bad = np.where(refuted, good, middle), np.where(refuted, middle, bad)
    # `bad` is the outer end of the last step, so the interval is never too short.
    return bad


def _one(leaves: _Leaves, q: float, edges: np.ndarray | None) -> tuple[float, float, float]:
    """Return a quantile and both ends of its interval, in units of `edges` or as leaf numbers."""
    sums, last = leaves.values, leaves.count - 1
    goal = q * sums[-1]
    k = min(int(np.searchsorted(sums[1:], goal)), last)
    share = np.full(last + 1, q)
    low = min(k, int(np.argmin(leaves.is_refuted(share, slice(1, None), 1.0))))
    # No records are before the first leaf.
    may_be_later = ~leaves.is_refuted(share, slice(0, -1), 0.0)
    high = max(k, int(np.flatnonzero(may_be_later)[-1]) if may_be_later.any() else 0)
    if edges is None:
        return k, low, high
    inside = (goal - sums[k]) / (sums[k + 1] - sums[k]) if sums[k + 1] > sums[k] else 0.5
    value = edges[k] + min(max(inside, 0.0), 1.0) * (edges[k + 1] - edges[k])
    return value, edges[low], edges[high + 1]


def proper_edges(edges: Any, bins: int | None = None) -> np.ndarray:
    """Check edges: increasing numbers, one more than there are bins."""
    found = _numbers("edges", edges)
    increase = found.ndim == 1 and found.size > 1 and np.all(np.diff(found) > 0)
    if not (increase and np.isfinite(found).all()):
        check.fail("edges", "must be at least two finite numbers that increase.")
    if bins is not None and found.size != bins + 1:
        check.fail(
            "edges", f"must have one number more than there are leaves ({bins}), not {found.size}."
        )
    return found


def _numbers(argument: str, x: Any) -> np.ndarray:
    """Convert numbers to floats; refuse a Series or DataFrame with labels."""
    check.refuse_labels(argument, x)
    return check.reals(argument, x).astype(float)


class _Leaves:
    """Sums over the first leaves from the left, and the variances of their estimates."""

    def __init__(self, release: Any, confidence: Any) -> None:
        self.confidence, self.count = proper_confidence(confidence), release.tree.n_leaves
        self.order = release.tree.leaves_left_to_right
        sums = np.cumsum(release.estimate[self.order], dtype=float)
        self.estimates = np.concatenate([[0.0], sums])
        self.values = np.concatenate([[0.0], _never_falling(sums)])
        post, stops = release._post, np.arange(self.count + 1)
        first = np.column_stack([np.zeros_like(stops), stops])
        rest = np.column_stack([stops, np.full_like(stops, self.count)])
        self._first, self._rest = post.range_variance(first), post.range_variance(rest)
        self._kurtosis = release._laws._kurtosis
        noise = np.atleast_1d(release._cumulants[0])
        noise = noise[(noise > 0) & np.isfinite(noise)]
        self._least = float(noise.min(initial=1.0))

    def is_refuted(self, share: np.ndarray, leaves: slice, side: float) -> np.ndarray:
        """Whether D exceeds its half-width, on the side of too small or of too large shares."""
        below, above = self._first[leaves], self._rest[leaves]
        # If a variance is infinite, the covariance is infinity minus infinity, which is NaN.
        with np.errstate(invalid="ignore"):
            covariance = (self._first[-1] - below - above) / 2
            variance = (1 - share) ** 2 * below + share**2 * above
            variance -= 2 * share * (1 - share) * covariance
        variance = np.where(np.isnan(variance), np.inf, np.maximum(variance, 0))
        width = widest(self.confidence, variance, self._kurtosis, self._least)
        difference = self.estimates[leaves] - share * self.estimates[-1]
        return difference > width if side == 0 else difference < -width


def _never_falling(sums: np.ndarray) -> np.ndarray:
    """The closest non-decreasing sums, from 0 to the last sum."""
    from scipy.optimize import isotonic_regression

    total = max(float(sums[-1]), 0.0)
    found = np.clip(isotonic_regression(sums).x, 0, total)
    found[-1] = total
    return found
