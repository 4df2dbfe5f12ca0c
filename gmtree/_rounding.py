"""Whole numbers from consistent values."""

from __future__ import annotations

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import rounding as kernels
from gmtree.tree import Tree

# Beyond this not every whole number is a float64, and sums might not fit into int64.
LARGEST = 2.0**53


def round_consistent(
    tree: Tree, x: np.ndarray, how: bool | str, rng: np.random.Generator | int | None
) -> np.ndarray:
    """Every node the floor or the ceiling of its value, with exact sums, as int64.

    `how` is True for the largest fractions, "random" for unbiased rounding.
    """
    if how is not True and how != "random":
        check.fail("integer", f"must be True, False or 'random', not {how!r}.")
    generator = np.random.default_rng(rng) if how == "random" else None
    out = np.empty(x.shape, np.int64)
    columns = zip(x.reshape(tree.n, -1).T, out.reshape(tree.n, -1).T, strict=True)
    for column, result in columns:
        result[:] = _round(tree, np.ascontiguousarray(column, np.float64), generator)
    return out


def _round(tree: Tree, x: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    too_large = np.flatnonzero(abs(x) > LARGEST)
    if too_large.size:
        i = too_large[0]
        raise check.IntegerOverflowError(
            f"Argument 'noisy' must be below 2**53 to be rounded exactly; node {i} is {x[i]:g}."
        )
    n_internal = tree.n_internal
    least, room = np.empty(tree.n, np.int64), np.empty(tree.n, np.uint8)
    sum_least, sum_room = np.zeros((2, n_internal), np.int64)
    kernels.ranges(tree._position_parent, tree.order, x, least, room, sum_least, sum_room)
    out = tree.from_positions(least)
    root = tree.root
    fraction = x[root] - out[root]
    up = fraction >= 0.5 if rng is None else rng.random() < fraction
    if room[0] and up:
        least[0] += 1
        out[root] = least[0]
    units = least[:n_internal] - sum_least
    if n_internal:
        start, child = tree._children
        family = (tree.order, tree.rank, start, child, x, room)
        if rng is None:
            largest = int(tree.child_count.max())
            work = np.empty(largest), np.empty(largest, child.dtype)
            kernels.round_largest(*family, out, units, *work)
        else:
            raised = np.zeros(n_internal, np.uint8)
            raised[0] = bool(room[0]) and up
            kernels.round_random(*family, rng.random(n_internal), raised, out, units)
    return out
