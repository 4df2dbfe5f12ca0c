"""Files written completely or not at all; checksums, CSV, and locks between processes."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

# Number of CSV rows between two steps of a progress bar.
ROWS_PER_STEP = 1 << 14

# Descriptors of the lock files that this process holds open.
_open_locks: set[int] = set()


# --------------------------------------------------------------------------- whole files


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open a new file that replaces the file at `path` atomically once it is complete.

    The new contents are written to the disk before the old file is replaced. On any exception the
    old file stays unchanged. `mode` states who may read and write the file, less what the process
    masks.
    """
    # The name is unique, so that no other process or thread writes to the same file.
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
        sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def write_durably(path: Path, data: bytes) -> None:
    """Atomically replace the file at `path` by one with the contents `data`."""
    with replacing(path) as stream:
        stream.write(data)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in `folder` are on the disk, if the system supports it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# --------------------------------------------------------------------------- checksums


def checksum(data: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> str:
    """SHA-256 (64 hex digits) of arrays and of JSON data without its entry ``"checksum"``."""
    rest = {key: value for key, value in data.items() if key != "checksum"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name, array in sorted((arrays or {}).items()):
        a: Any = np.ascontiguousarray(array)
        digest.update(f"{name} {a.dtype.str} {a.shape}".encode())
        digest.update(a.view(np.uint8))
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


# --------------------------------------------------------------------------- CSV


def csv_lines(name: str, stream: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line.

    No field may contain a line break. If it could, a single extra quote would turn the rest of the
    file into one label.
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
    """Number of the column in which a line breaks the rules of CSV, and the rule."""
    column, size, is_open, is_closed = 1, 0, False, False
    for letter in text.rstrip("\r\n"):
        if is_open:
            is_open, is_closed = letter != '"', letter == '"'
        elif letter == ",":
            column, size, is_closed = column + 1, 0, False
            continue
        elif letter == '"' and (is_closed or size == 0):
            is_open, is_closed = True, False  # Two quotes in a row represent one quote.
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


def write_csv(
    stream: IO[bytes], columns: Mapping[str, np.ndarray], advance: Callable[[int], object]
) -> None:
    """Write columns of equal length as CSV in UTF-8; `advance` gets the numbers of rows written.

    Entries that are None or masked become empty fields.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for start in range(0, len(next(iter(columns.values()))), ROWS_PER_STEP):
        part = slice(start, start + ROWS_PER_STEP)
        writer.writerows(zip(*(column[part].tolist() for column in columns.values()), strict=True))
        advance(ROWS_PER_STEP)
    text.flush()
    text.detach()


# --------------------------------------------------------------------------- locks


@contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Context manager that holds the lock file at `path`, which is created if necessary.

    Only one thread of one process can hold the lock. The operating system releases it when the
    process ends, even if it is killed. The file is never removed.

    Raises
    ------
    OSError
        If `wait` is false and the lock is held elsewhere, or if the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    _open_locks.add(descriptor)
    try:
        _acquire(descriptor, wait)
        yield
    finally:
        # A process forked in the meantime has already closed its copy.
        if descriptor in _open_locks:
            _open_locks.remove(descriptor)
            _release(descriptor)
            os.close(descriptor)


def _close_inherited_locks() -> None:
    """Close inherited lock files in a forked process, which would otherwise keep them locked."""
    while _open_locks:
        os.close(_open_locks.pop())


if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int, wait: bool) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

    def _release(descriptor: int) -> None:
        """Release the lock by closing the file."""

else:
    import fcntl

    def _acquire(descriptor: int, wait: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release(descriptor: int) -> None:
        # Closing is not enough while a forked process still has the file open.
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    os.register_at_fork(after_in_child=_close_inherited_locks)
