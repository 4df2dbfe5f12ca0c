"""Tables in files, read row by row in bounded memory: CSV, and Parquet if pyarrow is installed.

Tables hold private records, so messages name the line, the column and the rule, and never show the
content of a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from gmtree import _validate as check
from gmtree._files import ROWS_PER_STEP, csv_lines
from gmtree._progress import Progress
from gmtree.cli import files

Leaf = tuple[str, ...]

_WHOLE_NUMBER = re.compile(r"([+-]?[0-9]{1,1000})(?:\.0*)?")


def level_names(text: str, option: str = "--levels") -> list[str]:
    """The names of the columns in ``--levels A,B,C``."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not name:
            raise ValueError(f"{option} must be names of columns, separated by single commas.")
        if names.count(name) > 1:
            raise ValueError(f"{option} must name each column once; {name!r} is there twice.")
    return names


def column_names(path: Path) -> list[str]:
    """The names of the columns of a table."""
    if files.kind("FILE", path, files.TABLES) == ".parquet":
        with _open_parquet(path) as file:
            return list(file.schema_arrow.names)
    with files.reading(path) as source:
        return next(csv_lines(files.shown(path), source.stream), (1, []))[1]


class Rows:
    """Read the leaf and the count of each row of a table.

    Parameters
    ----------
    path : Path
        Table, or ``-`` for CSV from standard input.
    levels : list of str
        Columns that make up a leaf.
    count : str or None
        Column of whole numbers; if None, each row counts as 1.
    person : str, optional
        Column that identifies the person of each record, for :meth:`with_people`.
    whole : bool
        Whether to read all columns of the table, which must then have different names.

    Attributes
    ----------
    header : list of str
        Names of the columns of each row; set when the first row is read.
    """

    def __init__(
        self,
        path: Path,
        levels: list[str],
        count: str | None,
        person: str | None = None,
        *,
        whole: bool = False,
    ) -> None:
        for option, name in (("--count", count), ("--person", person)):
            if name in levels:
                raise ValueError(f"{option} must not be one of --levels; {name!r} is.")
        self._path, self._levels, self._count = path, levels, count
        self._wanted = [*levels, *(name for name in (count, person) if name is not None)]
        self._is_parquet = files.kind("FILE", path, files.TABLES) == ".parquet"
        self._number, self._whole = 0, whole
        self.header = self._wanted

    @property
    def place(self) -> str:
        """The place of the last row for messages, such as ``Line 7 of people.csv``."""
        unit = "Row" if self._is_parquet else "Line"
        return f"{unit} {self._number} of {files.shown(self._path)}"

    def __iter__(self) -> Iterator[tuple[Leaf, int]]:
        for row in self.texts():
            leaf = self._leaf(row)
            if self._count is None:
                yield leaf, 1
            elif found := _WHOLE_NUMBER.fullmatch(row[-1]):
                yield leaf, int(found[1])
            else:
                self.refuse(self._count, "must be a whole number, such as 12 or 12.0.")

    def with_people(self) -> Iterator[tuple[Leaf, str]]:
        """Yield the leaf of each row and the text that identifies its person."""
        from gmtree.privacy.publishing.people import person_text

        for row in self._values():
            person = person_text("--person", row[-1])
            if person is None:
                self.refuse(self._wanted[-1], "must identify a person; it is empty.")
            yield self._leaf(list(map(_text, row[:-1]))), person

    def texts(self) -> Iterator[list[str]]:
        """Yield the columns of each row as text; a missing entry becomes the empty text."""
        for row in self._values():
            yield list(map(_text, row)) if self._is_parquet else row

    def _values(self) -> Iterator[list[Any]]:
        """Yield the columns of each row with the types that they have in the file."""
        read = self._parquet_rows if self._is_parquet else self._csv_rows
        for self._number, row in read():
            yield row

    def _leaf(self, row: list[str]) -> Leaf:
        leaf = tuple(row[: len(self._levels)])
        if not all(leaf):
            self.refuse(self._levels[leaf.index("")], "must have a label; it is empty.")
        return leaf

    def refuse_unknown(self, what: str, option: str) -> NoReturn:
        """Refuse the last row: its leaf or cell is not in the public list."""
        raise ValueError(
            f"{self.place} has a {what} that {option} does not list. Labels are compared exactly, "
            "including blanks and leading zeros. --ignore-unknown leaves such rows out."
        )

    def refuse(self, column: str, rule: str) -> NoReturn:
        """Refuse the last row for one of its columns."""
        raise ValueError(f"{self.place}, column {column!r}: {rule}")

    # ------------------------------------------------------------------ CSV

    def _csv_rows(self) -> Iterator[tuple[int, list[str]]]:
        name = files.shown(self._path)
        with (
            files.reading(self._path) as source,
            Progress(source.size, f"reading {name}") as progress,
        ):
            lines = csv_lines(name, source.stream)
            _, header = next(lines, (1, []))
            place = column_places(self._path, header, self._wanted)
            if self._whole:
                self.header, place = header, column_places(self._path, header, header)
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

    # ------------------------------------------------------------------ Parquet

    def _parquet_rows(self) -> Iterator[tuple[int, list[Any]]]:
        arrow = check.optional("pyarrow", "frames", "a Parquet file")
        name = self._path.name
        with (
            _open_parquet(self._path) as file,
            Progress(file.metadata.num_rows, f"reading {name}") as progress,
        ):
            column_places(self._path, file.schema_arrow.names, self._wanted)
            for column in self._wanted:
                self._check_type(arrow.types, column, file.schema_arrow.field(column).type)
            values = _parquet_values(arrow, file, self._wanted, name, progress)
            for k, row in enumerate(values, start=1):
                yield k, list(row)

    def _check_type(self, types: Any, column: str, found: Any) -> None:
        """Refuse lists, records and bytes, which cannot be labels."""
        inner = found.value_type if types.is_dictionary(found) else found
        refused = (
            types.is_nested, types.is_binary, types.is_large_binary, types.is_fixed_size_binary
        )  # fmt: skip
        if any(is_refused(inner) for is_refused in refused):
            raise ValueError(
                f"Column {column!r} of {self._path.name} must hold text, numbers or dates, "
                f"not {found}."
            )


