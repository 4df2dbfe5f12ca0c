"""Counts of the leaves, or of the cells of their tables, from the rows of a file."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree.cli import files
from gmtree.cli.table_files import Leaf, Rows, level_names

if TYPE_CHECKING:
    from gmtree.privacy.publishing.kept import KeptShare
    from gmtree.privacy.publishing.people import Bounds
    from gmtree.tree import Tree

# --estimate-kept counts at most this number of records of each person.
MOST_RECORDS = 20
_WHICH_CELLS = (
    "Give the public list of cells with --cells FILE: a table with the columns of --axes. A list "
    "taken from the data would reveal which values occur."
)


def add_options(p: argparse.ArgumentParser) -> None:
    """Add the options of releases of tables."""
    group = p.add_argument_group("tables at the leaves")
    group.add_argument("--axes", metavar="A,B", help="columns by which the records are tabulated")
    group.add_argument(
        "--cells",
        metavar="FILE",
        type=Path,
        help="public list of the cells that can occur: a table with the columns of --axes and a "
        "row for each cell. Its values label the axes, in the order in which they first occur. "
        "Combinations of these values that it does not list are published as 0 without noise, and "
        "records in such cells are not counted",
    )
    group.add_argument(
        "--queries",
        metavar="Q",
        help="sums of each table to measure, such as total,A,A:B for its total, its sums by A, "
        "and its sums by A and B (default: the total and the whole table)",
    )


@dataclass(frozen=True)
class Tables:
    """The axes of a table with their public labels, and the queries that are measured.

    `zeros` marks the cells that cannot occur; None if all can.
    """

    axes: dict[str, list[str]]
    queries: list[tuple[str, ...]]
    zeros: np.ndarray | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Tables | None:
        """Read the options and the file of cells; returns None if there are no axes."""
        if args.axes is None:
            for name in ("cells", "queries"):
                if getattr(args, name) is not None:
                    raise ValueError(f"--{name} needs --axes.")
            return None
        names = level_names(args.axes, "--axes")
        both = set(names) & {*level_names(args.levels), args.count, args.person}
        if both:
            raise ValueError(
                "--axes must name other columns than --levels, --count and --person; "
                f"{min(both)!r} is one of these."
            )
        if args.cells is None:
            raise ValueError(_WHICH_CELLS)
        queries = _queries(args.queries, names)
        if files.STANDARD == args.cells in (args.file, args.tree):
            raise ValueError("--cells and another file must not both be standard input.")
        listed = [tuple(map(axis_text, cell)) for cell, _ in Rows(args.cells, names, None)]
        if not listed:
            raise ValueError(f"{files.shown(args.cells)} has no rows.")
        axes = [list(dict.fromkeys(own)) for own in zip(*listed, strict=True)]
        zeros = np.ones(tuple(map(len, axes)), bool)
        for cell in listed:
            zeros[tuple(own.index(x) for own, x in zip(axes, cell, strict=True))] = False
        if zeros.any() and args.neighbors == "change_one":
            raise ValueError(
                "--cells must list all combinations of its values with --neighbors change_one: the "
                "number of records is then public, and would show how many are in other cells."
            )
        found = dict(zip(names, axes, strict=True))
        return cls(found, queries, zeros if zeros.any() else None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(map(len, self.axes.values()))

    def numbers(self) -> list[dict[str, int]]:
        """The number of each label along its axis."""
        return [{label: k for k, label in enumerate(own)} for own in self.axes.values()]


def axis_text(label: str) -> str:
    """The text of a value of an axis; 7 and 7.0 have the same text."""
    from gmtree.privacy.publishing.people import person_text

    return person_text("--axes", label) or ""


def _queries(text: str | None, axes: list[str]) -> list[tuple[str, ...]]:
    """The queries in ``--queries total,A,A:B``."""
    if text is None:
        return [(), tuple(axes)]
    found: list[tuple[str, ...]] = []
    for part in text.split(","):
        query = () if part.strip() == "total" else tuple(x.strip() for x in part.split(":"))
        for name in query:
            if name not in axes:
                raise ValueError(
                    f"--queries must be 'total' or axes joined by ':', not {part.strip()!r}; the "
                    f"axes are {', '.join(axes)}."
                )
        if len(set(query)) < len(query) or set(query) in map(set, found):
            raise ValueError(
                f"--queries must not repeat a query or an axis; {part.strip()!r} does."
            )
        found.append(query)
    return found


# --------------------------------------------------------------------------- counting


def tree_and_counts(
    args: argparse.Namespace, levels: list[str], tables: Tables | None, bounds: Bounds
) -> tuple[Tree, np.ndarray]:
    """The tree, and the count or table of each leaf in the order of `tree.leaves`."""
    from gmtree.tree import Tree

    known = _public_leaves(args, levels)
    read = _Records(args, levels, tables, known)
    found = read.add_up() if args.person is None else read.add_up_people(bounds)
    # Leaves found in the rows are sorted, so that their order does not depend on the row order.
    paths = sorted({leaf for leaf, _ in found}) if known is None else list(known)
    if not paths:
        raise ValueError(f"{files.shown(args.file)} has no rows.")
    number = {leaf: k for k, leaf in enumerate(paths)}
    # Leaves are in the order of the rows. Python's integers have no bound, but the release has one.
    counts = np.zeros((len(paths), *(tables.shape if tables else ())), object)
    for (leaf, cell), count in found.items():
        counts[(number[leaf], *cell)] = count
    columns = dict(zip(levels, zip(*paths, strict=True), strict=True))
    return Tree.from_levels(columns, levels=levels), counts


def kept_share(args: argparse.Namespace) -> KeptShare:
    """The private estimate that --estimate-kept asks for, which is charged to --account."""
    from gmtree.privacy import Account
    from gmtree.privacy.publishing.kept import estimate

    levels = level_names(args.levels)
    read = _Records(args, levels, Tables.of(args), _public_leaves(args, levels))
    measure = "rho" if args.rho is not None or args.delta is not None else "epsilon"
    account = None
    if args.account is not None:
        account = Account(path=args.account, purpose="share of records that K keeps")
    terms = {measure: args.estimate_kept, "person": args.person}
    return estimate(read.people(), MOST_RECORDS, terms, account)


def _public_leaves(args: argparse.Namespace, levels: list[str]) -> dict[Leaf, None] | None:
    """The leaves that --tree lists; None if it is not given."""
    if args.tree is None:
        return None
    known = dict.fromkeys(path for path, _ in Rows(args.tree, levels, None))
    if not known:
        raise ValueError(f"{files.shown(args.tree)} has no rows.")
    return known


Cell = tuple[int, ...]


class _Records:
    """Read the leaf and the cell of each row of FILE.

    `known` holds the public leaves. It is None if the leaves that occur are public knowledge.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        levels: Sequence[str],
        tables: Tables | None,
        known: dict[Leaf, None] | None,
    ) -> None:
        axes = list(tables.axes) if tables else []
        self._rows = Rows(args.file, [*levels, *axes], args.count, args.person)
        self._split, self._known, self._ignore = len(levels), known, args.ignore_unknown
        self._tables, self._numbers = tables, tables.numbers() if tables else []

    def add_up(self) -> dict[tuple[Leaf, Cell], int]:
        """Return the sum of the counts of each leaf and cell."""
        found: Counter[tuple[Leaf, Cell]] = Counter()
        for place, count in self._placed(self._rows):
            found[place] += count
        return found

    def add_up_people(self, bounds: Bounds) -> dict[tuple[Leaf, Cell], int]:
        """The number of records by leaf and cell, without a person's records beyond `bounds`."""
        from gmtree.labels.codes import Codes
        from gmtree.labels.columns import encode
        from gmtree.privacy.publishing.people import kept_records, leaf_keys, number_people

        people: dict[str, int] = {}
        leaves: dict[Leaf, int] = {}
        cells: dict[Cell, int] = {}
        rows = [
            (leaves.setdefault(leaf, len(leaves)), cells.setdefault(cell, len(cells)),
             people.setdefault(person, len(people)))
            for (leaf, cell), person in self._placed(self._rows.with_people())
        ]  # fmt: skip
        if not rows:
            return {}
        leaf, cell, whose = np.array(rows, np.int64).T

        def keys(labels: list[tuple[str, ...]]) -> np.ndarray:
            return leaf_keys([encode("FILE", x) for x in zip(*labels, strict=True)])

        tables, in_leaf = self._tables, None
        if tables is not None:
            own = list(tables.axes.values())
            texts = [tuple(own[a][k] for a, k in enumerate(place)) for place in cells]
            in_leaf = cell, keys(texts)
        names = Codes(whose, np.array(list(people), dtype=object))
        stay = kept_records(
            leaf, keys(list(leaves)), *number_people("--person", names), bounds, in_leaf
        )
        kept = Counter(zip(leaf[stay].tolist(), cell[stay].tolist(), strict=True))
        leaf_of, cell_of = list(leaves), list(cells)
        found = {(leaf_of[i], cell_of[c]): count for (i, c), count in kept.items()}
        # Without a public list, the leaves that occur are public. So list all of them, even those
        # without a counted record.
        return {(path, cell_of[0]): 0 for path in leaf_of} | found

    def people(self) -> np.ndarray:
        """Return the number of the person for each record of a known leaf and cell."""
        people: dict[str, int] = {}
        records = self._placed(self._rows.with_people())
        return np.array([people.setdefault(who, len(people)) for _, who in records], np.int64)

    def _placed(self, rows: Any) -> Iterator[tuple[tuple[Leaf, Cell], Any]]:
        """Yield the leaf and the cell of each row, and its count or person; refuse unknown rows."""
        cache: dict[Leaf, Cell | None] = {}
        zeros = None if self._tables is None else self._tables.zeros
        for labels, further in rows:
            leaf, own = labels[: self._split], labels[self._split :]
            if self._known is not None and leaf not in self._known:
                if not self._ignore:
                    self._rows.refuse_unknown("leaf", "--tree")
                continue
            if own not in cache:
                cache[own] = self._cell(own)
            cell = cache[own]
            if cell is None:
                if not self._ignore:
                    self._rows.refuse_unknown("value of --axes", "--cells")
                continue
            if zeros is None or not zeros[cell]:
                yield (leaf, cell), further

    def _cell(self, labels: Leaf) -> Cell | None:
        found = [own.get(axis_text(x)) for own, x in zip(self._numbers, labels, strict=True)]
        return None if None in found else tuple(k for k in found if k is not None)
