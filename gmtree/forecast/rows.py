"""Which series are sums of which: summing matrices, tags, levels and trees as lists of leaves.

Whatever describes a hierarchy becomes one list of leaves for each series. Labels are those of the
series; leaves are numbered on their own, and each has at least one series that is it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.labels.columns import (
    Codes,
    column_names,
    encode,
    encode_index,
    is_frame,
    library,
    take_column,
)
from gmtree.labels.distinct import column, distinct_labels, is_missing
from gmtree.labels.levels import number_pairs
from gmtree.readers.objects import ones
from gmtree.tree import Tree

SEPARATOR = "/"
TOTAL = "__total"  # sktime's name for "all of them"


class Rows(NamedTuple):
    """Row k is the sum of the leaves ``cols[start[k]:start[k + 1]]``.

    `levels` lists rows that belong together, such as all states; None where nobody said so.
    `leaf_names` are the names of the leaves where the description had them.
    """

    start: np.ndarray
    cols: np.ndarray
    n_leaves: int
    labels: np.ndarray
    levels: dict[str, np.ndarray] | None = None
    leaf_names: np.ndarray | None = None


def read_rows(S: Any, tags: Any, spec: Any, id_col: str) -> Rows:
    """Rows from whatever describes them; see :class:`Structure`."""
    if tags is not None and not isinstance(tags, Mapping):
        check.fail_type("tags", f"must be a dict of levels, not a {type(tags).__name__}.")
    if spec is not None:
        if not is_frame(S):
            check.fail_type("S_df", "must be a frame with the columns that 'spec' names.")
        return from_spec(S, spec)
    if S is None:
        if not tags:
            check.fail("S_df", "must be given, unless 'tags' or 'spec' tell the structure.")
        return from_spelled_tags(tags)
    if isinstance(S, Tree):
        return from_tree(S)
    if isinstance(S, Mapping):
        return from_parents_of(S)
    if hasattr(S, "row_labels") and hasattr(S, "to_csr"):  # hierarchicalforecast's SMatrix
        names = column("S_df", np.asarray(S.col_labels))
        return _with_tags(_from_matrix(S.to_csr(), column("S_df", S.row_labels), names), tags)
    if is_frame(S):
        return _with_tags(_from_frame(S, id_col), tags)
    if not (hasattr(S, "tocsr") or check.array("S_df", S).ndim == 2):
        check.fail_type(
            "S_df",
            f"must be a frame, a matrix, a Tree or a dict of parents, not a {type(S).__name__}.",
        )
    if not tags:
        check.fail("tags", "must name the rows of a summing matrix that has no labels.")
    labels = np.concatenate([_tag(name, ids) for name, ids in tags.items()])
    return _with_tags(_from_matrix(S, labels, None), tags)


def _tag(name: str, ids: Any) -> np.ndarray:
    if isinstance(ids, str) or not (hasattr(ids, "__len__") or isinstance(ids, Iterable)):
        check.fail_type(f"tags[{name!r}]", f"must be a list of series, not {ids!r}.")
    return column(f"tags[{name!r}]", ids if isinstance(ids, np.ndarray) else list(ids))


def _from_matrix(S: Any, labels: np.ndarray, names: np.ndarray | None) -> Rows:
    try:
        start, cols, shape = ones(S)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("'S'", "'S_df'", 1)) from None
    if labels.size != shape[0]:
        check.fail("tags", f"must name each row of S ({shape[0]}), not {labels.size} series.")
    labels = distinct_labels("S_df", labels, shape[0])
    return Rows(start, cols, shape[1], labels, None, names)


def _from_frame(S: Any, id_col: str) -> Rows:
    """A summing matrix in a frame: a column, or the index, of names, and a column per leaf."""
    names = column_names(S)
    if id_col in names:
        labels = column(id_col, np.asarray(take_column("S_df", S, id_col)))
        names = [name for name in names if name != id_col]
    elif library(S) == "pandas" and not check.counts_rows(S.index):
        labels = column("S_df", S.index.to_numpy())
    elif names and np.asarray(S[names[0]]).dtype.kind not in "iufb":
        labels = column("S_df", np.asarray(S[names[0]]))
        names = names[1:]
    else:
        check.fail("S_df", f"must have a column {id_col!r} with the names of the series.")
    if not names:
        check.fail("S_df", "must have a column for each leaf.")
    if library(S) == "pandas":
        part = S[names]
        if all(hasattr(dtype, "fill_value") and dtype.fill_value == 0 for dtype in part.dtypes):
            matrix: Any = part.sparse.to_coo()
        else:
            matrix = part.to_numpy()
    elif library(S) == "polars":
        matrix = S.select(names).to_numpy()
    else:
        matrix = np.column_stack([np.asarray(S[name]) for name in names])
    return _from_matrix(matrix, labels, column("S_df", names))


def _with_tags(rows: Rows, tags: Any) -> Rows:
    """The same rows with the levels that `tags` tell."""
    if not tags:
        return rows
    row_of = {label: k for k, label in enumerate(rows.labels.tolist())}
    levels = {}
    for name, ids in tags.items():
        found = [row_of.get(label, -1) for label in _tag(name, ids).tolist()]
        if -1 in found:
            missing = _tag(name, ids).tolist()[found.index(-1)]
            check.fail(f"tags[{name!r}]", f"must name series of S_df, not {missing!r}.")
        levels[str(name)] = np.array(found, np.int64)
    return rows._replace(levels=levels)


# --------------------------------------------------------------------------- trees


def from_tree(tree: Tree) -> Rows:
    """The nodes of a tree whose labels are the names of the series."""
    if tree.labels is None:
        check.fail("S_df", "must be a tree with labels: they are the names of the series.")
    labels = distinct_labels("S_df", np.asarray(tree.labels), tree.n)
    rows, cols = [tree.leaves], [np.arange(tree.n_leaves)]
    node = tree.parent[tree.leaves]
    while (inside := node >= 0).any():
        rows.append(node[inside])
        cols.append(np.flatnonzero(inside))
        node = np.where(inside, tree.parent[node], -1)
    levels = {f"depth {d}": np.flatnonzero(tree.depth == d) for d in range(1, tree.height + 1)}
    made = _sorted_rows(np.concatenate(rows), np.concatenate(cols), tree.n)
    return Rows(*made, tree.n_leaves, labels, levels, labels[tree.leaves])


def parents_of(hierarchy: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    """For each series of a dict, as darts writes a hierarchy, the list of those it is a part of."""
    above: dict[Any, list[Any]] = {}
    for child, parents in hierarchy.items():
        several = isinstance(parents, (list, tuple, np.ndarray))
        above[child] = list(parents) if several else [] if parents is None else [parents]
        if any((isinstance(p, str) and not p) or is_missing(p) for p in above[child]):
            check.fail("S_df", f"must name the series that {child!r} is a part of; one has no "
                       "name. Write None where there is none.")  # fmt: skip
    return above


def from_parents_of(hierarchy: Mapping[Any, Any]) -> Rows:
    """A dict from each series to those that it is a part of."""
    above = parents_of(hierarchy)
    if not above:
        check.fail("S_df", "must have at least one series.")
    _refuse_rings(above)
    names = list(dict.fromkeys([p for parents in above.values() for p in parents] + list(above)))
    inner = {p for parents in above.values() for p in parents}
    leaves = [name for name in names if name not in inner]
    if len(leaves) == 1 and any(len(parents) > 1 for parents in above.values()):
        check.fail("S_df", f"must have several series without parts; only {leaves[0]!r} is one. "
                   "A dict goes from each series to those that it is a part of, not to its parts: "
                   "{'a': 'all', 'b': 'all'}.")  # fmt: skip
    number = {name: k for k, name in enumerate(names)}
    rows: list[int] = []
    cols: list[int] = []
    for k, leaf in enumerate(leaves):
        seen, todo = {leaf}, [leaf]
        while todo:
            name = todo.pop()
            rows.append(number[name])
            cols.append(k)
            fresh = [p for p in above.get(name, ()) if p not in seen]
            seen.update(fresh)
            todo += fresh
    made = _sorted_rows(np.array(rows), np.array(cols), len(names))
    return Rows(*made, len(leaves), column("S_df", names), None, column("S_df", leaves))


def _refuse_rings(above: dict[Any, list[Any]]) -> None:
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        ring = error.args[1]
        check.fail("S_df", f"must have no series that is its own part; {ring[0]!r} is in a ring.")


def _sorted_rows(rows: np.ndarray, cols: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(rows, kind="stable")
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=start[1:])
    return start, np.ascontiguousarray(cols[order], np.int64)


# --------------------------------------------------------------------------- columns of levels


class Level(NamedTuple):
    """One level of a specification: its series, and which of them each leaf belongs to."""

    name: str
    labels: np.ndarray
    of_leaf: np.ndarray


def spec_levels(spec: Any) -> list[list[str]]:
    """Lists of columns, coarse to fine; names alone stand for levels that nest."""
    if isinstance(spec, str) or not isinstance(spec, Sequence) or not len(spec):
        check.fail_type("spec", f"must be a list of levels, each a list of columns, not {spec!r}.")
    if all(isinstance(level, str) for level in spec):
        return [list(spec[: k + 1]) for k in range(len(spec))]
    levels = []
    for level in spec:
        if isinstance(level, str) or not isinstance(level, Sequence) or not len(level):
            check.fail_type("spec", f"must hold lists of columns, not {level!r}.")
        levels.append([str(name) for name in level])
    levels = sorted(levels, key=len)
    for level in levels:
        if missing := set(level) - set(levels[-1]):
            check.fail("spec", f"must have all columns in its last level; {missing.pop()!r} is not "
                       "there.")  # fmt: skip
    for k, level in enumerate(levels):
        if level in levels[:k]:
            check.fail("spec", f"must have each level once; {level} is there twice.")
    return levels


def number_rows(coded: Sequence[Codes]) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct rows of several columns in order of appearance; first row of each."""
    rows = coded[0].codes.size
    group = np.zeros(rows, np.int64)
    for c in coded:
        number_pairs(group, c.codes.astype(np.int64))
    first = np.empty(int(group.max(initial=-1)) + 1, np.int64)
    first[group[::-1]] = np.arange(rows - 1, -1, -1)
    return group, first


