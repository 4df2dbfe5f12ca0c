"""Memory: of whole processes beside one that only makes the tree, and by the node."""

from __future__ import annotations

import numpy as np

import gmtree as gm
from gmtree.bench import trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.timing import peak_bytes

from . import LARGE, LARGEST, unit

BYTES = "bytes per node"


class Memory:
    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        tree = trees.make(shape, nodes)
        self.shuffled = trees.shuffled(tree)
        self.tree = tree
        self.noisy, self.out = measurements(tree), np.empty(tree.n)

    def build(self) -> gm.Tree:
        return gm.Tree.from_parents(self.shuffled)

    def project(self) -> None:
        gm.Consistency(self.tree).project(self.noisy, out=self.out)

    def peakmem_baseline(self, shape: str, nodes: int) -> None:
        """What the others hold before they begin."""

    def peakmem_build(self, shape: str, nodes: int) -> None:
        self.build()

    def peakmem_project(self, shape: str, nodes: int) -> None:
        self.project()

    def peakmem_nonnegative(self, shape: str, nodes: int) -> None:
        gm.Consistency(self.tree).project(self.noisy, nonnegative=True, out=self.out)

    @unit(BYTES)
    def track_tree(self, shape: str, nodes: int) -> float:
        return self.build().nbytes / self.tree.n

    @unit(BYTES)
    def track_build(self, shape: str, nodes: int) -> float:
        return peak_bytes(self.build) / self.tree.n

    @unit(BYTES)
    def track_project(self, shape: str, nodes: int) -> float:
        return peak_bytes(self.project) / self.tree.n
