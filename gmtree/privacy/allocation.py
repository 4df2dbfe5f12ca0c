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
    loss_of_one,
    one_of,
    sequence,
)
from gmtree.privacy.invariants import Invariants, closed_under_sums, level_names
from gmtree.privacy.ledger import Ledger, LevelAccount
from gmtree.privacy.sampling.noise import noise_scale
from gmtree.privacy.workload import PLAIN, Workload
from gmtree.privacy.worst_case import Person, whole_numbers, worst_case_given_invariants
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
        One per line of the ledger, the root's first: scale or sigma of the noise of each count
        that is not exact; None where the level is not measured.
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
    delta: Any = None,
    level_shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    max_per_leaf: int | None = None,
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
        Budget of pure differential privacy. A float is taken at its exact value, which for 0.1
        is a little more; write ``"0.1"`` for the decimal itself.
    rho : int, Fraction, str or float
        Budget of zero-concentrated differential privacy; give this or `epsilon`, not both.
    delta : number, optional
        With `epsilon`, a target: the largest rho is chosen that implies
        (epsilon, delta)-differential privacy (:func:`zcdp_rho`), and the ledger shows both.
    level_shares : sequence of numbers, optional
        Relative shares of the levels, one per depth, the root's first; only their ratios matter.
        A level with share 0 is not measured. Default: all equal.
    neighbors : {'add_remove', 'change_one'}
        Whether one person's records are added or removed, which changes the counts on the path
        to their leaf, or move to another leaf, which changes both paths but not the nodes they
        share: the root costs nothing, its share is free, and the total is taken as public.
    max_contributions : int
        Most records of one person. Takes the loss k times in epsilon, k^2 times in rho.
    max_per_leaf : int, optional
        Most records of one person in one leaf, if that is fewer. In rho it lowers what several
        records cost: at the leaves they change several counts by little instead of one by much.
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
        delta=delta,
        level_shares=level_shares,
        neighbors=neighbors,
        max_contributions=max_contributions,
        max_per_leaf=max_per_leaf,
        invariants=invariants,
        mechanism=mechanism,
        max_count=max_count,
        outside=outside,
    )
    return divide(tree, budget)


