"""Consistent values: both stages, their errors, bounded and whole numbers, and what others do."""

from __future__ import annotations

import numpy as np

import gmtree as gm
from gmtree.bench import trees
from gmtree.bench.comparisons import COMPARISONS, CONSISTENT, NONNEGATIVE, measurements
from gmtree.bench.timing import copy_ratio, ratio

from . import ALL_SHAPES, COPIES, LARGE, LARGEST, NODES, unit

VARIANCES = ("equal", "per node")


def variance_of(tree: gm.Tree, variance: str) -> np.ndarray | None:
    return None if variance == "equal" else np.random.default_rng(0).uniform(1, 2, tree.n)


class Factor:
    """Stage 1, given the tree: once for each choice of variances."""

    params = (ALL_SHAPES, NODES, VARIANCES)
    param_names = ("shape", "nodes", "variance")

    def setup(self, shape: str, nodes: int, variance: str) -> None:
        self.tree = trees.make(shape, nodes)
        self.variance = variance_of(self.tree, variance)
        # Compiles.
        self.factor()

    def factor(self) -> None:
        gm.Consistency(self.tree, self.variance)

    def time_factor(self, shape: str, nodes: int, variance: str) -> None:
        self.factor()

    def peakmem_factor(self, shape: str, nodes: int, variance: str) -> None:
        self.factor()

    @unit(COPIES)
    def track_factor(self, shape: str, nodes: int, variance: str) -> float:
        return copy_ratio(self.factor, self.tree.n)


class Project:
    """Stage 2 into memory that is already there, with all cores and with one."""

    params = (ALL_SHAPES, NODES, VARIANCES, ("all", "one"))
    param_names = ("shape", "nodes", "variance", "threads")

    def setup(self, shape: str, nodes: int, variance: str, threads: str) -> None:
        tree = trees.make(shape, nodes)
        self.noisy, self.out = measurements(tree), np.empty(tree.n)
        count = 1 if threads == "one" else None
        self.post = gm.Consistency(tree, variance_of(tree, variance), threads=count)
        # Compiles.
        self.project()

    def project(self) -> None:
        self.post.project(self.noisy, out=self.out)

    def time_project(self, shape: str, nodes: int, variance: str, threads: str) -> None:
        self.project()

    def peakmem_baseline(self, shape: str, nodes: int, variance: str, threads: str) -> None:
        """What a projection starts from."""

    def peakmem_project(self, shape: str, nodes: int, variance: str, threads: str) -> None:
        self.project()

    @unit(COPIES)
    def track_project(self, shape: str, nodes: int, variance: str, threads: str) -> float:
        return copy_ratio(self.project, self.noisy.size)


class Bounded:
    """Non-negative and whole numbers, beside the plain projection."""

    params = (LARGE, LARGEST, (False, True))
    param_names = ("shape", "nodes", "integer")

    def setup(self, shape: str, nodes: int, integer: bool) -> None:
        tree = trees.make(shape, nodes)
        self.noisy, self.post = measurements(tree), gm.Consistency(tree)
        self.integer = integer
        # Compiles.
        self.bounded()

    def bounded(self) -> None:
        self.post.project(self.noisy, nonnegative=True, integer=self.integer)

    def time_bounded(self, shape: str, nodes: int, integer: bool) -> None:
        self.bounded()

    @unit("times a plain projection")
    def track_bounded(self, shape: str, nodes: int, integer: bool) -> float:
        return ratio(self.bounded, lambda: self.post.project(self.noisy), times=3)


class Errors:
    """Exact variances: of all nodes, and of a hundred thousand ranges of leaves."""

    params = (LARGE, LARGEST, VARIANCES)
    param_names = ("shape", "nodes", "variance")

    def setup(self, shape: str, nodes: int, variance: str) -> None:
        self.tree = trees.make(shape, nodes)
        self.variance = variance_of(self.tree, variance)
        rng = np.random.default_rng(1)
        self.ranges = np.sort(rng.integers(0, self.tree.n_leaves + 1, (100_000, 2)), axis=1)
        self.post = gm.Consistency(self.tree, self.variance)
        # Compiles, and prepares what all ranges share.
        self.both_stages()
        self.post.leaf_sum_variance(self.ranges)

    def both_stages(self) -> None:
        # A solver of its own: variances are kept once they are there.
        gm.Consistency(self.tree, self.variance).node_variance()

    def time_factor_and_node_variance(self, shape: str, nodes: int, variance: str) -> None:
        self.both_stages()

    def time_ranges(self, shape: str, nodes: int, variance: str) -> None:
        self.post.leaf_sum_variance(self.ranges)

    @unit(COPIES)
    def track_factor_and_node_variance(self, shape: str, nodes: int, variance: str) -> float:
        return copy_ratio(self.both_stages, self.tree.n, times=3)


class Baselines:
    """The sweeps of others, compiled."""

    params = (("boosting", "privtrie"), LARGE, LARGEST)
    param_names = ("method", "shape", "nodes")

    def setup(self, method: str, shape: str, nodes: int) -> None:
        self.tree = trees.make(shape, nodes)
        self.noisy, self.method = measurements(self.tree), getattr(gm.baselines, method)
        # Compiles.
        self.run()

    def run(self) -> None:
        self.method(self.tree, self.noisy)

    def time_method(self, method: str, shape: str, nodes: int) -> None:
        self.run()

    @unit(COPIES)
    def track_method(self, method: str, shape: str, nodes: int) -> float:
        return copy_ratio(self.run, self.tree.n)


PEERS = {
    f"{c.task}: {c.peer}, {shape}": (c, shape)
    for c in COMPARISONS
    if c.task in (CONSISTENT, NONNEGATIVE) and c.is_installed
    for shape in c.shapes
}


class Peers:
    """Others who make values consistent, those that are installed."""

    params = (tuple(PEERS), LARGEST)
    param_names = ("peer and shape", "nodes")

    @unit("times as long as we take")
    def track_peer(self, peer: str, nodes: int) -> float:
        comparison, shape = PEERS[peer]
        nodes = min(nodes, comparison.most_nodes.get(shape, nodes))
        pair = comparison.prepare(trees.make(shape, nodes))
        return ratio(pair.theirs, pair.ours, times=3)
