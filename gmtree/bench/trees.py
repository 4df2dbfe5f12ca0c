"""Trees for benchmarks: shapes that resemble large data sets, and extreme shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gmtree import datasets, shapes
from gmtree.tree import Tree

# Families of 2, 3, 4 and 5 nodes with probabilities of 40, 30, 20 and 10 % have 3 nodes on average,
# and 1 + 1/3 + 1/9 + ... = 1.5.
GROUPED_NODES_PER_LEAF = 1.5
# A group has 20 leaves, and each node above has 50 groups.
SERIES_NODES_PER_LEAF = 1.051


class Shape(NamedTuple):
    """A function that makes a tree of a given approximate size, and the default size."""

    make: Callable[[int], Tree]
    nodes: int


def _census(nodes: int) -> Tree:
    return datasets.census2010(nodes=nodes).tree


def _binary(nodes: int) -> Tree:
    return shapes.complete(2, binary_height(nodes))


def _depth_first(nodes: int) -> Tree:
    return Tree.from_parents(depth_first(_binary(nodes)))


def _grouped(nodes: int) -> Tree:
    return shapes.grouped(round(nodes / GROUPED_NODES_PER_LEAF), rng=1)


def _series(nodes: int) -> Tree:
    leaf = np.arange(round(nodes / SERIES_NODES_PER_LEAF))
    return Tree.from_levels(leaf // 1000, leaf // 20, leaf)


def _random(nodes: int) -> Tree:
    return shapes.random_recursive(nodes, rng=1)


SHAPES = {
    "census": Shape(_census, 11_802_162),
    "binary": Shape(_binary, 2**24 - 1),
    "depth first": Shape(_depth_first, 2**24 - 1),  # the binary tree in another numbering
    "grouped": Shape(_grouped, 15_000_000),  # random families of 2 to 5
    "series": Shape(_series, 105_100),  # 100,000 time series in groups
    "chain": Shape(shapes.chain, 10_000_000),
    "star": Shape(shapes.star, 10_000_000),
    "caterpillar": Shape(shapes.caterpillar, 10_000_000),
    "random": Shape(_random, 10_000_000),
}

# The shapes that resemble large data sets, and the extreme shapes.
LARGE = ("census", "binary", "grouped")
EXTREMES = ("chain", "star", "caterpillar", "random")


def make(shape: str, nodes: int | None = None) -> Tree:
    """A tree of a shape, with about `nodes` nodes or of its full size.

    Examples
    --------
    >>> from gmtree.bench import trees
    >>> trees.make("binary", 1000)
    Tree(n=1023, internal=511, leaves=512, height=10)
    >>> trees.make("grouped", 1000).n_leaves
    667
    """
    chosen = SHAPES[shape]
    return chosen.make(chosen.nodes if nodes is None else nodes)


def binary_height(nodes: int) -> int:
    """Height of the complete binary tree whose size is nearest to `nodes`.

    Examples
    --------
    >>> from gmtree.bench import trees
    >>> trees.binary_height(2**24 - 1)
    24
    """
    return max(2, round(float(np.log2(nodes + 1))))


def renumber(parent: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Parents of the tree in which node i gets the number ``number[i]``.

    Examples
    --------
    >>> import numpy as np
    >>> from gmtree.bench import trees
    >>> trees.renumber(np.array([-1, 0, 0]), np.array([2, 0, 1]))
    array([ 2,  2, -1])
    """
    renamed = np.empty_like(parent)
    renamed[number] = np.where(parent < 0, -1, number[parent])
    return renamed


def shuffled(tree: Tree) -> np.ndarray:
    """Parents of the tree with its nodes numbered at random."""
    number = np.random.default_rng(2).permutation(tree.n).astype(tree.parent.dtype)
    return renumber(tree.parent, number)


def depth_first(tree: Tree) -> np.ndarray:
    """Parents of the tree with its nodes numbered depth first, so that parents come first.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.bench import trees
    >>> trees.depth_first(gm.shapes.complete(2, 3))
    array([-1,  0,  1,  1,  0,  4,  4], dtype=int32)
    """
    number = np.empty_like(tree.parent)
    number[tree._walk()] = np.arange(tree.n)
    return renumber(tree.parent, number)
