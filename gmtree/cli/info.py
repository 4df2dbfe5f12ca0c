"""`gmtree info FILE`: what is in a saved release, or the tree that the columns of a table make."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from gmtree.cli import files

NEWICK = (".nwk", ".newick", ".tre", ".tree")


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "info",
        help="say what is in a saved release, or which tree the columns of a table make",
        description=__doc__,
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="release (.npz, .parquet), its ledger (.ledger.json), table (.csv, .csv.gz, .parquet; "
        "'-' for standard input) or Newick (.nwk)",
    )
    parser.add_argument(
        "--levels", metavar="A,B,...", help="columns of a table that make a tree, coarse to fine"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from gmtree.cli.rows import column_names, level_names

    if args.file != files.STANDARD and not args.file.is_file():
        raise ValueError(f"FILE must be a file; there is no {str(args.file)!r}.")
    if args.file.name.lower().endswith(NEWICK):
        from gmtree.tree import Tree

        print(_describe_newick(Tree.from_newick(args.file)))
    elif args.file.name.lower().endswith(".json"):
        print(_describe_ledger(args.file))
    elif args.levels is not None:
        print(_describe_tree(_tree(args.file, level_names(args.levels))))
    elif _is_release(args.file):
        print(_describe_release(args.file))
    else:
        print(f"{files.shown(args.file)}: a table with the columns")
        for name in column_names(args.file):
            print(f"  {name}")
        print("Name those that make a tree with --levels, coarse to fine.")
    return 0


def _is_release(path: Path) -> bool:
    """Whether a file is a saved release rather than any table."""
    from gmtree.cli.rows import column_names

    ending = files.kind("FILE", path, (".npz", *files.TABLES))
    if ending == ".parquet":
        return {"parent", "noisy"} <= set(column_names(path))
    return ending == ".npz"


def _describe_release(path: Path) -> str:
    """The errors and the ledger of a saved release, plain or of tables, and where it comes from."""
    from gmtree.privacy.release import Release
    from gmtree.privacy.storage import is_of_tables
    from gmtree.privacy.tables import TableRelease

    if is_of_tables(path):
        tables = TableRelease.load(path)
        parts = [repr(tables), str(tables.plan), str(tables.ledger), _origin(tables.provenance)]
        return "\n\n".join(parts).rstrip()
    made = Release.load(path)
    depth = made.tree.depth
    variance = np.bincount(depth, weights=made.std_error**2)[1:] / np.bincount(depth)[1:]
    errors = [f"  level {k}: {error:.3g}" for k, error in enumerate(np.sqrt(variance), start=1)]
    return "\n".join(
        [
            repr(made),
            "",
            "Standard error by level:",
            *errors,
            "",
            str(made.ledger),
            "",
            _origin(made.provenance),
        ],
    ).rstrip()


def _describe_ledger(path: Path) -> str:
    from gmtree.privacy.storage import read_ledger

    ledger, data = read_ledger(path)
    return f"{ledger}\n\n{_origin(data['provenance'])}".rstrip()


def _origin(provenance: dict[str, Any] | None) -> str:
    """When and by what a release was made, in words."""
    if provenance is None:
        return ""
    versions = ", ".join(f"{name} {number}" for name, number in provenance["versions"].items())
    lines = [f"Made at {provenance['time']} by {provenance['function']} of {versions}"]
    lines.append(f"  tree {provenance.get('tree')}")
    if provenance["account"] is not None:
        drawn = provenance["account"]
        lines.append(
            f"  entry {drawn.get('entry')} of the account {drawn.get('file')}: "
            f"{drawn.get('measure')} {drawn.get('charged')}"
        )
    return "\n".join(lines)


def _describe_newick(tree: Any) -> str:
    """Size, labels and lengths of a phylogeny, and its top."""
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


def _tree(path: Path, levels: list[str]) -> Any:
    from gmtree.cli.rows import Rows
    from gmtree.tree import Tree

    leaves = sorted({leaf for leaf, _ in Rows(path, levels, None)})
    if not leaves:
        raise ValueError(f"{files.shown(path)} has no rows.")
    columns = dict(zip(levels, zip(*leaves, strict=True), strict=True))
    return Tree.from_levels(columns, levels=levels)


def _describe_tree(tree: Any) -> str:
    names = [None] * (tree.height - len(tree.level_names)) + list(tree.level_names)
    if len(tree.level_names) > tree.height:
        names = list(tree.level_names)
    lines = [repr(tree), ""]
    for depth, name in enumerate(names, start=1):
        here = tree.depth == depth
        children = tree.child_count[here]
        below = f", {children.min()} to {children.max()} children" if children.any() else ""
        lines.append(f"  level {depth} {name or '(root)'}: {int(here.sum()):,} nodes{below}")
    return "\n".join(lines)
