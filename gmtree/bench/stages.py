"""The two stages of GMC: construction, once per tree, and post-processing, once per release."""

from __future__ import annotations

from functools import partial

import numpy as np

from gmtree._progress import Progress
from gmtree.bench import data, trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.figures import Figure, Line, Panel
from gmtree.bench.report import Cell, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, copying
from gmtree.consistency import Consistency
from gmtree.tree import Tree

ORDER, THETA, POST = "order", "theta", "post-processing"
NONNEGATIVE, INTEGER = "non-negative", "and integer"
STAGES = (ORDER, THETA, POST)
NUMBERINGS = ("level by level", "at random")


def run(settings: Settings) -> Report:
    """Time the stages on each data set, in an easy and in the hardest numbering.

    Quick runs leave out the hardest, for which everything is compiled once more.
    """
    numberings = NUMBERINGS[:1] if settings.quick else NUMBERINGS
    report = Report("stages", "The two stages of GMC", settings.as_dict())
    columns = [
        Column("data set"),
        Column("numbering"),
        Column("nodes", ",d"),
        *(Column(stage, ",.2f") for stage in (*STAGES, NONNEGATIVE, INTEGER)),
        Column("construction / post", ".1f"),
        Column("post / copy", ".1f"),
    ]
    table = Table("Milliseconds", columns)
    with Progress(len(settings.datasets) * len(numberings), "stages") as progress:
        for name in settings.datasets:
            progress.advance(0, f"{data.TITLES[name]}: loading")
            tree = data.load(name, settings).tree
            for numbering in numberings:
                progress.advance(0, f"{data.TITLES[name]}, {numbering}")
                parent = tree.parent if numbering == NUMBERINGS[0] else trees.shuffled(tree)
                table.rows.append([data.TITLES[name], numbering, *_stages(parent, settings)])
                progress.advance(1)
    report.tables.append(table)
    report.figures.append(Figure("stages", "Running time of the two stages", _panels(table)))
    report.notes.append(
        "Construction is 'order' (heights, canonical order, child counts: Tree.from_parents) and "
        "'theta' (Consistency).\nPost-processing is project; the last unit is np.copyto of a "
        "vector as long as the tree."
    )
    return report


def _stages(parent: np.ndarray, settings: Settings) -> list[Cell]:
    """Number of nodes, seconds of each stage, and ratios."""
    repeat = settings.times(usual=3, quick=3)
    order = best_time(lambda: Tree.from_parents(parent), repeat)
    tree = Tree.from_parents(parent)
    theta = best_time(lambda: Consistency(tree), repeat)
    post = Consistency(tree)
    v, out, whole = measurements(tree), np.empty(tree.n), np.empty(tree.n, np.int64)
    after = best_time(partial(post.project, v, out=out), repeat)
    bounded = best_time(partial(post.project, v, nonnegative=True, out=out), repeat)
    rounded = best_time(partial(post.project, v, nonnegative=True, integer=True, out=whole), repeat)
    copy = best_time(copying(tree.n), repeat)
    times = [1e3 * seconds for seconds in (order, theta, after, bounded, rounded)]
    return [tree.n, *times, (order + theta) / after, after / copy]


def _panels(table: Table) -> list[Panel]:
    """One panel for each numbering: bars of the stages, stacked."""
    first = [column.name for column in table.columns].index(ORDER)
    panels = []
    for numbering in NUMBERINGS:
        rows = [row for row in table.rows if row[1] == numbering]
        if not rows:
            continue
        names = [str(row[0]) for row in rows]
        lines = [
            Line(stage, names, [float(row[first + k] or 0) for row in rows])
            for k, stage in enumerate(STAGES)
        ]
        panels.append(Panel(f"numbered {numbering}", "", "milliseconds", lines))
    return panels
