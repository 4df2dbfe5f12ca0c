"""Fractions and tables as text."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from html import escape

# Rows shown of a long table, half of them from its end.
_SHOWN_ROWS = 40


_SIX_DIGITS_UP = Context(prec=6, rounding=ROUND_CEILING)


def short(x: Fraction | None, *, up: bool = False) -> str:
    """A fraction written out if that is short, else its first six digits, rounded up if asked.

    A float with at most six digits is written as such, also if rounding is asked for: 0.1 for the
    float 0.1, although that is 0.1 + 5.6e-18. Read as a float, the text is the exact value again.
    """
    if x is None:
        return "-"
    exact = str(x)
    if len(exact) <= 9:
        return exact
    if is_short_float(x):
        return f"{float(x):.6g}"
    if up:
        above = _SIX_DIGITS_UP.divide(Decimal(x.numerator), Decimal(x.denominator))
        return f"{above.normalize(_SIX_DIGITS_UP):.6g}"
    return f"{float(x):.6g}"


def is_short_float(x: Fraction) -> bool:
    """Whether `x` is a float that its owner wrote with at most six digits, such as 0.1."""
    try:
        number = float(x)
    except OverflowError:
        return False
    return Fraction(number) == x and float(f"{number:.6g}") == number


def table(
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[bool] | None = None,
    indent: str = "  ",
    most_rows: int | None = _SHOWN_ROWS,
) -> list[str]:
    """Lines of a table whose first row is its head.

    `right` says for each column whether its cells end at the same place (numbers) rather than
    begin there (words); by default only the first column holds words. Of a table with more than
    `most_rows` rows the middle is left out, unless that is None.

    Examples
    --------
    >>> from gmtree._text import table
    >>> for line in table([("level", "nodes"), ("county", "3,221")], indent=""):
    ...     print(line)
    level   nodes
    county  3,221
    """
    shown = list(rows)
    if most_rows is not None and len(shown) > most_rows:
        half = most_rows // 2
        shown[half:-half] = [("...",) * len(shown[0])]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    if right is None:
        right = [k > 0 for k in range(len(widths))]
    return [
        indent
        + "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in shown
    ]


def preformatted(text: str) -> str:
    """Text as it is, for notebooks."""
    return f"<pre style='line-height: 1.2'>{escape(text)}</pre>"
