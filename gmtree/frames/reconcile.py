"""Consistent values for tidy frames: many dates and products in one sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.frames.leaves import tree_of_levels
from gmtree.labels.columns import Codes, column_names, encode, library, listed_names, take_column
from gmtree.labels.levels import build as build_tree
from gmtree.labels.levels import (
    number_pairs,
    path_of_row,
    read_levels,
    refuse_empty,
    refuse_total,
)
from gmtree.labels.locate import level_codes, locate, named_node
from gmtree.labels.measurements import numbers, variance_by_level
from gmtree.labels.table import assemble, kind_of, label_column, narwhals
from gmtree.tree import Tree

Frame = TypeVar("Frame")


def reconcile_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str | Sequence[str],
    *,
    variance: Any = None,
    nonnegative: bool = False,
    integer: bool = False,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
) -> Frame:
    """Make the values of a frame add up, with the least change.

    Each row is a node of the hierarchy that the columns `levels` make, known by its labels: the
    columns of finer levels are missing (None, NaN) in the row of a coarser node, and all are
    missing in that of the total; the empty text ``""`` is refused. Rows may come in any order.
    Nodes without a row, or whose value is missing, were not measured; their values follow from
    the others. Standard errors are those of :meth:`Consistency.node_variance`, for a tree made with
    :meth:`Tree.from_levels` and measurements read by :meth:`Tree.values`.

    Parameters
    ----------
    frame : frame of pandas, polars or pyarrow
        One row per node, or per leaf, for each group of `by`.
    levels : list of str
        Columns of labels, coarse to fine.
    value : str or list of str
        Column of values, or several, each of which is made consistent.
    variance : optional
        Variance of each value: one number, the name of a column, or a dict with a number for
        each level (the root is ``"total"``; levels it does not name have 1). Equal by default; 0
        keeps a value as it is.
    nonnegative, integer : bool
        See :meth:`Consistency.project`.
    by : str or list of str
        Columns, such as a date and a product: rows with the same entries are measurements of the
        same hierarchy by themselves. Without `tree`, each group must have a row for each leaf: one
        without a value where it was not measured. Groups whose leaves differ are hierarchies of
        their own, to be reconciled one by one.
    tree : Tree or frame, optional
        The hierarchy, or a frame with a row for each leaf. Labels that it does not have are then
        refused. By default it is made of the rows.
    threads : int, optional
        See :class:`Consistency`.

    Returns
    -------
    frame of the same kind
        The rows as they were, with consistent values, followed by rows for the nodes that had
        none, in which other columns are missing. In pandas, rows keep their entries in an index
        of whole numbers, and added rows get the next ones; where rows are added to a frame with
        another index, the result counts its rows from 0.

    Raises
    ------
    ValueError
        If a node comes twice in a group, or its value cannot be told from the others: also where
        only the sum of several siblings is known, which :class:`Consistency` splits evenly.

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> sold = pd.DataFrame({
    ...     "shop": ["a", "b", None] * 2,
    ...     "month": [1, 1, 1, 2, 2, 2],
    ...     "sales": [5.0, 3.0, 11.0, 4.0, 4.0, 8.0],
    ... })
    >>> gm.reconcile_frame(sold, levels=["shop"], value="sales", by="month").sales.tolist()
    [6.0, 4.0, 10.0, 4.0, 4.0, 8.0]
    """
    kind = kind_of("frame", frame)
    solved = solve(
        frame, levels, value, variance, nonnegative, integer, by=by, tree=tree, threads=threads
    )
    return _written(_flat(frame, solved), kind, solved)


class Solved(NamedTuple):
    """Consistent values for the rows of a table, and for the nodes that had no row."""

    tree: Tree
    levels: list[str]
    by: list[str]
    values: dict[str, np.ndarray]
    more_values: dict[str, np.ndarray]
    more_nodes: np.ndarray
    more_like: np.ndarray  # a row of the same group


def solve(
    frame: Any,
    levels: Sequence[str],
    value: str | Sequence[str],
    variance: Any,
    nonnegative: bool,
    integer: bool,
    *,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
    by_option: str = "'by'",
) -> Solved:
    """What :func:`reconcile_frame` does, for anything with columns by name.

    `by_option` is what messages call the argument `by`.
    """
    levels = listed_names("levels", levels)
    by = _listed("by", by)
    names = _listed("value", value)
    if not names:
        check.fail("value", "must name at least one column.")
    _refuse_overlap(levels, names, by, variance)
    coded, level_names, kind = read_levels((frame,), levels)
    refuse_empty(coded, level_names)
    is_made_of_rows = tree is None
    if is_made_of_rows:
        made = build_tree(coded, level_names, kind)
        refuse_total(made, coded, level_names)
        tree, node = Tree._from_level_tree(made), made.node
    else:
        tree = tree_of_levels(tree, level_names)
        node = locate(tree, "levels", list(zip(level_names, coded, strict=True)))
    group, first = _groups(frame, by, node.size)
    groups, columns = first.size, len(names)
    present = _rows_of(node, group, tree.n, groups, coded, by_option)
    if is_made_of_rows:
        _refuse_missing_leaves(
            tree, present.reshape(tree.n, groups), lambda k: _in_group(frame, by, first[k])
        )
    # One right-hand side for each column of values in each group.
    side = [group * columns + k for k in range(columns)]
    noisy = np.full((tree.n, groups * columns), np.nan)
    for k, name in enumerate(names):
        x = numbers(name, take_column("value", frame, name))
        _refuse_infinite(name, x, coded)
        noisy[node, side[k]] = x
    s = _variances(frame, tree, variance, node, side, noisy)
    x = _project(
        tree,
        s,
        noisy,
        threads,
        lambda j: _in_group(frame, by, first[j // columns]),
        {"nonnegative": nonnegative, "integer": integer},
    )
    where, of = np.divmod(np.flatnonzero(~present), groups)
    return Solved(
        tree,
        level_names,
        by,
        {name: x[node, side[k]] for k, name in enumerate(names)},
        {name: x[where, of * columns + k] for k, name in enumerate(names)},
        where,
        first[of],
    )


def _refuse_infinite(name: str, x: np.ndarray, coded: Sequence[Codes]) -> None:
    """Refuse infinite values by the name of their column; NaN means that there is none."""
    infinite = np.flatnonzero(np.isinf(x))
    if infinite.size:
        row = int(infinite[0])
        where = (
            f"row {row}, {path_of_row(coded, row)},"
            if coded[0].label(row) is not None
            else (f"row {row}, the total,")
        )
        check.fail(name, f"must be finite or missing; {where} is {x[row]}.")


def _listed(argument: str, x: Any) -> list[str]:
    return [x] if isinstance(x, str) else listed_names(argument, x)


def _refuse_overlap(levels: list[str], names: list[str], by: list[str], variance: Any) -> None:
    used = [*levels, *names, *by]
    used += [variance] if isinstance(variance, str) else []
    for k, name in enumerate(used):
        if name in used[:k]:
            check.fail("levels", f"must differ from 'value', 'by' and 'variance'; {name!r} is two.")


def _groups(frame: Any, by: list[str], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row, and the first row of each group."""
    group = np.zeros(rows, np.int64)
    for name in by:
        c = encode(name, take_column("by", frame, name))
        if c.missing is not None:
            row = int(np.flatnonzero(c.missing)[0])
            check.fail(name, f"must have no missing entries; row {row} has none.")
        number_pairs(group, c.codes.astype(np.int64))
    first = np.empty(int(group.max()) + 1, np.int64)
    first[group[::-1]] = np.arange(rows - 1, -1, -1)
    return group, first


