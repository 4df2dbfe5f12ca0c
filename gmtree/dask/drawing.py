"""Tasks of a release that see true counts: they add noise and write confidential files.

True counts are never results or arguments of tasks, because clusters keep and print these. They
pass from task to task only in files of the confidential folder; see
:mod:`gmtree.dask.confidential`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from gmtree import _validate as check
from gmtree._files import sync_folder
from gmtree.dask.confidential import forgets_locals
from gmtree.dask.joint_tree import Ends
from gmtree.dask.parquet import Partition, arrow, read
from gmtree.dask.partition_tree import PartitionTree
from gmtree.dask.partition_values import find_part
from gmtree.dask.sorted_rows import find_runs
from gmtree.dask.storage import load, save
from gmtree.privacy.publishing.measuring import refuse_public_total
from gmtree.privacy.publishing.stretches import measure_joint, measure_stretch


@dataclass(frozen=True)
class Draw:
    """The arguments of the tasks that draw noise.

    Attributes
    ----------
    levels : tuple of str
    count : str
        Column of true counts.
    folder : Path
        Confidential folder for attempts.
    scales : tuple of Fraction or None
        By level, beginning with the total; None if the level is not measured.
    mechanism : str
    max_count : int or None
    largest_sum : int
    """

    levels: tuple[str, ...]
    count: str
    folder: Path
    scales: tuple[Fraction | None, ...]
    mechanism: str
    max_count: int | None
    largest_sum: int


# --------------------------------------------------------------------------- tasks


@forgets_locals
def survey(
    levels: tuple[str, ...], count: str | None, partition: Partition, memory: float, keeps: bool
) -> Ends:
    """Describe the ends of a partition; refuse rows out of order and counts that are not whole."""
    table = read(partition.pieces, levels if count is None else [*levels, count], levels[:-1])
    column = None if count is None else table.column(count)
    if column is not None and not (arrow().types.is_integer(column.type) and not column.null_count):
        check.fail_type("count", "must name a column of whole numbers, none of them missing.")
    return find_part(levels, partition, table, memory, keeps)[1]


@forgets_locals
def draw(job: Draw, partition: Partition) -> str:
    """Write noisy counts of a partition to new files; return the name of the attempt."""
    table = read(partition.pieces, [*job.levels, job.count], job.levels[:-1])
    part = PartitionTree.of(find_runs(table, job.levels, "leaves", partition.start))
    by_level, partial = measure_stretch(
        table.column(job.count).to_numpy(),
        part.begin,
        job.scales,
        job.mechanism,
        job.max_count,
        job.largest_sum,
    )
    noisy = np.zeros(part.n, np.int64)
    for level, own in enumerate(by_level):
        noisy[part.nodes(level)] = own
    attempt = f"{partition.number}-{uuid.uuid4().hex}"
    _keep(job.folder / f"noisy-{attempt}.npz", noisy=noisy)
    _keep(job.folder / f"partial-{attempt}.npz", partial=partial)
    return attempt


@forgets_locals
def draw_joint(
    job: Draw, attempts: Sequence[str], boundary: Sequence[np.ndarray], level: Sequence[int]
) -> str:
    """Write noisy counts of the nodes that are in several partitions; return the attempt's name.

    `boundary` has, for each partition, the numbers of its boundary nodes by level and side.
    """
    sums = np.zeros(len(level), np.int64)
    for attempt, nodes in zip(attempts, boundary, strict=True):
        # If a level has one node, the second sum is 0.
        np.add.at(sums, nodes, load(job.folder / f"partial-{attempt}.npz")["partial"])
    if job.max_count is None:
        refuse_public_total(float(sums[0]), job.largest_sum)
    noisy = measure_joint(sums, np.asarray(level), job.scales, job.mechanism)
    attempt = f"joint-{uuid.uuid4().hex}"
    _keep(job.folder / f"noisy-{attempt}.npz", noisy=noisy)
    return attempt


def _keep(path: Path, **arrays: np.ndarray) -> None:
    """Save arrays, and wait until they are on the disk, before the record names their file."""
    save(path, **arrays)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    sync_folder(path.parent)
