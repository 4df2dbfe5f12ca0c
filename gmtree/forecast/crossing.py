"""Grouped series as crossed trees: geography by purpose, and whatever else is cut in several ways.

A level, such as all states, cuts the leaves into classes. One level is finer than another if
each of its classes lies within one of the other's. A level that says no more than the coarser
ones together (states by purpose, beside states and purposes) is a combination of them. All others
are put into as few chains as possible, each from coarse to fine: these are the axes. Every level is
then a combination of one level of each chain, the finest that is not finer than itself, so that
each of its series is a tuple of nodes, one of each chain's tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.rows import Rows
from gmtree.labels.levels import number_pairs
from gmtree.tree import Tree

# Most tuples of nodes, and most for each series, before a structure counts as no crossing.
MOST_CELLS, MOST_PER_SERIES = 2_000_000, 50


class Crossing(NamedTuple):
    """Trees, the cell of each series in the array of their nodes, and which leaves exist."""

    trees: Sequence[Tree]
    cell: np.ndarray
    exists: np.ndarray | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of all tuples of nodes."""
        return tuple(tree.n for tree in self.trees)


def cross(rows: Rows, name: Callable[[int], str]) -> Crossing:
    """Find the axes; refuses what would need too many of them."""
    levels = _levels(rows)
    classes = [_classes(rows, level) for level in levels]
    same, kept = _distinct(classes)
    finer = np.array([[_refines(classes[a], classes[b]) for b in kept] for a in kept])
    np.fill_diagonal(finer, False)
    pure = [k for k in range(len(kept)) if not _is_combination(k, kept, classes, finer)]
    chains = _chains(pure, finer)
    sizes = [1 + sum(int(classes[kept[k]].max()) + 1 for k in chain) for chain in chains]
    cells = float(np.prod(np.array(sizes, float)))
    if cells > max(MOST_CELLS, MOST_PER_SERIES * rows.labels.size):
        a, b = _crossing_pair(rows)
        check.fail(
            "S_df",
            f"must be a tree or a few crossed trees; {name(a)} and {name(b)} share only some of "
            f"their leaves, and {len(sizes)} crossed trees with {cells:.0f} combinations of their "
            "nodes would be needed.",
        )
    trees, node_of = [], []
    for chain in chains:
        tree, nodes = _tree_of(chain, [classes[kept[k]] for k in chain])
        trees.append(tree)
        node_of.append(nodes)
    cell = np.empty(rows.labels.size, np.int64)
    shape = tuple(tree.n for tree in trees)
    for level, k in zip(levels, same, strict=True):
        leaf = rows.cols[rows.start[level]]
        place = []
        for chain, nodes in zip(chains, node_of, strict=True):
            # The finest level of the chain that this one is, or lies within.
            fit = [m for m in chain if m == k or finer[k, m]]
            if k in pure and k not in chain:
                fit = []
            place.append(nodes[fit[-1]][leaf] if fit else np.zeros(leaf.size, np.int64))
        cell[level] = np.ravel_multi_index(place, shape)
    exists = np.zeros([tree.n_leaves for tree in trees], bool)
    at = [
        nodes[chain[-1]] - (tree.n - tree.n_leaves)
        for chain, nodes, tree in zip(chains, node_of, trees, strict=True)
    ]
    exists[tuple(at)] = True
    return Crossing(trees, cell, None if exists.all() else exists)


# --------------------------------------------------------------------------- levels


def _levels(rows: Rows) -> list[np.ndarray]:
    """Rows that are disjoint, level by level; those that nobody named come as they follow."""
    given = list((rows.levels or {}).values())
    levels = []
    rest = np.ones(rows.labels.size, bool)
    for level in given:
        level = level[rest[level]]
        leaves = np.concatenate([rows.cols[rows.start[k] : rows.start[k + 1]] for k in level]
                                or [np.empty(0, np.int64)])  # fmt: skip
        if level.size and np.unique(leaves).size == leaves.size:
            levels.append(level)
            rest[level] = False
    other = np.flatnonzero(rest)
    if other.size:
        in_order, fitted = _runs(rows, other), _fitted(rows, other)
        levels += in_order if len(in_order) <= len(fitted) else fitted
    return levels


def _runs(rows: Rows, order: np.ndarray) -> list[np.ndarray]:
    """Stretches of rows that have no leaf in common."""
    found: list[list[int]] = []
    stamp = np.full(rows.n_leaves, -1)
    for k in order.tolist():
        leaves = rows.cols[rows.start[k] : rows.start[k + 1]]
        if not found or (stamp[leaves] == len(found)).any():
            found.append([])
        stamp[leaves] = len(found)
        found[-1].append(k)
    return [np.array(level) for level in found]


