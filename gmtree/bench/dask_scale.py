"""Reconciliation and release of very large hierarchies, with checks that do not use gmtree."""

from __future__ import annotations

import _thread
import json
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gmtree.bench.dask_data import LEAVES_BELOW, LEVELS, Data
from gmtree.bench.report import Check

# Leaves in each stretch for which optimality is checked, and number of stretches.
_STRETCH, _STRETCHES = 50_000, 20


def usage() -> np.ndarray:
    """Seconds of processor time, peak memory, and bytes read and written by this process."""
    from gmtree.bench.timing import peak_memory

    moved = {"rchar": 0, "wchar": 0}
    try:
        for line in Path("/proc/self/io").read_text().splitlines():
            name, _, number = line.partition(": ")
            moved[name] = int(number)
    except OSError:  # not Linux
        pass
    return np.array([time.process_time(), peak_memory() or 0, moved["rchar"], moved["wchar"]])


def measure(data: Data, client: Any, **options: Any) -> dict[str, float]:
    """Reconcile once; return times, peak memory of a worker, bytes moved, and errors found.

    ``core_seconds`` is the processor time of all workers and of this process.
    """
    before, own = sum(client.run(usage).values()), time.process_time()
    start = time.perf_counter()
    with data.made(**options) as made:
        seconds = time.perf_counter() - start
        after = client.run(usage)
        core, _, read, written = sum(after.values()) - before
        return {
            "seconds": seconds,
            "core_seconds": core + time.process_time() - own,
            "peak": max(x[1] for x in after.values()),
            "read": read,
            "written": written,
            "sums": sums_error(made),
            "optimality": optimality_error(data, made) if not options else 0.0,
        }


# --------------------------------------------------------------------------- checks


def sums_error(made: Any) -> float:
    """Largest relative error of states and total, from sums of the leaves by pyarrow alone."""
    import pyarrow.parquet as pq

    states = made.table(LEVELS[0])["y"].to_numpy()
    sums = np.zeros(states.size)
    for name in made.files(LEVELS[-1]):
        with pq.ParquetFile(name) as file:
            for batch in file.iter_batches(1 << 20, columns=[LEVELS[0], "y"]):
                sums += np.bincount(batch[0].to_numpy(), batch[1].to_numpy(), states.size)
    error = float(np.max(abs(sums - states) / np.maximum(1, abs(states))))
    if "total" in made:
        total = made.table("total")["y"].to_numpy()[0]
        error = max(error, abs(sums.sum() - total) / max(1, abs(total)))
    return error


def optimality_error(data: Data, made: Any) -> float:
    """Largest gradient of the sum of squares in the direction of a leaf, for a sample of leaves.

    At the optimum, the differences between measured and reconciled values of a leaf and of all
    its ancestors add up to zero, because all variances are equal and the total is not measured.
    """
    below = dict(zip(LEVELS, (*LEAVES_BELOW, 1), strict=True))
    given = {name: sorted(map(str, (data.folder / name).iterdir())) for name in LEVELS[:-1]}
    given[LEVELS[-1]] = sorted(map(str, (data.folder / "leaves").iterdir()))
    rng, error = np.random.default_rng(0), 0.0
    for start in rng.integers(0, max(1, data.leaves - _STRETCH), _STRETCHES):
        stop = min(int(start) + _STRETCH, data.leaves)
        gradient = np.zeros(stop - start)
        for name, files in given.items():
            node = np.arange(start, stop) // below[name]
            ends = int(node[0]), int(node[-1]) + 1
            change = column(files, *ends) - column(made.files(name), *ends)
            gradient += change[node - node[0]]
        error = max(error, float(np.max(abs(gradient))))
    return error


def column(files: Sequence[str], start: int, stop: int) -> np.ndarray:
    """Rows `start` to `stop` of the column ``y`` of consecutive files."""
    import pyarrow.parquet as pq

    found, first = [], 0
    for name in files:
        groups = _rows(name)
        for group, rows in enumerate(groups):
            if first < stop and first + rows > start:
                with pq.ParquetFile(name) as file:
                    values = file.read_row_group(group, columns=["y"])["y"].to_numpy()
                found.append(values[max(0, start - first) : stop - first])
            first += rows
    return np.concatenate(found)


@cache
def _rows(name: str) -> tuple[int, ...]:
    """Rows of each row group of a file."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(name)
    return tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))


# --------------------------------------------------------------------------- a release


def interrupted_release(data: Data) -> Iterator[Check]:
    """Release the true counts, interrupt the run when half of the noise is drawn, and resume it."""
    from gmtree.dask import release
    from gmtree.privacy import Account

    account = Account(epsilon=1, path=data.folder / "budget.json")
    out, secret = data.folder / "released", data.folder / "confidential"

    def run(resume: bool) -> Any:
        return release(
            data.folder / "leaves", LEVELS, "people", epsilon=1, nonnegative=True, account=account,
            out=out, confidential=secret, resume=resume,
        )  # fmt: skip

    watch = threading.Thread(target=_interrupt_halfway, args=(secret / "run.json",), daemon=True)
    watch.start()
    with suppress(KeyboardInterrupt):
        run(resume=False)
    watch.join()
    before = json.loads((secret / "run.json").read_text())["committed"]
    made = run(resume=True)
    after = json.loads((secret / "run.json").read_text())["committed"]
    redrawn = sum(after[k] != attempt for k, attempt in before.items())
    share = len(before) / len(after)
    yield Check("release: share of the partitions drawn when it was interrupted", share)
    yield Check("release: draws repeated after the interrupt", redrawn, 0, about_results=True)
    entries = len(Account(epsilon=1, path=data.folder / "budget.json").entries)
    yield Check("release: entries in the account", entries, 1, about_results=True)
    left = sum(1 for path in secret.iterdir() if path.is_dir())
    yield Check("release: confidential folders that are left", left, 0, about_results=True)
    states = made.table(LEVELS[0])["people"].to_numpy()
    total = made.table("total")["people"].to_numpy()[0]
    error = abs(states.sum() - total) / total
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


def refuse_full_disk(folder: Path, needed: float) -> None:
    """Refuse to begin if the disk does not have enough room."""
    room = shutil.disk_usage(folder).free
    if room < needed:
        raise SystemExit(
            f"gmtree bench dask needs {needed / 1e9:.0f} GB in {str(folder)!r}, which has "
            f"{room / 1e9:.0f} GB. Set TMPDIR to a folder on a larger disk."
        )
