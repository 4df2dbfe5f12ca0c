"""Time of complete private releases of a census-shaped tree, and of planning."""

from __future__ import annotations

import gmtree as gm

from .common import LARGEST, NODES

OBJECTIVES = ("nodes", "leaves")


class Release:
    """From counts of leaves to non-negative integers with standard errors."""

    params = (NODES,)
    param_names = ("nodes",)

    def setup(self, nodes: int) -> None:
        self.tree, self.counts, *_ = gm.datasets.census2010(nodes=nodes)
        # This call compiles the kernels.
        self.release()

    def release(self) -> None:
        made = gm.release(self.tree, self.counts, epsilon=1, nonnegative=True, integer=True)
        _ = made.std_error

    def time_release(self, nodes: int) -> None:
        self.release()

    def peakmem_release(self, nodes: int) -> None:
        self.release()


class Shares:
    """Optimal shares of the budget, which minimise the expected error."""

    params = (LARGEST, OBJECTIVES)
    param_names = ("nodes", "objective")

    def setup(self, nodes: int, objective: str) -> None:
        self.tree = gm.datasets.census2010(nodes=nodes).tree
        self.optimal_shares = gm.privacy.optimal_shares
        # This call compiles the kernels.
        self.optimal_shares(gm.shapes.complete(2, 3), epsilon=1, objective=objective)

    def time_optimal_shares(self, nodes: int, objective: str) -> None:
        self.optimal_shares(self.tree, epsilon=1, objective=objective)
