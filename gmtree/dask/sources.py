"""Arguments of the public functions into data sets of Parquet and checked numbers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.factor import check_variances
from gmtree.dask import measured
from gmtree.dask.engine import Engine
from gmtree.dask.measured import Measured
from gmtree.dask.parquet import (
    GROUP_ROWS,
    USUAL_ROWS,
    Partition,
    arrow,
    is_path,
    parquet,
    partitions,
    pieces,
    read,
)
from gmtree.dask.result import ROOT
from gmtree.dask.rows import Key, shown
from gmtree.dask.sorting import sort as sort_rows
from gmtree.dask.tasks import BYTES_PER_NODE, refuse_large
from gmtree.labels.columns import is_frame, library


def level_columns(levels: Any, value: Any, more: Sequence[Any] = ()) -> tuple[str, ...]:
    """Names of levels, checked against each other and the other columns."""
    if isinstance(levels, str) or not isinstance(levels, Sequence) or not levels:
        check.fail_type("levels", f"must be a list of column names, not {levels!r}.")
    for name in (*levels, value):
        if not isinstance(name, str):
            check.fail_type("levels", f"must be names of columns, not {name!r}.")
    used = [*levels, value, *more]
    for k, name in enumerate(used):
        if name in used[:k]:
            check.fail("levels", f"must differ from each other and other columns; {name!r} is two.")
    if ROOT in levels:
        check.fail("levels", f"must not be called {ROOT!r}, which is the level above them.")
    return tuple(levels)


@contextmanager
def scratch_folder(scratch: Any, out: Path) -> Iterator[Path]:
    """A folder of our own for files between tasks, removed at the end."""
    above = out.parent if scratch is None else check.path("scratch", scratch)
    above.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="gmtree-", dir=above)).absolute()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def leaf_partitions(
    engine: Engine,
    leaves: Any,
    levels: Sequence[str],
    columns: Sequence[str],
    folder: Path,
    *,
    sort: bool,
    rows: int | None,
    keeps: bool,
) -> list[Partition]:
    """The rows of leaves as partitions that fit into a worker."""
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
        # There are more nodes than rows, and what the columns take depends on the labels.
        refuse_large(partition, partition.rows, partition.rows * BYTES_PER_NODE[keeps], memory)
    return made


def _as_files(argument: str, source: Any, columns: Sequence[str], folder: Path) -> Any:
    """Paths as they are; frames are written to `folder`, so that later steps read the same rows."""
    if is_path(source):
        return source
    folder.mkdir(parents=True, exist_ok=True)
    if type(source).__module__.startswith(("dask.", "dask_expr.")) and hasattr(source, "columns"):
        missing = [name for name in columns if name not in source.columns]
        if missing:
            check.fail(argument, f"must have the column {missing[0]!r}.")
        source[list(columns)].to_parquet(str(folder), write_index=False)
        return str(folder)
    if not is_frame(source):
        check.fail_type(argument, f"must be Parquet files or a frame, not {type(source).__name__}.")
    parquet().write_table(
        _arrow_table(argument, source, columns), folder / "part.parquet", row_group_size=GROUP_ROWS
    )
    return str(folder)


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
    engine: Engine,
    nodes: Any,
    levels: tuple[str, ...],
    value: str,
    variance: Any,
    folder: Path,
) -> tuple[Measured | None, ...]:
    """For each level above the leaves, where its measurements are."""
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
    found: list[Measured | None] = []
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
        ends = engine.run("reading measurements", measured.scan, work)
        if depth == 0 and starts[-1] != 1:
            check.fail(argument, f"must have one row, not {starts[-1]}.")
        found.append(measured.joined(argument, parts, ends))
    return tuple(found)


def _measured_files(
    argument: str, source: Any, columns: Sequence[str], depth: int, folder: Path
) -> Any:
    """Frames in memory are sorted; all other measurements must be sorted already."""
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
    parquet().write_table(table, folder / "part.parquet", row_group_size=GROUP_ROWS)
    return str(folder)


def refuse_unmatched(
    source: Measured, levels: Sequence[str], matched: int, ends: Sequence[tuple[Key, Key]]
) -> None:
    """Refuse measurements of nodes that no partition has: they lie between two partitions."""
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
    variance: Any, levels: tuple[str, ...], measured: Sequence[Measured | None]
) -> Any:
    """A column, or one number per level, the total's first; inf for levels not measured."""
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
