"""What joins the partitions: the tree of all path nodes, small enough for one process.

Its leaves are the groups of whole children that partitions report, each with the sum of their
estimates and of their variances. Solved once, it tells every partition what the others know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.consistency.factor import VARIANCE_RANGE
from gmtree.consistency.rounding import LARGEST, fraction_steps, goes_up
from gmtree.dask.rows import REMEDY, Key, shown
from gmtree.tree import Tree


class Ends(NamedTuple):
    """What the top must know of the rows of a partition.

    Attributes
    ----------
    first, last : tuple
        Labels of its first and of its last row.
    start, rows : int
        Number of its first row, and how many it has.
    sizes : tuple of int
        Nodes of each level, whole or not.
    groups : tuple of (level, side)
        Path nodes of which it has whole children.
    """

    first: Key
    last: Key
    start: int
    rows: int
    sizes: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]


class Solution(NamedTuple):
    """Consistent values of the top tree, and the messages in it."""

    x: np.ndarray
    z: np.ndarray
    q: np.ndarray
    variance: np.ndarray


class Top:
    """The path nodes of all partitions, and the groups of children below them.

    Attributes
    ----------
    path : list of arrays
        For each partition, its path nodes in the top tree by level and side; where a level has
        one node, both sides are the same.
    group : list of dicts
        For each partition, the leaves of its groups by level and side.
    level : list of int
        Level of each path node; groups have the numbers after these.
    """

    def __init__(self, ends: Sequence[Ends]) -> None:
        self.ends = list(ends)
        self.height = len(ends[0].sizes) - 1
        self.level: list[int] = []
        self.owner: list[int] = []
        self.path = self._number()
        self.n_paths = len(self.level)
        self.items: list[list[int]] = [[] for _ in range(self.n_paths)]
        self.group: list[dict[tuple[int, int], int]] = []
        self._own: list[dict[tuple[int, int], tuple[int, int]]] = []
        n = self.n_paths
        for p in range(len(self.ends)):
            n = self._hang(p, n)
        parent = np.full(n, -1)
        for u, children in enumerate(self.items):
            parent[children] = u
        self.tree = Tree.from_parents(parent)

    def _number(self) -> list[np.ndarray]:
        """Number the path nodes from left to right; those on both sides of a cut are the same."""
        found: list[np.ndarray] = []
        for p, here in enumerate(self.ends):
            same = -1 if p == 0 else self._common(self.ends[p - 1], here)
            nodes = np.empty((self.height, 2), np.int64)
            for level in range(self.height):
                nodes[level, 0] = found[-1][level, 1] if level <= same else self._new(level, p)
                several = here.sizes[level] > 1
                nodes[level, 1] = self._new(level, p) if several else nodes[level, 0]
            found.append(nodes)
        return found

    def _new(self, level: int, p: int) -> int:
        self.level.append(level)
        self.owner.append(p)
        return len(self.level) - 1

    def _common(self, before: Ends, after: Ends) -> int:
        """How many labels the rows on both sides of a cut share; refuses rows out of order."""
        a, b = before.last, after.first
        same = next((k for k in range(self.height) if a[k] != b[k]), self.height)
        row = after.start
        if same == self.height:
            check.fail(
                "leaves",
                f"must have one row per leaf; rows {before.start + before.rows - 1} and {row} are "
                f"both {shown(a)}.",
            )
        if not a[same] < b[same]:
            check.fail(
                "leaves",
                f"must be sorted by its levels; rows {before.start + before.rows - 1} and {row} "
                f"are {shown(a)} and {shown(b)}. {REMEDY}",
            )
        return same

    def _hang(self, p: int, n: int) -> int:
        """Children of the path nodes of a partition from left to right; returns the next number.

        What belongs to the partition is one stretch of the children of each of its path nodes.
        """
        here, nodes = self.ends[p], self.path[p]
        own: dict[tuple[int, int], tuple[int, int]] = {}
        groups: dict[tuple[int, int], int] = {}
        for level in range(self.height):
            several = here.sizes[level] > 1
            for side in (0, 1) if several else (0,):
                children = self.items[nodes[level, side]]
                start = len(children)
                if side == 0 and level + 1 < self.height:
                    first = int(nodes[level + 1, 0])
                    if children and children[-1] == first:
                        start -= 1
                    else:
                        children.append(first)
                if (level, side) in here.groups:
                    groups[level, side] = n
                    children.append(n)
                    n += 1
                if (side == 1 or not several) and level + 1 < self.height:
                    last = int(nodes[level + 1, 1])
                    if not children or children[-1] != last:
                        children.append(last)
                own[level, side] = start, len(children)
        self.group.append(groups)
        self._own.append(own)
        return n

    # ------------------------------------------------------------------ facts

    @property
    def sizes(self) -> list[int]:
        """Nodes of each level of the whole tree, the total's first."""
        counts = np.sum([here.sizes for here in self.ends], axis=0)
        counts[0] = 1
        for p in range(1, len(self.ends)):
            shared = self.path[p][:, 0] == self.path[p - 1][:, 1]
            counts[1:-1] -= shared[1:]
        return counts.tolist()

    def skips_first(self, p: int) -> np.ndarray:
        """By level, whether the first node of a partition belongs to an earlier one."""
        owners = np.array(self.owner)[self.path[p][:, 0]]
        return owners < p

    def label(self, u: int) -> str:
        """The labels of a path node, for an error message."""
        level, p = self.level[u], self.owner[u]
        side = 0 if self.path[p][level, 0] == u else 1
        ends = self.ends[p]
        return shown((ends.last if side else ends.first)[:level]) if level else "the total"

    def by_node(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Numbers that partitions tell of their path nodes, by path node."""
        out = np.full(self.n_paths, np.nan)
        for nodes, x in zip(reversed(self.path), reversed(list(parts)), strict=True):
            known = ~np.isnan(x)
            out[nodes[known]] = x[known]
        return out

    # ------------------------------------------------------------------ solving

    def solve(
        self, v: np.ndarray, s: np.ndarray, told: Sequence[dict[tuple[int, int], np.ndarray]]
    ) -> Solution:
        """Consistent values from measurements of the path nodes and what partitions tell.

        `told` has for each partition and group the sums of estimates and variances.
        """
        value, variance = np.zeros((2, self.tree.n))
        value[: self.n_paths], variance[: self.n_paths] = np.where(np.isinf(s), 0, v), s
        for groups, messages in zip(self.group, told, strict=True):
            for where, node in groups.items():
                value[node], variance[node] = messages[where][:2]
        variance = usable(variance)
        value[np.isinf(variance)] = 0
        try:
            post = Consistency(self.tree, {"node": variance})
            x = post.project(value)
        except ValueError as error:
            raise ValueError(
                f"Argument 'nodes' must agree with the leaves, also across partitions: {error} "
                "(Nodes are numbered here as the nodes that are in several partitions are.)"
            ) from None
        z, q, _ = post.messages(value)
        errors = post.node_variance()
        loose = np.flatnonzero(np.isinf(errors))
        if loose.size:
            u = int(loose[0])
            u = u if u < self.n_paths else int(self.tree.parent[u])
            check.fail(
                "value",
                f"must determine every node; below {self.label(u)} some nodes have no value, and "
                "none follows from the others.",
            )
        return Solution(x, z, q, errors)

    def outside(self, solution: Solution) -> list[np.ndarray]:
        """For each partition, by level and side: estimate and variance of all that is elsewhere."""
        sums = [self._running_sums(u, solution) for u in range(self.n_paths)]
        found = []
        for p, nodes in enumerate(self.path):
            out = np.zeros((self.height, 2, 2))
            for (level, side), (start, stop) in self._own[p].items():
                before, total = sums[nodes[level, side]]
                # Sums from both ends: nothing is taken away from a sum again.
                out[level, side] = before[start] + total[stop]
            found.append(out)
        return found

    def _running_sums(self, u: int, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
        """Sums of z and q over the first k children, and over all from the k-th on."""
        children = self.items[u]
        pairs = np.zeros((len(children) + 1, 2), np.longdouble)
        pairs[1:] = np.column_stack([solution.z[children], solution.q[children]])
        before = np.cumsum(pairs, axis=0)
        pairs[:-1], pairs[-1] = pairs[1:], 0
        after = np.cumsum(pairs[::-1], axis=0)[::-1]
        return before, after

    def at_paths(self, p: int, x: np.ndarray) -> np.ndarray:
        """Values of the path nodes of a partition, by level and side."""
        return x[self.path[p]]

    def refuse_large(self, x: np.ndarray) -> None:
        """Refuse values that whole numbers could not stand for."""
        if np.abs(x).max() > LARGEST:
            check.fail("value", "must be below 2**53 to be rounded exactly; the total is not.")


def usable(variance: np.ndarray) -> np.ndarray:
    """Variances of sums, which may lie just outside of what is allowed for measurements."""
    inside = np.clip(variance, *VARIANCE_RANGE)
    return np.where((variance == 0) | np.isinf(variance), variance, inside)


# --------------------------------------------------------------------------- whole numbers


class Units(NamedTuple):
    """What a group of children can be rounded to.

    Attributes
    ----------
    least : int
        Sum of the least numbers.
    step, many : arrays
        Distinct fractions above these, in steps, of the children that may be one more, and how
        many children have each.
    """

    least: int
    step: np.ndarray
    many: np.ndarray


def round_top(top: Top, x: np.ndarray, told: Sequence[dict[tuple[int, int], Units]]) -> np.ndarray:
    """Whole numbers of all nodes of the top tree, groups included.

    The rules are those of the tree as a whole: at each node, units go to the children with the
    largest fractions, in whichever partition they are.
    """
    top.refuse_large(x)
    n = top.tree.n
    least, room = np.zeros(n, np.int64), np.zeros(n, np.int64)
    units: dict[int, Units] = {}
    for groups, messages in zip(top.group, told, strict=True):
        for where, node in groups.items():
            units[node] = messages[where]
            least[node], room[node] = messages[where].least, messages[where].many.sum()
    # A path node has a larger number than those above it.
    for u in reversed(range(top.n_paths)):
        low, extra = int(least[top.items[u]].sum()), int(room[top.items[u]].sum())
        least[u] = max(int(np.floor(x[u])), low)
        most = min(int(np.ceil(x[u])), low + extra)
        if most < least[u]:
            check.fail("value", f"must be consistent to within one to be rounded; {top.label(u)}.")
        room[u] = most - least[u]
        units[u] = Units(
            int(least[u]),
            fraction_steps(x[u : u + 1], least[u : u + 1])[: room[u]],
            np.ones(room[u], np.int64),
        )
    out = least.copy()
    root = top.tree.root
    out[root] += bool(room[root]) and goes_up(x[root] - least[root])
    for u in range(top.n_paths):
        children = top.items[u]
        wanted = int(out[u] - least[children].sum())
        out[children] += _hand_out(wanted, [units[c] for c in children])
    return out


def _hand_out(wanted: int, offers: Sequence[Units]) -> np.ndarray:
    """How many units each child or group gets: the largest fractions first, then from the left."""
    step = np.concatenate([offer.step for offer in offers])
    many = np.concatenate([offer.many for offer in offers])
    who = np.repeat(np.arange(len(offers)), [offer.step.size for offer in offers])
    order = np.lexsort((who, -step))
    before = np.cumsum(many[order]) - many[order]
    given = np.clip(wanted - before, 0, many[order])
    return np.bincount(who[order], weights=given, minlength=len(offers)).astype(np.int64)
