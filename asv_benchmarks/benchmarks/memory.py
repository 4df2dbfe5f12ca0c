"""Peak memory of whole processes; subtract `peakmem_baseline`, which only makes the tree."""

from __future__ import annotations

import numpy as np

import gmtree as gm

from .common import LARGE, LARGEST, make, measurements, shuffled


class Memory:
    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        self.tree = make(shape, nodes)
        self.shuffled = shuffled(self.tree)
        self.noisy, self.out = measurements(self.tree), np.zeros(self.tree.n)

    def peakmem_baseline(self, shape: str, nodes: int) -> None:
        """Memory that every benchmark of this class holds before it begins."""

    def peakmem_build(self, shape: str, nodes: int) -> None:
        gm.Tree.from_parents(self.shuffled)

    def peakmem_project(self, shape: str, nodes: int) -> None:
        gm.Consistency(self.tree).project(self.noisy, out=self.out)

    def peakmem_nonnegative(self, shape: str, nodes: int) -> None:
        gm.Consistency(self.tree).project(self.noisy, nonnegative=True, out=self.out)
