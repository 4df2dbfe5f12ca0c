"""Divide a privacy budget among the levels of a tree, and account for what noise costs.

The loss of one measured count that a person changes by 1 is 1 / scale in epsilon (discrete
Laplace noise) and 1 / (2 sigma^2) in rho (discrete Gaussian noise; Laplace noise of that scale
loses no more). Losses of different counts add up. Which counts a person can change depends on
the tree: :mod:`gmtree.privacy.worst_case`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.budget import (
    MEASURES,
    NEIGHBORS,
    Budget,
    loss_factor,
    loss_of_one,
    one_of,
    sequence,
)
from gmtree.privacy.invariants import Invariants, closed_under_sums, level_names
from gmtree.privacy.ledger import Ledger, LevelAccount
from gmtree.privacy.sampling.noise import noise_scale
from gmtree.privacy.worst_case import whole_numbers, worst_case, worst_case_given_invariants
from gmtree.tree import Tree

# Sums of counts, times the height, stay below this, and so does noise: rounding errors of the two
# sweeps, each some 2^-53 of a value per level, then stay below one quarter.
_LARGEST = 1 << 50
# For `outside`, where a tree was made from the records themselves.
LEAVES_FROM_RECORDS = (
    "The list of leaves: it was made from the records, and says of each leaf that it has one."
)


class Allocation(NamedTuple):
    """Scales of the noise, what is published exactly, and the account.

    Attributes
    ----------
    scales : tuple of Fraction or None
        One per level, the root's first: scale or sigma of the noise of each node that is not
        exact; None where the level is not measured.
    exact : array of bool, or None
        Marks by node what is published exactly, the invariants and what follows from them; None
        if there are none.
    ledger : Ledger
    """

    scales: tuple[Fraction | None, ...]
    exact: np.ndarray | None
    ledger: Ledger


def allocate(
    tree: Tree,
    *,
    epsilon: Any = None,
    rho: Any = None,
    level_shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
    mechanism: str | None = None,
    max_count: int | None = None,
    outside: Sequence[str] = (),
) -> Allocation:
    r"""Divide a privacy budget among the levels of a tree of counts.

    Of the losses of all nodes whose counts differ between neighbours, the sum for the worst
    neighbours is computed on this very tree, and the noise is scaled so that it equals the
    budget. With equal shares and records added or removed, that is Laplace noise of scale
    ``height / epsilon`` everywhere.

    Parameters
    ----------
    tree : Tree
        Chosen without looking at the data.
    epsilon : int, Fraction, str or float
        Budget of pure differential privacy. A float is taken at its exact value.
    rho : int, Fraction, str or float
        Budget of zero-concentrated differential privacy; give this or `epsilon`, not both.
    level_shares : sequence of numbers, optional
        Relative shares of the levels, one per depth, the root's first; only their ratios matter.
        A level with share 0 is not measured. Default: all equal.
    neighbors : {'add_remove', 'change_one'}
        Whether one person's records are added or removed, which changes the counts on the path
        to their leaf, or move to another leaf, which changes both paths but not the nodes they
        share: the root costs nothing, its share is free, and the total is taken as public.
    max_contributions : int
        Most records of one person. Takes the loss k times in epsilon, k^2 times in rho.
    invariants : sequence, optional
        What is published exactly: node numbers, labels or paths of nodes, names of levels, or
        :class:`Level`. With them, nodes become exact whose counts are sums or differences of
        exact ones. They get no noise, cost nothing here, and are outside the guarantee, which
        then speaks of the noisy counts only. The ledger names them all, and states beside the
        loss between neighbours (``total``) the loss between those that agree on all exact counts
        (``total_given_invariants``).
    mechanism : {'discrete_laplace', 'discrete_gaussian'}, optional
        Default: Laplace for `epsilon`, Gaussian for `rho`.
    max_count : int, optional
        Public bound at which the counts of leaves are cut off before noise is added. By default,
        and at most, 2^50 divided by the height and by the number of leaves. That is more than
        any count on many trees (5 10^8 for a star of a million leaves), but little on deep ones:
        4,503 on a caterpillar of 10^6 nodes. The ledger states it. Not with
        ``neighbors="change_one"``, where the total is public and is what must be at most 2^50
        divided by the height.
    outside : sequence of str, optional
        Sentences that say what else about the data is or was published without noise, for the
        ledger. Pass :data:`LEAVES_FROM_RECORDS` if the tree was made from the records; for one
        of :meth:`Tree.from_records` the ledger says so by itself.

    Returns
    -------
    Allocation
        ``scales`` per level, the ``exact`` nodes, and the ``ledger``.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree import privacy
    >>> tree = gm.shapes.complete(2, 3)
    >>> scales, _, ledger = privacy.allocate(tree, epsilon=1, level_shares=[1, 1, 2])
    >>> print(*scales)
    4 4 2
    >>> ledger
    Ledger(epsilon=1, mechanism='discrete_laplace', neighbors='add_remove',
           max_contributions=1, levels=3, invariants=0)
    """
    budget = Budget.of(
        epsilon=epsilon,
        rho=rho,
        level_shares=level_shares,
        neighbors=neighbors,
        max_contributions=max_contributions,
        invariants=invariants,
        mechanism=mechanism,
        max_count=max_count,
        outside=outside,
    )
    return divide(tree, budget)


def divide(tree: Tree, budget: Budget) -> Allocation:
    """:func:`allocate` for a budget whose terms were checked."""
    check.instance("tree", tree, Tree)
    exact, named, derived = Invariants.of(tree, budget.invariants)
    measured = _measured_nodes(tree, exact)
    # Ratios of whole numbers: what is spent is computed from them without any rounding.
    weights, _ = whole_numbers(_shares(budget.level_shares, measured))
    by_level = [Fraction(w) for w in weights]
    worst = worst_case(tree, by_level, budget.neighbors, exact)
    # Where no neighbours differ in what is measured, any noise will do; take that for a path.
    total_weight = sum(weights)
    unit = budget.amount / (worst or total_weight)
    lines = []
    for depth, (weight, name) in enumerate(zip(weights, level_names(tree), strict=True), start=1):
        lines.append(
            LevelAccount(
                level=depth,
                name=name,
                nodes=measured[depth - 1] if weight else 0,
                share=Fraction(weight, total_weight),
                scale=budget.scale(weight * unit) if weight else None,
                loss=weight * unit,
            )
        )
    given = None
    if exact is not None:
        given = unit * worst_case_given_invariants(tree, by_level, budget.neighbors, exact)
    ledger = Ledger(
        measure=budget.measure,
        budget=budget.amount,
        total=worst * unit,
        total_given_invariants=given,
        mechanism=budget.mechanism,
        neighbors=budget.neighbors,
        max_contributions=budget.max_contributions,
        max_count=_largest_count(tree, budget),
        levels=tuple(lines),
        invariants=named,
        derived_invariants=derived,
        outside=_outside(tree, budget),
    )
    return Allocation(ledger.scales, exact, ledger)


def _outside(tree: Tree, budget: Budget) -> tuple[str, ...]:
    """What the caller says is published besides, and what the tree itself tells of the records."""
    told = LEAVES_FROM_RECORDS in budget.outside
    if told or not getattr(tree._labels, "from_records", False):
        return budget.outside
    return (*budget.outside, LEAVES_FROM_RECORDS)


def check_account(tree: Tree, ledger: Ledger, exact: np.ndarray | None) -> None:
    """Refuse an account that does not belong to this tree, or understates what was spent."""
    if [line.name for line in ledger.levels] != level_names(tree):
        raise ValueError("the ledger has other levels than the tree")
    if not any(ledger.scales):
        raise ValueError("the ledger has no level that was measured")
    if (exact is None) != (not ledger.invariants):
        raise ValueError("the ledger has other invariants than the release")
    if exact is not None and not np.array_equal(closed_under_sums(tree, exact), exact):
        raise ValueError("some counts follow from exact ones but are not marked as exact")
    for line, nodes in zip(ledger.levels, _measured_nodes(tree, exact), strict=True):
        if line.nodes != (0 if line.scale is None else nodes):
            raise ValueError(f"the ledger has other nodes in level {line.level} than the tree")
    if ledger.max_count is not None and ledger.max_count > _largest_sum_per_leaf(tree):
        raise ValueError("the ledger has a larger bound of counts than is possible")
    losses = [line.loss for line in ledger.levels]
    if worst_case(tree, losses, ledger.neighbors, exact) > ledger.total:
        raise ValueError("the ledger understates the loss")
    if exact is not None:
        given = worst_case_given_invariants(tree, losses, ledger.neighbors, exact)
        if given > (ledger.total_given_invariants or 0):
            raise ValueError("the ledger understates the loss given its invariants")


def privacy_loss(
    tree: Tree,
    scales: Sequence[Any],
    *,
    measure: str = "epsilon",
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
) -> Fraction:
    """The loss of noise with given scales, for the worst neighbours.

    Never understated. Exact where all levels' losses are multiples of one unit and add up to at
    most 2^61 of it, and always where records are added or removed and nothing is exact. Otherwise
    the losses of the levels are rounded up to multiples of a unit, and the result is too large by
    at most 2^-59 times the height times the sum of the losses of all levels.

    Parameters
    ----------
    tree : Tree
    scales : sequence of numbers or None
        One per level, the root's first: scale of discrete Laplace noise, or sigma of discrete
        Gaussian noise (`measure` rho only); None for a level that is not measured.
    measure : {'epsilon', 'rho'}
    neighbors, max_contributions, invariants
        As in :func:`allocate`.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree import privacy
    >>> privacy.privacy_loss(gm.shapes.complete(2, 3), [3, 3, 3])
    Fraction(1, 1)
    >>> privacy.privacy_loss(gm.shapes.complete(2, 3), [3, 3, 3], neighbors="change_one")
    Fraction(4, 3)
    """
    check.instance("tree", tree, Tree)
    one_of("measure", measure, MEASURES)
    one_of("neighbors", neighbors, NEIGHBORS)
    most = check.count("max_contributions", max_contributions, least=1)
    given = sequence("scales", scales, "numbers")
    if len(given) != tree.height:
        check.fail("scales", f"must have one entry per level ({tree.height}), not {len(given)}.")
    losses = [
        Fraction(0) if s is None else loss_of_one(measure, noise_scale("scales", s)) for s in given
    ]
    exact = Invariants.of(tree, sequence("invariants", invariants, "nodes or levels")).exact
    return loss_factor(measure, most) * worst_case(tree, losses, neighbors, exact)


def largest_sum(tree: Tree) -> int:
    """The largest total with which all values are exact enough to be rounded."""
    return max(1, _LARGEST // tree.height)


def _largest_sum_per_leaf(tree: Tree) -> int:
    return max(1, largest_sum(tree) // tree.n_leaves)


def _largest_count(tree: Tree, budget: Budget) -> int | None:
    """The public bound of a leaf's count; None where counts are not cut off."""
    if budget.neighbors == "change_one":
        return None
    largest = _largest_sum_per_leaf(tree)
    if budget.max_count is not None and budget.max_count > largest:
        check.fail(
            "max_count",
            f"must be at most {largest} on this tree (2^50 / height / leaves), "
            f"not {budget.max_count}.",
        )
    return budget.max_count or largest


def _shares(given: tuple[Fraction, ...] | None, measured: list[int]) -> list[Fraction]:
    """Relative shares, 0 where no node is left to measure."""
    height = len(measured)
    if given is None:
        given = (Fraction(1),) * height
    if len(given) != height:
        check.fail("level_shares", f"must have one share per level ({height}), not {len(given)}.")
    shares = [share if count else Fraction(0) for share, count in zip(given, measured, strict=True)]
    if not any(shares):
        check.fail("level_shares", "must leave a level to measure: all shares are 0 or exact.")
    return shares


def _measured_nodes(tree: Tree, exact: np.ndarray | None) -> list[int]:
    """Number of nodes per level that are not exact."""
    if exact is None and tree._has_even_depth():
        return np.diff(tree._level_start).tolist()
    depth = tree.depth if exact is None else tree.depth[~exact]
    return np.bincount(depth, minlength=tree.height + 1)[1:].tolist()
