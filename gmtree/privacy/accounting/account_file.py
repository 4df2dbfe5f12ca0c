"""The file of a privacy account: its contents, and reading and writing it.

A file with a wrong checksum, or with parts that contradict each other, is refused. Each entry has
a hash of its contents and of the hash of the entry before it, so that no entry can be changed,
removed or inserted without changing all later hashes. Somebody who can write the file can compute
these hashes again. But each release keeps the hash of its entry, so that :meth:`Account.verify`
detects an account that was edited, or restored from a backup, if it is given such a release.

How the file is kept
--------------------
The file is authoritative. An account in memory keeps a copy only to notice lost entries. A charge

1. takes the lock, for which other processes wait (it is released at the latest when the process
   ends),
2. reads the file, and refuses it if it is damaged or has lost entries seen before,
3. refuses if the sum of all charges would exceed the budget,
4. draws the noise and stores the noisy counts, which cannot be read without the entry of step 5
   (:mod:`gmtree.privacy.accounting.unfinished`),
5. writes the new account to another file, waits until it is on the disk, and replaces the old file
   in one step,
6. releases the lock.

If a process ends before step 5 is complete, nothing is charged, and nobody can see the noisy
counts. If it ends later, the release is charged, and :meth:`Account.unfinished` has the noisy
counts. So each charge belongs to one draw, and neither is repeated. A charge is never refunded.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from gmtree import _validate as check
from gmtree._files import checksum, write_durably
from gmtree.privacy.accounting.budget import MEASURES, NEIGHBORS, Budget
from gmtree.privacy.accounting.conversion import proper_delta
from gmtree.privacy.accounting.gaussian import gaussian_rho, meets
from gmtree.privacy.accounting.rational import positive, stored_fraction, to_json
from gmtree.privacy.noise.registry import MECHANISMS

_FORMAT = "gmtree privacy account 2"
_TEXTS = ("time", "what", "tree", "version", "release", "ledger", "operator", "purpose", "hash")


@dataclass(frozen=True)
class Entry:
    """The charge of one release. Nothing in it depends on the data.

    Attributes
    ----------
    number : int
        1 for the first entry.
    time : str
        Time of the charge, in UTC.
    what : str
        The function that drew the noise, such as 'release'.
    tree : str
        Fingerprint of the tree.
    nodes : int
    measure, total
        The loss that the ledger of the release states.
    charged : Fraction
        The loss in the measure of the account.
    mechanism : str
    max_contributions, max_per_leaf, person
        The privacy unit that the ledger states: bounds on the records of a person, and the column
        that identifies people if the bounds were enforced.
    invariants : int
        Number of invariants in its ledger, which are outside the guarantee.
    disclosures : int
        Number of further disclosures that its ledger names.
    version : str
        Version of gmtree.
    release : str
        Random name of the release, so that no two entries have the same hash.
    ledger : str
        Fingerprint of the ledger of the release.
    operator : str
        The user who charged it.
    purpose : str
        The purpose that the operator stated, or the empty text.
    hash : str
        SHA-256 of this entry and of the hash of the entry before it.
    """

    number: int
    time: str
    what: str
    tree: str
    nodes: int
    measure: str
    total: Fraction
    charged: Fraction
    mechanism: str
    max_contributions: int
    max_per_leaf: int | None
    person: str | None
    invariants: int
    disclosures: int
    version: str
    release: str = ""
    ledger: str = ""
    operator: str = ""
    purpose: str = ""
    hash: str = ""

    def chained(self, before: str) -> Entry:
        """A copy of the entry with its hash, after an entry with the hash `before`."""
        return replace(self, hash=_hash([before, to_json(replace(self, hash=""))]))

    @property
    def unit(self) -> tuple[int | None, str | None]:
        """The privacy unit: the number of records of a person, or the column of people."""
        return unit_of(self)


def unit_of(terms: Any) -> tuple[int | None, str | None]:
    """The privacy unit of a ledger, an account or an entry."""
    return (terms.max_contributions if terms.person is None else None), terms.person


@dataclass(frozen=True)
class State:
    """The contents of the file of an account."""

    measure: str
    budget: Fraction
    target: tuple[Fraction, Fraction] | None
    neighbors: str
    max_contributions: int = 1
    person: str | None = None
    entries: tuple[Entry, ...] = ()

    @cached_property
    def spent(self) -> Fraction:
        """The sum of all charges."""
        amounts = [entry.charged for entry in self.entries]
        # Pairwise summation keeps the fractions short for longer than a running sum.
        while len(amounts) > 1:
            amounts = [sum(amounts[k : k + 2], Fraction(0)) for k in range(0, len(amounts), 2)]
        return amounts[0] if amounts else Fraction(0)

    @property
    def terms(self) -> tuple[Any, ...]:
        """The terms of the account, which never change."""
        return self.measure, self.budget, self.target, self.neighbors, unit_of(self)

    @property
    def requested(self) -> tuple[Any, ...]:
        """The terms as callers state them: without the budget in rho that was chosen for a target.

        The last digits of that budget may depend on the version of scipy.
        """
        return self.measure, self.target or self.budget, self.neighbors, unit_of(self)

    @property
    def hash(self) -> str:
        """The hash of the last entry, or of the terms of an account without entries."""
        if self.entries:
            return self.entries[-1].hash
        return _hash(to_json(self.terms))


def new_state(
    epsilon: Any, rho: Any, delta: Any, neighbors: Any, max_contributions: Any, person: Any
) -> State | None:
    """Return a new account, or None if no budget is given."""
    if person is not None and (not isinstance(person, str) or not person.isprintable()):
        check.fail_type("person", f"must be the name of a column, not {person!r}.")
    if person is not None and max_contributions != 1:
        check.fail("max_contributions", "must not be given with 'person': all records count.")
    if epsilon is None and rho is None and delta is None:
        return None
    terms = Budget.of(
        epsilon=epsilon, rho=rho, delta=delta,
        neighbors=neighbors, max_contributions=max_contributions,
    )  # fmt: skip
    budget = terms.amount if terms.target is None else gaussian_rho(*terms.target)
    unit = terms.max_contributions, person
    return State(terms.measure, budget, terms.target, terms.neighbors, *unit)


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def user_name() -> str:
    """The name of the user of this process."""
    try:
        name = getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
    return name if name.isprintable() else "unknown"


def one_line(argument: str, text: Any) -> str:
    """The text of an argument; raise ValueError unless it can be printed on one line."""
    if not str(text).isprintable():
        check.fail(argument, "must be printable text on one line.")
    return str(text)


def write(path: Path, state: State) -> None:
    """Replace the file of an account. The caller holds its lock."""
    data = {"format": _FORMAT, **to_json(state)}
    data["checksum"] = checksum(data)
    text = json.dumps(data, indent=1).encode()
    # A file that cannot be read back must not replace a good one.
    if _from_dict(json.loads(text)) != state:
        raise ValueError("Argument 'account' must have amounts that a file can hold.")
    write_durably(path, text)


def read(path: Path) -> State:
    """Read the file of an account; raise ValueError for any other file."""
    try:
        with path.open("rb") as stream:
            text = stream.read()
            names = os.fstat(stream.fileno()).st_nlink
    except OSError as error:
        refuse(f"{path.name!r} cannot be read ({error.strerror})")
    if names > 1:
        # After replacing the file, only one of its names would lead to the new file.
        refuse(f"{path.name!r} has several names (hard links)")
    try:
        return _parse(path.name, text)
    except RecursionError:
        refuse(f"{path.name!r} is nested too deeply")


def _parse(name: str, text: bytes) -> State:
    """Return the state that the contents of a file describe."""
    try:
        data = json.loads(text)
    except ValueError:
        refuse(f"{name!r} is not JSON")
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        refuse(f"{name!r} has another format than {_FORMAT!r}")
    if data.get("checksum") != checksum(data):
        refuse("its checksum is wrong: it is damaged")
    try:
        return _from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        refuse(f"its parts do not fit together ({error})")


def refuse(why: str) -> NoReturn:
    """Raise the error for a file that cannot be used."""
    raise ValueError(f"Argument 'path' must be the file of a privacy account; {why}.") from None


def _hash(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def ledger_fingerprint(ledger: Any) -> str:
    """SHA-256 of a ledger, as 64 digits."""
    return _hash(ledger.to_dict())


def refuse_unknown(entries: tuple[Entry, ...], ledger: Any, provenance: Any) -> None:
    """Raise a ValueError unless an account has the entry that a release was charged to."""
    drawn = (provenance or {}).get("account")
    if not isinstance(drawn, dict):
        rule = "must be the one that was charged for the release; the release states no charge."
        check.fail("account", rule)
    number = drawn.get("entry")
    known = [x for x in entries if x.number == number and x.hash == drawn.get("hash")]
    if not known:
        check.fail(
            "account",
            f"must know the release, which was charged as entry {number}. No entry of this account "
            f"({len(entries)} in total) belongs to it: this is another account, was edited, or was "
            "restored from a backup that is older than the release.",
        )
    if known[0].ledger != ledger_fingerprint(ledger):
        check.fail("ledger", f"must be the one that was charged as entry {number}: it was changed.")


def _from_dict(data: Mapping[str, Any]) -> State:
    target, entries = data["target"], data["entries"]
    if not isinstance(entries, list):
        raise ValueError("its entries are not a list")
    if target is not None:
        epsilon, delta = map(stored_fraction, target)
        target = epsilon, proper_delta(delta)
    state = State(
        measure=check.one_of("measure", data["measure"], MEASURES),
        budget=positive("budget", stored_fraction(data["budget"])),
        target=target,
        neighbors=check.one_of("neighbors", data["neighbors"], NEIGHBORS),
        max_contributions=check.count("max_contributions", data["max_contributions"], least=1),
        person=_name(data["person"]),
        entries=tuple(_entry(k, x) for k, x in enumerate(entries, start=1)),
    )
    if target is not None and state.measure != "rho":
        raise ValueError("a target belongs to a budget in rho")
    if target is not None and not meets(state.budget, *target):
        raise ValueError("its budget does not meet its target")
    before = replace(state, entries=()).hash
    for entry in state.entries:
        if entry.chained(before) != entry:
            raise ValueError(f"entry {entry.number} was changed, or an entry before it was removed")
        before = entry.hash
    if state.spent > state.budget:
        raise ValueError("more was spent than its budget")
    for entry in state.entries:
        if entry.unit != unit_of(state):
            raise ValueError(f"entry {entry.number} is about another privacy unit")
        if entry.measure == state.measure and entry.charged < entry.total:
            raise ValueError(f"entry {entry.number} is charged less than its loss")
    return state


def _entry(number: int, data: Mapping[str, Any]) -> Entry:
    if set(data) != {field.name for field in fields(Entry)}:
        raise ValueError(f"entry {number} has missing or unknown parts")
    for name in _TEXTS:
        if not isinstance(data[name], str) or not data[name].isprintable():
            raise ValueError(f"entry {number} has a {name!r} that is not printable text")
    for name in ("number", "nodes", "invariants", "disclosures"):
        check.count(name, data[name], least=0)
    if data["number"] != number:
        raise ValueError(f"entry {number} is missing")
    check.count("max_contributions", data["max_contributions"], least=1)
    if data["max_per_leaf"] is not None:
        check.count("max_per_leaf", data["max_per_leaf"], least=1)
    _name(data["person"])
    check.one_of("measure", data["measure"], MEASURES)
    check.one_of("mechanism", data["mechanism"], MECHANISMS)
    amounts = {name: stored_fraction(data[name]) for name in ("total", "charged")}
    if not _adds_quickly(amounts["charged"]):
        raise ValueError(f"entry {number} is charged an amount with too many digits")
    return Entry(**{**data, **amounts})


def _name(x: Any) -> str | None:
    """The name of a column of people, or None."""
    if x is not None and (not isinstance(x, str) or not x.isprintable()):
        raise ValueError("its 'person' is not printable text")
    return x


def _adds_quickly(amount: Fraction) -> bool:
    """Whether the denominator has one of the two forms that `round_up` returns.

    Adding thousands of long fractions with arbitrary denominators would take minutes.
    """
    denominator = amount.denominator
    return denominator.bit_length() <= 64 or denominator & (denominator - 1) == 0
