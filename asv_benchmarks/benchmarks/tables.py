"""Time of consistent tables at the nodes of a tree, and of crossed trees."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmtree as gm

from .common import NODES

AXES = {"sex": 2, "hispanic": 2, "race": 63}
QUERIES = [(), ("sex",), ("hispanic",), ("race",), tuple(AXES)]


class Tables:
    """Tables as in a census, with measurements of the total, each axis and the whole table."""

    params = ([max(1, n // 100) for n in NODES], (1, 2))
    param_names = ("nodes", "threads")

    def setup(self, nodes: int, threads: int) -> None:
        rng = np.random.default_rng(0)
        self.tree = gm.datasets.census2010(nodes=max(nodes, 8)).tree
        self.variance = {query: 1.0 + len(query) for query in QUERIES}
        self.y = {
            query: rng.normal(2, 2, (self.tree.n, *(AXES[a] for a in query))) for query in QUERIES
        }
        self.out = np.zeros((self.tree.n, *AXES.values()))
        self.source = np.ones(self.out.shape)
        self.threads = threads
        self.tables = self.construct()
        # This call compiles the kernels.
        self.tables.project(self.y, out=self.out)

    def construct(self) -> Any:
        return gm.TableConsistency(self.tree, AXES, self.variance, threads=self.threads)

    def time_copy(self, nodes: int, threads: int) -> None:
        np.copyto(self.out, self.source)

    def time_construct(self, nodes: int, threads: int) -> None:
        self.construct()

    def time_project(self, nodes: int, threads: int) -> None:
        self.tables.project(self.y, out=self.out)

    def time_node_variance(self, nodes: int, threads: int) -> None:
        self.construct().node_variance(("race",))

    def peakmem_project(self, nodes: int, threads: int) -> None:
        self.tables.project(self.y, out=self.out)


class PrivateTables:
    """A private release of the tables of `Tables`."""

    params = ([max(1, n // 100) for n in NODES],)
    param_names = ("nodes",)

    def setup(self, nodes: int) -> None:
        self.tree = gm.datasets.census2010(nodes=max(nodes, 8)).tree
        cells = (self.tree.n_leaves, *AXES.values())
        self.counts = np.random.default_rng(0).poisson(0.3, cells)
        self.release_tables = gm.release_tables
        # This call compiles the kernels.
        self.time_release_tables(nodes)

    def time_release_tables(self, nodes: int) -> None:
        self.release_tables(self.tree, self.counts, axes=AXES, queries=QUERIES, rho=1)


class Nonnegative:
    """Non-negative tables of twenty cells."""

    params = ([max(1, n // 100) for n in NODES],)
    param_names = ("nodes",)
    timeout = 300

    def setup(self, nodes: int) -> None:
        rng = np.random.default_rng(0)
        tree = gm.datasets.census2010(nodes=max(nodes, 8)).tree
        truth = tree.aggregate(rng.poisson(0.7, (tree.n_leaves, 20))).reshape(tree.n, 2, 10)
        marginals = {(): truth.sum((1, 2)), ("a",): truth.sum(2), ("a", "b"): truth}
        self.y = {query: m + rng.normal(0, 2, m.shape) for query, m in marginals.items()}
        self.tables = gm.TableConsistency(tree, {"a": 2, "b": 10}, dict.fromkeys(self.y, 4.0))
        self.info = self.tables.project(self.y, nonnegative=True, return_info=True)[1]

    def time_project(self, nodes: int) -> None:
        self.tables.project(self.y, nonnegative=True)

    def time_project_again(self, nodes: int) -> None:
        self.tables.project(self.y, nonnegative=True, start=self.info)

    def track_iterations(self, nodes: int) -> int:
        return self.info.iterations


class Crossed:
    """A tree of places crossed with a calendar of months, quarters and years."""

    params = ([max(1, n // 10) for n in NODES], ("products", "any"))
    param_names = ("nodes", "variances")
    timeout = 300

    def setup(self, nodes: int, variances: str) -> None:
        rng = np.random.default_rng(0)
        trees = [
            gm.datasets.census2010(nodes=max(nodes, 8)).tree,
            gm.shapes.calendar("2024-01-01", "2025-01-01"),
        ]
        self.y = rng.normal(size=(trees[0].n, trees[1].n))
        self.out = np.zeros(self.y.shape)
        variance = None if variances == "products" else rng.uniform(1, 2, self.y.shape)
        self.crossed = gm.CrossedConsistency(trees, variance)
        self.crossed.project(self.y, out=self.out)

    def time_copy(self, nodes: int, variances: str) -> None:
        np.copyto(self.out, self.y)

    def time_project(self, nodes: int, variances: str) -> None:
        self.crossed.project(self.y, out=self.out)
