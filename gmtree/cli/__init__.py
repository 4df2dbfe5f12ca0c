"""The command line: ``gmtree`` or ``python -m gmtree``."""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from gmtree._text import say
from gmtree._version import __version__

# Each of these modules adds one subcommand. Its function `add_parser(subparsers)` sets `run`, a
# function that takes the parsed arguments and returns the exit status.
SUBCOMMANDS = (
    "gmtree.cli.demo",
    "gmtree.cli.release",
    "gmtree.cli.account",
    "gmtree.cli.verify",
    "gmtree.cli.reconcile",
    "gmtree.cli.info",
    "gmtree.cli.warm",
    "gmtree.bench",
)

# Exit status of a program that was interrupted, by the convention of shells.
INTERRUPTED = 130

# Replacements for line-drawing characters that the encoding of standard output lacks.
_OUTLINE = str.maketrans("└├│─", "`||-")


def parser() -> argparse.ArgumentParser:
    """Return the parser for all options of all subcommands.

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
    """Run a command line and return the exit status.

    Errors about input and files are printed in one line on standard error, without a traceback.
    """
    _fill_closed_streams()
    _print_every_character()
    try:
        # This is inside `try` because loading modules takes long enough to be interrupted.
        args = parser().parse_args(argv)
        status = int(args.run(args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does. That is not an error.
        _finish_output()
        return 0
    except MemoryError:
        return _fail("there is not enough memory.")
    except FileNotFoundError as error:
        return _fail(f"There is no file {str(error.filename)!r}.")
    except (ImportError, OSError, OverflowError, TypeError, ValueError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _fail(message: str) -> int:
    """Print an error in one line and return the exit status."""
    _finish_output()
    if sys.stderr is not None:
        with suppress(OSError):
            say(f"gmtree: error: {' '.join(message.split())}", sys.stderr)
    return 2


def _finish_output() -> None:
    """Write the remaining output or else drop it, because Python would fail to write it at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):  # ValueError: the stream is closed
        with suppress(OSError, ValueError):  # in another program, this stream may not be a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fill_closed_streams() -> None:
    """Open /dev/null in place of each closed standard stream.

    Otherwise the next file to be opened would get its number, and output of libraries to the
    standard streams would end up in that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _print_every_character() -> None:
    """Let standard output replace characters that its encoding lacks, instead of failing."""
    codecs.register_error("gmtree", _replacement)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="gmtree")


def _replacement(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace line-drawing characters by ASCII, and any other character by its code."""
    text, end = codecs.backslashreplace_errors(error)
    if isinstance(error, UnicodeEncodeError):
        drawn = error.object[error.start : error.end].translate(_OUTLINE)
        if drawn.isascii():
            return drawn, error.end
    return text, end
