"""Fractions and tables as text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

# Rows shown of a long table, half of them from its end.
_SHOWN_ROWS = 40


def short(x: Fraction | None) -> str:
    """A fraction as such if it is short, else six digits of it."""
    if x is None:
        return "-"
    exact = str(x)
    return exact if len(exact) <= 9 else f"{float(x):.6g}"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a table whose first row is its head: first column left, others right."""
    rows = list(rows)
    if len(rows) > _SHOWN_ROWS:
        half = _SHOWN_ROWS // 2
        rows[half:-half] = [("...",) * len(rows[0])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(c.rjust(w) if j else c.ljust(w) for j, (c, w) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
