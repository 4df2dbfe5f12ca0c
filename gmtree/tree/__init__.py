"""`Tree` and its parts: order, arrays, pairs of nodes, families, labels, DataFrames, outlines."""

from gmtree.tree.core import Tree as Tree

__all__ = ["Tree"]