def _in_group(frame: Any, by: list[str], row: int) -> str:
    """Where, for a message: the entries of a row in the columns `by`."""
    entries = (encode(name, take_column("by", frame, name)).label(row) for name in by)
    told = [f"{name} {check.shown(x)}" for name, x in zip(by, entries, strict=True)]
    return f" in the group {', '.join(told)}" if told else ""


def _rows_of(
    node: np.ndarray,
    group: np.ndarray,
    n: int,
    groups: int,
    coded: Sequence[Codes],
    by_option: str,
) -> np.ndarray:
    """Which nodes have a row in which group, flat; a node that has two is refused."""
    key = node.astype(np.int64) * groups + group
    present = np.zeros(n * groups, bool)
    present[key] = True
    if np.count_nonzero(present) < key.size:
        order = np.argsort(key, kind="stable")
        again = order[1:][np.diff(key[order]) == 0]
        row = int(again.min())
        earlier = int(np.flatnonzero(key == key[row])[0])
        check.fail(
            "frame",
            f"must have each node once in each group; rows {earlier} and {row} are both "
            f"{path_of_row(coded, row)}. Name what tells them apart in {by_option}.",
        )
    return present


def _refuse_missing_leaves(tree: Tree, present: np.ndarray, in_group: Callable[[int], str]) -> None:
    """Refuse a leaf without a row in a group: it may be unmeasured there, or not exist there."""
    missing = np.argwhere(~present[tree.leaves])
    if missing.size:
        leaf, group = missing[0]
        check.fail(
            "frame",
            f"must have a row for each leaf in each group; {named_node(tree, tree.leaves[leaf])} "
            f"has none{in_group(group)}. If it was not measured there, give it a row without a "
            "value. If it does not exist there, reconcile that group by itself.",
        )


