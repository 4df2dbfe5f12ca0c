"""Stored copies of charged releases, beside the file of their account.

A copy is written before the account (:mod:`gmtree.privacy.accounting.account_file`). Its noisy
counts are masked by the random name of the new entry. If the process ends before the entry is in
the account, that name is lost, and nobody can read the copy. Afterwards it can be read as often as
necessary: it always holds the draw that was charged.

Nothing that can fail between the draw and the charge depends on the counts or the noise. Otherwise,
repeating a release until it succeeds would change the law of its noise.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmtree.privacy.accounting.account_file import Entry

_NAME = "release"
# For each kind of release, the function that reads its stored copy. The classes of releases, which
# import this module, add themselves.
READERS: dict[str, Callable[[Path, str], Any]] = {}


@dataclass(frozen=True)
class Unfinished:
    """A charged release that was not saved yet, as :meth:`Account.unfinished` lists it.

    Attributes
    ----------
    entry : Entry
        The charge, with its ``number``, ``time``, ``operator`` and ``purpose``.
    path : Path
        The stored copy.
    """

    entry: Entry
    path: Path

    def load(self) -> Any:
        """Return the Release or TableRelease. Nothing is charged or drawn.

        Its `save` removes the stored copy, as does :meth:`Account.finish`. Raises ValueError if the
        copy is damaged.
        """
        return READERS[self.entry.what](self.path, self.entry.release)


def stored_copy(account: Path, entry: Entry) -> Path:
    """The path of the stored copy of a release."""
    return account.with_name(f"{account.name}.unfinished-{entry.hash[:16]}") / _NAME


def unfinished(account: Path, entries: Iterable[Entry]) -> list[Unfinished]:
    """The entries that have a stored copy."""
    found = [Unfinished(entry, stored_copy(account, entry)) for entry in entries]
    return [each for each in found if os.access(each.path, os.F_OK)]


def discard(copy: Path) -> None:
    """Remove a stored copy. If that fails, the release stays in the list of unfinished ones."""
    shutil.rmtree(copy.parent, ignore_errors=True)


def discard_leftovers(account: Path, entries: Iterable[Entry]) -> None:
    """Remove folders of processes that ended before their charge or while they removed a copy.

    The caller holds the account's lock.
    """
    kept = {item.path.parent.name for item in unfinished(account, entries)}
    for folder in account.parent.iterdir():
        if folder.name.startswith(f"{account.name}.unfinished-") and folder.name not in kept:
            discard(folder / _NAME)
