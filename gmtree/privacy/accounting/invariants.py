"""Counts that are published exactly: requested nodes, and nodes that follow from them.

Counts add up, so that some nodes become exact because of other nodes: a node all of whose children
are exact, and the last child of an exact node whose other children are exact. Noise there would
hide nothing and would cost budget. One sweep up and one sweep down find all such nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import worst_case as kernels
from gmtree.tree import Tree
from gmtree.tree.locate import level_names

# If one level has more such nodes than this, the ledger states only how many there are.
_MOST_NAMED = 10


@dataclass(frozen=True)
class Level:
    """All nodes of one depth (the root has depth 1), as an item of `invariants`.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree import privacy
    >>> tree = gm.shapes.complete(2, 3)
    >>> privacy.allocate(tree, epsilon=1, invariants=[privacy.Level(1)]).scales
    (None, Fraction(2, 1), Fraction(2, 1))
    """

    depth: int


class Invariants(NamedTuple):
    """Nodes that are published exactly.

    Attributes
    ----------
    exact : array of bool, or None
        Marks them by node, closed under sums; None without invariants.
    named : tuple of str
        The requested nodes, in words.
    derived : tuple of str
        The nodes that follow from them, in words.
    """

    exact: np.ndarray | None
    named: tuple[str, ...]
    derived: tuple[str, ...]

    @classmethod
    def of(cls, tree: Tree, given: Any) -> Invariants:
        """Find nodes by number, label, path, name of their level, or :class:`Level`."""
        chosen = np.zeros(tree.n, bool)
        named = tuple(dict.fromkeys(_mark(tree, item, chosen) for item in given))
        if not named:
            return cls(None, (), ())
        exact = closed_under_sums(tree, chosen)
        exact.flags.writeable = False
        return cls(exact, named, _names_of_derived(tree, exact, exact & ~chosen))


def closed_under_sums(tree: Tree, chosen: np.ndarray) -> np.ndarray:
    """All nodes whose counts follow from those of the `chosen` ones, as a mask by node."""
    layout, exact = tree._layout, chosen.copy()
    open_children = np.zeros(layout.n_inner, np.int64)
    kernels.add_sums(layout.parent, layout.order, layout.n_inner, exact, open_children)
    kernels.add_differences(layout.parent, layout.order, exact, open_children)
    return exact


def _mark(tree: Tree, item: Any, chosen: np.ndarray) -> str:
    """Set `chosen` for the nodes that `item` denotes; return its printable name."""
    names = level_names(tree)
    if isinstance(item, str) and item in names:
        item = Level(names.index(item) + 1)
    if isinstance(item, Level):
        if check.count("invariants", item.depth, least=1) > tree.height:
            check.fail("invariants", f"must name levels up to {tree.height}, not {item.depth}.")
        chosen |= tree.depth == item.depth
        return _level_name(names, item.depth)
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        i = check.node_number("invariants", item, tree.n)
    else:
        try:
            i = tree.node(item)
        except check.ArgumentError as error:
            known = ", ".join(filter(None, names))
            levels = f" The levels are {known}." if known else ""
            check.fail(
                "invariants",
                f"must name nodes or levels of the tree, not {item!r}.{levels} The label of a node "
                f"{error.rule}",
            )
    chosen[i] = True
    return _node_name(tree, i)


def _names_of_derived(tree: Tree, exact: np.ndarray, derived: np.ndarray) -> tuple[str, ...]:
    """Names of the levels that are exact as a whole, and of other nodes (their number if many)."""
    names, found = level_names(tree), []
    nodes = np.flatnonzero(derived)
    depth = tree.depth[nodes]
    noisy_levels = set(np.unique(tree.depth[~exact]).tolist())
    for level in np.unique(depth).tolist():
        own = nodes[depth == level]
        if level not in noisy_levels:
            found.append(_level_name(names, level))
        elif own.size <= _MOST_NAMED:
            found += [_node_name(tree, int(i)) for i in own]
        else:
            found.append(f"{own.size:,} nodes of {_level_name(names, level)}")
    return tuple(found)


def _level_name(names: list[str | None], depth: int) -> str:
    name = names[depth - 1]
    return f"level {depth}" + ("" if name is None else f" ({name})")


def _node_name(tree: Tree, i: int) -> str:
    return f"node {i}" + ("" if tree.labels is None else f" ({', '.join(map(str, tree.path(i)))})")
