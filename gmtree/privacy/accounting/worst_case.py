"""The largest privacy loss of any person, over all neighbouring data on a tree.

One record added or removed changes the counts on the path from the root to its leaf by one. A
record that moves to another leaf changes the counts on the two paths, but not those of the nodes
above both leaves. So the worst case is the path, or the pair of paths, with the largest sum of
losses, which one sweep over the tree finds.

If leaves have tables, of which several queries are measured, a record is in one cell of its leaf.
It counts in one cell of each query at each node of its path. A record that moves may also change
its cell, with or without changing its leaf. Then two cells of each query differ at each node above
both places, the old cell and the new one, unless the query has a single cell. The worst move is to
a cell that differs on all axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, gcd, lcm

import numpy as np

from gmtree._kernels import worst_case as kernels
from gmtree.privacy.noise.mechanism import loss_factor
from gmtree.tree import Tree

# Twice the sum of all levels must stay a 64-bit integer.
_LARGEST_SUM = 1 << 61


@dataclass(frozen=True)
class Person:
    """The loss of a person with several records, from the loss of one record.

    k records that change the same count lose k times as much in epsilon and k^2 times as much in
    rho, and no other choice of leaves loses more on a whole path. If a leaf can have at most r of
    them, the loss in rho is smaller at levels where they must be in several nodes: s_i records in
    node i lose sum s_i^2, which is largest with as many records as possible in the largest nodes.
    The sum of the levels' largest losses bounds the loss of any choice.
    """

    measure: str
    records: int
    per_leaf: int | None = None

    @property
    def times(self) -> int:
        """The loss from all records of a person as a multiple of the loss from one record."""
        return loss_factor(self.measure, self.records)

    def times_by_level(self, tree: Tree) -> list[int]:
        """For each level, the loss of a person as a multiple of the loss from one record."""
        if not self._is_spread:
            return [self.times] * tree.height
        leaves = tree.aggregate(np.ones(tree.n_leaves, np.int64))
        found = []
        for depth in range(1, tree.height + 1):
            sizes = np.sort(leaves[tree.depth == depth])[::-1]
            # The records of a person are in at most as many nodes as there are records.
            found.append(self._spread(sizes[: self.records].tolist()))
        return found

    def worst_case(
        self,
        tree: Tree,
        losses: Sequence[Fraction],
        neighbors: str,
        exact: np.ndarray | None,
        cells: Sequence[int] = (1,),
    ) -> Fraction:
        """:func:`worst_case` of all records of a person, from the losses of one record."""
        bound = self.times * worst_case(tree, losses, neighbors, exact, cells)
        if not self._is_spread:
            return bound
        by_level = self.times_by_level(tree)
        spread = sum((by_level[k // len(cells)] * x for k, x in enumerate(losses)), Fraction(0))
        return min(bound, spread)

    @property
    def _is_spread(self) -> bool:
        return self.measure == "rho" and self.per_leaf is not None

    def _spread(self, leaves: list[int]) -> int:
        """The largest sum of squared record counts, for nodes with these numbers of leaves."""
        rest, total = self.records, 0
        for count in leaves:
            here = min(rest, (self.per_leaf or self.records) * count)
            rest, total = rest - here, total + here**2
        return total


def worst_case(
    tree: Tree,
    losses: Sequence[Fraction],
    neighbors: str,
    exact: np.ndarray | None,
    cells: Sequence[int] = (1,),
) -> Fraction:
    """The largest sum of `losses` over the counts that differ between neighbours.

    `losses` has one entry per level, the root's first. For tables it has one entry per level and
    query, level by level, and `cells` are the sizes of the queries' tables. The totals of nodes
    marked in `exact` count as 0. The result is exact if all losses are multiples of one unit and
    add up to at most 2^61 units. Otherwise each loss is rounded up first, and the result exceeds
    the truth by at most 2^-59 times the number of losses times their sum.
    """
    if neighbors == "add_remove" and exact is None:
        # The path to a deepest leaf has a node on every level, so its loss is the sum of all
        # losses.
        return sum(losses, Fraction(0))
    path, pair, unit = _paths(tree, losses, exact, cells, stop_at_exact=False)
    return max(0, path if neighbors == "add_remove" else pair) * unit


def worst_case_given_invariants(
    tree: Tree,
    losses: Sequence[Fraction],
    neighbors: str,
    exact: np.ndarray,
    cells: Sequence[int] = (1,),
) -> Fraction:
    """The largest sum over neighbours that agree on all exact counts.

    `exact` must be closed under sums (see :mod:`gmtree.privacy.accounting.invariants`). A record
    can move without changing an exact count if both leaves are below the same exact nodes, that is,
    if no node below the point where their paths part is exact. If neighbours differ by records
    added or removed, a record can still be added at a leaf that has no exact node above it. Each of
    a person's records can be matched with another record in the same way, so that k records lose at
    most k times (in rho, k^2 times) as much as one record.
    """
    path, pair, unit = _paths(tree, losses, exact, cells, stop_at_exact=True)
    return max(0, pair, path if neighbors == "add_remove" else 0) * unit


def _paths(
    tree: Tree,
    losses: Sequence[Fraction],
    exact: np.ndarray | None,
    cells: Sequence[int],
    *,
    stop_at_exact: bool,
) -> tuple[int, int, Fraction]:
    """Losses of the worst path and of the worst move as multiples of a unit, and the unit."""
    whole, unit = whole_numbers(losses)
    by_query = np.array(whole, np.int64).reshape(tree.height, len(cells))
    # These are the losses at an exact node, or at a node above a move. A query with one cell is the
    # total, which gets no noise there or does not change.
    beside_exact = by_query[:, np.array(cells) > 1].sum(axis=1)
    layout = tree._layout
    best, second = np.full((2, layout.n_inner), -1, np.int64)
    path, pair = kernels.worst_paths(
        layout.parent, layout.order, layout.n_inner, tree.depth - 1, by_query.sum(axis=1),
        beside_exact, np.cumsum(2 * beside_exact), exact, stop_at_exact, best, second,
    )  # fmt: skip
    return int(path), int(pair), unit


def whole_numbers(x: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Integers and a unit with x = integers * unit; if they would be too large, x is rounded up.

    Twice the sum of the integers is below 2^63. A positive entry stays positive.
    """
    total = sum(x, Fraction(0))
    if total == 0:
        return [0] * len(x), Fraction(1)
    # The largest unit of which all fractions are multiples.
    unit = Fraction(gcd(*(f.numerator for f in x)), lcm(*(f.denominator for f in x)))
    if total / unit > _LARGEST_SUM:
        unit = total / (_LARGEST_SUM - len(x))
    return [ceil(f / unit) for f in x], unit
