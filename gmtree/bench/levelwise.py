"""Consistency in vectorised numpy, one level at a time and without a loop over nodes.

Benchmarks compare gmtree with this code. It calls a few numpy functions per level, which is fast
for trees with few and large levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree.tree import Tree


class Level(NamedTuple):
    """The nodes of one depth and their families. Positions are numbered from the root down.

    Attributes
    ----------
    nodes : slice
        Positions of the nodes.
    inner : slice or array of int
        Nodes that have children, counted within the level.
    kids : slice
        Positions of all children.
    first : array of int
        First child of each inner node, counted within `kids`.
    size : array of int
        Number of children of each inner node.
    t : array
        For each inner node, the sum of the variances `q` of its children.
    q : array or None
        Variance of each child's estimate from below; None if all children are leaves.
    """

    nodes: slice
    inner: slice | np.ndarray
    kids: slice
    first: np.ndarray
    size: np.ndarray
    t: np.ndarray
    q: np.ndarray | None


class LevelByLevel:
    """Optimal consistent values for equal variances, with numpy alone.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> from gmtree.bench.levelwise import LevelByLevel
    >>> tree = gm.shapes.random_recursive(1000, rng=1)
    >>> noisy = np.random.default_rng(2).normal(10, 3, tree.n)
    >>> np.allclose(LevelByLevel(tree).project(noisy), gm.reconcile(tree, noisy))
    True
    """

    def __init__(self, tree: Tree) -> None:
        order, starts = _breadth_first(tree)
        # If the nodes already have this order, no permutation is needed.
        self.order = None if np.array_equal(order, np.arange(tree.n)) else order
        self.levels: list[Level] = []
        children = tree.child_count[order]
        q = np.ones(tree.n)
        for k in reversed(range(len(starts) - 2)):
            top, bottom, end = starts[k : k + 3]
            inner = np.flatnonzero(children[top:bottom])
            count = children[top:bottom][inner]
            first = np.cumsum(count) - count
            leaves_below = not children[bottom:end].any()
            t = np.add.reduceat(q[bottom:end], first)
            q[top:bottom][inner] = t / (1 + t)
            self.levels.append(
                Level(
                    nodes=slice(top, bottom),
                    inner=slice(None) if inner.size == bottom - top else inner,
                    kids=slice(bottom, end),
                    first=first,
                    size=count,
                    t=t,
                    q=None if leaves_below else q[bottom:end].copy(),
                )
            )

    def project(self, noisy: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the consistent values closest to the measurements, computed level by level."""
        if out is None:
            out = np.empty_like(noisy)
        z = out if self.order is None else np.empty_like(noisy)
        np.copyto(z, noisy if self.order is None else noisy[self.order])
        sums = []
        for level in self.levels:
            below = np.add.reduceat(z[level.kids], level.first)
            sums.append(below)
            own = z[level.nodes]
            own[level.inner] = (own[level.inner] * level.t + below) / (1 + level.t)
        for level, below in zip(reversed(self.levels), reversed(sums), strict=True):
            change = np.repeat((z[level.nodes][level.inner] - below) / level.t, level.size)
            if level.q is not None:
                change *= level.q
            z[level.kids] += change
        if self.order is not None:
            out[self.order] = z
        return out


def _breadth_first(tree: Tree) -> tuple[np.ndarray, list[int]]:
    """Nodes from the root down with siblings together, and the start of each level, then n."""
    start, child = tree._children
    level = np.array([tree.root])
    levels, starts = [], [0]
    while level.size:
        levels.append(level)
        starts.append(starts[-1] + level.size)
        count = (start[level + 1] - start[level]).astype(np.int64)
        first = np.cumsum(count) - count
        level = child[np.repeat(start[level] - first, count) + np.arange(count.sum())]
    return np.concatenate(levels), starts
