"""Columns of labels of any type: distinct labels numbered by hashing, nodes found by label."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gmtree._kernels.labels import factorize as factorize_by_hash
from gmtree._kernels.labels import hash_texts
from gmtree._kernels.order import first_repeat
from gmtree._validate import array, fail, fail_type, index_dtype, shown, some

# Texts up to this length are stored in numpy arrays, which use the space of the longest text, at
# four bytes per character, for every text.
LONGEST_TEXT = 32

# The key of the hash function: two odd numbers, drawn at random in each process. With a fixed key,
# an attacker could prepare a file in which all labels have the same hash, so that reading it takes
# quadratic time. Labels are numbered by first appearance, so that the key never changes a result.
KEY = np.frombuffer(os.urandom(16), np.uint64) | np.uint64(1)


def column(argument: str, x: Any) -> np.ndarray:
    """A one-dimensional array of labels of any type."""
    if isinstance(x, Sequence) and not isinstance(x, (str, bytes)):
        return _from_sequence(x)
    a = array(argument, x)
    if a.ndim != 1:
        fail(argument, f"must be one-dimensional, not have shape {a.shape}.")
    if a.dtype.kind in "mM" and np.datetime_data(a.dtype)[0] == "ns":
        # Numpy converts a single label to a date or time of Python only at a resolution of
        # microseconds or coarser.
        coarse = a.astype(f"{a.dtype.kind}8[us]")
        if np.array_equal(coarse[~np.isnat(a)], a[~np.isnat(a)]):
            return coarse
    return a


def as_objects(a: np.ndarray, *, days_as_times: bool = False) -> np.ndarray:
    """Labels as Python objects; times that Python cannot represent stay numpy objects.

    Numpy would convert years beyond 9999 and nanoseconds to bare integers. In Python a date never
    equals a time, so `days_as_times` converts dates to the times at which they begin.
    """
    a = np.asarray(a)
    if a.dtype.kind not in "mM":
        return a.astype(object)
    coarse = a
    if np.datetime_data(a.dtype)[0] in ("ns", "ps", "fs", "as"):
        coarse = a.astype(f"{a.dtype.kind}8[us]")
    out = coarse.astype(object)
    lossy = coarse.astype(a.dtype) != a
    for k, item in enumerate(out):
        if lossy[k] or type(item) is int:
            out[k] = a[k]
        elif days_as_times and type(item) is dt.date:
            out[k] = dt.datetime(item.year, item.month, item.day)
    return out


def _from_sequence(x: Sequence[Any]) -> np.ndarray:
    """The labels as a numpy array, of Python objects if another type would change a label.

    Numpy makes a second dimension of tuples, and converts a number or NaN among strings to a
    string.
    """
    try:
        a = np.asarray(x)
    except ValueError:
        a = np.empty((0, 0))
    if a.ndim == 1 and (a.dtype == object or a.tolist() == list(x)):
        return a
    a = np.empty(len(x), dtype=object)
    for k, label in enumerate(x):
        a[k] = label
    return a


def is_missing(label: Any) -> bool:
    """Whether an object marks a missing label: None, NaN, NaT or pandas' NA."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except TypeError:  # pandas.NA has no truth value.
        return True


