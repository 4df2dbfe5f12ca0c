"""Noise where any task may run twice: attempts with names of their own, one of which counts.

A cluster repeats a task whose worker was lost, and may repeat one that had ended. Two draws of
noise for one count are as confidential as the count itself: their mean has less noise than was
paid for. So each attempt writes files of its own into a confidential folder, the driver writes
the first name it hears for each partition into the record of the run, all later steps read only
what the record names, and other attempts are destroyed before anything is published.

True counts are never results or arguments of tasks, which clusters keep and print. They pass from
task to task in files of the confidential folder only.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask.parquet import Partition, Piece, arrow, read, save
from gmtree.dask.part import Part
from gmtree.dask.result import write_json
from gmtree.dask.rows import find_runs
from gmtree.dask.tasks import BYTES_PER_NODE, refuse_large
from gmtree.dask.top import Ends
from gmtree.privacy.measuring import forget_locals
from gmtree.privacy.stretches import measure_joint, measure_stretch, refuse_public_total

_FORMAT = "gmtree confidential run 1"
RECORD = "run.json"


@dataclass(frozen=True)
class Draw:
    """What tasks that draw noise are told.

    Attributes
    ----------
    levels : tuple of str
    count : str
        Column of true counts.
    folder : str
        Confidential folder for attempts.
    scales : tuple of Fraction or None
        By level, the total's first; None where it is not measured.
    mechanism : str
    max_count : int or None
    largest_sum : int
    memory : float
        Bytes that one task may use.
    """

    levels: tuple[str, ...]
    count: str
    folder: str
    scales: tuple[Fraction | None, ...]
    mechanism: str
    max_count: int | None
    largest_sum: int
    memory: float


# --------------------------------------------------------------------------- tasks


def survey(
    levels: tuple[str, ...], count: str, partition: Partition, memory: float, keeps: bool
) -> Ends:
    """The nodes of a partition; refuses rows out of order and counts that are missing."""
    table = read(partition.pieces, [*levels, count], levels[:-1])
    pa = arrow()
    column = table.column(count)
    if not pa.types.is_integer(column.type) or column.null_count:
        check.fail_type("count", "must name a column of whole numbers, none of them missing.")
    runs = find_runs(table, levels, "leaves", partition.start)
    part = Part.of(runs)
    refuse_large(partition, part.n, part.n * BYTES_PER_NODE[keeps] + table.nbytes, memory)
    groups = tuple((g.level, g.side) for g in part.groups)
    return Ends(runs.first, runs.last, partition.start, runs.rows, part.sizes, groups)


def draw(job: Draw, partition: Partition) -> str:
    """Noisy counts of a partition in a file of their own; returns the name of the attempt only."""
    outer = sys.exc_info()[1]
    table: Any = None
    partial: Any = None
    by_level: Any = None
    try:
        table = read(partition.pieces, [*job.levels, job.count], job.levels[:-1])
        part = Part.of(find_runs(table, job.levels, "leaves", partition.start))
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
        _keep(Path(job.folder) / f"noisy-{attempt}.npz", noisy=noisy)
        _keep(Path(job.folder) / f"partial-{attempt}.npz", partial=partial)
    except BaseException as error:
        forget_locals(error, outer)
        raise
    finally:
        # Tracebacks that print local variables must not print true counts.
        del table, partial, by_level
    return attempt


def draw_joint(
    job: Draw, attempts: Sequence[str], paths: Sequence[np.ndarray], level: Sequence[int]
) -> str:
    """Noisy counts of the nodes that are in several partitions, from the sums in each.

    `paths` are, for each partition, the numbers of its first and last nodes by level.
    """
    outer = sys.exc_info()[1]
    sums = np.zeros(len(level), np.int64)
    try:
        for attempt, nodes in zip(attempts, paths, strict=True):
            with np.load(Path(job.folder) / f"partial-{attempt}.npz") as arrays:
                # Where a level has one node, the second sum is 0.
                np.add.at(sums, nodes, arrays["partial"])
        if job.max_count is None:
            refuse_public_total(float(sums[0]), job.largest_sum)
        noisy = measure_joint(sums, np.asarray(level), job.scales, job.mechanism)
        attempt = f"joint-{uuid.uuid4().hex}"
        _keep(Path(job.folder) / f"noisy-{attempt}.npz", noisy=noisy)
    except BaseException as error:
        forget_locals(error, outer)
        raise
    finally:
        del sums
    return attempt


def _keep(path: Path, **arrays: np.ndarray) -> None:
    """Save, and wait until it is on the disk: what the record names must be there."""
    save(path, **arrays)
    with path.open("rb") as file:
        os.fsync(file.fileno())


# --------------------------------------------------------------------------- the record


class Record:
    """What was spent and drawn, in a file that is written before the next step is taken.

    Attributes
    ----------
    data : dict
        ``request`` and ``ledger``; ``partitions``; ``committed``, the attempt that counts for each
        partition; ``joint``, that of the nodes in several; ``published``.
    """

    def __init__(self, folder: Path, data: dict[str, Any]) -> None:
        self.folder, self.data = folder, data

    @classmethod
    def new(
        cls,
        folder: Path,
        request: dict[str, Any],
        ledger: dict[str, Any],
        partitions: Sequence[Partition],
    ) -> Record:
        """Write down what is spent, before anything is drawn."""
        data = {
            "format": _FORMAT,
            "run": uuid.uuid4().hex,
            "request": request,
            "ledger": ledger,
            "partitions": [[p.start, [list(piece) for piece in p.pieces]] for p in partitions],
            "committed": {},
            "joint": None,
            "published": False,
        }
        made = cls(folder, data)
        made.attempts.mkdir(mode=0o700)
        made.write()
        return made

    @classmethod
    def read(cls, folder: Path) -> Record:
        """The record of an earlier run."""
        try:
            data = json.loads((folder / RECORD).read_text())
        except (OSError, ValueError):
            data = {}
        if data.get("format") != _FORMAT:
            check.fail("confidential", f"must hold a run to resume; {str(folder)!r} does not.")
        return cls(folder, data)

    def write(self) -> None:
        """Put the record on disk."""
        write_json(self.folder / RECORD, self.data)

    @property
    def attempts(self) -> Path:
        """Folder of the attempts of this run."""
        return self.folder / f"attempts-{self.data['run']}"

    @property
    def partitions(self) -> list[Partition]:
        """Partitions as they were when the run began."""
        return [
            Partition(k, start, tuple(Piece(*piece) for piece in found))
            for k, (start, found) in enumerate(self.data["partitions"])
        ]

    @property
    def waiting(self) -> list[Partition]:
        """Partitions without a draw that counts."""
        return [p for p in self.partitions if str(p.number) not in self.data["committed"]]

    def commit(self, partition: Partition, attempt: str) -> None:
        """From now on this attempt counts; a later one for the same partition does not."""
        self.data["committed"].setdefault(str(partition.number), attempt)
        self.write()

    def commit_joint(self, attempt: str) -> None:
        """The same for the nodes that are in several partitions."""
        self.data["joint"] = self.data["joint"] or attempt
        self.write()

    def noisy(self) -> dict[int, str]:
        """Files with the noisy counts that count, by partition."""
        committed = self.data["committed"].items()
        return {int(k): str(self.attempts / f"noisy-{name}.npz") for k, name in committed}

    def joint(self) -> np.ndarray:
        """Noisy counts of the nodes that are in several partitions."""
        with np.load(self.attempts / f"noisy-{self.data['joint']}.npz") as arrays:
            return arrays["noisy"]

    def destroy_others(self) -> None:
        """Destroy attempts that do not count, and, once they are not needed, true sums."""
        kept = {Path(name).name for name in self.noisy().values()}
        kept.add(f"noisy-{self.data['joint']}.npz")
        if self.data["joint"] is None:
            kept |= {f"partial-{name}.npz" for name in self.data["committed"].values()}
        for path in self.attempts.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)
        missing = [name for name in kept if not (self.attempts / name).exists()]
        if self.data["joint"] is not None and missing:
            check.fail(
                "confidential",
                f"must hold all draws that its record names; {missing[0]!r} is gone. Begin anew in "
                "another folder; that counts as new spending.",
            )

    def close(self) -> None:
        """After publication: remove all but the record. A task that is still running fails."""
        self.data["published"] = True
        self.write()
        remove_folders(self.folder)


def remove_folders(folder: Path) -> None:
    """Remove all folders in a folder: copies of leaves, and attempts."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