def _fitted(rows: Rows, which: np.ndarray) -> list[np.ndarray]:
    """Rows from large to small, each in the first level where no other has one of its leaves."""
    found: list[list[int]] = []
    taken = np.zeros((0, rows.n_leaves), bool)
    size = np.diff(rows.start)[which]
    for k in which[np.argsort(-size, kind="stable")].tolist():
        leaves = rows.cols[rows.start[k] : rows.start[k + 1]]
        free = np.flatnonzero(~taken[:, leaves].any(axis=1))
        if not free.size:
            taken = np.vstack([taken, np.zeros((1, rows.n_leaves), bool)])
            found.append([])
        level = int(free[0]) if free.size else len(found) - 1
        taken[level, leaves] = True
        found[level].append(k)
    return [np.array(level) for level in found]


def _classes(rows: Rows, level: np.ndarray) -> np.ndarray:
    """The class of each leaf; leaves that no series of the level holds are alone."""
    code = np.full(rows.n_leaves, -1, np.int64)
    for c, k in enumerate(level.tolist()):
        code[rows.cols[rows.start[k] : rows.start[k + 1]]] = c
    alone = np.flatnonzero(code < 0)
    code[alone] = level.size + np.arange(alone.size)
    return code


def _refines(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether each class of `a` lies within one of `b`."""
    table = np.zeros(int(a.max()) + 1, np.int64)
    table[a] = b
    return bool((table[a] == b).all())


def _distinct(classes: list[np.ndarray]) -> tuple[list[int], list[int]]:
    """Levels that cut the leaves in the same way count once: their number, and those kept."""
    kept: list[int] = []
    same = []
    for k, code in enumerate(classes):
        for m, other in enumerate(kept):
            if _refines(code, classes[other]) and _refines(classes[other], code):
                same.append(m)
                break
        else:
            same.append(len(kept))
            kept.append(k)
    return same, kept


def _is_combination(k: int, kept: list[int], classes: list[np.ndarray], finer: np.ndarray) -> bool:
    """Whether a level has the classes that all coarser ones together make."""
    group = np.zeros(classes[0].size, np.int64)
    for m in np.flatnonzero(finer[k]):
        number_pairs(group, classes[kept[m]])
    return int(group.max()) == int(classes[kept[k]].max())


def _chains(pure: list[int], finer: np.ndarray) -> list[list[int]]:
    """As few chains as possible, each from coarse to fine: a matching of levels to finer ones."""
    below: dict[int, int] = {}  # by level, the coarser one that it follows

    def match(k: int, seen: set[int]) -> bool:
        for m in pure:
            if finer[m, k] and m not in seen:
                seen.add(m)
                if m not in below or match(below[m], seen):
                    below[m] = k
                    return True
        return False

    for k in pure:
        match(k, set())
    after = {k: m for m, k in below.items()}
    chains = []
    for k in pure:
        if k not in below:
            chain = [k]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            chains.append(chain)
    return chains


def _tree_of(chain: list[int], classes: list[np.ndarray]) -> tuple[Tree, dict[int, np.ndarray]]:
    """The tree of a chain of levels, and the node of each leaf for each of them."""
    parents, nodes = [np.full(1, -1, np.int64)], {}
    above, offset = np.zeros(classes[0].size, np.int64), 0
    for k, (level, code) in enumerate(zip(chain, classes, strict=True)):
        count = int(code.max()) + 1
        if k == 0 and count == 1:
            # One class of all leaves is the root.
            nodes[level] = above
            continue
        offset += parents[-1].size
        parent = np.empty(count, np.int64)
        parent[code] = above
        parents.append(parent)
        above = code + offset
        nodes[level] = above
    return Tree.from_parents(np.concatenate(parents)), nodes


def _crossing_pair(rows: Rows) -> tuple[int, int]:
    """Two series that share some leaves, neither holding the other."""
    size = np.diff(rows.start)
    owner = np.full(rows.n_leaves, -1, np.int64)
    for k in np.argsort(-size, kind="stable").tolist():
        leaves = rows.cols[rows.start[k] : rows.start[k + 1]]
        holders = np.unique(owner[leaves])
        if holders.size > 1:
            return k, int(holders[np.argmin(size[holders])])
        owner[leaves] = k
    return 0, 0
