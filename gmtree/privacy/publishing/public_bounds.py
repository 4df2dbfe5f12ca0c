"""Bounds on the values of a release, which the caller states as public knowledge.

Values within bounds are computed from the noisy counts, so that bounds cost no privacy. Everything
here is decided without data: after the account is charged, bounds must not make a release fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.between import refuse_infeasible_bounds
from gmtree.consistency.bounds import Bounds
from gmtree.privacy.accounting.allocation import Allocation, largest_sum
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.tree import Tree

# Arrays by node of the bounds 'lower' and 'upper'; one without finite numbers is left out.
BoundsByName = dict[str, np.ndarray]


def read_bounds(
    tree: Tree, allocation: Allocation, nonnegative: bool, lower: Any, upper: Any
) -> tuple[BoundsByName, Allocation]:
    """Read bounds as :func:`gmtree.release` takes them, and refuse those that cannot be kept.

    Also returns the allocation with a ledger that states on how many nodes there are bounds.
    """
    given = Bounds.read(tree, False, lower, upper)
    by_name = zip(("lower", "upper"), given.by_node(tree) if given else (), strict=False)
    bounds = {name: a for name, a in by_name if a is not None and np.isfinite(a).any()}
    if not bounds:
        return {}, allocation
    check_bounds(tree, allocation.ledger, nonnegative, bounds)
    count = int(np.any([np.isfinite(bound) for bound in bounds.values()], axis=0).sum())
    said = (
        f"Values respect public bounds on {count:,} {'node' if count == 1 else 'nodes'} (stated by "
        "the caller as public knowledge; they cost no privacy)."
    )
    ledger = replace(allocation.ledger, public_knowledge=(said,))
    return bounds, allocation._replace(ledger=ledger)


def check_bounds(tree: Tree, ledger: Ledger, nonnegative: bool, bounds: BoundsByName) -> None:
    """Refuse bounds that may exclude all values, or all values that can be rounded."""
    if not bounds:
        return
    most = largest_sum(tree)
    for name, bound in bounds.items():
        if ledger.axes is not None:
            check.fail(name, "must be None for tables.")
        if ledger.invariants:
            check.fail(name, "must be None with invariants: exact counts could contradict it.")
        sizes, distance = abs(bound), np.maximum(bound if name == "lower" else -bound, 0)
        if max(sizes[np.isfinite(bound)].max(), distance.sum()) > most:
            check.fail(
                name,
                f"must be infinite or at most {most:,} in size on this tree (2^50 / height), and "
                "so must be the sum of all bounds that exclude 0.",
            )
    arguments: Any = {"lower": None, "upper": None, **as_arguments(bounds)}
    found = Bounds.read(tree, nonnegative, **arguments)
    assert found is not None
    refuse_infeasible_bounds(tree, *found.by_node(tree))


def as_arguments(bounds: BoundsByName) -> dict[str, Any]:
    """The arguments of :meth:`gmtree.Consistency.project` for these bounds."""
    return {name: {"node": bound} for name, bound in bounds.items()}
