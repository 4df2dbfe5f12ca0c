"""Time of bounded optima in hard cases: worst cases, and special variances and bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gmtree as gm

from .common import LARGEST, make, measurements

Case = tuple[gm.Tree, np.ndarray, np.ndarray | None]


def held_slowly(m: int, share: float) -> np.ndarray:
    """Leaf values for which each round of the bounded optimum holds a share of the free leaves.

    From each block of leaves to the next, the distance from the mean grows by the factor 1 / share.
    The smaller the share, the more rounds are needed.
    """
    sizes, left = [], m
    while left:
        sizes.append(min(left, max(1, round(share * left))))
        left -= sizes[-1]
    # Beyond 2^50, the small numbers would vanish in sums with the large ones.
    exponent = np.minimum(np.arange(len(sizes)) * np.log2(1 / share), 50.0)
    return -np.repeat(2.0**exponent, sizes[::-1])


def star(nodes: int) -> Case:
    """Projection onto a simplex with the largest possible number of rounds."""
    return gm.shapes.star(nodes), np.r_[1.0, held_slowly(nodes - 1, 0.1)], None


def spider(nodes: int) -> Case:
    """Like `star`, but each leaf has its own parent, so that rounds become passes over the tree."""
    m = nodes // 2
    v = held_slowly(m, 0.1)
    return gm.shapes.from_fanouts([[m], [1] * m]), np.r_[1.0, v, v], None


def caterpillar(nodes: int) -> Case:
    """A deep tree that is equivalent to a star, since its internal nodes are not measured."""
    return _unmeasured(gm.shapes.caterpillar(nodes))


def binary(nodes: int) -> Case:
    """A binary tree that is equivalent to a star."""
    return _unmeasured(make("binary", nodes))


def zeros(nodes: int) -> Case:
    """Pure noise, of which the optimum is zero at almost all leaves."""
    tree = gm.shapes.caterpillar(nodes)
    return tree, np.random.default_rng(0).laplace(0, 8, tree.n), None


def _unmeasured(tree: gm.Tree) -> Case:
    s = np.where(tree.child_count > 0, np.inf, 1.0)
    s[tree.root] = 1.0
    v = np.zeros(tree.n)
    v[tree.leaves] = np.random.default_rng(0).permutation(held_slowly(tree.n_leaves, 0.3))
    return tree, v, s


WORST: dict[str, Callable[[int], Case]] = {
    "star": star,
    "spider": spider,
    "caterpillar": caterpillar,
    "binary": binary,
    "zeros": zeros,
}


class WorstCases:
    """Cases in which the set of held leaves grows slowly."""

    params = (tuple(WORST), LARGEST)
    param_names = ("case", "nodes")

    def setup(self, case: str, nodes: int) -> None:
        tree, self.v, s = WORST[case](nodes)
        self.post, self.out = gm.Consistency(tree, s), np.zeros(tree.n)
        # This call compiles the kernels.
        self.time_nonnegative(case, nodes)

    def time_nonnegative(self, case: str, nodes: int) -> None:
        self.post.project(self.v, nonnegative=True, out=self.out)


class Settings:
    """Special variances and bounds, for census-shaped counts."""

    params = (("equal", "per node", "known", "not measured", "bounds", "no bounds"), LARGEST)
    param_names = ("setting", "nodes")

    def setup(self, setting: str, nodes: int) -> None:
        tree = make("census", nodes)
        rng = np.random.default_rng(1)
        self.v, s = measurements(tree), None
        self.options: dict = {"nonnegative": True}
        if setting == "per node":
            s = rng.uniform(1, 2, tree.n)
        elif setting == "known":
            # The counts of states are published without noise, as in a census.
            states = tree.depth == 2
            s = np.where(states, 0.0, 1.0)
            self.v[states] = np.maximum(self.v[states], 0)
        elif setting == "not measured":
            s = np.where((tree.depth % 2 == 0) & (tree.child_count > 0), np.inf, 1.0)
        elif setting == "bounds":
            self.options = {"lower": rng.integers(0, 3, tree.n_leaves)}
        elif setting == "no bounds":
            self.options = {"lower": -np.inf}
        self.post, self.out = gm.Consistency(tree, s), np.zeros(tree.n)
        # This call compiles the kernels.
        self.time_bounded(setting, nodes)

    def time_bounded(self, setting: str, nodes: int) -> None:
        self.post.project(self.v, out=self.out, **self.options)
