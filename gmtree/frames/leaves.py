"""The hierarchy that a frame belongs to: given as a tree or as a frame with a row for each leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.locate import level_codes
from gmtree.tree import Tree


def tree_of_levels(given: Any, names: list[str]) -> Tree:
    """The argument `tree` of a function that reads a frame with these levels."""
    if isinstance(given, Tree):
        if given.level_names != tuple(names):
            check.fail("tree", f"must have the levels {names}, not {given.level_names}.")
        return given
    try:
        return Tree.from_levels(given, levels=names, missing="stop")
    except ValueError as error:
        raise ValueError(f"Argument 'tree' must list each leaf once. {error}") from None


def turned_round(tree: Tree) -> str:
    """What to tell where levels seem to come from fine to coarse; empty if they do not.

    A town is in one state and a state has many towns: below towns, few states come again and again.
    """
    names = tree.level_names or ()
    size = np.bincount(tree.depth, minlength=tree.height + 1)[tree.height - len(names) + 1 :]
    for k in range(len(names) - 1):
        if size[k + 1] >= 1.5 * size[k]:  # so it is nearly always, and labels need not be counted
            continue
        below = level_codes(tree, k + 1).categories
        assert below is not None
        if below.size < size[k]:
            return (
                f"Levels go from coarse to fine. Is {names[k]!r} really coarser than "
                f"{names[k + 1]!r}? It has {size[k]:,} nodes, with few children each, which have "
                f"{below.size:,} different labels."
            )
    return ""
