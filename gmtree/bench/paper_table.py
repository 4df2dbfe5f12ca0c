"""The paper's table: error and consistency of each algorithm on the three data sets.

Laplace noise of scale h is added to every node of a tree, which corresponds to a privacy budget of
1; h is the number of levels. Squared errors are averaged over several runs. Beside the measured
errors, the table shows the expected errors of consistent values and of unprocessed noise, whose
variances are known exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gmtree import baselines, queries
from gmtree.bench import data
from gmtree.bench.report import Cell, Check, Column, Report
from gmtree.bench.settings import Settings
from gmtree.consistency import Consistency, consistency_bias
from gmtree.datasets import Dataset
from gmtree.privacy.testing import continuous_laplace
from gmtree.tree import Tree

RANGES = 100_000

PROCESSLESS, BOOSTING, PRIVTRIE, GMC = "Processless", "Boosting", "PrivTrie", "GMC"
NONNEGATIVE, INTEGER = "GMC non-negative", "GMC non-negative integer"
ALGORITHMS = (PROCESSLESS, BOOSTING, PRIVTRIE, GMC, NONNEGATIVE, INTEGER)

COLUMNS = (
    Column("algorithm", width=24),
    Column("rmse", ".2f"),
    Column("s.e.", ".2f"),
    Column("expected", ".2f"),
    Column("paper", ".2f"),
    Column("bias", ".2f"),
    Column("expected bias", ".2f"),
    Column("paper bias", ".2f"),
)


class Accuracy(NamedTuple):
    """Accuracy of an algorithm: the root mean square error of queries, and the consistency bias."""

    rmse: float
    bias: float


# The paper's "Experimental Results on Multiple Algorithm Settings and Large-scale Datasets".
PAPER = {
    "census2010": {
        PROCESSLESS: Accuracy(11.32, 49.61),
        BOOSTING: Accuracy(11.30, 159.01),
        PRIVTRIE: Accuracy(11.00, 0.0),
        GMC: Accuracy(11.00, 0.0),
    },
    "nyctaxi": {
        PROCESSLESS: Accuracy(138.42, 48.38),
        BOOSTING: Accuracy(120.75, 22.42),
        PRIVTRIE: Accuracy(68.69, 0.0),
        GMC: Accuracy(68.69, 0.0),
    },
    "syndata": {
        PROCESSLESS: Accuracy(166.37, 61.24),
        BOOSTING: Accuracy(74.94, 0.0),
        PRIVTRIE: Accuracy(74.94, 0.0),
        GMC: Accuracy(74.94, 0.0),
    },
}

# Largest relative difference between an expected error and that of the paper, whose trees differ
# slightly from ours.
NEAR_PAPER = 0.04
EQUAL = 1e-9
NO_BIAS = 1e-6


def run(report: Report, settings: Settings) -> None:
    """Measure errors and biases on all requested data sets."""
    runs = settings.times(usual=10, quick=3)
    report.expect(len(settings.datasets) * runs)
    summary: dict[str, list[Cell]] = {}
    checks: list[Check] = []
    for name in settings.datasets:
        experiment = Experiment(data.load(name, settings, levels=data.LEVELS_OF_TABLE))
        for k in range(runs):
            report.step(f"{experiment.title}: run {k + 1} of {runs}")
            experiment.release(k)
        table = report.table(experiment.description(), *COLUMNS)
        for algorithm in ALGORITHMS:
            table.add(*experiment.row(algorithm))
            summary.setdefault(algorithm, []).append(_both(experiment.measured(algorithm)))
            if algorithm in PAPER[name]:
                published = _both(PAPER[name][algorithm])
                summary.setdefault(f"  in the paper: {algorithm}", []).append(published)
        checks += experiment.checks(settings.is_full_size)
        if name == "nyctaxi" and settings.is_full_size:
            report.notes.append(experiment.scaled_note())
        del experiment, table  # Free the memory before the next data set is loaded.
    titles = (Column(data.TITLES[name], ">", 15) for name in settings.datasets)
    table = report.table("Summary, rmse / bias", Column("algorithm", width=27), *titles)
    for label, cells in summary.items():
        table.add(label, *cells)
    report.add(checks)
    if not settings.is_full_size:
        report.notes.append("The figures of the paper are for the full data sets.")


class Experiment:
    """Noisy releases of one data set, and the errors of all algorithms.

    As in the paper, queries are nodes in the census and ranges in the other data sets.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.tree = dataset, dataset.tree
        self.title = data.TITLES[dataset.name]
        self.truth = self.tree.aggregate(dataset.counts)
        self.post = Consistency(self.tree, variance=2.0 * self.tree.height**2)
        self.ranges: np.ndarray | None = None
        self.true_sums = self.truth
        if dataset.name != "census2010":
            m = self.tree.n_leaves
            self.ranges = queries.random_ranges(m, min(RANGES, m * (m + 1) // 2), rng=5)
            self.true_sums = queries.range_sum(self.tree, self.truth, self.ranges)
        self.squares: dict[str, list[Accuracy]] = {name: [] for name in ALGORITHMS}
        self.differences = {BOOSTING: 0.0, PRIVTRIE: 0.0}

    # ------------------------------------------------------------------ measured

    def release(self, seed: int) -> None:
        """Add noise once and let every algorithm process it."""
        tree, post = self.tree, self.post
        noisy = continuous_laplace(float(tree.height), tree.n, [seed, tree.n])
        noisy += self.truth
        self._record(PROCESSLESS, noisy)
        optimum = post.project(noisy)
        self._record(GMC, optimum)
        for name, algorithm in ((BOOSTING, baselines.boosting), (PRIVTRIE, baselines.privtrie)):
            values = algorithm(tree, noisy)
            self._record(name, values)
            values -= optimum
            worst = max(float(values.max()), -float(values.min())) / float(self.truth.max())
            self.differences[name] = max(worst, self.differences[name])
        # Free the memory for the calls that follow.
        del values, optimum
        self._record(NONNEGATIVE, post.project(noisy, nonnegative=True))
        self._record(INTEGER, post.project(noisy, nonnegative=True, integer=True))

    def _record(self, name: str, values: np.ndarray) -> None:
        bias = consistency_bias(self.tree, values)
        if self.ranges is not None:
            values = queries.range_sum(self.tree, values, self.ranges)
        rmse = float(queries.node_rmse(values, self.true_sums))
        self.squares[name].append(Accuracy(rmse**2, bias**2))

    def measured(self, name: str) -> Accuracy:
        """Measured error and bias: square roots of mean squares over all runs."""
        return Accuracy(*map(float, np.sqrt(np.mean(self.squares[name], axis=0))))

    def standard_error(self, name: str) -> float | None:
        """Standard error of the measured root mean square error, estimated from the runs."""
        squares = [each.rmse for each in self.squares[name]]
        if len(squares) < 2:
            return None
        of_mean = float(np.std(squares, ddof=1)) / len(squares) ** 0.5
        return of_mean / (2 * self.measured(name).rmse)

    # ------------------------------------------------------------------ expected

    def expected(self, name: str) -> Accuracy | None:
        """Error and bias computed from exact variances; None for algorithms without a formula."""
        tree = self.tree
        if name == PROCESSLESS:
            variance = 2.0 * tree.height**2
            bias = variance * (1 + (tree.n - 1) / tree.n_internal)
            if self.ranges is not None:
                # With the value 1 at every node, the sum over a range is the size of its cover.
                cover = queries.range_sum(tree, np.ones(tree.n, np.int64), self.ranges)
                variance *= float(cover.mean())
            return Accuracy(variance**0.5, bias**0.5)
        if name in (PRIVTRIE, GMC) or (name == BOOSTING and is_complete(tree)):
            if self.ranges is None:
                variances = self.post.node_variance()
            else:
                variances = self.post.range_variance(self.ranges)
            return Accuracy(float(variances.mean()) ** 0.5, 0.0)
        return None

    # ------------------------------------------------------------------ shown

    def description(self) -> str:
        """A description of the data set, the queries and the tree, in two lines."""
        kind = "node" if self.ranges is None else "range"
        tree, runs = self.tree, len(self.squares[GMC])
        return (
            f"{self.title} ({self.dataset.description}): {kind} queries, {runs} runs\n"
            f"{tree.n:,} nodes, {tree.n_leaves:,} leaves, {tree.height} levels"
        )

    def row(self, name: str) -> list[Cell]:
        """Row of the table: the measured, expected and published figures of an algorithm."""
        nothing = (None, None)
        rmse, bias = self.measured(name)
        expected, expected_bias = self.expected(name) or nothing
        paper, paper_bias = PAPER[self.dataset.name].get(name) or nothing
        error = self.standard_error(name)
        return [name, rmse, error, expected, paper, bias, expected_bias, paper_bias]

    def scale_to_paper(self) -> float:
        """Ratio of the average height of the paper's trees to the height of this tree.

        Some random trees of the paper have one more level. The ratio follows from the bias of
        unprocessed noise, which is proportional to the number of levels.
        """
        if self.dataset.name != "nyctaxi":
            return 1.0
        ours = self.expected(PROCESSLESS)
        assert ours is not None
        return PAPER["nyctaxi"][PROCESSLESS].bias / ours.bias

    def scaled_note(self) -> str:
        """A note on expected errors for trees of the same average height as in the paper."""
        factor = self.scale_to_paper()
        scaled = [
            f"{name} {expected.rmse * factor:.2f}"
            for name in (PROCESSLESS, GMC)
            if (expected := self.expected(name)) is not None
        ]
        return (
            f"{self.title}: scaled to the {self.tree.height * factor:.2f} levels that follow from "
            f"the paper's bias, the expected rmse is {', '.join(scaled)}."
        )

    def checks(self, is_full_size: bool) -> Iterator[Check]:
        """Checks of claims that hold for any noise."""
        for name in (PROCESSLESS, GMC):
            expected, error = self.expected(name), self.standard_error(name)
            assert expected is not None
            if error is not None:
                away = abs(self.measured(name).rmse - expected.rmse) / error
                claim = f"{self.title}, {name}: standard errors from the expected rmse"
                yield Check(claim, away, 3)
            if is_full_size:
                paper = PAPER[self.dataset.name][name].rmse
                away = abs(expected.rmse * self.scale_to_paper() / paper - 1)
                claim = f"{self.title}, {name}: expected rmse, relative difference from the paper's"
                yield Check(claim, away, NEAR_PAPER)
        for name, limit in ((GMC, NO_BIAS), (INTEGER, 0.0)):
            bias = self.measured(name).bias
            yield Check(f"{self.title}, {name}: bias", bias, limit, about_results=True)
        for name in (PRIVTRIE, BOOSTING) if is_complete(self.tree) else (PRIVTRIE,):
            away = self.differences[name]
            claim = f"{self.title}, {name}: difference from GMC, relative to the largest count"
            yield Check(claim, away, EQUAL, about_results=True)


def is_complete(tree: Tree) -> bool:
    """Whether all internal nodes have equally many children and all leaves have equal depth.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.bench.paper_table import is_complete
    >>> is_complete(gm.shapes.complete(3, 4)), is_complete(gm.shapes.chain(3).k_order_subtree(1))
    (True, True)
    >>> is_complete(gm.shapes.grouped(100, rng=1))
    False
    """
    counts = tree.child_count[tree.internal]
    k = int(counts[0]) if counts.size else 1
    return bool((counts == k).all()) and tree.n_leaves == k ** (tree.height - 1)


def _both(accuracy: Accuracy) -> str:
    return f"{accuracy.rmse:.2f} / {accuracy.bias:.2f}"
