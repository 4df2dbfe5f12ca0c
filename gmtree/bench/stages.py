"""The two stages of GMC: construction, once per tree, and post-processing, once per release."""

from __future__ import annotations

from functools import partial

import numpy as np

from gmtree.bench import data, trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.report import Column, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, copying
from gmtree.consistency import Consistency
from gmtree.tree import Tree

STAGES = ("order", "theta", "post-processing", "non-negative", "and integer")
NUMBERINGS = ("level by level", "at random")


def run(report: Report, settings: Settings) -> None:
    """Time both stages on each data set, in canonical and in random numbering.

    Quick runs leave out the random numbering, for which all kernels are compiled once more.
    """
    numberings = NUMBERINGS[:1] if settings.quick else NUMBERINGS
    report.expect(len(settings.datasets) * len(numberings))
    table = report.table(
        "Milliseconds",
        Column("data set", width=10),
        Column("numbering", width=14),
        Column("nodes", ",d", 10),
        *(Column(stage, ",.2f") for stage in STAGES),
        Column("construction / post", ".1f"),
        Column("post / copy", ".1f"),
    )
    for name in settings.datasets:
        tree = data.load(name, settings).tree
        for numbering in numberings:
            report.step(f"{data.TITLES[name]}, {numbering}")
            parent = tree.parent if numbering == NUMBERINGS[0] else trees.shuffled(tree)
            order, theta, after, *rest, copy = _stages(parent, settings)
            times = [1e3 * seconds for seconds in (order, theta, after, *rest)]
            built = (order + theta) / after
            table.add(data.TITLES[name], numbering, tree.n, *times, built, after / copy)
    report.notes.append(
        "Construction consists of 'order' (Tree.from_parents: heights, canonical order and child "
        "counts) and\n'theta' (Consistency). Post-processing is Consistency.project. The last "
        "column is its time in units\nof np.copyto for a vector as long as the tree."
    )


def _stages(parent: np.ndarray, settings: Settings) -> list[float]:
    """Time in seconds of each stage, and of copying a vector."""
    tree = Tree.from_parents(parent)
    post = Consistency(tree)
    v, out, whole = measurements(tree), np.empty(tree.n), np.empty(tree.n, np.int64)
    actions = (
        partial(Tree.from_parents, parent),
        partial(Consistency, tree),
        partial(post.project, v, out=out),
        partial(post.project, v, nonnegative=True, out=out),
        partial(post.project, v, nonnegative=True, integer=True, out=whole),
        copying(tree.n),
    )
    return [best_time(action, settings.times(usual=3, quick=3)) for action in actions]
