"""What the constructors of a tree accept, turned into one parent array and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gmtree._kernels.labels import factorize as factorize_integers
from gmtree._kernels.order import first_repeat
from gmtree._validate import array, fail, fail_type, index_dtype, shown


def column(argument: str, x: Any) -> np.ndarray:
    """A one-dimensional array of labels of any type."""
    if isinstance(x, Sequence) and not isinstance(x, (str, bytes)):
        return _from_sequence(x)
    a = array(argument, x)
    if a.ndim != 1:
        fail(argument, f"must be one-dimensional, not have shape {a.shape}.")
    if a.dtype.kind in "mM" and np.datetime_data(a.dtype)[0] == "ns":
        # Only up to microseconds does numpy give Python's dates and times for single labels.
        coarse = a.astype(f"{a.dtype.kind}8[us]")
        if np.array_equal(coarse[~np.isnat(a)], a[~np.isnat(a)]):
            return coarse
    return a


def _from_sequence(x: Sequence[Any]) -> np.ndarray:
    """The labels as numpy has them, or as objects where it would change one.

    It makes a second dimension of tuples, and a string of a number or NaN among strings.
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
    """None, NaN, NaT and pandas' NA stand for no label."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except TypeError:  # pandas.NA refuses to be true or false
        return True


def factorize(argument: str, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(codes, first): code of each label by first appearance (-1: missing), first row of each."""
    if labels.dtype.kind in "iubfmM" and labels.dtype.itemsize <= 8:
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
    distinct = factorize_integers(keys, _hash(keys), np.full(size, -1, dtype), codes, first)
    return codes, first[:distinct].astype(np.int64)


def _hash(keys: np.ndarray) -> np.ndarray:
    """Let every bit of a key act on the lowest bits of its hash.

    Multiplying by an odd number carries bits upward, the shifts bring them down again: whole
    numbers as floats, or times as nanoseconds, differ only in high bits.
    """
    h = keys.view(np.uint64) ^ (keys.view(np.uint64) >> np.uint64(32))
    h *= np.uint64(0x9E3779B97F4A7C15)
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


# --------------------------------------------------------------------------- constructors


def distinct_labels(argument: str, labels: Any, n: int) -> np.ndarray:
    """One label per node, no two the same."""
    labels = column(argument, labels)
    if labels.size != n:
        fail(argument, f"must have length {n}, not {labels.size}.")
    codes, first = factorize(argument, labels)
    _refuse_missing(argument, codes, "node")
    if first.size < labels.size:
        repeat = _first_repeat(codes)
        fail(argument, f"must be distinct; node {repeat} repeats {shown(labels[repeat])}.")
    return labels


def from_edges(child: Any, parent: Any) -> tuple[np.ndarray, np.ndarray]:
    """Parents and labels from two columns of labels."""
    child, parent = column("child", child), column("parent", parent)
    if child.size != parent.size:
        fail("parent", f"must be as long as 'child' ({child.size}), not {parent.size}.")
    if child.size == 0:
        fail("child", "must not be empty: a tree has at least one node.")
    both = _concatenate(child, parent)
    try:
        codes, first = factorize("child", both)
    except TypeError:
        # One of these says in which column and row it is.
        factorize("child", child)
        factorize("parent", parent)
        raise
    m = child.size
    _refuse_missing("child", codes[:m], "row")
    numbers = np.full(codes.size, -1, dtype=np.int64)
    known = codes >= 0
    numbers[known] = by_sorted_label(both, first)[codes[known]]
    if np.bincount(numbers[:m]).max() > 1:
        repeat = _first_repeat(numbers[:m])
        earlier = int(np.flatnonzero(numbers[:m] == numbers[repeat])[0])
        fail(
            "child",
            f"must name each node once, since a node has one parent; {shown(child[repeat])} "
            f"is in rows {earlier} and {repeat}.",
        )
    labels = np.empty(first.size, dtype=both.dtype)
    labels[numbers[first]] = both[first]
    own = np.full(first.size, -1, dtype=index_dtype(first.size))
    own[numbers[:m]] = numbers[m:]
    return own, labels


