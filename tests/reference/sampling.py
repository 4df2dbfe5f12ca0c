"""Discrete Laplace and Gaussian noise from their definitions, slow and plain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import signal, special

DIGITS = Context(prec=110)


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / x.denominator


def magnitudes(law: str, scale: Fraction, least: float = 1e-65) -> list[Decimal]:
    """P(|x| = k) for k = 0, 1, ... until all further ones together are below `least` or so."""
    with localcontext(DIGITS):
        weights = [Decimal(1)]
        while weights[-1] > Decimal(least):
            k = len(weights)
            exponent = k / scale if law == "laplace" else Fraction(k * k) / (2 * scale**2)
            weights.append(2 * (-decimal(exponent)).exp())
        total = sum(weights)
        return [w / total for w in weights]


def floors(probabilities: list[Decimal], bits: int) -> list[int]:
    """Floors of 2^bits times the cumulative sums, up to the first that is 2^bits - 1."""
    found = []
    with localcontext(DIGITS):
        below = Decimal(0)
        for p in probabilities:
            below += p
            found.append(int((below * (1 << bits)).to_integral_value(ROUND_FLOOR)))
            if found[-1] == (1 << bits) - 1:
                break
    return found


def cumulative(law: str, scale: float, x: np.ndarray) -> np.ndarray:
    """P(X < x) in floating point.

    For a Gaussian of large sigma by the integral up to x - 1/2, which is off by a part in
    24 sigma^2.
    """
    x = np.asarray(x, float)
    if law == "laplace":
        q = np.exp(-1 / scale)
        tail = np.exp(-np.where(x > 0, x, 1 - x) / scale) / (1 + q)
        return np.where(x > 0, 1 - tail, tail)
    if scale > 2000:
        return special.ndtr((x - 0.5) / scale)
    reach = int(40 * scale) + 2
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    return sums[np.clip(x.astype(int) + reach, 0, 2 * reach + 1)] / sums[-1]


def chi_square(law: str, scale: float, draws: np.ndarray) -> float:
    """Probability of bins that fit worse, if the draws have the given distribution."""
    edges = bins(law, scale, draws.size)
    found = counts(draws, edges)
    expected = np.diff(np.concatenate([[0.0], cumulative(law, scale, edges), [1.0]]))
    assert abs(expected.sum() - 1) < 1e-12
    expected *= draws.size
    statistic = float(((found - expected) ** 2 / expected).sum())
    return float(special.chdtrc(expected.size - 1, statistic))


def chi_square_of_two(law: str, scale: float, a: np.ndarray, b: np.ndarray) -> float:
    """Probability of two samples that differ more, if they have the same distribution."""
    edges = bins(law, scale, min(a.size, b.size))
    m, n = counts(a, edges), counts(b, edges)
    ratio = np.sqrt(n.sum() / m.sum())
    together = np.maximum(m + n, 1)
    statistic = float(((m * ratio - n / ratio) ** 2 / together).sum())
    return float(special.chdtrc(m.size - 1, statistic))


def bins(law: str, scale: float, n: int) -> np.ndarray:
    """Edges of equally wide bins, each but the outer two with 100 draws or more expected."""
    width = max(1, int(scale / 40), int(500 * scale / n))
    reach = int(30 * scale) // width + 2
    edges = np.arange(-reach, reach + 1) * width
    each = np.diff(cumulative(law, scale, edges)) * n
    enough = np.flatnonzero(each >= 100)
    return edges[enough[0] : enough[-1] + 2]


def counts(draws: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Numbers of draws below the first edge, between edges, and from the last one on."""
    width = edges[1] - edges[0]
    place = np.clip((draws - edges[0]) // width, -1, edges.size - 1) + 1
    return np.bincount(place, minlength=edges.size + 1)


def probabilities(law: str, scale: float, reach: int) -> np.ndarray:
    """P(x) for x from -reach to reach, in floating point."""
    x = np.arange(-reach, reach + 1)
    with np.errstate(under="ignore"):
        weight = np.exp(-abs(x) / scale if law == "laplace" else -0.5 * (x / scale) ** 2)
    return weight / weight.sum()


def probability_within(
    law: str, scales: list[float], weights: list[Fraction], widths: list[float]
) -> list[float]:
    """P(|sum of weight times noise| <= width) for each width, by exact sums over the lattice.

    The weights are fractions, so that the sum is a multiple of one part of their denominator.
    """
    unit = Fraction(1, math.lcm(*(w.denominator for w in weights)))
    total = np.ones(1)
    for scale, weight in zip(scales, weights, strict=True):
        steps = abs(int(weight / unit))
        if steps:
            p = probabilities(law, scale, int(36 * scale) + 20)
            spread = np.zeros((p.size - 1) * steps + 1)
            spread[::steps] = p
            total = signal.fftconvolve(total, spread)
    middle = total.size // 2
    # An error that equals the width counts as within it, despite rounding.
    ends = [min(math.floor(float(width / float(unit)) + 1e-6), middle) for width in widths]
    return [float(total[middle - k : middle + k + 1].sum()) for k in ends]


class ExhaustedError(Exception):
    """More random words were requested than the source has."""


class GivenWords:
    """A source with the given words and no others."""

    def __init__(self, words: Any):
        self.words: Iterator[int] = iter(words)

    def take(self, count: int, dtype: Any) -> np.ndarray:
        try:
            return np.array([next(self.words) for _ in range(count)], dtype)
        except StopIteration:
            raise ExhaustedError from None


class Rejection:
    """The samplers of Canonne, Kamath and Steinke (2020), with integers of any size.

    They need nothing but uniform integers below a given integer, so they share no step with the
    tables that they are compared with.
    """

    def __init__(self, source: Any):
        self.source = source

    def below(self, n: int) -> int:
        """A uniform integer below n."""
        bits = (n - 1).bit_length()
        words = -(-bits // 64)
        while True:
            x = 0
            for _ in range(words):
                x = x << 64 | int(self.source.take(1, np.uint64)[0])
            x >>= 64 * words - bits
            if x < n:
                return x

    def bernoulli_exp(self, a: int, b: int) -> bool:
        """True with probability exp(-a / b), for a, b >= 0."""
        for _ in range(a // b):
            if not self.bernoulli_exp_below_one(1, 1):
                return False
        return self.bernoulli_exp_below_one(a % b, b)

    def bernoulli_exp_below_one(self, a: int, b: int) -> bool:
        """True with probability exp(-a / b), for 0 <= a <= b."""
        k = 1
        while self.below(b * k) < a:
            k += 1
        return k % 2 == 1

    def laplace(self, scale: Fraction) -> int:
        """P(x) ~ exp(-|x| / scale)."""
        t, s = scale.numerator, scale.denominator
        while True:
            u = self.below(t)
            if not self.bernoulli_exp_below_one(u, t):
                continue
            while self.bernoulli_exp_below_one(1, 1):
                u += t
            magnitude, negative = u // s, self.below(2)
            if magnitude or not negative:
                return -magnitude if negative else magnitude

    def gaussian(self, sigma: Fraction) -> int:
        """Laplace noise y of scale t, kept with exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2))."""
        t = math.ceil(sigma)
        while True:
            y = self.laplace(Fraction(t))
            exponent = (abs(y) - sigma**2 / t) ** 2 / (2 * sigma**2)
            if self.bernoulli_exp(exponent.numerator, exponent.denominator):
                return y
