"""Noisy counts for a tree whose sorted leaves are held in several stretches.

Most nodes are contained in one stretch and get their noise in :func:`measure_stretch`. At each
level, the first and the last node of a stretch may continue in other stretches. Their sums over
this stretch are returned without noise and are as confidential as the counts. Only
:func:`measure_joint`, which gets the sums of all stretches, adds noise to their totals, once.

As in :mod:`gmtree.privacy.publishing.measuring`, no message depends on a private count.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.publishing.measuring import add_noise_of, check_public_total, cut_off


def measure_stretch(
    counts: Any,
    begin: Sequence[np.ndarray],
    scales: Sequence[Fraction | None],
    mechanism: str,
    max_count: int | None,
    largest_sum: int,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Noisy counts of the nodes of a stretch, and sums of nodes that may continue elsewhere.

    Parameters
    ----------
    counts : array of int
        True counts of the leaves.
    begin : sequence of arrays
        For each level above the leaves, the first child of each node, counted within its level.
    scales : sequence of Fraction or None
        Scale of the noise for each level; None if the level is not measured.
    mechanism : str
    max_count : int or None
        Bound at which counts are cut off; None if the total is public.
    largest_sum : int
        Bound of a public total.

    Returns
    -------
    noisy : list of int64 arrays
        Noisy counts by level; 0 at levels that are not measured, and at the first and the last node
        of each level above the leaves.
    partial : int64 array of shape (levels above the leaves, 2)
        True sums of the first and the last node of each level, which are confidential. If a level
        has one node, the second sum is 0.
    """
    by_leaf = _whole_numbers(counts)
    if max_count is None:
        check_public_total(by_leaf, largest_sum)
    sums = cut_off(by_leaf, max_count or largest_sum)
    partial = np.zeros((len(begin), 2), np.int64)
    noisy = [_with_noise(sums.copy(), scales[-1], mechanism)]
    for level in reversed(range(len(begin))):
        sums = np.add.reduceat(sums, begin[level])
        partial[level, 0] = sums[0]
        partial[level, 1] = sums[-1] if sums.size > 1 else 0
        own = np.zeros(sums.size, np.int64)
        if sums.size > 2:
            own[1:-1] = _with_noise(sums[1:-1].copy(), scales[level], mechanism)
        noisy.append(own)
    return noisy[::-1], partial


def measure_joint(
    sums: np.ndarray, level: np.ndarray, scales: Sequence[Fraction | None], mechanism: str
) -> np.ndarray:
    """Add noise to the complete true sums of nodes that are in several stretches."""
    out = sums.astype(np.int64)
    for k, scale in enumerate(scales):
        here = level == k
        out[here] = _with_noise(out[here], scale, mechanism)
    return out


def _with_noise(out: np.ndarray, scale: Fraction | None, mechanism: str) -> np.ndarray:
    """Add noise in place; fill with 0 if the level is not measured."""
    if scale is None:
        out[:] = 0
    else:
        add_noise_of(scale, mechanism, out)
    return out


def _whole_numbers(counts: Any) -> np.ndarray:
    a = np.asarray(counts)
    if a.dtype.kind not in "iu" or a.ndim != 1:
        check.fail_type("counts", "must hold whole numbers (integers) only, none missing.")
    return a
