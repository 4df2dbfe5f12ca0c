"""``gmtree release``: private counts from a table."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gmtree._progress import Progress
from gmtree._rows import ROWS_PER_STEP, Leaf, rows

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
        paths = list(dict.fromkeys(path for path, _ in rows(args.tree, levels, None)))
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
    known: dict[Leaf, int] | None,
    ignore_unknown: bool,
) -> dict[Leaf, int]:
    """Counts by leaf; of the leaves in `known` if that is given."""
    totals: dict[Leaf, int] = {} if known is None else known
    for k, (leaf, number) in enumerate(rows(path, levels, count), start=1):
        if known is not None and leaf not in known:
            if ignore_unknown:
                continue
            raise ValueError(
                f"Row {k} of {path.name} has a leaf that --tree does not list; "
                "--ignore-unknown leaves such rows out."
            )
        totals[leaf] = totals.get(leaf, 0) + number
    return totals


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
        for start in range(0, made.tree.n, ROWS_PER_STEP):
            part = slice(start, start + ROWS_PER_STEP)
            listed = {name: column[part].tolist() for name, column in table.items()}
            for k in np.flatnonzero(missing[part]).tolist():
                listed["noisy"][k] = None
            writer.writerows(zip(*listed.values(), strict=True))
            progress.advance(ROWS_PER_STEP)
        text.flush()
        text.detach()
