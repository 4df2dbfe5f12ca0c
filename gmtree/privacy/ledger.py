"""The account of a release: what was promised, how it was spent, and what is not covered.

Everything is a :class:`fractions.Fraction`. Where a number has to be rounded, the noise is made
larger and the loss is stated as before, so that the account never understates; what is printed
is rounded up, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from gmtree import _validate as check
from gmtree._text import preformatted, short, table
from gmtree.privacy.budget import MEASURES, MECHANISMS, NEIGHBORS, loss_factor, loss_of_one, one_of
from gmtree.privacy.conversion import proper_delta, zcdp_epsilon
from gmtree.privacy.rational import stored_fraction
from gmtree.privacy.sampling.noise import noise_scale
from gmtree.privacy.workload import PLAIN, Workload

_FORMAT = "gmtree privacy ledger 2"
# Written by earlier versions, without tables, targets and rules about people.
_FIRST_FORMAT = "gmtree privacy ledger 1"


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
        Number of counts measured with noise: nodes, times cells of the query's table.
    share : Fraction
        Share of the budget, 0 for a level that is not measured.
    scale : Fraction or None
        Scale of the Laplace noise or sigma of the Gaussian noise; None if not measured.
    loss : Fraction
        What one count of this line costs a person who changes it; where `max_per_leaf` is given
        and tighter, what all counts of this line together cost a person.
    query : tuple of str, or None
        The axes of the measured marginal, where nodes have tables.
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
    """The account of one release: what was promised, and how it was spent.

    The promise: for any two sets of data that are neighbours in the sense of `neighbors`, and
    any set of outcomes, the noisy counts fall into that set with probabilities that differ by a
    factor of at most exp(total) (`measure` epsilon), or have Rényi divergences of each order
    alpha of at most alpha total (`measure` rho: zero-concentrated differential privacy). Whatever
    is computed from the noisy counts alone is covered too. `assumptions` says when this holds;
    `invariants`, `derived_invariants` and `outside` say what it does not cover.

    Attributes
    ----------
    measure : {'epsilon', 'rho'}
    budget, total : Fraction
        What was allowed, and the loss of the person with the largest loss; never above `budget`.
    total_given_invariants : Fraction or None
        With invariants, the promise for those who know them. Of all neighbours only those remain
        that agree on the exact counts: one person's records are added, removed or moved to other
        leaves in such a way that no exact count changes. This is the largest loss among them,
        in the same measure; a move changes two paths, so that it can be twice `total`. None
        without invariants.
    mechanism : {'discrete_laplace', 'discrete_gaussian'}
    neighbors : {'add_remove', 'change_one'}
    max_contributions : int
        Most records of one person.
    max_count : int or None
        Bound at which the counts of leaves were cut off before noise was added; None with
        ``neighbors="change_one"``, where no count is cut off.
    levels : tuple of LevelAccount
        One line per level, the root's first; where nodes have tables, one per level and query.
    invariants : tuple of str
        What was published exactly because it was asked for, each outside the guarantee.
    derived_invariants : tuple of str
        What is known exactly because it is a sum or a difference of these.
    outside : tuple of str
        What else was published about the data without noise, as the caller stated it.
    axes : tuple of (name, length), or None
        The axes of the tables that nodes have.
    target : (epsilon, delta), or None
        The (epsilon, delta)-differential privacy for which a budget in rho was chosen.
    max_per_leaf : int or None
        Most records of one person in one leaf, if that bound was stated beside the other.
    enforced : bool
        Whether further records of a person were left out, rather than promised not to be there.
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
    outside: tuple[str, ...]
    axes: tuple[tuple[str, int], ...] | None = None
    target: tuple[Fraction, Fraction] | None = None
    max_per_leaf: int | None = None
    enforced: bool = False

    @property
    def scales(self) -> tuple[Fraction | None, ...]:
        """Scale (or sigma) of the noise per line, the root's first; None if not measured."""
        return tuple(line.scale for line in self.levels)

    @property
    def workload(self) -> Workload:
        """What is measured at each node."""
        if self.axes is None:
            return PLAIN
        lengths = dict(self.axes)
        queries = tuple(line.query or () for line in self.levels if line.level == 1)
        cells = tuple(math.prod(lengths[axis] for axis in query) for query in queries)
        return Workload(self.axes, queries, cells, len(queries))

    def epsilon(self, delta: Any = None) -> float | Fraction:
        """The epsilon for which (epsilon, delta)-differential privacy holds.

        For an account in epsilon that is `total` whatever delta is; for one in rho, delta must
        be given, above 0 and below 1, and the result is rounded up (see
        :func:`gmtree.privacy.zcdp_epsilon`).
        """
        if delta is not None:
            proper_delta(delta)
        if self.measure == "epsilon":
            return self.total
        if delta is None:
            check.fail("delta", "must be given for an account in rho.")
        return zcdp_epsilon(self.total, delta)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee rests on."""
        most = self.max_contributions
        records = "one record" if most == 1 else f"at most {most} records"
        change = {
            "add_remove": f"Neighbouring data differ by {records} of one person, added or removed.",
            "change_one": f"Neighbouring data differ by {records} of one person, moved to another "
            f"{'leaf' if self.axes is None else 'leaf or cell'}. The number of records is public.",
        }[self.neighbors]
        nobody = "Nobody has more records" + (
            "" if self.max_per_leaf is None else f", nor more than {self.max_per_leaf} in one leaf"
        )
        how = (
            "enforced; further ones were left out, by a public rule that looks at one person alone."
            if self.enforced
            else "promised, not checked."
        )
        place = "leaf" if self.axes is None else "leaf, in one cell of its table,"
        but = ", but for what is listed as outside" if self.outside else ""
        found = [
            change,
            f"{nobody}: {how}",
            f"A record is counted at one {place} and at all nodes above it.",
            f"The tree, its empty leaves included, was chosen without looking at the data{but}.",
            "Nothing is published but functions of the noisy counts and what is listed as outside.",
            "The random words of this machine cannot be guessed.",
            "Nobody observes time, memory or other side effects of the computation.",
        ]
        if self.max_count is not None:
            what = "leaves" if self.axes is None else "cells of leaves"
            found.insert(
                3,
                f"Counts of {what} are cut off at 0 and at {self.max_count:,}; stated errors do "
                "not include what that changes.",
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """The account as text and whole numbers, fit for JSON; see :meth:`from_dict`."""
        given, target = self.total_given_invariants, self.target
        return {
            "format": _FORMAT,
            "measure": self.measure,
            "budget": str(self.budget),
            "total": str(self.total),
            "total_given_invariants": None if given is None else str(given),
            "mechanism": self.mechanism,
            "neighbors": self.neighbors,
            "max_contributions": self.max_contributions,
            "max_count": self.max_count,
            "levels": [
                {
                    "level": line.level,
                    "name": line.name,
                    "nodes": line.nodes,
                    "share": str(line.share),
                    "scale": None if line.scale is None else str(line.scale),
                    "loss": str(line.loss),
                    "query": None if line.query is None else list(line.query),
                }
                for line in self.levels
            ],
            "invariants": list(self.invariants),
            "derived_invariants": list(self.derived_invariants),
            "outside": list(self.outside),
            "axes": None if self.axes is None else [[name, size] for name, size in self.axes],
            "target": None if target is None else list(map(str, target)),
            "max_per_leaf": self.max_per_leaf,
            "enforced": self.enforced,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ledger:
        """The account that :meth:`to_dict` wrote; anything else is a ValueError.

        Losses are checked against the scales. Whether `total` is the loss of the worst path can
        be told only together with the tree: :meth:`gmtree.Release.load` does.
        """
        known = isinstance(data, Mapping) and data.get("format") in (_FORMAT, _FIRST_FORMAT)
        if not known:
            check.fail("data", f"must be a ledger in the format {_FORMAT!r}.")
        if data["format"] == _FIRST_FORMAT:
            data = {**data, "axes": None, "target": None, "max_per_leaf": None, "enforced": False}
        try:
            ledger = _read(data)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"Argument 'data' must be a whole ledger; {error!r}.") from None
        _check(ledger)
        return ledger

    def __str__(self) -> str:
        return _describe(self)

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
        measure=one_of("measure", data["measure"], MEASURES),
        budget=stored_fraction(data["budget"]),
        total=stored_fraction(data["total"]),
        total_given_invariants=None if given is None else stored_fraction(given),
        mechanism=one_of("mechanism", data["mechanism"], MECHANISMS),
        neighbors=one_of("neighbors", data["neighbors"], NEIGHBORS),
        max_contributions=check.count("max_contributions", data["max_contributions"], least=1),
        max_count=None if max_count is None else check.count("max_count", max_count, least=1),
        levels=_lines(data["levels"], axes),
        invariants=tuple(map(_text, _list(data["invariants"]))),
        derived_invariants=tuple(map(_text, _list(data["derived_invariants"]))),
        outside=tuple(map(_text, _list(data["outside"]))),
        axes=axes,
        target=_target(data["target"]),
        max_per_leaf=None if per_leaf is None else check.count("max_per_leaf", per_leaf, least=1),
        enforced=check.flag("enforced", data["enforced"]),
    )


def _axes(listed: Any) -> tuple[tuple[str, int], ...] | None:
    if listed is None:
        return None
    pairs = [_pair(item) for item in _list(listed)]
    axes = {_text(name): check.count("axes", size, least=1) for name, size in pairs}
    if len(axes) != len(listed):
        check.fail("data", "must have each axis once.")
    return tuple(axes.items())


def _target(listed: Any) -> tuple[Fraction, Fraction] | None:
    if listed is None:
        return None
    epsilon, delta = map(stored_fraction, _pair(listed))
    return epsilon, proper_delta(delta)


def _lines(listed: Any, axes: Any) -> tuple[LevelAccount, ...]:
    """The lines: one per level, or for each level the same queries of its tables."""
    queries: list[Any] = [None]
    if axes is not None:
        first = [line for line in _list(listed) if line["level"] == 1]
        queries = [tuple(map(_text, _list(line["query"]))) for line in first]
        sets = {frozenset(query) for query in queries}
        known = {name for name, _ in axes}
        whole = all(set(query) <= known and len(set(query)) == len(query) for query in queries)
        if not queries or len(sets) < len(queries) or not whole:
            check.fail("data", "must have different queries of its axes.")
    if len(_list(listed)) % len(queries):
        check.fail("data", "must have a line for each level and query.")
    return tuple(
        _read_line(line, k // len(queries) + 1, queries[k % len(queries)])
        for k, line in enumerate(listed)
    )


def _read_line(line: Mapping[str, Any], level: int, query: tuple[str, ...] | None) -> LevelAccount:
    if line["level"] != level or isinstance(line["level"], bool):
        check.fail("data", f"must list the levels in order; level {level} is missing.")
    named = line.get("query")
    if (None if named is None else tuple(_list(named))) != query:
        check.fail("data", f"must list the same queries for each level; level {level} has others.")
    scale = line["scale"]
    return LevelAccount(
        level=level,
        name=None if line["name"] is None else _text(line["name"]),
        nodes=check.count("nodes", line["nodes"], least=0),
        share=stored_fraction(line["share"]),
        scale=None if scale is None else noise_scale("data", stored_fraction(scale)),
        loss=stored_fraction(line["loss"]),
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
    """Refuse an account that contradicts itself or understates the loss of a level."""
    if ledger.total > ledger.budget:
        check.fail("data", "must not spend more than its budget.")
    if (ledger.total_given_invariants is None) != (not ledger.invariants):
        check.fail("data", "must state the loss given the invariants where there are any.")
    if (ledger.max_count is None) != (ledger.neighbors == "change_one"):
        check.fail("data", "must state at what counts are cut off, if they are.")
    if (ledger.measure, ledger.mechanism) == ("epsilon", "discrete_gaussian"):
        check.fail("data", "must not claim a finite epsilon for Gaussian noise.")
    if ledger.target is not None:
        epsilon, delta = ledger.target
        if ledger.measure != "rho" or zcdp_epsilon(ledger.budget, delta) > epsilon:
            check.fail("data", "must not claim a target that its budget does not meet.")
    if (ledger.max_per_leaf or 0) > ledger.max_contributions:
        check.fail("data", "must not have more records of a person in one leaf than in all.")
    # How many times the loss of one record depends on the tree where `max_per_leaf` is given.
    times = loss_factor(ledger.measure, ledger.max_per_leaf or ledger.max_contributions)
    for line in ledger.levels:
        one = 0 if line.scale is None else loss_of_one(ledger.measure, line.scale)
        if times * one > line.loss:
            check.fail("data", f"must not understate a loss; that of level {line.level} is.")
    if ledger.neighbors == "add_remove":
        # A record is counted in a node of each level, or of one at least where others are exact.
        losses = [line.loss for line in ledger.levels if line.nodes]
        least = max(losses, default=0) if ledger.invariants else sum(losses)
        if ledger.total < least:
            check.fail("data", "must not understate the total, which is below what levels lose.")


# --------------------------------------------------------------------------- text


_TITLES = {
    "epsilon": "pure differential privacy, epsilon",
    "rho": "zero-concentrated differential privacy, rho",
}
_NOISES = {
    "discrete_laplace": ("discrete Laplace", "scale"),
    "discrete_gaussian": ("discrete Gaussian", "sigma"),
}
_SUMS = {
    "add_remove": "worst path from the root to a leaf",
    "change_one": "worst two leaves, nodes above both aside",
    "tables": "worst two cells of the same or of two leaves",
    "person": "worst choice of a person's leaves, level by level",
}
_SHOWN = 10


def _describe(ledger: Ledger) -> str:
    noise, scale = _NOISES[ledger.mechanism]
    counted = ("nodes",) if ledger.axes is None else ("query", "counts")
    rows: list[tuple[str, ...]] = [("level", *counted, "share", scale, "loss")]
    rows += [
        (
            str(x.level) if x.name is None else f"{x.level} {x.name}",
            *(() if x.query is None else (query_name(x.query),)),
            f"{x.nodes:,}",
            short(x.share),
            short(x.scale),
            short(x.loss, up=True),
        )
        for x in ledger.levels
    ]
    total = short(ledger.total, up=True)
    kind = "tables" if ledger.axes and ledger.neighbors == "change_one" else ledger.neighbors
    if ledger.measure == "rho" and ledger.max_per_leaf is not None:
        kind = "person"
    sums = [f"  total ({_SUMS[kind]}): {total}"]
    budget = f"budget {short(ledger.budget, up=True)}"
    if ledger.target is not None:
        epsilon, delta = ledger.target
        budget += f", chosen for epsilon = {short(epsilon)} with delta = {float(delta):.6g}"
    if ledger.total_given_invariants is not None:
        given = short(ledger.total_given_invariants, up=True)
        sums.append(f"  total if no exact count changes (records moved, too): {given}")
    outside = [
        *_first(f"{name}: published exactly" for name in ledger.invariants),
        *_first(f"{name}: follows from what is exact" for name in ledger.derived_invariants),
        *_first(ledger.outside),
    ]
    return "\n".join(
        [
            f"Privacy ledger: {_TITLES[ledger.measure]} = {total}",
            f"{noise} noise; {budget}",
            "",
            *table(rows, right=[k >= len(counted) for k in range(len(rows[0]))]),
            *sums,
            "",
            "Assumes:",
            *(f"  - {text}" for text in ledger.assumptions),
            "Outside the guarantee:",
            *(f"  - {text}" for text in outside or ["nothing"]),
        ]
    )


def query_name(query: tuple[str, ...]) -> str:
    """What tables of text call a query."""
    return " x ".join(query) or "total"


def _first(texts: Iterable[str]) -> list[str]:
    """The first few, and how many more there are."""
    found = list(texts)
    more = len(found) - _SHOWN
    return found if more <= 0 else [*found[:_SHOWN], f"and {more:,} more"]
