"""Budgets for trees of which only the number of nodes per level is known.

All leaves are on the last level. Then every path meets each level once, and two leaves differ at
most at all levels but those of a single node: two paths that part below the last such level are a
worst case for any budget. So the tree of these two paths stands for the whole one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.allocation import Allocation, allocate, largest_sum
from gmtree.privacy.budget import sequence
from gmtree.tree import Tree


def allocate_levels(
    sizes: Sequence[int],
    *,
    names: Sequence[str | None] | None = None,
    epsilon: Any = None,
    rho: Any = None,
    **terms: Any,
) -> Allocation:
    """:func:`allocate` for a tree of which only the number of nodes of each level is known.

    All leaves must be on the last level. There are no invariants and no `max_per_leaf`, since
    what follows from them depends on the tree.

    Parameters
    ----------
    sizes : sequence of int
        Nodes of each level, the root's first, which is 1.
    names : sequence of str or None, optional
        Names of the levels, for the ledger.
    epsilon, rho, **terms
        What :func:`allocate` takes, without `invariants` and `max_per_leaf`.

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
    nodes = level_sizes(sizes)
    for name in ("invariants", "max_per_leaf"):
        if terms.get(name) is not None:
            check.fail(name, "must not be given: what follows from it depends on the tree.")
    labels = [None] * len(nodes) if names is None else list(sequence("names", names, "names"))
    if len(labels) != len(nodes):
        check.fail("names", f"must have one name per level ({len(nodes)}), not {len(labels)}.")
    try:
        scales, exact, ledger = allocate(worst_paths(nodes), epsilon=epsilon, rho=rho, **terms)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            check.fail_type("terms", f"must be arguments of allocate; {error}.")
        raise
    lines = [
        replace(line, name=name, nodes=size if line.nodes else 0)
        for line, name, size in zip(ledger.levels, labels, nodes, strict=True)
    ]
    most = None if ledger.max_count is None else max(1, largest_sum_of(nodes) // nodes[-1])
    given = terms.get("max_count")
    if most is not None and given is not None and given > most:
        check.fail(
            "max_count",
            f"must be at most {most} on this tree (2^50 / height / leaves), not {given}.",
        )
    return Allocation(
        scales, exact, replace(ledger, levels=tuple(lines), max_count=most and (given or most))
    )


def level_sizes(sizes: Any) -> list[int]:
    """Numbers of nodes by level, which a tree can have."""
    nodes = [check.count("sizes", x, least=1) for x in sequence("sizes", sizes, "whole numbers")]
    if not nodes or nodes[0] != 1:
        check.fail("sizes", f"must begin with the root, one node, not {nodes[:1]}.")
    for depth, (above, below) in enumerate(pairwise(nodes), start=2):
        if below < above:
            check.fail(
                "sizes", f"must not fall: all leaves are on the last level; level {depth} does."
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
