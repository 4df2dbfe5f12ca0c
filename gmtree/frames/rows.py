"""The rows of a frame as measurements: the node, the group and the value of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes
from gmtree.labels.columns import encode, listed_names, numbers, take_column
from gmtree.labels.levels import build as build_tree
from gmtree.labels.levels import (
    from_levels,
    number_rows,
    path_of_row,
    read_levels,
    refuse_empty,
    refuse_total,
)
from gmtree.tree import Tree
from gmtree.tree.locate import locate, node_in_error
from gmtree.tree.measurements import variance_by_level


class Measured(NamedTuple):
    """The rows of a table as measurements of a tree.

    There is one right-hand side for each column of values in each group.
    """

    tree: Tree
    levels: dict[str, Codes]  # labels of the rows, coarse to fine
    by: dict[str, Codes]  # entries of the rows in the columns that define groups
    names: list[str]  # columns of values
    node: np.ndarray  # of each row
    side: list[np.ndarray]  # for each column of values, the right-hand side of each row
    noisy: np.ndarray  # by node and right-hand side, NaN if not measured
    variance: np.ndarray | None  # like `noisy`, or one column for all; inf if not measured
    first: np.ndarray  # the first row of each group
    present: np.ndarray  # by node and group, whether the node has a row in the group

    def in_group(self, side: int) -> str:
        """Text that describes the group of a right-hand side, for a message."""
        return _group_of_row(self.by, self.first[side // len(self.names)])

    def by_node(self, frame: Any, argument: str, name: str, missing: float) -> np.ndarray:
        """Return a column by node and right-hand side, with `missing` for missing entries."""
        a = _by_node(frame, argument, name, np.full(self.noisy.shape, missing), self.node,
                     self.side)  # fmt: skip
        return np.where(np.isnan(a), missing, a)


def tree_of_levels(given: Any, names: list[str], kind: str | None) -> Tree:
    """Read the argument `tree` of a function that reads a frame with these levels.

    `kind` is the library of that frame; the tree's own frames will use it, too.
    """
    if isinstance(given, Tree):
        if given.level_names != tuple(names):
            check.fail("tree", f"must have the levels {names}, not {given.level_names}.")
        return given._with_frames_of(kind)
    try:
        made = from_levels((given,), names, "stop")
    except ValueError as error:
        raise check.InputError("tree", f"must have one row for each leaf. {error}") from None
    return Tree._from_level_tree(made)._with_frames_of(kind)


def measured_rows(
    frame: Any,
    levels: Sequence[str],
    value: str | Sequence[str],
    variance: Any,
    by: str | Sequence[str],
    tree: Any,
    by_option: str,
) -> Measured:
    """Read the measurements of a table; `by_option` names the argument `by` in messages."""
    levels = listed_names("levels", levels)
    by_names, names = listed("by", by), listed("value", value)
    if not names:
        check.fail("value", "must name at least one column.")
    _refuse_overlap(levels, names, by_names, variance)
    coded, names_of_levels, kind = read_levels((frame,), levels)
    refuse_empty(coded, names_of_levels)
    is_made_of_rows = tree is None
    if is_made_of_rows:
        made = build_tree(coded, names_of_levels, kind)
        refuse_total(made, coded, names_of_levels)
        tree, node = Tree._from_level_tree(made), made.node
    else:
        tree = tree_of_levels(tree, names_of_levels, kind)
        node = locate(tree, "levels", list(zip(names_of_levels, coded, strict=True)))
    groups = {name: encode(name, take_column("by", frame, name)) for name in by_names}
    for name, c in groups.items():
        if c.missing is not None:
            check.fail(name, f"must have no missing entries; row {np.argmax(c.missing)} has one.")
    group, first = number_rows(list(groups.values()), node.size)
    present = _rows_of(node, group, tree.n, first.size, coded, by_option)
    if is_made_of_rows:
        _refuse_missing_leaves(tree, present, groups, first)
    side = [group * len(names) + k for k in range(len(names))]
    noisy = np.full((tree.n, first.size * len(names)), np.nan)
    for name, columns in zip(names, side, strict=True):
        x = numbers(name, take_column("value", frame, name))
        _refuse_infinite(name, x, coded)
        noisy[node, columns] = x
    s = _variances(frame, tree, variance, node, side, noisy)
    labels = dict(zip(names_of_levels, coded, strict=True))
    return Measured(tree, labels, groups, names, node, side, noisy, s, first, present)


def alike(*arrays: np.ndarray) -> list[Any]:
    """Group right-hand sides that are equal in all arrays; return the indices of each group."""
    if all(a.shape[1] == 1 for a in arrays):
        return [slice(None)]
    together: dict[bytes, list[int]] = {}
    for j, columns in enumerate(zip(*(a.T for a in np.broadcast_arrays(*arrays)), strict=True)):
        together.setdefault(b"".join(a.tobytes() for a in columns), []).append(j)
    return list(together.values())


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


def listed(argument: str, x: str | Sequence[str]) -> list[str]:
    """A list of one or several names of columns."""
    return [x] if isinstance(x, str) else listed_names(argument, x)


def _refuse_overlap(levels: list[str], names: list[str], by: list[str], variance: Any) -> None:
    used = [*levels, *names, *by]
    used += [variance] if isinstance(variance, str) else []
    for k, name in enumerate(used):
        if name in used[:k]:
            check.fail("levels", f"must differ from 'value', 'by' and 'variance'; column {name!r} "
                       "is used twice.")  # fmt: skip


def _group_of_row(groups: Mapping[str, Codes], row: int) -> str:
    """Describe the group of a row in a message, by its entries in the columns `by`."""
    told = [f"{name} {check.shown(c.label(row))}" for name, c in groups.items()]
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


def _refuse_missing_leaves(
    tree: Tree, present: np.ndarray, groups: Mapping[str, Codes], first: np.ndarray
) -> None:
    """Refuse a leaf without a row in a group: it may be unmeasured there, or not exist there."""
    missing = np.argwhere(~present[tree.leaves])
    if missing.size:
        leaf, group = missing[0]
        where = node_in_error(tree, tree.leaves[leaf])
        check.fail(
            "frame",
            f"must have a row for each leaf in each group; {where} has none"
            f"{_group_of_row(groups, first[group])}. If it was not measured there, give it a row "
            "without a value. If it does not exist there, reconcile that group by itself.",
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
            check.fail("variance", "must not be negative or missing; the variance of "
                       f"{node_in_error(tree, i)} is.")  # fmt: skip
        s[~measured] = np.inf
        return s
    if isinstance(variance, Mapping):
        base = variance_by_level(tree, variance)
    else:
        if hasattr(variance, "__len__"):
            check.fail_type("variance", "must be one number, the name of a column, or a dict by "
                            f"level, not {type(variance).__name__}.")  # fmt: skip
        number = 1.0 if variance is None else check.real("variance", variance)
        if number == 1 and measured.all():
            return None
        base = np.full(tree.n, number)
    if measured.all():
        return base[:, None]
    return np.where(measured, base[:, None], np.inf)


def _by_node(
    frame: Any, argument: str, name: str, out: np.ndarray, node: np.ndarray, side: Any
) -> np.ndarray:
    """Write each entry of a column into `out`, by the node and right-hand sides of its row."""
    column = numbers(name, take_column(argument, frame, name))
    for place in side:
        out[node, place] = column
    return out
