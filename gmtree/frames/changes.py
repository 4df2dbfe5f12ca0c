"""A report of the changes to the values of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gmtree import _text
from gmtree.labels.codes import Codes
from gmtree.labels.columns import numbers

# The report lists this many changes.
_LISTED = 10
# From this number on, floats cannot represent every whole number.
_INEXACT = 2**53


class Change(NamedTuple):
    """One value of a frame before and after it was reconciled."""

    row: int
    """Number of its row, from 0."""
    group: tuple[Any, ...]
    """Entries of the row in the columns `by`."""
    labels: tuple[Any, ...]
    """Labels of the row, coarse to fine, without missing ones."""
    column: str
    """Name of the column."""
    before: float
    """Value in the frame that was passed in."""
    after: float
    """Value in the result."""
    change: float
    """`after` minus `before`, which is exact for whole numbers beyond 2**53, too."""


class ReconcileInfo(NamedTuple):
    """The changes that :func:`gmtree.reconcile_frame` made; ``print`` shows them as a table."""

    rows_added: int
    """Rows added for nodes that had none."""
    largest_change: float
    """Largest absolute difference between a value and its consistent value."""
    changes: tuple[Change, ...]
    """The ten largest changes, the largest first; without values that did not change."""

    def __str__(self) -> str:
        added = "1 row was" if self.rows_added == 1 else f"{self.rows_added:,} rows were"
        lines = [f"Values changed by {self.largest_change:.6g} at most; {added} added."]
        if self.changes:
            rows = [("row", "labels", "column", "before", "after", "change")]
            for x in self.changes:
                place = " / ".join(map(str, (*x.group, *(x.labels or ("total",)))))
                before, after = _shown(x.before), _shown(x.after)
                rows.append((str(x.row), place, x.column, before, after, f"{x.change:+.6g}"))
            right = [True, False, False, True, True, True]
            lines += ["Largest changes:", *_text.table(rows, right=right)]
        return "\n".join(lines)


def _shown(x: float) -> str:
    return f"{x}" if isinstance(x, int) else f"{x:.10g}"


def report(
    before: Mapping[str, Any],
    after: Mapping[str, np.ndarray],
    groups: list[Codes],
    levels: list[Codes],
    rows_added: int,
) -> ReconcileInfo:
    """Report the largest changes between the given columns and the reconciled ones."""
    found: list[Change] = []
    for name, x in after.items():
        old = numbers(name, before[name])
        exact = _large_integers(before[name], old)
        change = x.astype(np.float64) - old
        for row, number in exact.items():
            change[row] = int(x[row]) - number
        size = np.nan_to_num(np.abs(change))
        largest = np.argsort(-size, kind="stable")[:_LISTED]
        for row in largest[size[largest] > 0].tolist():
            group = tuple(c.label(row) for c in groups)
            labels = tuple(label for c in levels if (label := c.label(row)) is not None)
            values = exact.get(row, old[row].item()), np.asarray(x[row]).item()
            found.append(Change(row, group, labels, name, *values, change[row].item()))
    found.sort(key=lambda x: -abs(x.change))
    return ReconcileInfo(rows_added, abs(found[0].change) if found else 0.0, tuple(found[:_LISTED]))


def _large_integers(column: Any, x: np.ndarray) -> dict[int, int]:
    """Return the whole numbers that a float may not represent exactly, by row."""
    rows = np.flatnonzero(np.abs(x) >= _INEXACT).tolist()
    if not rows:
        return {}
    how = next(how for how in ("to_pylist", "to_list", "tolist") if hasattr(column, how))
    entries = getattr(column, how)()
    return {row: entries[row] for row in rows if isinstance(entries[row], int)}
