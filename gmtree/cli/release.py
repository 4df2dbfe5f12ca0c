"""``gmtree release``: private counts from a table."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree._files import write_csv
from gmtree._progress import Progress
from gmtree._text import say, short
from gmtree.cli import files, resume
from gmtree.cli.counts import MOST_RECORDS, Tables, add_options, kept_share, tree_and_counts
from gmtree.cli.table_files import level_names

if TYPE_CHECKING:
    from gmtree.privacy.accounting.allocation import Allocation
    from gmtree.privacy.accounting.budget import Budget
    from gmtree.privacy.accounting.workload import Workload
    from gmtree.privacy.planning.plan import Plan
    from gmtree.privacy.publishing.people import Bounds
    from gmtree.privacy.publishing.publish import Published
    from gmtree.tree import Tree

_DESCRIPTION = """\
Publish the counts of a table with differential privacy.

FILE (.csv, .csv.gz or .parquet) has one column per level, coarse to fine, and either a row for each
leaf with its count, or a row for each record. OUT (.csv, .csv.gz or .parquet) gets a row for every
node. OUT may also be an .npz file, which only gmtree reads. In Python, gmtree.Release.load reads
.parquet and .npz files, for example to repeat the post-processing without new noise. FILE and OUT
may be '-' for CSV from standard input or to standard output.

The values of the children of a node add up to its own value. --nonnegative and --integer make all
values non-negative and whole. The ledger, which states the privacy loss and its assumptions, is
printed. The ledger of OUT.csv is also written to OUT.csv.ledger.json.

With --axes A,B each leaf has a table: its records are counted by the columns A and B. The public
list --cells has the values of these columns. OUT then has columns for each cell of each of the
--queries. Their names end with the labels of the cell, such as value_f_old.

Labels are written as they are: a spreadsheet may run a label that begins with =, +, - or @ as a
formula.

--dry-run reads the files and prints the tree, the expected errors and the ledger. It draws, spends
and writes nothing, except that --estimate-kept spends its own budget.

With --account, the noisy counts of a release are stored beside the account until OUT is written. If
the run is interrupted after the charge, write OUT with

    gmtree release --resume --account FILE -o OUT

