"""Draws by inversion of certified tables.

A compiled kernel looks words of 32 bits up in tables: one word for a draw of small scale, two or
more for large scales. Where the words do not decide a draw, it is finished here, from the same
words and as many more as it takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from gmtree._kernels import sampling as kernels
from gmtree.privacy.sampling.cumulative import (
    GeometricDigit,
    HalfGaussian,
    LaplaceMagnitude,
    Law,
    ceil_div,
    exp_bounds,
    floors,
    longer_floors,
)
from gmtree.privacy.sampling.words import Words

# Draws between two requests for random bytes: their words stay in the cache.
CHUNK = 1 << 16
# A table for a scale up to this has some 22,000 entries for Laplace, 27,000 for Gaussian noise.
LARGEST_LAPLACE_TABLE = 1 << 10
LARGEST_GAUSSIAN_TABLE = 1 << 12
# Digits of up to this many bits: with two words, scales up to 4 million.
DIGIT_BITS = 12


class Table:
    """The floors of a law for words of one type, with a guide that says where to look.

    ``guide[u >> shift]`` is the first entry that a word beginning with these bits can need. With
    more guide entries than floors, the average search ends at once.
    """

    def __init__(self, law: Law, dtype: Any, *, size: int | None = None, guide_bits: int = 0):
        self.law = law
        self.bits = 8 * np.dtype(dtype).itemsize - 1
        top = (1 << self.bits) - 1
        found = floors(law, self.bits)
        # The last entry stops every search; a word that equals it is undecided like any other.
        padding = 1 if size is None else size - len(found)
        self.floors = np.array(found + [top] * padding, dtype)
        wanted = guide_bits or (16 * self.floors.size).bit_length()
        self.guide_bits = min(max(wanted, 4), 16, self.bits)
        self.shift = self.bits - self.guide_bits
        starts = np.arange(1 << self.guide_bits, dtype=np.uint64) << np.uint64(self.shift)
        index_dtype = np.uint16 if self.floors.size <= 1 << 16 else np.uint32
        self.guide = np.searchsorted(self.floors, starts.astype(dtype)).astype(index_dtype)

    def settle(self, u: int, more: Callable[[], int]) -> int:
        """The outcome for a uniform number whose first bits are `u`, reading on as needed."""
        k = int(np.searchsorted(self.floors, self.floors.dtype.type(u)))
        if self.floors[k] != u:
            return k
        bits, step = self.bits, self.bits + 1
        while True:
            u = u << step | more()
            bits += step
            longer = longer_floors(self.law, bits)
            k = bisect_left(longer, u)
            if k == len(longer) or longer[k] != u:
                return k


class Inversion(ABC):
    """A sampler that looks words up in tables, and settles one by one what these leave open."""

    dtype: Any
    width: int

    @abstractmethod
    def look_up(self, words: np.ndarray, out: np.ndarray, undecided: np.ndarray) -> int:
        """Fill `out` from `width` words each; note the undecided places, return their number."""

    @abstractmethod
    def settle(self, words: list[int], more: Callable[[], int]) -> int:
        """The draw that begins with these words."""

    def fill(self, out: np.ndarray, source: Words) -> None:
        """Fill a vector of int64 with independent draws."""

        def more() -> int:
            return int(source.take(1, self.dtype)[0])

        undecided = np.empty(min(out.size, CHUNK), np.uint32)
        for start in range(0, out.size, CHUNK):
            part = out[start : start + CHUNK]
            words = source.take(part.size * self.width, self.dtype)
            count = self.look_up(words, part, undecided)
            for i in undecided[:count].tolist():
                own = words[i * self.width : (i + 1) * self.width].tolist()
                part[i] = wrap(self.settle(own, more))


class MagnitudeTable(Inversion):
    """A random sign and a magnitude, looked up as a whole or as a leading part and digits."""

    def __init__(self, law: Law, digits: list[GeometricDigit], dtype: Any):
        self.dtype = dtype
        self.width = 1 + len(digits)
        self.leading = Table(law, dtype)
        self.radix = digits[0].radix if digits else 1
        guide_bits = self.radix.bit_length() + 2
        self.digits = [Table(d, dtype, size=self.radix, guide_bits=guide_bits) for d in digits]
        self._digit_arguments: tuple[Any, ...] = (None, None, 0)
        if digits:
            self._digit_arguments = (
                np.stack([t.floors for t in self.digits]),
                np.stack([t.guide for t in self.digits]),
                self.digits[0].shift,
            )

    def look_up(self, words: np.ndarray, out: np.ndarray, undecided: np.ndarray) -> int:
        t = self.leading
        return kernels.invert(
            words, self.width, t.floors, t.guide, t.shift, *self._digit_arguments, out, undecided
        )

    def settle(self, words: list[int], more: Callable[[], int]) -> int:
        magnitude = self.leading.settle(words[0] >> 1, more)
        if magnitude and self.digits:
            magnitude -= 1
            for table, word in zip(self.digits, words[1:], strict=True):
                magnitude = magnitude * self.radix + table.settle(word >> 1, more)
            magnitude += 1
        return -magnitude if words[0] & 1 else magnitude


class GaussianCells(Inversion):
    """Discrete Gaussian noise of large sigma.

    The magnitude is m k + r with m = 2^cell_bits: k is drawn with P(k) ~ exp(-(m k)^2 / 2 sigma^2)
    from a table, r uniformly from 0 to m - 1, and the pair is kept with probability
    exp(-gamma), gamma = r (2 m k + r) / 2 sigma^2, which together is exp(-(m k + r)^2 / 2 sigma^2).
    A minus sign with magnitude 0 is refused, or 0 would count twice. As m is far below sigma,
    gamma is small and nearly all pairs are kept at the first look.
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
        # An upper bound of the chance to refuse a draw: 1 - exp(-gamma) < gamma <= (r / m) chance
        # with chance = rate m (2 m k + m), in units of 2^-chance_bits and rounded up. The kernel
        # treats draws as undecided where it reaches 1.
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


