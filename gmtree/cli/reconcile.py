"""``gmtree reconcile``: make the values of a table add up."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree._files import write_csv
from gmtree._progress import Progress
from gmtree._text import say
from gmtree.cli import files
from gmtree.cli.table_files import Rows, level_names, read_parquet

if TYPE_CHECKING:
    from gmtree.frames.reconcile import Solved

# Numbers as people and programs write them. Python's float would also accept 1_000.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:[+-]?inf|nan)")

_DESCRIPTION = """\
Make the values of a table add up, with the least change.

FILE (.csv, .csv.gz or .parquet) has one column per level, coarse to fine, and a row for each node
with its value. In the row of a coarser node, the columns of finer levels are empty. In the row of
the total, the columns of all levels are empty: the word 'total' would be an ordinary label. A node
without a row, or without a value, counts as not measured. With --by, each group must have a row for
each leaf.

OUT (.csv, .csv.gz or .parquet) gets all rows and columns in their order with consistent values,
then rows for nodes that had no row, in which other columns are empty. A value that does not change
keeps its digits. FILE and OUT may be '-' for CSV from standard input or to standard output. Rows in
messages count from 0, below the names of the columns. Labels are written as they are: a spreadsheet
may run a label that begins with =, +, - or @ as a formula.
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``reconcile``."""
    p = subparsers.add_parser(
        "reconcile",
        help="make the values of a table add up",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("file", metavar="FILE", type=Path, help="values; '-' for standard input")
    p.add_argument(
        "--levels", metavar="A,B,C", required=True, help="columns of labels, coarse to fine"
    )
    p.add_argument("--value", metavar="COLUMN", required=True, help="column of values")
    p.add_argument(
        "--variance", metavar="V", help="column of variances, or one number (default: all equal)"
    )
    p.add_argument(
        "--by", metavar="A,B", default="",
        help="columns that define groups, such as dates; each group is reconciled separately",
    )  # fmt: skip
    p.add_argument("--nonnegative", action="store_true", help="require values of at least 0")
    p.add_argument(
        "--lower", metavar="B", help="column of lower bounds, or one number for all leaves"
    )
    p.add_argument(
        "--upper", metavar="B", help="column of upper bounds, or one number for all leaves"
    )
    p.add_argument("--integer", action="store_true", help="round the values to whole numbers")
    p.add_argument(
        "-o", "--output", metavar="OUT", type=Path, required=True, help="file to write"
    )  # fmt: skip
    p.add_argument(
        "--report", metavar="REPORT", type=Path,
        help="also write a table to this file that compares each value with the value that all "
        "other values imply, the most suspicious value first",
    )  # fmt: skip
    p.add_argument("--force", action="store_true", help="replace files without asking")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read the table, make it consistent, write it, and return the exit status."""
    from gmtree.frames.reconcile import changes, solve, written

    outputs = {"OUT": args.output} | ({"REPORT": args.report} if args.report else {})
    if not _may_write_all(outputs, args.force):
        return 1
    levels, by = level_names(args.levels), level_names(args.by) if args.by else []
    variance, lower, upper = (
        float(x) if x is not None and _NUMBER.fullmatch(x) else x
        for x in (args.variance, args.lower, args.upper)
    )
    measured = [args.value, *(x for x in (variance, lower, upper) if isinstance(x, str))]
    wanted = [*by, *levels, *measured]
    if len(set(wanted)) < len(wanted):
        twice = next(name for k, name in enumerate(wanted) if name in wanted[:k])
        raise ValueError(f"A column must not be used twice; {twice!r} is.")
    is_parquet = files.kind("FILE", args.file, files.TABLES) == ".parquet"
    if is_parquet:
        table = read_parquet(args.file, wanted)
    else:
        texts = _read_texts(args.file, wanted, measured)
        table = texts | {name: _numbers(texts[name]) for name in measured}
    with Progress(2, "reconciling") as progress:
        solved = solve(
            table,
            levels,
            args.value,
            variance,
            args.nonnegative,
            args.integer,
            lower=lower,
            upper=upper,
            by=by,
            by_option="--by",
        )
        if args.report:
            report = _report(table, levels, args.value, variance, by)
        progress.advance(1, f"writing {args.output.name}")
        if is_parquet:
            made = written(table, "pyarrow", solved)
        else:
            solved = _with_all_digits(table, solved)
            made = _results(texts, table, solved)
        _write(made, args.output, args.value)
        if args.report:
            _write(report, args.report, "measured")
    # If a table goes to standard output, the summary goes to standard error.
    where = sys.stderr if files.STANDARD in outputs.values() else sys.stdout
    rows = len(made[args.value])
    say(f"{args.output}: {rows:,} rows, {solved.tree.n:,} nodes\n{changes(table, solved)}", where)
    if args.report:
        say(f"{args.report}: {len(report['measured']):,} rows, the most suspicious first", where)
    for doubt in solved.doubts:
        say(f"gmtree: warning: {doubt}", sys.stderr)
    return 0


