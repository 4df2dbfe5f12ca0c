"""Slow, obvious queries: covers by trying all of them, sums one leaf at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

import gmtree as gm


def spans(tree: gm.Tree) -> list[set[int]]:
    """Positions of the leaves below each node."""
    below: list[set[int]] = [set() for _ in range(tree.n)]
    for position, leaf in enumerate(tree.leaves_left_to_right.tolist()):
        i = leaf
        while i >= 0:
            below[i].add(position)
            i = int(tree.parent[i])
    return below


def all_ranges(m: int) -> list[tuple[int, int]]:
    return list(combinations(range(m + 1), 2))


def highest_cover(tree: gm.Tree, a: int, b: int) -> set[int]:
    """Nodes with all leaves in [a, b), whose parents have some leaves outside."""
    wanted = set(range(a, b))
    inside = [bool(span) and span <= wanted for span in spans(tree)]
    return {
        i for i in range(tree.n) if inside[i] and (tree.parent[i] < 0 or not inside[tree.parent[i]])
    }


def fewest_covers(tree: gm.Tree, a: int, b: int) -> list[set[int]]:
    """All smallest sets of nodes whose leaves, without overlap, make up [a, b)."""
    below = spans(tree)
    wanted = set(range(a, b))
    useful = [i for i in range(tree.n) if below[i] <= wanted]
    for size in range(b - a + 1):
        found = [
            set(nodes)
            for nodes in combinations(useful, size)
            if sum(len(below[i]) for i in nodes) == b - a
            and set().union(*(below[i] for i in nodes)) == wanted
        ]
        if found:
            return found
    raise AssertionError("the leaves themselves are a cover")


def cover_sum(tree: gm.Tree, values: np.ndarray, a: int, b: int) -> np.ndarray:
    return sum((values[i] for i in sorted(highest_cover(tree, a, b))), np.zeros_like(values[0]))


def leaf_sum(tree: gm.Tree, values: np.ndarray, a: int, b: int) -> np.ndarray:
    return sum((values[i] for i in tree.leaves_left_to_right[a:b]), np.zeros_like(values[0]))


def rmse(values: Sequence[float], truth: Sequence[float]) -> float:
    squares = [(float(v) - float(t)) ** 2 for v, t in zip(values, truth, strict=True)]
    return (sum(squares) / len(squares)) ** 0.5
