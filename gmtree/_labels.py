"""Columns of labels into node numbers: what the label constructors of a tree stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmtree._kernels.labels import factorize as factorize_integers
from gmtree._validate import fail, fail_type, index_dtype


def column(argument: str, x: Any) -> np.ndarray:
    """A one-dimensional array of labels of any type."""
    a = np.asarray(x)
    if a.ndim != 1:
        # Labels that are tuples make numpy build a second dimension.
        if isinstance(x, Sequence) and not isinstance(x, str):
            a = np.empty(len(x), dtype=object)
            for k, label in enumerate(x):
                a[k] = label
            return a
        fail(argument, f"must be one-dimensional, not have shape {a.shape}.")
    return a


def is_missing(label: Any) -> bool:
    """None, NaN, NaT and pandas' NA stand for no label."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except TypeError:  # pandas.NA refuses to be true or false
        return True


def factorize(argument: str, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(codes, first): code of each label by first appearance (-1: missing), first row of each."""
    if labels.dtype.kind in "iubfmM":
        return _factorize_numbers(labels)
    codes = np.empty(labels.size, dtype=index_dtype(labels.size))
    first: list[int] = []
    seen: dict[Any, int] = {}
    for k, label in enumerate(labels.tolist()):
        try:
            code = seen.get(label, -1)
        except TypeError:
            fail_type(argument, f"must hold hashable labels; row {k} is {label!r}.")
        if code < 0 and not is_missing(label):
            code = seen[label] = len(first)
            first.append(k)
        codes[k] = code
    return codes, np.array(first, dtype=np.int64)


def factorize_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`factorize` for 64-bit integer keys."""
    size = 1 << max(4, (2 * keys.size - 1).bit_length())
    dtype = index_dtype(keys.size)
    codes = np.empty(keys.size, dtype)
    first = np.empty(keys.size, dtype)
    distinct = factorize_integers(keys, np.full(size, -1, dtype), codes, first)
    return codes, first[:distinct].astype(np.int64)


def _factorize_numbers(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kind = labels.dtype.kind
    missing = None
    if kind in "iub":
        keys = labels.astype(np.int64)
    elif kind == "f":
        # Adding zero makes one label of 0.0 and -0.0.
        keys = (labels.astype(np.float64) + 0.0).view(np.int64)
        missing = np.isnan(labels)
    else:
        keys = labels.astype(labels.dtype.newbyteorder("=")).view(np.int64)
        missing = np.isnat(labels)
    if missing is None or not missing.any():
        return factorize_keys(keys)
    rows = np.flatnonzero(~missing)
    codes = np.full(labels.size, -1, dtype=index_dtype(labels.size))
    codes[rows], first = factorize_keys(keys[rows])
    return codes, rows[first]


def by_sorted_label(labels: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Rank of each code when labels are sorted; first appearance where they cannot be."""
    distinct = labels[first]
    try:
        order = np.argsort(distinct, kind="stable")
    except TypeError:
        return np.arange(first.size)
    rank = np.empty(first.size, dtype=np.int64)
    rank[order] = np.arange(first.size)
    return rank
