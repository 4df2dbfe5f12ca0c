"""Trees from linked objects of other libraries, and from summing matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gmtree._kernels import tries as kernels
from gmtree._validate import (
    InputTypeError,
    array,
    counts_rows,
    fail,
    fail_type,
    index_dtype,
    shown,
)
from gmtree.labels.columns import column_names, is_frame, row_index, take_column
from gmtree.labels.distinct import column, distinct_labels


def _reader(argument: str, how: Any) -> Callable[[Any], Any]:
    """Return `how` if it is a function, or else a function that reads the attribute `how`."""
    if callable(how):
        return how
    if not isinstance(how, str):
        fail_type(argument, f"must be the name of an attribute or a function, not {how!r}.")

    def read(x: Any) -> Any:
        found = getattr(x, how)
        return found() if callable(found) else found

    return read


def from_objects(
    root: Any, children: Any, label: Any, length: Any
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Parents, labels and lengths of `root` and the objects below it, in depth-first order."""
    below = _reader("children", children)
    found: list[Any] = []
    parent: list[int] = []
    waiting, seen = [(root, -1)], set()
    while waiting:
        x, above = waiting.pop()
        if id(x) in seen:
            earlier = next(i for i, y in enumerate(found) if y is x)
            fail("root", f"must be a tree; node {earlier} ({x!r}) is reached twice.")
        seen.add(id(x))
        found.append(x)  # This reference also prevents the id of the object from being reused.
        parent.append(above)
        try:
            inner = below(x)
            inner = [] if inner is None else list(inner)
        except (AttributeError, TypeError, ValueError) as error:
            rule = f"must return the children of every object; for {x!r} it fails: {error}."
            raise InputTypeError("children", rule) from error
        waiting += [(child, len(found) - 1) for child in reversed(inner)]
    own = np.array(parent, index_dtype(len(parent)))
    return own, _labels_of(found, label), _lengths_of(found, length)


def _labels_of(found: list[Any], label: Any) -> np.ndarray | None:
    if label is None or (isinstance(label, str) and not hasattr(found[0], label)):
        return None
    read = _reader("label", label)
    try:
        labels = [read(x) for x in found]
    except (AttributeError, TypeError, ValueError) as error:
        fail_type("label", f"must return a label or None for every object: {error}.")
    return None if all(x is None for x in labels) else column("label", labels)


def _lengths_of(found: list[Any], length: Any) -> np.ndarray | None:
    if length is None:
        return None
    read = _reader("length", length)
    try:
        lengths = [read(x) for x in found]
        out = np.array([np.nan if x is None else x for x in lengths], np.float64)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        fail_type("length", f"must return a number or None for every object: {error}.")
    if np.isnan(out[0]):
        out[0] = 0
    return out


# --------------------------------------------------------------------------- summing matrices


def from_summing_matrix(S: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Parents, and the labels from a DataFrame that names its rows, or None."""
    labels, names = None, None
    if is_frame(S):
        S, labels, names = _from_frame(S)
    start, cols, shape = ones(S)
    size = np.diff(start)
    if not size.all():
        row = int(np.flatnonzero(size == 0)[0])
        fail("S", f"must have a 1 in every row; {_row(row, labels)} has none.")
    parent, owner, row = nest_rows(start, cols, shape)
    if row >= 0:
        # Find an earlier row that shares leaves with this row, but does not contain it: the
        # smallest one.
        others = np.unique(owner[cols[start[row] : start[row + 1]]])
        others = others[others >= 0]
        other = int(others[np.argmin(size[others])])
        fail(
            "S",
            f"must have rows that are nested or disjoint; {_row(row, labels)} shares only some of "
            f"its leaves with {_row(other, labels)}.",
        )
    if (size[owner] > 1).any():
        leaf = int(np.flatnonzero(size[owner] > 1)[0])
        name = leaf if names is None else shown(names[leaf])
        fail("S", f"must have a row for each single leaf; the leaf of column {name} has none.")
    if labels is not None and names is not None:
        for leaf, row in enumerate(owner.tolist()):
            if labels[row] != names[leaf]:
                fail(
                    "S",
                    f"must have equal names for the row and the column of a leaf; row {row} is "
                    f"named {shown(labels[row])}, and its column {shown(names[leaf])}.",
                )
    return parent.astype(index_dtype(parent.size)), labels


def nest_rows(
    start: np.ndarray, cols: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, int]:
    """The parent of each row, the smallest row with each column, and a row that is not nested.

    If two rows are equal, the first one is the parent. The last result is -1 if all rows are
    nested.
    """
    order = np.argsort(-np.diff(start), kind="stable").astype(start.dtype)
    owner = np.full(shape[1], -1, start.dtype)
    parent = np.full(shape[0], -1, start.dtype)
    row = int(kernels.nest(order, start, cols, owner, parent))
    return parent, owner, row


def _row(row: int, labels: np.ndarray | None) -> str:
    return f"row {row}" if labels is None else f"row {row} ({shown(labels[row])})"


def _from_frame(S: Any) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The matrix, and the names of its rows and columns, or None if it has no names."""
    names = column_names(S)
    first = np.asarray(S[names[0]]) if names else np.empty(0)
    labels = None
    if names and first.dtype.kind not in "iufb":
        labels, names = first, names[1:]
    elif (index := row_index(S)) is not None and not counts_rows(index):
        labels = index.to_numpy()
    if not names:
        fail("S", "must have a column for each leaf.")
    matrix = np.column_stack([np.asarray(take_column("S", S, name)) for name in names])
    if labels is not None:
        labels = distinct_labels("S", column("S", labels), matrix.shape[0])
    return matrix, labels, None if labels is None else column("S", names)


def ones(S: Any, argument: str = "S") -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Row pointers and column numbers of the ones, as in the CSR format, and the shape."""
    if hasattr(S, "tocsr"):
        csr = S.tocsr().copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
        shape, values = csr.shape, csr.data
        start, cols = csr.indptr.astype(np.int64), csr.indices.astype(np.int64)
        rows = np.repeat(np.arange(shape[0]), np.diff(start))
    else:
        a = array(argument, S)
        if a.ndim != 2 or 0 in a.shape:
            fail(argument, f"must be a matrix with one row per node, not have shape {a.shape}.")
        if a.dtype.kind not in "iufb":
            fail_type(argument, f"must hold 0 and 1, not dtype {a.dtype}.")
        shape = a.shape
        rows, cols = np.nonzero(a)
        values = a[rows, cols]
        start = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=start[1:])
    if (values != 1).any():
        k = int(np.flatnonzero(values != 1)[0])
        fail(
            argument, f"must hold only 0 and 1; row {rows[k]} has {values[k]} in column {cols[k]}."
        )
    return start, np.ascontiguousarray(cols, np.int64), shape
