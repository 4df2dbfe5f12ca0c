"""Describe a saved release, a ledger, a table or a Newick file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree._text import say, short
from gmtree.cli import files

if TYPE_CHECKING:
    from gmtree.tree import Tree

_NEWICK = (".nwk", ".nw", ".newick", ".tre", ".tree")
NEWICK = (*_NEWICK, *(f"{ending}.gz" for ending in _NEWICK))


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "info",
        help="describe a saved release, a ledger, or the tree in a table or Newick file",
        description=__doc__,
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="release (.npz, .parquet), its ledger (.ledger.json), table (.csv, .csv.gz, .parquet; "
        "'-' for standard input) or Newick (.nwk, .nw, .newick, .tre, .tree, also with .gz)",
    )
    parser.add_argument(
        "--levels",
        metavar="A,B,...",
        help="columns of labels in a table, coarse to fine: describe the tree that they form",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from gmtree.cli.table_files import column_names, level_names

    if args.file != files.STANDARD and not args.file.is_file():
        raise ValueError(f"FILE must be a file; there is no {str(args.file)!r}.")
    if args.file.name.lower().endswith(NEWICK):
        from gmtree.tree import Tree

        say(_describe_newick(Tree.from_newick(args.file)))
    elif args.file.name.lower().endswith(".json"):
        say(_describe_ledger(args.file))
    elif args.levels is not None:
        say(_describe_tree(_tree(args.file, level_names(args.levels))))
    elif _is_release(args.file):
        say(_describe_release(args.file))
    else:
        say(f"{files.shown(args.file)}: a table with the columns")
        for name in column_names(args.file):
            say(f"  {name}")
        say("To describe a tree, name its columns of labels with --levels, coarse to fine.")
    return 0


def _is_release(path: Path) -> bool:
    """Whether a file is a saved release rather than any table."""
    from gmtree.cli.table_files import column_names

    ending = files.kind("FILE", path, (".npz", *files.TABLES, ".ledger.json", *NEWICK))
    if ending == ".parquet":
        names = set(column_names(path))
        return "parent" in names and bool(names & {"noisy", "stored_noisy_0"})
    return ending == ".npz"


def _describe_release(path: Path) -> str:
    """Errors, ledger and origin of a saved release, of counts or of tables."""
    from gmtree.privacy.files.verifying import load_release

    made = load_release(path)
    parts = [repr(made), str(made.plan), str(made.ledger), _origin(made.provenance)]
    return "\n\n".join(parts).rstrip()


def _describe_ledger(path: Path) -> str:
    from gmtree.privacy.files.storage import read_ledger

    ledger, data = read_ledger(path)
    return f"{ledger}\n\n{_origin(data['provenance'])}".rstrip()


def _origin(provenance: dict[str, Any] | None) -> str:
    """Time, function, versions and account of a release, in words."""
    from gmtree.privacy.accounting.rational import stored_fraction

    if provenance is None:
        return ""
    versions = ", ".join(f"{name} {number}" for name, number in provenance["versions"].items())
    lines = [f"Made at {provenance['time']} by {provenance['function']} of {versions}"]
    lines.append(f"  tree {provenance.get('tree')}")
    if provenance["account"] is not None:
        drawn = provenance["account"]
        charged = short(stored_fraction(drawn.get("charged")), up=True)
        lines.append(
            f"  entry {drawn.get('entry')} of the account {drawn.get('file') or 'in memory'}: "
            f"{drawn.get('measure')} {charged}"
        )
    return "\n".join(lines)


def _describe_newick(tree: Tree) -> str:
    """Size, labels and branch lengths of a phylogeny, and an outline of its top."""
    lines = [repr(tree), ""]
    names = 0 if tree.labels is None else sum(x is not None for x in tree.labels)
    lines.append(f"  {names:,} of {tree.n:,} nodes have a name")
    if tree.edge_length is None:
        lines.append("  no branch lengths")
    else:
        lengths = np.delete(tree.edge_length, tree.root)
        given = lengths[np.isfinite(lengths)]
        lines.append(f"  {given.size:,} branches have a length, {given.sum():.6g} in all")
    return "\n".join([*lines, "", tree.outline(depth=4, children=4)])


def _tree(path: Path, levels: list[str]) -> Tree:
    from gmtree.cli.table_files import Rows
    from gmtree.tree import Tree

    rows = {tuple(row) for row in Rows(path, levels, None).texts()}
    if not rows:
        raise ValueError(f"{files.shown(path)} has no rows.")
    # A table of all nodes also has rows of sums, whose finer labels are empty.
    inner = {row[:k] + ("",) * (len(levels) - k) for row in rows for k in range(_depth(row))}
    leaves = [[label or None for label in row] for row in sorted(rows - inner)]
    columns = dict(zip(levels, zip(*leaves, strict=True), strict=True))
    return Tree.from_levels(columns, levels=levels, missing="stop")


def _depth(row: tuple[str, ...]) -> int:
    """Number of labels up to the last one that is not empty."""
    return max((k for k, label in enumerate(row, start=1) if label), default=0)


def _describe_tree(tree: Tree) -> str:
    from gmtree.tree.locate import level_names

    lines = [repr(tree), ""]
    for depth, name in enumerate(level_names(tree), start=1):
        here = tree.depth == depth
        least, most = tree.child_count[here].min(), tree.child_count[here].max()
        below = f", {least:,} to {most:,} children" if least < most else f", {most:,} children"
        count = int(here.sum())
        nodes = f"{count:,} node{'s' * (count > 1)}"
        lines.append(f"  level {depth} {name}: {nodes}{below if most else ''}")
    return "\n".join(lines)
