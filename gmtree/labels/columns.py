"""Columns of labels as codes: from numpy and lists, and from pandas, polars and pyarrow.

Each library numbers its own labels, which is quicker than looking at them as Python objects.
Nothing is imported here: whoever hands over a column of a library has loaded that library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gmtree._validate import fail, fail_type, index_dtype, some
from gmtree.labels.distinct import column, factorize

LIBRARIES = ("pandas", "polars", "pyarrow")


def library(x: Any) -> str | None:
    """Which of the libraries of frames `x` belongs to; None for everything else."""
    name = type(x).__module__.partition(".")[0]
    return name if name in LIBRARIES else None


class Codes(NamedTuple):
    """A column of labels: row k has ``categories[codes[k]]``, none where ``codes[k]`` is -1.

    Where `categories` is None the codes are the labels themselves, whole numbers, and no row is
    without one.
    """

    codes: np.ndarray
    categories: np.ndarray | None

    @property
    def missing(self) -> np.ndarray | None:
        """Which rows have no label; None if all have."""
        if self.categories is None:
            return None
        missing = self.codes < 0
        return missing if missing.any() else None

    def label(self, row: int) -> Any:
        """The label of one row."""
        code = self.codes[row]
        if self.categories is None:
            return code.item()
        return None if code < 0 else self.categories[code : code + 1].tolist()[0]


def encode(argument: str, x: Any) -> Codes:
    """A column of labels of any type as codes."""
    if isinstance(x, Codes):
        return x
    how = {"pandas": _from_pandas, "polars": _from_polars, "pyarrow": _from_pyarrow}
    reader = how.get(library(x) or "")
    return _from_numpy(argument, column(argument, x)) if reader is None else reader(argument, x)


def encode_index(index: Any) -> list[tuple[Any, Codes]]:
    """Names and labels of each level of a pandas index."""
    if not hasattr(index, "levels"):
        return [(index.name, encode("index", index))]
    return [
        (name, Codes(np.asarray(codes), column("index", np.asarray(level))))
        for name, codes, level in zip(index.names, index.codes, index.levels, strict=True)
    ]


def _from_numpy(argument: str, a: np.ndarray) -> Codes:
    if a.dtype.kind in "iu" and a.dtype != np.uint64:
        return Codes(a, None)
    codes, first = factorize(argument, a)
    categories = a[first]
    # Whole numbers among which some are missing are floats in pandas.
    some_missing = a.dtype.kind == "f" and first.size > 0 and (codes < 0).any()
    whole = some_missing and (np.floor(categories) == categories).all()
    if whole and np.abs(categories).max() <= 2**53:
        categories = categories.astype(np.int64)
    return Codes(codes, categories)


def _from_pandas(argument: str, x: Any) -> Codes:
    pandas = sys.modules["pandas"]
    if not hasattr(x, "dtype"):  # a single label, such as NA
        return _from_numpy(argument, column(argument, x))
    if getattr(x, "ndim", 1) != 1 or hasattr(x, "levels"):
        fail(argument, f"must be one column, not a {type(x).__name__} of several.")
    if isinstance(x.dtype, np.dtype) and x.dtype != object:
        return _from_numpy(argument, column(argument, x.to_numpy()))
    if isinstance(x.dtype, pandas.CategoricalDtype):
        values = x.array if hasattr(x, "array") else x
        categories = column(argument, np.asarray(values.categories))
        return Codes(np.asarray(values.codes), categories)
    try:
        codes, distinct = pandas.factorize(x)
    except TypeError:
        # This names the row.
        return _from_numpy(argument, np.asarray(x, dtype=object))
    if codes.size < 2**31:
        codes = codes.astype(np.int32)
    return Codes(codes, column(argument, np.asarray(distinct)))


def _from_polars(argument: str, x: Any) -> Codes:
    polars = sys.modules["polars"]
    if not isinstance(x, polars.Series):
        fail_type(argument, f"must be one column, not a polars {type(x).__name__}.")
    if x.dtype.is_integer() and x.null_count() == 0:
        return _from_numpy(argument, x.to_numpy())
    if x.dtype in (polars.String, polars.Categorical, polars.Enum):
        text = x.cast(polars.String)
        distinct = text.drop_nulls().unique(maintain_order=True)
        coded = text.cast(polars.Enum(distinct)).to_physical().cast(polars.Int64).fill_null(-1)
        codes = coded.to_numpy().astype(index_dtype(len(x)))
        return Codes(codes, np.array(distinct.to_list(), dtype=object))
    return _with_nulls(argument, x.is_null().to_numpy(), x.drop_nulls().to_numpy())


def _from_pyarrow(argument: str, x: Any) -> Codes:
    arrow = sys.modules["pyarrow"]
    if not isinstance(x, (arrow.Array, arrow.ChunkedArray)):
        fail_type(argument, f"must be one column, not a pyarrow {type(x).__name__}.")
    if isinstance(x, arrow.ChunkedArray):
        x = x.combine_chunks()
        if isinstance(x, arrow.ChunkedArray):  # more than one chunk can hold
            x = arrow.concat_arrays(x.chunks)
    if arrow.types.is_integer(x.type) and x.null_count == 0:
        return _from_numpy(argument, x.to_numpy(zero_copy_only=False))
    if not arrow.types.is_dictionary(x.type):
        try:
            x = x.dictionary_encode()
        except arrow.ArrowNotImplementedError:
            fail_type(argument, f"must hold labels, not values of type {x.type}.")
    codes = x.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    distinct = x.dictionary.to_numpy(zero_copy_only=False)
    return Codes(codes, column(argument, distinct))


def _with_nulls(argument: str, missing: np.ndarray, present: np.ndarray) -> Codes:
    """Codes of a column of which only the rows that have a label are given."""
    inner = _from_numpy(argument, column(argument, present))
    if inner.categories is None:
        codes, first = factorize(argument, inner.codes)
        inner = Codes(codes, inner.codes[first])
    codes = np.full(missing.size, -1, index_dtype(missing.size))
    codes[~missing] = inner.codes
    return Codes(codes, inner.categories)


# --------------------------------------------------------------------------- reading frames


def is_frame(x: Any) -> bool:
    """Anything with columns by name: a frame of a library, or a mapping."""
    return hasattr(x, "columns") or isinstance(x, Mapping) or hasattr(x, "column_names")


def column_names(frame: Any) -> list[Any]:
    """Names of the columns of a frame."""
    if hasattr(frame, "column_names"):  # pyarrow, whose `columns` are the data
        return list(frame.column_names)
    return list(getattr(frame, "columns", frame))


def listed_names(argument: str, x: Any) -> list[Any]:
    """Names of columns in a given order, which a set does not have."""
    if (
        isinstance(x, (str, bytes, set, frozenset))
        or not isinstance(x, Iterable)
        or _has_shape(x, but=1)
    ):
        fail_type(argument, f"must be a list of column names, not {x!r}.")
    names = list(x)
    for name in names:
        refuse_no_name(argument, name)
    return names


def refuse_no_name(argument: str, x: Any) -> None:
    """Refuse what cannot be compared with the names of columns."""
    try:
        hash(x)
        could_be = isinstance(x, np.generic) or not _has_shape(x)
    except TypeError:
        could_be = False
    if not could_be or isinstance(x, np.void):
        fail_type(argument, f"must be the name of a column, not {x!r}.")


def refuse_no_names(**names: Any) -> None:
    """Refuse arguments that cannot be names of columns; each is given by its own name."""
    for argument, x in names.items():
        if x is None:
            fail_type(argument, "must be the name of a column, not None.")
        refuse_no_name(argument, x)


def _has_shape(x: Any, but: int | None = None) -> bool:
    """Whether `x` is an array, a column or a frame, but for those of `but` dimensions."""
    shape = getattr(x, "shape", None)
    return isinstance(shape, tuple) and len(shape) != but


def take_column(argument: str, frame: Any, name: Any) -> Any:
    """One column of a frame; for pandas, a level of its index may stand for one."""
    refuse_no_name(argument, name)
    names = column_names(frame)
    if names.count(name) > 1:
        fail(argument, f"must name one column each; {name!r} is there {names.count(name)} times.")
    if name in names:
        return frame[name]
    if library(frame) == "pandas" and name in frame.index.names:
        return dict(encode_index(frame.index))[name]
    fail(argument, f"must name columns of the frame, not {name!r}; it has {some(names)}.")
