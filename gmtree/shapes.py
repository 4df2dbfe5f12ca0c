"""Trees of given shapes, for examples, tests and benchmarks, and trees over bins and calendars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np

from gmtree import _validate as check
from gmtree._memory import refuse_large_tree
from gmtree.labels.columns import listed_names
from gmtree.tree import Tree


def complete(fanout: int, height: int) -> Tree:
    """The complete tree in which every internal node has `fanout` children.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.complete(2, 24)
    Tree(n=16777215, internal=8388607, leaves=8388608, height=24)
    """
    fanout = check.count("fanout", fanout, least=1)
    height = check.count("height", height, least=1)
    # A tree with 64 levels is refused as too large in any case. The limit keeps the power small.
    n = height if fanout == 1 else (fanout ** min(height, 64) - 1) // (fanout - 1)
    dtype = _dtype("height", n)
    parent = np.arange(-1, n - 1, dtype=dtype)
    parent //= min(fanout, n)
    return Tree._build("height", parent)


def dyadic(edges: Sequence[float]) -> Tree:
    """The binary tree over the bins between given edges, for range queries and quantiles.

    Each internal node is a range of bins, and its two children are the halves of this range. So any
    range of bins is the union of a few nodes. The bins are in the order of ``tree.leaves``, so that
    counts from ``numpy.histogram(x, edges)`` are leaf values.

    Parameters
    ----------
    edges : sequence of numbers
        At least two numbers in increasing order. For a private release they must not depend on the
        data.

    Returns
    -------
    Tree
        Tree with labels such as "[18, 40)".

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.dyadic([0, 18, 40, 65, 110])
    >>> tree
    Tree(n=7, internal=3, leaves=4, height=3)
    >>> tree.labels[tree.leaves].tolist()
    ['[0, 18)', '[18, 40)', '[40, 65)', '[65, 110)']
    """
    ends = check.array("edges", edges)
    if ends.dtype.kind not in "iuf" or ends.ndim != 1 or ends.size < 2:
        check.fail("edges", "must have at least two numbers.")
    if not (np.isfinite(ends).all() and np.all(ends[1:] > ends[:-1])):
        check.fail("edges", "must be finite and in increasing order.")
    bins = ends.size - 1
    parent = np.empty(2 * bins - 1, _dtype("edges", 2 * bins - 1))
    names: list[str] = []
    # Depth-first order numbers the leaves from left to right.
    waiting = [(-1, 0, bins)]
    texts = [str(x) for x in ends.tolist()]
    while waiting:
        above, start, stop = waiting.pop()
        node = len(names)
        parent[node] = above
        names.append(f"[{texts[start]}, {texts[stop]})")
        if stop - start > 1:
            middle = (start + stop + 1) // 2
            waiting += [(node, middle, stop), (node, start, middle)]
    return Tree.from_parents(parent, labels=np.array(names))


def chain(n: int) -> Tree:
    """A chain of n nodes, in which each node except the last has one child.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.chain(4).parent
    array([-1,  0,  1,  2], dtype=int32)
    """
    n = check.count("n", n, least=1)
    return Tree._build("n", np.arange(-1, n - 1, dtype=_dtype("n", n)))


def star(n: int) -> Tree:
    """A star of n nodes: a root with n - 1 leaves.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.star(4).parent
    array([-1,  0,  0,  0], dtype=int32)
    """
    n = check.count("n", n, least=1)
    parent = np.zeros(n, dtype=_dtype("n", n))
    parent[0] = -1
    return Tree._build("n", parent)


def caterpillar(n: int) -> Tree:
    """A caterpillar of n nodes: a chain with a leaf at each of its nodes.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.caterpillar(7).parent
    array([-1,  0,  1,  0,  1,  2,  2], dtype=int32)
    """
    n = check.count("n", n, least=1)
    spine = (n + 1) // 2
    parent = np.empty(n, dtype=_dtype("n", n))
    parent[:spine] = np.arange(-1, spine - 1)
    parent[spine:] = np.arange(n - spine)
    return Tree._build("n", parent).canonical()


def random_recursive(n: int, rng: np.random.Generator | int | None = None) -> Tree:
    """A random recursive tree: the parent of node i is drawn uniformly from nodes 0 to i - 1.

    In this numbering parents come before children, but it is not canonical.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.random_recursive(1000, rng=1).n
    1000
    """
    n = check.count("n", n, least=1)
    dtype = _dtype("n", n)
    parent = (check.generator("rng", rng).random(n) * np.arange(n)).astype(dtype)
    parent[0] = -1
    return Tree._build("n", parent)


def grouped(
    n_leaves: int,
    fanouts: Sequence[int] = (2, 3, 4, 5),
    shares: Sequence[float] = (0.4, 0.3, 0.2, 0.1),
    rng: np.random.Generator | int | None = None,
) -> Tree:
    """A tree in which consecutive nodes are grouped from the leaves up, in groups of random size.

    Each internal node gets the next ``fanouts[k]`` nodes of the level below with probability
    ``shares[k]``. The last group of a level consists of the remaining nodes. All leaves have equal
    depth.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.grouped(1000, rng=1)
    >>> tree.n_leaves
    1000
    >>> int(tree.child_count[tree.internal].min())
    2
    """
    n_leaves = check.count("n_leaves", n_leaves, least=1)
    _dtype("n_leaves", n_leaves)
    sizes = check.integer_vector("fanouts", fanouts)
    if sizes.min() < 2:
        check.fail("fanouts", f"must be at least 2, not {sizes.min()}.")
    # Any larger group would consist of all nodes, too.
    sizes = np.minimum(sizes, max(2, n_leaves)).astype(np.int64)
    share = check.reals("shares", shares)
    if share.shape != sizes.shape:
        check.fail("shares", f"must have one entry per fan-out ({sizes.size}), not {share.shape}.")
    if not np.all(share >= 0) or not 0 < share.sum() < np.inf:
        check.fail("shares", f"must be non-negative and not all zero, not {list(shares)}.")
    rng = check.generator("rng", rng)
    levels = []
    count = n_leaves
    while count > 1:
        groups = _group_sizes(count, sizes, share / share.sum(), rng)
        levels.append(groups)
        count = groups.size
    return from_fanouts(levels[::-1])


def from_fanouts(levels: Sequence[np.ndarray]) -> Tree:
    """The tree with given numbers of children, by level from the root and from left to right.

    Every number must be at least 1, and ``levels[k + 1]`` must have one number for each child of
    ``levels[k]``. All leaves have equal depth.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.from_fanouts([[2], [1, 3]]).parent
    array([-1,  0,  0,  1,  2,  2,  2], dtype=int32)
    """
    if not isinstance(levels, Sequence):
        check.fail_type("levels", f"must be a list with one array per level, not {levels!r}.")
    counts = [check.integer_vector("levels", level) for level in levels]
    expected = 1
    for depth, level in enumerate(counts):
        if level.size != expected:
            check.fail(
                "levels", f"must have {expected} numbers at index {depth}, not {level.size}."
            )
        if level.min() < 1:
            check.fail("levels", f"must be at least 1; index {depth} has {level.min()}.")
        expected = int(level.sum())
    fanout = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
    n = 1 + int(fanout.sum())
    parent = np.empty(n, dtype=_dtype("levels", n))
    parent[0] = -1
    parent[1:] = np.repeat(np.arange(fanout.size, dtype=parent.dtype), fanout)
    return Tree._build("levels", parent)


def _group_sizes(
    count: int, sizes: np.ndarray, share: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Random group sizes of at least 2 that add up to `count`."""
    groups = rng.choice(sizes, size=count // int(sizes.min()) + 1, p=share)
    ends = np.cumsum(groups)
    last = int(np.searchsorted(ends, count))
    groups = groups[: last + 1].copy()
    groups[last] -= ends[last] - count
    if groups[last] == 1 and last > 0:
        # A single node is left: it takes a node from the group before it, or joins this group.
        if groups[last - 1] >= 3:
            groups[last - 1] -= 1
            groups[last] = 2
        else:
            groups = groups[:last]
            groups[-1] += 1
    return groups


def _dtype(argument: str, n: int) -> np.dtype:
    refuse_large_tree(argument, n)
    return check.index_dtype(n)


# Levels that nest, from coarse to fine. Weeks do not nest in months, quarters or years.
_CALENDAR = ("year", "quarter", "month", "day")
_WEEKS = ("week", "day")
# Years have four digits, as in Python.
_FIRST_DAY, _LAST_DAY = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")


def calendar(start: str, stop: str, levels: Sequence[str] = ("year", "quarter", "month")) -> Tree:
    """The tree of calendar periods (years, quarters, months or days) between two dates.

    Use it for forecasts and sums over time, alone or crossed with another tree
    (:class:`gmtree.CrossedConsistency`). The leaves are the periods of the last level.

    Parameters
    ----------
    start, stop : str or numpy.datetime64
        First day, and the day after the last day. Periods at the ends may be incomplete.
    levels : sequence of str
        Levels from coarse to fine: some of "year", "quarter", "month" and "day", or some of "week"
        and "day". Weeks begin on Monday. No tree can have weeks below months, quarters or years,
        since a week may belong to two of them. Use a separate tree for weeks.

    Returns
    -------
    Tree
        Tree with labels such as "2024", "2024-Q1", "2024-01", "2024-W05" (ISO 8601) and
        "2024-01-31". The root is the only period of the first level, or else a node labelled
        "total".

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.calendar("2024-01-01", "2025-01-01")
    >>> tree
    Tree(n=17, internal=5, leaves=12, height=3)
    >>> tree.path(16)
    ('2024', '2024-Q4', '2024-12')
    >>> gm.shapes.calendar("2024-01-01", "2026-01-01", ("month", "day")).n
    756
    """
    wanted = [levels] if isinstance(levels, str) else listed_names("levels", levels)
    if not wanted:
        check.fail("levels", "must name at least one period.")
    for level in wanted:
        if level not in (*_CALENDAR, "week"):
            check.fail("levels", f"must be some of {_CALENDAR}, or of {_WEEKS}, not {level!r}.")
    if "week" in wanted and not set(wanted) <= set(_WEEKS):
        other = next(level for level in wanted if level not in _WEEKS)
        check.fail(
            "levels",
            f"must nest, but a week may belong to more than one {other}. "
            "Make a separate tree for weeks.",
        )
    order = _WEEKS if "week" in wanted else _CALENDAR
    if sorted(wanted, key=order.index) != wanted or len(set(wanted)) < len(wanted):
        check.fail(
            "levels", f"must be distinct and go from coarse to fine, as in {order}, not {levels}."
        )
    days = _days(start, stop)
    names = [_period(level, days) for level in wanted]
    _, first = np.unique(names[-1], return_index=True)
    return Tree.from_levels(*(name[np.sort(first)] for name in names), levels=wanted)


def _days(start: str, stop: str) -> np.ndarray:
    """All days from `start` to the day before `stop`."""
    ends = []
    for argument, given in (("start", start), ("stop", stop)):
        try:
            if not isinstance(given, (str, date, np.datetime64)):
                raise TypeError
            day = np.datetime64(given, "D")
            # This is also false for NaT.
            if not _FIRST_DAY <= day <= _LAST_DAY:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            check.fail(argument, f"must be a date such as '2024-01-31', not {given!r}.")
        ends.append(day)
    if not ends[0] < ends[1]:
        check.fail("stop", f"must be after start; {ends[1]} is not after {ends[0]}.")
    return np.arange(*ends)


def _period(level: str, days: np.ndarray) -> np.ndarray:
    """Name of the period of each day."""
    if level == "day":
        return days.astype(str)
    if level == "week":
        # An ISO week belongs to the year that its Thursday is in.
        thursday = days + (3 - (days.astype(np.int64) + 3) % 7)
        year = thursday.astype("datetime64[Y]")
        week = (thursday - year.astype("datetime64[D]")).astype(np.int64) // 7 + 1
        return np.char.add(np.char.add(year.astype(str), "-W"), np.char.zfill(week.astype(str), 2))
    months = days.astype("datetime64[M]")
    if level == "month":
        return months.astype(str)
    years = months.astype("datetime64[Y]")
    if level == "year":
        return years.astype(str)
    quarter = (months - years.astype("datetime64[M]")).astype(np.int64) // 3 + 1
    return np.char.add(np.char.add(years.astype(str), "-Q"), quarter.astype(str))
