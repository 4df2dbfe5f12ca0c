"""The rows of a partition as a tree, with the measurements and variances of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask.joint_tree import Ends
from gmtree.dask.messages import Problem
from gmtree.dask.node_measurements import numbers, variances
from gmtree.dask.parquet import Partition, read
from gmtree.dask.partition_tree import PartitionTree
from gmtree.dask.sorted_rows import find_runs
from gmtree.dask.storage import load as load_arrays
from gmtree.dask.storage import save as save_arrays

# Bytes that a task needs for each node, in addition to the columns of labels: measured, rounded up.
# More are needed if tasks keep values for later tasks (`Problem.keeps`).
BYTES_PER_NODE = {False: 80, True: 150}


def load_rows(problem: Problem, partition: Partition) -> Any:
    """Read the rows of a partition, with the labels above the leaves as codes."""
    return read(partition.pieces, problem.columns, problem.levels[:-1])


def find_part(
    levels: Sequence[str], partition: Partition, table: Any, memory: float, keeps: bool
) -> tuple[PartitionTree, Ends]:
    """Build the tree of a partition, and describe its ends."""
    runs = find_runs(table, levels, "leaves", partition.start)
    part = PartitionTree.of(runs)
    refuse_large(partition, part.n, part.n * BYTES_PER_NODE[keeps] + table.nbytes, memory)
    groups = tuple((g.level, g.side) for g in part.groups)
    return part, Ends(runs.first, runs.last, partition.start, part.sizes, groups)


def refuse_large(partition: Partition, nodes: int, needed: float, memory: float) -> None:
    """Refuse a partition that would not fit into the memory of its worker."""
    if needed > memory:
        check.fail(
            "leaves",
            f"must have partitions that fit into a worker; partition {partition.number} (from row "
            f"{partition.start} on) has {nodes:,} nodes, which take about {needed / 1e6:,.0f} MB, "
            f"and one task may use {memory / 1e6:,.0f} MB. Pass a smaller 'partition_rows', write "
            "the files with smaller row groups, or give the workers more memory or fewer threads.",
        )


def load_values(
    problem: Problem, partition: Partition, part: PartitionTree, table: Any
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return measurements and variances by node, and for each level which nodes have a row.

    A release has no rows for nodes, so the last list is empty.
    """
    v, s = _row_values(problem, partition, part, table)
    matched = []
    for level, source in enumerate(problem.measured):
        here = part.nodes(level)
        if source is None:
            s[here] = np.inf
            matched.append(np.zeros(part.sizes[level], bool))
            continue
        row, found = source.rows(
            part, table, problem.levels[:level], problem.columns[problem.height :]
        )
        missing = np.ones(part.sizes[level], bool)
        missing[row] = False
        v[here][row] = numbers(found, problem.value, source.argument)
        if isinstance(problem.variance, str):
            s[here][row] = variances(found, problem.variance, source.argument)
        s[here][missing] = np.inf
        matched.append(~missing)
    _mark_unmeasured(v[: part.n_inner], s[: part.n_inner])
    return v, s, matched


def _row_values(
    problem: Problem, partition: Partition, part: PartitionTree, table: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return measurements and variances by node: of the rows, or of all nodes for a release."""
    s = _level_variances(problem, part)
    if problem.noise is not None:
        return load_arrays(problem.noise[partition.number])["noisy"].astype(np.float64), s
    v = np.zeros(part.n)
    v[part.rows] = numbers(table, problem.value, "leaves")
    if isinstance(problem.variance, str):
        s[part.rows] = variances(table, problem.variance, "leaves")
    _mark_unmeasured(v[part.rows], s[part.rows])
    return v, s


def _level_variances(problem: Problem, part: PartitionTree) -> np.ndarray:
    """Return the variances of the levels by node; infinity if a column holds the variances."""
    variance = problem.variance
    return part.by_level([np.inf] * (part.height + 1) if isinstance(variance, str) else variance)


def _mark_unmeasured(v: np.ndarray, s: np.ndarray) -> None:
    """Set the variances of missing measurements to infinity, in place."""
    missing = np.isnan(v)
    if missing.any():
        s[missing] = np.inf
        v[missing] = 0


def keep(
    problem: Problem, partition: Partition, part: PartitionTree, v: np.ndarray, s: np.ndarray
) -> None:
    """Keep the tree for later tasks, and the measurements that they cannot read from the rows.

    Variances are kept only if they come from a column. Values that were not measured are NaN.
    """
    kept = slice(None) if problem.keeps else slice(part.n_inner)
    arrays = {"v": np.where(np.isinf(s[kept]), np.nan, v[kept])}
    if isinstance(problem.variance, str):
        arrays["s"] = s[kept]
    arrays |= {f"begin{k}": starts for k, starts in enumerate(part.begin)}
    rows = np.array(part.sizes[-1])
    save_arrays(problem.file("part", partition.number), rows=rows, **arrays)


def load(
    problem: Problem, partition: Partition, table: Any = None
) -> tuple[PartitionTree, np.ndarray, np.ndarray]:
    """Return tree, measurements and variances of a partition that the first task has kept.

    If that task did not keep the measurements of the rows, `table` must hold the rows.
    """
    kept = load_arrays(problem.file("part", partition.number))
    part = PartitionTree([kept[f"begin{k}"] for k in range(problem.height)], int(kept["rows"]))
    if problem.keeps:
        v, s = kept["v"], _level_variances(problem, part)
    else:
        v, s = _row_values(problem, partition, part, table)
        v[: part.n_inner] = kept["v"]
    if "s" in kept:
        s[: kept["s"].size] = kept["s"]
    _mark_unmeasured(v, s)
    return part, v, s
