"""Discrete Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from gmtree.privacy.accounting.gaussian import loss_of_laplace
from gmtree.privacy.accounting.rational import round_up, sqrt_up
from gmtree.privacy.noise.cumulative import Bounds, ceil_div, ceil_shift, exp_bounds
from gmtree.privacy.noise.inversion import Inversion, MagnitudeTable
from gmtree.privacy.noise.mechanism import SMALLEST_VARIANCE, Mechanism

# A table for a scale of this size has about 22,000 entries.
LARGEST_TABLE = 1 << 10
# Digits have at most this many bits. Two words then suffice for scales up to 4 million.
DIGIT_BITS = 12
# At a loss of twice this number, the variance is at most 1e-87, so a larger loss has no benefit.
_LARGEST_HALF = 100.0


class DiscreteLaplace(Mechanism):
    """P(x) proportional to exp(-abs(x) / scale)."""

    name = "discrete_laplace"
    title = "discrete Laplace"
    parameter = "scale"
    measures = ("epsilon", "rho")
    is_convex = False
    has_loss_law = False

    def sampler(self, scale: Fraction) -> Inversion:
        return sampler(scale)

    def loss(self, measure: str, scale: Fraction) -> Fraction:
        """1 / scale in epsilon, and at most 1 / (2 scale^2) in rho."""
        return 1 / scale if measure == "epsilon" else 1 / (2 * scale**2)

    def gaussian_loss(self, scale: Fraction) -> Fraction | None:
        return loss_of_laplace(scale)

    def scale(self, measure: str, loss: Fraction) -> Fraction:
        return round_up(1 / loss) if measure == "epsilon" else sqrt_up(1 / (2 * loss))

    def moments(self, scale: Fraction) -> tuple[float, float]:
        """The variance 2 p / (1 - p)^2 with p = exp(-1 / scale), and the fourth cumulant.

        The noise is the difference of two geometric variables. The formula avoids cancellation.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from gmtree.privacy.noise.laplace import LAPLACE
        >>> variance, fourth = LAPLACE.moments(Fraction(8))
        >>> round(variance, 3), round(fourth / variance**2, 3)
        (127.833, 3.008)
        """
        half = min(float(1 / scale) / 2, 350.0)
        variance = max(0.5 / math.sinh(half) ** 2, SMALLEST_VARIANCE)
        return variance, variance * (1 + 3 * variance)

    def variances(
        self, measure: str, loss: np.ndarray, *, limit: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        if measure == "rho":
            variance, slope = self.variances("epsilon", np.sqrt(2 * loss), limit=limit)
            return variance, slope / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            if limit:
                return 2 / loss**2, np.full(loss.shape, -2.0)
            half = np.minimum(loss / 2, _LARGEST_HALF)
            # A variance that no longer changes must also have slope 0, because otherwise the
            # solver would continue up to its last iteration.
            slope = np.where(half < _LARGEST_HALF, -2 * half / np.tanh(half), 0.0)
            return 0.5 / np.sinh(half) ** 2, slope


LAPLACE = DiscreteLaplace()


def discrete_laplace(scale: Any, size: Any) -> np.ndarray:
    r"""Independent integers with P(x) proportional to ``exp(-abs(x) / scale)``.

    The distribution is exact: only integers are compared, and if the first random bits do not
    decide a draw, more bits are read. If noise of scale b is added to an integer that one person
    changes by at most c, the privacy loss is c / b.

    Parameters
    ----------
    scale : int, Fraction, str or float
        Above 0 and at most 2^56. A float is taken at its exact value; write ``'0.1'`` or
        ``Fraction(1, 10)`` if that is meant.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    array of int64
        A draw that does not fit into 64 bits is reduced modulo 2^64. If it is added to counts with
        the usual wrapping, the result is a function of the exact noisy counts and costs no privacy.

    Notes
    -----
    Random words come from OpenSSL's generator, which the operating system seeds, or from
    :func:`os.urandom` if Python lacks the ``ssl`` module. Draws take no seed: see
    :mod:`gmtree.privacy.testing` for experiments that must be repeated, which give no privacy.

    The duration of a draw depends slightly on its value, and its random words stay in memory until
    that memory is used for something else. The guarantee does not hold against somebody who can
    measure time or read memory.

    Examples
    --------
    >>> from gmtree import privacy
    >>> noise = privacy.discrete_laplace("1/3", (2, 3))
    >>> noise.shape, noise.dtype
    ((2, 3), dtype('int64'))
    """
    return LAPLACE.draw(scale, size)


# --------------------------------------------------------------------------- sampler


@dataclass(frozen=True)
class LaplaceMagnitude:
    r"""The law of the block of `width` integers that holds the magnitude of a draw.

    P(x) ~ exp(-|x| / scale). The outcome is 0 for x = 0 and T for
    1 + (T - 1) width <= |x| <= T width, so that F(T) = 1 - 2 q p^T / (1 + q) with
    q = exp(-1 / scale) and p = q^width.
    """

    scale: Fraction
    width: int = 1

    def cumulative(self, p: int) -> Iterator[Bounds]:
        one = 1 << p
        q_lo, q_hi = exp_bounds(1 / self.scale, p)
        step_lo, step_hi = exp_bounds(self.width / self.scale, p)
        lo, hi = 2 * one * q_lo // (one + q_lo), ceil_div(2 * one * q_hi, one + q_hi)
        while True:
            yield one - hi, one - lo
            lo, hi = lo * step_lo >> p, ceil_shift(hi * step_hi, p)


@dataclass(frozen=True)
class GeometricDigit:
    r"""The law of one digit of a geometric variable in base `radix`.

    If P(g) ~ exp(-g / scale) for g >= 0, the digits of g are independent. The digit with place
    value `weight` has P(r) ~ p^r for 0 <= r < radix with p = exp(-weight / scale), so that
    F(r) = (1 - p^(r+1)) / (1 - p^radix).
    """

    scale: Fraction
    weight: int
    radix: int

    def cumulative(self, p: int) -> Iterator[Bounds]:
        # Numerator and denominator are both small if the digit is nearly uniform.
        small = self.scale / (self.weight * self.radix)
        w = p + (small.numerator // small.denominator).bit_length()
        one = 1 << w
        step_lo, step_hi = exp_bounds(self.weight / self.scale, w)
        whole_lo, whole_hi = exp_bounds(self.weight * self.radix / self.scale, w)
        lo, hi = step_lo, step_hi
        for _ in range(self.radix - 1):
            yield ((one - hi) << p) // (one - whole_lo), ceil_div((one - lo) << p, one - whole_hi)
            lo, hi = lo * step_lo >> w, ceil_shift(hi * step_hi, w)


@lru_cache(maxsize=64)
def sampler(scale: Fraction, dtype: Any = np.uint32) -> Inversion:
    """The sampler of discrete Laplace noise."""
    if scale <= LARGEST_TABLE:
        return MagnitudeTable(LaplaceMagnitude(scale), [], dtype)
    digits = 1
    while scale > LARGEST_TABLE << (digits * DIGIT_BITS):
        digits += 1
    # Minimise the entries of all tables together; the leading table has 22 per unit of scale.
    bits = min(
        range(1, DIGIT_BITS + 1), key=lambda b: (digits << b) + 22 * scale / (1 << digits * b)
    )
    return with_digits(scale, bits, digits, dtype)


def with_digits(scale: Fraction, bits: int, digits: int, dtype: Any) -> MagnitudeTable:
    """The sampler of a magnitude 1 + g from tables of its leading part and of the digits of g."""
    weights = [1 << bits * j for j in reversed(range(digits))]
    return MagnitudeTable(
        LaplaceMagnitude(scale, 1 << bits * digits),
        [GeometricDigit(scale, weight, 1 << bits) for weight in weights],
        dtype,
        1 << bits,
    )
