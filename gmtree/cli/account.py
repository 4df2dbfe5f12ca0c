"""``gmtree account``: a privacy budget in a file, with its charges and the budget left."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmtree._text import say

if TYPE_CHECKING:
    from gmtree.privacy.accounting.account import Account

_DESCRIPTION = """\
Show a privacy account: its budget, its charges with their times and trees, and the budget left.

--epsilon or --rho creates a new account in FILE. If FILE is an account already, the terms that you
give must be equal to its own. 'gmtree release --account FILE' charges the loss of a release before
anybody sees its noisy counts, and refuses a release that would exceed the budget. If a run ends
after the charge but before it has written its release, this release is listed here, and 'gmtree
release --resume' writes it.

'gmtree account verify FILE OUT...' checks that no entry was changed or removed, and that the
account has an entry for each of these releases. If the account was restored from a backup that is
older than a release, this entry is missing.
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``account``."""
    p = subparsers.add_parser(
        "account",
        help="create or show a privacy account",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="gmtree account [options] FILE\n       gmtree account verify FILE [OUT ...]",
    )
    p.add_argument("file", metavar="FILE", type=Path, help="the account, such as budget.json")
    p.add_argument("more", nargs="*", type=Path, help=argparse.SUPPRESS)
    budget = p.add_mutually_exclusive_group()
    budget.add_argument("--epsilon", help="create an account with this budget, such as 1 or 1/3")
    budget.add_argument(
        "--rho", help="create an account with this budget of zero-concentrated differential privacy"
    )
    p.add_argument(
        "--delta",
        help="with --epsilon: the account keeps (epsilon, delta)-differential privacy for all "
        "releases together, with a budget in rho",
    )
    p.add_argument(
        "--neighbors", choices=("add_remove", "change_one"),
        help="neighbour relation that every release must use (default: add_remove)",
    )  # fmt: skip
    p.add_argument(
        "--max-contributions",
        metavar="K",
        type=int,
        help="privacy unit: at most K records of a person (default: 1)",
    )
    p.add_argument(
        "--person",
        metavar="COLUMN",
        help="privacy unit: all records of a person; every release must name this column, which "
        "identifies people",
    )
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Create an account, if a budget is given, and show it."""
    from gmtree.privacy.accounting.account import Account

    if args.more:
        if str(args.file) != "verify":
            raise ValueError("Several files must follow 'verify'; otherwise give one FILE.")
        return _verify(*args.more)
    if str(args.file) == "verify":
        raise ValueError("'verify' must be followed by the FILE of an account.")
    if args.epsilon is None and args.rho is None:
        terms = (args.delta, args.neighbors, args.max_contributions, args.person)
        if any(term is not None for term in terms):
            raise ValueError(
                "--delta, --neighbors, --max-contributions and --person need --epsilon or --rho, "
                "the budget of a new account."
            )
        account = open_account(args.file)
    else:
        account = Account(
            epsilon=args.epsilon,
            rho=args.rho,
            delta=args.delta,
            neighbors=args.neighbors or "add_remove",
            max_contributions=1 if args.max_contributions is None else args.max_contributions,
            person=args.person,
            path=args.file,
        )
    say(account)
    if account.unfinished():
        say(
            "  To write one, without a further charge or draw: 'gmtree release --resume ENTRY "
            "--account FILE -o OUT'. In Python, 'Account.unfinished' lists them."
        )
    return 0


def _verify(file: Path, *outputs: Path) -> int:
    """Check the file of an account, and that the account has an entry for each given release."""
    from gmtree.privacy.files.verifying import check_release

    account = open_account(file)
    count = account.verify()
    for output in outputs:
        say(check_release(output, account))
    say(f"{file}: {count:,} {'entry' if count == 1 else 'entries'}, none changed or removed.")
    return 0


def open_account(file: Path) -> Account:
    """Open the account in a file; the error for a missing file explains how to create one."""
    from gmtree.privacy.accounting.account import Account

    if not file.exists():
        raise ValueError(
            f"There is no privacy account {str(file)!r}. 'gmtree account {file} --epsilon 1' "
            "creates one with a budget of 1."
        )
    return Account(path=file)
