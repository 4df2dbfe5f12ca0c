"""The base class of mechanisms: laws of exact discrete noise and all properties of these laws."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._memory import refuse_above_limit
from gmtree.privacy.accounting.rational import positive
from gmtree.privacy.noise import words
from gmtree.privacy.noise.inversion import Inversion

# Noise of this scale exceeds the range of 64-bit integers with a probability below exp(-128).
LARGEST_SCALE = 1 << 56
# A variance of 0 would mean the absence of noise, so variances are at least this. Noise with a
# smaller variance is 0 except with a probability below 2^-300.
SMALLEST_VARIANCE = 1e-100


class Mechanism(ABC):
    """A law of noise: its sampler, moments, privacy loss, and names in a ledger.

    :mod:`gmtree.privacy.noise.registry` lists the mechanisms. All of them draw independent
    integers that are symmetric about 0, with one parameter.

    Attributes
    ----------
    name : str
        Value of the argument `mechanism`.
    title : str
        Name in a ledger, before the word "noise".
    parameter : str
        Name of the parameter in a ledger.
    measures : tuple of str
        Measures in which the loss is finite. The mechanism is the default for budgets in the first
        of them.
    is_convex : bool
        Whether the expected error is a convex function of the losses of the levels. This holds if
        the variance is inversely proportional to the loss.
    has_loss_law : bool
        Whether :mod:`gmtree.privacy.accounting.path_losses` has the law of the privacy loss, which
        implies a smaller epsilon than rho alone.
    """

    name: str
    title: str
    parameter: str
    measures: tuple[str, ...]
    is_convex: bool
    has_loss_law: bool

    @abstractmethod
    def sampler(self, scale: Fraction) -> Inversion:
        """The sampler of noise with this parameter."""

    @abstractmethod
    def loss(self, measure: str, scale: Fraction) -> Fraction:
        """The loss of one count that a person changes by 1."""

    @abstractmethod
    def gaussian_loss(self, scale: Fraction) -> Fraction | None:
        """A loss in rho of Gaussian noise that reveals at least as much; None if none is known."""

    @abstractmethod
    def scale(self, measure: str, loss: Fraction) -> Fraction:
        """The smallest parameter with few digits that costs at most `loss`."""

    @abstractmethod
    def moments(self, scale: Fraction) -> tuple[float, float]:
        """Variance and fourth cumulant."""

    @abstractmethod
    def variances(
        self, measure: str, loss: np.ndarray, *, limit: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return variances as a function of losses, and d log(variance) / d log(loss).

        If `limit` is true, the function is replaced by its limit for small losses.
        """

    def draw(self, scale: Any, size: Any, source: words.Words | None = None) -> np.ndarray:
        """Independent draws, with secure random words unless a test passes a seeded source."""
        parameter = noise_scale(self.parameter, scale)
        out = np.empty(shape_of(size), np.int64)
        self.sampler(parameter).fill(out.reshape(-1), source or words.SYSTEM)
        return out


def loss_factor(measure: str, change: int) -> int:
    """The factor by which the loss grows if a person changes each count by `change` instead of 1.

    It is the factor of group privacy, which is the same for every mechanism.
    """
    return change if measure == "epsilon" else change**2


def noise_scale(argument: str, scale: Any) -> Fraction:
    """Check a scale for which noise is to be drawn."""
    value = positive(argument, scale)
    if value > LARGEST_SCALE:
        check.fail(
            argument,
            f"must be at most 2^56, or the noise would not fit into 64-bit integers, not {scale}.",
        )
    return value


def shape_of(size: Any) -> tuple[int, ...]:
    """The shape that `size` denotes, as a tuple."""
    try:
        shape = tuple(operator.index(k) for k in np.atleast_1d(size))
    except (TypeError, ValueError):
        check.fail_type("size", f"must be a whole number or a tuple of them, not {size!r}.")
    if any(k < 0 for k in shape):
        check.fail("size", f"must not be negative, not {size!r}.")
    # Even if one axis is empty, numpy refuses other axes whose product is too large.
    if math.prod(max(k, 1) for k in shape) > 2**48:
        check.fail("size", f"must be at most 2**48 numbers, not {size!r}.")
    refuse_above_limit("Noise of this 'size'", 8 * math.prod(shape), "Draw it in parts.")
    return shape
