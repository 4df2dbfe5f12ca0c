"""Summing matrices from all their descriptions: frames, tags, levels, trees and dicts.

Row k of a summing matrix expresses series k as a weighted sum of leaves, nearly always with weights
of 1. Leaves are numbered separately, and for each leaf at least one series consists of it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gmtree import _validate as check
from gmtree.labels.codes import Codes
from gmtree.labels.columns import column_names, encode, encode_index, is_frame, take_column
from gmtree.labels.distinct import column, distinct_labels, is_missing
from gmtree.labels.levels import number_rows
from gmtree.labels.libraries import library
from gmtree.matrix import GenerationMatrix
from gmtree.tree import Tree

SEPARATOR = "/"
TOTAL = "__total"  # sktime's name for sums over a level


class SummingMatrix(NamedTuple):
    """A sparse matrix of shape (series, leaves), and the names of the series.

    `levels` lists rows that belong together, such as all states, if they are known. `leaf_names`
    are the names of the leaves, if the description had them.
    """

    matrix: sparse.csr_array
    labels: np.ndarray
    levels: dict[str, np.ndarray] | None = None
    leaf_names: np.ndarray | None = None


def read_summing(S: Any, tags: Any, spec: Any, id_col: str) -> SummingMatrix:
    """Read a summing matrix from any description that :class:`Structure` accepts."""
    if tags is not None and not isinstance(tags, Mapping):
        check.fail_type("tags", f"must be a dict of levels, not a {type(tags).__name__}.")
    if spec is not None:
        if not is_frame(S):
            check.fail_type("S_df", "must be a frame with the columns that 'spec' names.")
        return from_levels(read_levels(S, spec)[0])
    if S is None:
        if not tags:
            check.fail("S_df", "must be given, unless 'tags' or 'spec' describe the structure.")
        return _from_spelled_tags(tags)
    if isinstance(S, Tree):
        return _from_tree(S)
    if isinstance(S, Mapping):
        return _from_parents(S)
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


def as_csr(argument: str, S: Any) -> sparse.csr_array:
    """Check the entries of a dense or sparse matrix."""
    a = S if hasattr(S, "tocsr") else check.reals(argument, S, booleans=True)
    if a.ndim != 2 or 0 in a.shape:
        check.fail(argument, f"must be a matrix, one row per series, not have shape {a.shape}.")
    matrix = sparse.csr_array(a, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        row = int(np.argmax(~np.isfinite(matrix).toarray().all(axis=1)))
        check.fail(argument, f"must hold finite numbers; row {row} does not.")
    return matrix


def _tag(name: str, ids: Any) -> np.ndarray:
    if isinstance(ids, str) or not (hasattr(ids, "__len__") or isinstance(ids, Iterable)):
        check.fail_type(f"tags[{name!r}]", f"must be a list of series, not {ids!r}.")
    return column(f"tags[{name!r}]", ids if isinstance(ids, np.ndarray) else list(ids))


def _from_matrix(S: Any, labels: np.ndarray, names: np.ndarray | None) -> SummingMatrix:
    matrix = as_csr("S_df", S)
    if labels.size != matrix.shape[0]:
        rows = matrix.shape[0]
        check.fail("tags", f"must name each row of S ({rows}), not {labels.size} series.")
    return SummingMatrix(matrix, distinct_labels("S_df", labels, labels.size), None, names)


def _from_frame(S: Any, id_col: str) -> SummingMatrix:
    """Read a frame with names in a column or in the index, and one column per leaf."""
    names = column_names(S)
    if id_col in names:
        labels: Any = take_column("S_df", S, id_col)
        names.remove(id_col)
    elif library(S) == "pandas" and not check.counts_rows(S.index):
        labels = S.index.to_numpy()
    elif names and np.asarray(S[names[0]]).dtype.kind not in "iufb":
        labels = S[names.pop(0)]
    else:
        check.fail("S_df", f"must have a column {id_col!r} with the names of the series.")
    if not names:
        check.fail("S_df", "must have a column for each leaf.")
    labels = column("S_df", np.asarray(labels))
    if library(S) == "pandas":
        part = S[names]
        is_sparse = all(getattr(dtype, "fill_value", None) == 0 for dtype in part.dtypes)
        matrix = part.sparse.to_coo() if is_sparse else part.to_numpy()
    else:
        matrix = np.column_stack([np.asarray(S[name]) for name in names])
    try:
        return _from_matrix(matrix, labels, column("S_df", names))
    except check.InputTypeError as error:
        note = " If the columns are labels of levels, name these columns in 'spec'."
        raise check.reworded(error, note=note) from None


def _with_tags(found: SummingMatrix, tags: Any) -> SummingMatrix:
    """Add the levels that `tags` describe."""
    if not tags:
        return found
    row_of = {label: k for k, label in enumerate(found.labels.tolist())}
    levels = {}
    for name, ids in tags.items():
        labels = _tag(name, ids).tolist()
        rows = [row_of.get(label, -1) for label in labels]
        if -1 in rows:
            missing = labels[rows.index(-1)]
            check.fail(f"tags[{name!r}]", f"must name series of S_df, not {missing!r}.")
        levels[str(name)] = np.array(rows, np.int64)
    return found._replace(levels=levels)


def _ones(rows: Any, cols: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """A sparse matrix with ones at the given places; `rows` and `cols` are lists of arrays."""
    rows, cols = np.concatenate(rows), np.concatenate(cols)
    return sparse.csr_array((np.ones(rows.size), (rows, cols)), shape)


# --------------------------------------------------------------------------- trees


def _from_tree(tree: Tree) -> SummingMatrix:
    """The nodes of a tree whose labels are the names of the series."""
    if tree.labels is None:
        check.fail("S_df", "must be a tree with labels: they are the names of the series.")
    labels = distinct_labels("S_df", np.asarray(tree.labels), tree.n)
    levels = {f"depth {d}": np.flatnonzero(tree.depth == d) for d in range(1, tree.height + 1)}
    # Row i of the inverse has a 1 for each node whose subtree contains node i.
    matrix = sparse.csr_array(GenerationMatrix(tree).inverse().T[:, tree.leaves])
    return SummingMatrix(matrix, labels, levels, labels[tree.leaves])


def parents_of(hierarchy: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    """Return a list of the series that each series is a part of, from a dict as darts has it."""
    above: dict[Any, list[Any]] = {}
    for child, parents in hierarchy.items():
        several = isinstance(parents, (list, tuple, np.ndarray))
        above[child] = list(parents) if several else [] if parents is None else [parents]
        if any((isinstance(p, str) and not p) or is_missing(p) for p in above[child]):
            check.fail("S_df", f"must name the series that {child!r} is a part of; one has no "
                       "name. Write None if it is part of no series.")  # fmt: skip
    return above


def _from_parents(hierarchy: Mapping[Any, Any]) -> SummingMatrix:
    """Read a dict from each series to the series that it is a part of."""
    above = parents_of(hierarchy)
    if not above:
        check.fail("S_df", "must have at least one series.")
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        check.fail("S_df", f"must have no series that is a part of itself; {error.args[1][0]!r} "
                   "is, indirectly.")  # fmt: skip
    names = list(dict.fromkeys([p for parents in above.values() for p in parents] + list(above)))
    inner = {p for parents in above.values() for p in parents}
    leaves = [name for name in names if name not in inner]
    number = {name: k for k, name in enumerate(names)}
    rows, cols = [], []
    for k, leaf in enumerate(leaves):
        seen, todo = {leaf}, [leaf]
        while todo:
            fresh = [p for p in above.get(todo.pop(), ()) if p not in seen]
            seen.update(fresh)
            todo += fresh
        rows.append([number[name] for name in seen])
        cols.append([k] * len(seen))
    matrix = _ones(rows, cols, (len(names), len(leaves)))
    several = next((name for name, parents in above.items() if len(parents) > 1), None)
    if several is not None and matrix.nnz == matrix.shape[0]:
        check.fail("S_df", "must go from each series to those that it is a part of, such as "
                   f"{{'a': 'all', 'b': 'all'}}; this dict seems to go from {several!r} to its "
                   "parts or to the series of its level. Pass a dict of levels as 'tags'."
                   )  # fmt: skip
    return SummingMatrix(matrix, column("S_df", names), None, column("S_df", leaves))


# --------------------------------------------------------------------------- columns of levels


class Level(NamedTuple):
    """One level of a specification: its series, and the series of each leaf."""

    name: str
    labels: np.ndarray
    of_leaf: np.ndarray


def spec_levels(spec: Any) -> list[list[str]]:
    """Return lists of columns, coarse to fine; names alone stand for levels that nest."""
    if isinstance(spec, str) or not isinstance(spec, Sequence) or not len(spec):
        check.fail_type("spec", f"must be a list of levels, each a list of columns, not {spec!r}.")
    if all(isinstance(level, str) for level in spec):
        return [list(spec[: k + 1]) for k in range(len(spec))]
    for level in spec:
        if isinstance(level, str) or not isinstance(level, Sequence) or not len(level):
            check.fail_type("spec", f"must hold lists of columns, not {level!r}.")
    levels = sorted(([str(name) for name in level] for level in spec), key=len)
    for k, level in enumerate(levels):
        if missing := set(level) - set(levels[-1]):
            check.fail("spec", f"must have all columns in its last level; {missing.pop()!r} is not "
                       "there.")  # fmt: skip
        if level in levels[:k]:
            check.fail("spec", f"must have each level once; {level} is there twice.")
    return levels


def read_levels(frame: Any, spec: Any) -> tuple[list[Level], np.ndarray]:
    """Return the levels of a frame, finest last, and the leaf of each of its rows."""
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
    leaf_of_row, first = number_rows(list(columns.values()), c.codes.size)
    n_leaves = first.size
    at_leaf = {name: Codes(c.codes[first], c.categories) for name, c in columns.items()}
    text = {name: _text(c) for name, c in at_leaf.items()}
    found = []
    for level in levels:
        of_leaf, first = number_rows([at_leaf[name] for name in level], n_leaves)
        parts = [text[name][first] for name in level]
        paths = zip(*parts, strict=True)
        # Names are joined as in hierarchicalforecast.
        joined = parts[0].tolist() if len(parts) == 1 else list(map(SEPARATOR.join, paths))
        order = np.argsort(np.array(joined), kind="stable")
        labels = np.array(joined, dtype=object)[order]
        found.append(Level(SEPARATOR.join(level), labels, _ranks(order)[of_leaf]))
    # Leaves in the order of the series of the last level.
    order = np.argsort(found[-1].of_leaf, kind="stable")
    found = [level._replace(of_leaf=level.of_leaf[order]) for level in found]
    return found, _ranks(order)[leaf_of_row]


def _ranks(order: np.ndarray) -> np.ndarray:
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return rank


def _text(c: Codes) -> np.ndarray:
    """Return the label of each row as text, in an array of objects."""
    if c.categories is None:
        return np.array(list(map(str, c.codes.tolist())), dtype=object)
    return np.array(list(map(str, c.categories.tolist())), dtype=object)[c.codes]


def from_levels(levels: Sequence[Level]) -> SummingMatrix:
    """Return the summing matrix with all series of all levels, in order."""
    n_leaves = levels[-1].of_leaf.size
    offset = np.concatenate([[0], np.cumsum([level.labels.size for level in levels])])
    rows = [level.of_leaf + offset[k] for k, level in enumerate(levels)]
    cols = [np.arange(n_leaves)] * len(levels)
    labels = np.concatenate([level.labels for level in levels])
    if len(set(labels.tolist())) < labels.size:
        labels = distinct_labels("spec", labels, labels.size)
    named = {level.name: np.arange(offset[k], offset[k + 1]) for k, level in enumerate(levels)}
    matrix = _ones(rows, cols, (int(offset[-1]), n_leaves))
    return SummingMatrix(matrix, labels, named, levels[-1].labels)


def _from_spelled_tags(tags: Mapping[str, Any]) -> SummingMatrix:
    """Read tags whose names spell their path, and whose keys name the columns of the path."""
    keys = sorted(tags, key=lambda key: len(str(key).split(SEPARATOR)))
    columns = str(keys[-1]).split(SEPARATOR)
    parts = []
    for label in map(str, _tag(keys[-1], tags[keys[-1]]).tolist()):
        parts.append(label.split(SEPARATOR))
        if len(parts[-1]) != len(columns):
            check.fail(
                f"tags[{keys[-1]!r}]",
                f"must spell the path {keys[-1]} in each name, not {label!r}; give S_df.",
            )
    frame = {name: [part[k] for part in parts] for k, name in enumerate(columns)}
    found = from_levels(read_levels(frame, [str(key).split(SEPARATOR) for key in keys])[0])
    have = set(found.labels.tolist())
    for key in keys:
        for label in _tag(key, tags[key]).tolist():
            if label not in have:
                check.fail(
                    f"tags[{key!r}]",
                    f"must spell the path of each series; {label!r} has no leaf below it. "
                    "Give S_df if names do not spell the structure.",
                )
    return found


# --------------------------------------------------------------------------- sktime


def from_multiindex(index: Any) -> tuple[SummingMatrix, np.ndarray]:
    """Read all levels of an index but the last; return the row of each entry as well.

    A label ``__total`` stands for the sum over that level; names of series are tuples of labels.
    """
    coded = [c for _, c in encode_index(index)[:-1]]
    for c in coded:
        if (missing := c.missing) is not None:
            row = int(np.argmax(missing))
            check.fail("Y_hat_df", f"must have no missing labels in its index; row {row} has one.")
    if not len(index):
        check.fail("Y_hat_df", "must have rows.")
    node, first = number_rows(coded, len(index))
    labels = np.empty(first.size, dtype=object)
    labels[:] = [tuple(c.label(row) for c in coded) for row in first.tolist()]
    total = np.array([[x == TOTAL for x in label] for label in labels.tolist()])
    leaves = np.flatnonzero(~total.any(axis=1))
    if not leaves.size:
        check.fail("Y_hat_df", f"must have series without {TOTAL!r} in its index.")
    rows, cols, levels = [], [], {}
    flags = [Codes(x.astype(np.int64), None) for x in total.T]
    pattern, one = number_rows(flags, len(total))
    for p in range(one.size):
        here = np.flatnonzero(pattern == p)
        both = first[np.concatenate([here, leaves])]
        key = [Codes(coded[k].codes[both], None) for k in np.flatnonzero(~total[one[p]])]
        group, _ = number_rows(key, both.size)
        owner = np.full(int(group.max()) + 1, -1, np.int64)
        owner[group[: here.size]] = here
        found = owner[group[here.size :]]
        rows.append(found[found >= 0])
        cols.append(np.flatnonzero(found >= 0))
        levels[f"level {p}"] = here
    matrix = _ones(rows, cols, (first.size, leaves.size))
    return SummingMatrix(matrix, labels, levels, labels[leaves]), node
