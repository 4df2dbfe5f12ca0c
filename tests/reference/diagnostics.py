"""Estimates of nodes from all other measurements: remove one measurement and solve again."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from reference.consistency import HUGE, estimates, fractions, leaf_sums


def leave_one_out(
    parent: Sequence[int], v: np.ndarray, variance: np.ndarray, i: int
) -> tuple[Fraction, Fraction]:
    """The estimate of node i without its measurement, and its variance; huge if undetermined."""
    n, s = len(parent), fractions(variance)
    s[i] = HUGE
    units = [[Fraction(int(k == j)) for j in range(n)] for k in range(n)]
    for k in range(n):
        units[k].append(
            Fraction(float(v[k])) if np.isfinite(variance[k]) and k != i else Fraction(0)
        )
    row = estimates(parent, s, units)[i]
    return row[n], sum((w * w * x for w, x in zip(row[:n], s, strict=True)), Fraction(0))


def dense_leave_one_out(
    parent: Sequence[int], v: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`leave_one_out` for all nodes, by dense least squares in the leaves.

    Variances must be positive. Undetermined estimates are NaN, and their variances infinite.
    """
    A, n = np.array(leaf_sums(parent), float), len(parent)
    estimate, error = np.full(n, np.nan), np.full(n, np.inf)
    for i in range(n):
        rows = np.isfinite(variance) & (np.arange(n) != i)
        weight = 1 / np.sqrt(variance[rows])
        design = A[rows] * weight[:, None]
        solution = np.linalg.lstsq(design, np.eye(rows.sum()), rcond=1e-11)[0]
        if np.abs(A[i] @ solution @ design - A[i]).max() < 1e-6:
            estimate[i] = A[i] @ solution @ (v[rows] * weight)
            error[i] = np.sum((A[i] @ solution) ** 2)
    return estimate, error
