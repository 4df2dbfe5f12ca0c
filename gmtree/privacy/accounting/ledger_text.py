"""Ledgers as text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from typing import Any

from gmtree._text import short, table
from gmtree.privacy.accounting.tight import best_guess
from gmtree.privacy.noise.registry import MECHANISMS

_TITLES = {
    "epsilon": "pure differential privacy, epsilon",
    "rho": "zero-concentrated differential privacy, rho",
}
_SUMS = {
    "add_remove": "worst path from the root to a leaf",
    "change_one": "worst move from one leaf to another; nodes above both leaves do not count",
    "tables": "worst move from one cell to another, in the same leaf or another one",
    "person": "worst choice of a person's leaves, level by level",
}
_SHOWN = 10
# We do not mention a bound above this number, because no leaf has as many records.
_MOST_RECORDS = 10**10
# A ledger in rho states its epsilon for each of these values of delta.
_DELTAS = (1e-6, 1e-9, 1e-10)


def describe(ledger: Any) -> str:
    """The text of a ledger."""
    noise = MECHANISMS[ledger.mechanism]
    counted = ("nodes",) if ledger.axes is None else ("query", "counts")
    rows: list[tuple[str, ...]] = [("level", *counted, "share", noise.parameter, "loss")]
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
        budget += f", chosen for {target_text(*ledger.target)}"
    if ledger.total_given_invariants is not None:
        given = short(ledger.total_given_invariants, up=True)
        sums.append(f"  total if the exact counts are known (records may also move): {given}")
    sums += [*_implied(ledger), *_by_level(ledger)]
    disclosures = [
        *_first(f"{name}: published exactly" for name in ledger.invariants),
        *_first(f"{name}: follows from exact counts" for name in ledger.derived_invariants),
        *_first(ledger.disclosures),
    ]
    return "\n".join(
        [
            f"Privacy ledger: {_TITLES[ledger.measure]} = {total}",
            *summary(ledger),
            "",
            f"{noise.title} noise; {budget}",
            "",
            *table(rows, right=[k >= len(counted) for k in range(len(rows[0]))]),
            *sums,
            "",
            "Assumes:",
            *(f"  - {text}" for text in ledger.assumptions),
            "Disclosures, which the guarantee does not cover:",
            *(f"  - {text}" for text in disclosures or ["nothing"]),
        ]
    )


def summary(ledger: Any) -> list[str]:
    """Three lines for readers who do not know differential privacy."""
    who = "one person's records are"
    if not ledger.enforced:
        most = ledger.max_contributions
        who = (
            f"one person's records (at most {most:,}) are" if most > 1 else "one person's record is"
        )
    guess = f"whether {who} in the data"
    if ledger.neighbors == "change_one":
        guess = f"in which of two places {who}"
    spent = f"{ledger.measure} = {short(ledger.total, up=True)}"
    if ledger.target is not None:
        spent += f" ({target_text(*ledger.target)})"
    counted = "every record of every person"
    if ledger.enforced:
        most = records(ledger.max_contributions)
        counted = f"at most {most} of each person. Further records are left out"
    return [
        f"Suppose that a reader knows all other records and guesses {guess}. Without this release, "
        "the guess is right with a chance of 50 %. With it, the chance is at most "
        f"{_percent(best_guess(ledger))}."
        + (" This bound does not cover what the exact counts reveal." if ledger.invariants else ""),
        f"The release spends {spent} of a budget of {short(ledger.budget, up=True)}. The losses of "
        "further releases about the same people add to this loss.",
        f"The numbers count {counted}.{_not_counted(ledger)}",
    ]


def _not_counted(ledger: Any) -> str:
    """Sentences about records that the numbers do not count because of public rules."""
    text = ""
    if ledger.ignore_unknown:
        text = f" {unknown(ledger)} are not counted."
    if ledger.structural_zeros:
        text += " Records in cells that cannot occur are not counted."
    if ledger.max_count is not None and ledger.max_count < _MOST_RECORDS:
        what = "Leaves" if ledger.axes is None else "Cells of leaves"
        most = f"{ledger.max_count:,}"
        text += f" {what} with more than {most} records count as if they had {most}."
    return text


def target_text(epsilon: Fraction, delta: Fraction) -> str:
    """An (epsilon, delta) in words, rounded up."""
    return f"epsilon = {short(epsilon, up=True)} with delta = {short(delta, up=True)}"


def _percent(chance: float) -> str:
    """A probability with two decimals of a percent, rounded up."""
    return f"{math.ceil(chance * 10_000) / 100:g} %"


def _implied(ledger: Any) -> list[str]:
    """Lines with the epsilon that a ledger in rho implies for each of the usual deltas."""
    if ledger.measure == "epsilon":
        return []
    found = [f"{short(Fraction(ledger.epsilon(d)), up=True)} (delta {d:g})" for d in _DELTAS]
    return [f"  implied epsilon: {', '.join(found)}"]


def _by_level(ledger: Any) -> list[str]:
    """Lines with the total loss of each level, if levels have several queries."""
    if ledger.axes is None or len(ledger._workload.queries) == 1:
        return []
    levels = groupby(ledger.levels, key=lambda line: (line.level, line.name))
    rows = [("level", "share", "loss")]
    for (level, name), lines in levels:
        listed = list(lines)
        share, loss = (sum(getattr(x, part) for x in listed) for part in ("share", "loss"))
        rows.append((f"{level} {name or ''}".strip(), short(share), short(loss, up=True)))
    return ["", *table(rows)]


def records(count: int) -> str:
    """A number of records, in words."""
    return "1 record" if count == 1 else f"{count:,} records"


def left_out(ledger: Any) -> str:
    """The note for counts from which records were left out; "" if none were."""
    if not ledger.enforced:
        return ""
    return (
        f"Counts include at most {records(ledger.max_contributions)} per person. Stated errors "
        "and intervals do not include the records left out."
    )


def unknown(ledger: Any) -> str:
    """The records that are left out if rows with unknown labels are ignored."""
    return "Records whose leaf" + ("" if ledger.axes is None else " or cell") + " is not listed"


def query_name(query: tuple[str, ...]) -> str:
    """The name of a query in tables of text."""
    return " x ".join(query) or "total"


def _first(texts: Iterable[str]) -> list[str]:
    """The first few texts, and the number of the remaining ones."""
    found = list(texts)
    more = len(found) - _SHOWN
    return found if more <= 0 else [*found[:_SHOWN], f"and {more:,} more"]