The list of leaves is published, so it must not depend on anyone's record. Give it with --tree. If
the leaves that occur in FILE are public knowledge, say so with --leaves-are-public. The ledger then
states that the guarantee does not cover this list.
"""
_WHICH_LEAVES = (
    "Give the public list of leaves with --tree FILE. Without it the tree would consist of the "
    "leaves that occur in the data, and would reveal that someone has a record there. If that is "
    "public knowledge, say so with --leaves-are-public."
)


def add_parser(subparsers: Any) -> None:
    """Add the subcommand ``release``."""
    p = subparsers.add_parser(
        "release",
        help="publish counts with differential privacy",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "file", metavar="FILE", type=Path, nargs="?", help="counts; '-' for standard input"
    )
    p.add_argument("--levels", metavar="A,B,C", help="columns of labels, coarse to fine")
    p.add_argument(
        "--count",
        metavar="COLUMN",
        help="column of counts, which are added up by leaf; a negative sum counts as 0 (default: "
        "each row is one record)",
    )
    budget = p.add_mutually_exclusive_group()
    budget.add_argument("--epsilon", help="budget of pure differential privacy, such as 0.1 or 1/3")
    budget.add_argument("--rho", help="budget of zero-concentrated differential privacy")
    p.add_argument(
        "--delta",
        help="a number between 0 and 1; with --epsilon: use the largest rho that satisfies "
        "(epsilon, delta)-differential privacy; with --rho: also print the epsilon for this delta",
    )
    p.add_argument(
        "--shares",
        metavar="S",
        default="equal",
        help="how to split the budget among the levels: 'equal', 'nodes' (least error of all "
        "nodes), 'leaves' (least error of the leaves), or numbers such as 1,2,4 from the root "
        "down (default: equal)",
    )
    add_options(p)
    _add_people(p)
    _add_leaves(p)
    _add_output(p)
    p.set_defaults(run=run)


def _add_people(p: argparse.ArgumentParser) -> None:
    """Add the options of the privacy unit and of the account."""
    p.add_argument(
        "--neighbors", choices=("add_remove", "change_one"), default="add_remove",
        help="how neighbouring data sets differ: one person's records are added or removed, or "
        "moved to another leaf (default: add_remove)",
    )  # fmt: skip
    p.add_argument(
        "--max-contributions",
        metavar="K",
        type=int,
        help="privacy unit: largest number of records of one person (default: 1)",
    )
    p.add_argument(
        "--max-per-leaf",
        metavar="K",
        type=int,
        help="largest number of records of one person in one leaf",
    )
    p.add_argument(
        "--max-leaves", metavar="K", type=int,
        help="with --person: largest number of leaves in which records of one person count",
    )  # fmt: skip
    p.add_argument(
        "--person", metavar="COLUMN",
        help="column that identifies the person of each record; a person's records beyond "
        "--max-contributions, --max-per-leaf and --max-leaves are left out, and stated errors do "
        "not include the records left out",
    )  # fmt: skip
    p.add_argument(
        "--estimate-kept", metavar="B",
        help="with --person and --dry-run: estimate privately which share of the records each "
        f"--max-contributions K up to {MOST_RECORDS} would keep; the estimate spends this budget, "
        "in epsilon or rho like the release",
    )  # fmt: skip
    p.add_argument(
        "--account", metavar="FILE", type=Path,
        help="privacy account to charge before noise is drawn; a release that exceeds its budget "
        "is refused (see gmtree account)",
    )  # fmt: skip
    p.add_argument(
        "--purpose", default="", help="purpose of the release, for its entry in the account"
    )
    resume.add_option(p)


def _add_leaves(p: argparse.ArgumentParser) -> None:
    """Add the options of public leaves and counts."""
    p.add_argument(
        "--max-count", metavar="N", type=int,
        help="public bound at which the counts of leaves are cut off before noise is added "
        "(default: the largest possible bound, which the ledger states)",
    )  # fmt: skip
    p.add_argument(
        "--invariants", metavar="A,B", default="",
        help="levels whose counts are published exactly, without noise; the guarantee does not "
        "cover them ('total' is the root)",
    )  # fmt: skip
    leaves = p.add_mutually_exclusive_group()
    leaves.add_argument(
        "--tree",
        metavar="FILE",
        type=Path,
        help="public list of all leaves: a table with the columns of --levels",
    )
    leaves.add_argument(
        "--leaves-are-public",
        action="store_true",
        help="use the leaves that occur in FILE; the guarantee does not cover this list",
    )
    p.add_argument(
        "--ignore-unknown", action="store_true",
        help="skip rows with a leaf that is not in --tree, or a value that is not in --cells, "
        "without reporting how many; a row with an empty label is still refused, because it could "
        "be a total",
    )  # fmt: skip


def _add_output(p: argparse.ArgumentParser) -> None:
    """Add the options of the published values and of the file."""
    p.add_argument(
        "--nonnegative", action="store_true", help="require values that are not negative"
    )
    p.add_argument("--integer", action="store_true", help="round the values to whole numbers")
    for name in ("lower", "upper"):
        p.add_argument(
            f"--{name}", metavar="B", type=float,
            help=f"{name} bound of the values of all leaves, which is public knowledge and must "
            "not depend on the data",
        )  # fmt: skip
    p.add_argument(
        "--confidence",
        metavar="P",
        type=float,
        default=0.95,
        help="confidence of the intervals in a CSV file (default: 0.95)",
    )
    p.add_argument(
        "--bootstrap", metavar="RUNS", type=int, nargs="?", const=200,
        help="also print the approximate bias and error of the column 'value' by level, from RUNS "
        "further draws that cost no privacy (default: 200)",
    )  # fmt: skip
    p.add_argument(
        "-o", "--output", metavar="OUT", type=Path,
        help="file to write; required unless --dry-run is given",
    )  # fmt: skip
    p.add_argument("--force", action="store_true", help="replace OUT without asking")
    p.add_argument(
        "--dry-run", action="store_true",
        help="print the expected errors and the ledger, without drawing, spending or writing "
        "anything",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Read, release, write, and print the ledger; return the exit status."""
    from gmtree.privacy.accounting.ledger_text import query_name
    from gmtree.privacy.publishing.bootstrap import bootstrap
    from gmtree.privacy.publishing.measuring import forget_locals

    outer = sys.exc_info()[1]
    ending = _check_options(args)
    try:
        if args.dry_run:
            say(_foresee(args))
            return 0
        if not may_write(args.output, args.force):
            return 1
        made = _release(args) if args.resume is None else resume.load(args)
        _write(made, args, ending)
    except BaseException as error:
        forget_locals(error, outer)
        resume.advise(args, error)
        raise
    # If the table goes to standard output, the ledger goes to standard error.
    where = sys.stderr if args.output == files.STANDARD else sys.stdout
    say(_describe(made.tree, made.plan, args), where)
    if args.bootstrap is not None:
        for query, found in bootstrap(made, args.bootstrap, None).items():
            title = "" if query is None else f"Query {query_name(query)}. "
            say(f"\n{title}{found}", where)
    return 0


