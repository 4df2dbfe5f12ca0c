"""The confidential folder of a release: its lock, the record of the run, and its removal.

A cluster repeats a task whose worker was lost, and may repeat a task that has ended. Two draws of
noise for one count are as confidential as the count itself, because their mean has less noise than
the ledger states. Therefore each attempt writes separate files into the confidential folder. For
each partition, the driver writes the first attempt that ends into the record of the run. All later
steps read only files that the record names, and all other attempts are destroyed before anything
is published. Only one driver at a time holds the lock of the folder, for its whole run.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gmtree import _validate as check
from gmtree._files import lock, write_durably
from gmtree.dask.parquet import Partition, Piece
from gmtree.dask.storage import load
from gmtree.privacy.publishing.measuring import forget_locals

_FORMAT = "gmtree confidential run 1"
RECORD = "run.json"
LOCK = ".lock"
_REMOVED = ".removed-"
# Pauses between attempts to remove a folder, in seconds.
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)

P = ParamSpec("P")
T = TypeVar("T")


def forgets_locals(function: Callable[P, T]) -> Callable[P, T]:
    """Clear the local variables of `function`, and of all functions it calls, if it fails.

    Otherwise, tools that show the variables of a traceback could show true counts.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        outer = sys.exc_info()[1]
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            forget_locals(error, outer)
            raise
        finally:
            del args, kwargs

    return call


# --------------------------------------------------------------------------- the folder


@contextmanager
def hold(folder: Path, *, resume: bool) -> Iterator[None]:
    """Create the folder, unless a run is to be resumed, and hold its lock.

    Refuses a folder that other users can enter or that another run is using. A new run needs an
    empty folder; a resumed run needs the files of the earlier one.
    """
    if not resume:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / LOCK).exists():
        # Check this before the lock file is created, so that a refused folder gets no new file.
        _refuse_files(folder, resume)
    mode = folder.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        check.fail(
            "confidential",
            f"must be a folder that only its owner can enter (mode 700); {str(folder)!r} has mode "
            f"{mode:o}.",
        )
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(folder / LOCK, wait=False))
        except BlockingIOError:
            check.fail(
                "confidential",
                f"must not be in use; another release is running in {str(folder)!r}.",
            )
        except OSError as error:
            check.fail(
                "confidential",
                f"must be on a file system that can lock files; {str(folder)!r} cannot be locked "
                f"({error.strerror}).",
            )
        _refuse_files(folder, resume)
        yield


def _refuse_files(folder: Path, resume: bool) -> None:
    if resume:
        if not (folder / RECORD).exists():
            check.fail("confidential", f"must hold a run to resume; {str(folder)!r} does not.")
        return
    if (folder / RECORD).exists():
        check.fail(
            "confidential",
            f"must be an empty folder; {str(folder)!r} has a run. Pass resume=True to continue it, "
            "or another folder for a new run, which counts as new spending.",
        )
    if any(path.name != LOCK for path in folder.iterdir()):
        check.fail("confidential", f"must be an empty folder; {str(folder)!r} has files.")


def remove_folders(folder: Path) -> None:
    """Remove all folders in the confidential folder: copies of leaves, and attempts.

    Each is renamed first, so that a task that is still running cannot write into it any more.

    Raises
    ------
    OSError
        If a folder cannot be removed.
    """
    for path in list(folder.iterdir()):
        if path.is_dir():
            _remove(path)


def _remove(path: Path) -> None:
    for pause in (*_PAUSES, None):
        try:
            if not path.name.startswith(_REMOVED):
                path = path.rename(path.with_name(f"{_REMOVED}{uuid.uuid4().hex}"))
            shutil.rmtree(path)
        except OSError as error:
            if pause is None:
                raise OSError(
                    f"The folder {str(path)!r} may hold true counts and could not be removed: "
                    f"{error}. Remove it, or call release with resume=True, which tries again."
                ) from None
            time.sleep(pause)
        else:
            return


# --------------------------------------------------------------------------- the record


