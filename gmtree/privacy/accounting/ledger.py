"""The privacy ledger of a release: its guarantee, its losses by level, and its limits.

All amounts are instances of :class:`fractions.Fraction`. If a number must be rounded, the noise is
made larger and the stated loss stays the same, so that a ledger never understates the loss. Printed
losses are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from gmtree import _validate as check
from gmtree._text import preformatted, printable, short
from gmtree.consistency.tables.queries import Axes
from gmtree.privacy.accounting.budget import MEASURES, NEIGHBORS
from gmtree.privacy.accounting.conversion import needed_delta, proper_delta
from gmtree.privacy.accounting.ledger_text import describe, left_out, records, unknown
from gmtree.privacy.accounting.rational import LOSS_BITS, stored_fraction, to_json
from gmtree.privacy.accounting.tight import tight_epsilon
from gmtree.privacy.accounting.workload import PLAIN, TableAxes, Workload, lengths_of
from gmtree.privacy.noise.mechanism import loss_factor, noise_scale
from gmtree.privacy.noise.registry import MECHANISMS

_FORMAT = "gmtree privacy ledger 2"


@dataclass(frozen=True)
class LevelAccount:
    """One line of a ledger.

    Attributes
    ----------
    level : int
        Depth in the tree, 1 at the root.
    name : str or None
        Name of the level, for a tree made from named levels.
    nodes : int
        Number of counts measured with noise: the number of nodes times the number of cells of the
        query's table.
    share : Fraction
        Share of the budget, 0 for a level that is not measured.
    scale : Fraction or None
        Scale of the Laplace noise or sigma of the Gaussian noise; None if not measured.
    loss : Fraction
        Loss of a person who changes one count of this line. If `max_per_leaf` gives a smaller
        bound, it is instead the loss of a person from all counts of this line together.
    query : tuple of str, or None
        The axes of the measured marginal, if nodes have tables.
    """

    level: int
    name: str | None
    nodes: int
    share: Fraction
    scale: Fraction | None
    loss: Fraction
    query: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Ledger:
    """The privacy loss of one release, line by line, with its assumptions and limits.

    The guarantee compares any two data sets that are neighbours in the sense of `neighbors`. If
    `measure` is epsilon, the noisy counts fall into any set of outcomes with probabilities that
    differ by a factor of at most exp(total). If `measure` is rho, their Rényi divergence of each
    order alpha is at most alpha total (zero-concentrated differential privacy). The guarantee
    extends to everything that is computed from the noisy counts alone. It holds under
    `assumptions`, and does not cover `invariants`, `derived_invariants` and `disclosures`.

    Attributes
    ----------
    measure : {'epsilon', 'rho'}
    budget, total : Fraction
        The allowed loss, and the largest loss of any person, which is at most `budget`.
    total_given_invariants : Fraction or None
        With invariants, the largest loss between neighbours that agree on all exact counts, in the
        same measure: one person's records are added, removed or moved to other leaves in such a way
        that no exact count changes. A move changes two paths, so that this loss can be twice
        `total`. None without invariants.
    mechanism : {'discrete_laplace', 'discrete_gaussian'}
    neighbors : {'add_remove', 'change_one'}
    max_contributions : int
        Largest number of records of one person.
    max_count : int or None
        Bound at which the counts of leaves were cut off before noise was added. None with
        ``neighbors="change_one"``, because then no count is cut off.
    levels : tuple of LevelAccount
        One line per level, the root's first. If nodes have tables, one per level and query.
    invariants : tuple of str
        Counts published exactly at the caller's request, which the guarantee does not cover.
    derived_invariants : tuple of str
        Counts that are known exactly because they are sums or differences of invariants.
    disclosures : tuple of str
        Further facts about the data that are published without noise, as the caller stated them.
    axes : tuple of (name, length or labels), or None
        The axes of the tables that nodes have.
    target : (epsilon, delta), or None
        The (epsilon, delta)-differential privacy for which a budget in rho was chosen.
    max_per_leaf : int or None
        Largest number of records of one person in one leaf, if it was given.
    person : str or None
        Column that identifies the person of each record, if records beyond the bounds were left
        out. None if the caller asserts the bounds.
    structural_zeros : tuple of int
        Cells of a whole table, counted along its axes, that cannot occur. They are public, and are
        published as 0 without noise.
    public_knowledge : tuple of str
        Sentences about further public knowledge that the values use, as the caller stated it.
    ignore_unknown : bool
        Whether records were left out whose leaf or cell is not in the public lists.
    """

    measure: str
    budget: Fraction
    total: Fraction
    total_given_invariants: Fraction | None
    mechanism: str
    neighbors: str
    max_contributions: int
    max_count: int | None
    levels: tuple[LevelAccount, ...]
    invariants: tuple[str, ...]
    derived_invariants: tuple[str, ...]
    disclosures: tuple[str, ...]
    axes: TableAxes | None = None
    target: tuple[Fraction, Fraction] | None = None
    max_per_leaf: int | None = None
    person: str | None = None
    structural_zeros: tuple[int, ...] = ()
    public_knowledge: tuple[str, ...] = ()
    ignore_unknown: bool = False

    @property
    def enforced(self) -> bool:
        """Whether records beyond the bounds were left out; otherwise the caller asserts them."""
        return self.person is not None

    @property
    def scales(self) -> tuple[Fraction | None, ...]:
        """Scale (or sigma) of the noise per line, the root's first; None if not measured."""
        return tuple(line.scale for line in self.levels)

    @property
    def _workload(self) -> Workload:
        """The measured queries of each node."""
        if self.axes is None:
            return PLAIN
        lengths = lengths_of(self.axes)
        queries = tuple(line.query or () for line in self.levels if line.level == 1)
        cells = tuple(math.prod(lengths[axis] for axis in query) for query in queries)
        return Workload(self.axes, queries, cells, len(queries), self.structural_zeros)

    def epsilon(self, delta: Any = None) -> float | Fraction:
        """The epsilon for which (epsilon, delta)-differential privacy holds.

        For Gaussian noise it is computed from the discrete law of the noise itself, and is 2 to
        11 % smaller than the bound that `total` alone implies
        (:func:`gmtree.privacy.zcdp_epsilon`).

        Parameters
        ----------
        delta : number, optional
            Above 0 and below 1. A ledger in rho needs it. For a ledger in epsilon, the result is
            `total` for any delta.

        Returns
        -------
        float or Fraction
            For a ledger in rho it is rounded up.

        Examples
        --------
        >>> import gmtree as gm
        >>> ledger = gm.privacy.allocate(gm.shapes.star(5), rho="1/10").ledger
        >>> round(ledger.epsilon(1e-6), 4), round(gm.privacy.zcdp_epsilon("1/10", 1e-6), 4)
        (1.9912, 2.1419)
        """
        bound = needed_delta(self.measure, delta, "a ledger")
        return self.total if bound is None else tight_epsilon(self, bound)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the guarantee."""
        place = "leaf" if self.axes is None else "leaf, in one cell of its table,"
        but = ", except for the disclosures below" if self.disclosures else ""
        found = [
            *self._about_people(),
            f"A record is counted at one {place} and at all nodes above it.",
        ]
        if self.max_count is not None:
            what = "leaves" if self.axes is None else "cells of leaves"
            found.append(
                f"Counts of {what} are cut off at 0 and at {self.max_count:,}; stated errors do "
                "not include the effect of this."
            )
        if self.structural_zeros:
            axes = Axes(dict(self.axes or ()))
            cells = axes.cells(tuple(axes.names))
            named = [cells[k] for k in self.structural_zeros]
            more = f" and {len(named) - 10:,} more" if len(named) > 10 else ""
            found.append(
                f"Some cells cannot occur, which everyone may know: {', '.join(named[:10])}{more}. "
                "They are published as 0 without noise, and records in them are not counted."
            )
        if self.ignore_unknown:
            found.append(
                f"{unknown(self)} were left out, and their number is not reported. Stated errors "
                "and intervals do not include them."
            )
        return (
            *found,
            *self.public_knowledge,
            f"The tree, including its empty leaves, was chosen without looking at the data{but}.",
            "Only functions of the noisy counts and the disclosures below are published.",
            "The random number generator is unpredictable.",
            "Nobody observes time, memory or other side effects of the computation.",
        )

    def _about_people(self) -> list[str]:
        """Sentences that state which data are neighbours and how many records of a person count."""
        most, per_leaf = records(self.max_contributions), self.max_per_leaf
        bound = most if per_leaf is None else f"{most}, and at most {records(per_leaf)} in a leaf"
        moved = "moved to other leaves" if self.axes is None else "moved to other leaves or cells"
        if self.neighbors == "add_remove":
            change = "added or removed."
        else:
            counted = "counted records" if self.enforced else "records"
            change = f"{moved}. The number of {counted} is public."
        if not self.enforced:
            return [
                f"Neighbouring data differ in the records of one person, {change}",
                f"Each person contributes at most {bound} (asserted by the caller, not enforced).",
            ]
        said = [
            f"Neighbouring data differ in all records of one person, {change}",
            f"Each person contributes at most {bound} (enforced: further records were left out by "
            "a public rule that reads the records of one person at a time).",
            f"Records with the same value in column {self.person!r} belong to one person.",
            left_out(self),
        ]
        if self.neighbors == "add_remove":
            said.insert(
                1,
                "If a person has more records than are counted, one more record may replace a "
                "counted one. That can cost up to twice the total.",
            )
        return said

    def to_dict(self) -> dict[str, Any]:
        """The ledger as text and whole numbers, for JSON; see :meth:`from_dict`."""
        return {"format": _FORMAT, **to_json(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ledger:
        """Read a ledger that :meth:`to_dict` wrote; raise ValueError for any other data.

        Losses are checked against the scales. Only the tree shows whether `total` is the loss of
        the worst path: :meth:`gmtree.Release.load` checks that.
        """
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            check.fail("data", f"must be a ledger in the format {_FORMAT!r}.")
        try:
            ledger = _read(data)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"Argument 'data' must be a whole ledger; {error!r}.") from None
        _check(ledger)
        return ledger

    def __str__(self) -> str:
        return printable(describe(self))

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __repr__(self) -> str:
        return (
            f"Ledger({self.measure}={short(self.total, up=True)}, mechanism={self.mechanism!r}, "
            f"neighbors={self.neighbors!r}, max_contributions={self.max_contributions}, "
            f"levels={len(self.levels)}, invariants={len(self.invariants)})"
        )


# --------------------------------------------------------------------------- reading


def _read(data: Mapping[str, Any]) -> Ledger:
    given, max_count = data["total_given_invariants"], data["max_count"]
    axes, per_leaf = _axes(data["axes"]), data["max_per_leaf"]
    return Ledger(
        measure=check.one_of("measure", data["measure"], MEASURES),
        budget=stored_fraction(data["budget"]),
        total=stored_fraction(data["total"]),
        total_given_invariants=None if given is None else stored_fraction(given),
        mechanism=check.one_of("mechanism", data["mechanism"], MECHANISMS),
        neighbors=check.one_of("neighbors", data["neighbors"], NEIGHBORS),
        max_contributions=check.count("max_contributions", data["max_contributions"], least=1),
        max_count=None if max_count is None else check.count("max_count", max_count, least=1),
        levels=_lines(data["levels"], axes),
        invariants=tuple(map(_text, _list(data["invariants"]))),
        derived_invariants=tuple(map(_text, _list(data["derived_invariants"]))),
        disclosures=tuple(map(_text, _list(data["disclosures"]))),
        axes=axes,
        target=_target(data["target"]),
        max_per_leaf=None if per_leaf is None else check.count("max_per_leaf", per_leaf, least=1),
        person=None if data["person"] is None else _text(data["person"]),
        structural_zeros=_zeros(data["structural_zeros"], axes),
        public_knowledge=tuple(map(_text, _list(data["public_knowledge"]))),
        ignore_unknown=check.flag("ignore_unknown", data["ignore_unknown"]),
    )


def _zeros(listed: Any, axes: TableAxes | None) -> tuple[int, ...]:
    cells = math.prod(lengths_of(axes).values()) if axes else 1
    zeros = tuple(check.count("structural_zeros", k, least=0) for k in _list(listed))
    if list(zeros) != sorted(set(zeros)) or len(zeros) >= cells or max(zeros, default=0) >= cells:
        check.fail(
            "data",
            "must list each structural zero once, in ascending order, and not list all cells.",
        )
    return zeros


def _axes(listed: Any) -> TableAxes | None:
    if listed is None:
        return None
    pairs = [_pair(item) for item in _list(listed)]
    axes = {
        _text(name): tuple(map(_text, values))
        if isinstance(values, list) and values
        else check.count("axes", values, least=1)
        for name, values in pairs
    }
    if len(axes) != len(listed):
        check.fail("data", "must have each axis once.")
    return tuple(axes.items())


def _target(listed: Any) -> tuple[Fraction, Fraction] | None:
    if listed is None:
        return None
    epsilon, delta = map(stored_fraction, _pair(listed))
    return epsilon, proper_delta(delta)


def _lines(listed: Any, axes: Any) -> tuple[LevelAccount, ...]:
    """The stored lines: one per level, or one per level and query if nodes have tables."""
    queries: list[Any] = [None]
    if axes is not None:
        first = [line for line in _list(listed) if line["level"] == 1]
        queries = [tuple(map(_text, _list(line["query"]))) for line in first]
        sets = {frozenset(query) for query in queries}
        known = {name for name, _ in axes}
        whole = all(set(query) <= known and len(set(query)) == len(query) for query in queries)
        if not queries or len(sets) < len(queries) or not whole:
            check.fail("data", "must have queries that differ and name its axes only.")
    if len(_list(listed)) % len(queries):
        check.fail("data", "must have a line for each level and query.")
    return tuple(
        _read_line(line, k // len(queries) + 1, queries[k % len(queries)])
        for k, line in enumerate(listed)
    )


def _read_line(line: Mapping[str, Any], level: int, query: tuple[str, ...] | None) -> LevelAccount:
    if line["level"] != level or isinstance(line["level"], bool):
        check.fail("data", f"must list the levels in order; level {level} is missing.")
    named = line["query"]
    if (None if named is None else tuple(_list(named))) != query:
        check.fail(
            "data", f"must list the same queries for each level; those of level {level} differ."
        )
    scale, loss = line["scale"], stored_fraction(line["loss"])
    if loss.denominator.bit_length() > LOSS_BITS:
        check.fail(
            "data",
            f"must not have losses with a denominator above 2^{LOSS_BITS}; level {level} has one.",
        )
    return LevelAccount(
        level=level,
        name=None if line["name"] is None else _text(line["name"]),
        nodes=check.count("nodes", line["nodes"], least=0),
        share=stored_fraction(line["share"]),
        scale=None if scale is None else noise_scale("data", stored_fraction(scale)),
        loss=loss,
        query=query,
    )


def _text(x: Any) -> str:
    return x if isinstance(x, str) else _refuse(x, "text")


def _list(x: Any) -> Sequence[Any]:
    return x if isinstance(x, (list, tuple)) else _refuse(x, "a list")


def _pair(x: Any) -> Sequence[Any]:
    return x if len(_list(x)) == 2 else _refuse(x, "a pair")


def _refuse(x: Any, what: str) -> NoReturn:
    raise TypeError(f"{x!r} is not {what}")


def _check(ledger: Ledger) -> None:
    """Refuse a ledger that contradicts itself or understates the loss of a level."""
    if ledger.total > ledger.budget:
        check.fail("data", "must not spend more than its budget.")
    if (ledger.total_given_invariants is None) != (not ledger.invariants):
        check.fail(
            "data", "must state 'total_given_invariants' if it has invariants, and only then."
        )
    if (ledger.max_count is None) != (ledger.neighbors == "change_one"):
        check.fail("data", "must state 'max_count' with neighbors='add_remove', and only then.")
    noise = MECHANISMS[ledger.mechanism]
    if ledger.measure not in noise.measures:
        check.fail("data", f"must not claim a finite {ledger.measure} for {noise.title} noise.")
    if ledger.target is not None:
        epsilon, delta = ledger.target
        if ledger.measure != "rho" or ledger.epsilon(delta) > epsilon:
            check.fail("data", "must not claim a target that its noise does not meet.")
    if ledger.max_per_leaf is not None and ledger.neighbors == "change_one":
        check.fail("data", "must not have 'max_per_leaf' with neighbors='change_one'.")
    if (ledger.max_per_leaf or 0) > ledger.max_contributions:
        check.fail("data", "must not have a 'max_per_leaf' larger than 'max_contributions'.")
    # With `max_per_leaf`, the ratio of a person's loss to the loss of one record depends on the
    # tree. We check the least possible ratio.
    times = loss_factor(ledger.measure, ledger.max_per_leaf or ledger.max_contributions)
    for line in ledger.levels:
        one = 0 if line.scale is None else noise.loss(ledger.measure, line.scale)
        if times * one > line.loss:
            check.fail(
                "data", f"must not understate a loss; that of level {line.level} is too small."
            )
    if ledger.neighbors == "add_remove":
        # A record counts at one node of each level. With invariants, some of these nodes may be
        # exact, and then only the largest loss of a single level is a certain lower bound.
        losses = [line.loss for line in ledger.levels if line.nodes]
        least = max(losses, default=0) if ledger.invariants else sum(losses)
        if ledger.total < least:
            check.fail(
                "data", "must not understate the total, which is below the losses of its levels."
            )
