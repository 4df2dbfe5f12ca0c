"""Files and folders of a run, on mounted file systems and wherever fsspec can write.

A location is a `pathlib.Path`, or, for a URL such as ``s3://bucket/folder``, a `UPath` of the
package universal_pathlib, which has the methods of a `Path`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname
from zipfile import BadZipFile

import numpy as np

from gmtree import _validate as check

# A `Path` or a `UPath`. The type is Any, because type checkers may not find `UPath`'s package.
Location = Any

# The beginning of a URL such as s3://bucket, or of s3:/bucket, into which a Path turns it. A single
# letter as in C:/ is a drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+):/")


def is_path(x: Any) -> bool:
    """Whether `x` names a file or folder, or several of them."""
    if isinstance(x, (list, tuple)):
        return bool(x) and all(map(is_path, x))
    return isinstance(x, (str, PathLike)) or _is_remote(x)


def _is_remote(x: Any) -> bool:
    """Whether `x` is a `UPath` of another file system than the local one."""
    return getattr(x, "protocol", "") not in ("", "file", "local")


def location(argument: str, x: Any) -> Location:
    """Return an absolute `Path`, or for the URL of another file system a `UPath`."""
    if _is_remote(x):
        return x
    path = check.path(argument, x)
    scheme = _SCHEME.match(str(x))
    if scheme is None:
        return path.absolute()
    if scheme[1].lower() == "file":
        return Path(url2pathname(urlsplit(str(x)).path)).absolute()
    if isinstance(x, Path):
        check.fail(argument, "must be a str or a UPath if it is a URL; a Path changes its slashes.")
    if "@" in urlsplit(str(x)).netloc:
        check.fail(argument, "must not be a URL with a password; pass a UPath with its options.")
    upath = check.optional("upath", "dask", "a URL")
    try:
        found = upath.UPath(x)
        found.fs  # noqa: B018
    except (ImportError, ValueError) as error:
        # The message of fsspec names the package that is missing, or the unknown protocol.
        check.fail(argument, f"must be a path, or a URL that fsspec can open: {error}")
    return found


def local_path(argument: str, x: Any) -> Path:
    """Return an absolute path; refuse URLs of other file systems."""
    found = location(argument, x)
    if _is_remote(found):
        check.fail(
            argument,
            f"must be a path of a mounted file system; URLs with {found.protocol!r} are not "
            "supported here.",
        )
    return found


@contextmanager
def new_file(path: Location) -> Iterator[Path]:
    """Yield the name of a local file to write, which appears at `path` in one step."""
    if _is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / path.name
            path.fs.put_file(str(Path(folder) / path.name), path.path)
        return
    # A name that no other attempt of the same task uses.
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}{path.suffix}")
    try:
        yield hidden
        os.replace(hidden, path)
    except OSError as error:
        # Libraries do not name the file if the disk is full.
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        hidden.unlink(missing_ok=True)


def save(path: Location, **arrays: Any) -> None:
    """Write arrays to a file that appears in one step."""
    with new_file(path) as name:
        np.savez(name, **arrays)


def load(path: Location) -> dict[str, np.ndarray]:
    """Read a file of arrays that `save` wrote; refuse a damaged file."""
    try:
        with opened(path) as source, np.load(source) as arrays:
            return dict(arrays)
    except (BadZipFile, EOFError, OSError, ValueError) as error:
        raise OSError(f"{str(path)!r} cannot be read: {error}") from None


@contextmanager
def opened(path: Location) -> Iterator[str | IO[bytes]]:
    """Yield the name of a local file, or an open stream of any other one."""
    if _is_remote(path):
        with path.open("rb") as stream:
            yield stream
    else:
        yield str(path)


def remove_folder(folder: Location, *, ignore_errors: bool = False) -> None:
    """Remove a folder with everything in it."""
    if not _is_remote(folder):
        shutil.rmtree(folder, ignore_errors=ignore_errors)
        return
    try:
        folder.fs.rm(folder.path, recursive=True)
    except OSError:
        if not ignore_errors:
            raise
