"""Tables in files, read row by row in bounded memory: CSV, and Parquet if pyarrow is installed.

Tables hold private records. No message tells what is in a row: it names the line, the column and
the rule.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from gmtree import _validate as check
from gmtree._progress import Progress
from gmtree.cli import files

ROWS_PER_STEP = 1 << 14

Leaf = tuple[str, ...]

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,1000}")


def level_names(text: str) -> list[str]:
    """The columns that ``--levels A,B,C`` names."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not name:
            raise ValueError("--levels must name columns, with one comma between two of them.")
        if names.count(name) > 1:
            raise ValueError(f"--levels must name each column once; {name!r} is there twice.")
    return names


def column_names(path: Path) -> list[str]:
    """The names of the columns of a table."""
    if files.kind("FILE", path, files.TABLES) == ".parquet":
        with _open_parquet(path) as file:
            return list(file.schema_arrow.names)
    with files.reading(path) as source:
        return next(_csv_lines(files.shown(path), source.stream), (1, []))[1]


class Rows:
    """Leaf and count of each row of a table; `place` tells messages where the last one stands.

    Parameters
    ----------
    path : Path
        Table, or ``-`` for CSV from standard input.
    levels : list of str
        Columns that make up a leaf.
    count : str or None
        Column of whole numbers; each row counts one if this is None.
    """

    def __init__(self, path: Path, levels: list[str], count: str | None) -> None:
        if count in levels:
            raise ValueError(f"--count must not be one of --levels; {count!r} is.")
        self._path, self._levels, self._count = path, levels, count
        self._wanted = levels if count is None else [*levels, count]
        self._is_parquet = files.kind("FILE", path, files.TABLES) == ".parquet"
        self._number = 0

    @property
    def place(self) -> str:
        """Such as ``Line 7 of people.csv``."""
        unit = "Row" if self._is_parquet else "Line"
        return f"{unit} {self._number} of {files.shown(self._path)}"

    def __iter__(self) -> Iterator[tuple[Leaf, int]]:
        depth = len(self._levels)
        for row in self.texts():
            leaf = tuple(row[:depth])
            if not all(leaf):
                self._refuse(self._levels[leaf.index("")], "must have a label; it is empty.")
            if self._count is None:
                yield leaf, 1
            elif _WHOLE_NUMBER.fullmatch(row[-1]):
                yield leaf, int(row[-1])
            else:
                self._refuse(self._count, "must be a whole number, in digits alone.")

    def texts(self) -> Iterator[list[str]]:
        """The columns of each row as they are, empty where something is missing."""
        read = self._parquet_rows if self._is_parquet else self._csv_rows
        for self._number, row in read():
            yield row

    def refuse_unknown(self) -> NoReturn:
        """Refuse the last row: its leaf is not in the public list."""
        raise ValueError(
            f"{self.place} has a leaf that --tree does not list. Labels are compared exactly, with "
            "blanks and leading zeros. --ignore-unknown leaves such rows out."
        )

    def _refuse(self, column: str, rule: str) -> NoReturn:
        raise ValueError(f"{self.place}, column {column!r}: {rule}")

    # ------------------------------------------------------------------ CSV

    def _csv_rows(self) -> Iterator[tuple[int, list[str]]]:
        name = files.shown(self._path)
        with (
            files.reading(self._path) as source,
            Progress(source.size, f"reading {name}") as progress,
        ):
            lines = _csv_lines(name, source.stream)
            _, header = next(lines, (1, []))
            place = self._places(header)
            for k, row in lines:
                if not row:
                    continue
                if len(row) != len(header):
                    last = min(len(row), len(header)) + 1
                    fault = "is missing" if len(row) < len(header) else "has no name in line 1"
                    raise ValueError(
                        f"Line {k} of {name} must have {len(header)} columns, as line 1 has; "
                        f"column {last} {fault}."
                    )
                yield k, [row[j] for j in place]
                if source.size and k % ROWS_PER_STEP == 0:
                    progress.advance(source.raw.tell() - progress.done)

    def _places(self, header: list[str]) -> list[int]:
        """Where the wanted columns stand. A file without a header has a row there: not shown."""
        for name in self._wanted:
            times = header.count(name)
            if times != 1:
                found = f"is there {times} times" if times else "is not there"
                raise ValueError(
                    f"Column {name!r} of {files.shown(self._path)} must be there once; it {found}."
                    + _separator_hint(header)
                )
        return [header.index(name) for name in self._wanted]

    # ------------------------------------------------------------------ Parquet

    def _parquet_rows(self) -> Iterator[tuple[int, list[str]]]:
        arrow = check.optional("pyarrow", "frames", "a Parquet file")
        name = self._path.name
        with (
            _open_parquet(self._path) as file,
            Progress(file.metadata.num_rows, f"reading {name}") as progress,
        ):
            self._places(file.schema_arrow.names)
            for column in self._wanted:
                self._check_type(arrow.types, column, file.schema_arrow.field(column).type)
            values = _parquet_values(arrow, file, self._wanted, name, progress)
            for k, row in enumerate(values, start=1):
                # Only NaN differs from itself; like None it stands for a missing label.
                yield k, ["" if x is None or x != x else str(x) for x in row]

    def _check_type(self, types: Any, column: str, found: Any) -> None:
        """Refuse lists, records and bytes, which are no labels."""
        inner = found.value_type if types.is_dictionary(found) else found
        fixed = types.is_fixed_size_binary(inner)
        if (
            types.is_nested(inner)
            or types.is_binary(inner)
            or types.is_large_binary(inner)
            or fixed
        ):
            raise ValueError(
                f"Column {column!r} of {self._path.name} must hold text, numbers or dates, "
                f"not {found}."
            )


