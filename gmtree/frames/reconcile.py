"""Consistent values for tidy frames: many dates and products in one sweep."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.consistency.rounding import check_how
from gmtree.frames.changes import ReconcileInfo, report
from gmtree.frames.doubts import question_contradictions, question_subtotals
from gmtree.frames.leaves import tree_of_levels
from gmtree.labels.codes import Codes
from gmtree.labels.columns import column_names, encode, listed_names, numbers, take_column
from gmtree.labels.levels import build as build_tree
from gmtree.labels.levels import (
    number_pairs,
    path_of_row,
    read_levels,
    refuse_empty,
    refuse_total,
)
from gmtree.labels.libraries import adapter, kind_of
from gmtree.tree import Tree
from gmtree.tree.locate import level_codes, locate, named_node
from gmtree.tree.measurements import variance_by_level

Frame = TypeVar("Frame")


@overload
def reconcile_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str | Sequence[str],
    *,
    variance: Any = None,
    nonnegative: bool = False,
    integer: bool = False,
    lower: Any = None,
    upper: Any = None,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
    return_info: Literal[False] = False,
) -> Frame: ...


@overload
def reconcile_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str | Sequence[str],
    *,
    variance: Any = None,
    nonnegative: bool = False,
    integer: bool = False,
    lower: Any = None,
    upper: Any = None,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
    return_info: Literal[True],
) -> tuple[Frame, ReconcileInfo]: ...


def reconcile_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str | Sequence[str],
    *,
    variance: Any = None,
    nonnegative: bool = False,
    integer: bool = False,
    lower: Any = None,
    upper: Any = None,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
    return_info: bool = False,
) -> Frame | tuple[Frame, ReconcileInfo]:
    """Make the values of a frame add up while changing them as little as possible.

    Each row is a node of the hierarchy. Its labels in the columns `levels` identify the node: in
    the row of a coarser node, the columns of finer levels are missing (None, NaN), and in the row
    of the total all of them are missing. The empty text ``""`` is refused. Rows may come in any
    order. A node without a row, or whose value is missing, counts as not measured, and its value
    is computed from the measured ones. For standard errors, make a tree with
    :meth:`Tree.from_levels`, read the measurements with :meth:`Tree.align`, and use
    :meth:`Consistency.node_variance`.

    Parameters
    ----------
    frame : pandas or polars DataFrame, or pyarrow Table
        One row per node, or per leaf, for each group of `by`.
    levels : list of str
        Columns of labels, coarse to fine.
    value : str or list of str
        One or more columns of values; each is made consistent.
    variance : optional
        Variance of each value: one number, the name of a column, or a dict with a number for
        each level. In a dict, the root is ``"total"``, and levels that it does not name have
        variance 1. All variances are equal by default. A value with variance 0 is not changed.
    nonnegative, integer : bool
        See :meth:`Consistency.project`.
    lower, upper : optional
        Bounds: the name of a column with a bound for each row (missing means none), or bounds as
        :meth:`Consistency.project` takes them, such as one number for all leaves.
    by : str or list of str
        Columns that define groups, such as a date and a product. Each group of rows with equal
        entries is reconciled separately, on the hierarchy that all groups share. Without `tree`,
        each group must have a row for each leaf; leave its value empty if it was not measured. If
        groups have different leaves, reconcile each of them with a call of its own.
    tree : Tree or frame, optional
        The hierarchy, or a frame with a row for each leaf. Labels that are not in it are refused.
        By default the hierarchy is made from the rows of `frame`.
    threads : int, optional
        See :class:`Consistency`.
    return_info : bool
        Also return how much the values have changed.

    Returns
    -------
    frame of the same kind
        The given rows with consistent values, followed by rows for the nodes that had no row, in
        which other columns are missing. A pandas index of whole numbers is kept, and added rows
        get the next numbers. If rows are added to a frame with another index, the rows of the
        result are numbered from 0.
    ReconcileInfo, with `return_info`
        The number of added rows and the ten largest changes, which ``print`` shows as a table.

    Raises
    ------
    ValueError
        If a group has two rows for one node, or if the value of a node does not follow from the
        other values. The latter includes the case that only the sum of several siblings is known,
        which :class:`Consistency` would split evenly. Also if the label of a row looks like that
        of a sum, such as "All" or "Total", and its value is the sum of its siblings, because the
        siblings would then count twice.

    Warns
    -----
    DataWarning
        If the label of a row looks like that of a sum, or if a value grossly contradicts the
        values of its children. A value does so if no value is negative and it is less than half of
        the value of one child (a tenth if there are fewer than five parents). It also does so if
        variances are given and it differs from the sum of its children by more than 20 standard
        deviations and by more than 10 %. The difference must also be more than 20 times as large
        as its median over all parents, so that noise hardly ever causes a warning. The usual cause
        is a label that is missing by mistake, such as "NA" after reading a file. Its row is then
        read as a sum.

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
    check.flag("return_info", return_info)
    options = {"lower": lower, "upper": upper, "by": by, "tree": tree, "threads": threads}
    solved = solve(frame, levels, value, variance, nonnegative, integer, **options)
    for doubt in solved.doubts:
        warnings.warn(doubt, check.DataWarning, stacklevel=2)
    made = written(_flat(frame, solved), kind, solved)
    return (made, changes(frame, solved)) if return_info else made


