"""Random hierarchies as Parquet files with random cuts, and their values computed in memory."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import gmtree as gm


class Hierarchy(NamedTuple):
    """Sorted leaves and measurements above them, and the same data as a tree with arrays."""

    levels: list[str]
    leaves: pd.DataFrame
    nodes: dict[str, pd.DataFrame]
    tree: gm.Tree
    noisy: np.ndarray
    variance: np.ndarray
    slices: dict[str, slice]


def random_hierarchy(
    rng: np.random.Generator,
    height: int | None = None,
    fanout: int = 4,
    *,
    measured: float = 0.8,
    single_root: bool = False,
    scale: float = 10.0,
) -> Hierarchy:
    """A random hierarchy; each level above the leaves is measured with a certain probability."""
    height = int(rng.integers(1, 5)) if height is None else height
    paths: list[tuple[Any, ...]] = [()]
    for level in range(height):
        longer = []
        for path in paths:
            children = 1 if single_root and level == 0 else int(rng.integers(1, fanout + 1))
            names = np.sort(rng.choice(30, children, replace=False))
            longer += [(*path, _label(level, int(name))) for name in names]
        paths = longer
    levels = [f"level{k}" for k in range(height)]
    columns = {name: [path[k] for path in paths] for k, name in enumerate(levels)}
    leaves = pd.DataFrame(columns)
    tree = gm.Tree.from_levels(leaves, levels=levels)
    n_above = tree.height - height
    noisy = rng.normal(size=tree.n) * scale
    variance = rng.uniform(0.5, 4, tree.n)
    slices, nodes, start = {}, {}, 0
    known = ["total", *levels] if n_above else levels
    for depth, name in enumerate(known):
        size = int((tree.depth == depth + 1).sum())
        here = slices[name] = slice(start, start + size)
        start += size
        above = levels[: depth + 1 - n_above]
        frame = pd.DataFrame(index=range(1))
        if above:
            frame = leaves[above].drop_duplicates().reset_index(drop=True)
        frame = frame.assign(y=noisy[here], s=variance[here])
        if name == levels[-1]:
            leaves = frame
        elif rng.random() < measured:
            # Some nodes have no row, and rows come in any order.
            rows = rng.permutation(size)[: max(1, int(size * 0.9))]
            missing = np.ones(size, bool)
            missing[rows] = False
            variance[here][missing] = np.inf
            nodes[name] = frame.iloc[rows]
        else:
            variance[here] = np.inf
    return Hierarchy(levels, leaves, nodes, tree, noisy, variance, slices)


def _label(level: int, k: int) -> Any:
    """Text on some levels and numbers on others."""
    return f"{'abc'[k // 10]}{k:02d}" if level % 2 == 0 else k


def write_cut(
    frame: pd.DataFrame, folder: Path, rng: np.random.Generator, pieces: int | None = None
) -> Path:
    """Write the rows to files, cut at random places, so that some files have no rows."""
    folder.mkdir(parents=True)
    pieces = int(rng.integers(1, 7)) if pieces is None else pieces
    cuts = np.sort(rng.integers(0, len(frame) + 1, pieces - 1))
    for k, rows in enumerate(np.split(np.arange(len(frame)), cuts)):
        table = pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        pq.write_table(table, folder / f"part.{k}.parquet", row_group_size=max(1, len(rows) // 2))
    return folder


def by_node(made: Any, hierarchy: Hierarchy, column: str = "y") -> np.ndarray:
    """A column of all levels, in the order of the tree's nodes."""
    return np.concatenate([made.table(name)[column].to_numpy() for name in hierarchy.slices])


def die_once(flag: str, task: Any, *args: Any) -> Any:
    """Run a task; kill the process afterwards if `flag` does not exist yet, and create it."""
    result = task(*args)
    try:
        Path(flag).touch(exist_ok=False)
    except FileExistsError:
        return result
    os.kill(os.getpid(), signal.SIGKILL)
    return result


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
