"""Whole numbers from consistent values."""

from __future__ import annotations

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import rounding as kernels
from gmtree.tree import Tree
from gmtree.tree.families import Families

# Beyond this not every whole number is a float64, and sums might not fit into int64.
LARGEST = 2.0**53


def round_consistent(
    tree: Tree,
    families: Families,
    x: np.ndarray,
    how: bool | str,
    rng: np.random.Generator | int | None,
) -> np.ndarray:
    """Every node the floor or the ceiling of its value, with exact sums, as int64.

    `how` is True for the largest fractions, "random" for unbiased rounding.
    """
    _refuse_large(x)
    generator = check.generator("rng", rng) if how == "random" else None
    if x.ndim == 1:
        return _round(tree, families, x.astype(np.float64, copy=False), generator)
    columns = (np.ascontiguousarray(column, np.float64) for column in x.T)
    rounded = [_round(tree, families, column, generator) for column in columns]
    return np.stack(rounded, axis=1) if rounded else np.empty(x.shape, np.int64)


def check_how(how: bool | str) -> None:
    """Refuse anything but True, False and "random"."""
    if not isinstance(how, (bool, np.bool_)) and not (isinstance(how, str) and how == "random"):
        check.fail("integer", f"must be True, False or 'random', not {how!r}.")


def _refuse_large(x: np.ndarray) -> None:
    if x.size and max(float(x.max()), -float(x.min())) > LARGEST:
        i = int(np.flatnonzero((abs(x) > LARGEST).reshape(x.shape[0], -1).any(axis=1))[0])
        raise check.IntegerOverflowError(
            f"Argument 'noisy' must be below 2**53 to be rounded exactly; node {i} is not."
        )


def _round(
    tree: Tree, families: Families, x: np.ndarray, rng: np.random.Generator | None
) -> np.ndarray:
    out, room = np.empty(tree.n, np.int64), np.zeros(tree.n, np.uint8)
    family = (tree._layout.order, *families)
    bad = kernels.ranges(*family, x, out, room)
    root = tree.root
    if bad >= 0:
        i = int(tree.order[bad])
        raise check.IntegerOverflowError(
            "Argument 'noisy' must be consistent to within one after projection to be rounded; "
            f"node {i} is {x[i]:.17g}, which whole numbers near its children's cannot add up to."
        )
    if tree.n == 1:
        out[0], room[0] = np.floor(x[0]), x[0] != np.floor(x[0])
    fraction = x[root] - out[root]
    # To the nearest number. Fractions count in steps of 2**-30 as they do among siblings, so half
    # a step below one half goes up as well.
    goes_up = fraction >= 0.5 - 2.0**-31 if rng is None else fraction > rng.random()
    out[root] += bool(room[0]) and goes_up
    if rng is None:
        largest = families.largest
        work = np.zeros(largest, np.int64), np.empty(largest), np.empty(largest, np.int64)
        kernels.round_largest(*family, x, out, room, *work)
    else:
        kernels.round_random(*family, x, out, room, rng.random(tree.n_internal))
    return out
