"""Text for terminals: printable labels, short fractions and tables."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from html import escape
from typing import TextIO

# Control characters, and characters that change the direction of text.
_CONTROLS = [*range(32), *range(127, 160), 0x200E, 0x200F, *range(0x2028, 0x202F)]
_ESCAPES = {k: repr(chr(k))[1:-1] for k in (*_CONTROLS, *range(0x2066, 0x206A))}
_ESCAPES_BUT_NEWLINE = {k: text for k, text in _ESCAPES.items() if k != ord("\n")}


# Number of rows shown of a long table: half from its beginning, half from its end.
_SHOWN_ROWS = 40


_SIX_DIGITS_UP = Context(prec=6, rounding=ROUND_CEILING)


def printable(text: str, *, newlines: bool = True) -> str:
    r"""The text with control characters replaced by escapes such as ``\x1b``.

    Labels, names of columns and ledgers may come from untrusted files. Printed unchanged, they
    could move the cursor of a terminal, hide lines or imitate other output.

    Examples
    --------
    >>> from gmtree._text import printable
    >>> print(printable("New\x1b[2JYork"))
    New\x1b[2JYork
    """
    return text.translate(_ESCAPES_BUT_NEWLINE if newlines else _ESCAPES)


def say(text: object, file: TextIO | None = None) -> None:
    """Print text to a terminal, standard output by default, with control characters escaped."""
    print(printable(str(text)), file=file)


def short(x: Fraction | None, *, up: bool = False) -> str:
    """A fraction in full if it is short, else its first six digits, rounded up if `up` is true.

    A float with at most six digits is written with these digits, even if `up` is true. For example,
    the float 0.1 becomes "0.1", although its exact value is 0.1 + 5.6e-18. Reading the text as a
    float restores the exact value.
    """
    if x is None:
        return "-"
    # Python refuses to convert integers of more than 4,300 digits to text.
    has_few_digits = max(x.numerator.bit_length(), x.denominator.bit_length()) <= 30
    if has_few_digits and len(str(x)) <= 9:
        return str(x)
    if is_short_float(x):
        return f"{float(x):.6g}"
    if up:
        above = _SIX_DIGITS_UP.divide(Decimal(x.numerator), Decimal(x.denominator))
        return f"{above.normalize(_SIX_DIGITS_UP):.6g}"
    return f"{float(x):.6g}"


def is_short_float(x: Fraction) -> bool:
    """Whether `x` is a float that can be written with at most six digits, such as 0.1."""
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
    """Lines of a table whose first row is the header.

    `right` is True for each column that is aligned to the right, by default for all columns except
    the first. If the table has more than `most_rows` rows, its middle is left out. With None, all
    rows are kept.

    Examples
    --------
    >>> from gmtree._text import table
    >>> for line in table([("level", "nodes"), ("county", "3,221")], indent=""):
    ...     print(line)
    level   nodes
    county  3,221
    """
    shown = [[printable(cell, newlines=False) for cell in row] for row in rows]
    if most_rows is not None and len(shown) > most_rows:
        half = most_rows // 2
        shown[half:-half] = [["..."] * len(shown[0])]
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
    """HTML of a text for notebooks, which keeps its line breaks and blanks."""
    return f"<pre style='line-height: 1.2'>{escape(text)}</pre>"
