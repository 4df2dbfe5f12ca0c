"""Divide a privacy budget among the levels of a tree, and compute the privacy loss of noise.

The loss of one measured count that a person changes by 1 is 1 / scale in epsilon (discrete
Laplace noise) and 1 / (2 sigma^2) in rho (discrete Gaussian noise; Laplace noise of that scale
loses no more). Losses of different counts add up. Which counts a person can change depends on
the tree: :mod:`gmtree.privacy.accounting.worst_case`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.accounting.budget import MEASURES, NEIGHBORS, Budget, Terms, sequence
from gmtree.privacy.accounting.invariants import Invariants, closed_under_sums
from gmtree.privacy.accounting.ledger import Ledger, LevelAccount
from gmtree.privacy.accounting.tight import rho_for
from gmtree.privacy.accounting.workload import PLAIN, Workload
from gmtree.privacy.accounting.worst_case import Person, whole_numbers, worst_case_given_invariants
from gmtree.privacy.noise.mechanism import noise_scale
from gmtree.privacy.noise.registry import MECHANISMS, default_for
from gmtree.tree import Tree
from gmtree.tree.locate import level_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The product of the height and any sum of counts stays below this number, and so does the noise.
# The rounding errors of the two sweeps, each about 2^-53 of a value per level, then stay below one
# quarter.
_LARGEST = 1 << 50
# For `disclosures`, if a tree was made from the records themselves.
LEAVES_FROM_RECORDS = (
    "The list of leaves was made from the records, and shows that each listed leaf has a record."
)


class Allocation(NamedTuple):
    """Scales of the noise, the exact nodes, and the ledger.

    Attributes
    ----------
    scales : tuple of Fraction or None
        One per line of the ledger, the root's first: the scale or sigma of the noise of the counts
        that are not exact, or None if the level is not measured.
    exact : array of bool, or None
        Marks the nodes whose counts are published exactly or follow from exact counts; None
        without invariants.
    ledger : Ledger
    """

    scales: tuple[Fraction | None, ...]
    exact: np.ndarray | None
    ledger: Ledger


def allocate(tree: Tree, **terms: Unpack[Terms]) -> Allocation:
    """Divide a privacy budget among the levels of a tree of counts.

    The loss of a person is the sum of the losses of all nodes whose counts differ between
    neighbouring data sets. The largest such sum is computed for this particular tree, and the noise
    is scaled so that this sum equals the budget. With equal shares and records added or removed,
    each level gets Laplace noise of scale ``height / epsilon``.

    Parameters
    ----------
    tree : Tree
        Chosen without looking at the data.
    **terms
        The budget and its terms, as in :func:`gmtree.release`: `epsilon` or `rho`, `delta`,
        `shares`, `neighbors`, `max_contributions`, `max_per_leaf`, `invariants`, `mechanism`,
        `max_count` and `disclosures`.

    Returns
    -------
    Allocation
        ``scales`` per level, the ``exact`` nodes, and the ``ledger``.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree import privacy
    >>> tree = gm.shapes.complete(2, 3)
    >>> scales, _, ledger = privacy.allocate(tree, epsilon=1, shares=[1, 1, 2])
    >>> print(*scales)
    4 4 2
    >>> ledger
    Ledger(epsilon=1, mechanism='discrete_laplace', neighbors='add_remove',
           max_contributions=1, levels=3, invariants=0)
    """
    return divide(tree, Budget.of(**terms))


class LevelSizes(NamedTuple):
    """Names and numbers of nodes of the levels of a tree that is not in memory."""

    names: Sequence[str | None]
    nodes: Sequence[int]


def divide(
    tree: Tree, budget: Budget, workload: Workload = PLAIN, whole: LevelSizes | None = None
) -> Allocation:
    """Divide a checked budget.

    If `whole` is given, it describes the levels of the released tree, and `tree` is a smaller tree
    with the same worst case.
    """
    check.instance("tree", tree, Tree)
    exact, named, derived = Invariants.of(tree, budget.invariants)
    names = level_names(tree) if whole is None else whole.names
    counts = workload.noisy_counts(tree, exact) if whole is None else whole.nodes
    leaves = tree.n_leaves if whole is None else whole.nodes[-1]
    if workload is PLAIN:
        if budget.structural_zeros is not None:
            check.fail("structural_zeros", "must be None without tables: leave out such leaves.")
        wanted = _level_shares(tree, budget.shares)
    else:
        wanted = workload.shares(tree, budget.shares)
    # The shares are ratios of whole numbers, so that the total loss is computed without rounding.
    weights, _ = whole_numbers(_usable(wanted, counts))
    ones = [Fraction(w) for w in weights]
    person = Person(budget.measure, budget.max_contributions, budget.max_per_leaf)
    worst = person.worst_case(tree, ones, budget.neighbors, exact, workload.cells)
    # If no neighbours differ in any measured count, any noise will do; we use the noise for a path.
    total_weight = sum(weights)
    given = Fraction(0)
    if exact is not None:
        given = worst_case_given_invariants(tree, ones, budget.neighbors, exact, workload.cells)

    lines = partial(_lines, budget, workload, names, counts, person.times_by_level(tree))

    def ledger_of(amount: Fraction) -> Ledger:
        unit = amount / (worst or person.times * total_weight)
        return Ledger(
            measure=budget.measure,
            budget=amount,
            total=worst * unit,
            total_given_invariants=None if exact is None else given * person.times * unit,
            mechanism=budget.mechanism.name,
            neighbors=budget.neighbors,
            max_contributions=budget.max_contributions,
            max_count=_largest_count(tree, budget, workload, leaves),
            levels=lines(weight * unit for weight in weights),
            invariants=named,
            derived_invariants=derived,
            disclosures=_disclosures(tree, budget),
            axes=workload.axes,
            target=budget.target,
            max_per_leaf=budget.max_per_leaf,
            person=budget.person,
            structural_zeros=workload.zeros,
            ignore_unknown=budget.ignore_unknown,
        )

    amount = budget.amount if budget.target is None else rho_for(budget.target, ledger_of)
    ledger = ledger_of(amount)
    return Allocation(ledger.scales, exact, ledger)


def _lines(
    budget: Budget,
    workload: Workload,
    names: Sequence[str | None],
    counts: Sequence[int],
    times: Sequence[int],
    losses: Iterable[Fraction],
) -> tuple[LevelAccount, ...]:
    """The lines of a ledger, from the loss of one record by level and query."""
    ones, lines = list(losses), []
    whole = sum(ones)
    for k, (one, count) in enumerate(zip(ones, counts, strict=True)):
        depth, query = divmod(k, len(workload.queries))
        lines.append(
            LevelAccount(
                level=depth + 1,
                name=names[depth],
                nodes=count if one else 0,
                share=one / whole,
                scale=budget.scale(one) if one else None,
                loss=times[depth] * one,
                query=workload.queries[query],
            )
        )
    return tuple(lines)


def _disclosures(tree: Tree, budget: Budget) -> tuple[str, ...]:
    """Return the caller's disclosures; add one if the list of leaves was made from the records."""
    if LEAVES_FROM_RECORDS in budget.disclosures or not tree._from_records:
        return budget.disclosures
    return (*budget.disclosures, LEAVES_FROM_RECORDS)


