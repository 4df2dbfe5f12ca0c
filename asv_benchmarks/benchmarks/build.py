"""Making a tree from its parents, in several numberings."""

from __future__ import annotations

import numpy as np

import gmtree as gm
from gmtree.bench import trees
from gmtree.bench.timing import ratio

from . import NODES, SHAPES, unit

NUMBERINGS = {
    "canonical": lambda tree: tree.canonical().parent,
    "depth first": trees.depth_first,
    "shuffled": trees.shuffled,
}


class Build:
    params = (SHAPES, NODES, tuple(NUMBERINGS))
    param_names = ("shape", "nodes", "numbering")

    def setup(self, shape: str, nodes: int, numbering: str) -> None:
        self.parent = NUMBERINGS[numbering](trees.make(shape, nodes))
        self.heights = gm.Tree.from_parents(self.parent).node_height

    def time_from_parents(self, shape: str, nodes: int, numbering: str) -> None:
        gm.Tree.from_parents(self.parent)

    @unit("times a stable argsort of the heights")
    def track_from_parents(self, shape: str, nodes: int, numbering: str) -> float:
        return ratio(
            lambda: gm.Tree.from_parents(self.parent),
            lambda: np.argsort(self.heights, kind="stable"),
            times=3,
        )
