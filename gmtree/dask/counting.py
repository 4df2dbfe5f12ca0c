"""Count the records of people by leaf, with a limit on the counted records of each person.

The same records are counted as in memory. The rule that chooses them needs all records of a person,
which may be in any files. So the records are written to the confidential folder twice: first
divided by leaf, then divided by person.

==========================  ===================================================================
every row group: split      writes its records by partition of the leaves
every partition: gather     finds the leaf of each record; writes them by group of people
every group: choose         chooses the counted records of each person; writes their leaves
every partition: count      writes its leaves with the number of counted records
==========================  ===================================================================

The rule counts the first records of a person in a fixed order
(:func:`gmtree.privacy.publishing.people.kept_records`). A record that comes too late among the
person's records in one partition also comes too late among all of them. So `gather` leaves such
records out, and writes only a few records of each person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask.confidential import forgets_locals
from gmtree.dask.drawing import survey
from gmtree.dask.engine import Engine
from gmtree.dask.joint_tree import JointTree
from gmtree.dask.parquet import (
    USUAL_ROWS,
    Partition,
    Piece,
    arrow,
    part_name,
    partitions,
    pieces,
    read,
    write,
)
from gmtree.dask.sorted_rows import Key, locate
from gmtree.dask.sorting import cut
from gmtree.dask.storage import load, remove_folder, save
from gmtree.labels.columns import encode
from gmtree.privacy.publishing.people import (
    Bounds,
    Forms,
    distinct_texts,
    kept_records,
    leaf_keys,
    public_hash,
    refuse_two_forms,
)

# Memory that a task needs for each record: its labels, and the person's text as a Python object.
_BYTES_PER_RECORD = 200
# Columns of the files between `gather` and `choose`.
_BETWEEN = ["person", "leaf", "leaf_key"]


@dataclass(frozen=True)
class People:
    """The arguments of the tasks that count records.

    Attributes
    ----------
    levels : tuple of str
    person, count : str
        Column of the records that identifies people, and column of the counts.
    bounds : Bounds
    folder : Path
        Folder for files between tasks, which are confidential.
    rows : int
        Records that one task reads at a time.
    groups : int
        Number of groups of people.
    starts : tuple of int
        The first leaf of each partition.
    """

    levels: tuple[str, ...]
    person: str
    count: str
    bounds: Bounds
    folder: Path
    rows: int
    groups: int
    starts: tuple[int, ...]

    @property
    def columns(self) -> list[str]:
        """The columns that are read from the records."""
        return [*self.levels, self.person]


def count_people(
    engine: Engine,
    records: Any,
    leaves: Sequence[Partition],
    levels: tuple[str, ...],
    person: str,
    count: str,
    bounds: Bounds,
    rows: int | None,
    folder: Path,
) -> list[Partition]:
    """Write the leaves with the counts of their records to a new folder in `folder`.

    Returns the same partitions as `leaves`, in the new files.
    """
    found = pieces("records", records, [*levels, person])
    if rows is None:
        rows = int(min(USUAL_ROWS, max(1, engine.memory() // _BYTES_PER_RECORD)))
    work: list[tuple] = [(levels, None, p, engine.memory(), False) for p in leaves]
    ends = engine.run("reading leaves", survey, work)
    JointTree(ends)  # refuses partitions out of order
    between, counted = folder / "records", folder / "counted"
    for path in (between, counted):
        path.mkdir(mode=0o700)
    groups = max(1, -(-sum(piece.rows for piece in found) // rows))
    starts = tuple(p.start for p in leaves)
    job = People(levels, person, count, bounds, between, rows, groups, starts)
    cuts = [here.first for here in ends[1:]]
    work = [(job, k, x, cuts) for k, x in enumerate(found)]
    refuse_two_forms("person", engine.run("reading records", split, work))
    engine.run("finding leaves", gather, [(job, p) for p in leaves])
    engine.run("choosing records", choose, [(job, group) for group in range(groups)])
    engine.run("counting records", count_leaves, [(job, p, counted) for p in leaves])
    remove_folder(between)
    columns = [*levels, count]
    return [
        p._replace(pieces=tuple(pieces("leaves", counted / part_name(p.number), columns)))
        for p in leaves
    ]


# --------------------------------------------------------------------------- tasks


@forgets_locals
def split(job: People, number: int, piece: Piece, cuts: Sequence[Key]) -> Forms:
    """Replace people by their texts, and write the records of each partition of the leaves.

    Returns the forms of the labels of people.
    """
    pa = arrow()
    table = read([piece], job.columns)
    for name in job.levels:
        if table.column(name).null_count:
            check.fail("records", f"must have a leaf in each row; {name!r} is missing in some row.")
    code, texts, forms = distinct_texts("person", encode("person", table.column(job.person)))
    if None in texts:
        check.fail("person", "must be known in each record; some record has none.")
    known = pa.array([(text or "").encode(errors="surrogatepass") for text in texts], pa.binary())
    labels = [table.column(name) for name in job.levels]
    own = pa.table([*labels, known.take(pa.array(code))], job.columns)
    cut(own, job.levels, cuts, job.folder, number)
    return forms


@forgets_locals
def gather(job: People, partition: Partition) -> None:
    """Find the leaves of the records of a partition, and write the records of each group."""
    pa = arrow()
    runs = sorted(job.folder.glob(f"run-{partition.number}-*.parquet"))
    leaves: Any = read(partition.pieces, job.levels, job.levels[:-1]) if runs else None
    for some in partitions(pieces("records", runs, job.columns), job.rows):
        table = read(some.pieces, job.columns)
        leaf = locate(leaves, table, job.levels)
        if np.any(leaf < 0):
            check.fail(
                "records",
                "must have a leaf of 'leaves' in each row; some row has another one. Labels are "
                "compared exactly, including blanks and leading zeros.",
            )
        used, place = np.unique(leaf, return_inverse=True)
        rows = pa.array(used)
        keys = leaf_keys([encode("levels", leaves.column(x).take(rows)) for x in job.levels])
        table = pa.table(
            [table.column(job.person), pa.array(leaf + partition.start), pa.array(keys[place])],
            _BETWEEN,
        )
        kept, person_key = _kept(table, job.bounds)
        group = person_key % np.uint64(job.groups)
        for k in np.unique(group).tolist():
            name = f"people-{k}-{partition.number}-{some.number}.parquet"
            write(table.take(pa.array(kept[group == k])), job.folder / name)


@forgets_locals
def choose(job: People, group: int) -> None:
    """Choose the counted records of a group of people; write their leaves by partition."""
    found = sorted(job.folder.glob(f"people-{group}-*.parquet"))
    if not found:
        return
    table = read(pieces("records", found, _BETWEEN), _BETWEEN)
    kept, _ = _kept(table, job.bounds)
    leaf = np.sort(table.column("leaf").to_numpy()[kept])
    ends = np.searchsorted(leaf, [*job.starts[1:], np.iinfo(np.int64).max])
    for p, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < stop:
            save(job.folder / f"leaves-{p}-{group}.npz", leaf=leaf[start:stop])


@forgets_locals
def count_leaves(job: People, partition: Partition, folder: Path) -> None:
    """Write the leaves of a partition with the number of their counted records."""
    counts = np.zeros(partition.rows, np.int64)
    for name in job.folder.glob(f"leaves-{partition.number}-*.npz"):
        np.add.at(counts, load(name)["leaf"] - partition.start, 1)
    table = read(partition.pieces, job.levels, job.levels[:-1])
    table = table.append_column(job.count, arrow().array(counts))
    write(table, folder / part_name(partition.number), job.levels)


def _kept(table: Any, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that the rule keeps among all rows of a table, and hashes of their people."""
    people = table.column("person").combine_chunks().dictionary_encode()
    texts = (text.decode(errors="surrogatepass") for text in people.dictionary.to_pylist())
    whose, person_key = people.indices.to_numpy(), public_hash(texts)
    leaf, leaf_key = (table.column(name).to_numpy() for name in _BETWEEN[1:])
    _, first, place = np.unique(leaf, return_index=True, return_inverse=True)
    kept = kept_records(place, leaf_key[first], whose, person_key, bounds)
    return kept, person_key[whose[kept]]
