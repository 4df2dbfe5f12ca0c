"""Parquet data sets as row groups and partitions; files that are written in one step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from gmtree import _validate as check
from gmtree.dask.storage import Location, location, new_file, opened

# Rows of one partition by default: a few hundred megabytes with all values computed from them.
USUAL_ROWS = 4_000_000
# Rows of a row group in files that we write.
GROUP_ROWS = 1 << 20


class Piece(NamedTuple):
    """One row group of a Parquet file, the smallest unit that is read."""

    path: Location
    group: int
    rows: int


class Partition(NamedTuple):
    """Consecutive row groups that one task processes; `start` is the number of the first row."""

    number: int
    start: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(piece.rows for piece in self.pieces)


def arrow() -> Any:
    """Return pyarrow; an error explains how to install it."""
    return check.optional("pyarrow", "dask", "Parquet files")


def parquet() -> Any:
    """pyarrow's module for Parquet."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


def files(argument: str, source: Any) -> list[Location]:
    """Return the Parquet files of a data set; those of a folder in natural order of their names."""
    found: list[Location] = []
    for item in source if isinstance(source, (list, tuple)) else [source]:
        path = location(argument, item)
        if path.is_dir():
            inside = sorted(path.glob("*.parquet"), key=lambda p: _natural(p.name))
            if not inside:
                check.fail(argument, f"must have Parquet files; the folder {str(path)!r} has none.")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            check.fail(argument, f"must be a Parquet file or a folder of them; {str(path)!r} is "
                       "neither, or does not exist.")  # fmt: skip
    return found


def _natural(name: str) -> list[Any]:
    """Split a name so that numbers compare as numbers: part.2 comes before part.10."""
    return [int(x) if x.isdigit() else x for x in re.split(r"([0-9]+)", name)]


def part_name(number: int) -> str:
    """Name a file of a data set that we write, by its place among the files."""
    return f"part-{number:05d}.parquet"


def pieces(argument: str, source: Any, columns: Sequence[str]) -> list[Piece]:
    """Return all row groups of a data set that have rows; refuse files that lack a column."""
    pq, found = parquet(), []
    for name in files(argument, source):
        with ExitStack() as stack:
            try:
                file = stack.enter_context(pq.ParquetFile(stack.enter_context(opened(name))))
            except (OSError, arrow().ArrowInvalid) as error:
                raise ValueError(
                    f"Argument {argument!r} must be Parquet; {str(name)!r} cannot be read: {error}"
                ) from None
            missing = [c for c in columns if c not in file.schema_arrow.names]
            if missing:
                check.fail(
                    argument,
                    f"must have the column {missing[0]!r}; {str(name)!r} has "
                    f"{check.some(map(repr, file.schema_arrow.names))}.",
                )
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if rows:
                    found.append(Piece(name, group, rows))
    return found


def partitions(found: Sequence[Piece], rows: int) -> list[Partition]:
    """Join consecutive row groups up to `rows` rows; a larger row group is a partition alone."""
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
    """Read some pieces as one table, with text in the columns `dictionary` as codes."""
    pq, tables = parquet(), []
    by_file: dict[Location, list[int]] = {}
    for piece in some:
        by_file.setdefault(piece.path, []).append(piece.group)
    options = {"read_dictionary": list(dictionary), "page_checksum_verification": True}
    for name, groups in by_file.items():
        try:
            with opened(name) as source, pq.ParquetFile(source, **options) as file:
                table = file.read_row_groups(groups, columns=list(columns), use_threads=False)
        except (OSError, arrow().ArrowInvalid) as error:
            raise OSError(f"{str(name)!r} cannot be read: {error}") from None
        tables.append(table)
    if len(tables) == 1:
        return tables[0]
    return arrow().concat_tables(tables, promote_options="permissive")


def write(table: Any, path: Location, labels: Sequence[str] = ()) -> None:
    """Write a table to a file that appears in one step; equal tables give equal bytes.

    `labels` are the columns by which the table is sorted. All but the last have repeated entries.
    """
    options: dict[str, Any] = {"write_page_checksum": True}
    if labels:
        # Text that was read as codes is plain text in the new file.
        options |= {"use_dictionary": list(labels[:-1]), "store_schema": False}
        if arrow().types.is_integer(table.schema.field(labels[-1]).type):
            # Sorted numbers have small differences, which compress well.
            options["column_encoding"] = {labels[-1]: "DELTA_BINARY_PACKED"}
    with new_file(path) as name:
        parquet().write_table(table, name, row_group_size=GROUP_ROWS, **options)
