"""Read bounds in all forms in which users pass them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.tree import Tree
from gmtree.tree.locate import node_in_error, nodes_of_labels


class Bounds(NamedTuple):
    """Bounds of nodes; infinite ones have no effect.

    Attributes
    ----------
    leaves : array or None
        Lower bounds of leaves, if there are no other bounds: one number for all, or one per leaf in
        the order of ``tree.leaves``. Then `lower` and `upper` are None.
    lower, upper : array of shape (n,) or None
        Bounds by node; None if all are infinite.
    """

    leaves: np.ndarray | None
    lower: np.ndarray | None
    upper: np.ndarray | None

    @classmethod
    def read(cls, tree: Tree, nonnegative: bool, lower: Any, upper: Any) -> Bounds | None:
        """Check bounds as :meth:`Consistency.project` takes them; None if nothing is bounded."""
        low, high = _read(tree, "lower", lower, -np.inf), _read(tree, "upper", upper, np.inf)
        if high is not None and np.isinf(high).all():
            high = None
        by_node = low is not None and 1 < low.size == tree.n
        if low is not None and by_node and high is None and np.isinf(low[tree.internal]).all():
            low, by_node = low[tree.leaves], False
        if nonnegative:
            low = np.zeros(()) if low is None else low
            leaves = tree.leaves if by_node else ...
            low[leaves] = np.maximum(low[leaves], 0)
        if high is None and not by_node:
            return None if low is None else cls(low, None, None)
        low, high = _by_node(tree, low, -np.inf), _by_node(tree, high, np.inf)
        if low is not None and high is not None:
            _refuse_crossed(tree, low, high)
        return cls(None, low, high)

    def by_node(self, tree: Tree) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Lower and upper bounds by node."""
        if self.leaves is None:
            return self.lower, self.upper
        return _by_node(tree, np.broadcast_to(self.leaves, tree.n_leaves), -np.inf), None


def _read(tree: Tree, argument: str, given: Any, none: float) -> np.ndarray | None:
    """Read one argument: a number for all leaves, one per leaf, or one per node.

    `none` is the infinite number that means no bound.
    """
    if given is None:
        return None
    per, numbers = "leaf", given
    if isinstance(given, Mapping):
        if len(given) == 1 and next(iter(given)) in ("node", "leaf"):
            [(per, numbers)] = given.items()
        else:
            if given and tree.labels is None:
                check.fail(argument, "must not have labels, because the tree has no labels.")
            nodes = [tree._label_index.node(argument, label) for label in given]
            return _of_nodes(tree, argument, nodes, list(given.values()), none)
    labelled = nodes_of_labels(tree, argument, numbers)
    if labelled is not None:
        return _of_nodes(tree, argument, *labelled, none)
    a = check.reals(argument, numbers)
    size = tree.n if per == "node" else tree.n_leaves
    if a.shape not in ((), (size,)):
        check.fail(
            argument,
            f"must be one number, one per {per} ({size}), {{'node': [...]}} or by label, "
            f"not have shape {a.shape}.",
        )
    if per == "node" and a.ndim == 0:
        a = np.full(tree.n, a)
    a = np.array(a, np.float64)
    _refuse_impossible(tree, argument, a, none)
    return a


def _of_nodes(tree: Tree, argument: str, nodes: Any, numbers: Any, none: float) -> np.ndarray:
    """Bounds of all nodes, given the bounds of some of them."""
    a = np.full(tree.n, none)
    a[np.asarray(nodes, np.int64)] = check.reals(argument, numbers)
    _refuse_impossible(tree, argument, a, none)
    return a


def _refuse_impossible(tree: Tree, argument: str, a: np.ndarray, none: float) -> None:
    bad = np.flatnonzero(np.isnan(a) | (a == -none))
    if bad.size:
        rule = "must be below infinity" if none < 0 else "must be above -infinity"
        if not a.ndim:
            check.fail(argument, f"{rule}, not {a}.")
        i = int(bad[0]) if a.size == tree.n else int(tree.leaves[bad[0]])
        check.fail(argument, f"{rule}; ", node_in_error(tree, i), f" has {a[bad[0]]}.")


def _by_node(tree: Tree, bound: np.ndarray | None, none: float) -> np.ndarray | None:
    if bound is None or bound.shape == (tree.n,):
        return bound
    a = np.full(tree.n, none)
    a[tree._leaf_index] = bound
    return a


def _refuse_crossed(tree: Tree, lower: np.ndarray, upper: np.ndarray) -> None:
    bad = np.flatnonzero(lower > upper)
    if bad.size:
        i = int(bad[0])
        check.fail(
            "lower",
            "must not be above 'upper'; ",
            node_in_error(tree, i),
            f" has the bounds {lower[i]:.15g} and {upper[i]:.15g}.",
        )
