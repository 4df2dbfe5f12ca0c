"""The command line: ``gmtree`` or ``python -m gmtree``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from gmtree._version import __version__

# Each of these modules adds one subcommand, by a function `add_parser(subparsers)` that sets
# `run`, a function from the parsed arguments to the exit status.
SUBCOMMANDS = (
    "gmtree.cli.demo",
    "gmtree.cli.release",
    "gmtree.cli.account",
    "gmtree.cli.consistent",
    "gmtree.cli.info",
    "gmtree.cli.warm",
    "gmtree.bench",
)

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

    Errors about input and files are told in one line on standard error, without a traceback.
    """
    _fill_closed_streams()
    try:
        # Inside, because this loads modules, which takes long enough to be interrupted.
        args = parser().parse_args(argv)
        status = int(args.run(args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader has seen enough, as `head` does: that is no error.
        _forget_output()
        return 0
    except MemoryError:
        return _fail("there is not enough memory.")
    except (ImportError, OSError, OverflowError, TypeError, ValueError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _fail(message: str) -> int:
    """Tell an error in one line; the exit status."""
    _forget_output(flush=True)
    if sys.stderr is not None:
        with suppress(OSError):
            print("gmtree: error:", " ".join(message.split()), file=sys.stderr)
    return 2


def _forget_output(*, flush: bool = False) -> None:
    """Leave nothing for Python to write to standard output when it ends, where it would fail."""
    if sys.stdout is None:
        return
    try:
        if flush:
            sys.stdout.flush()
            return
    except OSError:
        pass
    with suppress(OSError, ValueError):  # standard output may be no file, in a program of others
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fill_closed_streams() -> None:
    """Open /dev/null in place of a closed standard stream.

    Otherwise the next file to be opened would get its number, and what others write to the
    standard streams would end up in that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
