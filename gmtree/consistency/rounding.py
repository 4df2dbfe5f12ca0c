"""Round consistent values to whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import rounding as kernels
from gmtree.tree import Tree
from gmtree.tree.families import Families

# Beyond this, float64 does not hold every whole number, and sums might not fit into int64.
LARGEST = 2.0**53


def round_consistent(
    tree: Tree,
    families: Families,
    x: np.ndarray,
    how: bool | str,
    rng: np.random.Generator | int | None,
) -> np.ndarray:
    """Round every node to the floor or the ceiling of its value, with exact sums, as int64.

    `how` is True for the largest fractions, "random" for unbiased rounding.
    """
    _refuse_large(x)
    generator = check.generator("rng", rng) if how == "random" else None
    if x.ndim == 1:
        return _round(tree, families, x.astype(np.float64, copy=False), generator)
    columns = (np.ascontiguousarray(column, np.float64) for column in x.T)
    rounded = [_round(tree, families, column, generator) for column in columns]
    return np.stack(rounded, axis=1) if rounded else np.empty(x.shape, np.int64)


def check_how(how: bool | str) -> None:
    """Refuse anything but True, False and "random"."""
    if not isinstance(how, (bool, np.bool_)) and not (isinstance(how, str) and how == "random"):
        check.fail("integer", f"must be True, False or 'random', not {how!r}.")


def _refuse_large(x: np.ndarray, argument: str = "noisy") -> None:
    if x.size and max(float(x.max()), -float(x.min())) > LARGEST:
        i = int(np.flatnonzero((abs(x) > LARGEST).reshape(x.shape[0], -1).any(axis=1))[0])
        raise check.IntegerOverflowError(
            argument, "must be below 2**53 to be rounded exactly; ", check.Node(i), " is not."
        )


def round_values(tree: Tree, values: Any, *, given: Mapping[int, int] | None = None) -> np.ndarray:
    """Round consistent values to whole numbers with exact sums, keeping given numbers.

    Every node becomes the floor or the ceiling of its value, as in :meth:`Consistency.project` with
    ``integer=True``. Nodes in `given` get their given numbers, and the nodes above and below them
    are rounded to fit. So parts of a tree can be rounded separately: they fit together if each part
    is given the numbers of the shared nodes.

    Parameters
    ----------
    tree : Tree
    values : array of shape (n,)
        Each parent must be the sum of its children, up to rounding.
    given : mapping of int to int, optional
        Whole numbers of some nodes, each less than 1 away from the node's value.

    Returns
    -------
    array of int64

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.consistency import round_values
    >>> round_values(gm.shapes.star(4), [3.2, 1.4, 0.9, 0.9])
    array([3, 1, 1, 1])
    >>> round_values(gm.shapes.star(4), [3.2, 1.4, 0.9, 0.9], given={0: 4})
    array([4, 2, 1, 1])
    """
    check.instance("tree", tree, Tree)
    v = tree._values("values", values, columns=False)
    check.finite("values", v)
    x = np.array(v, np.float64)
    _refuse_large(x, "values")
    for i, k in _given_numbers(tree, given):
        if not abs(k - x[i]) < 1:
            check.fail(
                "given", f"must be less than 1 away from the values; node {i} is {x[i]:.15g}, "
                f"not {k}."
            )  # fmt: skip
        x[i] = k
    return _round(tree, Families.of(tree), x, None, "values")


def _given_numbers(tree: Tree, given: Mapping[int, int] | None) -> list[tuple[int, int]]:
    if given is None:
        return []
    check.instance("given", given, Mapping)
    numbers = []
    for node, k in given.items():
        if not check.is_whole(k):
            check.fail_type("given", f"must hold whole numbers, not {k!r}.")
        numbers.append((check.node_number("given", node, tree.n), int(k)))
    return numbers


def rounding_ranges(tree: Tree, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least number that each node can be rounded to, and whether it may be one more."""
    least, room = _ranges(tree, Families.of(tree), x, "values")
    by_node = np.empty(tree.n, bool)
    by_node[tree._sweep_order] = room
    return least, by_node


def fraction_steps(x: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Differences of values from their least numbers, in the steps used to compare fractions."""
    return ((x - least) * 2.0**30 + 0.5).astype(np.int64)


def goes_up(fraction: float) -> bool:
    """Whether a total with this fraction is rounded up: true for fractions of at least one half.

    Fractions are compared in steps of 2**-30 as among siblings, so a fraction within half a step
    below one half is rounded up as well.
    """
    return fraction >= 0.5 - 2.0**-31


def _ranges(
    tree: Tree, families: Families, x: np.ndarray, argument: str
) -> tuple[np.ndarray, np.ndarray]:
    """The least number of each node, and by position whether it may be one more."""
    out, room = np.empty(tree.n, np.int64), np.zeros(tree.n, np.uint8)
    bad = int(kernels.ranges(tree._layout.order, *families, x, out, room))
    if bad >= 0:
        i = int(tree._sweep_order[bad])
        raise check.IntegerOverflowError(
            argument,
            "must be consistent to within one after projection to be rounded; ",
            check.Node(i),
            f" is {x[i]:.17g}, but its children cannot be rounded so that they add up to it.",
        )
    if tree.n == 1:
        out[0], room[0] = np.floor(x[0]), x[0] != np.floor(x[0])
    return out, room


def _round(
    tree: Tree,
    families: Families,
    x: np.ndarray,
    rng: np.random.Generator | None,
    argument: str = "noisy",
) -> np.ndarray:
    out, room = _ranges(tree, families, x, argument)
    root = tree.root
    fraction = x[root] - out[root]
    up = goes_up(fraction) if rng is None else fraction > rng.random()
    out[root] += bool(room[0]) and up
    family = (tree._layout.order, *families)
    if rng is None:
        largest = families.largest
        work = np.zeros(largest, np.int64), np.empty(largest), np.empty(largest, np.int64)
        kernels.round_largest(*family, x, out, room, *work)
    else:
        kernels.round_random(*family, x, out, room, rng.random(tree.n_internal))
    return out
