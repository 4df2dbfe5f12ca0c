"""Running time against size: on the data sets as in the paper, and per node over four decades."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial

import numpy as np

from gmtree import _memory, baselines
from gmtree._progress import Progress
from gmtree.bench import data, trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.figures import Figure, Line, Panel
from gmtree.bench.report import Check, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, time_of
from gmtree.consistency import Consistency, consistent
from gmtree.tree import Tree

Algorithm = Callable[[Tree, np.ndarray], object]

FROM_PARENTS, GMC, TOTAL = "GMC from parents", "GMC", "total"
COMPILED: dict[str, Algorithm] = {
    GMC: consistent,
    "PrivTrie": baselines.privtrie,
    "Boosting": baselines.boosting,
}
RECURSIVE: dict[str, Algorithm] = {
    "recursive PrivTrie": baselines.privtrie_recursive,
    "recursive Boosting": baselines.boosting_recursive,
}

ALGORITHMS = (FROM_PARENTS, *COMPILED, *RECURSIVE)

# The recursive algorithms use lists of Python numbers: bytes per node, and seconds per call.
RECURSIVE_BYTES = 400
RECURSIVE_SECONDS, RECURSIVE_SECONDS_QUICK = 60.0, 0.2
# Shorter calls are repeated, because a garbage collection may happen during one of them.
WORTH_REPEATING = 3.0

# What full GMC promises against the recursive algorithms, on the whole census.
LEAST_SPEED_UP = 100.0

SMALLEST, LARGEST = 10**4, 10**8
MOST_SPREAD = 3.0


def run(settings: Settings) -> Report:
    """Time all algorithms on parts of the data sets, then GMC by the node."""
    report = Report("scale", "Running time against size", settings.as_dict())
    sizes = _decades(settings)
    steps = sum(data.part_count(name, settings) for name in settings.datasets) + len(sizes)
    panels = []
    with Progress(steps, "scale") as progress:
        for name in settings.datasets:
            progress.advance(0, f"{data.TITLES[name]}: loading")
            table = _time_parts(name, settings, progress)
            report.tables.append(table)
            panels.append(_panel(data.TITLES[name], table))
            if name == "census2010" and settings.is_full_size:
                report.checks += _speed_ups(table)
        table = _time_per_node(sizes, settings, progress)
    report.tables.append(table)
    per_node = _column(table, TOTAL)
    report.checks.append(
        Check(
            "time per node, slowest over fastest size", max(per_node) / min(per_node), MOST_SPREAD
        )
    )
    lines = [Line(FROM_PARENTS, _column(table, "nodes"), per_node)]
    panel = Panel("", "nodes", "ns per node", lines, from_zero=True)
    report.figures = [
        Figure("scale", "Running time against size", panels),
        Figure("per_node", "Time per node", [panel]),
    ]
    report.notes.append(
        "'GMC from parents' includes ordering the tree; all others are given the tree, and GMC "
        "then does\nconstruction and post-processing."
    )
    return report


# --------------------------------------------------------------------------- on the data sets


def _time_parts(name: str, settings: Settings, progress: Progress) -> Table:
    times = [Column(algorithm, ",.2f") for algorithm in ALGORITHMS]
    columns = [Column("part"), Column("nodes", ",d"), *times]
    table = Table(f"{data.TITLES[name]}: milliseconds", columns)
    clock = RecursiveClock(RECURSIVE_SECONDS_QUICK if settings.quick else RECURSIVE_SECONDS)
    repeat = settings.times(usual=3, quick=2)
    for label, tree in data.parts(name, settings):
        progress.advance(0, f"{data.TITLES[name]}: {label}")
        v, out = measurements(tree), np.empty(tree.n)
        seconds: list[float | None] = [best_time(partial(full_gmc, tree.parent, v, out), repeat)]
        seconds += [best_time(partial(each, tree, v), repeat) for each in COMPILED.values()]
        seconds += [clock.time(each, function, tree, v) for each, function in RECURSIVE.items()]
        table.rows.append([label, tree.n, *(x and 1e3 * x for x in seconds)])
        progress.advance(1)
    return table


def full_gmc(parent: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """From an array of parents to consistent values."""
    Consistency(Tree.from_parents(parent)).project(v, out=out)


class RecursiveClock:
    """Times plain Python, if it can be expected to finish."""

    def __init__(self, most_seconds: float) -> None:
        self.most_seconds = most_seconds
        self.per_node: dict[str, float] = {}

    def time(self, name: str, algorithm: Algorithm, tree: Tree, v: np.ndarray) -> float | None:
        """Seconds per call; None if it would take too long or too much memory."""
        too_long = self.per_node.get(name, 0.0) * tree.n > self.most_seconds
        if too_long or RECURSIVE_BYTES * tree.n > _memory.limit():
            return None
        gc.collect()  # so that this call does not pay for garbage of earlier ones
        seconds = time_of(lambda: algorithm(tree, v))
        if seconds < WORTH_REPEATING:
            seconds = min(seconds, best_time(lambda: algorithm(tree, v), 2))
        self.per_node[name] = seconds / tree.n
        return seconds


def _speed_ups(table: Table) -> list[Check]:
    """GMC against the recursive algorithms on the largest part, if these finished."""
    gmc = _column(table, FROM_PARENTS)[-1]
    return [
        Check(
            f"Census2010: {name} over {FROM_PARENTS}",
            times[-1] / gmc,
            LEAST_SPEED_UP,
            at_least=True,
        )
        for name in RECURSIVE
        if len(times := _column(table, name)) == len(table.rows)
    ]


def _column(table: Table, name: str) -> list[float]:
    """Numbers in a column, without the gaps."""
    k = [column.name for column in table.columns].index(name)
    return [float(cell) for row in table.rows if isinstance(cell := row[k], (int, float))]


def _panel(title: str, table: Table) -> Panel:
    nodes = _column(table, "nodes")
    # An algorithm without times for all sizes lacks those of the largest.
    lines = [
        Line(name, nodes[: len(times)], times)
        for name in ALGORITHMS
        if (times := _column(table, name))
    ]
    return Panel(title, "nodes", "milliseconds", lines)


# --------------------------------------------------------------------------- by the node


def _decades(settings: Settings) -> list[int]:
    largest = LARGEST if settings.size is None else settings.size
    sizes = [10**k for k in range(1, 12) if SMALLEST <= 10**k <= largest]
    return sizes or [largest]


def _time_per_node(sizes: list[int], settings: Settings, progress: Progress) -> Table:
    columns = [
        Column("nodes", ",d"),
        Column("construction", ".2f"),
        Column("post-processing", ".2f"),
        Column(TOTAL, ".2f"),
    ]
    table = Table("Nanoseconds per node, random families of 2 to 5", columns)
    for size in sizes:
        progress.advance(0, f"time per node: {size:,} nodes")
        tree = trees.make("grouped", size)
        v, out = measurements(tree), np.empty(tree.n)
        # Small trees take too little time for the clock, and calls of functions count there.
        repeat = settings.times(usual=5, quick=3) * max(1, 10**6 // tree.n)
        total = best_time(partial(full_gmc, tree.parent, v, out), repeat)
        post = Consistency(tree)
        after = best_time(partial(post.project, v, out=out), repeat)
        per_node = [1e9 * seconds / tree.n for seconds in (total - after, after, total)]
        table.rows.append([tree.n, *per_node])
        progress.advance(1)
    return table
