"""Epsilon of the discrete Gaussian on a path, from the law of its privacy loss.

A count with noise Y of the discrete Gaussian law with sigma that changes by 1 has the privacy loss
1 / (2 sigma^2) + Y / sigma^2, because an integer shift does not change the normalising sum. Several
losses add up, and delta at epsilon is the mean of max(0, 1 - exp(epsilon - loss)).

Noise of a small sigma has few values, so that we compute with its law itself, on a grid of losses.
The law is a pair of probabilities (p, q) for each outcome, with loss log(p / q). We change it three
times, always so that the old law can be computed from the new one, which then reveals at least as
much [1]_:

- An outcome between two points of the grid becomes two outcomes at these points, whose p and q add
  up to those of the old one. Joining them again gives the old law. This keeps the mean of
  exp(-loss), and adds a variance of a quarter of a squared step at most.
- An outcome below the grid is moved to the lowest point, and the rest of its q to an outcome with
  p = 0.
- The p of an outcome above the grid gets an infinite loss, and its q is moved to an outcome with
  p = 0.

Probabilities p are rounded up, by more than all rounding errors: sums and convolutions of numbers
that are not negative have small relative errors, which is why no Fourier transform is used. Delta
grows with each p, so that the result is an upper bound. Noise of a larger sigma is replaced by
Gaussian noise (:mod:`gmtree.privacy.accounting.gaussian`), whose share of delta has a closed form.

References
----------
.. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi. Connect the Dots: Tighter
   Discrete Approximations of Privacy Loss Distributions. PETS 2022.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from gmtree.privacy.accounting.gaussian import loss_of_gaussian, smallest_epsilon

# Gaussian noise replaces noise with a larger sigma, adding less than 1 / (24 sigma^2) to epsilon.
_FEW_VALUES = 8
# Losses are further than this from their mean, in standard deviations, with a probability below
# 1e-32, because a discrete Gaussian has no heavier tails than a normal variable.
_REACH = 12.2
# The splitting of outcomes increases the variance of the loss by at most this fraction.
_EXTRA_VARIANCE = 2e-4
_LARGEST_GRID = 1 << 13
_ROUNDING = 1e-12


@lru_cache(maxsize=256)
def path_epsilon(counts: tuple[tuple[Fraction, int], ...], delta: Fraction) -> float:
    """The epsilon at `delta` of counts that change by 1, given as pairs (sigma, number of counts).

    It is infinite if no bound is known.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from gmtree.privacy.accounting.path_losses import path_epsilon
    >>> round(path_epsilon(((Fraction(2), 3), (Fraction(30), 1)), Fraction("1e-9")), 4)
    5.2894
    """
    few, rho = [], Fraction(0)
    for sigma, number in counts:
        one = loss_of_gaussian(sigma)
        if sigma < _FEW_VALUES:
            few.append((sigma, number))
        elif one is not None:
            rho += number * one
    if not few:
        return smallest_epsilon(np.zeros(1), np.ones(1), 0.0, rho, delta)
    known = _losses(tuple(sorted(few)), rho)
    return smallest_epsilon(known.values, known.weights, known.infinite, rho, delta)


@dataclass(frozen=True)
class _Losses:
    """The law of a loss: the weights of its values, and of an infinite loss."""

    values: np.ndarray
    weights: np.ndarray
    infinite: float


@dataclass(frozen=True)
class _Grid:
    """Losses around their mean, ``step * k`` for k from -half to half."""

    step: float
    half: int

    def of_one(self, sigma: float) -> tuple[np.ndarray, float]:
        """The weights of one count's loss, and the weight of an infinite loss."""
        most = math.ceil(_REACH * sigma) + 1
        y = np.arange(-most, most + 1.0)
        p = np.exp(-0.5 * (y / sigma) ** 2)
        # Each further term is smaller by at least this factor.
        beyond = p[0] / -math.expm1(-most / sigma**2)
        p *= (1 + _ROUNDING) / p.sum()
        place = y / sigma**2 / self.step
        place += 1e-14 * np.abs(place) + 1e-14
        low = np.floor(place)
        upper = np.expm1((low - place) * self.step) / math.expm1(-self.step)
        cells = np.clip(low, -self.half - 1, self.half).astype(np.int64) + self.half + 1
        weights = np.zeros(2 * self.half + 3)
        # Rounding may shift a little weight between the two points, so both are increased by it.
        np.add.at(weights, cells, p * (1 - upper + 1e-11))
        np.add.at(weights, cells + 1, p * (upper + 1e-11))
        return self._whole(weights * (1 + _ROUNDING), 2 * beyond)

    def sum(
        self, a: tuple[np.ndarray, float], b: tuple[np.ndarray, float]
    ) -> tuple[np.ndarray, float]:
        """The weights of the sum of two independent losses."""
        weights = np.convolve(_trimmed(a[0]), _trimmed(b[0]))
        middle = len(weights) // 2
        wide = max(0, self.half + 1 - middle)
        weights = np.pad(weights, wide) * (1 + 4e-16 * len(weights))
        extra = len(weights) // 2 - self.half - 1
        if extra > 0:
            low, high = weights[: extra + 1].sum(), weights[-extra - 1 :].sum()
            weights = weights[extra:-extra]
            weights[0], weights[-1] = low, high
        return self._whole(weights, a[1] + b[1])

    def _whole(self, weights: np.ndarray, infinite: float) -> tuple[np.ndarray, float]:
        """Move weights below the grid to its lowest point, and weights above it to infinity."""
        weights[1] += weights[0]
        return weights[1:-1], (infinite + float(weights[-1])) * (1 + _ROUNDING) + 1e-280


