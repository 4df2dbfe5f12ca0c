"""Align measurements in DataFrames with the nodes of a tree by their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes
from gmtree.labels.columns import all_names, column_names, encode, numbers, row_index, take_column
from gmtree.labels.levels import refuse_empty
from gmtree.labels.libraries import library
from gmtree.tree.kinship import TreeKinship
from gmtree.tree.locate import (
    STRUCTURE,
    index_columns,
    label_names,
    level_names,
    locate,
    node_in_error,
    rows_of_nodes,
)


class Measurements(NamedTuple):
    """Values (NaN if not measured) and variances (inf if not measured), one per node."""

    values: np.ndarray
    variance: np.ndarray


def values(tree: TreeKinship, measurements: Any, value: str | None, variance: Any) -> Measurements:
    """Read measurements from one DataFrame, or from a dict with one DataFrame per level."""
    made = Measurements(np.full(tree.n, np.nan), np.full(tree.n, np.inf))
    by_level = isinstance(variance, Mapping)
    how = None if by_level else _read_variance("variance", variance)
    if not isinstance(measurements, Mapping):
        how = variance_by_level(tree, variance) if by_level else how
        _put(tree, made, "measurements", measurements, None, value, how)
        return made
    for level, frame in measurements.items():
        if by_level:
            how = _read_variance(f"variance[{level!r}]", variance.get(level))
        _put(tree, made, f"measurements[{level!r}]", frame, level, value, how)
    if by_level and (more := set(variance) - set(measurements)):
        rule = f"must have only levels with measurements as keys, not {more.pop()!r}."
        check.fail("variance", rule)
    return made


def variance_by_level(tree: TreeKinship, variance: Mapping[str, Any]) -> np.ndarray:
    """The variance of each node, given a dict by level; 1 for levels that are not in the dict."""
    out = np.ones(tree.n)
    for level, x in variance.items():
        depth = _depth_of(tree, "variance", level)
        number = _one_number(f"variance[{level!r}]", x)
        if not number >= 0:
            check.fail(f"variance[{level!r}]", f"must not be negative or NaN; it is {number}.")
        out[tree.depth == depth] = number
    return out


def _read_variance(argument: str, x: Any) -> Any:
    """Return None or the name of a column unchanged; require any other object to be one number."""
    return x if x is None or isinstance(x, str) else _one_number(argument, x)


def _one_number(argument: str, x: Any) -> float:
    a = check.reals(argument, x)
    if a.ndim:
        check.fail(argument, f"must be one number, not have shape {a.shape}.")
    return float(a)


def _depth_of(tree: TreeKinship, argument: str, level: Any) -> int:
    """Depth of the level with a given name."""
    names = level_names(tree)
    if level is None or level not in names:
        listed = ", ".join(repr(name) for name in names if name is not None)
        check.fail(argument, f"must have levels of the tree as keys ({listed}), not {level!r}.")
    return names.index(level) + 1


def _put(
    tree: TreeKinship,
    made: Measurements,
    argument: str,
    frame: Any,
    level: Any,
    value: str | None,
    variance: Any,
) -> None:
    """Enter the measurements of one DataFrame into `made`; all must be of `level`, if given.

    `variance` is a number, an array by node, the name of a column, or None for 1.
    """
    depth = None if level is None else _depth_of(tree, "measurements", level)
    coded: list[Codes] = []
    if depth is not None and library(frame) is None and np.ndim(frame) == 0:
        if depth != 1:
            check.fail(argument, "must be a DataFrame, since its level may have several nodes.")
        node, x, s = np.array([tree.root]), np.array([_one_number(argument, frame)]), variance
    else:
        columns, x, s = _read(tree, argument, frame, level, value, variance)
        if columns:
            refuse_empty([c for _, c in columns], [name for name, _ in columns])
            node = locate(tree, argument, columns)
            coded = [c for _, c in columns]
        else:
            node = np.full(x.size, tree.root)
    if depth is not None:
        wrong = np.flatnonzero(tree.depth[node] != depth)
        if wrong.size:
            where = f"row {wrong[0]} has {node_in_error(tree, int(node[wrong[0]]))}"
            check.fail(argument, f"must have nodes of level {level!r} only; {where}.")
    if coded:
        rows_of_nodes(tree, argument, node, coded)
    elif node.size != 1:
        check.fail(argument, f"must have a single row, for the root, not {node.size} rows.")
    s = variance[node] if isinstance(variance, np.ndarray) else s
    measured = ~np.isnan(x)
    s = np.broadcast_to(1.0 if s is None else s, x.shape)
    bad = measured & ~((s >= 0) & (s <= np.inf))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        check.fail("variance", f"must not be negative or missing; row {row} has {s[row]}.")
    twice = np.flatnonzero(measured & ~np.isnan(made.values[node]))
    if twice.size:
        where = f"{node_in_error(tree, int(node[twice[0]]))} is in another DataFrame, too"
        check.fail(argument, f"must not measure a node twice; {where}.")
    made.values[node[measured]] = x[measured]
    made.variance[node[measured]] = s[measured]


def _read(
    tree: TreeKinship, argument: str, frame: Any, level: Any, value: str | None, variance: Any
) -> tuple[list[tuple[str, Codes]], np.ndarray, Any]:
    """Columns of labels, values and variances of a DataFrame or a Series."""
    names = label_names(tree)
    if (index := row_index(frame)) is not None and not hasattr(frame, "columns"):
        if isinstance(variance, str):
            check.fail("variance", "must be a number for a Series, because it has no columns.")
        columns = index_columns(tree, argument, index)
        return columns, numbers(argument, frame), variance
    if library(frame) is None:
        check.fail_type(argument, f"must be a DataFrame or Series, not {type(frame).__name__}.")
    present = list(dict.fromkeys(name for name in all_names(frame) if name in names))
    if level is not None and level in names and level not in present:
        check.fail(argument, f"must have a column {level!r}, for the labels of its level.")
    if not present and (level is None or level in names):
        listed = ", ".join(map(repr, names)) or "this tree has no labels"
        check.fail(argument, f"must have a column of labels ({listed}).")
    others = [n for n in column_names(frame) if n not in present and n not in STRUCTURE]
    if isinstance(variance, str):
        others = [n for n in others if n != variance]
    if value is None:
        if len(others) != 1:
            listed = ", ".join(map(repr, others))
            check.fail("value", f"must name the column of values, one of {listed}.")
        value = others[0]
    x = numbers(value, take_column("value", frame, value))
    if isinstance(variance, str):
        variance = numbers(variance, take_column("variance", frame, variance))
    columns = [(name, encode(name, take_column(argument, frame, name))) for name in present]
    return columns, x, variance