def factorize(argument: str, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair (codes, first): equal labels get equal codes, numbered by first appearance.

    A missing label has the code -1; ``first[c]`` is the row where code c first appears.
    """
    if labels.dtype.kind in "iubfmM" and labels.dtype.itemsize <= 8:
        return _factorize_numbers(labels)
    if labels.dtype.kind == "U" and labels.dtype.itemsize:
        return _factorize_texts(labels)
    objects = labels.tolist()
    texts = _as_texts(objects) if labels.dtype == object else None
    return _factorize_objects(argument, objects) if texts is None else _factorize_texts(texts)


def _factorize_objects(argument: str, labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """`factorize` with Python's own hashing, but without a Python loop over the rows."""
    n, dtype = len(labels), index_dtype(len(labels))
    try:
        distinct = dict.fromkeys(labels)
    except TypeError:
        k = next(k for k, label in enumerate(labels) if not is_hashable(label))
        kind = type(labels[k]).__name__  # Labels may be private, but their types are public.
        fail_type(argument, f"must hold hashable labels; row {k} holds a {kind}.")
    present = 0
    for label in distinct:
        if type(label) is not str and is_missing(label):
            distinct[label] = -1
        else:
            distinct[label] = present
            present += 1
    codes = np.fromiter(map(distinct.__getitem__, labels), dtype, n)
    first = np.empty(present, np.int64)
    # Rows are written in reverse, so that the first row of each code is written last.
    rows = np.flatnonzero(codes >= 0)[::-1]
    first[codes[rows]] = rows
    return codes, first


def is_hashable(label: Any) -> bool:
    """Whether an object can be a label, which is looked up in dictionaries."""
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _factorize_texts(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`factorize` for an array of numpy texts without missing labels."""
    texts = _characters(labels)
    hashes = np.empty(labels.size, np.uint64)
    with np.errstate(over="ignore"):  # Hashing relies on integer overflow.
        hash_texts(texts, hashes, KEY)
    return _number(texts, hashes)


def _as_texts(labels: list[Any]) -> np.ndarray | None:
    """Labels as an array of numpy texts, which sorts and hashes faster; None if a text is long."""
    if set(map(type, labels)) != {str} or max(map(len, labels)) > LONGEST_TEXT:
        return None
    # Numpy treats NUL characters at the end of a text as padding, and has no type for empty texts.
    has_zeros = "\0" in "".join(labels)
    return None if has_zeros or not any(labels) else np.array(labels, dtype=str)


def _characters(labels: np.ndarray) -> np.ndarray:
    """The characters of numpy texts as numbers, one row per text."""
    own = np.ascontiguousarray(labels, labels.dtype.newbyteorder("="))
    characters = own.view(np.uint32).reshape(labels.size, own.dtype.itemsize // 4)
    # A read-only view, so that the kernel is compiled only once.
    characters.flags.writeable = False
    return characters


def _number(keys: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`factorize` for numbers, or for rows of numbers, with given hashes."""
    n, dtype = hashes.size, index_dtype(hashes.size)
    table = np.full(1 << max(4, (2 * n - 1).bit_length()), -1, dtype)
    codes, first = np.empty(n, dtype), np.empty(n, dtype)
    distinct = factorize_by_hash(keys, hashes, table, codes, first)
    return codes, first[:distinct].astype(np.int64)


def _hash(keys: np.ndarray) -> np.ndarray:
    """Hashes in which every bit of a key affects the lowest bits.

    Integers stored as floats, and times in nanoseconds, often differ in high bits only. Multiplying
    by an odd number carries bits upward, and the shifts bring them down again.
    """
    h = keys.view(np.uint64) * KEY[0]
    h ^= h >> np.uint64(32)
    h *= KEY[1]
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return h


def _factorize_numbers(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kind = labels.dtype.kind
    missing = None
    if kind in "iub":
        keys = labels.astype(np.int64)
    elif kind == "f":
        # Adding zero turns -0.0 into 0.0, so that the two are equal labels.
        keys = (labels.astype(np.float64) + 0.0).view(np.int64)
        missing = np.isnan(labels)
    else:
        keys = labels.astype(labels.dtype.newbyteorder("=")).view(np.int64)
        missing = np.isnat(labels)
    if missing is None or not missing.any():
        return _number(keys, _hash(keys))
    rows = np.flatnonzero(~missing)
    codes = np.full(labels.size, -1, dtype=index_dtype(labels.size))
    codes[rows], first = _number(keys[rows], _hash(keys[rows]))
    return codes, rows[first]


def by_sorted_label(labels: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Rank of each code among the sorted labels.

    Labels that cannot be sorted are ranked by first appearance.
    """
    distinct = labels[first]
    try:
        if distinct.dtype == object:
            keys = distinct.tolist()
            texts = _as_texts(keys)
            if texts is not None:
                order = _sorted_texts(texts)
            else:
                # Python sorts objects several times as fast as numpy.
                order = np.array(sorted(range(first.size), key=keys.__getitem__), dtype=np.int64)
        elif distinct.dtype.kind == "U" and distinct.dtype.itemsize:
            order = _sorted_texts(distinct)
        else:
            order = np.argsort(distinct, kind="stable")
    except (TypeError, OverflowError):  # Numpy cannot compare times whose units differ too much.
        return np.arange(first.size)
    rank = np.empty(first.size, dtype=np.int64)
    rank[order] = np.arange(first.size)
    return rank


def _sorted_texts(labels: np.ndarray) -> np.ndarray:
    """The sorted order of distinct texts; eight one-byte characters are compared at a time."""
    characters = _characters(labels)
    width = characters.shape[1]
    if width > LONGEST_TEXT or (labels.size and characters.max() > 255):
        return np.argsort(labels, kind="stable")
    packed = np.zeros((labels.size, -(-width // 8) * 8), np.uint8)
    packed[:, :width] = characters
    words = packed.view(">u8").astype(np.uint64)
    return np.lexsort(words.T[::-1])


def distinct_labels(argument: str, labels: Any, n: int) -> np.ndarray:
    """An array with one distinct label per node."""
    labels = column(argument, labels)
    if labels.size != n:
        fail(argument, f"must have one label per node ({n}), not {labels.size}.")
    codes, first = factorize(argument, labels)
    refuse_missing(argument, codes, "node")
    if first.size < labels.size:
        repeat = first_repeated(codes)
        fail(
            argument, f"must be distinct; node {repeat} repeats the label {shown(labels[repeat])}."
        )
    return labels


def first_repeated(codes: np.ndarray) -> int:
    """First row whose code occurs in an earlier row."""
    seen = np.zeros(int(codes.max()) + 1, dtype=np.uint8)
    return int(first_repeat(codes, seen))


def refuse_missing(argument: str, codes: np.ndarray, per: str, more: str = ".") -> None:
    """Refuse missing labels, naming the first row, column or node (`per`) without one."""
    missing = np.flatnonzero(codes < 0)
    if missing.size:
        fail(argument, f"must have no missing labels; {per} {missing[0]} has none{more}")


def concatenate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The labels of two columns in one array, of objects if a common type would change a label."""
    kinds = {a.dtype.kind, b.dtype.kind}
    if kinds <= set("iubf"):
        common = np.result_type(a, b).kind != "f" or (_fits_float(a) and _fits_float(b))
    elif kinds in ({"m"}, {"M"}):
        common = a.dtype == b.dtype  # A common unit could overflow.
    else:
        common = len(kinds) == 1 and "V" not in kinds
    if not common:
        times = any(isinstance(x, (dt.datetime, np.datetime64)) for c in (a, b) for x in c)
        a, b = (as_objects(x, days_as_times=times) for x in (a, b))
    return np.concatenate([a, b])


def _fits_float(a: np.ndarray) -> bool:
    """Whether all numbers are exact as 64-bit floats."""
    return a.dtype.kind == "f" or a.size == 0 or max(-int(a.min()), int(a.max())) <= 2**53


# --------------------------------------------------------------------------- looking labels up


def _spellings(label: Any) -> Iterator[Any]:
    """The label, and the Python objects that denote it if it is a date, a time or a duration."""
    yield label
    if isinstance(label, (np.datetime64, np.timedelta64)):
        label = as_objects(np.array([label]))[0]
        yield label
    if isinstance(label, dt.datetime):
        if label.isoformat().endswith("T00:00:00"):
            yield label.date()
    elif isinstance(label, dt.date):
        yield dt.datetime(label.year, label.month, label.day)


class LabelIndex:
    """Dictionaries that map labels, and paths of labels, to nodes."""

    def __init__(self, labels: np.ndarray, parent: np.ndarray) -> None:
        self._node: dict[Any, int] = {}  # -1 if several nodes have the label
        self._child: dict[tuple[int, Any], int] = {}
        self._twins: dict[tuple[int, Any], list[int]] = {}  # siblings that repeat a label
        for i, (label, above) in enumerate(zip(as_objects(labels), parent.tolist(), strict=True)):
            self._node[label] = -1 if label in self._node else i
            if self._child.setdefault((above, label), i) != i:
                self._twins.setdefault((above, label), []).append(i)
        self._root = int(np.argmin(parent))  # The root has the parent -1.

    def node(self, argument: str, label: Any) -> int:
        """The one node with this label, or at this path of labels."""
        try:
            i = self._node.get(self._spelling(label))
            found = self._at_path(label) if i is None and isinstance(label, tuple) else []
        except TypeError:
            fail_type(argument, f"must be hashable, not {label!r}.")
        if len(found) > 1:
            fail(
                argument,
                f"must identify one node; nodes {some(found)} have the same path, because siblings "
                "share a label or have none. Use the number of the node instead.",
            )
        i = found[0] if found else i
        if i is None:
            fail(argument, f"must be a label of this tree, not {label!r}.")
        if i < 0:
            fail(
                argument,
                f"must identify one node; several nodes have the label {label!r}. Pass a path, "
                "which is a tuple of labels.",
            )
        return i

    def _at_path(self, path: tuple[Any, ...]) -> list[int]:
        """The nodes at a path that starts at the root, or else one level below the root."""
        if not path:
            return []
        steps = [self._spelling(step) for step in path]
        return self._down(-1, steps) or self._down(self._root, steps)

    def _down(self, i: int, steps: list[Any]) -> list[int]:
        found = [i]
        for step in steps:
            found = [child for above in found for child in self._called(above, step)]
        return found

    def _called(self, above: int, label: Any) -> list[int]:
        """The children of a node that have a given label."""
        first = self._child.get((above, label))
        return [] if first is None else [first, *self._twins.get((above, label), ())]

    def _spelling(self, label: Any) -> Any:
        """The label as it is stored in this tree; equal times may have different types."""
        return next((x for x in _spellings(label) if x in self._node), label)
