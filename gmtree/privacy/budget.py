"""What may be spent, and on what terms: the arguments that all private functions share."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gmtree import _validate as check
from gmtree.privacy.conversion import proper_delta, zcdp_rho
from gmtree.privacy.invariants import Level
from gmtree.privacy.rational import positive, rational, round_up, sqrt_up
from gmtree.privacy.sampling.noise import LARGEST_SCALE

MEASURES = ("epsilon", "rho")
NEIGHBORS = ("add_remove", "change_one")
MECHANISMS = ("discrete_laplace", "discrete_gaussian")


class Enforced(int):
    """A `max_contributions` that is not only promised: whoever passes it left out other records."""


@dataclass(frozen=True)
class Budget:
    """A budget and its terms, checked as far as that is possible without a tree.

    :func:`gmtree.privacy.allocate` describes the arguments.
    """

    measure: str
    amount: Fraction
    mechanism: str
    neighbors: str
    max_contributions: int
    level_shares: tuple[Fraction, ...] | None
    invariants: tuple[Any, ...]
    max_count: int | None
    outside: tuple[str, ...]
    max_per_leaf: int | None = None
    enforced: bool = False
    target: tuple[Fraction, Fraction] | None = None

    @classmethod
    def of(
        cls,
        *,
        epsilon: Any,
        rho: Any,
        delta: Any = None,
        level_shares: Any = None,
        neighbors: Any,
        max_contributions: Any,
        max_per_leaf: Any = None,
        invariants: Any,
        mechanism: Any,
        max_count: Any = None,
        outside: Any = (),
    ) -> Budget:
        """The budget that these arguments of a public function ask for."""
        if (epsilon is None) == (rho is None):
            given = "neither" if epsilon is None else "both"
            check.fail("epsilon", f"or argument 'rho' must be given, not {given}.")
        measure, amount = ("epsilon", epsilon) if rho is None else ("rho", rho)
        target = None
        if delta is not None:
            if rho is not None:
                check.fail(
                    "delta",
                    "must be given with 'epsilon', as a target for which rho is chosen; the "
                    "epsilon that a budget in rho implies is ledger.epsilon(delta).",
                )
            target = positive("epsilon", epsilon), proper_delta(delta)
            measure, amount = "rho", zcdp_rho(*target)
        budget = cls(
            measure=measure,
            amount=positive(measure, amount),
            mechanism=_mechanism(measure, mechanism),
            neighbors=one_of("neighbors", neighbors, NEIGHBORS),
            max_contributions=check.count("max_contributions", max_contributions, least=1),
            level_shares=None if level_shares is None else _shares(level_shares),
            invariants=sequence("invariants", invariants, "nodes or levels"),
            max_count=None if max_count is None else check.count("max_count", max_count, least=1),
            outside=sequence("outside", outside, "sentences"),
            max_per_leaf=_per_leaf(max_per_leaf, max_contributions, neighbors),
            enforced=isinstance(max_contributions, Enforced),
            target=target,
        )
        for text in budget.outside:
            if not isinstance(text, str) or not text.strip():
                check.fail_type("outside", f"must hold sentences, not {text!r}.")
        if budget.neighbors == "change_one" and max_count is not None:
            check.fail(
                "max_count",
                "must be None with neighbors='change_one': where records move, a count that is "
                "cut off would change the counts above it.",
            )
        return budget

    @property
    def times(self) -> int:
        """How much more a person loses with several records than with one."""
        return loss_factor(self.measure, self.max_contributions)

    def scale(self, one: Fraction) -> Fraction:
        """The smallest scale with few digits that costs at most `one` if a count changes by 1."""
        scale = round_up(1 / one) if self.measure == "epsilon" else sqrt_up(1 / (2 * one))
        if scale > LARGEST_SCALE:
            check.fail(
                self.measure, "must be larger: a level would get noise of a scale above 2^56."
            )
        return scale


def loss_factor(measure: str, contributions: int) -> int:
    """How much more a person loses who changes each count by `contributions` instead of 1."""
    return contributions if measure == "epsilon" else contributions**2


def loss_of_one(measure: str, scale: Fraction) -> Fraction:
    """What a count with noise of this scale loses about a person who changes it by 1."""
    return 1 / scale if measure == "epsilon" else 1 / (2 * scale**2)


def one_of(argument: str, value: Any, known: tuple[str, ...]) -> str:
    """`value`, which must be one of the `known` words."""
    if not isinstance(value, str) or value not in known:
        names = " or ".join(repr(name) for name in known)
        check.fail(argument, f"must be {names}, not {value!r}.")
    return value


def _mechanism(measure: str, mechanism: Any) -> str:
    if mechanism is None:
        return "discrete_laplace" if measure == "epsilon" else "discrete_gaussian"
    if (measure, one_of("mechanism", mechanism, MECHANISMS)) == ("epsilon", "discrete_gaussian"):
        check.fail(
            "mechanism",
            "must be 'discrete_laplace' for a budget in epsilon: Gaussian "
            "noise has no finite epsilon, give a budget in rho.",
        )
    return mechanism


def _per_leaf(max_per_leaf: Any, max_contributions: int, neighbors: str) -> int | None:
    if max_per_leaf is None:
        return None
    most = check.count("max_per_leaf", max_per_leaf, least=1)
    if most > max_contributions:
        check.fail(
            "max_per_leaf",
            f"must be at most 'max_contributions' ({int(max_contributions)}), not {most}.",
        )
    if neighbors == "change_one":
        check.fail(
            "max_per_leaf",
            "must be None with neighbors='change_one': there all records of a person may move to "
            "one leaf.",
        )
    return most


def _shares(level_shares: Any) -> tuple[Fraction, ...]:
    items = sequence("level_shares", level_shares, "numbers")
    shares = tuple(rational("level_shares", x) for x in items)
    for depth, share in enumerate(shares, start=1):
        if share < 0:
            check.fail("level_shares", f"must not be negative; level {depth} has {share}.")
    return shares


def sequence(argument: str, x: Any, what: str) -> tuple[Any, ...]:
    """The items of `x`, which must be neither text nor a single item."""
    try:
        if isinstance(x, (str, bytes, Level)):
            raise TypeError
        return tuple(x)
    except TypeError:
        check.fail_type(argument, f"must be a sequence of {what}, not {x!r}.")
