"""Parquet data sets as row groups, and row groups as partitions; files that appear as a whole."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check

# Rows of one partition by default: some hundred megabytes with all that is computed from them.
USUAL_ROWS = 4_000_000
# Rows of a row group in files that we write.
GROUP_ROWS = 1 << 20


class Piece(NamedTuple):
    """One row group of a Parquet file, the smallest part of a data set that is read at once."""

    path: str
    group: int
    rows: int


class Partition(NamedTuple):
    """Consecutive row groups that one task deals with; `start` is the number of the first row."""

    number: int
    start: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(piece.rows for piece in self.pieces)


def arrow() -> Any:
    """pyarrow, or an error that says how to install it."""
    return check.optional("pyarrow", "dask", "Parquet files")


def parquet() -> Any:
    """pyarrow's module for Parquet."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


def is_path(x: Any) -> bool:
    """Whether `x` names a file or folder, or several of them."""
    if isinstance(x, (list, tuple)):
        return bool(x) and all(isinstance(p, (str, PathLike)) for p in x)
    return isinstance(x, (str, PathLike))


def files(argument: str, source: Any) -> list[str]:
    """The Parquet files of a data set; those of a folder in natural order of their names."""
    found: list[str] = []
    for item in source if isinstance(source, (list, tuple)) else [source]:
        path = check.path(argument, item)
        if path.is_dir():
            inside = sorted(path.glob("*.parquet"), key=lambda p: _natural(p.name))
            if not inside:
                check.fail(argument, f"must have Parquet files; the folder {str(path)!r} has none.")
            found += map(str, inside)
        elif path.is_file():
            found.append(str(path))
        else:
            check.fail(argument, f"must be a Parquet file or a folder of them, not {str(path)!r}.")
    return found


def _natural(name: str) -> list[Any]:
    """Parts of a name with numbers as numbers: part.2 comes before part.10."""
    return [int(x) if x.isdigit() else x for x in re.split(r"([0-9]+)", name)]


def pieces(argument: str, source: Any, columns: Iterable[str]) -> list[Piece]:
    """All row groups of a data set that have rows; refuses files that lack a column."""
    pq, found = parquet(), []
    wanted = list(columns)
    for name in files(argument, source):
        try:
            file = pq.ParquetFile(name)
        except (OSError, arrow().ArrowInvalid) as error:
            raise ValueError(
                f"Argument {argument!r} must be Parquet; {name!r} cannot be read: {error}"
            ) from None
        with file:
            missing = [c for c in wanted if c not in file.schema_arrow.names]
            if missing:
                check.fail(
                    argument,
                    f"must have the column {missing[0]!r}; {name!r} has "
                    f"{check.some(map(repr, file.schema_arrow.names))}.",
                )
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if rows:
                    found.append(Piece(name, group, rows))
    return found


def partitions(found: Sequence[Piece], rows: int) -> list[Partition]:
    """Consecutive row groups, up to `rows` rows together, or one that has more."""
    made: list[Partition] = []
    waiting: list[Piece] = []
    start = 0
    for piece in found:
        size = sum(p.rows for p in waiting)
        if waiting and size + piece.rows > rows:
            made.append(Partition(len(made), start, tuple(waiting)))
            start, waiting = start + size, []
        waiting.append(piece)
    if waiting:
        made.append(Partition(len(made), start, tuple(waiting)))
    return made


def read(some: Sequence[Piece], columns: Sequence[str], dictionary: Sequence[str] = ()) -> Any:
    """The rows of some pieces as one table; text in the columns `dictionary` as codes."""
    pq, tables = parquet(), []
    by_file: dict[str, list[int]] = {}
    for piece in some:
        by_file.setdefault(piece.path, []).append(piece.group)
    for name, groups in by_file.items():
        with pq.ParquetFile(name, read_dictionary=list(dictionary)) as file:
            tables.append(file.read_row_groups(groups, columns=list(columns), use_threads=False))
    if len(tables) == 1:
        return tables[0]
    return arrow().concat_tables(tables, promote_options="permissive")


def write(table: Any, path: Path, labels: Sequence[str] = ()) -> None:
    """Write a table to a file that appears only once it is whole; the same rows, the same bytes.

    `labels` are columns it is sorted by: all but the last repeat their entries.
    """
    # A name that no other attempt of the same task uses.
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    options: dict[str, Any] = {}
    if labels:
        # Text that we read as codes is text again for whoever reads the file.
        options = {"use_dictionary": list(labels[:-1]), "store_schema": False}
        if arrow().types.is_integer(table.schema.field(labels[-1]).type):
            # Sorted numbers differ by little.
            options["column_encoding"] = {labels[-1]: "DELTA_BINARY_PACKED"}
    try:
        parquet().write_table(table, hidden, row_group_size=GROUP_ROWS, **options)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)


def save(path: Path, **arrays: Any) -> None:
    """Write arrays to a file that appears only once it is whole."""
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}.npz")
    try:
        np.savez(hidden, **arrays)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
