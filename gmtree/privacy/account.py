"""A budget that several releases draw from, kept in a file that survives crashes.

Losses of releases about the same people add up, and somebody has to add them. An account does:
each release is charged before any noise is drawn, and one that would exceed the budget is refused.

How the file is kept
--------------------
What is on disk is the truth; nothing is remembered between two charges but to check it. A charge

1. takes the lock, which a second process waits for and which ends with the process that holds it,
2. reads the file, and refuses it if it is damaged or has lost entries seen before,
3. refuses if what was spent and what is asked for exceed the budget,
4. writes the new account beside the old one, waits until it is on the disk, and puts it in the
   place of the old one in one step,
5. gives up the lock. Only then is noise drawn.

A process that ends anywhere before step 4 is complete has spent nothing and drawn nothing; one that
ends later has spent its share, whether or not anything was published. There are no refunds: whoever
saw nothing of a failed release cannot prove it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from gmtree import _validate as check
from gmtree._text import is_short_float, preformatted, short, table
from gmtree._version import __version__
from gmtree.privacy.allocation import Allocation, loss_in
from gmtree.privacy.budget import MEASURES, MECHANISMS, NEIGHBORS, one_of
from gmtree.privacy.conversion import proper_delta, zcdp_epsilon, zcdp_rho
from gmtree.privacy.packing import fingerprint
from gmtree.privacy.rational import positive, round_up, stored_fraction
from gmtree.tree import Tree

_FORMAT = "gmtree privacy account 1"
_TITLES = {"epsilon": "pure differential privacy", "rho": "zero-concentrated differential privacy"}


@dataclass(frozen=True)
class Entry:
    """What one release took from an account. Nothing in it depends on the data.

    Attributes
    ----------
    number : int
        1 for the first.
    time : str
        When it was charged, in UTC.
    what : str
        The function that drew the noise, such as 'release'.
    tree : str
        Fingerprint of the tree.
    nodes : int
    measure, total
        The loss as the ledger of the release states it.
    charged : Fraction
        The same in the measure of the account.
    mechanism : str
    invariants : int
        How many invariants its ledger names, which are outside the guarantee.
    outside : int
        How many further things its ledger names as outside.
    version : str
        Of gmtree.
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
    invariants: int
    outside: int
    version: str


@dataclass(frozen=True)
class State:
    """What the file of an account holds."""

    measure: str
    budget: Fraction
    target: tuple[Fraction, Fraction] | None
    neighbors: str
    entries: tuple[Entry, ...] = ()

    @property
    def spent(self) -> Fraction:
        """The sum of all charges."""
        return sum((entry.charged for entry in self.entries), Fraction(0))

    @property
    def terms(self) -> tuple[Any, ...]:
        """What never changes."""
        return self.measure, self.budget, self.target, self.neighbors


