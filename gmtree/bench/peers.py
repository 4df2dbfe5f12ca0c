"""Speed of gmtree compared with other packages, on the same trees and values.

Another package (a peer) is timed only if its results agree with those of gmtree.
"""

from __future__ import annotations

from gmtree.bench import trees
from gmtree.bench.comparisons import COMPARISONS, Comparison
from gmtree.bench.report import Cell, Check, Column, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_times

COLUMNS = (
    Column("task", width=18),
    Column("peer", width=35),
    Column("tree", width=13),
    Column("nodes", ",d", 10),
    Column("gmtree (ms)", ",.2f"),
    Column("peer (ms)", ",.2f", 11),
    Column("times faster", ".1f"),
    Column("difference", ".0e"),
)

# A peer that takes longer than this many seconds is timed once.
PATIENCE = 2.0

# Quick runs give slow peers smaller trees, so that these take seconds instead of minutes.
QUICK_SLOW_NODES = 20_000


def run(report: Report, settings: Settings) -> None:
    """Time all comparisons with installed packages, and list the packages that are missing."""
    cases = [(each, shape) for each in COMPARISONS if each.is_installed for shape in each.shapes]
    report.expect(len(cases))
    table = report.table("Best times", *COLUMNS)
    promises, worst = [], 0.0
    for each, shape in cases:
        report.step(f"{each.peer} on {shape}")
        nodes, ours, theirs, difference = compare(each, shape, settings)
        factor = theirs / ours if theirs and ours else None
        times: list[Cell] = [seconds and 1e3 * seconds for seconds in (ours, theirs)]
        table.add(each.task, each.peer, shape, nodes, *times, factor, difference)
        worst = max(worst, difference / each.tolerance)
        if factor is not None and shape in each.least:
            claim = f"{each.task}, {shape}: times faster than {each.peer}"
            promises.append(Check(claim, factor, each.least[shape], at_least=True))
    for each in COMPARISONS:
        if not each.is_installed:
            table.add(each.task, each.peer, "not installed", None, None, None, None, None)
    agreement = "largest difference of results, in units of the tolerance"
    report.add([*promises, Check(agreement, worst, 1.0, about_results=True)])
    report.notes.append(NOTE)


NOTE = """\
Differences of the results are relative to the largest value; a peer that disagrees is not timed.
The times of solvers include assembly, factorisation and solution; those of gmtree include
construction and post-processing. For sums along edges, and in comparisons with numpy, gmtree and
the peer both get the tree in the form that suits them best. 'Children first' is an order of the
rows that makes the factors of a tree sparse; only users who know this choose it. Layers are timed
forward and backward; the matrices and the inverse that the peer needs are computed beforehand."""


def compare(
    comparison: Comparison, shape: str, settings: Settings
) -> tuple[int, float | None, float | None, float]:
    """Tree size, both times, and the difference of the results; no times if it is too large."""
    tree = trees.make(shape, nodes_for(comparison, shape, settings)).canonical()
    pair = comparison.prepare(tree)
    difference = pair.difference()
    if difference > comparison.tolerance:
        return tree.n, None, None, difference
    ours, theirs = best_times(pair, settings.times(usual=5, quick=3), PATIENCE)
    return tree.n, ours, theirs, difference


def nodes_for(comparison: Comparison, shape: str, settings: Settings) -> int | None:
    """Number of nodes: the requested one, or the largest that the peer can handle in minutes."""
    most = comparison.most_nodes.get(shape)
    if most is None:
        return settings.size
    if settings.quick:
        most = min(most, QUICK_SLOW_NODES)
    return min(most, settings.size or trees.SHAPES[shape].nodes)
