"""Exact discrete noise, from cryptographically secure random words."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._memory import refuse_above_limit
from gmtree.privacy.rational import positive
from gmtree.privacy.sampling import inversion
from gmtree.privacy.sampling.words import SYSTEM, Words

# Noise of this scale leaves the range of 64-bit integers with a probability below exp(-128).
LARGEST_SCALE = 1 << 56


def discrete_laplace(scale: Any, size: Any) -> np.ndarray:
    r"""Independent integers with P(x) proportional to ``exp(-abs(x) / scale)``.

    The distribution is exact: only integers are compared, and a draw that its first random bits
    leave open reads more of them. Noise of scale b added to an integer that one person changes
    by at most c has a privacy loss of c / b.

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
        Should a draw not fit into 64 bits, it is reduced modulo 2^64. Added to counts with the
        usual wrapping, that is a function of the exact noisy counts and costs no privacy.

    Notes
    -----
    Random words come from OpenSSL's generator, which the operating system seeds, or from
    :func:`os.urandom` where Python lacks the ``ssl`` module. There is no seed: see
    :mod:`gmtree.privacy.testing` for experiments that must be repeated, which give no privacy.

    How long a draw takes depends a little on its value, and its random words stay in memory until
    that memory is used for something else. Against somebody who can measure time or read memory
    there is no guarantee.

    Examples
    --------
    >>> from gmtree import privacy
    >>> noise = privacy.discrete_laplace("1/3", (2, 3))
    >>> noise.shape, noise.dtype
    ((2, 3), dtype('int64'))
    """
    return draw("laplace", scale, size, SYSTEM)


def discrete_gaussian(sigma: Any, size: Any) -> np.ndarray:
    r"""Independent integers with P(x) proportional to ``exp(-x**2 / (2 * sigma**2))``.

    Exact in the same sense as :func:`discrete_laplace`, whose notes apply. Noise of parameter
    sigma added to an integer that one person changes by at most c has a zero-concentrated
    privacy loss (zCDP) of c^2 / (2 sigma^2).

    Parameters
    ----------
    sigma : int, Fraction, str or float
        Above 0 and at most 2^56. The variance is close to sigma^2, and never above it.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    array of int64

    Examples
    --------
    >>> from gmtree import privacy
    >>> privacy.discrete_gaussian(12.5, 4).dtype
    dtype('int64')
    """
    return draw("gaussian", sigma, size, SYSTEM)


_SAMPLERS: dict[str, Callable[[Fraction], Any]] = {
    "laplace": inversion.laplace,
    "gaussian": inversion.gaussian,
}


def draw(law: str, scale: Any, size: Any, source: Words) -> np.ndarray:
    """Independent draws of the Laplace or Gaussian law, with random words from `source`."""
    parameter = noise_scale("scale" if law == "laplace" else "sigma", scale)
    shape = shape_of(size)
    out = np.empty(shape, np.int64)
    _SAMPLERS[law](parameter).fill(out.reshape(-1), source)
    return out


def noise_scale(argument: str, scale: Any) -> Fraction:
    """A scale that noise can be drawn for."""
    value = positive(argument, scale)
    if value > LARGEST_SCALE:
        check.fail(
            argument,
            f"must be at most 2^56, or the noise would not fit into 64-bit integers, not {scale}.",
        )
    return value


def shape_of(size: Any) -> tuple[int, ...]:
    """The shape that a number or a tuple of numbers stands for."""
    try:
        lengths = tuple(size)
    except TypeError:
        lengths = (size,)
    try:
        shape = tuple(operator.index(k) for k in lengths)
    except TypeError:
        check.fail_type("size", f"must be a whole number or a tuple of them, not {size!r}.")
    if any(k < 0 for k in shape):
        check.fail("size", f"must not be negative, not {size!r}.")
    # Beside an empty axis numpy still refuses others that are too long together.
    if math.prod(max(k, 1) for k in shape) > 2**48:
        check.fail("size", f"must be at most 2**48 numbers, not {size!r}.")
    refuse_above_limit("Noise of this 'size'", 8 * math.prod(shape), "Draw it in parts.")
    return shape
