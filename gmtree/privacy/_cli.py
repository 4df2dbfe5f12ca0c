"""``gmtree release``: private counts from a table."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gmtree._progress import Progress

_DESCRIPTION = """\
Publish the counts of a table with differential privacy.

FILE (.csv or .parquet) has one column per level, coarse to fine, and a row for each leaf with
its count, or for each record. OUT gets a row for every node (.csv, .parquet) or all that is
needed to repeat the post-processing (.npz, .parquet; see gmtree.Release.load). Values are whole
numbers, not negative, and add up, unless you ask for others.

Without --tree the leaves are those that occur in FILE, which says in public that they do: a leaf
must then be in FILE whether or not it is empty. With --tree the leaves are those listed there.
"""
# Rows between two looks at the clock.
_ROWS_PER_STEP = 1 << 14

Path_ = tuple[str, ...]


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``release``."""
    p = subparsers.add_parser(
        "release",
        help="publish counts with differential privacy",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("file", metavar="FILE", type=Path, help="counts, .csv or .parquet")
    p.add_argument("--levels", metavar="A,B,C", required=True, help="columns, coarse to fine")
    p.add_argument("--count", metavar="COLUMN", help="column of counts (default: rows count one)")
    budget = p.add_mutually_exclusive_group(required=True)
    budget.add_argument("--epsilon", help="budget of pure differential privacy, such as 0.1 or 1/3")
    budget.add_argument("--rho", help="budget of zero-concentrated differential privacy")
    p.add_argument("--delta", help="with --rho: also print the epsilon for this delta")
    p.add_argument(
        "--shares",
        metavar="S",
        default="equal",
        help="of the budget by level: 'equal', 'nodes' or 'leaves' (least error of these), or "
        "numbers such as 1,2,4 from the root down",
    )
    p.add_argument(
        "--neighbors", choices=("add_remove", "change_one"), default="add_remove",
        help="what is protected: that records are there, or which leaf they are in",
    )  # fmt: skip
    p.add_argument(
        "--max-contributions", metavar="K", type=int, default=1, help="most records of one person"
    )
    p.add_argument(
        "--max-count", metavar="N", type=int, help="public bound at which counts are cut off"
    )
    p.add_argument(
        "--invariants", metavar="A,B", default="",
        help="levels published exactly, outside the guarantee",
    )  # fmt: skip
    p.add_argument("--tree", metavar="FILE", type=Path, help="public list of all leaves")
    p.add_argument(
        "--ignore-unknown", action="store_true", help="leave out rows whose leaf is not in --tree"
    )
    p.add_argument("--no-nonnegative", dest="nonnegative", action="store_false")
    p.add_argument("--no-integer", dest="integer", action="store_false")
    p.add_argument(
        "--confidence", metavar="P", type=float, default=0.95, help="of the intervals in a .csv"
    )
    p.add_argument("-o", "--output", metavar="OUT", type=Path, required=True)
    p.add_argument("--force", action="store_true", help="replace OUT without asking")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, release, write, and tell what was spent; the exit status."""
    from gmtree.privacy import optimal_shares, release
    from gmtree.privacy._intervals import confidence
    from gmtree.privacy._storage import need_pyarrow

    suffix = args.output.suffix.lower()
    if suffix not in (".csv", ".parquet", ".npz"):
        raise ValueError(f"OUT must end in .csv, .parquet or .npz, not {args.output.name!r}.")
    confidence("confidence", args.confidence)
    if not _may_write(args.output, args.force):
        return 1
    levels = [name.strip() for name in args.levels.split(",")]
    try:
        if suffix == ".parquet":
            need_pyarrow()
        tree, counts = _tree_and_counts(args, levels)
        options = {
            "epsilon": args.epsilon,
            "rho": args.rho,
            "neighbors": args.neighbors,
            "max_contributions": args.max_contributions,
            "invariants": [name.strip() for name in args.invariants.split(",") if name.strip()],
        }
        with Progress(3, "choosing shares") as progress:
            if args.shares in ("nodes", "leaves"):
                shares: Any = optimal_shares(tree, objective=args.shares, **options)
            else:
                shares = None if args.shares == "equal" else args.shares.split(",")
            progress.advance(1, "adding noise")
            made = release(
                tree,
                counts,
                level_shares=shares,
                max_count=args.max_count,
                nonnegative=args.nonnegative,
                integer=args.integer,
                **options,
            )
            progress.advance(1, "computing errors")
            table = str(made.plan)
            progress.advance(1)
        if suffix == ".csv":
            _write_csv(made, args.output, args.confidence)
        else:
            made.save(args.output)
    except ImportError as error:
        raise ValueError(str(error)) from None
    print(f"{args.output}: {tree.n:,} nodes, {tree.n_leaves:,} leaves\n\n{table}\n\n{made.ledger}")
    if args.delta is not None:
        epsilon = float(made.ledger.epsilon(args.delta))
        print(f"\nImplies epsilon = {epsilon:.6g} with delta = {args.delta}.")
    return 0


def _may_write(path: Path, force: bool) -> bool:
    """Whether the output may be written; asks where somebody can answer."""
    if force or not path.exists():
        return True
    if not sys.stdin.isatty():
        raise ValueError(f"{path} exists already; --force replaces it.")
    if input(f"{path} exists already. Replace it? [y/N] ").strip().lower() in ("y", "yes"):
        return True
    print("Nothing was released.")
    return False


# --------------------------------------------------------------------------- input


def _tree_and_counts(args: argparse.Namespace, levels: list[str]) -> tuple[Any, np.ndarray]:
    """The public tree, and counts in the order of its leaves."""
    from gmtree.tree import Tree

    if args.tree is None:
        totals = _add_up(args.file, levels, args.count, None, False)
        # In an order that does not depend on that of the rows.
        paths = sorted(totals)
        print(
            "Warning: the tree is made of the leaves that occur in "
            f"{args.file.name}, and is published. If that depends on anyone's record, give the "
            "full list of leaves with --tree.",
            file=sys.stderr,
        )
    else:
        paths = list(dict.fromkeys(path for path, _ in _rows(args.tree, levels, None)))
        if not paths:
            raise ValueError(f"{args.tree} has no rows.")
        totals = _add_up(
            args.file, levels, args.count, dict.fromkeys(paths, 0), args.ignore_unknown
        )
    if not paths:
        raise ValueError(f"{args.file} has no rows.")
    columns = dict(zip(levels, zip(*paths, strict=True), strict=True))
    tree = Tree.from_levels(columns, levels=levels)
    # The leaf of row j is node n - rows + j.
    row = tree.leaves - (tree.n - len(paths))
    # Python's whole numbers have no bound; the release has.
    return tree, np.array([totals[path] for path in paths], dtype=object)[row]


def _add_up(
    path: Path,
    levels: list[str],
    count: str | None,
    known: dict[Path_, int] | None,
    ignore_unknown: bool,
) -> dict[Path_, int]:
    """Counts by leaf; of the leaves in `known` if that is given."""
    totals: dict[Path_, int] = {} if known is None else known
    for k, (leaf, number) in enumerate(_rows(path, levels, count), start=1):
        if known is not None and leaf not in known:
            if ignore_unknown:
                continue
            raise ValueError(
                f"Row {k} of {path.name} has a leaf that --tree does not list; "
                "--ignore-unknown leaves such rows out."
            )
        totals[leaf] = totals.get(leaf, 0) + number
    return totals


def _rows(path: Path, levels: list[str], count: str | None) -> Iterator[tuple[Path_, int]]:
    """Leaf and count of each row. No message tells what is in a row."""
    wanted = levels if count is None else [*levels, count]
    read = {".csv": _csv_rows, ".parquet": _parquet_rows}.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"FILE must end in .csv or .parquet, not {path.name!r}.")
    for k, row in enumerate(read(path, wanted), start=1):
        leaf = tuple(row[: len(levels)])
        if not all(leaf):
            raise ValueError(f"Row {k} of {path.name} lacks the label of a level.")
        try:
            yield leaf, 1 if count is None else int(row[-1])
        except ValueError:
            raise ValueError(
                f"Row {k} of {path.name} has no whole number in column {count!r}."
            ) from None


def _csv_rows(path: Path, wanted: list[str]) -> Iterator[list[str]]:
    with (
        path.open("rb") as raw,
        Progress(path.stat().st_size, f"reading {path.name}") as progress,
    ):
        reader = csv.reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))
        place = _places(path, next(reader, []), wanted)
        for k, row in enumerate(reader, start=1):
            if not row:
                continue
            if len(row) <= max(place):
                raise ValueError(f"Row {k} of {path.name} has too few columns.")
            yield [row[j] for j in place]
            if k % _ROWS_PER_STEP == 0:
                progress.advance(raw.tell() - progress.done)


def _parquet_rows(path: Path, wanted: list[str]) -> Iterator[list[str]]:
    from gmtree.privacy._storage import need_pyarrow

    pa, parquet = need_pyarrow()
    try:
        file = parquet.ParquetFile(path)
    except pa.ArrowException as error:
        raise ValueError(f"{path.name} is no Parquet file ({error}).") from None
    with file, Progress(file.metadata.num_rows, f"reading {path.name}") as progress:
        _places(path, file.schema_arrow.names, wanted)
        for batch in file.iter_batches(_ROWS_PER_STEP, columns=wanted):
            table = [batch.column(name).to_pylist() for name in wanted]
            for row in zip(*table, strict=True):
                yield ["" if x is None else str(x) for x in row]
            progress.advance(batch.num_rows)


def _places(path: Path, names: list[str], wanted: list[str]) -> list[int]:
    for name in wanted:
        if names.count(name) != 1:
            found = "twice" if name in names else f"not among {', '.join(map(repr, names))}"
            raise ValueError(f"Column {name!r} of {path.name} must be there once; it is {found}.")
    return [names.index(name) for name in wanted]


# --------------------------------------------------------------------------- output


def _write_csv(made: Any, path: Path, level: float) -> None:
    from gmtree.privacy._storage import replacing
    from gmtree.privacy._table import columns

    table = columns(made, level)
    missing = ~made.measured
    with replacing(path) as stream, Progress(made.tree.n, f"writing {path.name}") as progress:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(table)
        for start in range(0, made.tree.n, _ROWS_PER_STEP):
            part = slice(start, start + _ROWS_PER_STEP)
            listed = {name: column[part].tolist() for name, column in table.items()}
            for k in np.flatnonzero(missing[part]).tolist():
                listed["noisy"][k] = None
            writer.writerows(zip(*listed.values(), strict=True))
            progress.advance(_ROWS_PER_STEP)
        text.flush()
        text.detach()
