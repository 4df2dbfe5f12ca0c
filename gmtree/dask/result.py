"""What was written: a folder per level, and a manifest without which nothing counts."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gmtree import _validate as check

if TYPE_CHECKING:
    import pyarrow

FORMAT = "gmtree levels 1"
MANIFEST = "manifest.json"
# Marks a folder that a run began to fill, so that a later run may begin anew.
UNFINISHED = "unfinished"
ROOT = "total"


def folder_of(name: str) -> str:
    """The folder of a level: its name, with signs that no file system minds."""
    return quote(name, safe=" ,-_")


def begin(out: Path, folders: list[str]) -> None:
    """Make an empty folder for the results; what an unfinished run left there is removed."""
    if out.exists():
        if not out.is_dir():
            check.fail("out", f"must be a folder; {str(out)!r} is a file.")
        if (out / MANIFEST).exists() or (any(out.iterdir()) and not (out / UNFINISHED).exists()):
            check.fail("out", f"must be a new or empty folder; {str(out)!r} has files.")
        for item in out.iterdir():
            if item.is_dir():
                shutil.rmtree(item)
    out.mkdir(parents=True, exist_ok=True)
    (out / UNFINISHED).touch()
    for name in folders:
        (out / name).mkdir()


def write_json(path: Path, data: Any) -> None:
    """Write a file that appears only once it is whole, and is on disk by then."""
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with hidden.open("w") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(hidden, path)


def commit(out: Path, manifest: dict[str, Any]) -> Levels:
    """Write the manifest: from now on the results are there."""
    for hidden in out.glob("*/.*"):
        # Left by a worker that was stopped while it wrote.
        hidden.unlink()
    write_json(out / MANIFEST, {"format": FORMAT, **manifest})
    (out / UNFINISHED).unlink(missing_ok=True)
    return Levels(out)


class Levels:
    """Results on disk, one data set per level; nothing is read before it is asked for.

    Parameters
    ----------
    path : path
        Folder that :func:`gmtree.dask.reconcile` or :func:`gmtree.dask.release` filled.

    Attributes
    ----------
    path : Path
    manifest : dict
        Levels, files and their rows, and how they were made; of a release also its ledger.
    """

    def __init__(self, path: Any) -> None:
        self.path = check.path("path", path)
        try:
            self.manifest = json.loads((self.path / MANIFEST).read_text())
        except (OSError, ValueError):
            self.manifest = {}
        if self.manifest.get("format") != FORMAT:
            check.fail("path", f"must be a folder of finished results, not {str(self.path)!r}.")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {self.nodes(name):,}" for name in self)
        return f"Levels({str(self.path)!r}, {sizes})"

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest["levels"])

    def __len__(self) -> int:
        return len(self.manifest["levels"])

    def _level(self, name: str) -> dict[str, Any]:
        check.one_of("name", name, list(self.manifest["levels"]))
        return self.manifest["levels"][name]

    def nodes(self, name: str) -> int:
        """Number of nodes of a level."""
        return sum(self._level(name)["rows"].values())

    def files(self, name: str) -> list[str]:
        """Parquet files of a level, in the order of its nodes."""
        level = self._level(name)
        return [str(self.path / level["folder"] / file) for file in level["rows"]]

    def __getitem__(self, name: str) -> Any:
        """A level as a Dask frame, which is read when it is computed."""
        dataframe = check.optional("dask.dataframe", "dask", "frames of Dask")
        return dataframe.read_parquet(self.files(name), split_row_groups=False)

    def table(self, name: str) -> pyarrow.Table:
        """A level as a table of pyarrow, in memory."""
        from gmtree.dask.parquet import pieces, read

        return read(pieces("path", self.files(name), ()), self._level(name)["columns"])

    @property
    def ledger(self) -> Any:
        """The account of a release; None of other results."""
        from gmtree.privacy.ledger import Ledger

        stored = self.manifest.get("ledger")
        return None if stored is None else Ledger.from_dict(stored)
