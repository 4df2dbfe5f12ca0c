"""Rows sorted by their levels, for data sets that do not fit into memory.

Labels of a sample of rows divide the others into stretches of about equal size. Each piece is
sorted and cut at these labels, and then each stretch is put together from its cuts and sorted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask.engine import Engine
from gmtree.dask.parquet import Piece, arrow, pieces, read, write
from gmtree.dask.rows import Key, key

# Sampled rows per stretch: stretches are then seldom twice as long as they should be.
_SAMPLES = 50


def sort(
    engine: Engine,
    found: Sequence[Piece],
    levels: Sequence[str],
    columns: Sequence[str],
    rows: int,
    folder: Path,
) -> list[Piece]:
    """The same rows in new files below `folder`, sorted by `levels`, up to about `rows` each."""
    stretches = max(1, -(-sum(piece.rows for piece in found) // rows))
    each = max(1, _SAMPLES * stretches // max(1, len(found)))
    sampled = engine.run("sampling rows", sample, [(piece, tuple(levels), each) for piece in found])
    keys = sorted(k for some in sampled for k in some)
    cuts = [keys[len(keys) * j // stretches] for j in range(1, stretches)]
    runs, done = folder / "runs", folder / "sorted"
    for path in (runs, done):
        path.mkdir(parents=True, exist_ok=True)
    names = tuple(dict.fromkeys([*levels, *columns]))
    work = [(k, piece, names, len(levels), cuts, str(runs)) for k, piece in enumerate(found)]
    engine.run("sorting rows", split, work)
    parts = range(stretches)
    engine.run(
        "merging rows", merge, [(j, names, len(levels), str(runs), str(done)) for j in parts]
    )
    for path in runs.iterdir():
        path.unlink()
    return pieces("leaves", [str(done / _name(j)) for j in parts], names)


def _name(j: int) -> str:
    return f"part-{j:05d}.parquet"


def sample(piece: Piece, levels: Sequence[str], count: int) -> list[Key]:
    """Labels of some rows, evenly spaced."""
    table = read([piece], levels)
    for name in levels:
        if table.column(name).null_count:
            check.fail(name, "must have no missing labels; some row has none.")
    rows = np.unique(np.linspace(0, table.num_rows - 1, count).astype(int))
    return [key(table, levels, int(k)) for k in rows]


def split(
    number: int, piece: Piece, names: Sequence[str], depth: int, cuts: Sequence[Key], folder: str
) -> None:
    """Sort one piece, and write what belongs to each stretch."""
    levels = names[:depth]
    table = _sorted(read([piece], names), levels)
    ends = [
        bisect_left(range(table.num_rows), cut, key=lambda k: key(table, levels, k)) for cut in cuts
    ]
    bounds = [0, *ends, table.num_rows]
    for j, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            write(table.slice(start, stop - start), Path(folder) / f"run-{j}-{number}.parquet")


def merge(j: int, names: Sequence[str], depth: int, runs: str, done: str) -> None:
    """Put one stretch together."""
    found = sorted(Path(runs).glob(f"run-{j}-*.parquet"))
    if found:
        table = read(pieces("leaves", [str(path) for path in found], names), names)
        write(_sorted(table, names[:depth]), Path(done) / _name(j))
    else:
        write(arrow().table({name: [] for name in names}), Path(done) / _name(j))


def _sorted(table: Any, levels: Sequence[str]) -> Any:
    pa = arrow()
    for k, name in enumerate(table.column_names):
        kind = table.column(name).type
        if pa.types.is_dictionary(kind):
            table = table.set_column(k, name, table.column(name).cast(kind.value_type))
    return table.sort_by([(name, "ascending") for name in levels])