class Account:
    """A privacy budget for several releases about the same people.

    Pass it as ``release(..., account=account)``. What a release loses is charged before its noise
    is drawn, and a release that would exceed the budget is refused.

    Parameters
    ----------
    epsilon, rho : int, Fraction, str or float
        The budget, of pure or of zero-concentrated differential privacy. Give one of them for a
        new account. A float is taken at its exact value: ten times 0.1 exceeds 1, ten times
        ``"0.1"`` does not.
    delta : number, optional
        With `epsilon`: the account is in rho, and its budget the largest that implies
        (epsilon, delta)-differential privacy for all releases together.
    neighbors : {'add_remove', 'change_one'}
        What all releases protect; those with other neighbours are refused.
    path : path, optional
        File of the account. If it exists, it is continued, and the budget, if given, must be the
        same. Without a path the account ends with the program.

    Attributes
    ----------
    measure : {'epsilon', 'rho'}
    budget : Fraction
    target : (epsilon, delta), or None
    neighbors : str
    path : Path or None

    Notes
    -----
    *Composition*. Losses in the account's measure are added, as exact fractions. A release with
    Laplace noise also has a loss in rho, computed from its scales on its tree: much less than its
    epsilon suggests where many levels are measured, and at most epsilon^2 / 2. So an account in rho
    takes both kinds; one in epsilon takes Laplace noise only.

    *Crashes*. The account is written, durably and in one step, before noise is drawn; processes
    and threads wait for each other. A charge is never given back. The lock is one of the operating
    system on a file beside the account (``.NAME.lock``): keep both on a local disk.

    *What it cannot see*: releases that are not charged to it, copies of its file, and whether the
    people are the same. Invariants and what else a release publishes without noise are outside its
    guarantee, and cost nothing here; an entry tells how many there were.

    Examples
    --------
    >>> import gmtree as gm, os, tempfile
    >>> from gmtree import privacy
    >>> tree = gm.shapes.star(4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = privacy.Account(epsilon=1, path=os.path.join(folder, "budget.json"))
    ...     r = gm.release(tree, [3, 0, 2], epsilon="3/4", account=account)
    ...     print(account.left)
    ...     gm.release(tree, [3, 0, 2], epsilon="1/2", account=account)
    Traceback (most recent call last):
        ...
    ValueError: Argument 'account' must have 1/2 left in epsilon; it has 1/4 of 1.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        rho: Any = None,
        delta: Any = None,
        neighbors: str = "add_remove",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        new = _new_state(epsilon, rho, delta, neighbors)
        self.path = None if path is None else check.path("path", path).resolve()
        self._thread_lock = threading.Lock()
        if self.path is None:
            if new is None:
                check.fail("epsilon", "or argument 'rho' must be given for an account in memory.")
            self._seen = new
        elif new is None:
            self._seen = read(self.path)
        else:
            check.new_file("path", self.path)
            with self._locked():
                if not self.path.exists():
                    _write(self.path, new)
                self._seen = read(self.path)
                if self._seen.terms != new.terms:
                    check.fail("path", f"must have the same terms; it has {_terms(self._seen)}.")

    # ------------------------------------------------------------------ what is in it

    @property
    def measure(self) -> str:
        """'epsilon' or 'rho': what is added up."""
        return self._seen.measure

    @property
    def budget(self) -> Fraction:
        """What may be spent in all."""
        return self._seen.budget

    @property
    def target(self) -> tuple[Fraction, Fraction] | None:
        """The epsilon and delta for which a budget in rho was chosen."""
        return self._seen.target

    @property
    def neighbors(self) -> str:
        """What all releases protect."""
        return self._seen.neighbors

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was charged so far, by this program and by others; read anew each time."""
        return self._state().entries

    @property
    def spent(self) -> Fraction:
        """The sum of all charges."""
        return self._state().spent

    @property
    def left(self) -> Fraction:
        """What further releases may spend."""
        state = self._state()
        return state.budget - state.spent

    def epsilon(self, delta: Any = None) -> float | Fraction:
        """The epsilon that all releases so far imply together, for a delta if it is in rho."""
        if delta is not None:
            proper_delta(delta)
        if self.measure == "epsilon":
            return self.spent
        if delta is None:
            check.fail("delta", "must be given for an account in rho.")
        return zcdp_epsilon(self.spent, delta)

    def __repr__(self) -> str:
        state = self._state()
        where = "" if self.path is None else f", path={str(self.path)!r}"
        spent, budget = short(state.spent, up=True), _short_down(state.budget)
        return f"Account({self.measure}={budget}, spent={spent}{where})"

    def __str__(self) -> str:
        return _describe(self._state())

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of an account in memory would be a second budget.
        if self.path is None:
            raise TypeError(
                "An account without a file cannot be copied: it would double its budget."
            )
        return _open, (str(self.path),)

    # ------------------------------------------------------------------ charges

    def charge(self, tree: Tree, allocation: Allocation, what: str = "release") -> Entry:
        """Charge what :func:`gmtree.privacy.allocate` divided, before noise is drawn for it.

        :func:`gmtree.release` and :func:`gmtree.release_tables` do this themselves; call it only
        for noise that you draw yourself.

        Raises
        ------
        ValueError
            If too little is left, or the account is of another kind or damaged. Then nothing was
            charged.
        """
        draft = self._draft(tree, allocation, what)
        with self._locked():
            after = _with(self._state(), draft)
            if self.path is not None:
                _write(self.path, after)
            self._seen = after
        return after.entries[-1]

    def check(self, tree: Tree, allocation: Allocation) -> None:
        """Raise what :meth:`charge` would raise now, and charge nothing.

        Examples
        --------
        >>> import gmtree as gm
        >>> from gmtree import privacy
        >>> tree = gm.shapes.star(4)
        >>> privacy.Account(epsilon=1).check(tree, privacy.allocate(tree, epsilon=2))
        Traceback (most recent call last):
            ...
        ValueError: Argument 'account' must have 2 left in epsilon; it has 1 of 1.
        """
        _with(self._state(), self._draft(tree, allocation, ""))

    def _draft(self, tree: Tree, allocation: Allocation, what: str) -> Entry:
        """An entry without number and time; what an account of this kind cannot take is refused."""
        check.instance("tree", tree, Tree)
        check.instance("allocation", allocation, Allocation)
        ledger = allocation.ledger
        if ledger.neighbors != self.neighbors:
            check.fail(
                "account",
                f"must be for neighbors={ledger.neighbors!r}; it is for {self.neighbors!r}.",
            )
        cost = loss_in(tree, allocation, self.measure)
        if cost is None:
            check.fail(
                "account",
                "must be in rho for Gaussian noise, which has no finite epsilon; it is in epsilon.",
            )
        return Entry(
            number=0,
            time="",
            what=str(what),
            tree=fingerprint(tree),
            nodes=tree.n,
            measure=ledger.measure,
            total=ledger.total,
            charged=round_up(cost),
            mechanism=ledger.mechanism,
            invariants=len(ledger.invariants) + len(ledger.derived_invariants),
            outside=len(ledger.outside),
            version=__version__,
        )

    def _state(self) -> State:
        """What is on disk, which must continue what was there before."""
        if self.path is None:
            return self._seen
        state, seen = read(self.path), self._seen
        if state.terms != seen.terms or state.entries[: len(seen.entries)] != seen.entries:
            _refuse("it has lost or changed entries that were there before")
        self._seen = state
        return state

    def _locked(self) -> AbstractContextManager[Any]:
        return self._thread_lock if self.path is None else _lock(self.path)


