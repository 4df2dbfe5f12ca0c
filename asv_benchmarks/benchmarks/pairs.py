"""Time of queries about pairs of nodes, and of sparse matrices of a tree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gmtree as gm

from .common import NODES, make, shuffled

SHAPES = ("census", "binary", "chain", "random")
PAIRS = 1_000_000


class Pairs:
    """Queries about a million random pairs."""

    params = (SHAPES, NODES)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        self.tree = make(shape, nodes)
        rng = np.random.default_rng(1)
        self.i, self.j = rng.integers(0, self.tree.n, (2, PAIRS))
        # This call builds the index and compiles the kernels.
        self.tree.distance(self.i, self.j)
        self.tree.is_ancestor(self.i, self.j)

    def time_lca(self, shape: str, nodes: int) -> None:
        self.tree.lca(self.i, self.j)

    def time_distance(self, shape: str, nodes: int) -> None:
        self.tree.distance(self.i, self.j)

    def time_is_ancestor(self, shape: str, nodes: int) -> None:
        self.tree.is_ancestor(self.i, self.j)


class FirstCall:
    """Base class for properties that a tree caches, with a new tree for every measurement."""

    number = 1

    def new_tree(self, parent: np.ndarray, use: Callable[[gm.Tree], object]) -> None:
        # This call compiles the kernels, with another tree.
        use(gm.Tree.from_parents(parent))
        self.tree = gm.Tree.from_parents(parent)


class Prepare(FirstCall):
    """Construction of the index for pairs."""

    params = (SHAPES, NODES)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        self.new_tree(make(shape, nodes).parent, lambda tree: tree.lca(0, 0))

    def time_prepare(self, shape: str, nodes: int) -> None:
        self.tree.lca(0, 0)


BUILDERS: dict[str, Callable] = {
    "laplacian": lambda tree: gm.laplacian(tree),
    "adjacency": lambda tree: gm.adjacency(tree),
    "undirected adjacency": lambda tree: gm.adjacency(tree, directed=False),
    "generation matrix": lambda tree: gm.GenerationMatrix(tree).tocsr(),
}


class SparseMatrices(FirstCall):
    """Construction of sparse matrices from the tree."""

    params = (("binary", "random", "random, shuffled"), NODES, tuple(BUILDERS))
    param_names = ("shape", "nodes", "matrix")

    def setup(self, shape: str, nodes: int, matrix: str) -> None:
        tree = make(shape.partition(",")[0], nodes)
        self.build = BUILDERS[matrix]
        self.new_tree(shuffled(tree) if shape.endswith("shuffled") else tree.parent, self.build)

    def time_build(self, shape: str, nodes: int, matrix: str) -> None:
        self.build(self.tree)
