"""Speed and memory of Dask: reconciliation and releases from Parquet to Parquet.

Results are checked without gmtree. Every worker process has one thread and one gigabyte of memory.
"""

from __future__ import annotations

import _thread
import json
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gmtree.bench.dask_data import BYTES_PER_NODE, LEVELS, Data, optimality_error, sums_error
from gmtree.bench.report import Check, Column, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, peak_memory

NODES = 11_800_000
# From the second size on, the time per node is compared with that of a run of the first size, and a
# release is interrupted and resumed.
SMALL, LARGE = 10_000_000, 20_000_000
# Above this size, reconciliation is measured once only.
MOST_REPEATED = 200_000_000

COLUMNS = (
    Column("nodes", ",d", 13),
    Column("seconds", ".1f"),
    Column("core seconds", ".1f"),
    Column("core ns per node", ".0f"),
    Column("peak MB", ".0f"),
    Column("GB read", ".1f"),
    Column("GB written", ".1f"),
)


def run(report: Report, settings: Settings) -> None:
    """Measure reconciliation at one or two sizes, and the interruption of a large release."""
    missing = [name for name in ("pyarrow", "dask", "distributed") if not find_spec(name)]
    if missing:
        report.notes.append(f"Not measured, since {' and '.join(missing)} cannot be imported.")
        return
    nodes = settings.size or NODES
    report.is_full_size = nodes >= NODES
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder, needed = Path(name), BYTES_PER_NODE * nodes
        report.say(f"This needs {needed / 1e9:.1f} GB in {name}, which is removed at the end.")
        refuse_full_disk(folder, needed)
        sizes = (SMALL, nodes) if nodes >= LARGE else (nodes,)
        report.add(growth(folder, sizes, report))
        if report.is_full_size and nodes <= MOST_REPEATED:
            report.step("measuring")
            data = Data(folder / "repeated", nodes)
            report.add(speed(data, settings.times(usual=3, quick=1), report))
            if nodes >= LARGE:
                with workers(2):
                    report.add(interrupted_release(data))


def refuse_full_disk(folder: Path, needed: float) -> None:
    """Refuse to begin if the disk does not have enough room."""
    room = shutil.disk_usage(folder).free
    if room < needed:
        raise SystemExit(
            f"gmtree bench dask needs {needed / 1e9:.0f} GB in {str(folder)!r}, which has "
            f"{room / 1e9:.0f} GB. Set TMPDIR to a folder on a larger disk."
        )


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """A client of `count` processes on this machine."""
    from distributed import Client, LocalCluster

    options: Any = {"memory_limit": "1GB", "dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(n_workers=count, threads_per_worker=1, **options) as cluster,
        Client(cluster) as client,
    ):
        yield client


def usage() -> np.ndarray:
    """Seconds of processor time, peak memory, and bytes read and written by this process."""
    moved = {"rchar": 0, "wchar": 0}
    with suppress(OSError):  # only Linux has this file
        for line in Path("/proc/self/io").read_text().splitlines():
            name, _, number = line.partition(": ")
            moved[name] = int(number)
    return np.array([time.process_time(), peak_memory() or 0, moved["rchar"], moved["wchar"]])


def peak(client: Any) -> float:
    """Largest peak memory of a worker, in megabytes."""
    return max(numbers[1] for numbers in client.run(usage).values()) / 1e6


# --------------------------------------------------------------------------- reconciliation


