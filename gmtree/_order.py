"""Whether a parent array is a tree, and its canonical order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import order as kernels

_CYCLE_SHOWN = 8


class Canonical(NamedTuple):
    """Canonical order of a tree; `order` is None where it is the order of numbers."""

    order: np.ndarray | None
    position_parent: np.ndarray
    level_start: np.ndarray
    parents_first: bool


def canonical(argument: str, parent: np.ndarray, labels: np.ndarray | None) -> Canonical:
    """Check that `parent` (our own copy, entries in range) is a tree; find its order."""

    def name(i: int) -> str:
        return f"{i}" if labels is None else f"{i} ({labels[i]!r})"

    n, dtype = parent.size, parent.dtype
    start = np.zeros(n + 1, dtype)
    roots, root, other, parents_first = kernels.scan_parents(parent, start)
    if roots == 0:
        selves = np.flatnonzero(parent == np.arange(n))
        hint = f"; node {name(selves[0])} is its own parent" if selves.size else ""
        check.fail(argument, f"must have a root, a node with parent -1{hint}.")
    if roots > 1:
        check.fail(
            argument,
            f"must have one root; nodes {name(root)} and {name(other)} have no parent"
            f"{f' ({roots} nodes in all)' if roots > 2 else ''}.",
        )
    height = np.ones(n, dtype)
    child = None
    if parents_first:
        is_canonical = kernels.heights_parents_first(parent, height)
    else:
        is_canonical = False
        pending, child = start[:n].copy(), np.empty(n, dtype)
        if kernels.heights_any_order(parent, pending, child, height) < n:
            check.fail(argument, _describe_cycle(parent, pending, name))
        del pending
    sizes = np.zeros(int(height[root]), dtype)
    kernels.count_heights(height, sizes)
    level_start = np.zeros(sizes.size + 1, dtype)
    np.cumsum(sizes[::-1], out=level_start[1:])
    if is_canonical:
        order, position_parent = None, parent
    else:
        child = np.empty(n, dtype) if child is None else child
        kernels.group_children(parent, start, child)
        order, position_parent = np.empty(n, dtype), np.full(n, -1, dtype)
        cursor = level_start[-2::-1].copy()
        # The root opens its bucket before the walk begins.
        cursor[-1] = 1
        kernels.canonical_order(root, height, start, child, cursor, order, position_parent)
    return Canonical(order, position_parent, level_start, parents_first)


def _describe_cycle(parent: np.ndarray, pending: np.ndarray, name: Callable[[int], str]) -> str:
    """The cycle through the first node that lies on one."""
    first = int(np.flatnonzero(pending)[0])
    cycle = np.empty(_CYCLE_SHOWN, dtype=parent.dtype)
    length = kernels.find_cycle(parent, first, cycle)
    if length == 1:
        return f"must have no cycle; node {name(first)} is its own parent."
    shown = " -> ".join(str(i) for i in cycle[:length])
    more = f" -> ... ({length} nodes)" if length > _CYCLE_SHOWN else f" -> {first}"
    return f"must have no cycle; node {name(first)} is its own ancestor: {shown}{more}."
