"""Columns of real numbers from numpy arrays and Python objects."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from gmtree import _validate as check


def as_numbers(argument: str, a: np.ndarray) -> np.ndarray:
    """Real numbers as float64, with NaN for missing ones; other entries are refused."""
    if a.dtype == object:
        return _from_objects(argument, a)
    if a.dtype.kind not in "iuf":
        refuse_kind(argument, a.dtype)
    return a.astype(np.float64)


def refuse_kind(argument: str, kind: Any) -> NoReturn:
    """Raise an error for a column of a type that holds no real numbers."""
    check.fail_type(argument, f"must hold real numbers, not values of type {kind}.")


def _from_objects(argument: str, a: np.ndarray) -> np.ndarray:
    """Numbers from Python objects, NaN for missing ones; an error names the first other object."""
    out = np.empty(a.shape)
    flat = out.reshape(-1)
    for row, x in enumerate(a.ravel()):
        if x is None or type(x).__name__ == "NAType":
            x = np.nan
        try:
            if not isinstance(x, (Real, Decimal)) or isinstance(x, (bool, np.bool_)):
                raise TypeError
            flat[row] = x
        except (TypeError, OverflowError, ValueError):
            check.fail_type(argument, f"must hold real numbers; row {row} is {check.shown(x)}.")
    return out
