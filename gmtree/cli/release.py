"""``gmtree release``: private counts from a table."""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gmtree._progress import Progress
from gmtree._text import short
from gmtree.cli import files
from gmtree.cli.rows import ROWS_PER_STEP, Leaf, Rows, level_names

_DESCRIPTION = """\
Publish the counts of a table with differential privacy.

FILE (.csv, .csv.gz or .parquet) has one column per level, coarse to fine, and a row for each leaf
with its count, or for each record. OUT gets a row for every node (.csv, .csv.gz, .parquet) or all
that is needed to repeat the post-processing (.npz, .parquet; see gmtree.Release.load). Either may
be '-' for CSV from standard input or to standard output. Values are whole numbers, not negative,
and add up, unless you ask for others. The ledger of OUT.csv is written to OUT.csv.ledger.json;
beside standard output there is none, only what is printed.

--dry-run reads everything, tells the tree, the errors to expect and the ledger, and stops: nothing
is drawn, spent or written.

The list of leaves is published, so that it must not depend on anyone's record. Give it with
--tree. If the leaves that occur in FILE are public knowledge, say so with --leaves-are-public;
the ledger then names them as outside the guarantee.
"""
_WHICH_LEAVES = (
    "Give the public list of leaves with --tree FILE. Without it the tree would consist of the "
    "leaves that occur in the data, which publishes exactly that someone has a record there; if "
    "that is public knowledge, say so with --leaves-are-public."
)


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``release``."""
    p = subparsers.add_parser(
        "release",
        help="publish counts with differential privacy",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("file", metavar="FILE", type=Path, help="counts; '-' for standard input")
    p.add_argument("--levels", metavar="A,B,C", required=True, help="columns, coarse to fine")
    p.add_argument(
        "--count",
        metavar="COLUMN",
        help="column of counts, which are added up by leaf; negative sums become 0 (default: each "
        "row is a record and counts one)",
    )
    budget = p.add_mutually_exclusive_group(required=True)
    budget.add_argument("--epsilon", help="budget of pure differential privacy, such as 0.1 or 1/3")
    budget.add_argument("--rho", help="budget of zero-concentrated differential privacy")
    p.add_argument(
        "--delta",
        help="with --epsilon: choose rho so that both hold (above 0, below 1); with --rho: also "
        "print the epsilon for this delta",
    )
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
        "--max-contributions", metavar="K", type=int, help="most records of one person (default: 1)"
    )
    p.add_argument(
        "--max-per-leaf", metavar="K", type=int, help="most records of one person in one leaf"
    )
    p.add_argument(
        "--max-leaves", metavar="K", type=int,
        help="with --person: most leaves with records of one person",
    )  # fmt: skip
    p.add_argument(
        "--person", metavar="COLUMN",
        help="whose record a row is: these bounds are then enforced, by leaving out records",
    )  # fmt: skip
    p.add_argument(
        "--account", metavar="FILE", type=Path,
        help="charge this privacy account first, and refuse what exceeds it (see gmtree account)",
    )  # fmt: skip
    p.add_argument(
        "--max-count", metavar="N", type=int, help="public bound at which counts are cut off"
    )
    p.add_argument(
        "--invariants", metavar="A,B", default="",
        help="levels published exactly ('total' is the root), outside the guarantee",
    )  # fmt: skip
    leaves = p.add_mutually_exclusive_group()
    leaves.add_argument("--tree", metavar="FILE", type=Path, help="public list of all leaves")
    leaves.add_argument(
        "--leaves-are-public",
        action="store_true",
        help="take the leaves that occur in FILE, which is then outside the guarantee",
    )
    p.add_argument(
        "--ignore-unknown", action="store_true",
        help="leave out rows whose leaf is not in --tree; nothing tells how many",
    )  # fmt: skip
    p.add_argument("--no-nonnegative", dest="nonnegative", action="store_false")
    p.add_argument("--no-integer", dest="integer", action="store_false")
    p.add_argument(
        "--confidence", metavar="P", type=float, default=0.95, help="of the intervals in a .csv"
    )
    p.add_argument("-o", "--output", metavar="OUT", type=Path, required=True)
    p.add_argument("--force", action="store_true", help="replace OUT without asking")
    p.add_argument(
        "--dry-run", action="store_true",
        help="tell what would be released with which errors; draw, spend and write nothing",
    )  # fmt: skip
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, release, write, and tell what was spent; the exit status."""
    from gmtree.privacy.measuring import forget_locals
    from gmtree.privacy.storage import save_ledger

    outer = sys.exc_info()[1]
    ending = _check_options(args)
    try:
        if args.dry_run:
            print(_foresee(args))
            return 0
        if not may_write(args.output, args.force):
            return 1
        made = _release(args)
        if ending in (".csv", ".csv.gz"):
            _write_csv(made, args.output, args.confidence)
            if args.output != files.STANDARD:
                save_ledger(made, ledger_path(args.output), args.output)
        else:
            made.save(args.output)
    except ImportError as error:
        raise ValueError(str(error)) from None
    except BaseException as error:
        forget_locals(error, outer)
        raise
    # Beside a table on standard output, people read standard error.
    where = sys.stderr if args.output == files.STANDARD else sys.stdout
    print(_describe(made.tree, made.plan, args), file=where)
    return 0