def wrap(x: int) -> int:
    """`x` modulo 2^64, as a signed integer."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


@lru_cache(maxsize=64)
def laplace(scale: Fraction, dtype: Any = np.uint32) -> Inversion:
    """The sampler of discrete Laplace noise."""
    if scale <= LARGEST_LAPLACE_TABLE:
        return MagnitudeTable(LaplaceMagnitude(scale), [], dtype)
    digits = 1
    while scale > LARGEST_LAPLACE_TABLE << (digits * DIGIT_BITS):
        digits += 1
    # As few entries as possible in all tables together; a leading one has 22 a unit of scale.
    bits = min(
        range(1, DIGIT_BITS + 1), key=lambda b: (digits << b) + 22 * scale / (1 << digits * b)
    )
    return laplace_with_digits(scale, bits, digits, dtype)


def laplace_with_digits(scale: Fraction, bits: int, digits: int, dtype: Any) -> MagnitudeTable:
    """The leading part of 1 + g, for the geometric g of scale `scale`, and the digits of g."""
    weights = [1 << bits * j for j in reversed(range(digits))]
    return MagnitudeTable(
        LaplaceMagnitude(scale, 1 << bits * digits),
        [GeometricDigit(scale, weight, 1 << bits) for weight in weights],
        dtype,
    )


@lru_cache(maxsize=64)
def gaussian(sigma: Fraction, dtype: Any = np.uint32) -> Inversion:
    """The sampler of discrete Gaussian noise."""
    if sigma <= LARGEST_GAUSSIAN_TABLE:
        return MagnitudeTable(HalfGaussian(1 / (2 * sigma**2), folded=True), [], dtype)
    cell_bits = 1
    while sigma > LARGEST_GAUSSIAN_TABLE << cell_bits:
        cell_bits += 1
    # Half a word is enough to see that a draw is kept, unless the cells need more than half.
    wide = cell_bits > 4 * np.dtype(dtype).itemsize
    return GaussianCells(sigma, cell_bits, np.uint64 if wide else dtype)
