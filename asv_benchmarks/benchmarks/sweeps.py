"""Sweeps with a Generation Matrix, down (solve) and up (T.solve)."""

from __future__ import annotations

import numpy as np

import gmtree as gm
from gmtree.bench import trees
from gmtree.bench.timing import copy_ratio, ratio

from . import COPIES, LARGE, LARGEST, NODES, SHAPES, unit

WEIGHTS = ("none", "node and edge")


class Sweeps:
    params = (SHAPES, NODES, WEIGHTS)
    param_names = ("shape", "nodes", "weights")

    def setup(self, shape: str, nodes: int, weights: str) -> None:
        tree = trees.make(shape, nodes).canonical()
        rng = np.random.default_rng(0)
        w = None if weights == "none" else rng.uniform(1, 2, tree.n)
        self.G = gm.GenerationMatrix(tree, w, w)
        self.v, self.out = rng.standard_normal(tree.n), np.empty(tree.n)
        # Compiles.
        self.down(), self.up()

    def down(self) -> None:
        self.G.solve(self.v, out=self.out)

    def up(self) -> None:
        self.G.T.solve(self.v, out=self.out)

    def time_solve(self, shape: str, nodes: int, weights: str) -> None:
        self.down()

    def time_transposed_solve(self, shape: str, nodes: int, weights: str) -> None:
        self.up()

    @unit(COPIES)
    def track_solve(self, shape: str, nodes: int, weights: str) -> float:
        return copy_ratio(self.down, self.v.size)

    @unit(COPIES)
    def track_transposed_solve(self, shape: str, nodes: int, weights: str) -> float:
        return copy_ratio(self.up, self.v.size)


class Columns:
    """Eight right-hand sides in one sweep, beside one."""

    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        tree = trees.make(shape, nodes)
        self.G = gm.GenerationMatrix(tree)
        self.one, self.eight = np.ones(tree.n), np.ones((tree.n, 8))
        self.out, self.outs = np.empty_like(self.one), np.empty_like(self.eight)
        # Compiles.
        self.G.solve(self.eight, out=self.outs)
        self.G.T.solve(self.eight, out=self.outs)

    def time_solve(self, shape: str, nodes: int) -> None:
        self.G.solve(self.eight, out=self.outs)

    @unit("times one column")
    def track_solve(self, shape: str, nodes: int) -> float:
        return ratio(
            lambda: self.G.solve(self.eight, out=self.outs),
            lambda: self.G.solve(self.one, out=self.out),
        )

    @unit("times one column")
    def track_transposed_solve(self, shape: str, nodes: int) -> float:
        return ratio(
            lambda: self.G.T.solve(self.eight, out=self.outs),
            lambda: self.G.T.solve(self.one, out=self.out),
        )