def _text(x: Any) -> str:
    """A value as text; None and NaN (the only value that differs from itself) become ""."""
    return "" if x is None or x != x else str(x)


def column_places(path: Path, header: list[str], wanted: list[str]) -> list[int]:
    """Positions of the wanted columns, each of which must occur exactly once."""
    for name in wanted:
        times = header.count(name)
        if times != 1:
            raise ValueError(
                f"{files.shown(path)} must have one column {name!r}; it has {times or 'none'}."
                + _columns_there(path, header, wanted)
            )
    return [header.index(name) for name in wanted]


def _columns_there(path: Path, header: list[str], wanted: list[str]) -> str:
    """A sentence that lists the columns of a table.

    If a CSV file has none of the wanted columns, its first line may be a row of private data, which
    must not be shown.
    """
    if not header:
        return " Its first line is empty."
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            return f" Line 1 has {name} and no comma: columns must be separated by commas."
    if set(wanted) & set(header) or path.name.lower().endswith(".parquet"):
        return f" The columns are {', '.join(map(repr, header))}."
    return "" if path == files.STANDARD else f" 'gmtree info {path}' lists the columns."


def read_parquet(path: Path, wanted: list[str]) -> Any:
    """A Parquet file as a pyarrow Table, which must have the wanted columns."""
    arrow = check.optional("pyarrow", "frames", "a Parquet file")
    with _open_parquet(path) as file:
        column_places(path, file.schema_arrow.names, wanted)
        try:
            table = file.read()
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{path.name} is damaged ({error}).") from None
    if not len(table):
        raise ValueError(f"{path.name} has no rows.")
    return table


def _open_parquet(path: Path) -> Any:
    parquet = check.optional("pyarrow.parquet", "frames", "a Parquet file")
    arrow = check.optional("pyarrow", "frames", "a Parquet file")
    try:
        return parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        raise ValueError(f"{path.name} is not a Parquet file ({error}).") from None


def _parquet_values(
    arrow: Any, file: Any, wanted: list[str], name: str, progress: Progress
) -> Iterator[tuple[Any, ...]]:
    try:
        for batch in file.iter_batches(ROWS_PER_STEP, columns=wanted):
            yield from zip(*(batch.column(c).to_pylist() for c in wanted), strict=True)
            progress.advance(batch.num_rows)
    except (arrow.ArrowException, OSError, OverflowError, ValueError):
        # Error messages of pyarrow may quote values.
        raise ValueError(f"{name} has a column that cannot be read, or is damaged.") from None