def read_levels(frame: Any, spec: Any) -> tuple[list[Level], np.ndarray]:
    """The levels of a frame, finest last, and the leaf of each of its rows."""
    levels = spec_levels(spec)
    columns: dict[str, Codes] = {}
    for name in levels[-1]:
        c = encode(name, take_column("spec", frame, name))
        if not c.codes.size:
            check.fail(name, "must not be empty.")
        if (missing := c.missing) is not None:
            row = int(np.flatnonzero(missing)[0])
            check.fail(name, f"must have no missing labels; row {row} has none.")
        columns[name] = c
    leaf_of_row, first = number_rows([columns[name] for name in levels[-1]])
    at_leaf = {name: Codes(c.codes[first], c.categories) for name, c in columns.items()}
    text = {name: _text(c) for name, c in at_leaf.items()}
    found = []
    for level in levels:
        of_leaf, first = number_rows([at_leaf[name] for name in level])
        parts = [text[name][first] for name in level]
        paths = zip(*parts, strict=True)
        joined = parts[0].tolist() if len(parts) == 1 else list(map(SEPARATOR.join, paths))
        labels = np.array(joined, dtype=object)
        order = np.argsort(np.array(joined), kind="stable")
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        found.append(Level(SEPARATOR.join(level), labels[order], rank[of_leaf]))
    # Leaves in the order of the series of the last level.
    order = np.argsort(found[-1].of_leaf, kind="stable")
    found = [level._replace(of_leaf=level.of_leaf[order]) for level in found]
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return found, rank[leaf_of_row]


