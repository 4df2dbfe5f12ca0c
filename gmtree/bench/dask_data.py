"""A hierarchy of any size in Parquet files, with the shape of a census, and checks of its results.

It has five levels. The last one has fifty leaves in each family. The checks do not use gmtree.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gmtree.dask.engine import Engine
from gmtree.dask.parquet import arrow, parquet

LEVELS = ["state", "county", "tract", "group", "block"]
# Number of leaves below one node of each level above the leaves.
LEAVES_BELOW = (300_000, 5_000, 200, 50)
# Nodes per leaf, and bytes on disk per node: leaves, results, and files between tasks.
NODES_PER_LEAF = 1.0 + sum(1 / below for below in LEAVES_BELOW)
BYTES_PER_NODE = 24
_PIECE = 3_000_000
# Leaves in each stretch for which optimality is checked, and number of stretches.
_STRETCH, _STRETCHES = 50_000, 20


def labels(leaf: np.ndarray) -> dict[str, np.ndarray]:
    """Labels of leaves with the given numbers."""
    above = {
        name: (leaf // below).astype(np.int32)
        for name, below in zip(LEVELS, LEAVES_BELOW, strict=False)
    }
    return {**above, LEVELS[-1]: leaf}


def write_leaves(path: str, start: int, stop: int) -> None:
    """Write leaves with counts of about six people, with and without noise of scale 8."""
    rng = np.random.default_rng(start)
    leaf = np.arange(start, stop)
    people = rng.integers(0, 21, leaf.size) * (rng.random(leaf.size) < 0.6)
    columns = {**labels(leaf), "people": people, "y": people + rng.laplace(0, 8, leaf.size)}
    options = {
        "use_dictionary": [*LEVELS[:-1], "people"],
        "column_encoding": {LEVELS[-1]: "DELTA_BINARY_PACKED"},
    }
    parquet().write_table(arrow().table(columns), path, row_group_size=1 << 20, **options)


def write_nodes(path: str, depth: int, start: int, stop: int, leaves: int) -> None:
    """Write measurements of nodes `start` to `stop` of a level, with noise of scale 8."""
    below = LEAVES_BELOW[depth]
    first = np.arange(start, stop) * below
    above = dict(list(labels(first).items())[: depth + 1])
    noise = np.random.default_rng([depth, start]).laplace(0, 8, first.size)
    y = np.minimum(below, leaves - first) * 6 + noise
    parquet().write_table(arrow().table({**above, "y": y}), path, row_group_size=1 << 18)


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
        sizes = [-(-self.leaves // below) for below in LEAVES_BELOW]
        self.n = 1 + sum(sizes) + self.leaves
        rows = max(1000, min(_PIECE, self.leaves // 5))
        engine = Engine(client)
        engine.run("writing leaves", write_leaves, _cut(folder / "leaves", self.leaves, rows))
        work = [
            (path, depth, start, stop, self.leaves)
            for depth, (size, name) in enumerate(zip(sizes, self.nodes, strict=True))
            for path, start, stop in _cut(folder / name, size, _PIECE)
        ]
        engine.run("writing measurements", write_nodes, work)

    @contextmanager
    def made(self, **options: Any) -> Iterator[Any]:
        """Context manager that writes reconciled values to disk, and removes them at its end."""
        from gmtree.dask import reconcile

        leaves, out = self.folder / "leaves", self.folder / "out"
        try:
            yield reconcile(leaves, LEVELS, "y", nodes=self.nodes, out=out, **options)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def make(self, **options: Any) -> None:
        """Write reconciled values to disk, and remove them; benchmarks time this call."""
        with self.made(**options):
            pass


# --------------------------------------------------------------------------- checks


def sums_error(made: Any) -> float:
    """Largest relative error of states and total, from sums of the leaves by pyarrow alone."""
    states = made.table(LEVELS[0])["y"].to_numpy()
    sums = np.zeros(states.size)
    for name in made.files(LEVELS[-1]):
        with parquet().ParquetFile(name) as file:
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
    folders = {**data.nodes, LEVELS[-1]: str(data.folder / "leaves")}
    given = {name: sorted(map(str, Path(folder).iterdir())) for name, folder in folders.items()}
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
    found, first = [], 0
    for name in files:
        groups = _rows(name)
        for group, rows in enumerate(groups):
            if first < stop and first + rows > start:
                with parquet().ParquetFile(name) as file:
                    values = file.read_row_group(group, columns=["y"])["y"].to_numpy()
                found.append(values[max(0, start - first) : stop - first])
            first += rows
    return np.concatenate(found)


@cache
def _rows(name: str) -> tuple[int, ...]:
    """Rows of each row group of a file."""
    metadata = parquet().read_metadata(name)
    return tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
