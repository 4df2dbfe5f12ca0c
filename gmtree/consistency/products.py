"""Variances of pairs as products of one vector for each tree, exactly or nearly."""

from __future__ import annotations

from functools import reduce

import numpy as np

# Variances count as products where that is true to rounding.
PRODUCT_TOLERANCE = 1e-13


def as_product(s: np.ndarray) -> list[np.ndarray] | None:
    """One vector for each axis whose product is `s`; None where there is none."""
    if not np.all((s > 0) & (s < np.inf)):
        return None
    origin = s[(0,) * s.ndim]
    factors = []
    for k in range(s.ndim):
        line = s[tuple(slice(None) if a == k else 0 for a in range(s.ndim))]
        factors.append(line / origin if k else line.copy())
    product = reduce(np.multiply.outer, factors)
    return factors if np.all(abs(product - s) <= PRODUCT_TOLERANCE * s) else None


def fit_products(s: np.ndarray) -> list[np.ndarray]:
    """Positive vectors whose product is close to `s`, by means of logarithms along each axis.

    Values known exactly, or not measured at all, do not count.
    """
    usable = np.isfinite(s) & (s > 0)
    logs = np.log(s, where=usable, out=np.zeros(s.shape))
    mean = logs.sum() / max(1, usable.sum())
    fit = []
    for k in range(s.ndim):
        others = tuple(a for a in range(s.ndim) if a != k)
        count, total = usable.sum(axis=others), logs.sum(axis=others)
        log = np.where(count > 0, total / np.maximum(count, 1), mean)
        fit.append(np.exp(log - (mean if k else 0)))
    return fit
