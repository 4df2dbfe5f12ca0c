"""Draws by inversion of certified tables.

A compiled kernel looks words of 32 bits up in tables: one word for a draw of small scale, two or
more for large scales. If these words do not decide a draw, this module completes it, with the same
words and as many further words as necessary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from gmtree._kernels import sampling as kernels
from gmtree.privacy.noise.cumulative import Law, floors, longer_floors
from gmtree.privacy.noise.words import Words

# Number of draws per request for random bytes, so small that their words stay in the cache.
CHUNK = 1 << 16


class Table:
    """The floors of a law for words of one type, with a guide to where the search starts.

    ``guide[u >> shift]`` is the first entry that a word beginning with these bits can need. With
    more guide entries than floors, the average search takes about one step.
    """

    def __init__(self, law: Law, dtype: Any, *, size: int | None = None, guide_bits: int = 0):
        self.law = law
        self.bits = 8 * np.dtype(dtype).itemsize - 1
        top = (1 << self.bits) - 1
        found = floors(law, self.bits)
        # The last entry stops every search; a word equal to it is undecided, like any equal word.
        padding = 1 if size is None else size - len(found)
        self.floors = np.array(found + [top] * padding, dtype)
        wanted = guide_bits or (16 * self.floors.size).bit_length()
        self.guide_bits = min(max(wanted, 4), 16, self.bits)
        self.shift = self.bits - self.guide_bits
        starts = np.arange(1 << self.guide_bits, dtype=np.uint64) << np.uint64(self.shift)
        index_dtype = np.uint16 if self.floors.size <= 1 << 16 else np.uint32
        self.guide = np.searchsorted(self.floors, starts.astype(dtype)).astype(index_dtype)

    def settle(self, u: int, more: Callable[[], int]) -> int:
        """Return the outcome for a uniform number with the first bits `u`; read more if needed."""
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
    """A sampler that looks random words up in tables.

    Draws that the tables cannot decide are computed one by one.
    """

    dtype: Any
    width: int

    @abstractmethod
    def look_up(self, words: np.ndarray, out: np.ndarray, undecided: np.ndarray) -> int:
        """Fill `out`, using `width` words per draw, and return the number of undecided draws.

        Their places are written to `undecided`.
        """

    @abstractmethod
    def settle(self, words: list[int], more: Callable[[], int]) -> int:
        """Return the draw whose first words are given."""

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

    def __init__(self, law: Law, digits: list[Law], dtype: Any, radix: int = 1):
        self.dtype = dtype
        self.width = 1 + len(digits)
        self.leading = Table(law, dtype)
        self.radix = radix
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


def wrap(x: int) -> int:
    """`x` modulo 2^64, as a signed integer."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)
