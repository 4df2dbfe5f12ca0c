"""Benchmarks of distributed computation, from Parquet to Parquet on Dask.

Small hierarchies are compared with results computed in memory, and their times with those of
Dask's own sums. Larger ones are reconciled once, with checks that do not use gmtree. A full run
starts worker processes with one thread and one gigabyte each.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gmtree.bench import dask_scale
from gmtree.bench.dask_data import BYTES_PER_NODE, LEVELS, Data
from gmtree.bench.report import Check, Column, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import time_of

NODES = 11_800_000
MEMORY = "1GB"
# Computing larger trees in memory needs more than 16 GB, including their frames.
MOST_IN_MEMORY = 20_000_000
# Runs on larger trees are not repeated.
MOST_REPEATED = 200_000_000
# The time per node of a large run is compared with the time per node of a run of this size.
SMALL = 10_000_000


def run(report: Report, settings: Settings) -> None:
    """Measure the bars of distributed computation."""
    missing = [name for name in ("pandas", "pyarrow", "dask", "distributed") if not find_spec(name)]
    if missing:
        report.notes.append(f"Not measured, since {' and '.join(missing)} cannot be imported.")
        return
    nodes = settings.size or NODES
    report.is_full_size = nodes >= NODES
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        needed = BYTES_PER_NODE * nodes
        report.say(f"This needs {needed / 1e9:.1f} GB in {name}, which is removed at the end.")
        dask_scale.refuse_full_disk(Path(name), needed)
        if nodes <= MOST_IN_MEMORY:
            report.step("comparing results")
            report.add(results(Data(Path(name) / "compared", nodes)))
        if report.is_full_size and nodes <= MOST_REPEATED:
            report.step("measuring")
            data = Data(Path(name) / "repeated", nodes)
            report.add(speed(data, settings.times(usual=3, quick=1), report))
            if nodes > MOST_IN_MEMORY:
                with workers(2):
                    report.add(dask_scale.interrupted_release(data))
            shutil.rmtree(data.folder)
        if nodes > MOST_IN_MEMORY:
            report.add(growth(Path(name), (SMALL, nodes), report))


def growth(folder: Path, sizes: tuple[int, ...], report: Report) -> Iterator[Check]:
    """Time per node of a small and of a large run with two workers."""
    table = report.table(
        "One run with two workers of one gigabyte",
        Column("nodes", ",d", 13),
        Column("seconds", ".1f"),
        Column("core seconds", ".1f"),
        Column("core ns per node", ".0f"),
        Column("peak MB", ".0f"),
        Column("GB read", ".1f"),
        Column("GB written", ".1f"),
    )
    per_node = []
    for nodes in sizes:
        report.step(f"{nodes:,} nodes")
        start = time.perf_counter()
        with workers(2) as client:
            data = Data(folder / str(nodes), nodes, client)
        seconds = time.perf_counter() - start
        report.say(f"{data.n:,} nodes were written in {seconds:.0f} s, and are reconciled now.")
        # New workers, because the peak memory of the others includes the writing of leaves.
        with workers(2) as client:
            if nodes == SMALL:
                data.make()  # compiles
            found = dask_scale.measure(data, client)
            shutil.rmtree(data.folder)
        per_node.append(found["core_seconds"] / data.n)
        table.add(
            data.n,
            found["seconds"],
            found["core_seconds"],
            1e9 * per_node[-1],
            found["peak"] / 1e6,
            found["read"] / 1e9,
            found["written"] / 1e9,
        )
        yield Check(f"{data.n:,} nodes: states and total against sums by pyarrow",
                    found["sums"], 1e-10, about_results=True)  # fmt: skip
        yield Check(f"{data.n:,} nodes: gradient at a million leaves",
                    found["optimality"], 1e-8, about_results=True)  # fmt: skip
    yield Check("growth of the processor time per node", per_node[-1] / per_node[0], 1.3)
    yield Check("peak memory of a worker, MB", found["peak"] / 1e6, 700)


def results(data: Data) -> Iterator[Check]:
    """Differences from results that were computed in memory."""
    import dask

    rows = max(500, data.leaves // 16)
    with dask.config.set(scheduler="synchronous"):
        for options in ({}, {"nonnegative": True}, {"nonnegative": True, "integer": True}):
            known = data.in_memory(**options)
            with data.made(partition_rows=rows, **options) as made:
                found = np.concatenate([made.table(name)["y"].to_numpy() for name in made])
            what = " and ".join(options) or "plain"
            if "integer" in options:
                share = np.count_nonzero(found != known) / known.size
                yield Check("whole numbers that differ from memory's, share", share, 1e-5,
                            about_results=True)  # fmt: skip
                continue
            error = float(np.max(abs(found - known) / np.maximum(1, abs(known))))
            yield Check(f"{what}: difference from memory", error, 1e-12, about_results=True)
            if options:
                other = int(np.count_nonzero((found == 0) != (known == 0)))
                yield Check("zeros that differ from memory's", other, 0, about_results=True)


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """A client of `count` processes on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            memory_limit=MEMORY,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def speed(data: Data, times: int, report: Report) -> Iterator[Check]:
    """Times with one and two workers, of Dask's own sums, and in memory."""

    def best(action: Any) -> float:
        action()
        return min(time_of(action) for _ in range(times))

    with workers(1):
        one = best(data.make)
    with workers(2) as client:
        two = best(data.make)
        plain_peak = max(client.run(peak).values())
        bounded = best(lambda: data.make(nonnegative=True))
        bounded_peak = max(client.run(peak).values())
        sums = best(lambda: group_sums(data))
    report.notes.append(
        f"{data.n:,} nodes: {two:.1f} s with two workers, {one:.1f} s with one, "
        f"{bounded:.1f} s without negative values, {sums:.1f} s for Dask's sums of four levels; "
        f"{1e9 * 2 * two / data.n:.0f} ns of a worker's time per node."
    )
    yield Check("times faster with two workers than with one", one / two, 1.7, at_least=True)
    yield Check("time / Dask's groupby sums of the same levels", two / sums, 1)
    yield Check("non-negative / plain", bounded / two, 2.5)
    yield Check("peak memory of a worker, MB, plain", plain_peak / 1e6, 700)
    yield Check("peak memory of a worker, MB, non-negative", bounded_peak / 1e6, 700)
    if data.n <= MOST_IN_MEMORY:
        yield Check("time / in memory, from the same files", two / best(data.write_in_memory), 1.5)


def peak() -> int:
    """Peak memory of this worker, in bytes."""
    from gmtree.bench.timing import peak_memory

    return peak_memory() or 0


def group_sums(data: Data) -> None:
    """Sums of the values of the leaves for each level above them, by Dask."""
    import dask.dataframe as dd

    # Read small pieces without the column of leaves, because whole files do not fit into a worker.
    frame = dd.read_parquet(
        data.folder / "leaves", columns=[*LEVELS[:-1], "y"], split_row_groups=True
    )
    for depth in range(1, len(LEVELS)):
        sums = frame.groupby(LEVELS[:depth])["y"].sum(split_out=1 if depth < 4 else 8)
        sums.to_frame().to_parquet(data.folder / f"sums{depth}", write_index=True)
        shutil.rmtree(data.folder / f"sums{depth}")
