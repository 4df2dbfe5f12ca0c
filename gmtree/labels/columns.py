"""Columns of labels and of numbers, read from DataFrames and from other objects with columns.

Each library encodes its own labels, which is faster than handling them as Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gmtree._validate import ArgumentError, array, fail, fail_type, some
from gmtree.labels.codes import Codes, from_numpy
from gmtree.labels.distinct import column, is_hashable
from gmtree.labels.libraries import adapter, library
from gmtree.labels.numbers import as_numbers


def encode(argument: str, x: Any) -> Codes:
    """Encode a column of labels of any type."""
    if isinstance(x, Codes):
        return x
    kind = library(x)
    if kind is None:
        return from_numpy(argument, column(argument, x))
    try:
        return adapter(kind).encode(argument, x)
    except (ArgumentError, MemoryError):
        raise
    except Exception:  # Errors of the libraries may show labels, which can be private.
        pass
    fail(argument, f"must hold labels that {kind} can read, such as text in UTF-8.")


def numbers(argument: str, x: Any) -> np.ndarray:
    """A column of real numbers as float64; missing entries become NaN.

    Text, dates, booleans and complex numbers are refused, although numpy would convert them.
    """
    kind = library(x)
    if kind is None:
        return as_numbers(argument, array(argument, x))
    return adapter(kind).numbers(argument, x)


def encode_index(index: Any) -> list[tuple[Any, Codes]]:
    """Name and labels of each level of a pandas index."""
    if not hasattr(index, "levels"):
        return [(index.name, encode("index", index))]
    return [
        (name, Codes(np.asarray(codes), column("index", np.asarray(level))))
        for name, codes, level in zip(index.names, index.codes, index.levels, strict=True)
    ]


# --------------------------------------------------------------------------- reading frames


def row_index(x: Any) -> Any:
    """The index of a pandas Series or DataFrame; None for all other objects, which have none."""
    return x.index if library(x) == "pandas" and hasattr(x, "iloc") else None


def all_names(frame: Any) -> list[Any]:
    """Names of the columns of a frame and, in pandas, of the levels of its index."""
    index = row_index(frame)
    return column_names(frame) + ([] if index is None else list(index.names))


def is_frame(x: Any) -> bool:
    """Whether `x` has named columns: a DataFrame of any library, or a mapping."""
    return hasattr(x, "columns") or isinstance(x, Mapping) or hasattr(x, "column_names")


def column_names(frame: Any) -> list[Any]:
    """Names of the columns of a frame."""
    if hasattr(frame, "column_names"):  # a pyarrow table, whose `columns` attribute holds the data
        return list(frame.column_names)
    return list(getattr(frame, "columns", frame))


def listed_names(argument: str, x: Any) -> list[Any]:
    """Column names as a list; sets are refused because they have no order."""
    is_table = len(getattr(x, "shape", (0,))) != 1
    if isinstance(x, (str, bytes, set, frozenset)) or not isinstance(x, Iterable) or is_table:
        fail_type(argument, f"must be a list of column names, not {x!r}.")
    names = list(x)
    for name in names:
        check_names(**{argument: name})
    return names


def check_names(**names: Any) -> None:
    """Refuse objects that cannot be names of columns; the keywords are the names of arguments."""
    for argument, x in names.items():
        # Columns of some libraries are hashable.
        is_column = hasattr(x, "shape") and not isinstance(x, np.generic)
        if x is None or is_column or not is_hashable(x):
            fail_type(argument, f"must be the name of a column, not {x!r}.")


def take_column(argument: str, frame: Any, name: Any) -> Any:
    """One column of a DataFrame; for pandas, a named level of the index also counts as a column."""
    check_names(**{argument: name})
    names = column_names(frame)
    if names.count(name) > 1:
        fail(
            argument, f"must name distinct columns; {names.count(name)} columns are named {name!r}."
        )
    if name in names:
        return frame[name]
    if name in all_names(frame):
        return dict(encode_index(frame.index))[name]
    fail(argument, f"must name columns of the frame, not {name!r}; it has {some(names)}.")
