"""Measurements of the nodes above the leaves: one sorted data set per level."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask.parquet import Piece, arrow, read
from gmtree.dask.partition_tree import PartitionTree
from gmtree.dask.sorted_rows import Key, between, find_runs, match
from gmtree.labels import columns


@dataclass(frozen=True)
class NodeMeasurements:
    """The files with the measurements of one level.

    Attributes
    ----------
    argument : str
        Name of the argument, for error messages.
    pieces : tuple of Piece
    first, last : tuple of keys
        Labels of the first and of the last row of each piece.
    """

    argument: str
    pieces: tuple[Piece, ...]
    first: tuple[Key, ...]
    last: tuple[Key, ...]

    @property
    def total(self) -> int:
        """Number of rows."""
        return sum(piece.rows for piece in self.pieces)

    def rows(
        self, part: PartitionTree, table: Any, names: Sequence[str], numbers: Sequence[str]
    ) -> tuple[np.ndarray, Any]:
        """Find the nodes of a partition that have a measurement, and the rows of these nodes.

        `names` are the columns of labels down to this level, `numbers` the other columns to read.
        """
        level, wanted = len(names), [*names, *numbers]
        if level == 0:
            return np.zeros(1, np.int64), read(self.pieces, wanted)
        own = table.select(names).take(arrow().array(part.first_rows(level)))
        low, high = (tuple(own.column(n)[k].as_py() for n in names) for k in (0, -1))
        start, stop = bisect_left(self.last, low), bisect_left(self.first, high)
        stop += stop < len(self.first) and self.first[stop] == high
        if start >= stop:
            return np.zeros(0, np.int64), read(self.pieces[:1], wanted).slice(0, 0)
        found = between(read(self.pieces[start:stop], wanted), names, low, high)
        inside, row = match(own, found, names, self.argument)
        return row, found.take(arrow().array(inside))


def scan(argument: str, levels: tuple[str, ...], piece: Piece, start: int) -> tuple[Key, Key]:
    """Return the labels of the first and last row of a piece, which must be sorted."""
    if not levels:
        return (), ()
    table = read([piece], levels)
    runs = find_runs(table, levels, argument, start, leaves=False)
    return runs.first, runs.last


def joined(argument: str, pieces: list[Piece], ends: list[tuple[Key, Key]]) -> NodeMeasurements:
    """Join the pieces whose ends :func:`scan` returned; refuse pieces out of order."""
    start = 0
    for k in range(1, len(pieces)):
        start += pieces[k - 1].rows
        if not ends[k - 1][1] < ends[k][0]:
            check.fail(
                argument,
                f"must be sorted by its levels, with one row per node; rows {start - 1} and "
                f"{start} are {ends[k - 1][1]} and {ends[k][0]}. Sort the rows.",
            )
    first, last = zip(*ends, strict=True) if ends else ((), ())
    return NodeMeasurements(argument, tuple(pieces), tuple(first), tuple(last))


def numbers(table: Any, name: str, argument: str) -> np.ndarray:
    """Return a column of numbers, with NaN for missing ones."""
    x = columns.numbers(f"{argument}[{name!r}]", table.column(name))
    if np.isinf(x).any():
        check.fail(argument, f"must have finite numbers in {name!r}; one is infinite.")
    return x


def variances(table: Any, name: str, argument: str) -> np.ndarray:
    """Return a column of variances, with inf for missing ones."""
    s = columns.numbers(f"{argument}[{name!r}]", table.column(name))
    s[np.isnan(s)] = np.inf
    if np.any(s < 0):
        check.fail(argument, f"must have no negative variance in {name!r}; one is {s.min()}.")
    return s