def _with(state: State, draft: Entry) -> State:
    """The account with one more entry; a ValueError if that exceeds its budget."""
    entry = replace(draft, number=len(state.entries) + 1, time=now())
    after = replace(state, entries=(*state.entries, entry))
    if after.spent > state.budget:
        left = _short_down(state.budget - state.spent)
        check.fail(
            "account",
            f"must have {short(entry.charged, up=True)} left in {state.measure}; it has "
            f"{left} of {_short_down(state.budget)}.{_how_to_spend_less(entry, after)}",
        )
    return after


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _open(path: str) -> Account:
    return Account(path=path)


def _new_state(epsilon: Any, rho: Any, delta: Any, neighbors: Any) -> State | None:
    """A new account, or None if no budget is given."""
    one_of("neighbors", neighbors, NEIGHBORS)
    if epsilon is not None and rho is not None:
        check.fail("epsilon", "or argument 'rho' must be given, not both.")
    if delta is not None and epsilon is None:
        check.fail("delta", "must be given with 'epsilon'.")
    if epsilon is None and rho is None:
        return None
    if rho is not None:
        return State("rho", positive("rho", rho), None, neighbors)
    target = positive("epsilon", epsilon), None if delta is None else proper_delta(delta)
    if target[1] is None:
        return State("epsilon", target[0], None, neighbors)
    return State("rho", zcdp_rho(*target), (target[0], target[1]), neighbors)


# --------------------------------------------------------------------------- the file


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the lock; it ends with the process at latest."""
    with path.with_name(f".{path.name}.lock").open("a+b") as stream:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            stream.seek(0)
            msvcrt.locking(stream.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
        else:
            fcntl.flock(stream, fcntl.LOCK_EX)
        # Closing the file gives up the lock.
        yield


def _write(path: Path, state: State) -> None:
    """Put a new file in the place of the old one, once it is on the disk. Under the lock."""
    data = _to_dict(state)
    data["checksum"] = _checksum(data)
    text = json.dumps(data, indent=1).encode()
    # What could not be read again must not take the place of what can.
    if _from_dict(json.loads(text)) != state:
        raise ValueError("Argument 'account' must have amounts that a file can hold.")
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Wait until the new name of the file is on the disk, where the system can tell."""
    if os.name == "posix":
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def read(path: Path) -> State:
    """What an account's file holds; a ValueError for any other file."""
    try:
        with path.open("rb") as stream:
            text = stream.read()
            names = os.fstat(stream.fileno()).st_nlink
    except OSError as error:
        _refuse(f"{path.name!r} cannot be read ({error.strerror})")
    if names > 1:
        # Only one of them would be replaced.
        _refuse(f"{path.name!r} has several names (hard links)")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        _refuse(f"{path.name!r} is no JSON")
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        _refuse(f"{path.name!r} has another format than {_FORMAT!r}")
    if data.get("checksum") != _checksum(data):
        _refuse("its checksum is wrong: it is damaged")
    try:
        return _from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        _refuse(f"its parts do not fit together ({error})")


