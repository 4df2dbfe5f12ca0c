"""Past one machine: from Parquet to Parquet on Dask, beside the same in memory and Dask's own sums.

The hierarchy has the shape of a census: five levels, fifty leaves in a family of the last one. A
quick run computes everything in this process, to see that results are right; a full one starts
worker processes of one thread and one gigabyte each.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gmtree._progress import Progress
from gmtree.bench.report import Check, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import time_of
from gmtree.consistency import Consistency
from gmtree.tree import Tree

NODES = 11_800_000
LEVELS = ["state", "county", "tract", "group", "block"]
# Leaves below one node of each level above them.
LEAVES_BELOW = (300_000, 5_000, 200, 50)
MEMORY = "1GB"
# In-memory results of larger trees need more than 16 GB with their frames.
MOST_IN_MEMORY = 20_000_000


def run(settings: Settings) -> Report:
    """Measure the bars of distributed computation."""
    report = Report("dask", "Past one machine", settings.as_dict())
    missing = [name for name in ("pandas", "pyarrow", "dask", "distributed") if not find_spec(name)]
    if missing:
        report.notes.append(f"Not measured, since {' and '.join(missing)} cannot be imported.")
        return report
    nodes = settings.size or NODES
    full = nodes >= NODES
    times = settings.times(usual=3, quick=1)
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = Data(Path(name), max(2000, int(nodes / 1.0252)))
        with Progress(3, "writing leaves") as progress:
            data.write()
            progress.advance(1, "comparing results")
            if nodes <= MOST_IN_MEMORY:
                report.checks += results(data)
            progress.advance(1, "measuring")
            if full:
                report.checks += speed(data, times, report)
            progress.advance(1)
    return report


class Data:
    """Leaves and measurements above them in Parquet files, and folders for results."""

    def __init__(self, folder: Path, leaves: int) -> None:
        self.folder, self.leaves = folder, leaves
        self.nodes = {name: str(folder / f"{name}.parquet") for name in LEVELS[:-1]}
        self.sizes = [-(-leaves // size) for size in LEAVES_BELOW]
        self.n = 1 + sum(self.sizes) + leaves
        self._made = 0

    def write(self) -> None:
        """All files; counts of about six people with noise of scale 8."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rng = np.random.default_rng(0)
        (self.folder / "leaves").mkdir()
        rows = max(1000, min(6_000_000, self.leaves // 5))
        for k, start in enumerate(range(0, self.leaves, rows)):
            leaf = np.arange(start, min(start + rows, self.leaves))
            people = rng.poisson(10, leaf.size) * (rng.random(leaf.size) < 0.6)
            columns = {**self.labels(leaf), "y": people + rng.laplace(0, 8, leaf.size)}
            path = self.folder / "leaves" / f"part-{k}.parquet"
            pq.write_table(pa.table(columns), path, row_group_size=1 << 20)
        for depth, (name, below) in enumerate(zip(LEVELS, LEAVES_BELOW, strict=False)):
            first = np.arange(0, self.leaves, below)
            labels = dict(list(self.labels(first).items())[: depth + 1])
            y = np.minimum(below, self.leaves - first) * 6 + rng.laplace(0, 8, first.size)
            pq.write_table(pa.table({**labels, "y": y}), self.nodes[name], row_group_size=1 << 18)

    def labels(self, leaf: np.ndarray) -> dict[str, np.ndarray]:
        """Labels of some leaves."""
        above = {
            name: (leaf // below).astype(np.int32)
            for name, below in zip(LEVELS, LEAVES_BELOW, strict=False)
        }
        return {**above, LEVELS[-1]: leaf}

    @contextmanager
    def made(self, **options: Any) -> Iterator[Any]:
        """Results, removed afterwards."""
        from gmtree.dask import reconcile

        self._made += 1
        out = self.folder / f"out{self._made}"
        try:
            yield reconcile(
                self.folder / "leaves", LEVELS, "y", nodes=self.nodes, out=out, **options
            )
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def make(self, **options: Any) -> None:
        """Results, written and removed."""
        with self.made(**options):
            pass

    def in_memory(self, **options: Any) -> np.ndarray:
        """The same from the same files, at once."""
        import pyarrow.parquet as pq

        table = pq.read_table(self.folder / "leaves", use_threads=False)
        tree = Tree.from_levels(*(table[name].to_numpy() for name in LEVELS), levels=LEVELS)
        above = tree.height - len(LEVELS)
        parts = [np.zeros(above), *(pq.read_table(p)["y"].to_numpy() for p in self.nodes.values())]
        noisy = np.concatenate([*parts, table["y"].to_numpy()])
        variance = np.ones(tree.n)
        variance[:above] = np.inf
        return Consistency(tree, {"node": variance}).project(noisy, **options)

    def write_in_memory(self) -> None:
        """Consistent values from the same files to one new file, in memory."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        x = self.in_memory()
        table = pq.read_table(self.folder / "leaves", columns=LEVELS)
        table = table.append_column("x", pa.array(x[x.size - self.leaves :]))
        pq.write_table(table, self.folder / "memory.parquet")


def results(data: Data) -> Iterator[Check]:
    """How far results are from those in memory."""
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
    """A client of so many processes on this machine."""
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
    yield Check("times faster with two workers than with one", one / two, 1.4, at_least=True)
    yield Check("time / Dask's groupby sums of the same levels", two / sums, 1)
    yield Check("non-negative / plain", bounded / two, 2.5)
    yield Check("peak memory of a worker, MB, plain", plain_peak / 1e6, 700)
    yield Check("peak memory of a worker, MB, non-negative", bounded_peak / 1e6, 700)
    if data.n <= MOST_IN_MEMORY:
        yield Check("time / in memory, from the same files", two / best(data.write_in_memory), 1.5)


def peak() -> int:
    """Most memory that this worker has had, in bytes."""
    from gmtree.bench.timing import peak_memory

    return peak_memory() or 0


def group_sums(data: Data) -> None:
    """Sums of the values of the leaves for each level above them, by Dask."""
    import dask.dataframe as dd

    # In small pieces, without the column of leaves: whole files need more than a worker has.
    frame = dd.read_parquet(
        data.folder / "leaves", columns=[*LEVELS[:-1], "y"], split_row_groups=True
    )
    for depth in range(1, len(LEVELS)):
        sums = frame.groupby(LEVELS[:depth])["y"].sum(split_out=1 if depth < 4 else 8)
        sums.to_frame().to_parquet(data.folder / f"sums{depth}", write_index=True)
        shutil.rmtree(data.folder / f"sums{depth}")
