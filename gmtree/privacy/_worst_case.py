"""The largest loss any one person can suffer, over all neighbouring data on a tree."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, lcm

import numpy as np

from gmtree import _sweep
from gmtree._kernels import paths
from gmtree.tree import Tree

# Twice the sum over a path must stay a 64-bit integer.
_LARGEST_SUM = 1 << 61


def worst_case(
    tree: Tree, losses: Sequence[Fraction], neighbors: str, exempt: np.ndarray | None
) -> Fraction:
    """The largest sum of `losses` over the nodes whose counts differ between neighbours.

    `losses` has one entry per level, the root's first; nodes marked in `exempt` count as 0.
    One record added or removed changes the path from the root to its leaf; one that moves
    changes the two paths but not what they share.

    Exact where the losses have a common denominator below 2^61 or so, and always without
    exempt nodes when records are added or removed; else above the truth by 2^-60 of it.
    """
    if neighbors == "add_remove" and exempt is None:
        # The path to a deepest leaf meets every level.
        return sum(losses, Fraction(0))
    whole, unit = whole_numbers(losses)
    reach = np.array(whole, np.int64)[tree.depth - 1]
    if exempt is not None:
        reach[exempt] = 0
    _sweep.propagate(tree._natural_layout, reach, reach)
    if neighbors == "add_remove":
        return int(reach.max()) * unit
    layout = tree._layout
    best, second = np.full((2, layout.n_inner), -1, np.int64)
    farthest = paths.farthest_leaves(
        layout.parent, layout.order, layout.n_inner, reach, best, second
    )
    return max(0, int(farthest)) * unit


def whole_numbers(x: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Integers and a unit with x = integers * unit; just above x if they would be too large.

    Twice the sum of the integers is below 2^63. A positive entry stays positive.
    """
    total = sum(x, Fraction(0))
    unit = Fraction(1, lcm(*(f.denominator for f in x)))
    if total / unit > _LARGEST_SUM:
        unit = total / (_LARGEST_SUM - len(x))
    return [ceil(f / unit) for f in x], unit
