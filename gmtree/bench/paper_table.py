"""The paper's table: error and consistency of each algorithm on the three data sets.

Laplace noise of scale h, the number of levels, is added to every node of a tree (a privacy
budget of 1). Squared errors are averaged over several runs. The table shows the measured error
beside the expected one: the variances of consistent values are known exactly, and so are those of
the unprocessed noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gmtree import baselines, queries
from gmtree._progress import Progress
from gmtree.bench import data
from gmtree.bench.report import Cell, Check, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.consistency import Consistency, consistency_bias
from gmtree.datasets import Dataset
from gmtree.privacy.testing import continuous_laplace
from gmtree.tree import Tree

RANGES = 100_000

PROCESSLESS, BOOSTING, PRIVTRIE, GMC = "Processless", "Boosting", "PrivTrie", "GMC"
NONNEGATIVE, INTEGER = "GMC non-negative", "GMC non-negative integer"
ALGORITHMS = (PROCESSLESS, BOOSTING, PRIVTRIE, GMC, NONNEGATIVE, INTEGER)

COLUMNS = [
    Column("algorithm"),
    Column("rmse", ".2f"),
    Column("s.e.", ".2f"),
    Column("expected", ".2f"),
    Column("paper", ".2f"),
    Column("bias", ".2f"),
    Column("expected bias", ".2f"),
    Column("paper bias", ".2f"),
]


class Accuracy(NamedTuple):
    """How well an algorithm does: root mean square error of queries, and consistency bias."""

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

# Rows of the summary: what they are called, which algorithm they show, and whether as published.
SUMMARY = [
    row
    for name in ALGORITHMS
    for row in (
        [(name, (name, False)), ("  in the paper", (name, True))]
        if name in PAPER["census2010"]
        else [(name, (name, False))]
    )
]

# How far from the paper an expected error may be; the paper's trees are not quite ours.
NEAR_PAPER = 0.04
EQUAL = 1e-9
NO_BIAS = 1e-6


def run(settings: Settings) -> Report:
    """Measure errors and biases on all data sets asked for."""
    runs = settings.times(usual=10, quick=3)
    report = Report(
        "table", "Error and consistency (bias) of released hierarchies", settings.as_dict()
    )
    rows: list[list[Cell]] = [[label] for label, _ in SUMMARY]
    summary = Table("All in one, rmse / bias", [Column("algorithm")], rows)
    with Progress(len(settings.datasets) * runs, "table") as progress:
        for name in settings.datasets:
            progress.advance(0, f"{data.TITLES[name]}: loading")
            experiment = Experiment.on(data.load(name, settings, levels=data.LEVELS_OF_TABLE))
            for k in range(runs):
                progress.advance(0, f"{experiment.title}: run {k + 1} of {runs}")
                experiment.release(k)
                progress.advance(1)
            report.tables.append(experiment.table(settings.is_full_size))
            report.checks += experiment.checks(settings.is_full_size)
            summary.columns.append(Column(experiment.title, ">"))
            for row, cell in zip(summary.rows, experiment.summary(), strict=True):
                row.append(cell)
            del experiment  # before the next data set is loaded
    report.tables.append(summary)
    if not settings.is_full_size:
        report.notes.append("The paper's figures are those of the full data sets.")
    return report


@dataclass
class Experiment:
    """Releases of one data set, and what became of each."""

    dataset: Dataset
    truth: np.ndarray
    post: Consistency
    ranges: np.ndarray | None
    true_sums: np.ndarray | None
    squares: dict[str, list[float]]
    biases: dict[str, list[float]]
    differences: dict[str, float]

    @classmethod
    def on(cls, dataset: Dataset) -> Experiment:
        """Node queries on the census, range queries elsewhere, as in the paper."""
        tree = dataset.tree
        truth = tree.aggregate(dataset.counts)
        ranges = true_sums = None
        if dataset.name != "census2010":
            m = tree.n_leaves
            ranges = queries.random_ranges(m, min(RANGES, m * (m + 1) // 2), rng=5)
            true_sums = queries.range_sum(tree, truth, ranges)
        return cls(
            dataset,
            truth,
            Consistency(tree, variance=2.0 * tree.height**2),
            ranges,
            true_sums,
            squares={name: [] for name in ALGORITHMS},
            biases={name: [] for name in ALGORITHMS},
            differences={},
        )

    @property
    def tree(self) -> Tree:
        """The tree of the data set."""
        return self.dataset.tree

    @property
    def title(self) -> str:
        """The name of the data set, as the paper writes it."""
        return data.TITLES[self.dataset.name]

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
            self.differences[name] = max(worst, self.differences.get(name, 0.0))
        # Free the memory for the calls that follow.
        del values, optimum
        self._record(NONNEGATIVE, post.project(noisy, nonnegative=True))
        self._record(INTEGER, post.project(noisy, nonnegative=True, integer=True))

    def _record(self, name: str, values: np.ndarray) -> None:
        if self.ranges is None:
            rmse = queries.node_rmse(values, self.truth)
        else:
            rmse = queries.node_rmse(
                queries.range_sum(self.tree, values, self.ranges), self.true_sums
            )
        self.squares[name].append(rmse**2)
        self.biases[name].append(consistency_bias(self.tree, values) ** 2)

    def measured(self, name: str) -> Accuracy:
        """Square roots of averages of squares."""
        return Accuracy(*(float(np.sqrt(np.mean(x[name]))) for x in (self.squares, self.biases)))

    def standard_error(self, name: str) -> float | None:
        """Standard error of the measured root mean square error, from how much the runs differ."""
        squares = self.squares[name]
        if len(squares) < 2:
            return None
        of_mean = float(np.std(squares, ddof=1)) / len(squares) ** 0.5
        return of_mean / (2 * self.measured(name).rmse)

    # ------------------------------------------------------------------ expected

    def expected(self, name: str) -> Accuracy | None:
        """Error and bias by the exact variances; None for algorithms without a formula."""
        tree = self.tree
        if name == PROCESSLESS:
            variance = 2.0 * tree.height**2
            bias = variance * (1 + (tree.n - 1) / tree.n_internal)
            if self.ranges is None:
                return _roots(variance, bias)
            # The sum of ones is the number of nodes a range is made of.
            cover = queries.range_sum(tree, np.ones(tree.n, np.int64), self.ranges)
            return _roots(variance * float(cover.mean()), bias)
        if name in (PRIVTRIE, GMC) or (name == BOOSTING and is_complete(tree)):
            if self.ranges is None:
                return _roots(float(self.post.node_variance().mean()), 0.0)
            return _roots(float(self.post.range_variance(self.ranges).mean()), 0.0)
        return None

    # ------------------------------------------------------------------ shown

    def table(self, is_full_size: bool) -> Table:
        """Measured, expected and published figures of all algorithms."""
        kind = "node" if self.ranges is None else "range"
        tree, runs = self.tree, len(self.squares[GMC])
        table = Table(
            f"{self.title} ({self.dataset.description}): {kind} queries, {runs} runs\n"
            f"{tree.n:,} nodes, {tree.n_leaves:,} leaves, {tree.height} levels",
            COLUMNS,
        )
        for name in ALGORITHMS:
            table.rows.append(self._row(name))
        if self.dataset.name == "nyctaxi" and is_full_size:
            table.notes.append(self._scaled_note())
        return table

    def _row(self, name: str) -> list[Cell]:
        measured, expected = self.measured(name), self.expected(name)
        paper = PAPER[self.dataset.name].get(name)
        return [
            name,
            measured.rmse,
            self.standard_error(name),
            expected and expected.rmse,
            paper and paper.rmse,
            measured.bias,
            expected and expected.bias,
            paper and paper.bias,
        ]

    def summary(self) -> list[str]:
        """For each row of the summary, error and bias in one cell."""
        published = PAPER[self.dataset.name]
        return [
            "{:.2f} / {:.2f}".format(*(published[name] if of_paper else self.measured(name)))
            for name, of_paper in (line for _, line in SUMMARY)
        ]

    def _scale_to_paper(self) -> float:
        """How much higher the paper's trees were on average.

        They are drawn at random and have a level more by chance, which shows in the bias of
        unprocessed noise: it is in proportion to the number of levels.
        """
        if self.dataset.name != "nyctaxi":
            return 1.0
        ours = self.expected(PROCESSLESS)
        assert ours is not None
        return PAPER["nyctaxi"][PROCESSLESS].bias / ours.bias

    def _scaled_note(self) -> str:
        factor = self._scale_to_paper()
        scaled = [
            f"{name} {expected.rmse * factor:.2f}"
            for name in (PROCESSLESS, GMC)
            if (expected := self.expected(name)) is not None
        ]
        return (
            f"Scaled to the {self.tree.height * factor:.2f} levels that the paper's bias tells, "
            f"expected rmse: {', '.join(scaled)}."
        )

    def checks(self, is_full_size: bool) -> list[Check]:
        """What must hold, whatever the noise."""
        found = []
        for name in (PROCESSLESS, GMC):
            expected, error = self.expected(name), self.standard_error(name)
            assert expected is not None
            if error is not None:
                away = abs(self.measured(name).rmse - expected.rmse) / error
                found.append(Check(self._claim(name, "standard errors off expectation"), away, 3))
            if is_full_size:
                paper = PAPER[self.dataset.name][name].rmse
                away = abs(expected.rmse * self._scale_to_paper() / paper - 1)
                claim = self._claim(name, "expected rmse off the paper's, relative")
                found.append(Check(claim, away, NEAR_PAPER))
        found.append(self._result_check(GMC, "bias", self.measured(GMC).bias, NO_BIAS))
        found.append(self._result_check(INTEGER, "bias", self.measured(INTEGER).bias, 0.0))
        same = "largest difference from GMC, relative to the largest count"
        found.append(self._result_check(PRIVTRIE, same, self.differences[PRIVTRIE], EQUAL))
        if is_complete(self.tree):
            found.append(self._result_check(BOOSTING, same, self.differences[BOOSTING], EQUAL))
        return found

    def _claim(self, name: str, what: str) -> str:
        return f"{self.title}, {name}: {what}"

    def _result_check(self, name: str, what: str, measured: float, limit: float) -> Check:
        return Check(self._claim(name, what), measured, limit, about_results=True)


def is_complete(tree: Tree) -> bool:
    """Whether all inner nodes have as many children as the root, and all leaves are equally deep.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.bench.paper_table import is_complete
    >>> is_complete(gm.shapes.complete(3, 4)), is_complete(gm.shapes.chain(3).subtree(1))
    (True, True)
    >>> is_complete(gm.shapes.grouped(100, rng=1))
    False
    """
    counts = tree.child_count[tree.internal]
    k = int(counts[0]) if counts.size else 1
    return bool((counts == k).all()) and tree.n_leaves == k ** (tree.height - 1)


def _roots(mean_square: float, square_bias: float) -> Accuracy:
    return Accuracy(mean_square**0.5, square_bias**0.5)
