"""Frames made from trees: columns of labels, and values beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.columns import LIBRARIES, Codes, library
from gmtree.labels.levels import LevelLabels
from gmtree.labels.locate import level_codes


def narwhals() -> Any:
    """The package through which frames of all kinds are changed alike."""
    return check.optional("narwhals", "frames", "A frame")


def kind_of(argument: str, frame: Any) -> str:
    """The library of a frame."""
    kind, what = library(frame), type(frame).__name__
    if what == "LazyFrame":
        check.fail_type(argument, "must be a frame in memory: call .collect() on a lazy one.")
    if kind is None or what not in ("DataFrame", "Table"):
        check.fail_type(argument, f"must be a frame of pandas, polars or pyarrow, not {what}.")
    return kind


def default_kind(tree: Any) -> str:
    """The kind of frame that a tree was made from, else pandas."""
    labels = tree._labels
    return (labels.kind if isinstance(labels, LevelLabels) else None) or "pandas"


def to_frame(tree: Any, columns: Mapping[str, Any], kind: str | None) -> Any:
    """One row per node: number, parent, depth, labels, and the columns given."""
    kind = default_kind(tree) if kind is None else kind
    check.one_of("kind", kind, LIBRARIES)
    table: dict[str, Any] = {
        "node": np.arange(tree.n, dtype=tree.parent.dtype),
        "parent": tree.parent,
        "depth": tree.depth,
    }
    given = {}
    for name, x in columns.items():
        if name in table:
            check.fail(name, "must have another name: to_frame makes a column of that name.")
        given[name] = _one_per_node(tree, name, x)
    table.update(label_columns(tree, [*table, *given], kind))
    return assemble({**table, **given}, kind)


def _one_per_node(tree: Any, name: str, x: Any) -> Any:
    a = tree._aligned(name, x)
    if library(a) is None and not isinstance(a, np.ma.MaskedArray):
        a = check.array(name, a)
    if np.shape(a) != (tree.n,):
        check.fail(name, f"must have shape ({tree.n},), one per node, not {np.shape(a)}.")
    return a


def label_columns(tree: Any, taken: Collection[str], kind: str) -> dict[str, Any]:
    """For a tree of levels, the label of each node and of all above it; else its own.

    A level called like a column in `taken` gets ``level_`` before its name.
    """
    if tree.level_names is None:
        return {} if tree.labels is None else {"label": _plain_labels(tree.labels, kind)}
    return {
        f"level_{name}" if name in taken else name: label_column(level_codes(tree, k), kind)
        for k, name in enumerate(tree.level_names)
    }


def _plain_labels(labels: np.ndarray, kind: str) -> Any:
    """Labels that are not of levels; text where a library knows no mixed columns."""
    if kind == "pandas" or labels.dtype != object:
        return labels
    listed = labels.tolist()
    if all(x is None or isinstance(x, str) for x in listed):
        return listed
    return [None if x is None else str(x) for x in listed]


def label_column(c: Codes, kind: str) -> Any:
    """A column of a library with the labels that codes stand for, missing where -1."""
    assert c.categories is not None
    package = check.optional(kind, "frames", f"A frame of {kind}")
    categories = c.categories
    if kind == "pandas":
        if categories.dtype.kind in "iub":
            whole = package.array(categories, dtype="boolean" if categories.dtype == bool else None)
            return whole.take(c.codes, allow_fill=True)
        return package.Series(categories).array.take(c.codes, allow_fill=True)
    listed = _plain_labels(categories, kind)
    if kind == "polars":
        # The last entry stands for missing labels, and -1 counts from the end.
        series = package.Series([*np.asarray(listed, dtype=object).tolist(), None])
        where = np.where(c.codes < 0, len(series) - 1, c.codes)
        return series.gather(where)
    arrow = package.array(listed)
    return arrow.take(package.array(c.codes, mask=c.codes < 0))


def assemble(table: Mapping[str, Any], kind: str) -> Any:
    """A frame of columns; entries that are masked are missing."""
    package = check.optional(kind, "frames", f"A frame of {kind}")
    columns = {name: _native(x, kind, package) for name, x in table.items()}
    return package.table(columns) if kind == "pyarrow" else package.DataFrame(columns)


def _native(x: Any, kind: str, package: Any) -> Any:
    """A column as its library takes it."""
    if isinstance(x, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(x)
        if kind == "pandas":
            out = package.array(x.data, dtype="Int64" if x.dtype.kind in "iu" else "Float64")
            out[mask] = package.NA
            return out
        if kind == "polars":
            return package.Series(x.data).set(package.Series(mask), None)
        return package.array(x.data, mask=mask)
    return package.array(x) if kind == "pyarrow" and isinstance(x, (np.ndarray, list)) else x
