"""The loss of private tables, by listing all neighbouring data. Knows nothing of paths or queries.

A record is a pair of a leaf and a cell. Differences between neighbours are tables at the leaves,
which are added up along the tree and over axes by plain loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

import gmtree as gm
import reference

Record = tuple[int, tuple[int, ...]]


def records(tree: gm.Tree, axes: dict[str, int]) -> list[Record]:
    cells = list(product(*(range(n) for n in axes.values())))
    return list(product(range(tree.n_leaves), cells))


def groups(tree: gm.Tree, axes: dict[str, int], size: int, per_leaf: int | None) -> list[tuple]:
    """All sets of `size` records of one person."""
    found = combinations_with_replacement(records(tree, axes), size)
    if per_leaf is None:
        return list(found)
    return [g for g in found if max(Counter(leaf for leaf, _ in g).values(), default=0) <= per_leaf]


def changes(
    tree: gm.Tree, axes: dict[str, int], neighbors: str, most: int, per_leaf: int | None = None
) -> Iterator[tuple[tuple, tuple]]:
    """Records of a person that go and that come, between neighbours."""
    if neighbors == "add_remove":
        for size in range(1, most + 1):
            for group in groups(tree, axes, size, per_leaf):
                yield (), group
    else:
        same = groups(tree, axes, most, per_leaf)
        yield from product(same, same)


def any_changes(
    tree: gm.Tree, axes: dict[str, int], neighbors: str, most: int
) -> Iterator[tuple[tuple, tuple]]:
    """All changes of a person's records that agree with the exact counts."""
    sizes = range(most + 1) if neighbors == "add_remove" else [most]
    before = [g for k in sizes for g in groups(tree, axes, k, None)]
    yield from product(before, before)


def loss_of(tree: gm.Tree, ledger: Any, gone: tuple, come: tuple, exact: set[int]) -> Fraction:
    """The loss between two data sets, count by count; exact totals do not count."""
    axes = dict(ledger.axes)
    names = list(axes)
    leaves = reference.leaves(tree.parent)
    difference: dict[tuple, int] = Counter()
    for sign, group in ((-1, gone), (1, come)):
        for leaf, cell in group:
            for node in reference.ancestors(tree.parent, leaves[leaf]):
                for line in ledger.levels:
                    if line.level == tree.depth[node]:
                        kept = tuple(cell[names.index(axis)] for axis in line.query)
                        difference[int(node), line.query, kept] += sign
    scales = {(line.level, line.query): line.scale for line in ledger.levels}
    loss = Fraction(0)
    for (node, query, _), d in difference.items():
        scale = scales[int(tree.depth[node]), query]
        is_total = np.prod([axes[axis] for axis in query], initial=1) == 1
        if scale is not None and not (is_total and node in exact):
            loss += abs(d) / scale if ledger.measure == "epsilon" else d * d / (2 * scale**2)
    return loss


def keeps_totals(tree: gm.Tree, gone: tuple, come: tuple, exact: set[int]) -> bool:
    """Whether no exact total changes."""
    leaves = reference.leaves(tree.parent)
    total: dict[int, int] = Counter()
    for sign, group in ((-1, gone), (1, come)):
        for leaf, _ in group:
            for node in reference.ancestors(tree.parent, leaves[leaf]):
                total[int(node)] += sign
    return not any(total[node] for node in exact)


def exact_loss(
    tree: gm.Tree, ledger: Any, exact: set[int], per_leaf: int | None = None
) -> Fraction:
    """The largest loss over all neighbours."""
    terms = (dict(ledger.axes), ledger.neighbors, ledger.max_contributions, per_leaf)
    return max(loss_of(tree, ledger, *pair, exact) for pair in changes(tree, *terms))


def exact_loss_given(tree: gm.Tree, ledger: Any, exact: set[int]) -> Fraction:
    """The largest loss over all changes of a person's records that no exact total shows."""
    terms = (dict(ledger.axes), ledger.neighbors, ledger.max_contributions)
    return max(
        loss_of(tree, ledger, *pair, exact)
        for pair in any_changes(tree, *terms)
        if keeps_totals(tree, *pair, exact)
    )
