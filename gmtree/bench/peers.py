"""gmtree beside other packages, on the same trees and values.

A peer is timed only if its results agree with ours.
"""

from __future__ import annotations

from typing import NamedTuple

from gmtree._progress import Progress
from gmtree.bench import trees
from gmtree.bench.comparisons import COMPARISONS, Comparison, Pair
from gmtree.bench.report import Cell, Check, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, best_times, time_of

COLUMNS = [
    Column("task"),
    Column("peer"),
    Column("tree"),
    Column("nodes", ",d"),
    Column("gmtree (ms)", ",.2f"),
    Column("peer (ms)", ",.2f"),
    Column("times faster", ".1f"),
    Column("difference", ".0e"),
]

# A peer that takes longer than this many seconds is timed once.
PATIENCE = 2.0

# Quick runs give slow peers smaller trees than they could do in minutes.
QUICK_SLOW_NODES = 20_000


def run(settings: Settings) -> Report:
    """Time all comparisons whose peers are installed; name the others."""
    report = Report("peers", "Beside others", settings.as_dict())
    table = Table("Best times", COLUMNS)
    cases = [(each, shape) for each in COMPARISONS for shape in each.shapes]
    worst = 0.0
    with Progress(len(cases), "peers") as progress:
        for comparison, shape in cases:
            progress.advance(0, f"{comparison.peer} on {shape}")
            if comparison.is_installed:
                outcome = compare(comparison, shape, settings)
                table.rows.append(outcome.row())
                progress.say(str(outcome))
                worst = max(worst, outcome.difference / comparison.tolerance)
                if settings.is_full_size:
                    report.checks += outcome.checks()
            progress.advance(1)
    table.rows += [
        [each.task, each.peer, "not installed", None, None, None, None, None]
        for each in COMPARISONS
        if not each.is_installed
    ]
    report.tables.append(table)
    agreement = "largest difference of results, in units of what is allowed"
    report.checks.append(Check(agreement, worst, 1.0, about_results=True))
    report.notes.append(NOTE)
    return report


NOTE = (
    "The difference of the results is relative to the largest value; a peer that disagrees is not\n"
    "timed. For solvers everything counts: assembling, factoring and solving; for gmtree\n"
    "construction and post-processing. For sums along edges, and beside numpy, both sides are\n"
    "given the tree in the form that suits them best. 'Children first' is what a user does who\n"
    "knows that this order makes the factors of a tree sparse."
)


class Outcome(NamedTuple):
    """One comparison on one tree, without times if the results differ."""

    comparison: Comparison
    shape: str
    nodes: int
    difference: float
    ours: float | None = None
    theirs: float | None = None

    @property
    def factor(self) -> float | None:
        """How many times faster we are."""
        return self.theirs / self.ours if self.theirs and self.ours else None

    def row(self) -> list[Cell]:
        """A row of the table, in milliseconds."""
        times = [seconds and 1e3 * seconds for seconds in (self.ours, self.theirs)]
        task, peer = self.comparison.task, self.comparison.peer
        return [task, peer, self.shape, self.nodes, *times, self.factor, self.difference]

    def __str__(self) -> str:
        found = (
            "another result than" if self.factor is None else f"{self.factor:.3g} times as fast as"
        )
        return f"{self.comparison.task}, {self.shape}: {found} {self.comparison.peer}"

    def checks(self) -> list[Check]:
        """Whether we are as fast as promised; nothing if no promise was made."""
        promised = self.comparison.least.get(self.shape)
        if promised is None or self.factor is None:
            return []
        claim = f"{self.comparison.task}, {self.shape}: times faster than {self.comparison.peer}"
        return [Check(claim, self.factor, promised, at_least=True)]


def compare(comparison: Comparison, shape: str, settings: Settings) -> Outcome:
    """Compare the results, and if they agree, time both sides."""
    tree = trees.make(shape, nodes_for(comparison, shape, settings)).canonical()
    pair = comparison.prepare(tree)
    outcome = Outcome(comparison, shape, tree.n, pair.difference())
    if outcome.difference > comparison.tolerance:
        return outcome
    ours, theirs = timed(pair, settings)
    return outcome._replace(ours=ours, theirs=theirs)


def nodes_for(comparison: Comparison, shape: str, settings: Settings) -> int | None:
    """The size asked for, or the largest that the peer can do in minutes."""
    most = comparison.most_nodes.get(shape)
    if most is not None and settings.quick:
        most = min(most, QUICK_SLOW_NODES)
    nodes = settings.size
    if most is None:
        return nodes
    return min(most, trees.SHAPES[shape].nodes if nodes is None else nodes)


def timed(pair: Pair, settings: Settings) -> tuple[float, float]:
    """Best times of ours and theirs, in turns; a slow peer is timed once."""
    repeat = settings.times(usual=5, quick=3)
    first = time_of(pair.theirs)
    if first > PATIENCE:
        return best_time(pair.ours, repeat), first
    ours, theirs = best_times(pair, repeat)
    return ours, min(first, theirs)