def check_account(tree: Tree, ledger: Ledger, exact: np.ndarray | None) -> None:
    """Refuse a ledger that does not belong to this tree, or understates its loss."""
    workload, names = ledger._workload, level_names(tree)
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
    if ledger.max_count is not None and ledger.max_count > _largest_cell(
        tree, workload, tree.n_leaves
    ):
        raise ValueError("the ledger has a larger bound of counts than is possible")
    person = Person(ledger.measure, ledger.max_contributions, ledger.max_per_leaf)
    times = person.times_by_level(tree)
    # The stated loss of one record must not be below the loss that the noise implies.
    ones = [line.loss / times[line.level - 1] for line in ledger.levels]
    noise = MECHANISMS[ledger.mechanism]
    for line, one in zip(ledger.levels, ones, strict=True):
        if line.scale is not None and noise.loss(ledger.measure, line.scale) > one:
            raise ValueError(f"the ledger understates the loss of level {line.level}")
    if person.worst_case(tree, ones, ledger.neighbors, exact, workload.cells) > ledger.total:
        raise ValueError("the ledger understates the loss")
    if exact is not None:
        given = worst_case_given_invariants(tree, ones, ledger.neighbors, exact, workload.cells)
        if person.times * given > (ledger.total_given_invariants or 0):
            raise ValueError("the ledger understates the loss given its invariants")


def gaussian_loss_in(tree: Tree, allocation: Allocation) -> Fraction | None:
    """The loss of a release in units of Gaussian noise, or None if its noise is too small.

    These losses add up in an account for an (epsilon, delta): see
    :mod:`gmtree.privacy.accounting.gaussian`.
    """
    return _loss_of(tree, allocation, "rho", MECHANISMS[allocation.ledger.mechanism].gaussian_loss)


