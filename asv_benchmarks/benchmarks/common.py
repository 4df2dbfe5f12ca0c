"""Sizes, trees and measurements that all benchmarks use.

asv runs today's benchmarks against the package of any commit, so they use only public names of
gmtree. A benchmark of a name that an older commit lacks has no result there.

The environment variable ``GMTREE_BENCH_NODES`` sets the sizes of trees, for example ``10000`` or
``100000,1000000``.
"""

from __future__ import annotations

import os
from unittest.mock import patch

import numpy as np

import gmtree as gm

NODES = tuple(int(x) for x in os.environ.get("GMTREE_BENCH_NODES", "100000,1000000").split(","))
LARGEST = NODES[-1:]

# Nodes per leaf: families of 2, 3, 4 and 5 nodes with probabilities of 40, 30, 20 and 10 % have 3
# nodes on average, and 1 + 1/3 + 1/9 + ... = 1.5.
GROUPED_NODES_PER_LEAF = 1.5

MAKE = {
    "census": lambda nodes: gm.datasets.census2010(nodes=nodes).tree,
    "binary": lambda nodes: gm.shapes.complete(2, max(2, round(float(np.log2(nodes + 1))))),
    "grouped": lambda nodes: gm.shapes.grouped(round(nodes / GROUPED_NODES_PER_LEAF), rng=1),
    "chain": gm.shapes.chain,
    "star": gm.shapes.star,
    "caterpillar": gm.shapes.caterpillar,
    "random": lambda nodes: gm.shapes.random_recursive(nodes, rng=1),
}

# Three shapes that resemble large data sets, and all shapes including two extreme ones.
LARGE = ("census", "binary", "grouped")
SHAPES = (*LARGE, "chain", "star")

# Each benchmark runs in a fork of the process that imports this module, so this process starts the
# compiler once for all. On small trees kernels would otherwise run as plain Python.
with patch.dict(os.environ, GMTREE_ALWAYS_COMPILE="1"):
    gm.reconcile(gm.shapes.star(3), [1.0, 2.0, 3.0])


def make(shape: str, nodes: int) -> gm.Tree:
    """A tree of the given shape with about `nodes` nodes."""
    return MAKE[shape](nodes)


def shuffled(tree: gm.Tree) -> np.ndarray:
    """Parents of the tree with its nodes numbered at random."""
    number = np.random.default_rng(2).permutation(tree.n).astype(tree.parent.dtype)
    return renumbered(tree.parent, number)


def depth_first(tree: gm.Tree) -> np.ndarray:
    """Parents of the tree with its nodes numbered depth first, so that parents come first."""
    size = tree.subtree_size.astype(np.int64)
    # Each node comes after its parent and after all nodes below its earlier siblings.
    siblings = np.argsort(tree.parent, kind="stable")
    before = np.cumsum(size[siblings]) - size[siblings]
    is_first = np.diff(tree.parent[siblings], prepend=-2) != 0
    before -= np.maximum.accumulate(np.where(is_first, before, 0))
    step = np.empty(tree.n, dtype=np.int64)
    step[siblings] = before + 1
    step[tree.root] = 0
    number = gm.GenerationMatrix(tree).solve(step)
    return renumbered(tree.parent, number.astype(tree.parent.dtype))


def renumbered(parent: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Parents of the tree in which node i gets the number ``number[i]``."""
    renamed = np.empty_like(parent)
    renamed[number] = np.where(parent < 0, -1, number[parent])
    return renamed


def measurements(tree: gm.Tree) -> np.ndarray:
    """Noisy counts of all nodes, some of them negative."""
    rng = np.random.default_rng(3)
    truth = tree.aggregate(rng.poisson(5.0, tree.n_leaves)).astype(np.float64)
    return truth + rng.laplace(0.0, min(tree.height, 64), tree.n)
