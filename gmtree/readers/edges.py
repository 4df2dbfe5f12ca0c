"""Trees from edge lists, linkage matrices and networkx digraphs, as an array of parents."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree._validate import fail, fail_type, index_dtype, reals, shown
from gmtree.labels.distinct import (
    by_sorted_label,
    column,
    concatenate,
    factorize,
    first_repeated,
    refuse_missing,
)
from gmtree.labels.levels import same_index


def from_edges(child: Any, parent: Any) -> tuple[np.ndarray, np.ndarray]:
    """Parents and labels of the nodes, from two columns of labels."""
    same_index(["child", "parent"], [child, parent])
    child, parent = column("child", child), column("parent", parent)
    if child.size != parent.size:
        fail("parent", f"must be as long as 'child' ({child.size}), not {parent.size}.")
    if child.size == 0:
        fail("child", "must not be empty: a tree has at least one node.")
    both = concatenate(child, parent)
    try:
        codes, first = factorize("child", both)
    except TypeError:
        # One of these calls raises an error that names the column and the row.
        factorize("child", child)
        factorize("parent", parent)
        raise
    m = child.size
    refuse_missing("child", codes[:m], "row")
    numbers = np.full(codes.size, -1, dtype=np.int64)
    known = codes >= 0
    numbers[known] = by_sorted_label(both, first)[codes[known]]
    if np.bincount(numbers[:m]).max() > 1:
        repeat = first_repeated(numbers[:m])
        earlier = int(np.flatnonzero(numbers[:m] == numbers[repeat])[0])
        fail(
            "child",
            f"must have each node once, because a node has one parent; {shown(child[repeat])} "
            f"is in rows {earlier} and {repeat}.",
        )
    labels = np.empty(first.size, dtype=both.dtype)
    labels[numbers[first]] = both[first]
    own = np.full(first.size, -1, dtype=index_dtype(first.size))
    own[numbers[:m]] = numbers[m:]
    return own, labels


def from_linkage(Z: Any, heights: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Parents and edge lengths (None without heights), from a linkage matrix."""
    z = reals("Z", Z)
    if z.ndim != 2 or z.shape[1] not in (2, 4) or z.shape[0] == 0:
        fail("Z", f"must have shape (m - 1, 2) or (m - 1, 4), not {z.shape}.")
    merged = z[:, :2]
    m = z.shape[0] + 1
    limit = np.arange(m, 2 * m - 1)[:, None]
    exists = (merged >= 0) & (merged < limit) & (merged == np.floor(merged))
    bad = np.flatnonzero(~exists.all(axis=1))
    if bad.size:
        k = bad[0]
        fail(
            "Z",
            f"must join existing clusters; row {k} joins {z[k, 0]:g} and {z[k, 1]:g}, but the "
            f"clusters that exist there are 0 to {m + k - 1}.",
        )
    joined = merged.astype(np.int64).ravel()
    if np.bincount(joined).max() > 1:
        k = first_repeated(joined)
        fail("Z", f"must join each cluster once; row {k // 2} joins {joined[k]} again.")
    own = np.full(2 * m - 1, -1, dtype=index_dtype(2 * m - 1))
    own[joined] = np.repeat(np.arange(m, 2 * m - 1), 2)
    if heights is None and z.shape[1] == 4:
        heights = z[:, 2]
    return own, None if heights is None else _lengths_of_linkage(heights, own)


def _lengths_of_linkage(heights: Any, parent: np.ndarray) -> np.ndarray:
    """Half the difference in height between each node and its parent."""
    merged, m = reals("heights", heights), (parent.size + 1) // 2
    if merged.shape != (m - 1,):
        fail("heights", f"must have shape ({m - 1},), one height per cluster, not {merged.shape}.")
    height = np.concatenate([np.zeros(m), merged])
    if not np.isfinite(height).all():
        k = int(np.flatnonzero(~np.isfinite(merged))[0])
        fail("heights", f"must be finite; cluster {m + k} has height {merged[k]}.")
    lengths = height[parent] - height
    lengths[-1] = 0  # The root has no parent.
    lengths /= 2
    return lengths


def from_networkx(
    graph: Any, label: str | None, length: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Parents, labels and edge lengths (None if no edge has one), from a networkx digraph."""
    if not (hasattr(graph, "is_directed") and hasattr(graph, "edges")):
        fail_type("graph", f"must be a networkx DiGraph, not {type(graph).__name__}.")
    if not graph.is_directed():
        fail_type("graph", "must be directed, with edges from parent to child; "
                  "networkx.bfs_tree(graph, root) directs the edges of a tree.")  # fmt: skip
    for argument, name in (("label", label), ("length", length)):
        if not (name is None or isinstance(name, str)):
            fail_type(argument, f"must be the name of an attribute, or None, not {name!r}.")
    nodes = list(graph.nodes)
    if not nodes:
        fail("graph", "must not be empty: a tree has at least one node.")
    number = {node: i for i, node in enumerate(nodes)}
    own = np.full(len(nodes), -1, dtype=index_dtype(len(nodes)))
    lengths = np.full(len(nodes), np.nan)
    for parent, child, attributes in graph.edges(data=True):
        i = number[child]
        if own[i] >= 0:
            fail("graph", f"must be a tree; node {child!r} has two parents.")
        own[i] = number[parent]
        if attributes.get(length) is not None:
            lengths[i] = _length_of_edge(parent, child, attributes[length], length)
    if np.isnan(lengths).all():
        return own, _labels_of_graph(graph, label), None
    lengths[own < 0] = 0
    return own, _labels_of_graph(graph, label), lengths


def _labels_of_graph(graph: Any, label: str | None) -> np.ndarray:
    """The attribute `label` of each node of a digraph, or the node itself if it has none."""
    labels = column("graph", [a.get(label, node) for node, a in graph.nodes(data=True)])
    factorize("label", labels)  # This raises an error if a label is not hashable.
    return labels


def _length_of_edge(parent: Any, child: Any, value: Any, length: str | None) -> float:
    try:
        if value is not np.ma.masked:
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    fail(
        "length",
        f"must be the name of an attribute that holds numbers; the {length!r} of the edge "
        f"from {parent!r} to {child!r} is {value!r}. Pass None to read no lengths.",
    )