def ledger_path(table: Path) -> Path:
    """Where the ledger of a CSV file lies: beside it."""
    return table.with_name(f"{table.name}.ledger.json")


def _foresee(args: argparse.Namespace) -> str:
    """What a release with these options would be, in words; a ValueError if it would be refused."""
    from gmtree.privacy import Account, allocate, plan

    tree, _, options = _prepare(args)
    if args.account is not None:
        Account(path=args.account).check(tree, allocate(tree, **options))
    told = _describe(tree, plan(tree, **options), args)
    return f"{told}\n\nNothing was drawn, spent or written."


def _describe(tree: Any, plan: Any, args: argparse.Namespace) -> str:
    """What is released, its errors by level and its ledger, in words."""
    from gmtree.frames.leaves import turned_round

    counted = "each row as one record" if args.count is None else f"column {args.count!r} by leaf"
    but = ", without rows whose leaf --tree does not list" if args.ignore_unknown else ""
    parts = [
        f"{args.output}: {tree.n:,} nodes, {tree.n_leaves:,} leaves; counts {counted}{but}",
        plan,
        plan.ledger,
    ]
    if args.nonnegative:
        needed = "" if args.output.suffix == ".npz" else " from OUT.npz"
        parts.append(
            "Errors are those of the column 'estimate'; its intervals are cut off at 0. Of the "
            "column 'value', which is never negative, gmtree.Release.bootstrap estimates them"
            f"{needed}."
        )
    if args.delta is not None and args.rho is not None:
        epsilon = short(Fraction(plan.ledger.epsilon(args.delta)), up=True)
        parts.append(f"Implies epsilon = {epsilon} with delta = {args.delta}.")
    if doubt := turned_round(tree):
        parts.append(doubt)
    return "\n\n".join(map(str, parts))


def _check_options(args: argparse.Namespace) -> str:
    """Refuse what can be seen to be wrong before any data are read; the kind of OUT."""
    from gmtree.cli.account import open_account
    from gmtree.privacy.conversion import proper_delta
    from gmtree.privacy.intervals import confidence
    from gmtree.privacy.people import bounds_of
    from gmtree.privacy.storage import need_pyarrow

    ending = files.kind("OUT", args.output, (*files.TABLES, ".npz"))
    files.check_output("OUT", args.output)
    if args.file == args.tree == files.STANDARD:
        raise ValueError("FILE and --tree must not both be standard input.")
    level_names(args.levels)
    if ending == ".parquet":
        try:
            need_pyarrow()
        except ImportError as error:
            raise ValueError(str(error)) from None
    confidence("confidence", args.confidence)
    if args.delta is not None:
        proper_delta(args.delta)
    if args.shares not in ("equal", "nodes", "leaves") and not re.match(r"[\d.]", args.shares):
        raise ValueError(
            "--shares must be 'equal', 'nodes', 'leaves' or numbers such as 1,2,4, "
            f"not {args.shares!r}."
        )
    if args.max_leaves is not None and args.person is None:
        raise ValueError("--max-leaves goes with --person: it can only be enforced.")
    if args.person is not None and args.count is not None:
        raise ValueError("--person goes without --count: a row must be one record.")
    bounds_of(
        args.person is not None,
        args.max_contributions,
        args.max_leaves,
        args.max_per_leaf,
        args.neighbors,
    )
    if args.account is not None:
        open_account(args.account)
    if args.tree is None and not args.leaves_are_public:
        raise ValueError(_WHICH_LEAVES)
    if args.ignore_unknown and args.tree is None:
        raise ValueError("--ignore-unknown goes with --tree: without it no leaf is unknown.")
    if args.ignore_unknown and args.neighbors == "change_one":
        raise ValueError(
            "--ignore-unknown must not be used with --neighbors change_one: there the number of "
            "records is public, and leaving some out would publish almost exactly how many "
            "belong to leaves that --tree does not list. List a leaf for them in --tree."
        )
    return ending


def _release(args: argparse.Namespace) -> Any:
    """The release that the options ask for."""
    from gmtree.privacy import Account, release

    tree, counts, options = _prepare(args)
    with Progress(1, "adding noise") as progress:
        made = release(
            tree,
            counts,
            account=None if args.account is None else Account(path=args.account),
            nonnegative=args.nonnegative,
            integer=args.integer,
            **options,
        )
        progress.advance(1)
    return made