def _may_write_all(outputs: dict[str, Path], force: bool) -> bool:
    """Whether all outputs may be written, each to a file of its own."""
    from gmtree.cli.release import may_write

    if len(set(outputs.values())) < len(outputs):
        raise ValueError("REPORT and OUT must be different files.")
    for name, path in outputs.items():
        files.kind(name, path, files.TABLES)
        files.check_output(name, path)
    return all(may_write(path, force) for path in outputs.values())


def _read_texts(path: Path, wanted: list[str], measured: list[str]) -> dict[str, np.ndarray]:
    """All columns of a CSV file as text, None if a field is empty."""
    rows = Rows(path, wanted, None, whole=True)
    listed = []
    for row in rows.texts():
        listed.append([text or None for text in row])
        for name, text in zip(rows.header, row, strict=True):
            if name in measured and text and not _NUMBER.fullmatch(text):
                rows.refuse(name, "must be a number, such as 1000 or 1.5e3.")
    if not listed:
        raise ValueError(f"{files.shown(path)} has no rows.")
    columns = zip(*listed, strict=True)
    return {name: _objects(column) for name, column in zip(rows.header, columns, strict=True)}


def _objects(entries: Sequence[Any]) -> np.ndarray:
    out = np.empty(len(entries), dtype=object)
    out[:] = entries
    return out


def _numbers(texts: np.ndarray) -> np.ndarray:
    """Parse numbers; whole numbers keep all their digits."""
    return _objects([
        x if x is None else int(x) if len(x) < 20 and x.lstrip("+-").isdigit() else float(x)
        for x in texts
    ])  # fmt: skip


def _with_all_digits(table: dict[str, np.ndarray], solved: Solved) -> Solved:
    """Consistent values as Python objects; unchanged values keep all digits of the table."""
    values = {}
    for name, x in solved.values.items():
        same = x == table[name].astype(np.float64)
        values[name] = np.where(same, table[name], x.astype(object)) if x.dtype == float else x
    return solved._replace(values=values)


def _results(
    texts: dict[str, np.ndarray], table: dict[str, np.ndarray], solved: Solved
) -> dict[str, np.ndarray]:
    """All columns in their order, with consistent values and the rows that were added."""
    from gmtree.tree.locate import level_codes

    out = {}
    for name, own in texts.items():
        more = np.full(solved.more_nodes.size, None, dtype=object)
        if name in solved.values:
            x, more = solved.values[name], solved.more_values[name]
            own = np.where(x == table[name], own, x)
        elif name in solved.levels:
            codes = level_codes(solved.tree, list(solved.levels).index(name))
            more = codes.take(solved.more_nodes).to_objects()
        elif name in solved.by:
            more = own[solved.more_like]
        out[name] = np.concatenate([own, more])
    return out


def _report(
    table: Any, levels: list[str], value: str, variance: Any, by: list[str]
) -> dict[str, np.ndarray]:
    """Return the columns of the report, in which missing numbers are masked."""
    from gmtree.frames.diagnostics import suspects

    order, found = suspects(table, levels, value, variance, by=by)
    out = {}
    for name, x in found.items():
        entries = x if isinstance(x, np.ndarray) else _objects(x.to_pylist())
        missing = np.isnan(entries) if entries.dtype == float else np.False_
        out[name] = np.ma.masked_where(missing, entries)[order] if missing.any() else entries[order]
    return out


def _write(made: Any, path: Path, value: str) -> None:
    """Write a pyarrow Table, or a dict of columns, as a CSV or Parquet file."""
    if files.kind("OUT", path, files.TABLES) == ".parquet":
        parquet = check.optional("pyarrow.parquet", "frames", "A Parquet file")
        if isinstance(made, dict):
            arrow = check.optional("pyarrow", "frames", "A Parquet file")
            x = made[value]
            made = arrow.table(made | {value: x.astype(np.float64) if x.dtype == object else x})
        with files.writing(path) as stream:
            parquet.write_table(made, stream)
        return
    if not isinstance(made, dict):
        made = {name: _objects(made[name].to_pylist()) for name in made.column_names}
    rows = len(made[value])
    with files.writing(path) as stream, Progress(rows, f"writing {path.name}") as progress:
        write_csv(stream, made, progress.advance)