class Record:
    """The spending and the draws of a run, in a file that is written before each next step.

    Attributes
    ----------
    data : dict
        ``request`` and ``ledger``; ``partitions``; ``committed``, the valid attempt for each
        partition; ``joint``, the valid attempt for the nodes in several partitions; ``published``.
    """

    def __init__(self, folder: Path, data: dict[str, Any]) -> None:
        self.folder, self.data = folder, data

    @classmethod
    def new(
        cls,
        folder: Path,
        request: dict[str, Any],
        ledger: dict[str, Any],
        partitions: Sequence[Partition],
    ) -> Record:
        """Create the record with the spending, before any noise is drawn."""
        data = {
            "format": _FORMAT,
            "run": uuid.uuid4().hex,
            "request": request,
            "ledger": ledger,
            "partitions": [
                [p.start, [[str(piece.path), piece.group, piece.rows] for piece in p.pieces]]
                for p in partitions
            ],
            "committed": {},
            "joint": None,
            "published": False,
        }
        made = cls(folder, data)
        made.attempts.mkdir(mode=0o700)
        made._write()
        return made

    @classmethod
    def read(cls, folder: Path) -> Record:
        """Read the record of an earlier run."""
        try:
            data = json.loads((folder / RECORD).read_text())
        except (OSError, ValueError):
            data = None
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            check.fail("confidential", f"must hold a run to resume; {str(folder)!r} does not.")
        return cls(folder, data)

    def _write(self) -> None:
        write_durably(self.folder / RECORD, json.dumps(self.data, indent=1).encode())

    def refuse_changed(self) -> None:
        """Refuse to continue if another driver has written the record.

        The lock prevents this, except on file systems that do not share locks between machines.
        """
        if Record.read(self.folder).data != self.data:
            check.fail(
                "confidential",
                f"must be used by one run at a time; another one has changed the record in "
                f"{str(self.folder)!r}.",
            )

    def refuse_other(self, **given: Any) -> None:
        """Refuse to resume a run with another request or another ledger."""
        for name, x in given.items():
            if self.data[name] != x:
                check.fail(
                    "resume",
                    f"must continue the same release; the {name} of the run in "
                    f"{str(self.folder)!r} is different. Start a new run in another folder; that "
                    "counts as new spending.",
                )

    @property
    def attempts(self) -> Path:
        """Folder of the attempts of this run."""
        return self.folder / f"attempts-{self.data['run']}"

    @property
    def partitions(self) -> list[Partition]:
        """Partitions as they were when the run began."""
        return [
            Partition(k, start, tuple(Piece(*piece) for piece in found))
            for k, (start, found) in enumerate(self.data["partitions"])
        ]

    @property
    def waiting(self) -> list[Partition]:
        """Partitions without a valid draw."""
        return [p for p in self.partitions if str(p.number) not in self.data["committed"]]

    def commit(self, partition: Partition, attempt: str) -> None:
        """Make this attempt the valid one, unless the partition already has a valid attempt."""
        self.refuse_changed()
        self.data["committed"].setdefault(str(partition.number), attempt)
        self._write()

    def commit_joint(self, attempt: str) -> None:
        """Make this attempt the valid one for the nodes that are in several partitions."""
        self.refuse_changed()
        self.data["joint"] = self.data["joint"] or attempt
        self._write()

    def noisy(self) -> dict[int, str]:
        """Files with the valid noisy counts, by partition."""
        committed = self.data["committed"].items()
        return {int(k): str(self.attempts / f"noisy-{name}.npz") for k, name in committed}

    def joint(self) -> np.ndarray:
        """Noisy counts of the nodes that are in several partitions."""
        return load(self.attempts / f"noisy-{self.data['joint']}.npz")["noisy"]

    def destroy_others(self) -> None:
        """Destroy all attempts that are not valid, and true sums that are no longer needed."""
        self.refuse_changed()
        attempts, joint = self.data["committed"].values(), self.data["joint"]
        kept = {f"noisy-{name}.npz" for name in attempts}
        kept |= (
            {f"partial-{name}.npz" for name in attempts}
            if joint is None
            else {f"noisy-{joint}.npz"}
        )
        found = {path.name for path in self.attempts.iterdir()}
        if missing := kept - found:
            check.fail(
                "confidential",
                f"must hold all draws that its record names; {min(missing)!r} is gone. Start a new "
                "run in another folder; that counts as new spending.",
            )
        for name in found - kept:
            (self.attempts / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files but the record, after publication. Tasks that are still running fail."""
        self.data["published"] = True
        self._write()
        remove_folders(self.folder)
