"""Sorting of rows by their levels, for data sets that do not fit into memory.

The labels of a sample of rows divide all rows into ranges of about equal size. Each piece is sorted
and cut at these labels. Then all cuts of one range are joined and sorted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask.engine import Engine
from gmtree.dask.parquet import Piece, arrow, part_name, pieces, read, write
from gmtree.dask.sorted_rows import Key, key
from gmtree.dask.storage import Location

# Number of sampled rows per range, so large that few ranges are twice as long as intended.
_SAMPLES = 50


def sort(
    engine: Engine,
    found: Sequence[Piece],
    levels: Sequence[str],
    columns: Sequence[str],
    rows: int,
    folder: Location,
) -> list[Piece]:
    """Write the rows to new files in `folder`, sorted by `levels`, with about `rows` rows each."""
    ranges = max(1, -(-sum(piece.rows for piece in found) // rows))
    each = max(1, _SAMPLES * ranges // max(1, len(found)))
    sampled = engine.run("sampling rows", sample, [(piece, tuple(levels), each) for piece in found])
    keys = sorted(k for some in sampled for k in some)
    cuts = [keys[len(keys) * j // ranges] for j in range(1, ranges)]
    runs, done = folder / "runs", folder / "sorted"
    for path in (runs, done):
        path.mkdir(parents=True, exist_ok=True)
    names = tuple(dict.fromkeys([*levels, *columns]))
    work = [(k, piece, names, len(levels), cuts, runs) for k, piece in enumerate(found)]
    engine.run("sorting rows", split, work)
    parts = range(ranges)
    engine.run("merging rows", merge, [(j, names, len(levels), runs, done) for j in parts])
    for path in runs.iterdir():
        path.unlink()
    return pieces("leaves", [done / part_name(j) for j in parts], names)


def sample(piece: Piece, levels: Sequence[str], count: int) -> list[Key]:
    """Return the labels of some evenly spaced rows."""
    table = read([piece], levels)
    for name in levels:
        if table.column(name).null_count:
            check.fail(name, "must have no missing labels; some row has none.")
    rows = np.unique(np.linspace(0, table.num_rows - 1, count).astype(int))
    return [key(table, levels, int(k)) for k in rows]


def split(
    number: int,
    piece: Piece,
    names: Sequence[str],
    depth: int,
    cuts: Sequence[Key],
    folder: Location,
) -> None:
    """Sort one piece, and write its rows of each range."""
    cut(read([piece], names), names[:depth], cuts, folder, number)


def cut(
    table: Any, levels: Sequence[str], cuts: Sequence[Key], folder: Location, number: int
) -> None:
    """Sort a table, and write its rows of each range to a file with this number."""
    table = sort_table(table, levels)
    ends = [
        bisect_left(range(table.num_rows), end, key=lambda k: key(table, levels, k)) for end in cuts
    ]
    bounds = [0, *ends, table.num_rows]
    for j, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            write(table.slice(start, stop - start), folder / f"run-{j}-{number}.parquet")


def merge(j: int, names: Sequence[str], depth: int, runs: Location, done: Location) -> None:
    """Join and sort the rows of one range."""
    found = sorted(runs.glob(f"run-{j}-*.parquet"))
    if found:
        table = read(pieces("leaves", found, names), names)
        table = sort_table(table, names[:depth])
    else:
        table = arrow().table({name: [] for name in names})
    write(table, done / part_name(j))


def sort_table(table: Any, levels: Sequence[str]) -> Any:
    """Sort the rows of a table in memory, and replace codes by the labels for which they stand."""
    pa = arrow()
    for k, name in enumerate(table.column_names):
        kind = table.column(name).type
        if pa.types.is_dictionary(kind):
            table = table.set_column(k, name, table.column(name).cast(kind.value_type))
    return table.sort_by([(name, "ascending") for name in levels])
