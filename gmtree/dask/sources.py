"""Checks of the arguments of the public functions, and their data as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from gmtree.dask.storage import Location, is_path, location, new_folder, remove_folder
from gmtree.labels.columns import is_frame
from gmtree.labels.libraries import library


def level_columns(levels: Any, value: Any, more: Sequence[Any] = ()) -> tuple[str, ...]:
    """Return the names of levels; refuse names that are used twice or that results use."""
    if isinstance(levels, str) or not isinstance(levels, Sequence) or not levels:
        check.fail_type("levels", f"must be a list of column names, not {levels!r}.")
    for name in (*levels, value):
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
    folder = new_folder(out.parent if scratch is None else location("scratch", scratch))
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
    needed = BYTES_PER_NODE[keeps] + 16 * len(levels)
    if rows is None:
        rows = int(min(USUAL_ROWS, max(1, memory // needed)))
    else:
        rows = check.count("partition_rows", rows, least=1)
    if sort:
        found = sort_rows(engine, found, levels, columns, rows, folder)
    made = partitions(found, rows)
    for partition in made:
        # This is a lower limit: there are more nodes than rows, and labels need memory, too.
        refuse_large(partition, partition.rows, partition.rows * BYTES_PER_NODE[keeps], memory)
    return made


def _as_files(argument: str, source: Any, columns: Sequence[str], folder: Location) -> Any:
    """Return paths unchanged; write DataFrames to `folder`, from which later steps read them."""
    if is_path(source):
        return source
    folder.mkdir(parents=True, exist_ok=True)
    if type(source).__module__.startswith(("dask.", "dask_expr.")) and hasattr(source, "columns"):
        missing = [name for name in columns if name not in source.columns]
        if missing:
            check.fail(argument, f"must have the column {missing[0]!r}.")
        options = getattr(folder, "storage_options", None)
        source[list(columns)].to_parquet(str(folder), write_index=False, storage_options=options)
        return folder
    if not is_frame(source):
        check.fail_type(argument, f"must be Parquet files or a frame, not {type(source).__name__}.")
    write(_arrow_table(argument, source, columns), folder / "part.parquet")
    return folder


def _arrow_table(argument: str, frame: Any, columns: Sequence[str]) -> Any:
    pa = arrow()
    names = list(getattr(frame, "column_names", None) or getattr(frame, "columns", frame))
    missing = [name for name in columns if name not in names]
    if missing:
        check.fail(argument, f"must have the column {missing[0]!r}.")
    if isinstance(frame, pa.Table):
        return frame.select(list(columns))
    if library(frame) == "pandas":
        return pa.Table.from_pandas(frame[list(columns)], preserve_index=False)
    if library(frame) == "polars":
        return frame.select(list(columns)).to_arrow()
    return pa.table({name: pa.array(frame[name]) for name in columns})


# --------------------------------------------------------------------------- measurements


def measurements(
    engine: Engine, nodes: Any, levels: tuple[str, ...], value: str, variance: Any, folder: Location
) -> tuple[NodeMeasurements | None, ...]:
    """For each level above the leaves, the files with its measurements, or None."""
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
    more = [variance] if isinstance(variance, str) else []
    found: list[NodeMeasurements | None] = []
    for depth, name in enumerate(known):
        if nodes.get(name) is None:
            found.append(None)
            continue
        argument = f"nodes[{name!r}]"
        columns = [*levels[:depth], value, *more]
        source = _measured_files(argument, nodes[name], columns, depth, folder / f"nodes{depth}")
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


def _measured_files(
    argument: str, source: Any, columns: Sequence[str], depth: int, folder: Location
) -> Any:
    """Write measurements in memory to sorted files; those in files must be sorted already."""
    if depth == 0 and isinstance(source, (int, float, np.number)) and not isinstance(source, bool):
        source = {columns[0]: [float(source)]}
        if len(columns) > 1:
            check.fail(argument, f"must have the column {columns[1]!r}.")
    if is_path(source) or type(source).__module__.startswith("dask"):
        return _as_files(argument, source, columns, folder)
    if not is_frame(source):
        check.fail_type(argument, f"must be Parquet files or a frame, not {type(source).__name__}.")
    table = _arrow_table(argument, source, columns)
    pa = arrow()
    for k, name in enumerate(columns[:depth]):
        kind = table.column(name).type
        if pa.types.is_dictionary(kind):
            table = table.set_column(k, name, table.column(name).cast(kind.value_type))
    if depth:
        table = table.sort_by([(name, "ascending") for name in columns[:depth]])
    folder.mkdir(parents=True, exist_ok=True)
    write(table, folder / "part.parquet")
    return folder


def refuse_unmatched(
    source: NodeMeasurements, levels: Sequence[str], matched: int, ends: Sequence[tuple[Key, Key]]
) -> None:
    """Refuse measurements of nodes that would lie between two partitions: no leaf has them."""
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
) -> Any:
    """Return a column, or one number per level, the total's first; inf if not measured."""
    if isinstance(variance, str):
        return variance
    names = (ROOT, *levels)
    if isinstance(variance, Mapping):
        for name in variance:
            if name not in names:
                check.fail("variance", f"must be by level, not {name!r}.")
        numbers = [check.real("variance", variance.get(name, 1.0)) for name in names]
    else:
        numbers = [1.0 if variance is None else check.real("variance", variance)] * len(names)
    check_variances(np.array(numbers), "level")
    return tuple(
        np.inf if source is None else x
        for x, source in zip(numbers, [*measured, True], strict=True)
    )
