"""The budget of a release and its terms: the arguments that all private functions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypedDict

from gmtree import _validate as check
from gmtree.privacy.accounting.conversion import proper_delta, zcdp_rho
from gmtree.privacy.accounting.invariants import Level
from gmtree.privacy.accounting.rational import LOSS_BITS, positive, rational
from gmtree.privacy.noise.mechanism import LARGEST_SCALE, Mechanism
from gmtree.privacy.noise.registry import MECHANISMS, default_for

MEASURES = ("epsilon", "rho")
NEIGHBORS = ("add_remove", "change_one")
# Options that are refused if records move, with the reasons.
_REFUSED_IF_RECORDS_MOVE = {
    "structural_zeros": "the number of records is then public, and would show how many are in "
    "these cells and are not counted.",
    "max_count": "a record that moves to a leaf whose count is cut off would change the total, "
    "which is public.",
    "max_per_leaf": "all records of a person may then move to one leaf.",
}


class TermsOfNoise(TypedDict, total=False):
    """The keywords of a budget besides the bounds on the records of a person."""

    epsilon: Any
    rho: Any
    delta: Any
    shares: Sequence[Any] | Mapping[Any, Any] | None
    neighbors: str
    invariants: Any
    mechanism: str | None
    max_count: int | None
    disclosures: Sequence[str]
    structural_zeros: Any


class Terms(TermsOfNoise, total=False):
    """The keywords of a budget; :func:`gmtree.release` describes them."""

    max_contributions: int
    max_per_leaf: int | None


@dataclass(frozen=True)
class Budget:
    """A budget and its terms, checked as far as that is possible without a tree.

    :func:`gmtree.release` describes the arguments.
    """

    measure: str
    amount: Fraction
    mechanism: Mechanism
    neighbors: str
    max_contributions: int
    shares: tuple[Fraction, ...] | Mapping[Any, Any] | None
    invariants: tuple[Any, ...]
    max_count: int | None
    disclosures: tuple[str, ...]
    max_per_leaf: int | None = None
    person: str | None = None
    target: tuple[Fraction, Fraction] | None = None
    structural_zeros: Any = None
    ignore_unknown: bool = False

    @classmethod
    def of(
        cls,
        *,
        epsilon: Any = None,
        rho: Any = None,
        delta: Any = None,
        shares: Any = None,
        neighbors: Any = "add_remove",
        max_contributions: Any = 1,
        max_per_leaf: Any = None,
        invariants: Any = (),
        mechanism: Any = None,
        max_count: Any = None,
        disclosures: Any = (),
        person: Any = None,
        structural_zeros: Any = None,
        ignore_unknown: Any = False,
        **others: Any,
    ) -> Budget:
        """The budget for the arguments of a public function.

        `person` is the column that identifies people, if the caller leaves out the records that are
        beyond a person's bounds. `ignore_unknown` states that the caller leaves out
        records of unknown leaves or cells. `others` are arguments that no public function has.
        """
        for name in others:
            check.fail_type(name, "must not be given: there is no such option here.")
        if (epsilon is None) == (rho is None):
            both = "" if epsilon is None else ", not both"
            check.fail("epsilon", f"or argument 'rho' must be given{both}.")
        measure, amount = ("epsilon", epsilon) if rho is None else ("rho", rho)
        target = None
        if delta is not None:
            if rho is not None:
                check.fail(
                    "delta",
                    "must be None if 'rho' is given, because delta only helps to choose rho for an "
                    "epsilon; ledger.epsilon(delta) is the epsilon that a budget in rho implies.",
                )
            target = positive("epsilon", epsilon), proper_delta(delta)
            measure, amount = "rho", zcdp_rho(*target)
        budget = cls(
            measure=measure,
            amount=positive(measure, amount),
            mechanism=_mechanism(measure, mechanism),
            neighbors=check.one_of("neighbors", neighbors, NEIGHBORS),
            max_contributions=check.count("max_contributions", max_contributions, least=1),
            shares=shares if shares is None or isinstance(shares, Mapping) else _shares(shares),
            invariants=sequence("invariants", invariants, "nodes or levels"),
            max_count=None if max_count is None else check.count("max_count", max_count, least=1),
            disclosures=sequence("disclosures", disclosures, "sentences"),
            max_per_leaf=_per_leaf(max_per_leaf, max_contributions),
            person=None if person is None else str(person),
            target=target,
            structural_zeros=structural_zeros,
            ignore_unknown=check.flag("ignore_unknown", ignore_unknown),
        )
        for text in budget.disclosures:
            if not isinstance(text, str) or not text.strip():
                check.fail_type("disclosures", f"must hold sentences, not {text!r}.")
        for name, why in _REFUSED_IF_RECORDS_MOVE.items():
            if budget.neighbors == "change_one" and getattr(budget, name) is not None:
                check.fail(name, f"must be None with neighbors='change_one': {why}")
        return budget

    def scale(self, one: Fraction) -> Fraction:
        """The smallest scale with few digits that costs at most `one` if a count changes by 1."""
        if one.denominator.bit_length() > LOSS_BITS:
            # A ledger with more digits could be saved, but not read again.
            check.fail(self.measure, "must have fewer digits; about 50 are possible.")
        scale = self.mechanism.scale(self.measure, one)
        if scale > LARGEST_SCALE:
            check.fail(
                self.measure, "must be larger: a level would get noise of a scale above 2^56."
            )
        return scale


def _mechanism(measure: str, mechanism: Any) -> Mechanism:
    if mechanism is None:
        return default_for(measure)
    found = MECHANISMS[check.one_of("mechanism", mechanism, MECHANISMS)]
    if measure not in found.measures:
        check.fail(
            "mechanism",
            f"must be {default_for(measure).name!r} for a budget in {measure}: {found.title} noise "
            f"has no finite {measure}. Or give a budget in {found.measures[0]}.",
        )
    return found


def _per_leaf(max_per_leaf: Any, max_contributions: int) -> int | None:
    if max_per_leaf is None:
        return None
    most = check.count("max_per_leaf", max_per_leaf, least=1)
    if most > max_contributions:
        check.fail(
            "max_per_leaf",
            f"must be at most 'max_contributions' ({max_contributions}), not {most}.",
        )
    return most


def _shares(given: Any) -> tuple[Fraction, ...]:
    shares = tuple(rational("shares", x) for x in sequence("shares", given, "numbers"))
    for depth, share in enumerate(shares, start=1):
        if share < 0:
            check.fail("shares", f"must not be negative; level {depth} has {share}.")
    return shares


def sequence(argument: str, x: Any, what: str) -> tuple[Any, ...]:
    """Return the items of a sequence; refuse text, and a single item such as a `Level`."""
    try:
        if isinstance(x, (str, bytes, Level)):
            raise TypeError
        return tuple(x)
    except TypeError:
        check.fail_type(argument, f"must be a sequence of {what}, not {x!r}.")
