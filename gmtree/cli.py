"""The command line: ``gmtree`` or ``python -m gmtree``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from gmtree._version import __version__

# Each of these modules adds one subcommand, by a function `add_parser(subparsers)` that sets
# `run`, a function from the parsed arguments to the exit status.
SUBCOMMANDS = ("gmtree.demo", "gmtree.privacy._cli", "gmtree.info", "gmtree.bench")

# Exit status of a program that was interrupted, by the convention of shells.
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """All options of all subcommands.

    Examples
    --------
    >>> from gmtree.cli import parser
    >>> parser().parse_args(["bench", "table", "--nodes", "1e6"]).nodes
    1000000
    """
    top = argparse.ArgumentParser(
        prog="gmtree",
        description="Trees as matrices: consistent hierarchies and private counts.",
    )
    top.add_argument("--version", action="version", version=f"gmtree {__version__}")
    subparsers = top.add_subparsers(metavar="COMMAND", required=True)
    for name in SUBCOMMANDS:
        import_module(name).add_parser(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status.

    Errors about input and files are told on standard error, without a traceback.
    """
    args = parser().parse_args(argv)
    try:
        status = int(args.run(args))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever reads has seen enough, as `head` does; nothing must be written when we end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ImportError, OSError, ValueError) as error:
        print(f"gmtree: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