def divide(
    tree: Tree, budget: Budget, workload: Workload = PLAIN, shares: Any = None
) -> Allocation:
    """:func:`allocate` for a budget whose terms were checked, and any queries of tables."""
    check.instance("tree", tree, Tree)
    exact, named, derived = Invariants.of(tree, budget.invariants)
    counts = workload.noisy_counts(tree, exact)
    if workload is PLAIN:
        wanted = _level_shares(tree, budget.level_shares)
    else:
        wanted = workload.shares(tree, shares)
    # Ratios of whole numbers: what is spent is computed from them without any rounding.
    weights, _ = whole_numbers(_usable("level_shares" if workload is PLAIN else "shares", wanted,
                                       counts))  # fmt: skip
    ones = [Fraction(w) for w in weights]
    person = Person(budget.measure, budget.max_contributions, budget.max_per_leaf)
    worst = person.worst_case(tree, ones, budget.neighbors, exact, workload.cells)
    # Where no neighbours differ in what is measured, any noise will do; take that for a path.
    total_weight = sum(weights)
    unit = budget.amount / (worst or person.times * total_weight)
    times = person.times_by_level(tree)
    names, lines = level_names(tree), []
    for k, (weight, count) in enumerate(zip(weights, counts, strict=True)):
        depth, query = divmod(k, len(workload.queries))
        lines.append(
            LevelAccount(
                level=depth + 1,
                name=names[depth],
                nodes=count if weight else 0,
                share=Fraction(weight, total_weight),
                scale=budget.scale(weight * unit) if weight else None,
                loss=times[depth] * weight * unit,
                query=workload.queries[query],
            )
        )
    given = None
    if exact is not None:
        given = worst_case_given_invariants(tree, ones, budget.neighbors, exact, workload.cells)
        given *= person.times * unit
    ledger = Ledger(
        measure=budget.measure,
        budget=budget.amount,
        total=worst * unit,
        total_given_invariants=given,
        mechanism=budget.mechanism,
        neighbors=budget.neighbors,
        max_contributions=budget.max_contributions,
        max_count=_largest_count(tree, budget, workload),
        levels=tuple(lines),
        invariants=named,
        derived_invariants=derived,
        outside=_outside(tree, budget),
        axes=workload.axes,
        target=budget.target,
        max_per_leaf=budget.max_per_leaf,
        enforced=budget.enforced,
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
    workload, names = ledger.workload, level_names(tree)
    if [line.name for line in ledger.levels] != [n for n in names for _ in workload.queries]:
        raise ValueError("the ledger has other levels than the tree")
    if not any(ledger.scales):
        raise ValueError("the ledger has no level that was measured")
    if (exact is None) != (not ledger.invariants):
        raise ValueError("the ledger has other invariants than the release")
    if exact is not None and not np.array_equal(closed_under_sums(tree, exact), exact):
        raise ValueError("some counts follow from exact ones but are not marked as exact")
    for line, nodes in zip(ledger.levels, workload.noisy_counts(tree, exact), strict=True):
        if line.nodes != (0 if line.scale is None else nodes):
            raise ValueError(f"the ledger has other nodes in level {line.level} than the tree")
    if ledger.max_count is not None and ledger.max_count > _largest_cell(tree, workload):
        raise ValueError("the ledger has a larger bound of counts than is possible")
    person = Person(ledger.measure, ledger.max_contributions, ledger.max_per_leaf)
    times = person.times_by_level(tree)
    # What is stated for one record; at least what the noise costs.
    ones = [line.loss / times[line.level - 1] for line in ledger.levels]
    for line, one in zip(ledger.levels, ones, strict=True):
        if line.scale is not None and loss_of_one(ledger.measure, line.scale) > one:
            raise ValueError(f"the ledger understates the loss of level {line.level}")
    if person.worst_case(tree, ones, ledger.neighbors, exact, workload.cells) > ledger.total:
        raise ValueError("the ledger understates the loss")
    if exact is not None:
        given = worst_case_given_invariants(tree, ones, ledger.neighbors, exact, workload.cells)
        if person.times * given > (ledger.total_given_invariants or 0):
            raise ValueError("the ledger understates the loss given its invariants")


def loss_in(tree: Tree, allocation: Allocation, measure: str) -> Fraction | None:
    """What a release loses in either measure; None in epsilon for Gaussian noise.

    In its own measure that is the total of its ledger, in the other it follows from the scales:
    Laplace noise of scale b loses 1 / b in epsilon and at most 1 / (2 b^2) in rho. Any loss of
    epsilon is one of at most epsilon^2 / 2, and of at most epsilon, in rho.
    """
    _, exact, ledger = allocation
    if measure == ledger.measure:
        return ledger.total
    if measure == "epsilon" and ledger.mechanism == "discrete_gaussian":
        return None
    ones = [Fraction(0) if s is None else loss_of_one(measure, s) for s in ledger.scales]
    person = Person(measure, ledger.max_contributions, ledger.max_per_leaf)
    loss = person.worst_case(tree, ones, ledger.neighbors, exact, ledger.workload.cells)
    return loss if measure == "epsilon" else min(loss, ledger.total**2 / 2, ledger.total)


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
    return Person(measure, most).worst_case(tree, losses, neighbors, exact)


def largest_sum(tree: Tree) -> int:
    """The largest total with which all values are exact enough to be rounded."""
    return max(1, _LARGEST // tree.height)


def _largest_cell(tree: Tree, workload: Workload) -> int:
    """The largest count of each cell of each leaf with which the total stays in bounds."""
    return max(1, largest_sum(tree) // (tree.n_leaves * workload.table_cells))


def _largest_count(tree: Tree, budget: Budget, workload: Workload) -> int | None:
    """The public bound of a leaf's count; None where counts are not cut off."""
    if budget.neighbors == "change_one":
        return None
    largest = _largest_cell(tree, workload)
    if budget.max_count is not None and budget.max_count > largest:
        cells = "" if workload is PLAIN else " / cells"
        check.fail(
            "max_count",
            f"must be at most {largest} on this tree (2^50 / height / leaves{cells}), "
            f"not {budget.max_count}.",
        )
    return budget.max_count or largest


def _level_shares(tree: Tree, given: tuple[Fraction, ...] | None) -> list[Fraction]:
    if given is None:
        given = (Fraction(1),) * tree.height
    if len(given) != tree.height:
        check.fail(
            "level_shares", f"must have one share per level ({tree.height}), not {len(given)}."
        )
    return list(given)


def _usable(argument: str, shares: list[Fraction], counts: list[int]) -> list[Fraction]:
    """The shares, 0 where no count is left to measure."""
    found = [share if count else Fraction(0) for share, count in zip(shares, counts, strict=True)]
    if not any(found):
        check.fail(argument, "must leave a level to measure: all shares are 0 or exact.")
    return found