def _loss_of(
    tree: Tree, allocation: Allocation, measure: str, loss: Callable[[Fraction], Fraction | None]
) -> Fraction | None:
    """The largest loss of a person, given the loss for each scale; None if one of these is None."""
    _, exact, ledger = allocation
    found = [Fraction(0) if scale is None else loss(scale) for scale in ledger.scales]
    ones = [one for one in found if one is not None]
    if len(ones) < len(found):
        return None
    person = Person(measure, ledger.max_contributions, ledger.max_per_leaf)
    return person.worst_case(tree, ones, ledger.neighbors, exact, ledger._workload.cells)


def loss_in(tree: Tree, allocation: Allocation, measure: str) -> Fraction | None:
    """The loss of a release in the given measure; None if no finite loss is known.

    In the measure of its ledger, the loss is the total of the ledger. In the other measure it is
    computed from the scales. A loss in rho is at most epsilon^2 / 2 and at most epsilon.
    """
    ledger = allocation.ledger
    if measure == ledger.measure:
        return ledger.total
    noise = MECHANISMS[ledger.mechanism]
    if measure not in noise.measures:
        return None
    loss = _loss_of(tree, allocation, measure, partial(noise.loss, measure))
    if loss is None or measure == "epsilon":
        return loss
    return min(loss, ledger.total**2 / 2, ledger.total)


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

    The loss is never understated. It is exact if all levels' losses are multiples of one unit and
    add up to at most 2^61 units, and always if records are added or removed and nothing is exact.
    Otherwise the losses of the levels are rounded up to multiples of a unit, and the result is too
    large by at most 2^-59 times the height times the sum of the losses of all levels.

    Parameters
    ----------
    tree : Tree
    scales : sequence of numbers or None
        One per level, the root's first: scale of discrete Laplace noise, or sigma of discrete
        Gaussian noise (`measure` rho only); None for a level that is not measured.
    measure : {'epsilon', 'rho'}
    neighbors, max_contributions, invariants
        As in :func:`allocate`.

    Returns
    -------
    Fraction

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
    check.one_of("measure", measure, MEASURES)
    check.one_of("neighbors", neighbors, NEIGHBORS)
    most = check.count("max_contributions", max_contributions, least=1)
    given = sequence("scales", scales, "numbers")
    if len(given) != tree.height:
        check.fail("scales", f"must have one entry per level ({tree.height}), not {len(given)}.")
    noise = default_for(measure)
    losses = [
        Fraction(0) if s is None else noise.loss(measure, noise_scale("scales", s)) for s in given
    ]
    exact = Invariants.of(tree, sequence("invariants", invariants, "nodes or levels")).exact
    return Person(measure, most).worst_case(tree, losses, neighbors, exact)


def largest_sum(tree: Tree) -> int:
    """The largest total with which all values are exact enough to be rounded."""
    return max(1, _LARGEST // tree.height)


def _largest_cell(tree: Tree, workload: Workload, leaves: int) -> int:
    """The largest count of each cell of each leaf with which the total stays in bounds."""
    return max(1, largest_sum(tree) // (leaves * workload.table_cells))


def _largest_count(tree: Tree, budget: Budget, workload: Workload, leaves: int) -> int | None:
    """The public bound of a leaf's count; None if counts are not cut off."""
    if budget.neighbors == "change_one":
        return None
    largest = _largest_cell(tree, workload, leaves)
    if budget.max_count is not None and budget.max_count > largest:
        cells = "" if workload is PLAIN else " / cells"
        check.fail(
            "max_count",
            f"must be at most {largest} on this tree (2^50 / height / leaves{cells}), "
            f"not {budget.max_count}.",
        )
    return budget.max_count or largest


def _level_shares(tree: Tree, given: Any) -> list[Fraction]:
    if given is None:
        given = (Fraction(1),) * tree.height
    if isinstance(given, Mapping):
        check.fail_type("shares", "must be a sequence with one number per level, not a mapping.")
    if len(given) != tree.height:
        check.fail("shares", f"must have one share per level ({tree.height}), not {len(given)}.")
    return list(given)


def _usable(shares: list[Fraction], counts: Sequence[int]) -> list[Fraction]:
    """The shares, with 0 for levels whose counts are all exact."""
    found = [share if count else Fraction(0) for share, count in zip(shares, counts, strict=True)]
    if not any(found):
        check.fail("shares", "must leave a level to measure: all shares are 0 or exact.")
    return found
