"""Conversion of trees to networkx digraphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmtree import _validate as check
from gmtree.labels.distinct import as_objects, is_missing

if TYPE_CHECKING:
    from networkx import DiGraph


def to_networkx(tree: Any) -> DiGraph:
    """Return the tree as a digraph, with labels and lengths as attributes."""
    networkx = check.optional("networkx", "graph", "tree.to_networkx")
    graph = networkx.DiGraph()
    names: list[Any] = list(range(tree.n))
    if tree.labels is None:
        graph.add_nodes_from(names)
    else:
        labels = as_objects(tree.labels).tolist()
        if len(set(labels)) == tree.n and not any(map(is_missing, labels)):
            names = labels
        graph.add_nodes_from((name, {"label": x}) for name, x in zip(names, labels, strict=True))
    parents = tree.parent.tolist()
    lengths = [None] * tree.n if tree.edge_length is None else tree.edge_length.tolist()
    weights = [{} if is_missing(x) else {"weight": x} for x in lengths]
    graph.add_edges_from((names[p], names[i], weights[i]) for i, p in enumerate(parents) if p >= 0)
    return graph