def _text(c: Codes) -> np.ndarray:
    """Labels as text, an array of objects."""
    if c.categories is None:
        return np.array(list(map(str, c.codes.tolist())), dtype=object)
    return np.array(list(map(str, c.categories.tolist())), dtype=object)[c.codes]


def from_spec(frame: Any, spec: Any) -> Rows:
    """Columns of a frame with a row for each leaf, or several: names are joined as Nixtla does."""
    return rows_of_levels(read_levels(frame, spec)[0])


def rows_of_levels(levels: Sequence[Level]) -> Rows:
    """All series of all levels, in order."""
    n_leaves = levels[-1].of_leaf.size
    sizes = [level.labels.size for level in levels]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate([level.of_leaf + offset[k] for k, level in enumerate(levels)])
    made = _sorted_rows(rows, np.tile(np.arange(n_leaves), len(levels)), int(offset[-1]))
    labels = np.concatenate([level.labels for level in levels])
    if len(set(labels.tolist())) < labels.size:
        labels = distinct_labels("spec", labels, labels.size)
    named = {level.name: np.arange(offset[k], offset[k + 1]) for k, level in enumerate(levels)}
    return Rows(*made, n_leaves, labels, named, levels[-1].labels)


def from_spelled_tags(tags: Mapping[str, Any]) -> Rows:
    """Tags alone: names that spell their path, under keys that name its columns."""
    keys = sorted(tags, key=lambda key: len(str(key).split(SEPARATOR)))
    columns = str(keys[-1]).split(SEPARATOR)
    finest = [str(label) for label in _tag(keys[-1], tags[keys[-1]]).tolist()]
    parts = [label.split(SEPARATOR) for label in finest]
    for label, part in zip(finest, parts, strict=True):
        if len(part) != len(columns):
            check.fail(
                f"tags[{keys[-1]!r}]",
                f"must spell the path {keys[-1]} in each name, not {label!r}; give S_df.",
            )
    frame = {name: [part[k] for part in parts] for k, name in enumerate(columns)}
    rows = from_spec(frame, [str(key).split(SEPARATOR) for key in keys])
    have = set(rows.labels.tolist())
    for key in keys:
        for label in _tag(key, tags[key]).tolist():
            if label not in have:
                check.fail(
                    f"tags[{key!r}]",
                    f"must spell the path of each series; {label!r} has no leaf below it. "
                    "Give S_df if names do not tell the structure.",
                )
    return rows


