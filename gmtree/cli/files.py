"""Files that commands read and write: their kinds, ``-`` for the standard streams, gzip."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from gmtree import _validate as check
from gmtree._files import replacing

# This path stands for standard input or standard output.
STANDARD = Path("-")

TABLES = (".csv", ".csv.gz", ".parquet")


def kind(argument: str, path: Path, allowed: Sequence[str]) -> str:
    """Return the ending of a file's name, which must be allowed; standard streams are CSV."""
    if path == STANDARD:
        return ".csv"
    for ending in allowed:
        if path.name.lower().endswith(ending):
            return ending
    listed = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    raise ValueError(f"{argument} must end in {listed}, not {path.name!r}.")


def shown(path: Path) -> str:
    """The name of an input file in messages."""
    return "standard input" if path == STANDARD else path.name


class Input(NamedTuple):
    """A file that is being read."""

    stream: IO[bytes]
    """Content of the file, unpacked if it is compressed."""
    raw: IO[bytes]
    """The file itself, whose position shows how much has been read."""
    size: int
    """Bytes in `raw`; 0 if that is not known."""


@contextmanager
def reading(path: Path) -> Iterator[Input]:
    """Open a file or standard input, and decompress it if necessary."""
    if path == STANDARD:
        if sys.stdin is None:
            raise ValueError("FILE is standard input, which is closed.")
        yield Input(sys.stdin.buffer, sys.stdin.buffer, 0)
        return
    with path.open("rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        if not path.name.lower().endswith(".gz"):
            yield Input(raw, raw, size)
            return
        try:
            with gzip.GzipFile(fileobj=raw) as stream:
                yield Input(stream, raw, size)  # type: ignore[arg-type]
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise ValueError(f"{path.name} must be an undamaged gzip file.") from None


def check_output(argument: str, path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    if path == STANDARD:
        if sys.stdout is None:
            raise ValueError(f"{argument} is standard output, which is closed.")
        return
    check.new_file(argument, path)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a stream for a new file, compressed if its name ends in .gz, or for standard output.

    An existing file is replaced only when the new one is complete.
    """
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(path) as stream:
        if not path.name.lower().endswith(".gz"):
            yield stream
        else:
            # The time of writing is left out, so that equal tables give equal bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                yield packed  # type: ignore[misc]
