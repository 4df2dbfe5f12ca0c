"""The origin of a release: its time, versions of packages, options and account."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any

from gmtree import _validate as check
from gmtree._version import __version__
from gmtree.privacy.accounting.account import Account
from gmtree.privacy.accounting.account_file import Entry, now
from gmtree.privacy.accounting.allocation import Allocation
from gmtree.privacy.accounting.unfinished import stored_copy
from gmtree.privacy.files.packing import check_labels, fingerprint
from gmtree.tree import Tree

_PACKAGES = ("numpy", "numba", "scipy")


class Drawing(ExitStack):
    """A release in the making: it is charged to an account, if any, and its origin is recorded.

    From :meth:`begin` to the end of the block, the account is held. It is charged at the end of the
    block, unless an error was raised. Nothing in this record depends on the data.
    """

    def __init__(
        self, function: str, tree: Tree, allocation: Allocation, account: Account | None
    ) -> None:
        super().__init__()
        check_labels(tree)
        if isinstance(account, (str, PathLike)):
            check.fail_type(
                "account", f"must be an Account: gmtree.privacy.Account(path={str(account)!r})."
            )
        if account is not None:
            check.instance("account", account, Account)
        self._function, self._tree, self._allocation = function, tree, allocation
        self._account = account
        self._entry: Entry | None = None

    def begin(self) -> None:
        """Wait for the account; raise ValueError if too little is left."""
        if self._account is not None:
            charging = self._account._charging(self._tree, self._allocation, self._function)
            self._entry = self.enter_context(charging)

    def copy(self) -> tuple[Path, str] | None:
        """The path of the stored copy and its key, or None without an account in a file."""
        if self._account is None or self._account.path is None or self._entry is None:
            return None
        return stored_copy(self._account.path, self._entry), self._entry.release

    def origin(self, **options: Any) -> dict[str, Any]:
        """The origin in types that JSON has, without the tree (see :func:`with_tree`)."""
        entry, account, drawn = self._entry, self._account, None
        if entry is not None and account is not None:
            drawn = {
                "file": None if account.path is None else account.path.name,
                "entry": entry.number,
                "charged": str(entry.charged),
                "measure": account.measure,
                "hash": entry.hash,
            }
        return {
            "function": self._function,
            "time": now() if entry is None else entry.time,
            "versions": dict(_versions()),
            "options": options,
            "account": drawn,
        }


def with_tree(origin: dict[str, Any] | None, tree: Tree) -> dict[str, Any] | None:
    """Add the fingerprint of the tree, which takes a while for large trees."""
    return None if origin is None else {**origin, "tree": fingerprint(tree)}


def with_options(origin: dict[str, Any] | None, **options: Any) -> dict[str, Any] | None:
    """The origin of a release whose values were computed again with other options."""
    return None if origin is None else {**origin, "options": options}


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    found = {"gmtree": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def checked(stored: Any, tree: Tree) -> dict[str, Any] | None:
    """Return the origin that a file states; raise ValueError if it is not that of the tree."""
    if stored is None:
        return None
    check_form(stored)
    if stored.get("tree") != fingerprint(tree):
        raise ValueError("it was made for another tree")
    return {key: value for key, value in stored.items() if key != "tree"}


def check_form(stored: Any) -> None:
    """Raise ValueError if an entry that every origin has is missing or has another type."""
    if not isinstance(stored, Mapping):
        raise ValueError("its provenance is not a mapping")
    for name, kind in (("function", str), ("time", str), ("versions", dict), ("options", dict)):
        if not isinstance(stored.get(name), kind):
            raise ValueError(f"its provenance lacks {name!r}")
    if not isinstance(stored.get("account"), (dict, type(None))):
        raise ValueError("its provenance lacks 'account'")
