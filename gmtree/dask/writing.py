"""Results of a partition as Parquet files, one for each level."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmtree.dask.messages import Instructions, Problem, result_column
from gmtree.dask.parquet import Partition, arrow, part_name, write
from gmtree.dask.partition_tree import PartitionTree


class Columns(NamedTuple):
    """Results of a partition by node."""

    value: np.ndarray
    error: np.ndarray | None
    estimate: np.ndarray | None


def publish(
    problem: Problem,
    partition: Partition,
    part: PartitionTree,
    table: Any,
    columns: Columns,
    final: Instructions,
    v: np.ndarray,
    s: np.ndarray,
) -> dict[int, int]:
    """Write the nodes that belong to this partition; return the number of rows of each level.

    Overwrites `v` and `s` at the boundary nodes with their measurements and variances.
    """
    pa = arrow()
    written = {}
    v[part.boundary], s[part.boundary] = final.plain[:, :, 2], final.plain[:, :, 3]
    for level in final.levels:
        inner = level < part.height
        skip = int(inner and final.skips_first[level])
        nodes = part.nodes(level)
        here = slice(nodes.start + skip, nodes.stop)
        if here.start >= here.stop:
            continue
        names = list(problem.levels[:level])
        labels = table.select(names)
        if inner:
            labels = labels.take(pa.array(part.first_rows(level)[skip:]))
        found = {name: labels.column(name) for name in names}
        found[problem.value] = pa.array(columns.value[here])
        if problem.noise is not None:
            # Nodes that were not measured have no noisy count.
            noisy = v[here].astype(np.int64)
            unmeasured = np.isinf(s[here])
            found[result_column(problem.value, "noisy")] = pa.array(noisy, mask=unmeasured)
        if columns.estimate is not None:
            found[result_column(problem.value, "estimate")] = pa.array(columns.estimate[here])
        if columns.error is not None:
            found[result_column(problem.value, "std_error")] = pa.array(columns.error[here])
        folder = problem.result_folder(level)
        write(pa.table(found), folder / part_name(partition.number), names)
        written[level] = here.stop - here.start
    pa.default_memory_pool().release_unused()
    return written
