"""Results on disk: a folder for each level, and a manifest that is written last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gmtree import _validate as check
from gmtree._files import write_durably
from gmtree.dask.parquet import pieces, read
from gmtree.dask.storage import Location, location, remove_folder

if TYPE_CHECKING:
    import pyarrow

FORMAT = "gmtree levels 1"
MANIFEST = "manifest.json"
# Marks the folder of a run that has not ended, so that a later run may use it again.
UNFINISHED = ".unfinished"
ROOT = "total"


def folder_of(name: str) -> str:
    """Name the folder of a level: its name, with unusual characters and dots escaped.

    A name without a dot differs from all other files in the folder of the results.
    """
    return quote(name, safe=" ,-_").replace(".", "%2E") or "%"


def refuse_used(out: Location) -> None:
    """Refuse a folder that has other files than those of an unfinished run."""
    if not out.exists():
        return
    if not out.is_dir():
        check.fail("out", f"must be a folder; {str(out)!r} is a file.")
    if (out / MANIFEST).exists() or (any(out.iterdir()) and not (out / UNFINISHED).exists()):
        check.fail("out", f"must be a new or empty folder; {str(out)!r} has files.")


def begin(out: Location, folders: list[str]) -> None:
    """Make an empty folder for the results, without the files of an unfinished run."""
    refuse_used(out)
    out.mkdir(parents=True, exist_ok=True)
    # In an object store, a folder without files does not exist.
    for item in out.iterdir() if out.is_dir() else ():
        if item.is_dir():
            remove_folder(item)
    (out / UNFINISHED).touch()
    for name in folders:
        (out / name).mkdir()


def commit(out: Location, manifest: dict[str, Any]) -> Result:
    """Write the manifest, which makes the results valid."""
    for hidden in out.glob("*/.*"):
        # A worker that was stopped while it wrote may have left this file.
        hidden.unlink()
    text = json.dumps({"format": FORMAT, **manifest}, indent=1)
    if isinstance(out, Path):
        write_durably(out / MANIFEST, text.encode())
    else:
        (out / MANIFEST).write_text(text)
    (out / UNFINISHED).unlink(missing_ok=True)
    return Result(out)


class Result:
    """Results on disk, one data set per level, which are read on request only.

    Parameters
    ----------
    path : path
        Folder that :func:`gmtree.dask.reconcile` or :func:`gmtree.dask.release` filled.

    Attributes
    ----------
    path : Path or UPath
    manifest : dict
        Levels, files and their numbers of rows, and options; for a release also its ledger.
    """

    def __init__(self, path: Any) -> None:
        self.path = location("path", path)
        try:
            self.manifest = json.loads((self.path / MANIFEST).read_text())
        except (OSError, ValueError):
            self.manifest = {}
        if self.manifest.get("format") != FORMAT:
            check.fail("path", f"must be a folder of finished results, not {str(self.path)!r}.")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {self.nodes(name):,}" for name in self)
        return f"Result({str(self.path)!r}, {sizes})"

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
        return [str(file) for file in self._files(name)]

    def _files(self, name: str) -> list[Location]:
        level = self._level(name)
        return [self.path / level["folder"] / file for file in level["rows"]]

    def __getitem__(self, name: str) -> Any:
        """A level as a Dask DataFrame, which is read when it is computed."""
        dataframe = check.optional("dask.dataframe", "dask", "Dask DataFrames")
        options = getattr(self.path, "storage_options", None)
        return dataframe.read_parquet(
            self.files(name), split_row_groups=False, storage_options=options
        )

    def table(self, name: str) -> pyarrow.Table:
        """A level as a pyarrow Table in memory."""
        return read(pieces("path", self._files(name), ()), self._level(name)["columns"])

    @property
    def ledger(self) -> Any:
        """The privacy ledger; None unless this is a release."""
        from gmtree.privacy.accounting.ledger import Ledger

        stored = self.manifest.get("ledger")
        return None if stored is None else Ledger.from_dict(stored)