# --------------------------------------------------------------------------- sktime


def from_multiindex(index: Any) -> tuple[Rows, np.ndarray]:
    """Rows from all levels of an index but the last, and the row of each entry.

    A label ``__total`` stands for the sum over that level; names of series are tuples of labels.
    """
    coded = [_with_categories(c) for _, c in encode_index(index)[:-1]]
    for c in coded:
        if (missing := c.missing) is not None:
            row = int(np.argmax(missing))
            check.fail("Y_hat_df", f"must have no missing labels in its index; row {row} has one.")
    if not len(index):
        check.fail("Y_hat_df", "must have rows.")
    node, first = number_rows(coded)
    labels = np.empty(first.size, dtype=object)
    for k, row in enumerate(first.tolist()):
        labels[k] = tuple(c.label(row) for c in coded)
    total = np.zeros((first.size, len(coded)), bool)
    for k, c in enumerate(coded):
        code = np.flatnonzero(np.asarray(c.categories, dtype=object) == TOTAL)
        if code.size:
            total[:, k] = c.codes[first] == code[0]
    leaves = np.flatnonzero(~total.any(axis=1))
    if not leaves.size:
        check.fail("Y_hat_df", f"must have series without {TOTAL!r} in its index.")
    rows, cols, levels = [], [], {}
    pattern, one = number_rows(
        [Codes(total[:, k].astype(np.int64), None) for k in range(len(coded))]
    )
    for p in range(one.size):
        here = np.flatnonzero(pattern == p)
        kept = np.flatnonzero(~total[one[p]])
        key = [
            Codes(coded[k].codes[first[np.concatenate([here, leaves])]], coded[k].categories)
            for k in kept
        ]
        group = number_rows(key)[0] if key else np.zeros(here.size + leaves.size, np.int64)
        owner = np.full(int(group.max()) + 1, -1, np.int64)
        owner[group[: here.size]] = here
        found = owner[group[here.size :]]
        rows.append(found[found >= 0])
        cols.append(np.flatnonzero(found >= 0))
        levels[f"level {p}"] = here
    made = _sorted_rows(np.concatenate(rows), np.concatenate(cols), first.size)
    return Rows(*made, leaves.size, labels, levels, labels[leaves]), node


def _with_categories(c: Codes) -> Codes:
    if c.categories is not None:
        return c
    values, codes = np.unique(c.codes, return_inverse=True)
    return Codes(codes, values.astype(object))
