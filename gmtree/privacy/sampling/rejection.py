"""Draws by rejection: the samplers of Canonne, Kamath and Steinke (2020).

They need nothing but uniform integers below a given integer, and serve as a check of the tables.
A compiled kernel draws as long as 64 bits are enough. A draw that it cannot finish, because its
words are used up or a number grows too large, is made here again from its first word, with integers
of any size and as many more words as it takes: both read the same words in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, gcd, isqrt
from typing import Any

import numpy as np

from gmtree._kernels import sampling as kernels
from gmtree.privacy.sampling.inversion import wrap
from gmtree.privacy.sampling.words import Words

# Most words between two requests.
CHUNK = 1 << 17
# Parameters beyond this are left to integers of any size.
LARGEST_COMPILED = 1 << 44


class Stream:
    """Words of 64 bits one by one: given ones first, then fresh ones in blocks."""

    def __init__(self, given: np.ndarray, source: Words, block: int = 1):
        self._words = self._read(given, source, block)

    @staticmethod
    def _read(given: np.ndarray, source: Words, block: int) -> Iterator[int]:
        yield from given.tolist()
        while True:
            yield from source.take(block, np.uint64).tolist()

    def below(self, n: int) -> int:
        """A uniform integer below n."""
        bits = (n - 1).bit_length()
        words = -(-bits // 64)
        while True:
            x = 0
            for _ in range(words):
                x = x << 64 | next(self._words)
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

    def laplace(self, t: int, s: int) -> int:
        """P(x) ~ exp(-|x| s / t)."""
        while True:
            u = self.below(t)
            if not self.bernoulli_exp_below_one(u, t):
                continue
            while self.bernoulli_exp_below_one(1, 1):
                u += t
            magnitude = u // s
            negative = self.below(2)
            if magnitude or not negative:
                return -magnitude if negative else magnitude


@dataclass(frozen=True)
class LaplaceRejection:
    """Discrete Laplace noise of scale t / s."""

    t: int
    s: int

    @classmethod
    def of(cls, scale: Fraction) -> LaplaceRejection:
        return cls(scale.numerator, scale.denominator)

    def draw(self, stream: Stream) -> int:
        return stream.laplace(self.t, self.s)

    def fill(self, out: np.ndarray, source: Words) -> None:
        """Fill a vector of int64 with independent draws."""
        compiled = max(self.t, self.s) <= LARGEST_COMPILED
        arguments = (self.t, self.s)
        _fill(self, kernels.laplace_by_rejection if compiled else None, arguments, out, source)


@dataclass(frozen=True)
class GaussianRejection:
    """Discrete Gaussian noise: Laplace noise y of scale t, kept with exp(-(a |y| - b)^2 / c).

    With sigma^2 = n / d that is (|y| - n / (d t))^2 d / (2 n), in lowest terms. Any t is right;
    one near sigma keeps most draws.
    """

    t: int
    a: int
    b: int
    c: int

    @classmethod
    def of(cls, sigma: Fraction) -> GaussianRejection:
        n, d = (sigma**2).as_integer_ratio()
        t = ceil(sigma)
        common = gcd(n, d * t)
        return cls(t, d * t // common, n // common, 2 * n * d * t * t // common**2)

    def draw(self, stream: Stream) -> int:
        while True:
            y = stream.laplace(self.t, 1)
            if stream.bernoulli_exp((self.a * abs(y) - self.b) ** 2, self.c):
                return y

    def fill(self, out: np.ndarray, source: Words) -> None:
        """Fill a vector of int64 with independent draws."""
        # |a |y| - b| below 2^31.5 has a square below 2^63.
        largest = (isqrt((1 << 63) - 1) - self.b) // self.a
        compiled = max(self.t, self.c) <= LARGEST_COMPILED and largest > 0
        arguments = (self.t, self.a, self.b, self.c, largest)
        _fill(self, kernels.gaussian_by_rejection if compiled else None, arguments, out, source)


def _fill(
    sampler: LaplaceRejection | GaussianRejection,
    kernel: Callable[..., Any] | None,
    arguments: tuple[int, ...],
    out: np.ndarray,
    source: Words,
) -> None:
    if kernel is None:
        stream = Stream(np.empty(0, np.uint64), source, block=256)
        for i in range(out.size):
            out[i] = wrap(sampler.draw(stream))
        return
    done = 0
    while done < out.size:
        words = source.take(min(CHUNK, 64 * (out.size - done)), np.uint64)
        at = np.zeros(1, np.uint64)
        done = int(kernel(words, at, *arguments, out, done))
        if done < out.size:
            out[done] = wrap(sampler.draw(Stream(words[int(at[0]) :], source)))
            done += 1