def _variances(
    frame: Any, tree: Tree, variance: Any, node: np.ndarray, side: Any, noisy: np.ndarray
) -> np.ndarray | None:
    """Variances of all right-hand sides, or one column for all of them; inf where not measured."""
    measured = ~np.isnan(noisy)
    if isinstance(variance, str):
        column = numbers(variance, take_column("variance", frame, variance))
        s = np.full(noisy.shape, np.inf)
        for place in side:
            s[node, place] = column
        bad = measured & ~(s >= 0)
        if bad.any():
            i = int(np.flatnonzero(bad.any(axis=1))[0])
            check.fail("variance", f"must not be negative or missing; {named_node(tree, i)} is.")
        s[~measured] = np.inf
        return s
    if isinstance(variance, Mapping):
        base = variance_by_level(tree, variance)
    else:
        number = 1.0 if variance is None else check.real("variance", variance)
        if measured.all() and number > 0:
            return None if number == 1 else np.full((tree.n, 1), number)
        base = np.full(tree.n, number)
    if measured.all():
        return base[:, None]
    return np.where(measured, base[:, None], np.inf)


def _project(
    tree: Tree,
    s: np.ndarray | None,
    noisy: np.ndarray,
    threads: int | None,
    where: Callable[[int], str],
    options: Mapping[str, Any],
) -> np.ndarray:
    """Consistent values; right-hand sides with the same variances share their sweeps.

    ``where(j)`` tells of which group the right-hand side j is.
    """
    if s is None:
        return _solution(Consistency(tree, None, threads), noisy, options)
    if s.shape[1] == 1:
        return _solution(_determined(tree, s[:, 0], threads, where, 0), noisy, options)
    together: dict[bytes, list[int]] = {}
    for j in range(s.shape[1]):
        together.setdefault(s[:, j].tobytes(), []).append(j)
    out = np.empty(noisy.shape, np.int64 if options["integer"] else np.float64)
    for same in together.values():
        post = _determined(tree, s[:, same[0]], threads, where, same[0])
        out[:, same] = _solution(post, noisy[:, same], options)
    return out