def from_levels(
    columns: tuple[Any, ...], levels: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Parents, labels and names of the levels from one column per level."""
    cols, names = _level_columns(columns, levels)
    rows = cols[0].size
    # Each row's node in the level above, counted from that level's first node.
    above = np.zeros(rows, dtype=np.int64)
    parents = [np.full(1, -1, dtype=np.int64)]
    labels = [np.array(["total"], dtype=object)]
    offset, size_above = 0, 1
    for depth, (name, col) in enumerate(zip(names, cols, strict=True)):
        codes, first = factorize(name, col)
        _refuse_missing(name, codes, "row", "; every row must reach the last level.")
        if depth == 0 and first.size == 1:
            labels = [col[:1].astype(object)]
            continue
        if depth == len(cols) - 1:
            nodes, first = _distinct_rows(above * np.int64(first.size) + codes, cols)
        else:
            nodes, first = factorize_keys(above * np.int64(first.size) + codes)
        parents.append(above[first] + offset)
        labels.append(col[first].astype(object))
        offset += size_above
        size_above = first.size
        above = nodes.astype(np.int64)
    if len(parents) == 1 and rows > 1:
        fail(names[0], "must hold one row per leaf; row 1 repeats row 0.")
    parent = np.concatenate(parents)
    own = parent.astype(index_dtype(parent.size))
    return own, np.concatenate(labels), tuple(names)


def from_linkage(Z: Any) -> np.ndarray:
    """Parents from a linkage matrix."""
    z = array("Z", Z)
    if z.dtype.kind not in "iuf":
        fail_type("Z", f"must hold real numbers, not dtype {z.dtype}.")
    if z.ndim != 2 or z.shape[1] != 4 or z.shape[0] == 0:
        fail("Z", f"must have shape (m - 1, 4), not {z.shape}.")
    merged = z[:, :2]
    m = z.shape[0] + 1
    limit = np.arange(m, 2 * m - 1)[:, None]
    exists = (merged >= 0) & (merged < limit) & (merged == np.floor(merged))
    bad = np.flatnonzero(~exists.all(axis=1))
    if bad.size:
        k = bad[0]
        fail(
            "Z",
            f"must join clusters that exist: row {k} joins {z[k, 0]:g} and {z[k, 1]:g}, "
            f"but clusters so far are 0 to {m + k - 1}.",
        )
    joined = merged.astype(np.int64).ravel()
    if np.bincount(joined).max() > 1:
        k = _first_repeat(joined)
        fail("Z", f"must join each cluster once; row {k // 2} joins {joined[k]} again.")
    own = np.full(2 * m - 1, -1, dtype=index_dtype(2 * m - 1))
    own[joined] = np.repeat(np.arange(m, 2 * m - 1), 2)
    return own


def from_networkx(graph: Any) -> tuple[np.ndarray, np.ndarray]:
    """Parents and labels from a digraph."""
    if not (hasattr(graph, "is_directed") and hasattr(graph, "edges")):
        fail_type("graph", f"must be a networkx DiGraph, not {type(graph).__name__}.")
    if not graph.is_directed():
        fail_type("graph", "must be directed, with edges from parent to child.")
    nodes = list(graph.nodes)
    if not nodes:
        fail("graph", "must not be empty: a tree has at least one node.")
    number = {label: i for i, label in enumerate(nodes)}
    own = np.full(len(nodes), -1, dtype=index_dtype(len(nodes)))
    for parent, child in graph.edges():
        i = number[child]
        if own[i] >= 0:
            fail("graph", f"must be a tree; node {child!r} has two parents.")
        own[i] = number[parent]
    return own, column("graph", nodes)


def _first_repeat(codes: np.ndarray) -> int:
    """First row whose code occurred before."""
    seen = np.zeros(int(codes.max()) + 1, dtype=np.uint8)
    return int(first_repeat(codes, seen))


def _refuse_missing(argument: str, codes: np.ndarray, per: str, more: str = ".") -> None:
    missing = np.flatnonzero(codes < 0)
    if missing.size:
        fail(argument, f"must have no missing labels; {per} {missing[0]} has none{more}")


def _concatenate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One column from two, as objects where a common type would change a label."""
    kinds = {a.dtype.kind, b.dtype.kind}
    if kinds <= set("iubf"):
        common = np.result_type(a, b).kind != "f" or (_fits_float(a) and _fits_float(b))
    else:
        common = len(kinds) == 1 and "V" not in kinds
    if not common:
        a, b = a.astype(object), b.astype(object)
    return np.concatenate([a, b])


def _fits_float(a: np.ndarray) -> bool:
    """Whether numbers stay what they are as 64-bit floats."""
    return a.dtype.kind == "f" or a.size == 0 or max(-int(a.min()), int(a.max())) <= 2**53


def _level_columns(
    columns: tuple[Any, ...], levels: Sequence[str] | None
) -> tuple[list[np.ndarray], list[str]]:
    """The columns and their names, from columns or from a frame."""
    if levels is not None and isinstance(levels, str):
        fail_type("levels", f"must be a list of column names, not {levels!r}.")
    if levels is not None and not isinstance(levels, Iterable):
        fail_type("levels", f"must be a list of column names, not {levels!r}.")
    names = None if levels is None else list(levels)
    if len(columns) == 1 and names is None and _is_frame(columns[0]):
        names = list(getattr(columns[0], "columns", columns[0]))
    if len(columns) == 1 and names is not None and _is_frame(columns[0]):
        frame, columns = columns[0], ()
        for name in names:
            try:
                columns += (frame[name],)
            except (KeyError, TypeError, ValueError, IndexError):
                fail("levels", f"must name columns of the frame, not {name!r}.")
    if not columns:
        fail("levels", "must give at least one level.")
    if names is None:
        names = [f"level {k}" for k in range(len(columns))]
    if len(names) != len(columns):
        fail("levels", f"must have one name per column ({len(columns)}), not {len(names)}.")
    cols = [column(name, c) for name, c in zip(names, columns, strict=True)]
    for name, c in zip(names, cols, strict=True):
        if c.size != cols[0].size:
            fail(name, f"must have as many rows as {names[0]!r} ({cols[0].size}), not {c.size}.")
    if cols[0].size == 0:
        fail(names[0], "must not be empty: a tree has at least one node.")
    return cols, [str(name) for name in names]


def _is_frame(x: Any) -> bool:
    """Anything indexed by column name."""
    return hasattr(x, "columns") or isinstance(x, Mapping)


def _distinct_rows(keys: np.ndarray, cols: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Each row a node of its own; refuse a row that repeats another."""
    codes, first = factorize_keys(keys)
    if first.size < keys.size:
        row = _first_repeat(codes)
        earlier = int(first[codes[row]])
        path = " / ".join(str(c[row]) for c in cols)
        fail("levels", f"must give one row per leaf; row {row} repeats row {earlier}: {path}.")
    return codes, first