def growth(folder: Path, sizes: tuple[int, ...], report: Report) -> Iterator[Check]:
    """One run with two workers for each size, and the growth of the processor time per node.

    The processor time includes that of this process.
    """
    table = report.table("One run with two workers of one gigabyte", *COLUMNS)
    per_node: list[float] = []
    for nodes in sizes:
        report.step(f"{nodes:,} nodes")
        start = time.perf_counter()
        with workers(2) as client:
            data = Data(folder / str(nodes), nodes, client)
        seconds = time.perf_counter() - start
        report.say(f"{data.n:,} nodes were written in {seconds:.0f} s, and are reconciled now.")
        # Start new workers, because the peak memory of the old ones includes the writing of leaves.
        with workers(2) as client:
            if not per_node:
                data.make()  # compiles
            before, own = sum(client.run(usage).values()), time.process_time()
            start = time.perf_counter()
            with data.made() as made:
                seconds = time.perf_counter() - start
                core, _, read, written = sum(client.run(usage).values()) - before
                core += time.process_time() - own
                megabytes = peak(client)
                sums, gradient = sums_error(made), optimality_error(data, made)
        shutil.rmtree(data.folder)
        per_node.append(1e9 * core / data.n)
        table.add(data.n, seconds, core, per_node[-1], megabytes, read / 1e9, written / 1e9)
        claim = f"{data.n:,} nodes: states and total against sums by pyarrow"
        yield Check(claim, sums, 1e-10, about_results=True)
        claim = f"{data.n:,} nodes: gradient at a million leaves"
        yield Check(claim, gradient, 1e-8, about_results=True)
    if len(sizes) > 1:
        yield Check("growth of the processor time per node", per_node[-1] / per_node[0], 1.3)
    yield Check("peak memory of a worker, MB", megabytes, 700)


def speed(data: Data, times: int, report: Report) -> Iterator[Check]:
    """Times with one and two workers, and without negative values."""
    with workers(1):
        one = best_time(data.make, times)
    with workers(2) as client:
        two = best_time(data.make, times)
        bounded = best_time(partial(data.make, nonnegative=True), times)
        megabytes = peak(client)
    report.notes.append(
        f"{data.n:,} nodes: {two:.1f} s with two workers, {one:.1f} s with one, "
        f"{bounded:.1f} s without negative values."
    )
    yield Check("times faster with two workers than with one", one / two, 1.7, at_least=True)
    yield Check("non-negative / plain", bounded / two, 2.5)
    yield Check("peak memory of a worker, MB, non-negative", megabytes, 700)


# --------------------------------------------------------------------------- a release


def interrupted_release(data: Data) -> Iterator[Check]:
    """Release the true counts, interrupt the run when half of the noise is drawn, and resume it."""
    from gmtree.dask import release
    from gmtree.privacy import Account

    account = Account(epsilon=1, path=data.folder / "budget.json")
    out, secret = data.folder / "released", data.folder / "confidential"
    record = secret / "run.json"

    def run(resume: bool) -> Any:
        return release(
            data.folder / "leaves", LEVELS, "people", epsilon=1, nonnegative=True, account=account,
            out=out, confidential=secret, resume=resume,
        )  # fmt: skip

    watch = threading.Thread(target=_interrupt_halfway, args=(record,), daemon=True)
    watch.start()
    with suppress(KeyboardInterrupt):
        run(resume=False)
        watch.join()
    before = json.loads(record.read_text())["committed"]
    made = run(resume=True)
    after = json.loads(record.read_text())["committed"]
    redrawn = sum(after[k] != attempt for k, attempt in before.items())
    share = len(before) / len(after)
    yield Check("release: share of the partitions drawn when it was interrupted", share)
    yield Check("release: draws repeated after the interrupt", redrawn, 0, about_results=True)
    entries = len(Account(epsilon=1, path=data.folder / "budget.json").entries)
    yield Check("release: entries in the account", entries, 1, about_results=True)
    left = sum(path.is_dir() for path in secret.iterdir())
    yield Check("release: confidential folders that are left", left, 0, about_results=True)
    states, total = (made.table(name)["people"].to_numpy().sum() for name in (LEVELS[0], "total"))
    error = abs(states - total) / total
    yield Check("release: sum of the states against the total", error, 1e-12, about_results=True)


def _interrupt_halfway(record: Path) -> None:
    """Interrupt the main thread when half of the partitions have noise."""
    while True:
        time.sleep(0.05)
        if record.exists():
            data = json.loads(record.read_text())
            if 2 * len(data["committed"]) >= len(data["partitions"]):
                _thread.interrupt_main()
                return
