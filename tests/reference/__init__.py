"""Slow, obvious versions of gmtree's functions: one node at a time, or with dense matrices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np


def children(parent: Sequence[int], i: int) -> list[int]:
    return [c for c in range(len(parent)) if parent[c] == i]


def root(parent: Sequence[int]) -> int:
    return list(parent).index(-1)


def ancestors(parent: Sequence[int], i: int) -> list[int]:
    """The path from node i up to the root, both included."""
    path = [i]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path


def depths(parent: Sequence[int]) -> list[int]:
    return [len(ancestors(parent, i)) for i in range(len(parent))]


def heights(parent: Sequence[int]) -> list[int]:
    def height(i: int) -> int:
        return 1 + max((height(c) for c in children(parent, i)), default=0)

    return [height(i) for i in range(len(parent))]


def subtree_sizes(parent: Sequence[int]) -> list[int]:
    below = [0] * len(parent)
    for i in range(len(parent)):
        for a in ancestors(parent, i):
            below[a] += 1
    return below


def canonical_order(parent: Sequence[int]) -> list[int]:
    """Descending height, ties by the parent's position, then by node number."""
    height = heights(parent)
    order: list[int] = []
    for h in range(max(height), 0, -1):
        level = [i for i in range(len(parent)) if height[i] == h]
        # Parents are higher, so they have their positions already.
        order += sorted(level, key=lambda i: (order.index(parent[i]) if order else 0, i))
    return order


def leaves(parent: Sequence[int]) -> list[int]:
    return sorted(leaves_left_to_right(parent))


def leaves_left_to_right(parent: Sequence[int]) -> list[int]:
    """Depth first, siblings by ascending number."""

    def below(i: int) -> list[int]:
        found = children(parent, i)
        return [leaf for c in found for leaf in below(c)] if found else [i]

    return below(root(parent))


def internal(parent: Sequence[int]) -> list[int]:
    return sorted(set(parent) - {-1})


def kth_subtree(parent: Sequence[int], k: int) -> tuple[list[int], list[int]]:
    """(kept nodes, their parents by new number) after removing all leaves k times."""
    kept = list(range(len(parent)))
    for _ in range(k):
        kept = [i for i in kept if any(parent[c] == i for c in kept)]
    return kept, [kept.index(parent[i]) if parent[i] >= 0 else -1 for i in kept]


def aggregate(parent: Sequence[int], x: np.ndarray) -> np.ndarray:
    """Each leaf's value added to itself and all its ancestors."""
    out = np.zeros((len(parent), *x.shape[1:]), x.dtype)
    for leaf, value in zip(leaves(parent), x, strict=True):
        for a in ancestors(parent, leaf):
            out[a] += value
    return out


def generation(
    parent: Sequence[int],
    node: np.ndarray | float | None = None,
    edge: np.ndarray | float | None = None,
) -> np.ndarray:
    """The dense Generation Matrix."""
    n = len(parent)
    w = np.broadcast_to(1.0 if node is None else node, n)
    e = np.broadcast_to(1.0 if edge is None else edge, n)
    G = np.zeros((n, n))
    for i, p in enumerate(parent):
        G[i, i] = w[i]
        if p >= 0:
            G[i, p] = -e[i]
    return G


def constraint(parent: Sequence[int]) -> np.ndarray:
    """One column per internal node: 1 at the node, -1 at its children."""
    inner = internal(parent)
    M = np.zeros((len(parent), len(inner)))
    for j, i in enumerate(inner):
        M[i, j] = 1
        M[children(parent, i), j] = -1
    return M


def mapping(index: Sequence[int], n: int) -> np.ndarray:
    H = np.zeros((len(index), n))
    for row, i in enumerate(index):
        H[row, i] = 1
    return H


def exact_down(parent: Sequence[int], v: Sequence[int]) -> list[int]:
    """Sums of v over each path to the root, in Python's unbounded integers."""
    return [sum(int(v[a]) for a in ancestors(parent, i)) for i in range(len(parent))]


def exact_up(parent: Sequence[int], v: Sequence[int]) -> list[int]:
    """Sums of v over each subtree, in Python's unbounded integers."""
    out = [0] * len(parent)
    for i in range(len(parent)):
        for a in ancestors(parent, i):
            out[a] += int(v[i])
    return out


def factorize(labels: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """(code of each label by first appearance, first row of each code)."""
    distinct = list(dict.fromkeys(labels))
    return [distinct.index(x) for x in labels], [list(labels).index(x) for x in distinct]
