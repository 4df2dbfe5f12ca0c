"""Accounts as text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from gmtree._text import is_short_float, short, table
from gmtree.privacy.accounting.account_file import Entry, State
from gmtree.privacy.accounting.ledger_text import records, target_text
from gmtree.privacy.accounting.tight import account_epsilon
from gmtree.privacy.accounting.unfinished import Unfinished

_TITLES = {"epsilon": "pure differential privacy", "rho": "zero-concentrated differential privacy"}
_CHANGES = {"add_remove": "added or removed", "change_one": "moved to other places"}


def unit_name(terms: Any) -> str:
    """The privacy unit of an account or a ledger, in words."""
    if terms.person is not None:
        return f"all records of a person (column {terms.person!r})"
    return f"{records(terms.max_contributions)} of a person"


def terms_of(state: State) -> str:
    """The terms of an account, for messages."""
    return f"{_budget(state)}, neighbors={state.neighbors!r}, and protects {unit_name(state)}"


def _budget(state: State) -> str:
    text = f"a budget of {state.measure} = {short_down(state.budget)}"
    return text if state.target is None else f"{text}, chosen for {target_text(*state.target)}"


def describe(state: State, unfinished: Sequence[Unfinished] = ()) -> str:
    """The text of an account and of its unfinished releases."""
    rows = [("", "time", "operator", "what", "tree", "nodes", "loss", "charged")]
    rows += [
        (
            str(x.number),
            x.time,
            x.operator,
            x.what if not x.purpose else f"{x.what} ({x.purpose})",
            x.tree[:12],
            f"{x.nodes:,}",
            f"{x.measure} {short(x.total, up=True)}",
            short(x.charged, up=True),
        )
        for x in state.entries
    ]
    left = state.budget - state.spent
    spent = short(state.spent, up=True) if left else short_down(state.budget)
    if state.target is not None:
        delta = state.target[1]
        epsilon = account_epsilon(state.spent, state.budget, state.target, delta)
        spent += f" ({target_text(Fraction(epsilon), delta)})"
    lines = table(rows, right=[k in (0, 5, 6, 7) for k in range(8)]) if state.entries else []
    return "\n".join(
        [
            f"Privacy account: {_TITLES[state.measure]}, with {_budget(state)}",
            f"It protects {unit_name(state)}, {_CHANGES[state.neighbors]}.",
            *lines,
            f"  spent {spent}, left {short_down(left)}",
            *(f"  entry {x.entry.number} is charged but not saved: {x.path}" for x in unfinished),
        ]
    )


def how_to_spend_less(entry: Entry, after: State) -> str:
    """Advice for an entry that exceeds the budget, or nothing."""
    if entry.measure == "epsilon" and after.measure == "rho":
        return (
            f" An epsilon of {short(entry.total, up=True)} without delta costs that much in rho; "
            "with delta it costs less."
        )
    # The excess may be just the difference between a float and the decimal that was meant.
    if after.spent - after.budget > after.budget / 2**40:
        return ""
    for x in (entry.charged, after.budget):
        if is_short_float(x) and Fraction(short(x)) != x:
            return (
                f" A float is taken at its exact value, which is not quite {short(x)}: write "
                f'"{short(x)}" as text for the exact decimal.'
            )
    return ""


def short_down(x: Fraction) -> str:
    """Write an amount, rounded down."""
    return short(-x, up=True).removeprefix("-")
