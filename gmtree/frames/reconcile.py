"""Consistent values for tidy frames: many dates and products in one sweep."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, TypeVar, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.consistency.rounding import check_how
from gmtree.frames.changes import ReconcileInfo, report
from gmtree.frames.doubts import question_contradictions, question_subtotals
from gmtree.frames.rows import Measured, alike, measured_rows
from gmtree.labels.codes import Codes
from gmtree.labels.columns import column_names, take_column
from gmtree.labels.libraries import adapter, kind_of
from gmtree.tree import Tree
from gmtree.tree.locate import level_codes, node_in_error

if TYPE_CHECKING:
    from typing_extensions import Unpack

Frame = TypeVar("Frame")


class ReconcileOptions(TypedDict, total=False):
    """The keywords of :func:`reconcile_frame` besides `return_info`."""

    variance: Any
    nonnegative: bool
    integer: bool
    lower: Any
    upper: Any
    by: str | Sequence[str]
    tree: Any
    threads: int | None


@overload
def reconcile_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str | Sequence[str],
    *,
    return_info: Literal[False] = False,
    **options: Unpack[ReconcileOptions],
) -> Frame: ...


@overload
def reconcile_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str | Sequence[str],
    *,
    return_info: Literal[True],
    **options: Unpack[ReconcileOptions],
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
    order. Messages and reports number them by position, from 0. A node without a row, or whose
    value is missing, counts as not measured, and its value is computed from the measured ones. For
    standard errors, make a tree with :meth:`Tree.from_levels`, read the measurements with
    :meth:`Tree.align`, and use :meth:`Consistency.node_variance`.

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
    DataFrame or Table of the same library
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
        If the label of a row looks like that of a sum. Also if a row repeats the label of its
        parent, or has no finer rows although its siblings have some, and its value is within 3 %
        of the sum of its siblings. Also if a value grossly contradicts the values of its children.
        There are two such cases. In the first, no value is negative, and a parent is less than half
        as large as one of its children (less than a tenth if there are fewer than five parents). In
        the second, variances are given, and a parent differs from the sum of its children by more
        than 20 standard deviations and by more than 10 %. In both cases the difference must also be
        more than 20 times as large as its median over all parents, so that noise hardly ever causes
        a warning. The usual cause is a label that is missing by mistake, such as "NA" after reading
        a file. Its row is then read as a sum.

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
    levels: dict[str, Codes]
    by: dict[str, Codes]
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
    rows = measured_rows(frame, levels, value, variance, by, tree, by_option)
    noisy, names = rows.noisy, rows.names
    doubts = [question_subtotals(rows.tree, noisy)]
    options = {"nonnegative": nonnegative, "integer": integer}
    bounds = {}
    for name, bound, none in (("lower", lower, -np.inf), ("upper", upper, np.inf)):
        if isinstance(bound, str):
            bounds[name] = rows.by_node(frame, name, bound, none)
        elif bound is not None:
            options[name] = bound
    x = _project(rows, threads, options, bounds)
    is_given = variance is not None
    doubts.append(question_contradictions(rows.tree, noisy, rows.variance, is_given, rows.in_group))
    node, group = np.nonzero(~rows.present)
    return Solved(
        rows.tree,
        rows.levels,
        rows.by,
        {name: x[rows.node, rows.side[k]] for k, name in enumerate(names)},
        {name: x[node, group * len(names) + k] for k, name in enumerate(names)},
        node,
        rows.first[group],
        [doubt for doubt in doubts if doubt],
    )


def changes(frame: Any, solved: Solved) -> ReconcileInfo:
    """Report the largest differences between a frame and its consistent values."""
    before = {name: take_column("value", frame, name) for name in solved.values}
    labels = list(solved.by.values()), list(solved.levels.values())
    return report(before, solved.values, *labels, solved.more_nodes.size)


def _project(
    rows: Measured,
    threads: int | None,
    options: Mapping[str, Any],
    bounds: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return consistent values; right-hand sides with equal variances and bounds share sweeps."""
    tree, noisy, s = rows.tree, rows.noisy, rows.variance
    out = np.empty(noisy.shape, np.int64 if options["integer"] else np.float64)
    for same in alike(*([] if s is None else [s]), *bounds.values()):
        first = 0 if isinstance(same, slice) else same[0]
        if s is None:
            post = Consistency(tree, None, threads)
        else:
            own_variance = s[:, first if s.shape[1] > 1 else 0]
            post = _determined(tree, own_variance, threads, rows.in_group, first)
        own: dict[str, Any] = {name: {"node": a[:, first]} for name, a in bounds.items()}
        try:
            out[:, same] = post.project(noisy[:, same], **options, **own)
        except check.ArgumentError as error:
            raise check.reworded(error, argument={"noisy": "value"}) from None
    return out


def _determined(
    tree: Tree, variance: np.ndarray, threads: int | None, where: Callable[[int], str], side: int
) -> Consistency:
    """Prepare a projection; refuse a node whose value would result from splitting a sum evenly."""
    post = Consistency(tree, np.ascontiguousarray(variance), threads)
    if np.isinf(variance).any():
        loose = np.flatnonzero(np.isinf(post.node_variance()))
        if loose.size:
            check.fail(
                "value",
                f"must determine every node; {node_in_error(tree, int(loose[0]))} has no value"
                f"{where(side)}, and none follows from the other values.",
            )
    return post


# --------------------------------------------------------------------------- writing


def _flat(frame: Any, solved: Solved) -> Any:
    """The frame; levels and groups in the index of a pandas DataFrame become columns."""
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
            codes = level_codes(solved.tree, list(solved.levels).index(name))
            added[name] = library.label_column(codes.take(solved.more_nodes))
        elif name in solved.by:
            added[name] = library.take(frame[name], solved.more_like)
    return library.append(made, added)
