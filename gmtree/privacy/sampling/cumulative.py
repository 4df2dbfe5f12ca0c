r"""Cumulative probabilities as certified integers.

A draw by inversion reads the bits of a uniform number U in [0, 1) one word after the other and
returns the number of k with F(k) <= U, where F is the cumulative probability. With the first w
bits known, as the integer u = floor(2^w U), and with the *exact* floor c = floor(2^w F(k)),

- u < c says U < F(k), since then 2^w U < u + 1 <= c <= 2^w F(k);
- u > c says U > F(k), since then 2^w F(k) < c + 1 <= u <= 2^w U;
- u = c says nothing, and more bits must be read.

A draw decided this way has exactly the wanted distribution, whatever w is, tails included.

The floors come from enclosures: every quantity is held as a pair of integers lo, hi with
lo <= 2^p x <= hi, and each operation rounds lo down and hi up. Where 2^w F(k) may lie on either
side of an integer, everything is computed again with more digits p. There is no error analysis
to trust: a floor is used only when both ends of its enclosure agree on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

Bounds = tuple[int, int]

# Digits beyond the wanted ones at the first attempt. Sums of 2^16 roundings leave some 40 of
# them, so that about one table in 2^20 needs a second attempt.
_GUARD = 64


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def ceil_shift(a: int, bits: int) -> int:
    return -(-a >> bits)


def exp_bounds(x: Fraction, bits: int) -> Bounds:
    """Integers lo <= 2^bits exp(-x) <= hi, at most two apart, for x >= 0."""
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:
        return 0, 1
    # exp(-x) = (1 / exp(y))^(2^halvings) with y below 2^-8, where the series is short. Each
    # squaring doubles the relative width of the enclosure.
    halvings = (x.numerator // x.denominator).bit_length() + 8
    p = bits + halvings + 16
    lo, hi = _exp_of_small(x / (1 << halvings), p)
    lo, hi = (1 << 2 * p) // hi, ceil_div(1 << 2 * p, lo)
    for _ in range(halvings):
        lo, hi = lo * lo >> p, ceil_shift(hi * hi, p)
    return lo >> (p - bits), ceil_shift(hi, p - bits)


def _exp_of_small(y: Fraction, p: int) -> Bounds:
    """Bounds of 2^p exp(y) for 0 < y <= 1/2 by the series, all of whose terms are positive."""
    y_lo = (y.numerator << p) // y.denominator
    y_hi = y_lo + 1
    lo = hi = term_lo = term_hi = 1 << p
    k = 0
    while term_lo:
        k += 1
        term_lo = (term_lo * y_lo >> p) // k
        term_hi = ceil_div(ceil_shift(term_hi * y_hi, p), k)
        lo += term_lo
        hi += term_hi
    # What was left out is at most y + y^2 + ... <= 1 times the last term.
    return lo, hi + term_hi


class Law(Hashable, Protocol):
    """A distribution on 0, 1, 2, ..."""

    def cumulative(self, p: int) -> Iterator[Bounds]:
        """Enclosures of 2^p F(k) for k = 0, 1, ... while F(k) < 1, without end if there is none."""


def floors(law: Law, bits: int) -> list[int]:
    """floor(2^bits F(k)) for k = 0, 1, ..., up to the first that is 2^bits - 1."""
    top = (1 << bits) - 1
    guard = _GUARD
    while True:
        found: list[int] = []
        for lo, hi in law.cumulative(bits + guard):
            floor = lo >> guard
            # F(k) < 1, so its floor cannot be above `top`.
            if floor != min(hi >> guard, top):
                break
            found.append(floor)
            if floor == top:
                return found
        else:
            return found
        guard *= 2


# A tie needs a longer table of the same law; ties of one law come again.
longer_floors = lru_cache(maxsize=16)(floors)


@dataclass(frozen=True)
class LaplaceMagnitude:
    r"""Which block of `width` integers holds the magnitude of a discrete Laplace draw.

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
    r"""A digit of a geometric variable in base `radix`.

    If P(g) ~ exp(-g / scale) for g >= 0, the digits of g are independent, and that of value
    `weight` has P(r) ~ p^r for 0 <= r < radix with p = exp(-weight / scale), so that
    F(r) = (1 - p^(r+1)) / (1 - p^radix).
    """

    scale: Fraction
    weight: int
    radix: int

    def cumulative(self, p: int) -> Iterator[Bounds]:
        # Both differences from 1 are small when the digit is nearly uniform.
        small = self.scale / (self.weight * self.radix)
        w = p + (small.numerator // small.denominator).bit_length()
        one = 1 << w
        step_lo, step_hi = exp_bounds(self.weight / self.scale, w)
        whole_lo, whole_hi = exp_bounds(self.weight * self.radix / self.scale, w)
        lo, hi = step_lo, step_hi
        for _ in range(self.radix - 1):
            yield ((one - hi) << p) // (one - whole_lo), ceil_div((one - lo) << p, one - whole_hi)
            lo, hi = lo * step_lo >> w, ceil_shift(hi * step_hi, w)


@dataclass(frozen=True)
class HalfGaussian:
    r"""Non-negative k with P(k) ~ m_k exp(-rate k^2).

    All m_k are 1, or, for the magnitude of a draw with a sign (`folded`), m_0 = 1 and all
    others 2.
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
        # The terms not in the sum fall at least as fast as their first ratio.
        total_hi = sum_hi + times * ceil_div(term_hi * ratio_hi, one - ratio_hi)
        for lo, hi in sums:
            yield (lo << p) // total_hi, ceil_div(hi << p, sum_lo)
        while True:
            yield (sum_lo << p) // total_hi, one
