"""Check that a parent array is a tree, and compute its canonical order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import order as kernels
from gmtree._sweep import unsigned

_CYCLE_SHOWN = 8


# If a node has more internal children than this, they need consecutive positions, so that sweeps
# can sum them with error compensation.
_LARGE_FAMILY = 1024


class Positions(NamedTuple):
    """The order in which sweeps visit the nodes of a tree.

    Attributes
    ----------
    order : array or None
        Node at each position. Parents come before children; leaves come last, sorted by the
        position of their parent. None if the numbering itself is canonical.
    position_parent : array
        Position of the parent of each position.
    level_start : array
        First position of each height in canonical order.
    parents_first : bool
        Whether parents have smaller numbers than their children.
    by_height : bool
        Whether the order is the canonical one. Otherwise internal nodes keep the order of their
        numbers, so that a sweep reads values as they stand in memory.
    """

    order: np.ndarray | None
    position_parent: np.ndarray
    level_start: np.ndarray
    parents_first: bool
    by_height: bool


def positions(
    argument: str, parent: np.ndarray, labels: np.ndarray | None, by_height: bool = False
) -> Positions:
    """Check that `parent` describes a tree, and return the order of its nodes for sweeps.

    `parent` is a private copy whose entries are in range. With `by_height` the order is always
    canonical.

    Random access takes most of the time. Most nodes are often leaves, so only the first and the
    last pass visit leaves.
    """
    level_start = _levels_if_canonical(parent)
    if level_start is not None:
        return Positions(None, parent, level_start, True, True)

    n, dtype = parent.size, parent.dtype
    child_count = np.zeros(n, dtype)
    roots, root, other, parents_first = kernels.scan_parents(_sweep.readonly(parent), child_count)
    if roots != 1:
        check.fail(argument, _describe_roots(parent, roots, root, other, labels))
    inner_count = np.zeros(n, dtype)
    n_internal = kernels.count_internal_children(parent, child_count, inner_count)
    height = np.zeros(n, dtype)
    child = np.empty(n_internal, dtype)
    if parents_first:
        kernels.heights_parents_first(parent, child_count, height)
        end = inner_count.copy()
    else:
        pending = inner_count.copy()
        arrays = (unsigned(a) for a in (parent, child_count, pending, child, height))
        reached = kernels.heights_any_order(*arrays)
        if reached < n_internal:
            first = int(np.flatnonzero(pending)[0])
            check.fail(argument, f"must have no cycle; {_describe_cycle(parent, first, labels)}.")
        end = pending
        end[:] = inner_count
    sizes = np.zeros(int(height[root]), dtype)
    kernels.count_heights(child_count, height, sizes)
    level_start = np.zeros(sizes.size + 1, dtype)
    np.cumsum(sizes[::-1], out=level_start[1:])

    order, position_parent = np.empty(n, dtype), np.full(n, -1, dtype)
    result = unsigned(order), unsigned(position_parent)
    above, count, inner, ends = map(unsigned, (parent, child_count, inner_count, end))
    by_height |= not parents_first
    if not by_height:
        siblings_are_together = kernels.order_by_number(above, count, ends, *result)
        by_height = not siblings_are_together and inner_count.max() > _LARGE_FAMILY
        ends[:] = inner
    if by_height:
        kernels.group_internal(above, count, ends, unsigned(child))
        cursor = unsigned(level_start[-2::-1].copy())
        lists = (unsigned(height), inner, ends, unsigned(child), cursor)
        kernels.order_internal(root, *lists, n_internal, *result)
    kernels.order_leaves(above, count, inner, n_internal, ends, *result)
    return Positions(order, position_parent, level_start, parents_first, by_height)


def _levels_if_canonical(parent: np.ndarray) -> np.ndarray | None:
    """First node of each level, and n; None if the numbering is not canonical."""
    n_internal = int(parent.max()) + 1
    height = np.zeros(max(n_internal, 1), parent.dtype)
    level_end = np.empty(n_internal + 1, parent.dtype)
    levels = kernels.canonical_levels(parent, n_internal, height, level_end)
    if levels == 0:
        return None
    level_start = np.zeros(levels + 1, parent.dtype)
    level_start[1:] = level_end[levels - 1 :: -1] if levels > 1 else level_end[:1]
    return level_start


def _name(i: int, labels: np.ndarray | None) -> str:
    return f"{i}" if labels is None else f"{i} ({check.shown(labels[i])})"


def _describe_roots(
    parent: np.ndarray, roots: int, root: int, other: int, labels: np.ndarray | None
) -> str:
    if roots == 0:
        # Every node has a parent here, so each path of parents ends in a cycle.
        i, seen = 0, set()
        while i not in seen:
            seen.add(i)
            i = int(parent[i])
        root_is = "with parent -1" if labels is None else "without a parent"
        return f"must have a root (a node {root_is}); {_describe_cycle(parent, i, labels)}."
    more = f" ({roots} nodes in all)" if roots > 2 else ""
    return (
        f"must have one root; nodes {_name(root, labels)} and {_name(other, labels)} "
        f"have no parent{more}."
    )


def _describe_cycle(parent: np.ndarray, first: int, labels: np.ndarray | None) -> str:
    """Description of the cycle on which the node `first` lies."""
    cycle = np.empty(_CYCLE_SHOWN, dtype=parent.dtype)
    length = kernels.find_cycle(parent, first, cycle)
    if length == 1:
        return f"node {_name(first, labels)} is its own parent"
    shown = " -> ".join(str(i) for i in cycle[:length])
    more = f" -> ... ({length} nodes)" if length > _CYCLE_SHOWN else f" -> {first}"
    return f"node {_name(first, labels)} is its own ancestor: {shown}{more}"