def _trimmed(weights: np.ndarray) -> np.ndarray:
    """Drop zeros at the ends of the weights, equally many at each end."""
    (where,) = np.nonzero(weights)
    cut = int(min(where[0], len(weights) - 1 - where[-1])) if where.size else 0
    return weights[cut : len(weights) - cut]


@lru_cache(maxsize=32)
def _losses(few: tuple[tuple[Fraction, int], ...], rho: Fraction) -> _Losses:
    """The law of the loss of the counts in `few`; further counts have a Gaussian loss `rho`."""
    numbers = Counter[Fraction]()
    for sigma, number in few:
        numbers[sigma] += number
    mean = sum((number / (2 * sigma**2) for sigma, number in numbers.items()), Fraction(0))
    spread = math.sqrt(2 * float(mean))
    # Small noise is nearly always 0, so the spread is tiny. The grid must still reach the next
    # possible values of the loss.
    widest = max(_REACH * spread, *(2 / float(sigma) ** 2 for sigma in numbers))
    if len(numbers) == 1:
        # All losses are multiples of this one.
        (sigma,) = numbers
        step = 1 / float(sigma) ** 2
    else:
        total = 2 * float(mean + rho)
        step = math.sqrt(4 * _EXTRA_VARIANCE * total / sum(numbers.values()))
        if min(numbers) < 2:
            # For small sigma the loss has a few values that are far apart. Its variance says little
            # about them, so the steps must be smaller.
            step = min(step, float(mean) / 1000)
    step = max(step, 2 * widest / _LARGEST_GRID)
    grid = _Grid(step, math.ceil(widest / step))
    found = None
    for sigma, number in numbers.items():
        part = _power(grid, grid.of_one(float(sigma)), number)
        found = part if found is None else grid.sum(found, part)
    assert found is not None
    values = grid.step * np.arange(-grid.half, grid.half + 1.0)
    values += 1e-14 * np.abs(values) + float(mean) * (1 + 1e-14)
    used = found[0] > 0
    return _Losses(values[used], found[0][used], found[1])


def _power(grid: _Grid, one: tuple[np.ndarray, float], number: int) -> tuple[np.ndarray, float]:
    """The weights of the sum of `number` independent losses of one law."""
    if number == 1:
        return one
    half = _power(grid, one, number // 2)
    even = grid.sum(half, half)
    return grid.sum(even, one) if number % 2 else even
