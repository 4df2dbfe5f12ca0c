"""Time to make a tree from its parents, in several numberings."""

from __future__ import annotations

import gmtree as gm

from .common import NODES, SHAPES, depth_first, make, shuffled

NUMBERINGS = {
    "canonical": lambda tree: tree.canonical().parent,
    "depth first": depth_first,
    "shuffled": shuffled,
}


class Build:
    params = (SHAPES, NODES, tuple(NUMBERINGS))
    param_names = ("shape", "nodes", "numbering")

    def setup(self, shape: str, nodes: int, numbering: str) -> None:
        self.parent = NUMBERINGS[numbering](make(shape, nodes))
        # This call compiles the kernels.
        gm.Tree.from_parents(self.parent)

    def time_from_parents(self, shape: str, nodes: int, numbering: str) -> None:
        gm.Tree.from_parents(self.parent)
