"""``gmtree release --resume``: releases that were charged, but not written before a run ended."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gmtree._text import say
from gmtree.cli.account import open_account

if TYPE_CHECKING:
    from gmtree.privacy.accounting.ledger import Ledger
    from gmtree.privacy.accounting.unfinished import Unfinished
    from gmtree.privacy.publishing.publish import Published
    from gmtree.tree import Tree

_OPTIONS = ("run", "resume", "account", "output", "force", "confidence")
_NOT_GIVEN = (None, False, "", "equal", "add_remove")


def add_option(p: argparse.ArgumentParser) -> None:
    """Add the option ``--resume``."""
    p.add_argument(
        "--resume", metavar="ENTRY", type=int, nargs="?", const=0,
        help="write a release that --account was charged for, but that an interrupted run did not "
        "write; ENTRY is its number in the account and may be left out if there is only one. "
        "FILE and its options must not be given again; nothing is charged or drawn",
    )  # fmt: skip


def check_needed(args: argparse.Namespace) -> None:
    """Refuse a release without one of the options that only --resume can do without."""
    needed = {
        "FILE": args.file is not None,
        "--levels": args.levels is not None,
        "--epsilon or --rho": args.epsilon is not args.rho,
    }
    for name, is_given in needed.items():
        if not is_given:
            raise ValueError(f"{name} must be given, except with --resume.")


def check(args: argparse.Namespace) -> None:
    """Refuse options that have no meaning for a release that was drawn already."""
    for name, value in vars(args).items():
        is_zero = value == 0 and value is not False
        if name not in _OPTIONS and (is_zero or value not in _NOT_GIVEN):
            option = "FILE" if name == "file" else f"--{name.replace('_', '-')}"
            raise ValueError(
                f"--resume allows only --account, -o, --confidence and --force, not {option}: the "
                "other options were fixed when the release was drawn."
            )
    if args.account is None:
        raise ValueError("--resume needs --account FILE, the account that was charged.")
    _chosen(args)


def load(args: argparse.Namespace) -> Published[Any]:
    """Return the release to resume, and set its options in `args`."""
    item = _chosen(args)
    made = item.load()
    args.resume, args.nonnegative, args.integer = item.entry.number, made.nonnegative, made.integer
    return made


def refuse_again(args: argparse.Namespace, tree: Tree, ledger: Ledger) -> None:
    """Refuse a release that was charged with these terms, but not written."""
    from gmtree.privacy.accounting.account_file import ledger_fingerprint
    from gmtree.privacy.files.packing import fingerprint

    for item in open_account(args.account).unfinished():
        entry = item.entry
        if entry.ledger == ledger_fingerprint(ledger) and entry.tree == fingerprint(tree):
            raise ValueError(f"This release was charged already. {_advice(args, item)}")


def advise(args: argparse.Namespace, error: BaseException) -> None:
    """After an error, print how to write the release that was charged last, if it is stored."""
    if args.account is None:
        return
    with suppress(OSError, ValueError):
        for item in open_account(args.account).unfinished()[-1:]:
            if (text := _advice(args, item)) not in str(error):
                say(f"gmtree: {text}", sys.stderr)


def _advice(args: argparse.Namespace, item: Unfinished) -> str:
    """Explain how to write a stored release."""
    account, number = args.account, item.entry.number
    options = ["--resume", number, "--account", account, "-o", args.output]
    command = shlex.join(["gmtree", "release", *map(str, options)])
    return (
        f"Entry {number} of {account}, charged at {item.entry.time}, is stored but not written. "
        f"If its run has ended, this command writes it, without a further charge or draw: {command}"
    )


def _chosen(args: argparse.Namespace) -> Unfinished:
    """The stored release that ``--resume ENTRY`` denotes."""
    waiting = open_account(args.account).unfinished()
    numbers = [item.entry.number for item in waiting]
    if args.resume in numbers:
        return waiting[numbers.index(args.resume)]
    if not waiting:
        raise ValueError(f"{args.account} has no release to resume: all were written.")
    listed = ", ".join(f"{x.entry.number} ({x.entry.time})" for x in waiting)
    if args.resume:
        raise ValueError(
            f"--resume {args.resume} is not an entry of {args.account} that can be resumed: "
            f"choose from {listed}."
        )
    if len(waiting) > 1:
        raise ValueError(
            f"{args.account} has several releases to resume: write --resume ENTRY with one of "
            f"{listed}."
        )
    return waiting[0]
