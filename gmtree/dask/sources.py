"""Checks of the arguments of the public functions, and their data as Parquet files."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.factor import check_variances
from gmtree.dask import node_measurements
from gmtree.dask.engine import Engine
from gmtree.dask.messages import result_column
from gmtree.dask.node_measurements import NodeMeasurements
from gmtree.dask.parquet import USUAL_ROWS, Partition, arrow, partitions, pieces, read, write
from gmtree.dask.partition_values import BYTES_PER_NODE, refuse_large
from gmtree.dask.result import ROOT
from gmtree.dask.sorted_rows import Key, shown
from gmtree.dask.sorting import sort as sort_rows
from gmtree.dask.sorting import sort_table
from gmtree.dask.storage import Location, is_path, location, remove_folder
from gmtree.labels.columns import column_names, is_frame
from gmtree.labels.libraries import library


def level_columns(levels: Any, argument: str, value: Any, *more: Any) -> tuple[str, ...]:
    """Return the names of levels; refuse names that are used twice or that results use.

    `value` is the column of values, which the caller's `argument` names.
    """
    check.instance(argument, value, str)
    if isinstance(levels, str) or not isinstance(levels, Sequence) or not levels:
        check.fail_type("levels", f"must be a list of column names, not {levels!r}.")
    for name in levels:
        if not isinstance(name, str):
            check.fail_type("levels", f"must be names of columns, not {name!r}.")
    used = [*levels, value, *more]
    for k, name in enumerate(used):
        if name in used[:k]:
            check.fail(
                "levels", f"must differ from each other and other columns; {name!r} is used twice."
            )
    if ROOT in levels:
        check.fail("levels", f"must not be called {ROOT!r}, which is the level above them.")
    for kind in ("noisy", "estimate", "std_error"):
        if result_column(value, kind) in levels:
            check.fail(
                "levels",
                f"must not contain {result_column(value, kind)!r}, a column of the results.",
            )
    return tuple(levels)


@contextmanager
def scratch_folder(scratch: Any, out: Location) -> Iterator[Location]:
    """Create a folder for files between tasks, and remove it at the end."""
    above = out.parent if scratch is None else location("scratch", scratch)
    folder = above / f"gmtree-{uuid.uuid4().hex}"
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        remove_folder(folder, ignore_errors=True)


def leaf_partitions(
    engine: Engine,
    leaves: Any,
    levels: Sequence[str],
    columns: Sequence[str],
    folder: Location,
    *,
    sort: bool,
    rows: int | None,
    keeps: bool,
) -> list[Partition]:
    """Divide the rows of the leaves into partitions that fit into a worker."""
    check.flag("sort", sort)
    wanted = [*levels, *columns]
    source = _as_files("leaves", leaves, wanted, folder / "leaves")
    found = pieces("leaves", source, wanted)
    if not found:
        check.fail("leaves", "must have rows; there are none.")
    memory = engine.memory()
    if rows is None:
        # Nodes for each row, including those above it, if all of these have two or more children.
        nodes = 2 - 0.5 ** (len(levels) - 1)
        needed = nodes * BYTES_PER_NODE[keeps] + 8 * len(wanted)
        rows = int(min(USUAL_ROWS, max(1, memory // needed)))
    else:
        rows = check.count("partition_rows", rows, least=1)
    if sort:
        found = sort_rows(engine, found, levels, columns, rows, folder)
    made = partitions(found, rows)
    for partition in made:
        # This is a lower limit of the memory: there are more nodes than rows, and labels need
        # memory, too.
        refuse_large(partition, partition.rows, partition.rows * BYTES_PER_NODE[keeps], memory)
    return made


def _as_files(
    argument: str, source: Any, columns: Sequence[str], folder: Location, levels: Sequence[str] = ()
) -> Any:
    """Return paths unchanged; write DataFrames to `folder`, from which later steps read them.

    DataFrames in memory are sorted by `levels`.
    """
    if is_path(source):
        return source
    folder.mkdir(parents=True, exist_ok=True)
    if type(source).__module__.startswith(("dask.", "dask_expr.")) and hasattr(source, "columns"):
        _refuse_missing(argument, source.columns, columns)
        options = getattr(folder, "storage_options", None)
        source[list(columns)].to_parquet(str(folder), write_index=False, storage_options=options)
        return folder
    if not is_frame(source):
        check.fail_type(
            argument, f"must be Parquet files or a DataFrame, not {type(source).__name__}."
        )
    _refuse_missing(argument, column_names(source), columns)
    if library(source) == "polars":
        source = source.select(list(columns)).to_arrow()
    table = arrow().table({name: source[name] for name in columns})
    write(sort_table(table, levels) if levels else table, folder / "part.parquet")
    return folder


def _refuse_missing(argument: str, names: Collection[str], columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in names]
    if missing:
        check.fail(argument, f"must have the column {missing[0]!r}.")


# --------------------------------------------------------------------------- measurements


def measurements(
    engine: Engine, nodes: Any, levels: tuple[str, ...], numbers: Sequence[str], folder: Location
) -> tuple[NodeMeasurements | None, ...]:
    """For each level above the leaves, the files with its measurements, or None.

    `numbers` are the columns of values and, if there is one, of variances.
    """
    if nodes is None:
        nodes = {}
    check.instance("nodes", nodes, Mapping)
    known = (ROOT, *levels[:-1])
    for name in nodes:
        if name not in known:
            check.fail(
                "nodes",
                f"must be by level above the leaves ({', '.join(map(repr, known))}), not {name!r}.",
            )
    found: list[NodeMeasurements | None] = []
    for depth, name in enumerate(known):
        if nodes.get(name) is None:
            found.append(None)
            continue
        argument = f"nodes[{name!r}]"
        columns = [*levels[:depth], *numbers]
        given = nodes[name]
        is_number = isinstance(given, (int, float, np.number)) and not isinstance(given, bool)
        if depth == 0 and is_number:
            given = {numbers[0]: [float(given)]}
        source = _as_files(argument, given, columns, folder / f"nodes{depth}", levels[:depth])
        parts = pieces(argument, source, columns)
        starts = np.cumsum([0, *(piece.rows for piece in parts)]).tolist()
        work = [
            (argument, levels[:depth], piece, k) for piece, k in zip(parts, starts, strict=False)
        ]
        ends = engine.run("reading measurements", node_measurements.scan, work)
        if depth == 0 and starts[-1] != 1:
            check.fail(argument, f"must have one row, not {starts[-1]}.")
        found.append(node_measurements.joined(argument, parts, ends))
    return tuple(found)


def refuse_unmatched(
    source: NodeMeasurements, levels: Sequence[str], matched: int, ends: Sequence[tuple[Key, Key]]
) -> None:
    """Refuse measurements of nodes without leaves, if fewer rows were matched than there are.

    A task refuses such a node if it lies between the first and the last row of its partition. The
    nodes that are left lie between two partitions.
    """
    if matched == source.total:
        return
    depth = len(levels)
    for piece in source.pieces:
        table = read([piece], levels)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            if not any(first[:depth] <= row <= last[:depth] for first, last in ends):
                check.fail(
                    source.argument, f"must name nodes that have leaves; {shown(row)} has none."
                )
    check.fail(source.argument, "must name nodes that have leaves; some have none.")


def variance_of_levels(
    variance: Any, levels: tuple[str, ...], measured: Sequence[NodeMeasurements | None]
) -> str | tuple[float, ...]:
    """Return a column, or one number per level, beginning with the total; inf if not measured."""
    if isinstance(variance, str):
        return variance
    names = (ROOT, *levels)
    if isinstance(variance, Mapping):
        for name in variance:
            if name not in names:
                check.fail("variance", f"must be by level, not {name!r}.")
        numbers = [check.real("variance", variance.get(name, 1.0)) for name in names]
    elif variance is None or np.ndim(variance) == 0:
        numbers = [1.0 if variance is None else check.real("variance", variance)] * len(names)
    else:
        check.fail_type("variance", "must be one number, the name of a column, or a dict with a "
                        f"number for each level, not a {type(variance).__name__}.")  # fmt: skip
    check_variances(np.array(numbers), "level")
    return tuple(
        np.inf if source is None else x
        for x, source in zip(numbers, [*measured, True], strict=True)
    )
