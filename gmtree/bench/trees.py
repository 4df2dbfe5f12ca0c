"""Trees to measure on: three that resemble large data, and the extremes of shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree import datasets, shapes
from gmtree.matrix import GenerationMatrix
from gmtree.tree import Tree

# Families of 2, 3, 4 and 5 at 40, 30, 20 and 10 % have 3 on average, and 1 + 1/3 + 1/9 + ... = 1.5.
GROUPED_NODES_PER_LEAF = 1.5


class Shape(NamedTuple):
    """How to make a tree of about so many nodes, and how many it has by default."""

    make: Callable[[int], Tree]
    nodes: int
    description: str


def _census(nodes: int) -> Tree:
    return datasets.census2010(nodes=nodes).tree


def _binary(nodes: int) -> Tree:
    return shapes.complete(2, binary_height(nodes))


def _grouped(nodes: int) -> Tree:
    return shapes.grouped(round(nodes / GROUPED_NODES_PER_LEAF), rng=1)


def _random(nodes: int) -> Tree:
    return shapes.random_recursive(nodes, rng=1)


SHAPES = {
    "census": Shape(_census, 11_802_162, "census-shaped, 8 levels"),
    "binary": Shape(_binary, 2**24 - 1, "complete binary"),
    "grouped": Shape(_grouped, 15_000_000, "random families of 2 to 5"),
    "chain": Shape(shapes.chain, 10_000_000, "every node one child"),
    "star": Shape(shapes.star, 10_000_000, "all nodes below the root"),
    "caterpillar": Shape(shapes.caterpillar, 10_000_000, "a chain with a leaf at each node"),
    "random": Shape(_random, 10_000_000, "each node below a random earlier one"),
}

# The shapes that resemble large data, and the extremes.
LARGE = ("census", "binary", "grouped")
EXTREMES = ("chain", "star", "caterpillar", "random")


def make(shape: str, nodes: int | None = None) -> Tree:
    """A tree of a shape, of about so many nodes or of its full size.

    Examples
    --------
    >>> from gmtree.bench import trees
    >>> trees.make("binary", 1000)
    Tree(n=1023, internal=511, leaves=512, height=10)
    >>> trees.make("grouped", 1000).n_leaves
    667
    """
    if shape not in SHAPES:
        check.fail("shape", f"must be one of {', '.join(SHAPES)}, not {shape!r}.")
    chosen = SHAPES[shape]
    return chosen.make(chosen.nodes if nodes is None else nodes)


def binary_height(nodes: int) -> int:
    """Height of the complete binary tree whose number of nodes is nearest.

    Examples
    --------
    >>> from gmtree.bench import trees
    >>> trees.binary_height(2**24 - 1)
    24
    """
    return max(2, round(float(np.log2(nodes + 1))))


def renumber(parent: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Parents of the same tree when node i is called ``number[i]``.

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


def shuffled(tree: Tree, rng: np.random.Generator | int = 2) -> np.ndarray:
    """Parents of the same tree, nodes numbered at random."""
    number = np.random.default_rng(rng).permutation(tree.n).astype(tree.parent.dtype)
    return renumber(tree.parent, number)


def depth_first(tree: Tree) -> np.ndarray:
    """Parents of the same tree, nodes numbered as a walk meets them: parents first.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.bench import trees
    >>> trees.depth_first(gm.shapes.complete(2, 3))
    array([-1,  0,  1,  1,  0,  4,  4], dtype=int32)
    """
    size = tree.subtree_size.astype(np.int64)
    siblings = np.argsort(tree.parent, kind="stable")
    above = tree.parent[siblings]
    before = np.cumsum(size[siblings]) - size[siblings]
    starts = np.flatnonzero(np.diff(above, prepend=-2))
    family = np.repeat(starts, np.diff(starts, append=tree.n))
    # A node comes right after its parent and what lies below its earlier siblings.
    step = np.empty(tree.n, dtype=np.int64)
    step[siblings] = 1 + before - before[family]
    step[tree.root] = 0
    number = GenerationMatrix(tree).solve(step)
    return renumber(tree.parent, number.astype(tree.parent.dtype))


def entries_by_edge(matrix: Any, tree: Tree) -> Any:
    """A sparse matrix of a tree in COO format, its entries listed as one would write them down.

    First come the entries from child to parent, then those from parent to child, then the
    diagonal. If they were listed by row, scipy could convert them without scattered access.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.bench import trees
    >>> tree = gm.shapes.star(3)
    >>> listed = trees.entries_by_edge(gm.laplacian(tree), tree)
    >>> listed.row.tolist(), listed.col.tolist()
    ([1, 2, 0, 0, 0, 1, 2], [0, 0, 1, 2, 0, 1, 2])
    """
    from scipy.sparse import coo_array

    coo = coo_array(matrix)
    up, own = tree.parent[coo.row] == coo.col, coo.row == coo.col
    slot = np.where(up, coo.row, coo.col) + tree.n * np.where(own, 2, ~up)
    entry = np.full(3 * tree.n, -1)
    entry[slot] = np.arange(coo.nnz)
    place = entry[entry >= 0]
    return coo_array((coo.data[place], (coo.row[place], coo.col[place])), shape=coo.shape)


def held_slowly(m: int, share: float, bits: float = 50.0) -> np.ndarray:
    """Leaf values for which each round of the bounded optimum holds only a share of the rest.

    The gap to the mean grows by 1 / share from one block to the next: the smaller the share, the
    more rounds, but the sooner the numbers run out of range (`bits` of exponent).

    Examples
    --------
    >>> from gmtree.bench import trees
    >>> trees.held_slowly(4, share=0.5)
    array([-1., -2., -4., -4.])
    """
    sizes, left = [], m
    while left:
        sizes.append(min(left, max(1, round(share * left))))
        left -= sizes[-1]
    exponent = np.minimum(np.arange(len(sizes)) * np.log2(1 / share), bits)
    return -np.repeat(2.0**exponent, sizes[::-1])
