"""Trees from DataFrames and Newick text, and reconciliation of DataFrames."""

from __future__ import annotations

import os

import numpy as np

import gmtree as gm

ROWS = int(os.environ.get("GMTREE_BENCH_NODES", "1000000").split(",")[-1])


def nested_codes(rows: int, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Columns of codes that count the nodes below each parent, like the codes of a census."""
    leaf = np.arange(rows)
    columns, above = {}, np.zeros(rows, np.int64)
    for k, size in enumerate(sizes):
        node = leaf * min(size, rows) // rows
        first = node[np.searchsorted(above, above)]
        columns[f"level {k}"] = node - first
        above = node
    return columns


class FromLevels:
    params = (["integers", "categories", "text"], ["in order", "shuffled"])
    param_names = ("labels", "rows")

    def setup(self, labels, rows):
        import pandas as pd

        sizes = (1, 50, 3000, ROWS // 150, ROWS // 50, ROWS // 3, ROWS)
        self.frame = pd.DataFrame(nested_codes(ROWS, sizes))
        if rows == "shuffled":
            self.frame = self.frame.sample(frac=1, random_state=0, ignore_index=True)
        if labels != "integers":
            self.frame = self.frame.astype("category" if labels == "categories" else str)
        self.levels = list(self.frame)
        gm.Tree.from_levels(self.frame[:1000], levels=self.levels)

    def time_pandas_groupby(self, labels, rows):
        """Time of `groupby` in pandas for the same rows, as a comparison."""
        self.frame.groupby(self.levels, observed=True).size()

    def time_from_levels(self, labels, rows):
        gm.Tree.from_levels(self.frame, levels=self.levels)

    def peakmem_from_levels(self, labels, rows):
        gm.Tree.from_levels(self.frame, levels=self.levels)


class ReconcileFrame:
    def setup(self):
        import pandas as pd

        tree = gm.shapes.complete(10, max(2, int(np.log10(ROWS / 10)) + 1))
        dates, rng = 12, np.random.default_rng(0)
        depth = tree.height - 1
        digits = np.full((tree.n, depth), np.nan)
        for i in range(1, tree.n):
            digits[i] = digits[tree.parent[i]]
            digits[i, tree.depth[i] - 2] = (i - 1) % 10
        text = pd.DataFrame(digits).astype("Int64").astype("string")
        text.columns = self.levels = [f"level {k}" for k in range(depth)]
        frame = pd.concat([text] * dates, ignore_index=True)
        frame["date"] = np.repeat(np.arange(dates), tree.n)
        frame["y"] = rng.normal(size=len(frame))
        self.frame = frame.sample(frac=1, random_state=0, ignore_index=True)
        gm.reconcile_frame(self.frame[self.frame.date == 0], self.levels, "y")

    def time_reconcile_frame(self):
        gm.reconcile_frame(self.frame, self.levels, "y", by="date")


class Newick:
    def setup(self):
        tree = gm.shapes.random_recursive(ROWS, rng=0)
        labels = [f"n{i}" for i in range(tree.n)]
        self.tree = gm.Tree.from_parents(tree.parent, labels=labels)
        self.lengths = np.random.default_rng(0).exponential(size=tree.n).round(9)
        self.text = self.tree.to_newick(length=self.lengths)
        gm.Tree.from_newick("(a:1,b:2);")

    def time_from_newick(self):
        gm.Tree.from_newick(self.text)

    def time_to_newick(self):
        self.tree.to_newick(length=self.lengths)
