"""Checks that a published file is unchanged since it was written, and was charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gmtree._files import file_digest
from gmtree.privacy.accounting.account import Account
from gmtree.privacy.accounting.account_file import refuse_unknown
from gmtree.privacy.files.storage import ledger_path, load, read_ledger
from gmtree.privacy.publishing.publish import Published
from gmtree.privacy.publishing.release import Release
from gmtree.privacy.publishing.tables import TableRelease


def check_release(path: Path, account: Account | None) -> str:
    """Describe an unchanged file in a sentence; raise ValueError for a changed one."""
    ledger, provenance, found = _read(path)
    if account is not None:
        try:
            refuse_unknown(account.entries, ledger, provenance)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        entry = provenance["account"]["entry"]
        return f"{path}: {found}, and entry {entry} of {account.path} was charged for it."
    drawn = (provenance or {}).get("account")
    if drawn is None:
        return f"{path}: {found}. It was not charged to an account."
    if drawn.get("file") is None:
        return f"{path}: {found}. It was charged to an account that was kept in memory only."
    return f"{path}: {found}. --account {drawn['file']} compares it with its account."


def load_release(path: Path) -> Published[Any]:
    """Read a release of counts or of tables."""
    parts = load(path)
    return (Release if parts[2].axes is None else TableRelease)._of(parts)


def _read(path: Path) -> tuple[Any, Any, str]:
    """Ledger and provenance of a release, and a description of the checks."""
    if path.suffix.lower() in (".npz", ".parquet"):
        made = load_release(path)
        return made.ledger, made.provenance, "the values and the ledger agree"
    beside = ledger_path(path)
    if not path.exists():
        raise ValueError(f"The file {str(path)!r} does not exist.")
    if not beside.exists():
        raise ValueError(f"There is no ledger {str(beside)!r} beside {str(path)!r}.")
    ledger, data = read_ledger(beside)
    table = data["table"]
    if table is None:
        raise ValueError(f"{beside} was not written for a table.")
    if table.get("sha256") != file_digest(path):
        raise ValueError(
            f"{path} is not the table that {beside} was written for: it was changed since."
        )
    return ledger, data["provenance"], "the table and its ledger agree"
