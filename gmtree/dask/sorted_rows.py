"""Rows sorted by the labels of their levels: finding nodes in them, and matching two tables."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.dask.parquet import arrow

Key = tuple[Any, ...]
REMEDY = "Sort the rows by their levels, or pass sort=True."


class Runs(NamedTuple):
    """The runs of equal labels in sorted rows: each run is a node.

    Attributes
    ----------
    starts : tuple of arrays
        For each level but the last, the first row of each of its nodes; every row is a leaf.
    rows : int
    first, last : tuple
        Labels of the first and of the last row.
    """

    starts: tuple[np.ndarray, ...]
    rows: int
    first: Key
    last: Key


def find_runs(
    table: Any, levels: Sequence[str], argument: str, start: int, *, leaves: bool = True
) -> Runs:
    """Find the first row of each node; refuse rows out of order, repeated or without a label.

    Error messages count rows from `start`, and call a repeated row a leaf if `leaves` is true,
    otherwise a node.
    """
    rows = table.num_rows
    differs = np.zeros(max(rows - 1, 0), bool)
    starts = []
    for name in levels:
        changes, falls = _steps(table.column(name), name, start)
        # A label may be smaller than the one before if a label of a higher level has changed.
        np.greater(falls, differs, out=falls)
        if falls.any():
            k = int(np.argmax(falls))
            check.fail(
                argument,
                f"must be sorted by its levels; rows {start + k} and {start + k + 1} are "
                f"{label(table, levels, k)} and {label(table, levels, k + 1)}. {REMEDY}",
            )
        differs |= changes
        if name != levels[-1]:
            starts.append(np.concatenate([[0], np.flatnonzero(differs) + 1]))
    if not differs.all():
        k = int(np.argmin(differs))
        check.fail(
            argument,
            f"must have one row per {'leaf' if leaves else 'node'}; rows {start + k} and "
            f"{start + k + 1} are both {label(table, levels, k)}.",
        )
    ends = key(table, levels, 0), key(table, levels, rows - 1)
    return Runs(tuple(starts), rows, *ends)


def key(table: Any, levels: Sequence[str], row: int) -> Key:
    """The labels of one row."""
    return tuple(table.column(name)[row].as_py() for name in levels)


def label(table: Any, levels: Sequence[str], row: int) -> str:
    """The labels of one row, for an error message."""
    return shown(key(table, levels, row))


def shown(labels: Key) -> str:
    """Write labels, coarse to fine, for an error message."""
    return "(" + ", ".join(map(check.shown, labels)) + ")"


def _steps(column: Any, name: str, start: int) -> tuple[np.ndarray, np.ndarray]:
    """For all rows but the first: whether the label differs from the previous one, or is less."""
    import pyarrow.compute as pc

    if column.null_count:
        row = start + pc.index(pc.is_null(column), True).as_py()
        check.fail(name, f"must have no missing labels; row {row} has none.")
    if len(column) < 2:
        return np.zeros(0, bool), np.zeros(0, bool)
    codes = ordered_codes(column, name)
    if codes is not None:
        if codes.dtype.kind == "f" and np.isnan(codes).any():
            row = start + int(np.argmax(np.isnan(codes)))
            check.fail(name, f"must have no missing labels; row {row} has none.")
        return codes[1:] != codes[:-1], codes[1:] < codes[:-1]
    before, after = column.slice(0, len(column) - 1), column.slice(1)
    before, after = (x.combine_chunks() for x in (before, after))
    changes = pc.not_equal(before, after).to_numpy(zero_copy_only=False)
    return changes, pc.less(after, before).to_numpy(zero_copy_only=False).copy()


def ordered_codes(column: Any, name: str) -> np.ndarray | None:
    """Return numbers in the order of the labels, or None for plain text."""
    pa = arrow()
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        whole = column.unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = whole.chunk(0)
        rank = pc.rank(whole.dictionary, sort_keys="ascending", tiebreaker="dense")
        rank = rank.to_numpy(zero_copy_only=False).astype(np.int32)
        return rank[whole.indices.to_numpy(zero_copy_only=False)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return None
    if pa.types.is_temporal(kind):
        wide = kind.bit_width == 64
        return column.cast(pa.int64() if wide else pa.int32()).to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return column.to_numpy()
    check.fail_type(name, f"must hold labels (text, numbers or dates), not values of type {kind}.")


# --------------------------------------------------------------------------- matching


def between(table: Any, levels: Sequence[str], low: Key, high: Key) -> Any:
    """The rows of a sorted table whose labels are not below `low` and not above `high`."""
    rows = range(table.num_rows)
    start = bisect_left(rows, low, key=lambda k: key(table, levels, k))
    stop = bisect_right(rows, high, lo=start, key=lambda k: key(table, levels, k))
    return table.slice(start, stop - start)


def match(
    own: Any, other: Any, levels: Sequence[str], argument: str
) -> tuple[np.ndarray, np.ndarray]:
    """Match rows of `other` with rows of `own` by their labels; both are sorted and distinct.

    Returns the rows of `other` that lie between the first and the last row of `own`, and for each
    of them the row of `own` with the same labels. Raises an error if that row does not exist.
    """
    rows = own.num_rows
    if rows == other.num_rows and all(_plain(own, x).equals(_plain(other, x)) for x in levels):
        return np.arange(rows), np.arange(rows)
    mine, given = _joint_keys(own, other, levels)
    inside = np.flatnonzero((given >= mine[0]) & (given <= mine[-1]))
    row = np.searchsorted(mine, given[inside])
    unknown = np.flatnonzero(mine[row] != given[inside])
    if unknown.size:
        k = int(inside[unknown[0]])
        check.fail(
            argument, f"must name nodes that have leaves; {label(other, levels, k)} has none."
        )
    return inside, row


def locate(own: Any, other: Any, levels: Sequence[str]) -> np.ndarray:
    """The row of `own` with the labels of each row of `other`; -1 without such a row.

    `own` is sorted and distinct.
    """
    mine, given = _joint_keys(own, other, levels)
    row = np.minimum(np.searchsorted(mine, given), mine.size - 1)
    row[mine[row] != given] = -1
    return row


def _joint_keys(own: Any, other: Any, levels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for the rows of two tables, which are ordered as the labels of the rows."""
    keys = np.zeros(own.num_rows + other.num_rows, np.int64)
    for name in levels:
        joint = _codes_of_both(_plain(own, name), _plain(other, name), name)
        # The codes are made dense after each level, so that their products stay small.
        keys = _dense(keys * (int(joint.max()) + 1) + joint)
    return keys[: own.num_rows], keys[own.num_rows :]


def _plain(table: Any, name: str) -> Any:
    """A column of labels without codes."""
    column = table.column(name)
    coded = arrow().types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if coded else column


def _codes_of_both(a: Any, b: Any, name: str) -> np.ndarray:
    """Dense ranks of the labels of two columns together."""
    import pyarrow.compute as pc

    pa = arrow()
    if a.type != b.type:
        # The errors of Arrow may show labels, which can be private.
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            b = b.cast(a.type)
    if a.type != b.type:
        check.fail(name, f"must have one type of labels everywhere, not {a.type} and {b.type}.")
    both = pa.chunked_array([*a.chunks, *b.chunks], a.type)
    codes = ordered_codes(both, name)
    if codes is None:
        return pc.rank(both, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return _dense(codes)


def _dense(x: np.ndarray) -> np.ndarray:
    return np.unique(x, return_inverse=True)[1].astype(np.int64)
