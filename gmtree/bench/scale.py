"""Running time by size: on the data sets of the paper, and per node for sizes over four decades."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from gmtree import _memory, baselines
from gmtree.bench import data, trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.figures import Figure, Line, Panel
from gmtree.bench.report import Cell, Check, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time
from gmtree.consistency import Consistency, reconcile
from gmtree.tree import Tree

Algorithm = Callable[[Tree, np.ndarray], object]

FROM_PARENTS = "GMC from parents"
COMPILED: dict[str, Algorithm] = {
    "GMC": reconcile,
    "PrivTrie": baselines.privtrie,
    "Boosting": baselines.boosting,
}
RECURSIVE: dict[str, Algorithm] = {
    "recursive PrivTrie": baselines.privtrie_recursive,
    "recursive Boosting": baselines.boosting_recursive,
}
ALGORITHMS = (FROM_PARENTS, *COMPILED, *RECURSIVE)

# The recursive algorithms use lists of Python numbers. These are their memory in bytes per node,
# and the longest time in seconds.
RECURSIVE_BYTES = 400
RECURSIVE_SECONDS, RECURSIVE_SECONDS_QUICK = 60.0, 0.2
# Calls that take less time than this are repeated, since a garbage collection may disturb one of
# them.
WORTH_REPEATING = 3.0

# The least speed-up of full GMC over the recursive algorithms, on the whole census.
LEAST_SPEED_UP = 100.0

SMALLEST, LARGEST = 10**4, 10**8
MOST_SPREAD = 3.0


def run(report: Report, settings: Settings) -> None:
    """Time all algorithms on parts of the data sets, and GMC per node for trees of all sizes."""
    sizes = decades(settings)
    parts = {name: data.parts(name, settings) for name in settings.datasets}
    report.expect(sum(map(len, parts.values())) + len(sizes))
    panels: list[Panel] = []
    checks: list[Check] = []
    for name in parts:
        per_node = dict.fromkeys(RECURSIVE, 0.0)
        table = report.table(
            f"{data.TITLES[name]}, milliseconds",
            Column("part", width=16),
            Column("nodes", ",d", 10),
            *(Column(algorithm, ",.2f") for algorithm in ALGORITHMS),
        )
        for part in parts[name]:
            report.step(f"{data.TITLES[name]}: {part.label}")
            table.add(*time_part(part, per_node, settings))
        # An algorithm is not timed at the largest sizes if it would take too long, so its line may
        # be shorter.
        lines = [
            Line(algorithm, table.numbers("nodes")[: len(times)], times)
            for algorithm in ALGORITHMS
            if (times := table.numbers(algorithm))
        ]
        panels.append(Panel(data.TITLES[name], "milliseconds", lines))
        if name == "census2010" and settings.is_full_size:
            checks += speed_ups(table)
    table = time_per_node(report, sizes, settings)
    total = table.numbers("total")
    spread = max(total) / min(total)
    report.add([*checks, Check("time per node, slowest over fastest size", spread, MOST_SPREAD)])
    line = Line(FROM_PARENTS, table.numbers("nodes"), total)
    report.figures = [
        Figure("scale", report.title, panels),
        Figure("per_node", "Time per node", [Panel("", "ns per node", [line], from_zero=True)]),
    ]
    report.notes.append(
        f"'{FROM_PARENTS}' includes ordering the tree. All others are given the tree; the time of\n"
        "GMC then includes construction and post-processing."
    )


def time_part(part: data.Part, per_node: dict[str, float], settings: Settings) -> list[Cell]:
    """A row of the table, with times in milliseconds.

    A recursive algorithm is left out if its time per node for the previous part, in `per_node`,
    predicts that it would take too long. `per_node` is updated.
    """
    repeat = settings.times(usual=3, quick=2)
    most = RECURSIVE_SECONDS_QUICK if settings.quick else RECURSIVE_SECONDS
    tree = part.make()
    v, out = measurements(tree), np.empty(tree.n)
    seconds: list[float | None] = [best_time(partial(full_gmc, tree.parent, v, out), repeat)]
    seconds += [best_time(partial(each, tree, v), repeat) for each in COMPILED.values()]
    for name, function in RECURSIVE.items():
        if RECURSIVE_BYTES * tree.n > _memory.limit() or per_node[name] * tree.n > most:
            seconds.append(None)
            continue
        gc.collect()  # so that the timed call does not collect the garbage of earlier calls
        taken = best_time(partial(function, tree, v), 2, WORTH_REPEATING)
        per_node[name] = taken / tree.n
        seconds.append(taken)
    return [part.label, tree.n, *(x and 1e3 * x for x in seconds)]


def full_gmc(parent: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """Compute consistent values into `out`, starting from an array of parents."""
    Consistency(Tree.from_parents(parent)).project(v, out=out)


def speed_ups(table: Table) -> Iterator[Check]:
    """Checks of the speed-up over the recursive algorithms that finished the largest part."""
    for name in RECURSIVE:
        times = table.numbers(name)
        if len(times) == len(table.rows):
            factor = times[-1] / table.numbers(FROM_PARENTS)[-1]
            claim = f"Census2010: {name} over {FROM_PARENTS}"
            yield Check(claim, factor, LEAST_SPEED_UP, at_least=True)


def decades(settings: Settings) -> list[int]:
    """Tree sizes for which the time per node is measured."""
    largest = settings.size or LARGEST
    return [10**k for k in range(1, 12) if SMALLEST <= 10**k <= largest] or [largest]


def time_per_node(report: Report, sizes: list[int], settings: Settings) -> Table:
    """Measure the time per node of both stages, for trees of all sizes."""
    parts = ("construction", "post-processing", "total")
    table = report.table(
        "Nanoseconds per node, random families of 2 to 5",
        Column("nodes", ",d", 11),
        *(Column(part, ".2f") for part in parts),
    )
    for size in sizes:
        report.step(f"time per node: {size:,} nodes")
        tree = trees.make("grouped", size)
        v, out = measurements(tree), np.empty(tree.n)
        # On small trees the times are too short for the clock and dominated by function calls.
        repeat = settings.times(usual=5, quick=3) * max(1, 10**6 // tree.n)
        total = best_time(partial(full_gmc, tree.parent, v, out), repeat)
        after = best_time(partial(Consistency(tree).project, v, out=out), repeat)
        table.add(tree.n, *(1e9 * seconds / tree.n for seconds in (total - after, after, total)))
    return table