def _refuse(why: str) -> NoReturn:
    raise ValueError(f"Argument 'path' must be the file of a privacy account; {why}.") from None


def _checksum(data: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in data.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _to_dict(state: State) -> dict[str, Any]:
    plain = asdict(state, dict_factory=lambda items: {key: _plain(x) for key, x in items})
    return {"format": _FORMAT, **plain, "entries": list(plain["entries"])}


def _plain(x: Any) -> Any:
    if isinstance(x, tuple):
        return [_plain(each) for each in x]
    return str(x) if isinstance(x, Fraction) else x


def _from_dict(data: Mapping[str, Any]) -> State:
    target, entries = data["target"], data["entries"]
    if not isinstance(entries, list):
        raise ValueError("its entries are no list")
    if target is not None:
        epsilon, delta = map(stored_fraction, target)
        target = epsilon, proper_delta(delta)
    state = State(
        measure=one_of("measure", data["measure"], MEASURES),
        budget=positive("budget", stored_fraction(data["budget"])),
        target=target,
        neighbors=one_of("neighbors", data["neighbors"], NEIGHBORS),
        entries=tuple(_entry(k, x) for k, x in enumerate(entries, start=1)),
    )
    if target is not None and state.measure != "rho":
        raise ValueError("a target belongs to a budget in rho")
    if target is not None and zcdp_epsilon(state.budget, target[1]) > target[0]:
        raise ValueError("its budget does not meet its target")
    if state.spent > state.budget:
        raise ValueError("more was spent than its budget")
    for entry in state.entries:
        if entry.measure == state.measure and entry.charged < entry.total:
            raise ValueError(f"entry {entry.number} is charged less than its loss")
    return state


def _entry(number: int, data: Mapping[str, Any]) -> Entry:
    if set(data) != {field.name for field in fields(Entry)}:
        raise ValueError(f"entry {number} has other parts than it should")
    for name in ("time", "what", "tree", "version"):
        if not isinstance(data[name], str):
            raise ValueError(f"entry {number} has a {name!r} that is no text")
    for name in ("number", "nodes", "invariants", "outside"):
        check.count(name, data[name], least=0)
    if data["number"] != number:
        raise ValueError(f"entry {number} is missing")
    one_of("measure", data["measure"], MEASURES)
    one_of("mechanism", data["mechanism"], MECHANISMS)
    amounts = {name: stored_fraction(data[name]) for name in ("total", "charged")}
    return Entry(**{**data, **amounts})


# --------------------------------------------------------------------------- text


def _terms(state: State) -> str:
    text = f"a budget of {state.measure} = {_short_down(state.budget)}"
    if state.target is not None:
        epsilon, delta = state.target
        text += f", chosen for epsilon = {short(epsilon)} with delta = {float(delta):.6g}"
    return f"{text}, for neighbors={state.neighbors!r}"


def _describe(state: State) -> str:
    rows = [("", "time", "what", "tree", "nodes", "loss", "charged")]
    rows += [
        (
            str(x.number),
            x.time,
            x.what,
            x.tree[:12],
            f"{x.nodes:,}",
            f"{x.measure} {short(x.total, up=True)}",
            short(x.charged, up=True),
        )
        for x in state.entries
    ]
    left = state.budget - state.spent
    lines = table(rows, right=[k in (0, 4, 5, 6) for k in range(7)]) if state.entries else []
    return "\n".join(
        [
            f"Privacy account: {_TITLES[state.measure]}, {_terms(state)}",
            *lines,
            f"  spent {short(state.spent, up=True)}, left {_short_down(left)}",
        ]
    )


def _how_to_spend_less(entry: Entry, after: State) -> str:
    """What to know of an entry that exceeds the budget, where there is a way round."""
    if entry.measure == "epsilon" and after.measure == "rho":
        return (
            f" That is what epsilon = {short(entry.total, up=True)} without delta costs in rho; "
            "with delta it costs less."
        )
    # All that is missing may be how floats differ from what is written.
    if after.spent - after.budget > after.budget / 2**40:
        return ""
    for x in (entry.charged, after.budget):
        if is_short_float(x) and Fraction(short(x)) != x:
            return (
                f" A float is taken at its exact value, which is not quite {short(x)}: write "
                f'"{short(x)}" as text for the exact decimal.'
            )
    return ""


def _short_down(x: Fraction) -> str:
    """What is left, never more than that."""
    return short(-x, up=True).removeprefix("-")
