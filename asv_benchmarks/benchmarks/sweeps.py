"""Time of sweeps with a Generation Matrix: downward (`solve`) and upward (`T.solve`)."""

from __future__ import annotations

import numpy as np

import gmtree as gm

from .common import LARGE, LARGEST, NODES, SHAPES, make

WEIGHTS = ("none", "node and edge")


class Sweeps:
    params = (SHAPES, NODES, WEIGHTS)
    param_names = ("shape", "nodes", "weights")

    def setup(self, shape: str, nodes: int, weights: str) -> None:
        tree = make(shape, nodes).canonical()
        rng = np.random.default_rng(0)
        w = None if weights == "none" else rng.uniform(1, 2, tree.n)
        self.G = gm.GenerationMatrix(tree, w, w)
        self.v, self.out = rng.standard_normal(tree.n), np.zeros(tree.n)
        # This call compiles the kernels.
        self.time_solve(shape, nodes, weights)
        self.time_transposed_solve(shape, nodes, weights)

    def time_solve(self, shape: str, nodes: int, weights: str) -> None:
        self.G.solve(self.v, out=self.out)

    def time_transposed_solve(self, shape: str, nodes: int, weights: str) -> None:
        self.G.T.solve(self.v, out=self.out)


class Columns:
    """One and eight right-hand sides in one sweep."""

    params = (LARGE, LARGEST, (1, 8))
    param_names = ("shape", "nodes", "columns")

    def setup(self, shape: str, nodes: int, columns: int) -> None:
        tree = make(shape, nodes)
        self.G = gm.GenerationMatrix(tree)
        self.v, self.out = np.ones((tree.n, columns)), np.zeros((tree.n, columns))
        # This call compiles the kernels.
        self.time_solve(shape, nodes, columns)
        self.time_transposed_solve(shape, nodes, columns)

    def time_solve(self, shape: str, nodes: int, columns: int) -> None:
        self.G.solve(self.v, out=self.out)

    def time_transposed_solve(self, shape: str, nodes: int, columns: int) -> None:
        self.G.T.solve(self.v, out=self.out)
