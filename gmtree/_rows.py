"""Tables in files, read row by row in bounded memory: CSV, and Parquet where pyarrow is there."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gmtree import _validate as check
from gmtree._progress import Progress

ROWS_PER_STEP = 1 << 14

Leaf = tuple[str, ...]


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet or CSV, by its name; anything else is refused."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"FILE must end in .csv or .parquet, not {path.name!r}.")
    return suffix == ".parquet"


def column_names(path: Path) -> list[str]:
    """The names of the columns of a table."""
    if is_parquet(path):
        with _open_parquet(path) as file:
            return list(file.schema_arrow.names)
    with path.open(encoding="utf-8-sig", newline="") as text:
        return next(csv.reader(text), [])


def rows(path: Path, levels: list[str], count: str | None) -> Iterator[tuple[Leaf, int]]:
    """Leaf and count of each row. No message tells what is in a row."""
    wanted = levels if count is None else [*levels, count]
    read = _parquet_rows if is_parquet(path) else _csv_rows
    for k, row in enumerate(read(path, wanted), start=1):
        leaf = tuple(row[: len(levels)])
        if not all(leaf):
            raise ValueError(f"Row {k} of {path.name} lacks the label of a level.")
        try:
            yield leaf, 1 if count is None else int(row[-1])
        except ValueError:
            raise ValueError(
                f"Row {k} of {path.name} has no whole number in column {count!r}."
            ) from None


def _csv_rows(path: Path, wanted: list[str]) -> Iterator[list[str]]:
    with (
        path.open("rb") as raw,
        Progress(path.stat().st_size, f"reading {path.name}") as progress,
    ):
        reader = csv.reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))
        place = _places(path, next(reader, []), wanted)
        for k, row in enumerate(reader, start=1):
            if not row:
                continue
            if len(row) <= max(place):
                raise ValueError(f"Row {k} of {path.name} has too few columns.")
            yield [row[j] for j in place]
            if k % ROWS_PER_STEP == 0:
                progress.advance(raw.tell() - progress.done)


def _parquet_rows(path: Path, wanted: list[str]) -> Iterator[list[str]]:
    with (
        _open_parquet(path) as file,
        Progress(file.metadata.num_rows, f"reading {path.name}") as progress,
    ):
        _places(path, file.schema_arrow.names, wanted)
        for batch in file.iter_batches(ROWS_PER_STEP, columns=wanted):
            table = [batch.column(name).to_pylist() for name in wanted]
            for row in zip(*table, strict=True):
                yield ["" if x is None else str(x) for x in row]
            progress.advance(batch.num_rows)


def _places(path: Path, names: list[str], wanted: list[str]) -> list[int]:
    for name in wanted:
        if names.count(name) != 1:
            found = "twice" if name in names else f"not among {', '.join(map(repr, names))}"
            raise ValueError(f"Column {name!r} of {path.name} must be there once; it is {found}.")
    return [names.index(name) for name in wanted]


def _open_parquet(path: Path) -> Any:
    parquet = check.optional("pyarrow.parquet", "frames", "a Parquet file")
    arrow = check.optional("pyarrow", "frames", "a Parquet file")
    try:
        return parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        raise ValueError(f"{path.name} is no Parquet file ({error}).") from None
