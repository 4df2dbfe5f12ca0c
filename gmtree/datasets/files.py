"""Large files of lines, on disk or in zip archives, read one piece at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree._progress import Progress

PathLike = str | os.PathLike[str]
Paths = PathLike | Iterable[PathLike]

# Bytes per piece: enough to make the overhead of Python negligible, and few enough for the cache of
# the processor. With pieces 16 times as large, reading took twice as long.
CHUNK = 1 << 20

NEWLINE, RETURN, SPACE, ZERO = b"\n\r 0"


class Source(NamedTuple):
    """One file, or one member of a zip archive."""

    path: Path
    member: str | None
    size: int

    @property
    def name(self) -> str:
        """Name of the file itself, without folders."""
        return self.path.name if self.member is None else self.member.rsplit("/", 1)[-1]

    def __str__(self) -> str:
        return f"{self.path}" if self.member is None else f"{self.path}, {self.member}"

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file for reading bytes; an archive is unpacked while it is read."""
        if self.member is None:
            with self.path.open("rb") as stream:
                yield stream
            return
        with _archive(self.path) as archive:
            try:
                opened = archive.open(self.member)
            except (NotImplementedError, RuntimeError) as error:
                # Python does not support the compression, or the archive needs a password.
                check.fail(
                    "path",
                    f"must be readable, but opening {self.path} failed: {error}. Unpack it first.",
                )
            with opened as stream:
                yield stream


def find(paths: Paths, wanted: Callable[[str], bool], what: str) -> list[Source]:
    """The wanted files among `paths`, which are files, zip archives and folders.

    A file given by its path is used regardless of its name. In a folder, a file takes precedence
    over a member of an archive with the same name, since it was probably unpacked from there.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[Source] = []
    for path in map(Path, given):
        if path.is_dir():
            found += _in_folder(path, wanted)
        elif not path.exists():
            check.fail("path", f"must exist; there is no {path}.")
        elif path.suffix.lower() == ".zip":
            found += _in_archive(path, wanted)
        else:
            found.append(Source(path, None, path.stat().st_size))
    if not found:
        check.fail("path", f"must name {what}; none found in {check.some(given)}.")
    for source in found:
        if source.size == 0:
            check.fail("path", f"must name files that are not empty; {source} is empty.")
    return found


def _in_folder(folder: Path, wanted: Callable[[str], bool]) -> list[Source]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    plain = [Source(path, None, path.stat().st_size) for path in files if wanted(path.name)]
    names = {source.name for source in plain}
    for path in files:
        if path.suffix.lower() == ".zip":
            plain += [source for source in _in_archive(path, wanted) if source.name not in names]
    return plain


def _in_archive(path: Path, wanted: Callable[[str], bool]) -> list[Source]:
    with _archive(path) as archive:
        members = [Source(path, info.filename, info.file_size) for info in archive.infolist()]
    return [source for source in members if wanted(source.name)]


@contextmanager
def _archive(path: Path) -> Iterator:
    import zlib
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            yield archive
    except (BadZipFile, zlib.error, EOFError) as error:
        check.fail("path", f"must be readable; {path} is a broken zip archive: {error}.")


class Lines(NamedTuple):
    """Some whole lines of a file."""

    text: np.ndarray
    """Bytes, each line with its end."""
    start: np.ndarray
    """The first byte of each line."""
    stop: np.ndarray
    """The end of each line, before the bytes that terminate it."""
    first: int
    """Number of the first line, counted from 1, for error messages."""

    def columns(self, rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Bytes at the given offsets from the starts of the given rows."""
        return self.text[self.start[rows, None] + offsets]


def read_lines(sources: list[Source]) -> Iterator[tuple[Source, Lines]]:
    """Yield all lines of all files, about `CHUNK` bytes at a time, with a progress bar."""
    with Progress(sum(source.size for source in sources), "") as progress:
        for source in sources:
            progress.advance(0, f"reading {source.name}")
            with source.open() as stream:
                first = 1
                for text in _whole_lines(stream):
                    lines = _split(text, first)
                    yield source, lines
                    first += lines.start.size
                    progress.advance(text.size)


def _whole_lines(stream: IO[bytes]) -> Iterator[np.ndarray]:
    rest = b""
    while block := stream.read(CHUNK):
        end = block.rfind(b"\n") + 1
        if end:
            yield np.frombuffer(rest + block[:end], dtype=np.uint8)
            rest = block[end:]
        else:
            rest += block
    if rest:
        yield np.frombuffer(rest + b"\n", dtype=np.uint8)


def _split(text: np.ndarray, first: int) -> Lines:
    newline = np.flatnonzero(text == NEWLINE)
    start = np.empty_like(newline)
    start[0] = 0
    start[1:] = newline[:-1] + 1
    # For an empty line this reads the preceding newline, which is not a carriage return.
    stop = newline - (text[newline - 1] == RETURN)
    return Lines(text, start, np.maximum(start, stop), first)


def to_numbers(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number in each row of ASCII digits, and whether the row consists of digits."""
    value = digits - np.uint8(ZERO)  # Bytes below '0' wrap around to numbers above 9.
    power = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    return value @ power, np.all(value <= 9, axis=1)


def to_padded_numbers(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Like `to_numbers`, for numbers that may be padded with spaces on the left."""
    space = digits == SPACE
    number, good = to_numbers(np.where(space, np.uint8(ZERO), digits))
    stray = space[:, 1:] & ~space[:, :-1]
    good &= ~(stray.any(axis=1) | space[:, -1])
    return number, good
