"""``gmtree account``: a privacy budget in a file, what was spent of it and what is left."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmtree.privacy.account import Account

_DESCRIPTION = """\
Show a privacy account: its budget, what was charged to it when and for which tree, what is left.

With --epsilon or --rho a new account is made in FILE; if there is one already, it must have these
terms. 'gmtree release --account FILE' charges what it spends before it draws any noise, and refuses
what would exceed the budget.
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``account``."""
    p = subparsers.add_parser(
        "account",
        help="make or show a privacy account",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("file", metavar="FILE", type=Path, help="the account, such as budget.json")
    budget = p.add_mutually_exclusive_group()
    budget.add_argument("--epsilon", help="make an account with this budget, such as 1 or 1/3")
    budget.add_argument("--rho", help="the same in zero-concentrated differential privacy")
    p.add_argument("--delta", help="with --epsilon: an account in rho that implies both")
    p.add_argument(
        "--neighbors", choices=("add_remove", "change_one"),
        help="what all releases protect (default: add_remove)",
    )  # fmt: skip
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make an account, if a budget is given, and show it."""
    from gmtree.privacy.account import Account

    if args.epsilon is None and args.rho is None:
        if args.delta is not None or args.neighbors is not None:
            raise ValueError("--delta and --neighbors go with the budget of a new account.")
        account = open_account(args.file)
    else:
        account = Account(
            epsilon=args.epsilon,
            rho=args.rho,
            delta=args.delta,
            neighbors=args.neighbors or "add_remove",
            path=args.file,
        )
    print(account)
    return 0


def open_account(file: Path) -> Account:
    """The account in a file; a ValueError tells how to make one where there is none."""
    from gmtree.privacy.account import Account

    if not file.exists():
        raise ValueError(
            f"There is no privacy account {str(file)!r}. 'gmtree account {file} --epsilon 1' makes "
            "one with a budget of 1."
        )
    return Account(path=file)
