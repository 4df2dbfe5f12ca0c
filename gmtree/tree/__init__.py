"""`Tree`, and what it is made of: order, arrays, pairs of nodes, families, outlines."""

from gmtree.tree.core import Tree as Tree

__all__ = ["Tree"]
