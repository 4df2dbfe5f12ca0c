"""A release as columns, one row per node: for frames and for files that others read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from gmtree.labels.locate import STRUCTURE, label_names
from gmtree.tree import Tree

# Standard errors and intervals are not those of `value`, and their names say so.
INTERVAL = ("estimate_low", "estimate_high")


def columns(release: Any, level: float | None) -> dict[str, np.ndarray]:
    """Columns by name; with the ends of intervals unless `level` is None."""
    tree = release.tree
    low_high = () if level is None else release.interval(level)
    place = {
        "node": np.arange(tree.n, dtype=tree.parent.dtype),
        "parent": tree.parent,
        "depth": tree.depth,
    }
    results = {
        "value": release.values,
        "noisy": release.noisy,
        "estimate": release.estimate,
        "estimate_std_error": release.std_error,
        **dict(zip(INTERVAL, low_high, strict=False)),
    }
    taken = [*place, *results, *INTERVAL, "exact", "stored_label"]
    return place | label_columns(tree, taken) | results


def label_columns(tree: Tree, taken: Collection[str]) -> dict[str, np.ndarray]:
    """For a tree of named levels, a column per level: the label of the node at or above each node.

    Other trees have one column with each node's own label, or none. A level that has the name of a
    column in `taken` gets ``level_`` before its name.
    """
    if tree.labels is None:
        return {}
    if tree.level_names is None:
        return {"label": tree.labels}
    out: dict[str, np.ndarray] = {}
    unnamed = tree.height - len(tree.level_names)
    for k, name in enumerate(tree.level_names):
        column = np.full(tree.n, None, dtype=object)
        above = _ancestors(tree, unnamed + k + 1)
        below = above >= 0
        column[below] = tree.labels[above[below]]
        out[f"level_{name}" if name in taken else name] = column
    return out


def _ancestors(tree: Tree, depth: int) -> np.ndarray:
    """The node of this depth at or above each node, -1 where there is none."""
    found = np.where(tree.depth == depth, np.arange(tree.n), -1)
    for deeper in range(depth + 1, tree.height + 1):
        nodes = np.flatnonzero(tree.depth == deeper)
        found[nodes] = found[tree.parent[nodes]]
    return found


def to_frame(release: Any, level: float, kind: str | None) -> Any:
    """The columns as a frame, with measurements missing where there are none."""
    tree, table = release.tree, columns(release, level)
    ours = len(STRUCTURE) + len(label_names(tree))
    results = dict(list(table.items())[ours:])
    if not release.measured.all():
        results["noisy"] = np.ma.masked_array(release.noisy, ~release.measured)
    return tree.to_frame(kind=kind, **results)
