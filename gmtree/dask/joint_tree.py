"""The tree of all nodes that partitions share, small enough for one process.

Its inner nodes are the boundary nodes of all partitions. Its leaves are the groups of complete
children that the partitions report, each with the sum of their estimates and the sum of their
variances. The solution of this tree gives each partition an estimate of all rows of other
partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.consistency.factor import VARIANCE_RANGE
from gmtree.consistency.rounding import LARGEST, fraction_steps, goes_up
from gmtree.dask.sorted_rows import REMEDY, Key, shown
from gmtree.tree import Tree

# Level and side of a boundary node: side 0 is the first node of its level, side 1 the last.
Where = tuple[int, int]


class Ends(NamedTuple):
    """The ends of a partition, from which the joint tree is built.

    Attributes
    ----------
    first, last : tuple
        Labels of the partition's first and last row.
    start : int
        Number of the first row.
    sizes : tuple of int
        Number of nodes of each level, complete or not; the last level consists of the rows.
    groups : tuple of (level, side)
        Boundary nodes that have complete children in this partition.
    """

    first: Key
    last: Key
    start: int
    sizes: tuple[int, ...]
    groups: tuple[Where, ...]


class Solution(NamedTuple):
    """Consistent values of the joint tree, its messages, and the variances of the values."""

    x: np.ndarray
    z: np.ndarray
    q: np.ndarray
    variance: np.ndarray


class JointTree:
    """The boundary nodes of all partitions, and the groups of children below them.

    Attributes
    ----------
    boundary : list of arrays
        For each partition, its boundary nodes in the joint tree by level and side. If a level has
        one node, that node is on both sides.
    group : list of dicts
        For each partition, the leaves of its groups by level and side.
    level : list of int
        Level of each boundary node. The nodes of groups are numbered after the boundary nodes.
    owner : list of int
        First partition of each boundary node.
    children : list of lists
        Children of each boundary node, from left to right.
    """

    def __init__(self, ends: Sequence[Ends]) -> None:
        self.ends = list(ends)
        self.height = len(ends[0].sizes) - 1
        self.level: list[int] = []
        self.owner: list[int] = []
        self.boundary = self._number()
        self.n_boundary = len(self.level)
        self.children: list[list[int]] = [[] for _ in range(self.n_boundary)]
        self.group: list[dict[Where, int]] = []
        # For each partition and boundary node, where its own children begin and end.
        self._own: list[dict[Where, tuple[int, int]]] = []
        n = self.n_boundary
        for p in range(len(self.ends)):
            n = self._hang(p, n)
        parent = np.full(n, -1)
        for u, children in enumerate(self.children):
            parent[children] = u
        self.tree = Tree.from_parents(parent)

    def _number(self) -> list[np.ndarray]:
        """Number the boundary nodes from left to right; two partitions may share one."""
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
        """Count the leading labels that the rows before and after a cut share.

        Refuses rows that are equal or in the wrong order.
        """
        a, b, row = before.last, after.first, after.start
        same = next((k for k in range(self.height) if a[k] != b[k]), self.height)
        if same == self.height:
            check.fail(
                "leaves",
                f"must have one row per leaf; rows {row - 1} and {row} are both {shown(a)}.",
            )
        if not a[same] < b[same]:
            check.fail(
                "leaves",
                f"must be sorted by its levels; rows {row - 1} and {row} are {shown(a)} and "
                f"{shown(b)}. {REMEDY}",
            )
        return same

    def _hang(self, p: int, n: int) -> int:
        """Add the children of a partition's boundary nodes, and return the next free number.

        A partition owns consecutive children of each of its boundary nodes.
        """
        here, nodes = self.ends[p], self.boundary[p]
        own: dict[Where, tuple[int, int]] = {}
        groups: dict[Where, int] = {}
        for level in range(self.height):
            several = here.sizes[level] > 1
            for side in (0, 1) if several else (0,):
                children = self.children[nodes[level, side]]
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
        """Number of nodes of each level of the whole tree, beginning with the total."""
        counts = np.sum([here.sizes for here in self.ends], axis=0)
        counts[0] = 1
        for p in range(1, len(self.ends)):
            shared = self.boundary[p][:, 0] == self.boundary[p - 1][:, 1]
            counts[1:-1] -= shared[1:]
        return counts.tolist()

    def skips_first(self, p: int) -> np.ndarray:
        """For each level: whether the first node of the partition begins in an earlier one."""
        return np.array([self.owner[u] for u in self.boundary[p][:, 0]]) < p

    def label(self, u: int) -> str:
        """The labels of a boundary node, for an error message."""
        level, p = self.level[u], self.owner[u]
        side = 0 if self.boundary[p][level, 0] == u else 1
        ends = self.ends[p]
        return shown((ends.last if side else ends.first)[:level]) if level else "the total"

    def by_node(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Combine the numbers of the partitions into one number for each boundary node.

        All partitions that share a node agree on its number.
        """
        out = np.empty(self.n_boundary)
        for nodes, x in zip(self.boundary, parts, strict=True):
            out[nodes] = x
        return out

    # ------------------------------------------------------------------ solving

    def solve(
        self, v: np.ndarray, s: np.ndarray, messages: Sequence[dict[Where, np.ndarray]]
    ) -> Solution:
        """Compute consistent values from the measurements of the boundary nodes and the messages.

        `messages` are, for each partition and group, the sums of estimates and of variances.
        """
        value, variance = np.zeros((2, self.tree.n))
        value[: self.n_boundary], variance[: self.n_boundary] = np.where(np.isinf(s), 0, v), s
        for groups, sums in zip(self.group, messages, strict=True):
            for where, node in groups.items():
                value[node], variance[node] = sums[where][:2]
        variance = usable(variance)
        value[np.isinf(variance)] = 0
        try:
            post = Consistency(self.tree, {"node": variance})
            x = post.project(value)
        except check.ArgumentError as error:
            if error.argument == "variance" and error.node is not None:
                self._refuse_undetermined(error.node)
            raise ValueError(
                f"Argument 'nodes' must agree with the leaves, also across partitions: {error} "
                "(These node numbers count only the nodes at the ends of partitions.)"
            ) from None
        z, q, _ = post.messages(value)
        errors = post.node_variance()
        loose = np.flatnonzero(np.isinf(errors))
        if loose.size:
            self._refuse_undetermined(int(loose[0]))
        return Solution(x, z, q, errors)

    def _refuse_undetermined(self, u: int) -> NoReturn:
        u = u if u < self.n_boundary else int(self.tree.parent[u])
        check.fail(
            "value",
            f"must determine every node; below {self.label(u)} some nodes have no value, and "
            "other measurements do not determine them.",
        )

    def outside(self, solution: Solution) -> list[np.ndarray]:
        """For each partition, level and side: estimate and variance of rows outside it."""
        sums = [self._running_sums(u, solution) for u in range(self.n_boundary)]
        found = []
        for p, nodes in enumerate(self.boundary):
            out = np.zeros((self.height, 2, 2))
            for (level, side), (start, stop) in self._own[p].items():
                before, total = sums[nodes[level, side]]
                # Add from both ends, because subtracting from the total would lose digits.
                out[level, side] = before[start] + total[stop]
            found.append(out)
        return found

    def _running_sums(self, u: int, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
        """For each k: sums of z and q over the first k children, and over the other ones."""
        children = self.children[u]
        pairs = np.zeros((len(children) + 1, 2), np.longdouble)
        pairs[1:] = np.column_stack([solution.z[children], solution.q[children]])
        before = np.cumsum(pairs, axis=0)
        pairs[:-1], pairs[-1] = pairs[1:], 0
        after = np.cumsum(pairs[::-1], axis=0)[::-1]
        return before, after


def usable(variance: np.ndarray) -> np.ndarray:
    """Clip variances of sums, which may exceed the range allowed for measurements."""
    inside = np.clip(variance, *VARIANCE_RANGE)
    return np.where((variance == 0) | np.isinf(variance), variance, inside)


# --------------------------------------------------------------------------- whole numbers


class Units(NamedTuple):
    """The whole numbers to which a group of children can be rounded.

    Attributes
    ----------
    least : int
        Sum of the smallest possible numbers.
    step, many : arrays
        The children that can also be rounded up: the distinct fractions by which they exceed their
        smallest number, in steps, and the number of children with each fraction.
    """

    least: int
    step: np.ndarray
    many: np.ndarray


def round_joint(
    joint: JointTree, x: np.ndarray, offers: Sequence[dict[Where, Units]]
) -> np.ndarray:
    """Round all nodes of the joint tree, including groups, to whole numbers.

    The rules are those for an undivided tree: at each node, units go to the children with the
    largest fractions, in whichever partition these are.
    """
    if np.abs(x).max() > LARGEST:
        check.fail("value", "must be below 2**53 to be rounded exactly; the total is not.")
    n = joint.tree.n
    least, room = np.zeros(n, np.int64), np.zeros(n, np.int64)
    units: dict[int, Units] = {}
    for groups, offer in zip(joint.group, offers, strict=True):
        for where, node in groups.items():
            units[node] = offer[where]
            least[node], room[node] = offer[where].least, offer[where].many.sum()
    # The number of a boundary node is larger than those of its ancestors.
    for u in reversed(range(joint.n_boundary)):
        children = joint.children[u]
        low, extra = int(least[children].sum()), int(room[children].sum())
        least[u] = max(int(np.floor(x[u])), low)
        most = min(int(np.ceil(x[u])), low + extra)
        if most < least[u]:
            check.fail(
                "value", f"must be consistent to within one to be rounded; {joint.label(u)} is not."
            )
        room[u] = most - least[u]
        units[u] = Units(
            int(least[u]),
            fraction_steps(x[u : u + 1], least[u : u + 1])[: room[u]],
            np.ones(room[u], np.int64),
        )
    out = least.copy()
    root = joint.tree.root
    out[root] += bool(room[root]) and goes_up(x[root] - least[root])
    for u in range(joint.n_boundary):
        children = joint.children[u]
        wanted = int(out[u] - least[children].sum())
        out[children] += _hand_out(wanted, [units[c] for c in children])
    return out


def _hand_out(wanted: int, offers: Sequence[Units]) -> np.ndarray:
    """Return how many units each child gets: largest fractions first, then from the left."""
    step = np.concatenate([offer.step for offer in offers])
    many = np.concatenate([offer.many for offer in offers])
    who = np.repeat(np.arange(len(offers)), [offer.step.size for offer in offers])
    order = np.lexsort((who, -step))
    before = np.cumsum(many[order]) - many[order]
    given = np.clip(wanted - before, 0, many[order])
    return np.bincount(who[order], weights=given, minlength=len(offers)).astype(np.int64)
