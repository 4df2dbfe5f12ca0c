"""Others who do the same, those that are installed."""

from __future__ import annotations

from gmtree.bench import trees
from gmtree.bench.comparisons import COMPARISONS
from gmtree.bench.timing import ratio

from . import LARGEST, unit

PEERS = {
    f"{c.task}: {c.peer} on {shape}": (c, shape)
    for c in COMPARISONS
    if c.is_installed
    for shape in c.shapes
}


class Peers:
    params = (tuple(PEERS), LARGEST)
    param_names = ("peer", "nodes")

    def setup(self, peer: str, nodes: int) -> None:
        comparison, shape = PEERS[peer]
        nodes = min(nodes, comparison.most_nodes.get(shape, nodes))
        self.pair = comparison.prepare(trees.make(shape, nodes).canonical())

    @unit("times as long as we take")
    def track_peer(self, peer: str, nodes: int) -> float:
        return ratio(self.pair.theirs, self.pair.ours, times=1)
