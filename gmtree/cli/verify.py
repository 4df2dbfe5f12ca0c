"""``gmtree verify``: check that a published file is unchanged and that an account was charged."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gmtree._text import say

_DESCRIPTION = """\
Check a file that 'gmtree release' wrote.

A table OUT.csv is compared with the SHA-256 in OUT.csv.ledger.json, and that ledger with its
checksum. OUT.npz and OUT.parquet are read, and their ledgers are checked against their trees. With
--account, the ledger is compared with the entry that was charged for it.

The checksums have no key. They detect damage and careless edits, but not a forger who also rewrites
the ledger. To detect that, publish or sign the SHA-256 of OUT.csv.ledger.json elsewhere.
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``verify``."""
    p = subparsers.add_parser(
        "verify",
        help="check a release against its ledger and its account",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("file", metavar="OUT", type=Path, help="file that gmtree release wrote")
    p.add_argument(
        "--account", metavar="FILE", type=Path, help="the account that was charged for it"
    )
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check a file, and print the result."""
    from gmtree.cli.account import open_account
    from gmtree.privacy.files.verifying import check_release

    account = None if args.account is None else open_account(args.account)
    say(check_release(args.file, account))
    return 0
