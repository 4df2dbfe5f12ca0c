"""Exact fractions for budgets and losses: read from arguments and files, written, and rounded."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _validate as check

# Parameters with more digits than this are rounded to this many bits after the leading one.
_BITS = 64
# Larger parameters are of no practical use and would leave the range of floating-point numbers.
LARGEST = 1 << 1000
# Denominators of losses have at most this many bits, because sums of thousands of fractions with
# much larger denominators would take minutes.
LOSS_BITS = 256
# Larger powers of ten can only be mistakes, and take long to write out.
_LARGEST_EXPONENT = 1000
_STORED_FRACTION = re.compile(r"[0-9]{1,1000}(/[1-9][0-9]{0,999})?")


def rational(argument: str, x: Any) -> Fraction:
    """The exact value of an int, Fraction, Decimal, float, numpy number, or text like '1/3'."""
    if isinstance(x, (bool, np.bool_)):
        check.fail_type(argument, f"must be a number, not {x!r}.")
    if isinstance(x, (int, Fraction)):
        return Fraction(x)
    if isinstance(x, np.integer) and not isinstance(x, np.timedelta64):
        return Fraction(int(x))
    if isinstance(x, (float, np.floating)):
        if not np.isfinite(x):
            check.fail(argument, f"must be finite, not {x}.")
        return Fraction(*x.as_integer_ratio())
    if isinstance(x, Decimal):
        if not x.is_finite():
            check.fail(argument, f"must be finite, not {x}.")
        return _from_decimal(argument, x)
    if isinstance(x, str):
        try:
            value = Decimal(x) if "e" in x.lower() else Fraction(x)
        except (ArithmeticError, ValueError):
            check.fail(argument, f"must be a number such as '0.1' or '1/3', not {x!r}.")
        return value if isinstance(value, Fraction) else _from_decimal(argument, value)
    check.fail_type(
        argument, f"must be an int, Fraction, Decimal, str or float, not {type(x).__name__}."
    )


def _from_decimal(argument: str, x: Decimal) -> Fraction:
    if x and abs(x.adjusted()) > _LARGEST_EXPONENT:
        check.fail(argument, f"must be between 1e-1000 and 1e1000, not {x}.")
    return Fraction(x)


def positive(argument: str, x: Any) -> Fraction:
    """The exact value of a number, which must be above 0."""
    value = rational(argument, x)
    if value <= 0:
        check.fail(argument, f"must be above 0, not {x}.")
    if value > LARGEST:
        check.fail(argument, "must be below 2**1000.")
    return value


def stored_fraction(text: Any) -> Fraction:
    """Read an amount from a file, in the form that `str` gives a fraction; refuse long ones."""
    # Powers of ten are refused, because computing "1e999999999" would take hours.
    if not isinstance(text, str) or not _STORED_FRACTION.fullmatch(text):
        shown = text[:20] if isinstance(text, str) else text
        check.fail("data", f"must hold amounts such as '1/3', not {shown!r}.")
    return Fraction(text)


def to_json(x: Any) -> Any:
    """`x` as JSON data: dataclasses become mappings, tuples become lists, and fractions text."""
    if is_dataclass(x):
        return {field.name: to_json(getattr(x, field.name)) for field in fields(x)}
    if isinstance(x, tuple):
        return [to_json(each) for each in x]
    return str(x) if isinstance(x, Fraction) else x


def round_up(x: Fraction) -> Fraction:
    """`x` itself if it has few digits, otherwise the next larger fraction with few digits."""
    if x.denominator.bit_length() <= _BITS:
        return x
    unit = _unit(x)
    return Fraction(math.ceil(x / unit)) * unit


def sqrt_up(x: Fraction) -> Fraction:
    """The square root of `x` > 0 if it has few digits, otherwise a fraction just above it."""
    a, b = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if a * a == x.numerator and b * b == x.denominator and b.bit_length() <= _BITS:
        return Fraction(a, b)
    unit = _unit(Fraction(a + 1, b))
    scaled = x / unit**2
    root = math.isqrt(scaled.numerator // scaled.denominator)
    # root <= sqrt(scaled) < root + 1, so the square root is a whole number only if it is `root`.
    return (root if root * root == scaled else root + 1) * unit


def _unit(x: Fraction) -> Fraction:
    """A power of two about 2^-64 times `x`, not above 1."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length() - _BITS
    return Fraction(1, 1 << -exponent) if exponent < 0 else Fraction(1)
