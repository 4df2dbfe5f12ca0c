"""Time of `Consistency`: construction, projection, bounds, rounding, errors, and of baselines."""

from __future__ import annotations

import numpy as np

import gmtree as gm

from .common import LARGE, LARGEST, NODES, SHAPES, make, measurements

VARIANCES = ("equal", "per node")


class Problem:
    """Noisy counts on a tree."""

    def setup(self, shape: str, nodes: int, variance: str = "equal") -> None:
        self.tree = make(shape, nodes).canonical()
        self.noisy, self.out = measurements(self.tree), np.zeros(self.tree.n)
        self.variance = None
        if variance == "per node":
            self.variance = np.random.default_rng(0).uniform(1, 2, self.tree.n)


class Construct(Problem):
    """Stage 1: construction for a given tree and given variances."""

    params = (SHAPES, NODES, VARIANCES)
    param_names = ("shape", "nodes", "variance")

    def setup(self, shape: str, nodes: int, variance: str) -> None:
        super().setup(shape, nodes, variance)
        # This call compiles the kernels.
        self.time_construct(shape, nodes, variance)

    def time_construct(self, shape: str, nodes: int, variance: str) -> None:
        gm.Consistency(self.tree, self.variance)


class Project(Problem):
    """Stage 2: projection into an existing array."""

    params = (SHAPES, NODES, VARIANCES)
    param_names = ("shape", "nodes", "variance")

    def setup(self, shape: str, nodes: int, variance: str) -> None:
        super().setup(shape, nodes, variance)
        self.post = gm.Consistency(self.tree, self.variance)
        # This call compiles the kernels.
        self.time_project(shape, nodes, variance)

    def time_project(self, shape: str, nodes: int, variance: str) -> None:
        self.post.project(self.noisy, out=self.out)


class Threads(Problem):
    """Projection by one thread and by two threads."""

    params = (LARGE, LARGEST, (1, 2))
    param_names = ("shape", "nodes", "threads")

    def setup(self, shape: str, nodes: int, threads: int) -> None:
        super().setup(shape, nodes)
        self.post = gm.Consistency(self.tree, threads=threads)
        # This call compiles the kernels.
        self.time_project(shape, nodes, threads)

    def time_project(self, shape: str, nodes: int, threads: int) -> None:
        self.post.project(self.noisy, out=self.out)


class Bounded(Problem):
    """Projection to non-negative numbers, in one and in eight columns, and to integers."""

    params = (SHAPES, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        super().setup(shape, nodes)
        self.whole = np.zeros(self.tree.n, np.int64)
        self.columns = np.repeat(self.noisy[:, None], 8, axis=1)
        self.rows = np.zeros(self.columns.shape)
        self.post = gm.Consistency(self.tree)
        # These calls compile the kernels.
        self.time_integer(shape, nodes)
        self.time_nonnegative_columns(shape, nodes)

    def time_nonnegative(self, shape: str, nodes: int) -> None:
        self.post.project(self.noisy, nonnegative=True, out=self.out)

    def time_nonnegative_columns(self, shape: str, nodes: int) -> None:
        self.post.project(self.columns, nonnegative=True, out=self.rows)

    def time_integer(self, shape: str, nodes: int) -> None:
        self.post.project(self.noisy, nonnegative=True, integer=True, out=self.whole)


class NodeVariance(Problem):
    """Exact variances of all nodes."""

    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        super().setup(shape, nodes)
        # This call compiles the kernels.
        self.time_construct_and_node_variance(shape, nodes)

    def time_construct_and_node_variance(self, shape: str, nodes: int) -> None:
        # A new `Consistency` is needed, since it caches its variances.
        gm.Consistency(self.tree).node_variance()


class RangeVariance(Problem):
    """Exact variances of sums over many ranges of leaves."""

    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        super().setup(shape, nodes)
        m = self.tree.n_leaves
        self.ranges = gm.queries.random_ranges(m, min(100_000, m), rng=0)
        self.range_variance = gm.Consistency(self.tree).range_variance
        # This call compiles the kernels and fills the caches.
        self.time_ranges(shape, nodes)

    def time_ranges(self, shape: str, nodes: int) -> None:
        self.range_variance(self.ranges)


class Track(Problem):
    """Updates with one new measurement at a time."""

    params = (LARGE, LARGEST)
    param_names = ("shape", "nodes")

    def setup(self, shape: str, nodes: int) -> None:
        super().setup(shape, nodes)
        self.live = gm.Consistency(self.tree).track(self.noisy)
        # This call compiles the kernels.
        self.time_update_and_value(shape, nodes)

    def time_update_and_value(self, shape: str, nodes: int) -> None:
        self.live.update(self.tree.n - 1, 1.0)
        self.live.value(self.tree.n // 2)


class Baselines(Problem):
    """The compiled sweeps of published methods."""

    params = (LARGE, LARGEST, ("boosting", "privtrie"))
    param_names = ("shape", "nodes", "method")

    def setup(self, shape: str, nodes: int, method: str) -> None:
        super().setup(shape, nodes)
        self.method = getattr(gm.baselines, method)
        # This call compiles the kernels.
        self.time_method(shape, nodes, method)

    def time_method(self, shape: str, nodes: int, method: str) -> None:
        self.method(self.tree, self.noisy)
