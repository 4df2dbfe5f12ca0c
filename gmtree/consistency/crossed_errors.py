"""Variances of values that are consistent along several trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmtree._memory import refuse_above_limit
from gmtree.consistency.errors import noise_variance
from gmtree.consistency.factor import Factor


def along_axes(factors: Sequence[Factor], noise: np.ndarray) -> np.ndarray:
    """Variances if measurements have the variances `noise` and weights are products.

    The values are ``(A (x) B) y``, so that their variances are those of the squares of A and B,
    one axis after the other; and a tree's own variances are the square of its projection times
    the noise.
    """
    for axis, factor in enumerate(factors):
        moved = np.moveaxis(noise, axis, 0)
        found = noise_variance(factor, moved.reshape(moved.shape[0], -1))
        # Sums of infinite numbers and zeros are infinite.
        noise = np.moveaxis(found.reshape(moved.shape), 0, axis)
    return np.ascontiguousarray(noise)


def dense(problem: Any, unknowns: int, noise: np.ndarray | None) -> np.ndarray:
    """Diagonal of ``S C S'``, where S sums pairs of leaves and C is their covariance.

    With `noise`, the squared entries of the projection times it.
    """
    size = int(np.prod(problem.shape))
    refuse_above_limit("The matrix of sums", 24 * size * unknowns, "Use variance_at.")
    S = _sums(problem, unknowns)
    exact, s = problem._exact.ravel(), problem._variances().ravel()
    free, fixed = np.eye(unknowns), None
    if exact.any():
        left, sizes, right = np.linalg.svd(S[exact], full_matrices=True)
        rank = np.count_nonzero(sizes > 1e-10 * sizes.max())
        free = right[rank:].T
        # Leaves that meet the exact values, before the others are fitted.
        fixed = (right[:rank].T / sizes[:rank]) @ left[:, :rank].T
    used = ~exact & np.isfinite(s)
    deviation = np.sqrt(s[used])
    rows = (S[used] @ free) / deviation[:, None]
    sizes, vectors = np.linalg.eigh(rows.T @ rows)
    known = sizes > 1e-12 * max(float(sizes.max(initial=0)), 1e-300)
    reached = S @ (free @ vectors)
    if noise is None:
        variance = (reached[:, known] ** 2 / sizes[known]).sum(axis=1)
    else:
        A = (reached[:, known] / sizes[known]) @ (rows @ vectors[:, known]).T / deviation
        flat = noise.ravel()
        variance = A**2 @ flat[used]
        if fixed is not None:
            variance += (S @ fixed - A @ (S[used] @ fixed)) ** 2 @ flat[exact]
    variance[(abs(reached[:, ~known]) > 1e-6).any(axis=1)] = np.inf
    return variance.reshape(problem.shape)


def _sums(problem: Any, unknowns: int) -> np.ndarray:
    """Which pairs of leaves each pair of nodes is the sum of."""
    every = np.ones([tree.n_leaves for tree in problem.trees], bool)
    index = np.argwhere(every if problem._exists is None else problem._exists)
    S = np.empty((int(np.prod(problem.shape)), unknowns))
    for column, place in zip(S.T, index, strict=True):
        leaf = np.zeros(every.shape)
        leaf[tuple(place)] = 1
        x = np.empty(problem.shape)
        problem._from_leaves(leaf, x)
        column[:] = x.ravel()
    return S
