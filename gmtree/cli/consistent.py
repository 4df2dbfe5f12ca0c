"""``gmtree consistent``: make the values of a table add up."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np

from gmtree._progress import Progress
from gmtree.cli import files
from gmtree.cli.rows import ROWS_PER_STEP, Rows, level_names

_DESCRIPTION = """\
Make the values of a table add up, with the least change.

FILE (.csv, .csv.gz or .parquet) has one column per level, coarse to fine, and a row for each node
with its value: the columns of finer levels are empty in the row of a coarser node, and all are
empty in that of the total; the label 'total' does not stand for it. Nodes without a row, or
without a value, were not measured; with --by, each group must have a row for each leaf.

OUT (.csv, .csv.gz or .parquet) gets the same rows with consistent values, then rows for nodes that
had none. FILE and OUT may be '-' for CSV from standard input or to standard output. Rows in
messages count from 0, below the names of the columns.
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``consistent``."""
    p = subparsers.add_parser(
        "consistent",
        help="make the values of a table add up",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("file", metavar="FILE", type=Path, help="values; '-' for standard input")
    p.add_argument("--levels", metavar="A,B,C", required=True, help="columns, coarse to fine")
    p.add_argument("--value", metavar="COLUMN", required=True, help="column of values")
    p.add_argument(
        "--variance", metavar="V", help="column of variances, or one number (default: all equal)"
    )
    p.add_argument(
        "--by", metavar="A,B", default="",
        help="columns such as dates: rows with the same entries add up among themselves",
    )  # fmt: skip
    p.add_argument("--nonnegative", action="store_true", help="no value below 0")
    p.add_argument("--integer", action="store_true", help="whole numbers")
    p.add_argument("-o", "--output", metavar="OUT", type=Path, required=True)
    p.add_argument("--force", action="store_true", help="replace OUT without asking")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, make consistent, write; the exit status."""
    from gmtree.cli.release import may_write
    from gmtree.frames.reconcile import solve

    ending = files.kind("OUT", args.output, files.TABLES)
    files.check_output("OUT", args.output)
    if not may_write(args.output, args.force):
        return 1
    levels, by = level_names(args.levels), level_names(args.by) if args.by else []
    variance = _number(args.variance)
    wanted = [*by, *levels, args.value, *([variance] if isinstance(variance, str) else [])]
    if len(set(wanted)) < len(wanted):
        twice = next(name for k, name in enumerate(wanted) if name in wanted[:k])
        raise ValueError(f"Columns must have one use each; {twice!r} has two.")
    table = _read(args.file, wanted, [*by, *levels])
    with Progress(2, "making consistent") as progress:
        solved = solve(
            table,
            levels,
            args.value,
            variance,
            args.nonnegative,
            args.integer,
            by=by,
            by_option="--by",
        )
        progress.advance(1, f"writing {args.output.name}")
        columns = _columns(table, solved, args.value)
        _write(columns, args.output, ending)
    tree, moved = solved.tree, _moved(table[args.value], solved.values[args.value])
    told = sys.stderr if args.output == files.STANDARD else sys.stdout
    print(f"{args.output}: {len(columns[args.value]):,} rows, {tree.n:,} nodes", file=told)
    added = f"{solved.more_nodes.size:,} rows were added"
    print(f"Values changed by {moved:.6g} at most; {added}.", file=told)
    return 0


def _number(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _read(path: Path, wanted: list[str], labels: list[str]) -> dict[str, Any]:
    """Columns by name: labels, None where empty, and numbers, NaN where empty."""
    listed: list[list[Any]] = [[] for _ in wanted]
    rows = Rows(path, wanted, None)
    for row in rows.texts():
        for name, text, column in zip(wanted, row, listed, strict=True):
            if name in labels:
                column.append(text or None)
                continue
            try:
                column.append(float(text) if text else np.nan)
            except ValueError:
                raise ValueError(f"{rows.place}, column {name!r}: must be a number.") from None
    if not listed[0]:
        raise ValueError(f"{files.shown(path)} has no rows.")
    return {
        name: np.array(column, dtype=object if name in labels else np.float64)
        for name, column in zip(wanted, listed, strict=True)
    }


def _columns(table: dict[str, Any], solved: Any, value: str) -> dict[str, np.ndarray]:
    """What is written: the columns of labels and values, with the rows that were added."""
    from gmtree.labels.locate import level_codes

    out = {}
    for name in solved.by:
        out[name] = np.concatenate([table[name], table[name][solved.more_like]])
    for k, name in enumerate(solved.levels):
        codes, categories = level_codes(solved.tree, k)
        assert categories is not None
        here = codes[solved.more_nodes]
        labels = np.full(here.size, None, dtype=object)
        labels[here >= 0] = categories[here[here >= 0]]
        out[name] = np.concatenate([table[name], labels])
    out[value] = np.concatenate([solved.values[value], solved.more_values[value]])
    return out


def _moved(before: np.ndarray, after: np.ndarray) -> float:
    change = np.abs(after - before)
    return float(np.nanmax(change)) if not np.isnan(change).all() else 0.0


def _write(columns: dict[str, np.ndarray], path: Path, ending: str) -> None:
    from gmtree import _validate as check

    rows = len(next(iter(columns.values())))
    if ending == ".parquet":
        parquet = check.optional("pyarrow.parquet", "frames", "A Parquet file")
        arrow = check.optional("pyarrow", "frames", "A Parquet file")
        with files.writing(path) as stream:
            parquet.write_table(arrow.table(columns), stream)
        return
    with files.writing(path) as stream, Progress(rows, f"writing {path.name}") as progress:
        text = io.TextIOWrapper(cast(Any, stream), encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(columns)
        for start in range(0, rows, ROWS_PER_STEP):
            part = slice(start, start + ROWS_PER_STEP)
            writer.writerows(zip(*(c[part].tolist() for c in columns.values()), strict=True))
            progress.advance(ROWS_PER_STEP)
        text.flush()
        text.detach()