def _foresee(args: argparse.Namespace) -> str:
    """Describe the release that these options ask for; raise ValueError if it would be refused."""
    from gmtree.privacy import Account
    from gmtree.privacy.planning.plan import plan_for

    tree, _, budget, workload = _prepare(args)
    allocation = _allocation(args, tree, budget, workload)
    if args.account is not None:
        Account(path=args.account).check(tree, allocation)
    plan = replace(plan_for(tree, budget, workload), ledger=allocation.ledger)
    described = _describe(tree, plan, args)
    if args.estimate_kept is None:
        return f"{described}\n\nNothing was drawn, spent or written."
    found = kept_share(args)
    return f"{described}\n\n{found}\n\nNothing else was drawn or spent, and no file was written."


def _describe(tree: Tree, plan: Plan, args: argparse.Namespace) -> str:
    """Describe the release, its errors by level and its ledger."""
    from gmtree.frames.doubts import doubts_about_levels
    from gmtree.privacy.accounting.ledger_text import records, unknown

    counted = "each row is one record"
    if args.count is not None:
        counted = f"column {args.count!r} is added up by leaf"
    if args.person is not None:
        most = plan.ledger.max_contributions
        counted = f"at most {records(most)} per person (column {args.person!r})"
    if args.axes is not None:
        counted += f", in tables by {args.axes}"
    if args.resume is not None:
        counted = f"entry {args.resume} of {args.account}"
    if args.ignore_unknown:
        counted += f", without {unknown(plan.ledger).lower()}"
    parts = [
        f"{args.output or 'Dry run'}: {tree.n:,} nodes, {tree.n_leaves:,} leaves; {counted}",
        plan,
        plan.ledger,
    ]
    if args.nonnegative:
        parts.append(
            "Errors and intervals belong to the column 'estimate'; the intervals are cut off at 0. "
            "The column 'value', which is never negative, has different errors: --bootstrap "
            "estimates them."
        )
    elif plan.ledger.public_knowledge:
        parts.append(
            "Errors and intervals belong to the column 'estimate'. The column 'value', which keeps "
            "the public bounds, has different errors: --bootstrap estimates them."
        )
    if args.delta is not None and args.rho is not None:
        epsilon = short(Fraction(plan.ledger.epsilon(args.delta)), up=True)
        parts.append(f"Implies epsilon = {epsilon} with delta = {args.delta}.")
    if args.resume is None:
        parts += doubts_about_levels(tree)
    return "\n\n".join(map(str, parts))


