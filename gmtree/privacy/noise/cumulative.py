r"""Cumulative probabilities as certified integers.

A draw by inversion reads the bits of a uniform number U in [0, 1) one word after the other and
returns the number of k with F(k) <= U, where F is the cumulative probability. With the first w
bits known, as the integer u = floor(2^w U), and with the *exact* floor c = floor(2^w F(k)),

- u < c implies U < F(k), because then 2^w U < u + 1 <= c <= 2^w F(k);
- u > c implies U > F(k), because then 2^w F(k) < c + 1 <= u <= 2^w U;
- u = c leaves the order open, and more bits must be read.

A draw decided this way has exactly the wanted distribution, including the tails, for any w.

The floors come from enclosures: every quantity is held as a pair of integers lo, hi with
lo <= 2^p x <= hi, and each operation rounds lo down and hi up. If 2^w F(k) may lie on either side
of an integer, everything is computed again with more digits p. Nobody has to trust an error
analysis, because a floor is used only if both ends of its enclosure give the same floor.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

Bounds = tuple[int, int]

# Extra digits of the first attempt. After sums of 2^16 roundings about 40 of them are still valid,
# so that about one table in 2^20 needs a second attempt.
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
    # The omitted terms add up to at most the last term times y + y^2 + ..., which is at most 1.
    return lo, hi + term_hi


class Law(Hashable, Protocol):
    """A distribution on 0, 1, 2, ..."""

    def cumulative(self, p: int) -> Iterator[Bounds]:
        """Yield enclosures of 2^p F(k) for k = 0, 1, ... while F(k) < 1, possibly without end."""


def floors(law: Law, bits: int) -> list[int]:
    """Return floor(2^bits F(k)) for k = 0, 1, ... up to the first that equals 2^bits - 1."""
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


# A tie needs a longer table of the same law, which is kept because later draws can tie, too.
longer_floors = lru_cache(maxsize=16)(floors)
