"""A hierarchy of any size in Parquet files, with the shape of a census.

It has five levels. The last one has fifty leaves in each family.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gmtree.consistency import Consistency
from gmtree.dask.engine import Engine
from gmtree.tree import Tree

LEVELS = ["state", "county", "tract", "group", "block"]
# Number of leaves below one node of each level above the leaves.
LEAVES_BELOW = (300_000, 5_000, 200, 50)
# Nodes per leaf, and bytes on disk per node: leaves, results, and files between tasks.
NODES_PER_LEAF = 1.0 + sum(1 / below for below in LEAVES_BELOW)
BYTES_PER_NODE = 24
_PIECE = 3_000_000


def labels(leaf: np.ndarray) -> dict[str, np.ndarray]:
    """Labels of leaves with the given numbers."""
    above = {
        name: (leaf // below).astype(np.int32)
        for name, below in zip(LEVELS, LEAVES_BELOW, strict=False)
    }
    return {**above, LEVELS[-1]: leaf}


def write_leaves(path: str, start: int, stop: int) -> None:
    """Write leaves with counts of about six people, with and without noise of scale 8."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(start)
    leaf = np.arange(start, stop)
    people = rng.integers(0, 21, leaf.size) * (rng.random(leaf.size) < 0.6)
    columns = {**labels(leaf), "people": people, "y": people + rng.laplace(0, 8, leaf.size)}
    pq.write_table(
        pa.table(columns),
        path,
        row_group_size=1 << 20,
        use_dictionary=[*LEVELS[:-1], "people"],
        column_encoding={LEVELS[-1]: "DELTA_BINARY_PACKED"},
    )


def write_nodes(path: str, depth: int, start: int, stop: int, leaves: int) -> None:
    """Write measurements of nodes `start` to `stop` of a level, with noise of scale 8."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    below = LEAVES_BELOW[depth]
    first = np.arange(start, stop) * below
    above = dict(list(labels(first).items())[: depth + 1])
    noise = np.random.default_rng([depth, start]).laplace(0, 8, first.size)
    y = np.minimum(below, leaves - first) * 6 + noise
    pq.write_table(pa.table({**above, "y": y}), path, row_group_size=1 << 18)


def _cut(folder: Path, size: int, rows: int) -> list[tuple[str, int, int]]:
    """Files of `rows` rows each, in a new folder, with the numbers of their rows."""
    folder.mkdir(parents=True)
    return [
        (str(folder / f"part-{k:05d}.parquet"), start, min(start + rows, size))
        for k, start in enumerate(range(0, size, rows))
    ]


class Data:
    """Leaves and measurements above them in Parquet files, and folders for results.

    Parameters
    ----------
    folder : Path
    nodes : float
        Approximate number of nodes.
    client : distributed.Client, optional
        Cluster that writes the leaves.
    """

    def __init__(self, folder: Path, nodes: float, client: Any = None) -> None:
        self.folder, self.leaves = folder, max(2000, int(nodes / NODES_PER_LEAF))
        self.nodes = {name: str(folder / name) for name in LEVELS[:-1]}
        self.sizes = [-(-self.leaves // size) for size in LEAVES_BELOW]
        self.n = 1 + sum(self.sizes) + self.leaves
        self._made = 0
        rows = max(1000, min(_PIECE, self.leaves // 5))
        engine = Engine(client)
        engine.run("writing leaves", write_leaves, _cut(folder / "leaves", self.leaves, rows))
        engine.run(
            "writing measurements",
            write_nodes,
            [
                (path, depth, start, stop, self.leaves)
                for depth, (size, name) in enumerate(zip(self.sizes, self.nodes, strict=True))
                for path, start, stop in _cut(folder / name, size, _PIECE)
            ],
        )

    @contextmanager
    def made(self, **options: Any) -> Iterator[Any]:
        """Reconciled values on disk, removed afterwards."""
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
        """Write reconciled values, and remove them."""
        with self.made(**options):
            pass

    def in_memory(self, **options: Any) -> np.ndarray:
        """Reconciled values from the same files, computed in memory."""
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
        """Write reconciled values from the same files to one new file, computed in memory."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        x = self.in_memory()
        table = pq.read_table(self.folder / "leaves", columns=LEVELS)
        table = table.append_column("x", pa.array(x[x.size - self.leaves :]))
        pq.write_table(table, self.folder / "memory.parquet")