def _check_options(args: argparse.Namespace) -> str:
    """Check the options before any data are read, and return the file type of OUT."""
    from gmtree.cli.account import open_account
    from gmtree.privacy.accounting.conversion import proper_delta
    from gmtree.privacy.files.storage import need_pyarrow
    from gmtree.privacy.publishing.bootstrap import MOST_RUNS
    from gmtree.privacy.publishing.intervals import proper_confidence

    if args.resume is None:
        resume.check_needed(args)
    ending = ""
    if args.output is not None:
        ending = files.kind("OUT", args.output, (*files.TABLES, ".npz"))
        files.check_output("OUT", args.output)
    elif not args.dry_run:
        raise ValueError("-o OUT is required unless --dry-run is given.")
    if ending == ".parquet":
        need_pyarrow()
    proper_confidence(args.confidence)
    if args.resume is not None:
        resume.check(args)
        return ending
    if args.file == args.tree == files.STANDARD:
        raise ValueError("FILE and --tree must not both be standard input.")
    level_names(args.levels)
    if args.bootstrap is not None and not 1 <= args.bootstrap <= MOST_RUNS:
        raise ValueError(f"--bootstrap must be from 1 to {MOST_RUNS:,}, not {args.bootstrap}.")
    if args.delta is not None:
        proper_delta(args.delta)
    if args.shares not in ("equal", "nodes", "leaves") and not re.match(r"[\d.]", args.shares):
        raise ValueError(
            "--shares must be 'equal', 'nodes', 'leaves' or numbers such as 1,2,4, "
            f"not {args.shares!r}."
        )
    if args.purpose and args.account is None:
        raise ValueError("--purpose needs --account.")
    if args.max_leaves is not None and args.person is None:
        raise ValueError("--max-leaves needs --person, the column by which it is enforced.")
    if args.estimate_kept is not None and (args.person is None or not args.dry_run):
        raise ValueError("--estimate-kept needs --person and --dry-run.")
    if args.estimate_kept is not None and files.STANDARD in (args.file, args.tree, args.cells):
        raise ValueError("No file may be '-' with --estimate-kept, because it is read twice.")
    if args.person is not None and args.count is not None:
        raise ValueError("--person must not be given with --count: each row is one record.")
    _bounds(args)
    if args.account is not None:
        open_account(args.account)
    if args.tree is None and not args.leaves_are_public:
        raise ValueError(_WHICH_LEAVES)
    if args.ignore_unknown and args.tree is None:
        raise ValueError("--ignore-unknown needs --tree: without it no leaf is unknown.")
    if args.ignore_unknown and args.neighbors == "change_one":
        raise ValueError(
            "--ignore-unknown must not be used with --neighbors change_one: the number of records "
            "is then public, and would reveal almost exactly how many were left out. Add a leaf "
            "for them to --tree."
        )
    return ending


def _release(args: argparse.Namespace) -> Published[Any]:
    """The release that the options ask for."""
    from gmtree.privacy import Account, Release, TableRelease
    from gmtree.privacy.publishing.publish import publish

    tree, counts, budget, workload = _prepare(args)
    account = None
    if args.account is not None:
        account = Account(path=args.account, purpose=args.purpose)
        resume.refuse_again(args, tree, _allocation(args, tree, budget, workload).ledger)
    with Progress(1, "adding noise") as progress:
        made = publish(
            Release if args.axes is None else TableRelease,
            tree,
            counts,
            budget,
            workload,
            account=account,
            nonnegative=args.nonnegative,
            integer=args.integer,
            lower=args.lower,
            upper=args.upper,
        )
        progress.advance(1)
    return made


