"""Coherent forecasts and their variances by dense algebra, from the summing matrix alone."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def projection(S: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The matrix that makes forecasts coherent; s = 0 binds and s = inf ignores a series.

    Leaves b that meet the exact series are ``b0 + free u``; u is fitted to the others.
    """
    exact, used = s == 0, (s > 0) & np.isfinite(s)
    n, m = S.shape
    free, fixed = np.eye(m), np.zeros((m, n))
    if exact.any():
        inverse = np.linalg.pinv(S[exact])
        fixed[:, exact] = inverse
        _, sizes, right = np.linalg.svd(S[exact])
        free = right[np.count_nonzero(sizes > 1e-10) :].T
    rows = np.zeros((n, m))
    rows[used] = S[used] / np.sqrt(s[used])[:, None]
    weight = np.zeros((n, n))
    weight[used, used] = 1 / np.sqrt(s[used])
    fit = free @ np.linalg.pinv(rows @ free)
    return S @ (fixed + fit @ (weight - rows @ fixed))


def coherent(S: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    return projection(S, s) @ np.where(np.isinf(s), 0, y.T).T


def variance(S: np.ndarray, s: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return projection(S, s) ** 2 @ np.where(np.isinf(s), 0, noise.T).T


def nonnegative(S: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    weight = 1 / np.sqrt(s)
    return S @ nnls(S * weight[:, None], y * weight)[0]
