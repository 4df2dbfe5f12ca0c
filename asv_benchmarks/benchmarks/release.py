"""Private releases of a census-shaped tree, whole: noise, consistency, whole numbers, errors."""

from __future__ import annotations

import gmtree as gm

from .common import LARGEST, NODES

OBJECTIVES = ("nodes", "leaves")


class Release:
    """From counts of leaves to whole, non-negative values with standard errors."""

    params = (NODES,)
    param_names = ("nodes",)

    def setup(self, nodes: int) -> None:
        self.tree, self.counts, *_ = gm.datasets.census2010(nodes=nodes)
        # Compiles.
        self.release()

    def release(self) -> None:
        made = gm.release(self.tree, self.counts, epsilon=1, nonnegative=True, integer=True)
        _ = made.std_error

    def time_release(self, nodes: int) -> None:
        self.release()

    def peakmem_release(self, nodes: int) -> None:
        self.release()


class Shares:
    """The least expected error, before anything is spent."""

    params = (LARGEST, OBJECTIVES)
    param_names = ("nodes", "objective")

    def setup(self, nodes: int, objective: str) -> None:
        self.tree = gm.datasets.census2010(nodes=nodes).tree
        self.optimal_shares = gm.privacy.optimal_shares
        # Compiles.
        self.optimal_shares(gm.shapes.complete(2, 3), epsilon=1, objective=objective)

    def time_optimal_shares(self, nodes: int, objective: str) -> None:
        self.optimal_shares(self.tree, epsilon=1, objective=objective)
