"""Consistency: construction, projection, bounds, whole numbers, exact errors, and baselines."""

from __future__ import annotations

import numpy as np

import gmtree as gm
from gmtree.bench import trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.timing import copy_ratio, ratio

from . import COPIES, LARGE, LARGEST, NODES, SHAPES, unit

VARIANCES = ("equal", "per node")


class Problem:
    """Noisy counts on a tree."""

    def setup(self, shape: str, nodes: int, variance: str = "equal") -> None:
        self.tree = trees.make(shape, nodes).canonical()
        self.noisy, self.out = measurements(self.tree), np.zeros(self.tree.n)
        self.variance = None
        if variance == "per node":
            self.variance = np.random.default_rng(0).uniform(1, 2, self.tree.n)


class Construct(Problem):
    """Stage 1, given the tree: once for each choice of variances."""

    params = (SHAPES, NODES, VARIANCES)
    param_names = ("shape", "nodes", "variance")

    def setup(self, shape: str, nodes: int, variance: str) -> None:
        super().setup(shape, nodes, variance)
        # Compiles.
        self.construct()

    def construct(self) -> None:
        gm.Consistency(self.tree, self.variance)

    def time_construct(self, shape: str, nodes: int, variance: str) -> None:
        self.construct()

    @unit(COPIES)
    def track_construct(self, shape: str, nodes: int, variance: str) -> float:
        return copy_ratio(self.construct, self.tree.n)


class Project(Problem):
    """Stage 2, into memory that is already there."""

    params = (SHAPES, NODES, VARIANCES)
    param_names = ("shape", "nodes", "variance")

    def setup(self, shape: str, nodes: int, variance: str) -> None:
        super().setup(shape, nodes, variance)
        self.post = gm.Consistency(self.tree, self.variance)
        # Compiles.
        self.project()

    def project(self) -> None:
        self.post.project(self.noisy, out=self.out)

    def time_project(self, shape: str, nodes: int, variance: str) -> None:
        self.project()

    @unit(COPIES)
    def track_project(self, shape: str, nodes: int, variance: str) -> float:
        return copy_ratio(self.project, self.tree.n)


class Threads(Problem):
    """Two threads beside one."""

    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    @unit("times one thread")
    def track_two_threads(self, shape: str, nodes: int) -> float:
        one, two = (gm.Consistency(self.tree, threads=k) for k in (1, 2))
        return ratio(
            lambda: two.project(self.noisy, out=self.out),
            lambda: one.project(self.noisy, out=self.out),
        )


class Bounded(Problem):
    """Non-negative and whole numbers."""

    params = (SHAPES, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        super().setup(shape, nodes)
        self.whole = np.zeros(self.tree.n, np.int64)
        self.post = gm.Consistency(self.tree)
        # Compiles.
        self.integer()

    def nonnegative(self) -> None:
        self.post.project(self.noisy, nonnegative=True, out=self.out)

    def integer(self) -> None:
        self.post.project(self.noisy, nonnegative=True, integer=True, out=self.whole)

    def time_nonnegative(self, shape: str, nodes: int) -> None:
        self.nonnegative()

    def time_integer(self, shape: str, nodes: int) -> None:
        self.integer()

    @unit("times a plain projection")
    def track_nonnegative(self, shape: str, nodes: int) -> float:
        return ratio(self.nonnegative, lambda: self.post.project(self.noisy, out=self.out), times=3)

    @unit("passes")
    def track_passes(self, shape: str, nodes: int) -> int:
        return self.post.project(self.noisy, nonnegative=True, return_info=True)[1].passes


class Errors(Problem):
    """Exact variances of all nodes and of many ranges, and one new measurement at a time."""

    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        super().setup(shape, nodes)
        m = self.tree.n_leaves
        self.ranges = gm.queries.random_ranges(m, min(100_000, m), rng=0)
        self.post = gm.Consistency(self.tree).keep(self.noisy)
        # Compiles, and prepares what is kept.
        self.time_construct_and_node_variance(shape, nodes)
        self.time_ranges(shape, nodes)
        self.time_update(shape, nodes)

    def time_construct_and_node_variance(self, shape: str, nodes: int) -> None:
        # Constructed anew, as the variances are kept once they are there.
        gm.Consistency(self.tree).node_variance()

    def time_ranges(self, shape: str, nodes: int) -> None:
        self.post.leaf_sum_variance(self.ranges)

    def time_update(self, shape: str, nodes: int) -> None:
        self.post.update(self.tree.n - 1, 1.0)
        self.post.value(self.tree.n // 2)


class Baselines(Problem):
    """The sweeps of others, compiled."""

    params = (LARGE, LARGEST, ("boosting", "privtrie"))
    param_names = ("shape", "nodes", "method")

    def setup(self, shape: str, nodes: int, method: str) -> None:
        super().setup(shape, nodes)
        self.method = getattr(gm.baselines, method)

    @unit(COPIES)
    def track_method(self, shape: str, nodes: int, method: str) -> float:
        return copy_ratio(lambda: self.method(self.tree, self.noisy), self.tree.n)