def _allocation(
    args: argparse.Namespace, tree: Tree, budget: Budget, workload: Workload
) -> Allocation:
    """Scales and ledger of the release."""
    from gmtree.privacy.accounting.allocation import divide
    from gmtree.privacy.publishing.public_bounds import read_bounds

    allocation = divide(tree, budget, workload)
    return read_bounds(tree, allocation, args.nonnegative, args.lower, args.upper)[1]


def _prepare(args: argparse.Namespace) -> tuple[Tree, np.ndarray, Budget, Workload]:
    """The tree, the counts of its leaves, the budget and the queries of each node."""
    from gmtree.privacy import LEAVES_FROM_RECORDS, optimal_shares
    from gmtree.privacy.accounting.budget import Budget
    from gmtree.privacy.accounting.workload import workload_of

    bounds = _bounds(args)
    terms: dict[str, Any] = {
        "epsilon": args.epsilon,
        "rho": args.rho,
        "delta": None if args.rho is not None else args.delta,
        "neighbors": args.neighbors,
        "max_contributions": bounds.records,
        "max_per_leaf": args.max_per_leaf,
        "max_count": args.max_count,
        "invariants": [name.strip() for name in args.invariants.split(",") if name.strip()],
        "disclosures": [LEAVES_FROM_RECORDS] if args.tree is None else [],
    }
    tables = Tables.of(args)
    what: dict[str, Any] = {"axes": None, "queries": None}
    if tables is not None:
        what = {"axes": tables.axes, "queries": tables.queries}
        terms["structural_zeros"] = tables.zeros
    shares: Any = args.shares.split(",") if re.match(r"[\d.]", args.shares) else None
    if shares is not None and tables is not None:
        shares = dict.fromkeys(tables.queries, shares)
    make = partial(Budget.of, **terms, person=args.person, ignore_unknown=args.ignore_unknown)
    budget = make(shares=shares)
    tree, counts = tree_and_counts(args, level_names(args.levels), tables, bounds)
    if args.shares in ("nodes", "leaves"):
        with Progress(1, "choosing shares") as progress:
            budget = make(shares=optimal_shares(tree, objective=args.shares, **what, **terms))
            progress.advance(1)
    return tree, counts, budget, workload_of(budget, **what)


def _bounds(args: argparse.Namespace) -> Bounds:
    """Return the bounds on the records of one person."""
    from gmtree.privacy.publishing.people import bounds_of

    return bounds_of(
        args.person is not None,
        args.max_contributions,
        args.max_leaves,
        args.max_per_leaf,
        args.neighbors,
    )


def may_write(path: Path, force: bool) -> bool:
    """Whether the output may be written; ask the user if there is a terminal."""
    if force or path == files.STANDARD or not path.exists():
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise ValueError(f"{path} exists already; --force replaces it.")
    print(f"{path} exists already. Replace it? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("Nothing was written.")
    return False


# --------------------------------------------------------------------------- output


def _write(made: Published[Any], args: argparse.Namespace, ending: str) -> None:
    """Write a release to OUT, and then remove the copy that is stored beside its account."""
    from gmtree.privacy import Account
    from gmtree.privacy.files.storage import ledger_path, save_ledger

    if ending in (".csv", ".csv.gz"):
        _write_csv(made, args.output, args.confidence)
        if args.output != files.STANDARD:
            save_ledger(made, ledger_path(args.output), args.output)
    else:
        made.save(args.output)
    if args.account is not None:
        Account(path=args.account).finish(made)


def _write_csv(made: Published[Any], path: Path, confidence: float) -> None:
    from gmtree.privacy.accounting.ledger_text import left_out
    from gmtree.privacy.publishing.columns import columns

    table = columns(made, confidence)
    if note := left_out(made.ledger):
        table["note"] = np.full(made.tree.n, note, object)
    with files.writing(path) as stream, Progress(made.tree.n, f"writing {path.name}") as progress:
        write_csv(stream, table, progress.advance)
