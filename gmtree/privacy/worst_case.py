"""The largest loss any one person can suffer, over all neighbouring data on a tree.

One record added or removed changes the counts on the path from the root to its leaf by one. A
record that moves to another leaf changes the counts on the two paths, but not those of the nodes
above both leaves. So the worst case is the path, or the pair of paths, with the largest sum of
losses, which one sweep over the tree finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, gcd, lcm

import numpy as np

from gmtree._kernels import worst_case as kernels
from gmtree.tree import Tree

# Twice the sum of all levels must stay a 64-bit integer.
_LARGEST_SUM = 1 << 61


def worst_case(
    tree: Tree, losses: Sequence[Fraction], neighbors: str, exact: np.ndarray | None
) -> Fraction:
    """The largest sum of `losses` over the nodes whose counts differ between neighbours.

    `losses` has one entry per level, the root's first; nodes marked in `exact` count as 0. The
    result is exact where all losses are multiples of one unit and add up to at most 2^61 units.
    Otherwise each is rounded up first, and the result is above the truth by at most 2^-59 times
    the height times the sum of all losses.
    """
    if neighbors == "add_remove" and exact is None:
        # The path to a deepest leaf meets every level.
        return sum(losses, Fraction(0))
    path, pair, unit = _paths(tree, losses, exact, stop_at_exact=False)
    return max(0, path if neighbors == "add_remove" else pair) * unit


def worst_case_given_invariants(
    tree: Tree, losses: Sequence[Fraction], neighbors: str, exact: np.ndarray
) -> Fraction:
    """The same over the neighbours that remain where all exact counts are given.

    `exact` must be closed under sums (see :mod:`gmtree.privacy.invariants`). A record can move
    without changing an exact count if both leaves are below the same exact nodes, that is, if
    no node below the point where their paths part is exact. Where neighbours differ by records
    added or removed, one can still be added at a leaf that has no exact node above it. Of several
    records of one person, each can be matched with another one in the same way, so that k of them
    lose at most k times (in rho, k^2 times) what one does.
    """
    path, pair, unit = _paths(tree, losses, exact, stop_at_exact=True)
    return max(0, pair, path if neighbors == "add_remove" else 0) * unit


def _paths(
    tree: Tree, losses: Sequence[Fraction], exact: np.ndarray | None, *, stop_at_exact: bool
) -> tuple[int, int, Fraction]:
    """The worst path and the worst pair of paths in whole units, and the unit."""
    whole, unit = whole_numbers(losses)
    layout = tree._layout
    best, second = np.full((2, layout.n_inner), -1, np.int64)
    path, pair = kernels.worst_paths(
        layout.parent, layout.order, layout.n_inner, tree.depth - 1, np.array(whole, np.int64),
        exact, stop_at_exact, best, second,
    )  # fmt: skip
    return int(path), int(pair), unit


def whole_numbers(x: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Integers and a unit with x = integers * unit; just above x if they would be too large.

    Twice the sum of the integers is below 2^63. A positive entry stays positive.
    """
    total = sum(x, Fraction(0))
    if total == 0:
        return [0] * len(x), Fraction(1)
    # The largest unit of which all are multiples.
    unit = Fraction(gcd(*(f.numerator for f in x)), lcm(*(f.denominator for f in x)))
    if total / unit > _LARGEST_SUM:
        unit = total / (_LARGEST_SUM - len(x))
    return [ceil(f / unit) for f in x], unit