def _prepare(args: argparse.Namespace) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """The tree, the counts of its leaves, and what :func:`gmtree.plan` needs to know besides."""
    from gmtree.privacy import LEAVES_FROM_RECORDS, optimal_shares
    from gmtree.privacy.budget import Enforced
    from gmtree.privacy.people import bounds_of

    is_enforced = args.person is not None
    bounds = bounds_of(
        is_enforced, args.max_contributions, args.max_leaves, args.max_per_leaf, args.neighbors
    )
    tree, counts = _tree_and_counts(args, level_names(args.levels), bounds)
    options = {
        "epsilon": args.epsilon,
        "rho": args.rho,
        "delta": None if args.rho is not None else args.delta,
        "neighbors": args.neighbors,
        "max_contributions": Enforced(bounds.records) if is_enforced else bounds.records,
        "invariants": [name.strip() for name in args.invariants.split(",") if name.strip()],
    }
    if args.shares in ("nodes", "leaves"):
        with Progress(1, "choosing shares") as progress:
            shares: Any = optimal_shares(tree, objective=args.shares, **options)
            progress.advance(1)
    else:
        shares = None if args.shares == "equal" else args.shares.split(",")
    options |= {
        "level_shares": shares,
        "max_count": args.max_count,
        "max_per_leaf": None if args.max_per_leaf is None else bounds.per_leaf,
        "outside": [LEAVES_FROM_RECORDS] if args.tree is None else [],
    }
    return tree, counts, options


def may_write(path: Path, force: bool) -> bool:
    """Whether the output may be written; asks the user if there is a terminal to ask on."""
    if force or path == files.STANDARD or not path.exists():
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise ValueError(f"{path} exists already; --force replaces it.")
    print(f"{path} exists already. Replace it? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("Nothing was written.")
    return False


# --------------------------------------------------------------------------- input


def _tree_and_counts(
    args: argparse.Namespace, levels: list[str], bounds: Any
) -> tuple[Any, np.ndarray]:
    """The tree, and counts in the order of its leaves."""
    from gmtree.tree import Tree

    known = None
    if args.tree is not None:
        known = dict.fromkeys((path for path, _ in Rows(args.tree, levels, None)), 0)
        if not known:
            raise ValueError(f"{files.shown(args.tree)} has no rows.")
    if args.person is None:
        totals = _add_up(args.file, levels, args.count, known, args.ignore_unknown)
    else:
        totals = _add_up_people(args, levels, known, bounds)
    # Leaves that occur come in an order that does not depend on that of the rows.
    paths = sorted(totals) if args.tree is None else list(totals)
    if not paths:
        raise ValueError(f"{files.shown(args.file)} has no rows.")
    columns = dict(zip(levels, zip(*paths, strict=True), strict=True))
    tree = Tree.from_levels(columns, levels=levels)
    # Leaves are in the order of the rows. Python's whole numbers have no bound; the release has.
    return tree, np.array([totals[path] for path in paths], dtype=object)


def _add_up_people(
    args: argparse.Namespace, levels: list[str], known: dict[Leaf, int] | None, bounds: Any
) -> dict[Leaf, int]:
    """Records by leaf, of which no more count of one person than `bounds` say."""
    from gmtree.privacy.people import hash_labels, kept_records

    if args.person in levels:
        raise ValueError(f"--person must not be one of --levels; {args.person!r} is.")
    read = Rows(args.file, [*levels, args.person], None)
    leaves: list[Leaf] = []
    people: dict[str, int] = {}
    whose: list[int] = []
    for (*path, person), _ in read:
        leaf = tuple(path)
        if known is not None and leaf not in known:
            if args.ignore_unknown:
                continue
            read.refuse_unknown()
        leaves.append(leaf)
        whose.append(people.setdefault(person, len(people)))
    totals = dict.fromkeys(sorted(set(leaves)), 0) if known is None else known
    number = {leaf: k for k, leaf in enumerate(totals)}
    place = np.array([number[leaf] for leaf in leaves], np.int64)
    key = hash_labels(np.array(list(people), dtype=object))
    stay = kept_records(place, np.array(whose, np.int64), key, bounds)
    counts = np.bincount(place[stay], minlength=len(totals)).tolist()
    return dict(zip(totals, counts, strict=True))


def _add_up(
    path: Path,
    levels: list[str],
    count: str | None,
    known: dict[Leaf, int] | None,
    ignore_unknown: bool,
) -> dict[Leaf, int]:
    """Counts by leaf; of the leaves in `known` if that is given."""
    totals: dict[Leaf, int] = {} if known is None else known
    read = Rows(path, levels, count)
    for leaf, number in read:
        if known is not None and leaf not in known:
            if ignore_unknown:
                continue
            read.refuse_unknown()
        totals[leaf] = totals.get(leaf, 0) + number
    return totals


# --------------------------------------------------------------------------- output


def _write_csv(made: Any, path: Path, level: float) -> None:
    from gmtree.privacy.columns import columns

    table = columns(made, level)
    missing = ~made.measured
    with files.writing(path) as stream, Progress(made.tree.n, f"writing {path.name}") as progress:
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
