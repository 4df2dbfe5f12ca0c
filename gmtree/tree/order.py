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
# To group children by parent, we first put them into at least 2**8 buckets by the leading bits of
# the parent's number.
_BUCKET_BITS = 8


class Lists(NamedTuple):
    """Children by parent: those of node i are ``child[end[i - 1]:end[i]]``."""

    end: np.ndarray
    child: np.ndarray


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

    @classmethod
    def canonical(cls, parent: np.ndarray, level_start: np.ndarray) -> Positions:
        """The positions of a canonical numbering, which are the node numbers."""
        return cls(None, parent, level_start, True, True)


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
        return Positions.canonical(parent, level_start)

    n, dtype = parent.size, parent.dtype
    is_internal = np.zeros(n, np.uint8)
    roots, root, other, parents_first = kernels.scan_parents(_sweep.readonly(parent), is_internal)
    if roots != 1:
        check.fail(argument, _describe_roots(parent, roots, root, other, labels))
    above, n_internal = unsigned(parent), int(np.count_nonzero(is_internal))
    height = np.zeros(n, dtype)
    if parents_first:
        kernels.heights_parents_first(parent, is_internal, height)
    else:
        leaves, inner = _grouped_by_parent(above, is_internal)
        in_cycle = _heights(above, is_internal, n_internal, inner, unsigned(height))
        if in_cycle is not None:
            rule = f"must have no cycle; {_describe_cycle(parent, in_cycle, labels)}."
            check.fail(argument, rule)
    sizes = np.zeros(int(height[root]) + 1, dtype)
    kernels.count_heights(height, sizes)
    sizes[1] = sizes[0]  # leaves have height 1
    level_start = np.zeros(sizes.size, dtype)
    np.cumsum(sizes[:0:-1], out=level_start[1:])

    order, position_parent = np.empty(n, dtype), np.full(n, -1, dtype)
    result = unsigned(order), unsigned(position_parent)
    if parents_first:
        scratch = np.zeros((2, n), above.dtype)
        if not by_height:
            by_height = (
                kernels.order_by_number(above, is_internal, *scratch, *result) > _LARGE_FAMILY
            )
        if by_height:
            inner = Lists(np.zeros(n, above.dtype), np.empty(n_internal, above.dtype))
            kernels.group_internal(above, is_internal, *inner)
    if by_height or not parents_first:
        cursor = unsigned(level_start[-2::-1].copy())
        kernels.order_internal(root, unsigned(height), *inner, cursor, n_internal, *result)
    if parents_first:
        scratch[0] = 0
        kernels.order_leaves_by_number(above, is_internal, n_internal, scratch[0], *result)
    else:
        kernels.order_leaves(*leaves, n_internal, *result)
    return Positions(
        order, position_parent, level_start, parents_first, by_height or not parents_first
    )


def _heights(
    parent: np.ndarray, is_internal: np.ndarray, n_internal: int, inner: Lists, height: np.ndarray
) -> int | None:
    """Write the height of each node in any numbering; return a node of a cycle, if there is one."""
    pending, queue = np.empty(parent.size, parent.dtype), np.empty(n_internal, parent.dtype)
    reached = kernels.heights_any_order(parent, is_internal, inner.end, pending, queue, height)
    return int(np.flatnonzero(pending)[0]) if reached < n_internal else None


def _grouped_by_parent(parent: np.ndarray, is_internal: np.ndarray) -> tuple[Lists, Lists]:
    """Leaves and internal nodes, each grouped by parent; fast even if numbers are random."""
    n = parent.size
    shift = np.uint64(max(0, n.bit_length() - _BUCKET_BITS))
    place = np.zeros((2, (n >> int(shift)) + 1), np.uint64)
    n_leaves = kernels.place_buckets(parent, is_internal, shift, place)
    pair = np.empty((n - 1, 2), parent.dtype)
    kernels.fill_buckets(parent, is_internal, shift, place, pair)

    def group(pairs: np.ndarray) -> Lists:
        found = Lists(np.zeros(n, parent.dtype), np.empty(len(pairs), parent.dtype))
        kernels.group_pairs(pairs, *found)
        return found

    return group(pair[:n_leaves]), group(pair[n_leaves:])


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
