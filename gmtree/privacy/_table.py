"""A release as columns, one row per node: for frames and for files that others read."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree.tree import Tree

if TYPE_CHECKING:
    from gmtree.privacy.release import Release


def columns(release: Release, level: float | None) -> dict[str, np.ndarray]:
    """Columns by name; with the ends of intervals unless `level` is None."""
    tree = release.tree
    low_high = () if level is None else release.interval(level)
    table = {
        "node": np.arange(tree.n, dtype=tree.parent.dtype),
        "parent": tree.parent,
        "depth": tree.depth,
        "value": release.values,
        "noisy": release.noisy,
        "std_error": release.std_error,
        **dict(zip(("low", "high"), low_high, strict=False)),
    }
    labels = label_columns(tree, [*table, "low", "high", "exact", "stored_label"])
    names = [*list(table)[:3], *labels, *list(table)[3:]]
    return {name: labels[name] if name in labels else table[name] for name in names}


def label_columns(tree: Tree, taken: Collection[str]) -> dict[str, np.ndarray]:
    """For a tree of named levels, the label of each node and of all above it; else its own.

    A level called like a column in `taken` gets ``level_`` before its name.
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


def to_frame(release: Release, level: float) -> Any:
    """The columns as a pandas frame, with measurements missing where there are none."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "to_frame needs pandas: pip install 'gmtree[frames]'. Arrays by node are in "
            "release.values, release.noisy and release.std_error."
        ) from None
    table: dict[str, Any] = columns(release, level)
    missing = ~release.measured
    if missing.any():
        table["noisy"] = pd.array(release.noisy, dtype="Int64")
        table["noisy"][missing] = pd.NA
    return pd.DataFrame(table)
