"""The hierarchy of a frame, given as a tree or as another frame with one row per leaf."""

from __future__ import annotations

from typing import Any

from gmtree import _validate as check
from gmtree.labels.levels import from_levels
from gmtree.tree import Tree


def tree_of_levels(given: Any, names: list[str], kind: str | None) -> Tree:
    """Read the argument `tree` of a function that reads a frame with these levels.

    `kind` is the library of that frame; the tree's own frames will use it, too.
    """
    if isinstance(given, Tree):
        if given.level_names != tuple(names):
            check.fail("tree", f"must have the levels {names}, not {given.level_names}.")
        return given._with_frames_of(kind)
    try:
        made = from_levels((given,), names, "stop")
    except ValueError as error:
        raise check.InputError("tree", f"must list each leaf once. {error}") from None
    return Tree._from_level_tree(made)._with_frames_of(kind)
