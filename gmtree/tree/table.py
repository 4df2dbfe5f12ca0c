"""DataFrames made from trees, with columns of labels and of values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.levels import LevelLabels
from gmtree.labels.libraries import LIBRARIES, adapter, library
from gmtree.tree.kinship import TreeKinship
from gmtree.tree.locate import align, level_codes


def to_frame(tree: TreeKinship, columns: Mapping[str, Any], backend: str | None) -> Any:
    """DataFrame with one row per node: its number, parent, depth, labels and the given columns."""
    if backend is None:
        labels = tree._labels
        backend = (labels.kind if isinstance(labels, LevelLabels) else None) or "pandas"
    check.one_of("backend", backend, LIBRARIES)
    table: dict[str, Any] = {
        "node": np.arange(tree.n, dtype=tree.parent.dtype),
        "parent": tree.parent,
        "depth": tree.depth,
    }
    given = {}
    for name, x in columns.items():
        if name in table:
            check.fail(
                name, "must have another name, because to_frame adds a column with this name."
            )
        given[name] = _one_per_node(tree, name, x)
    table.update(label_columns(tree, [*table, *given], backend))
    return adapter(backend).frame({**table, **given})


def _one_per_node(tree: TreeKinship, name: str, x: Any) -> Any:
    a = align(tree, name, x, "node")
    if library(a) is None and not isinstance(a, np.ma.MaskedArray):
        a = check.array(name, a)
    if np.shape(a) != (tree.n,):
        check.fail(name, f"must have shape ({tree.n},), one per node, not {np.shape(a)}.")
    return a


def label_columns(tree: TreeKinship, taken: Collection[str], kind: str | None) -> dict[str, Any]:
    """One column per level for a tree of levels, else a single column of labels.

    They are columns of the library `kind`, or arrays if `kind` is None. A level that has the name
    of a column in `taken` gets the prefix ``level_``.
    """
    frames = None if kind is None else adapter(kind)
    if tree.level_names is None:
        if tree.labels is None:
            return {}
        return {"label": tree.labels if frames is None else frames.plain_labels(tree.labels)}
    found = {}
    for k, name in enumerate(tree.level_names):
        codes = level_codes(tree, k)
        own = codes.to_objects() if frames is None else frames.label_column(codes)
        found[f"level_{name}" if name in taken else name] = own
    return found
