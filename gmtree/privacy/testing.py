"""Noise for experiments. NOT PRIVATE: anyone who knows the seed can subtract it.

Nothing in the private path of gmtree uses this module. It is for simulations that must be
repeatable, for tests, and for the continuous Laplace noise of published experiments, which has
no privacy guarantee in floating point even without a seed (Mironov 2012).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.noise.gaussian import GAUSSIAN
from gmtree.privacy.noise.laplace import LAPLACE
from gmtree.privacy.noise.mechanism import shape_of


class SeededWords:
    """Reproducible random words, the same on every machine. Not private."""

    def __init__(self, rng: Any):
        self._rng = check.generator("rng", rng)

    def take(self, count: int, dtype: Any) -> np.ndarray:
        """The next `count` words of an unsigned type."""
        dtype = np.dtype(dtype)
        words = np.frombuffer(self._rng.bytes(count * dtype.itemsize), dtype.newbyteorder("<"))
        return words.astype(dtype, copy=False)


def seeded_discrete_laplace(scale: Any, size: Any, rng: Any) -> np.ndarray:
    """:func:`gmtree.privacy.discrete_laplace` with a seed. Not private.

    Parameters
    ----------
    scale, size
        As in :func:`gmtree.privacy.discrete_laplace`.
    rng : int or numpy Generator
        Seed or generator, as for :func:`numpy.random.default_rng`.

    Examples
    --------
    >>> from gmtree.privacy import testing
    >>> testing.seeded_discrete_laplace(8, 5, rng=1)
    array([ -5,  -6,  11, -24,   0])
    """
    return LAPLACE.draw(scale, size, SeededWords(rng))


def seeded_discrete_gaussian(sigma: Any, size: Any, rng: Any) -> np.ndarray:
    """:func:`gmtree.privacy.discrete_gaussian` with a seed. Not private.

    Parameters
    ----------
    sigma, size
        As in :func:`gmtree.privacy.discrete_gaussian`.
    rng : int or numpy Generator
        Seed or generator, as for :func:`numpy.random.default_rng`.

    Examples
    --------
    >>> from gmtree.privacy import testing
    >>> testing.seeded_discrete_gaussian(8, 5, rng=1)
    array([ -5,  -6,   9, -16,   0])
    """
    return GAUSSIAN.draw(sigma, size, SeededWords(rng))


def continuous_laplace(scale: Any, size: Any, rng: Any) -> np.ndarray:
    """Laplace noise in floating point, as in published experiments. Not private.

    Parameters
    ----------
    scale : float or array
        Scale of the noise, one for all or one for each entry of the result.
    size : int or tuple of int
        Shape of the result.
    rng : int or numpy Generator
        Seed or generator, as for :func:`numpy.random.default_rng`.

    Examples
    --------
    >>> from gmtree.privacy import testing
    >>> testing.continuous_laplace(8.0, 3, rng=1).round(2)
    array([ 0.19, 18.5 , -9.95])
    """
    shape = shape_of(size)
    scales = check.reals("scale", scale)
    if not np.all(scales >= 0):
        check.fail("scale", "must not be negative or NaN.")
    try:
        np.broadcast_to(scales, shape)
    except ValueError:
        check.fail("scale", f"must fit the shape {shape} of the result, not {scales.shape}.")
    return check.generator("rng", rng).laplace(0.0, scales, shape)
