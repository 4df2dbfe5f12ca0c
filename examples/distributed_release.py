"""A private release from Parquet to Parquet on a cluster, while one worker is killed.

The counts of a census-shaped hierarchy of five levels are in Parquet files, sorted by their labels.
Two worker processes, each with little memory, publish them with differential privacy, as one folder
of Parquet files per level and a manifest with the ledger. Meanwhile one worker is killed. The
cluster starts another one and repeats the lost work. Noise that was drawn before is not drawn
again, so that the result is a single consistent release with one ledger. Run it with

    python examples/distributed_release.py --leaves 2000000 --epsilon 1

The people are made up. On a cluster of several machines the call is the same: connect a
``distributed.Client`` to it first, and use folders on storage that every machine can reach.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

LEVELS = ("state", "county", "tract", "group", "block")
# Children of a state, a county, a tract and a block group.
FANOUTS = (10, 10, 4, 20)


def write_leaves(folder: Path, leaves: int, rows: int, seed: int = 0) -> None:
    """Write files of sorted rows; a row has the labels of a block and its number of people."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    folder.mkdir()
    for k, start in enumerate(range(0, leaves, rows)):
        block = np.arange(start, min(start + rows, leaves))
        columns: dict[str, Any] = {"block": block}
        above = block
        for level, fanout in zip(LEVELS[-2::-1], FANOUTS[::-1], strict=True):
            above = above // fanout
            columns[level] = above.astype(np.int32)
        people = rng.poisson(30, block.size) * (rng.random(block.size) < 0.6)
        table = pa.table({**{name: columns[name] for name in LEVELS}, "people": people})
        pq.write_table(table, folder / f"part-{k}.parquet", row_group_size=1 << 20)


def kill_a_worker(cluster: Any, confidential: Path) -> None:
    """Kill a worker process once the first draws of noise are on disk."""
    while not list(confidential.glob("attempts-*/noisy-*.npz")):
        time.sleep(0.01)
    worker = next(iter(cluster.workers.values()))
    os.kill(worker.pid, signal.SIGKILL)
    print(f"killed the worker with process id {worker.pid}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leaves", type=int, default=200_000, help="number of blocks")
    parser.add_argument("--epsilon", default="1", help="privacy budget, such as 0.1 or 1/3")
    parser.add_argument("--partitions", type=int, default=6, help="pieces of work")
    parser.add_argument("--memory", default="1GB", help="memory of each worker")
    parser.add_argument("--keep-all", action="store_true", help="do not kill a worker")
    args = parser.parse_args(argv)

    # The newest pandas warns of how Dask calls it.
    warnings.simplefilter("ignore")
    from distributed import Client, LocalCluster

    import gmtree.dask

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = -(-args.leaves // args.partitions)
        write_leaves(folder / "leaves", args.leaves, rows)
        with (
            LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                memory_limit=args.memory,
                dashboard_address=None,
                silence_logs=50,
            ) as cluster,
            Client(cluster),
        ):
            if not args.keep_all:
                target = (cluster, folder / "confidential")
                threading.Thread(target=kill_a_worker, args=target, daemon=True).start()
            start = time.perf_counter()
            made = gmtree.dask.release(
                folder / "leaves",
                levels=LEVELS,
                count="people",
                epsilon=args.epsilon,
                nonnegative=True,
                integer=True,
                out=folder / "published",
                confidential=folder / "confidential",
                partition_rows=rows,
            )
            seconds = time.perf_counter() - start
        # made["block"] is a Dask DataFrame, for levels that do not fit into memory.
        sums = {name: int(np.sum(made.table(name)["people"].to_numpy())) for name in made}
        total = next(iter(sums.values()))
        nodes = sum(made.nodes(name) for name in made)
        print(f"released {nodes:,} nodes in {seconds:.1f} s (a first run compiles, too)")
        print(f"every level adds up to {total:,}: {set(sums.values()) == {total}}")
        print(f"left in the confidential folder: {os.listdir(folder / 'confidential')}")
        print()
        print(made.ledger)


if __name__ == "__main__":
    main()