def _separator_hint(header: list[str]) -> str:
    """What to tell of a header that other separators than commas seem to part."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            return f" Line 1 has {name} and no comma: columns must be separated by commas."
    return ""


def _csv_lines(name: str, stream: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line. A row is one line: no field may hold a line break.

    Otherwise one quote too many would make the rest of the file a part of one label.
    """
    for k, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8-sig" if k == 1 else "utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"Line {k} of {name} must be text in UTF-8.") from None
        if "\0" in text:
            raise ValueError(f"Line {k} of {name} must be text; it has a NUL character.")
        try:
            fields = next(csv.reader((text,), strict=True), [])
        except csv.Error:
            column, fault = _csv_fault(text)
            raise ValueError(f"Line {k} of {name}, column {column}: {fault}") from None
        yield k, fields


def _csv_fault(text: str) -> tuple[int, str]:
    """The column in which a line breaks the rules of CSV, and how."""
    column, size, is_open, is_closed = 1, 0, False, False
    for letter in text.rstrip("\r\n"):
        if is_open:
            is_open, is_closed = letter != '"', letter == '"'
        elif letter == ",":
            column, size, is_closed = column + 1, 0, False
            continue
        elif letter == '"' and (is_closed or size == 0):
            is_open, is_closed = True, False  # the second of two quotes stands for one
        elif is_closed:
            return column, "a quoted field must end with its quote."
        elif letter == "\r":
            return column, "lines must end with a line feed, alone or after a carriage return."
        size += 1
        if size > csv.field_size_limit():
            return column, f"a field must be no longer than {csv.field_size_limit()} characters."
    if is_open:
        return column, "a quote must be closed in the same line."
    return column, "the line breaks the rules of CSV."


def _open_parquet(path: Path) -> Any:
    parquet = check.optional("pyarrow.parquet", "frames", "a Parquet file")
    arrow = check.optional("pyarrow", "frames", "a Parquet file")
    try:
        return parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        raise ValueError(f"{path.name} is no Parquet file ({error}).") from None


def _parquet_values(
    arrow: Any, file: Any, wanted: list[str], name: str, progress: Progress
) -> Iterator[tuple[Any, ...]]:
    try:
        for batch in file.iter_batches(ROWS_PER_STEP, columns=wanted):
            yield from zip(*(batch.column(c).to_pylist() for c in wanted), strict=True)
            progress.advance(batch.num_rows)
    except (arrow.ArrowException, OSError, OverflowError, ValueError):
        # Their messages may quote values.
        raise ValueError(f"{name} has a column that cannot be read, or is damaged.") from None
