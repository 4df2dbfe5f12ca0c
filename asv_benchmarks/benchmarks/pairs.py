"""Pairs of nodes, and sparse matrices of a tree beside scipy's own conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gmtree as gm
from gmtree.bench import trees
from gmtree.bench.timing import copy_ratio, ratio

from . import COPIES, NODES, unit

SHAPES = ("census", "binary", "chain", "random")
PAIRS = 1_000_000
CONVERSIONS = "times scipy COO to CSR"


class Pairs:
    """A million random pairs."""

    params = (SHAPES, NODES)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        self.tree = trees.make(shape, nodes)
        rng = np.random.default_rng(1)
        self.i, self.j = rng.integers(0, self.tree.n, (2, PAIRS))
        # Builds the index and compiles.
        self.tree.distance(self.i, self.j)
        self.tree.is_ancestor(self.i, self.j)

    def prepare(self) -> None:
        self.tree._cache.clear()
        self.tree.lca(0, 0)

    def time_prepare(self, shape: str, nodes: int) -> None:
        self.prepare()

    def time_lca(self, shape: str, nodes: int) -> None:
        self.tree.lca(self.i, self.j)

    def time_distance(self, shape: str, nodes: int) -> None:
        self.tree.distance(self.i, self.j)

    def time_is_ancestor(self, shape: str, nodes: int) -> None:
        self.tree.is_ancestor(self.i, self.j)

    @unit(COPIES)
    def track_prepare(self, shape: str, nodes: int) -> float:
        return copy_ratio(self.prepare, self.tree.n, times=3)

    @unit(COPIES)
    def track_lca(self, shape: str, nodes: int) -> float:
        return copy_ratio(lambda: self.tree.lca(self.i, self.j), self.tree.n)

    @unit(COPIES)
    def track_distance(self, shape: str, nodes: int) -> float:
        return copy_ratio(lambda: self.tree.distance(self.i, self.j), self.tree.n)


BUILDERS: dict[str, Callable] = {
    "laplacian": gm.laplacian,
    "adjacency": gm.adjacency,
    "undirected adjacency": lambda tree: gm.adjacency(tree, directed=False),
    "generation matrix": lambda tree: gm.GenerationMatrix(tree).tocsr(),
}


class SparseMatrices:
    """Matrices built row by row from nothing but the tree, beside scipy's COO to CSR.

    Scipy is given the entries as the edges come, or row by row, which spares it all scattered
    access.
    """

    params = (("binary", "random", "random, shuffled"), NODES, tuple(BUILDERS))
    param_names = ("shape", "nodes", "matrix")

    def setup(self, shape: str, nodes: int, matrix: str) -> None:
        tree = trees.make(shape.split(",")[0], nodes)
        if shape.endswith("shuffled"):
            tree = gm.Tree.from_parents(trees.shuffled(tree))
        self.tree, self.build = tree, BUILDERS[matrix]
        # Compiles.
        matrix = self.build(tree)
        self.by_edge, self.by_row = trees.entries_by_edge(matrix, tree), matrix.tocoo()

    def anew(self) -> None:
        self.tree._cache.clear()
        self.build(self.tree)

    def time_build(self, shape: str, nodes: int, matrix: str) -> None:
        self.anew()

    @unit(CONVERSIONS)
    def track_build_by_edge(self, shape: str, nodes: int, matrix: str) -> float:
        return ratio(self.anew, self.by_edge.tocsr, times=3)

    @unit(CONVERSIONS)
    def track_build_by_row(self, shape: str, nodes: int, matrix: str) -> float:
        return ratio(self.anew, self.by_row.tocsr, times=3)
