"""Budgets for trees of which only the number of nodes per level is known.

All leaves are on the last level, so that every path has one node of each level. The paths of two
leaves can differ at every level except those that have a single node. Two paths that part right
below the last such level are therefore a worst case for any budget, and the tree of these two paths
stands for the whole tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.accounting.allocation import Allocation, LevelSizes, divide, largest_sum
from gmtree.privacy.accounting.budget import Budget, Terms, sequence
from gmtree.tree import Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack


def allocate_levels(
    sizes: Sequence[int], *, names: Sequence[str | None] | None = None, **terms: Unpack[Terms]
) -> Allocation:
    """:func:`allocate` for a tree of which only the number of nodes of each level is known.

    All leaves must be on the last level. Invariants and `max_per_leaf` are not supported, because
    their effect depends on the tree.

    Parameters
    ----------
    sizes : sequence of int
        Nodes of each level, the root's first, which is 1.
    names : sequence of str or None, optional
        Names of the levels, for the ledger.
    **terms
        The keywords of :func:`allocate`, without `invariants` and `max_per_leaf`.

    Returns
    -------
    Allocation

    Examples
    --------
    >>> from gmtree import privacy
    >>> scales, _, ledger = privacy.allocate_levels([1, 50, 3000], epsilon=1)
    >>> print(*scales)
    3 3 3
    >>> ledger.levels[2].nodes, ledger.max_count == 2**50 // 3 // 3000
    (3000, True)
    """
    return divide_levels(sizes, names, Budget.of(**terms))


def divide_levels(
    sizes: Sequence[int], names: Sequence[str | None] | None, budget: Budget
) -> Allocation:
    """Do the work of :func:`allocate_levels`, for a budget that was checked already."""
    nodes = level_sizes(sizes)
    for name, given in (
        ("invariants", budget.invariants),
        ("max_per_leaf", budget.max_per_leaf is not None),
    ):
        if given:
            check.fail(name, "must not be given: its effect depends on the tree.")
    labels = [None] * len(nodes) if names is None else list(sequence("names", names, "names"))
    if len(labels) != len(nodes):
        check.fail("names", f"must have one name per level ({len(nodes)}), not {len(labels)}.")
    return divide(worst_paths(nodes), budget, whole=LevelSizes(labels, nodes))


def level_sizes(sizes: Any) -> list[int]:
    """Check that a tree with these numbers of nodes by level is possible, and return them."""
    nodes = [check.count("sizes", x, least=1) for x in sequence("sizes", sizes, "whole numbers")]
    if not nodes or nodes[0] != 1:
        check.fail("sizes", f"must begin with 1, for the root, not {nodes[:1]}.")
    for depth, (above, below) in enumerate(pairwise(nodes), start=2):
        if below < above:
            check.fail(
                "sizes",
                f"must not fall, because all leaves are on the last level; level {depth} does.",
            )
    return nodes


def worst_paths(nodes: Sequence[int]) -> Tree:
    """The tree of two paths that part as early as these numbers of nodes per level allow."""
    parent = [-1]
    ends = [0]
    for size in nodes[1:]:
        above = ends if size == 1 else [ends[0], ends[-1]]
        ends = list(range(len(parent), len(parent) + len(above)))
        parent += above
    return Tree.from_parents(np.array(parent))


def largest_sum_of(nodes: Sequence[int]) -> int:
    """The largest total with which all values are exact enough to be rounded."""
    return largest_sum(worst_paths(nodes))