class Solved(NamedTuple):
    """Consistent values for the rows of a table, and for the nodes that had no row."""

    tree: Tree
    levels: list[str]
    by: list[str]
    values: dict[str, np.ndarray]
    more_values: dict[str, np.ndarray]
    more_nodes: np.ndarray
    more_like: np.ndarray  # a row of the same group
    doubts: list[str]  # sentences about values that look wrong


def solve(
    frame: Any,
    levels: Sequence[str],
    value: str | Sequence[str],
    variance: Any,
    nonnegative: bool,
    integer: bool,
    *,
    lower: Any = None,
    upper: Any = None,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
    by_option: str = "'by'",
) -> Solved:
    """Do the work of :func:`reconcile_frame` for any object that has columns by name.

    `by_option` is the name of the argument `by` in messages.
    """
    check_how(integer)
    levels = listed_names("levels", levels)
    by = _listed("by", by)
    names = _listed("value", value)
    if not names:
        check.fail("value", "must name at least one column.")
    _refuse_overlap(levels, names, by, variance)
    rows = _place_rows(frame, levels, by, tree, by_option)
    # One right-hand side for each column of values in each group.
    side = [rows.group * len(names) + k for k in range(len(names))]
    noisy = np.full((rows.tree.n, rows.first.size * len(names)), np.nan)
    for k, name in enumerate(names):
        x = numbers(name, take_column("value", frame, name))
        _refuse_infinite(name, x, rows.coded)
        noisy[rows.node, side[k]] = x
    s = _variances(frame, rows.tree, variance, rows.node, side, noisy)

    def in_group(j: int) -> str:
        return _in_group(frame, by, rows.first[j // len(names)])

    doubts = [question_subtotals(rows.tree, noisy)]
    options = {"nonnegative": nonnegative, "integer": integer}
    bounds = {}
    for name, bound, none in (("lower", lower, -np.inf), ("upper", upper, np.inf)):
        if isinstance(bound, str):
            a = _by_node(frame, name, bound, np.full(noisy.shape, none), rows.node, side)
            bounds[name] = np.where(np.isnan(a), none, a)
        elif bound is not None:
            options[name] = bound
    x = _project(rows.tree, s, noisy, threads, in_group, options, bounds)
    doubts.append(question_contradictions(rows.tree, noisy, s, variance is not None, in_group))
    node, group = np.nonzero(~rows.present)
    return Solved(
        rows.tree,
        rows.levels,
        by,
        {name: x[rows.node, side[k]] for k, name in enumerate(names)},
        {name: x[node, group * len(names) + k] for k, name in enumerate(names)},
        node,
        rows.first[group],
        [doubt for doubt in doubts if doubt],
    )


class Rows(NamedTuple):
    """The node and the group that each row of a table belongs to."""

    tree: Tree
    levels: list[str]
    coded: list[Codes]
    node: np.ndarray
    group: np.ndarray
    first: np.ndarray  # the first row of each group
    present: np.ndarray  # by node and group, whether the node has a row in the group


def _place_rows(frame: Any, levels: list[str], by: list[str], tree: Any, by_option: str) -> Rows:
    """Find the node of each row, in a given tree or in a tree made from the rows."""
    coded, names, kind = read_levels((frame,), levels)
    refuse_empty(coded, names)
    is_made_of_rows = tree is None
    if is_made_of_rows:
        made = build_tree(coded, names, kind)
        refuse_total(made, coded, names)
        tree, node = Tree._from_level_tree(made), made.node
    else:
        tree = tree_of_levels(tree, names, kind)
        node = locate(tree, "levels", list(zip(names, coded, strict=True)))
    group, first = _groups(frame, by, node.size)
    present = _rows_of(node, group, tree.n, first.size, coded, by_option)
    if is_made_of_rows:
        _refuse_missing_leaves(tree, present, lambda k: _in_group(frame, by, first[k]))
    return Rows(tree, names, coded, node, group, first, present)


def changes(frame: Any, solved: Solved) -> ReconcileInfo:
    """Report the largest differences between a frame and its consistent values."""
    before = {name: take_column("value", frame, name) for name in solved.values}
    by = [encode(name, take_column("by", frame, name)) for name in solved.by]
    levels = [encode(name, take_column("levels", frame, name)) for name in solved.levels]
    return report(before, solved.values, by, levels, solved.more_nodes.size)


def _refuse_infinite(name: str, x: np.ndarray, coded: Sequence[Codes]) -> None:
    """Refuse infinite values by the name of their column; NaN stands for a missing value."""
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
    """Describe the group of a row in a message, by its entries in the columns `by`."""
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
    """Whether each node has a row in each group; refuse a node that has two."""
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
            f"{path_of_row(coded, row)}. If they are different dates or products, "
            f"name that column in {by_option}. If one of them lacks a label, such as the code 'NA' "
            "that pandas reads as missing, read the file with keep_default_na=False.",
        )
    return present.reshape(n, groups)


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
    """Variances of all right-hand sides, or one column for all of them; inf if not measured."""
    measured = ~np.isnan(noisy)
    if isinstance(variance, str):
        s = _by_node(frame, "variance", variance, np.full(noisy.shape, np.inf), node, side)
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


def _by_node(
    frame: Any, argument: str, name: str, out: np.ndarray, node: np.ndarray, side: Any
) -> np.ndarray:
    """Write each entry of a column into the row of `out` that belongs to its node."""
    column = numbers(name, take_column(argument, frame, name))
    for place in side:
        out[node, place] = column
    return out


def _project(
    tree: Tree,
    s: np.ndarray | None,
    noisy: np.ndarray,
    threads: int | None,
    where: Callable[[int], str],
    options: Mapping[str, Any],
    bounds: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return consistent values; right-hand sides with equal variances and bounds share sweeps.

    ``where(j)`` names the group of the right-hand side j.
    """
    if s is None and not bounds:
        return _solution(Consistency(tree, None, threads), noisy, options)
    shared = np.ones((tree.n, 1)) if s is None else s
    if shared.shape[1] == 1 and not bounds:
        return _solution(_determined(tree, shared[:, 0], threads, where, 0), noisy, options)
    shared = np.broadcast_to(shared, noisy.shape)
    together: dict[bytes, list[int]] = {}
    for j in range(noisy.shape[1]):
        key = b"".join(a[:, j].tobytes() for a in (shared, *bounds.values()))
        together.setdefault(key, []).append(j)
    out = np.empty(noisy.shape, np.int64 if options["integer"] else np.float64)
    for same in together.values():
        post = _determined(tree, shared[:, same[0]], threads, where, same[0])
        own = {name: {"node": a[:, same[0]]} for name, a in bounds.items()}
        out[:, same] = _solution(post, noisy[:, same], {**options, **own})
    return out


def _solution(post: Consistency, noisy: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """Stage 2; errors call the values by their name in this function."""
    try:
        return post.project(noisy, **options)
    except check.ArgumentError as error:
        raise check.reworded(error, argument={"noisy": "value"}) from None


def _determined(
    tree: Tree, variance: np.ndarray, threads: int | None, where: Callable[[int], str], side: int
) -> Consistency:
    """Stage 1; refuse a node whose value could only be found by splitting a sum evenly."""
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
    """A pandas DataFrame with the levels and groups of its index as columns."""
    if hasattr(frame, "index"):
        inside = [n for n in (*solved.levels, *solved.by) if n not in column_names(frame)]
        if inside:
            return frame.reset_index(level=inside)
    return frame


def written(frame: Any, kind: str, solved: Solved) -> Any:
    """The frame with new values, followed by rows for the nodes that had no row."""
    library = adapter(kind)
    made = library.with_columns(frame, solved.values)
    if not solved.more_nodes.size:
        return made
    added: dict[str, Any] = {}
    for name in column_names(frame):
        if name in solved.values:
            added[name] = solved.more_values[name]
        elif name in solved.levels:
            codes = level_codes(solved.tree, solved.levels.index(name))
            added[name] = library.label_column(codes.take(solved.more_nodes))
        elif name in solved.by:
            added[name] = library.take(frame[name], solved.more_like)
    return library.append(made, added)
