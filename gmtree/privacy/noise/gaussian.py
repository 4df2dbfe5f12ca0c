"""Discrete Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from gmtree._kernels import sampling as kernels
from gmtree.privacy.accounting.gaussian import loss_of_gaussian
from gmtree.privacy.accounting.rational import sqrt_up
from gmtree.privacy.noise.cumulative import Bounds, ceil_div, ceil_shift, exp_bounds
from gmtree.privacy.noise.inversion import Inversion, MagnitudeTable, Table
from gmtree.privacy.noise.mechanism import SMALLEST_VARIANCE, Mechanism

# A table for a sigma of this size has about 27,000 entries.
LARGEST_TABLE = 1 << 12
# From this sigma on, the moments equal those of the continuous Gaussian up to rounding errors.
_SMOOTH_SIGMA = 3.0


class DiscreteGaussian(Mechanism):
    """P(x) proportional to exp(-x^2 / (2 sigma^2))."""

    name = "discrete_gaussian"
    title = "discrete Gaussian"
    parameter = "sigma"
    measures = ("rho",)
    is_convex = True
    has_loss_law = True

    def sampler(self, scale: Fraction) -> Inversion:
        return sampler(scale)

    def loss(self, measure: str, scale: Fraction) -> Fraction:
        """1 / (2 sigma^2) in rho."""
        return 1 / (2 * scale**2)

    def gaussian_loss(self, scale: Fraction) -> Fraction | None:
        return loss_of_gaussian(scale)

    def scale(self, measure: str, loss: Fraction) -> Fraction:
        return sqrt_up(1 / (2 * loss))

    def moments(self, scale: Fraction) -> tuple[float, float]:
        sigma = float(scale)
        if sigma >= _SMOOTH_SIGMA:
            return sigma**2, 0.0
        x = np.arange(1.0, 128.0)
        with np.errstate(under="ignore"):
            # The weights count both signs together; the outcome 0 has weight one.
            weight = 2 * np.exp(-0.5 * (x / sigma) ** 2)
        total = 1 + weight.sum()
        variance = float((weight * x**2).sum() / total)
        if variance < SMALLEST_VARIANCE:
            return SMALLEST_VARIANCE, SMALLEST_VARIANCE
        return variance, float((weight * x**4).sum() / total) - 3 * variance**2

    def variances(
        self, measure: str, loss: np.ndarray, *, limit: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            return np.maximum(0.5 / loss, SMALLEST_VARIANCE), np.full(loss.shape, -1.0)


GAUSSIAN = DiscreteGaussian()


def discrete_gaussian(sigma: Any, size: Any) -> np.ndarray:
    r"""Independent integers with P(x) proportional to ``exp(-x**2 / (2 * sigma**2))``.

    The distribution is exact, and the notes of :func:`discrete_laplace` apply. If noise with this
    sigma is added to an integer that one person changes by at most c, the privacy loss is
    c^2 / (2 sigma^2) in rho (zero-concentrated differential privacy).

    Parameters
    ----------
    sigma : int, Fraction, str or float
        Above 0 and at most 2^56. The variance is close to sigma^2, and never above it.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    array of int64
        Reduced modulo 2^64 as in :func:`discrete_laplace`.

    Examples
    --------
    >>> from gmtree import privacy
    >>> privacy.discrete_gaussian(12.5, 4).dtype
    dtype('int64')
    """
    return GAUSSIAN.draw(sigma, size)


# --------------------------------------------------------------------------- sampler


@dataclass(frozen=True)
class HalfGaussian:
    r"""Non-negative k with P(k) ~ m_k exp(-rate k^2).

    All m_k are 1. For the magnitude of a draw with a sign (`folded`), m_0 is 1 and all other m_k
    are 2.
    """

    rate: Fraction
    folded: bool

    def cumulative(self, p: int) -> Iterator[Bounds]:
        one = 1 << p
        # term_k = exp(-rate k^2), ratio_k = term_(k+1) / term_k = exp(-rate (2k + 1)).
        term_lo = term_hi = sum_lo = sum_hi = one
        ratio_lo, ratio_hi = exp_bounds(self.rate, p)
        square_lo, square_hi = ratio_lo * ratio_lo >> p, ceil_shift(ratio_hi * ratio_hi, p)
        times = 2 if self.folded else 1
        sums = []
        while term_lo:
            sums.append((sum_lo, sum_hi))
            term_lo, term_hi = term_lo * ratio_lo >> p, ceil_shift(term_hi * ratio_hi, p)
            ratio_lo, ratio_hi = ratio_lo * square_lo >> p, ceil_shift(ratio_hi * square_hi, p)
            sum_lo += times * term_lo
            sum_hi += times * term_hi
        # The omitted terms decrease at least as fast as a geometric series with their first ratio.
        total_hi = sum_hi + times * ceil_div(term_hi * ratio_hi, one - ratio_hi)
        for lo, hi in sums:
            yield (lo << p) // total_hi, ceil_div(hi << p, sum_lo)
        while True:
            yield (sum_lo << p) // total_hi, one


class GaussianCells(Inversion):
    """Discrete Gaussian noise of large sigma.

    The magnitude is m k + r with m = 2^cell_bits: k is drawn with P(k) ~ exp(-(m k)^2 / 2 sigma^2)
    from a table, r uniformly from 0 to m - 1, and the pair is kept with probability
    exp(-gamma), gamma = r (2 m k + r) / 2 sigma^2. The product of these probabilities is
    proportional to exp(-(m k + r)^2 / 2 sigma^2). A minus sign with magnitude 0 is rejected,
    because otherwise 0 would count twice. As m is far below sigma, gamma is small and nearly all
    pairs are kept without reading more bits.
    """

    def __init__(self, sigma: Fraction, cell_bits: int, dtype: Any):
        self.dtype = dtype
        self.width = 2
        self.cell_bits = cell_bits
        self.word_bits = 8 * np.dtype(dtype).itemsize
        self.chance_bits = self.word_bits - cell_bits
        self.rate = 1 / (2 * sigma**2)
        m = 1 << cell_bits
        self.cells = Table(HalfGaussian(self.rate * m**2, folded=False), dtype)
        # An upper bound of the probability of rejecting a draw:
        # 1 - exp(-gamma) < gamma <= (r / m) chance with chance = rate m (2 m k + m), in units of
        # 2^-chance_bits and rounded up. If it reaches 1, the kernel treats the draw as undecided.
        a, b = self.rate.numerator << self.chance_bits, self.rate.denominator
        most = 1 << self.chance_bits
        self.chance = np.array(
            [
                min(ceil_div(a * m * m * (2 * k + 1), b), most)
                for k in range(self.cells.floors.size)
            ],
            np.uint64,
        )

    def look_up(self, words: np.ndarray, out: np.ndarray, undecided: np.ndarray) -> int:
        t = self.cells
        return kernels.invert_cells(
            words,
            self.word_bits,
            t.floors,
            t.guide,
            t.shift,
            self.cell_bits,
            self.chance,
            out,
            undecided,
        )

    def settle(self, words: list[int], more: Callable[[], int]) -> int:
        while True:
            k = self.cells.settle(words[0] >> 1, more)
            r, v = divmod(words[1], 1 << self.chance_bits)
            magnitude = (k << self.cell_bits) + r
            negative = words[0] & 1
            if (magnitude or not negative) and self._keeps(k, r, v, more):
                return -magnitude if negative else magnitude
            words = [more(), more()]

    def _keeps(self, k: int, r: int, v: int, more: Callable[[], int]) -> bool:
        """Whether a uniform number whose first bits are `v` is at least 1 - exp(-gamma)."""
        gamma = self.rate * r * ((2 * k << self.cell_bits) + r)
        if gamma == 0:
            return True
        bits = self.chance_bits
        while True:
            floor = _floor_of_refusal(gamma, bits)
            if v != floor:
                return v > floor
            v = v << self.word_bits | more()
            bits += self.word_bits


def _floor_of_refusal(gamma: Fraction, bits: int) -> int:
    """floor(2^bits (1 - exp(-gamma))) for gamma > 0."""
    guard = 32
    while True:
        one = 1 << (bits + guard)
        lo, hi = exp_bounds(gamma, bits + guard)
        # exp(-gamma) > 0, so the floor is below 2^bits.
        low, high = (one - hi) >> guard, min(one - lo, one - 1) >> guard
        if low == high:
            return low
        guard *= 2


@lru_cache(maxsize=64)
def sampler(sigma: Fraction, dtype: Any = np.uint32) -> Inversion:
    """The sampler of discrete Gaussian noise."""
    if sigma <= LARGEST_TABLE:
        return MagnitudeTable(HalfGaussian(1 / (2 * sigma**2), folded=True), [], dtype)
    cell_bits = 1
    while sigma > LARGEST_TABLE << cell_bits:
        cell_bits += 1
    # Half a word is enough to decide that a draw is kept, unless the cells need more than half.
    wide = cell_bits > 4 * np.dtype(dtype).itemsize
    return GaussianCells(sigma, cell_bits, np.uint64 if wide else dtype)