def _solution(post: Consistency, noisy: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """Stage 2; errors call the values by the name that they have here."""
    try:
        return post.project(noisy, **options)
    except ValueError as error:
        message = str(error).replace("Argument 'noisy'", "Argument 'value'")
        raise type(error)(message) from None


def _determined(
    tree: Tree, variance: np.ndarray, threads: int | None, where: Callable[[int], str], side: int
) -> Consistency:
    """Stage 1; a node whose value only an even split would tell is refused."""
    post = Consistency(tree, np.ascontiguousarray(variance), threads)
    if np.isinf(variance).any():
        loose = np.flatnonzero(np.isinf(post.node_variance()))
        if loose.size:
            check.fail(
                "value",
                f"must determine every node; {named_node(tree, int(loose[0]))} has no value"
                f"{where(side)}, and none follows from the others.",
            )
    return post


# --------------------------------------------------------------------------- writing


def _flat(frame: Any, solved: Solved) -> Any:
    """A frame of pandas with all that we read in columns, also what was in its index."""
    if library(frame) == "pandas":
        inside = [n for n in (*solved.levels, *solved.by) if n not in column_names(frame)]
        if inside:
            return frame.reset_index(level=inside)
    return frame


def _written(frame: Any, kind: str, solved: Solved) -> Any:
    """The frame with new values, followed by rows for nodes that had none."""
    nw = narwhals()
    wrapped = nw.from_native(frame, eager_only=True)
    index = frame.index if kind == "pandas" else None
    replaced = wrapped.with_columns(
        *(series_of(nw, name, x, kind, index) for name, x in solved.values.items())
    )
    if not solved.more_nodes.size:
        return replaced.to_native()
    columns: dict[str, Any] = {}
    for name in column_names(frame):
        if name in solved.values:
            columns[name] = series_of(nw, name, solved.more_values[name], kind, None)
        elif name in solved.levels:
            c = level_codes(solved.tree, solved.levels.index(name))
            labels = label_column(Codes(c.codes[solved.more_nodes], c.categories), kind)
            columns[name] = as_in(nw, name, labels, wrapped[name].to_native(), kind)
        elif name in solved.by:
            columns[name] = wrapped[name][solved.more_like]
    native = {name: c.to_native() for name, c in columns.items()}
    if kind == "pandas":
        index = _longer_index(index, solved.more_nodes.size)
        native = {name: c.reset_index(drop=True) for name, c in native.items()}
        replaced = nw.from_native(replaced.to_native().reset_index(drop=True), eager_only=True)
    added = nw.from_native(assemble(native, kind), eager_only=True)
    joined = nw.concat([replaced, added], how="diagonal").to_native()
    return joined.set_axis(index, axis=0) if kind == "pandas" else joined


def _longer_index(index: Any, more: int) -> Any:
    """An index of pandas with entries for added rows; a new one if it has no whole numbers."""
    pandas = sys.modules["pandas"]
    if index.nlevels == 1 and pandas.api.types.is_integer_dtype(index.dtype):
        start = int(index.max()) + 1
        if start + more < 2**63:
            return index.append(pandas.RangeIndex(start, start + more)).rename(index.name)
    return pandas.RangeIndex(len(index) + more)


def series_of(nw: Any, name: str, x: np.ndarray, kind: str, index: Any) -> Any:
    """A column; that of pandas with the index of its frame, so that nothing is reordered."""
    if index is None:
        return nw.new_series(name, x, backend=kind)
    return nw.from_native(sys.modules["pandas"].Series(x, index=index, name=name), series_only=True)


def as_in(nw: Any, name: str, labels: Any, like: Any, kind: str) -> Any:
    """Labels as a series of the type of a column, where that type can have missing entries."""
    package = sys.modules[kind]
    if kind == "pandas":
        native = package.Series(labels, name=name)
        if like.dtype.kind not in "iub":
            native = native.astype(like.dtype)
    elif kind == "polars":
        native = labels.cast(like.dtype).alias(name)
    else:
        native = package.chunked_array([labels])
        if package.types.is_dictionary(like.type):
            native = native.cast(like.type.value_type).dictionary_encode()
        native = native.cast(like.type)
    return nw.from_native(native, series_only=True)
