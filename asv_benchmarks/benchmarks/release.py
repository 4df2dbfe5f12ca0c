"""Private releases of a census-shaped tree, whole: noise, consistency, whole numbers, errors."""

from __future__ import annotations

import gmtree as gm
from gmtree.bench.timing import copy_ratio

from . import COPIES, LARGEST, NODES, unit

OBJECTIVES = ("nodes", "leaves")


class Release:
    """From counts of leaves to whole, non-negative values with standard errors."""

    params = (NODES,)
    param_names = ("nodes",)
    timeout = 600

    def setup(self, nodes: int) -> None:
        self.data = gm.datasets.census2010(nodes=nodes)
        # Compiles.
        self.release()

    def release(self) -> None:
        tree, counts, *_ = self.data
        _ = gm.release(tree, counts, epsilon=1, nonnegative=True, integer=True).std_error

    def time_release(self, nodes: int) -> None:
        self.release()

    def peakmem_release(self, nodes: int) -> None:
        self.release()

    @unit(COPIES)
    def track_release(self, nodes: int) -> float:
        return copy_ratio(self.release, nodes)


class Shares:
    """The least expected error, before anything is spent."""

    params = (LARGEST, OBJECTIVES)
    param_names = ("nodes", "objective")
    timeout = 600

    def setup(self, nodes: int, objective: str) -> None:
        self.tree = gm.datasets.census2010(nodes=nodes).tree
        gm.optimal_shares(gm.shapes.complete(2, 3), objective=objective)

    def time_optimal_shares(self, nodes: int, objective: str) -> None:
        gm.optimal_shares(self.tree, epsilon=1, objective=objective)
