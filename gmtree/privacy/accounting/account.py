"""A privacy budget for several releases, kept in a file that survives crashes.

Losses of releases about the same people add up. An account adds them: a release that would exceed
the budget is refused before any noise is drawn, and nobody sees a release before it is charged.

:mod:`gmtree.privacy.accounting.account_file` describes how the file of an account is kept.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from gmtree import _validate as check
from gmtree._files import lock
from gmtree._text import preformatted, short
from gmtree._version import __version__
from gmtree.privacy.accounting.account_file import (
    Entry,
    State,
    ledger_fingerprint,
    new_state,
    now,
    one_line,
    read,
    refuse,
    refuse_unknown,
    unit_of,
    user_name,
    write,
)
from gmtree.privacy.accounting.account_text import (
    describe,
    how_to_spend_less,
    short_down,
    terms_of,
    unit_name,
)
from gmtree.privacy.accounting.allocation import Allocation, gaussian_loss_in, loss_in
from gmtree.privacy.accounting.conversion import needed_delta
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.accounting.ledger_text import records
from gmtree.privacy.accounting.rational import round_up
from gmtree.privacy.accounting.tight import account_epsilon
from gmtree.privacy.accounting.unfinished import (
    Unfinished,
    discard,
    discard_leftovers,
    stored_copy,
    unfinished,
)
from gmtree.privacy.files.packing import fingerprint
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.tree import Tree


class Account:
    """A privacy budget for several releases about the same people.

    Pass it as ``release(..., account=account)``. A release that would exceed the budget is refused
    before its noise is drawn. With a file (`path`), nothing that was charged is lost: the noisy
    counts are stored beside it until the release is saved (:meth:`unfinished`).

    Parameters
    ----------
    epsilon, rho : int, Fraction, str or float
        The budget, of pure or of zero-concentrated differential privacy. A new account needs one
        of them. A float is taken at its exact value: ten times 0.1 exceeds 1, ten times ``"0.1"``
        does not.
    delta : number, optional
        With `epsilon`: the account keeps (epsilon, delta)-differential privacy for all releases
        together. Each release is charged the loss of Gaussian noise that reveals at least as much
        as its noise, and the budget is :func:`gaussian_rho`.
    neighbors : {'add_remove', 'change_one'}
        Neighbour relation that every release must use.
    max_contributions : int
        The privacy unit: the account protects all records of a person who has at most this number
        of records. Every release must state the same number.
    person : str, optional
        Name of a column that identifies people. The privacy unit is then all records of a person,
        however many there are. Every release must identify people by this column and leave out
        records beyond its bounds (`person` in :func:`gmtree.release_frame`).
    path : path, optional
        File of the account. An existing account is continued; its budget must equal the one given
        here, if any. Without a path the account exists in memory only: it ends with the process
        that created it, and processes forked from that one cannot use it.
    operator, purpose : str, optional
        Recorded in each entry that is charged through this object. By default, the operator is the
        name of the user, and the purpose is empty.

    Attributes
    ----------
    measure : {'epsilon', 'rho'}
    budget : Fraction
    target : (epsilon, delta), or None
    neighbors : str
    max_contributions : int
    person : str or None
    path : Path or None
    operator, purpose : str

    Notes
    -----
    *Composition*. Losses in the account's measure are added as exact fractions. A loss with many
    digits is rounded up first. A release with Laplace noise also has a loss in rho, which is
    computed from its scales and its tree. This loss is at most epsilon^2 / 2, and much less if many
    levels are measured. So an account in rho takes both kinds of noise, and an account in epsilon
    takes Laplace noise only. An account for an (epsilon, delta) adds the losses of Gaussian noise
    that reveals at least as much as the noise of each release: slightly more than rho for Gaussian
    noise, 1.6 times as much for Laplace noise.

    *Crashes*. The file is written durably and in one step, after the noisy counts were stored.
    Processes and threads wait for each other. A charge is never refunded. The operating system
    locks a file beside the account (``.NAME.lock``), so keep the account on a local disk.

    *Audit trail*. The entries form a chain of hashes, and each release keeps the hash of its entry.
    If :meth:`verify` is given a release without a matching entry, it reports that entries were
    edited or removed, or that a backup was restored.

    *Limits*. An account does not know of releases that are not charged to it or of copies of its
    file, and it cannot check that all releases are about the same people. Invariants and other
    disclosures without noise are outside its guarantee and cost nothing here. Each entry states how
    many there are.

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
    gmtree.InputError: Argument 'account' must have 1/2 left in epsilon; it has 1/4 of 1.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        rho: Any = None,
        delta: Any = None,
        neighbors: str = "add_remove",
        max_contributions: int = 1,
        person: str | None = None,
        path: str | os.PathLike[str] | None = None,
        operator: str | None = None,
        purpose: str = "",
    ) -> None:
        self.operator = one_line("operator", user_name() if operator is None else operator)
        self.purpose = one_line("purpose", purpose)
        new = new_state(epsilon, rho, delta, neighbors, max_contributions, person)
        self.path = None if path is None else check.path("path", path).resolve()
        self._thread_lock = threading.Lock()
        self._process = os.getpid()
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
                    write(self.path, new)
                self._seen = read(self.path)
                if self._seen.requested != new.requested:
                    check.fail("path", f"must have the same terms; it has {terms_of(self._seen)}.")

    # ------------------------------------------------------------------ contents

    @property
    def measure(self) -> str:
        """The measure in which losses are added: 'epsilon' or 'rho'."""
        return self._seen.measure

    @property
    def budget(self) -> Fraction:
        """Total budget."""
        return self._seen.budget

    @property
    def target(self) -> tuple[Fraction, Fraction] | None:
        """The (epsilon, delta) for which a budget in rho was chosen, or None."""
        return self._seen.target

    @property
    def neighbors(self) -> str:
        """Neighbour relation that every release must use."""
        return self._seen.neighbors

    @property
    def max_contributions(self) -> int:
        """Largest number of records of a protected person; not used if `person` is given."""
        return self._seen.max_contributions

    @property
    def person(self) -> str | None:
        """Column that identifies people in every release, or None."""
        return self._seen.person

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges so far, also those of other programs, read from the file each time."""
        return self._state().entries

    @property
    def spent(self) -> Fraction:
        """The sum of all charges."""
        return self._state().spent

    @property
    def left(self) -> Fraction:
        """Budget that is left for further releases."""
        state = self._state()
        return state.budget - state.spent

    def epsilon(self, delta: Any = None) -> float | Fraction:
        """The epsilon of all releases so far together; an account in rho needs a delta for it."""
        bound = needed_delta(self.measure, delta, "an account")
        if bound is None:
            return self.spent
        return account_epsilon(self.spent, self.budget, self.target, bound)

    def __repr__(self) -> str:
        state = self._state()
        where = "" if self.path is None else f", path={str(self.path)!r}"
        spent, budget = short(state.spent, up=True), short_down(state.budget)
        return f"Account({self.measure}={budget}, spent={spent}{where})"

    def __str__(self) -> str:
        return describe(self._state(), self.unfinished())

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of an account in memory could spend the same budget a second time.
        if self.path is None:
            raise TypeError(
                "An account without a file cannot be copied: it would double its budget."
            )
        return partial(Account, path=self.path, operator=self.operator, purpose=self.purpose), ()

    # ------------------------------------------------------------------ charges

    def charge(self, tree: Tree, allocation: Allocation, what: str = "release") -> Entry:
        """Charge the loss of an allocation, before its noise is drawn.

        :func:`gmtree.release` and :func:`gmtree.release_tables` charge the account themselves. Call
        this only for noise that you draw yourself.

        Parameters
        ----------
        tree, allocation
            A tree, and what :func:`gmtree.privacy.allocate` returned for it.
        what : str
            Name of the release in the entry, on one line.

        Raises
        ------
        ValueError
            If too little budget is left, if the account has another measure or neighbour relation,
            or if its file is damaged. Then nothing is charged.
        """
        with self._charging(tree, allocation, what) as entry:
            return entry

    @contextmanager
    def _charging(self, tree: Tree, allocation: Allocation, what: str) -> Iterator[Entry]:
        """Hold the account during a block, and charge the entry if the block ends without error."""
        draft = self._draft(tree, allocation, what)
        with self._locked():
            before = self._state()
            after = _with(before, draft)
            if self.path is not None:
                discard_leftovers(self.path, before.entries)
            yield after.entries[-1]
            if self.path is not None:
                write(self.path, after)
            self._seen = after

    def unfinished(self) -> list[Unfinished]:
        """The charged releases that were not saved yet, from stored copies beside the account.

        Each release stores its noisy counts beside the file of the account, in a folder that only
        its owner can read. They remain there until the release is saved
        (:meth:`gmtree.Release.save`), or until you call :meth:`finish` because you have the values
        elsewhere. If the process ends earlier, ``load`` of an item returns the release, and
        ``gmtree release --resume`` writes it. An account in memory stores nothing.

        Examples
        --------
        >>> import gmtree as gm, os, tempfile
        >>> from gmtree import privacy
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     account = privacy.Account(epsilon=1, path=os.path.join(folder, "budget.json"))
        ...     r = gm.release(gm.shapes.star(4), [3, 0, 2], epsilon="1/2", account=account)
        ...     del r  # the process ends before the release is saved
        ...     (item,) = account.unfinished()
        ...     again = item.load()
        ...     again.save(os.path.join(folder, "release.npz"))
        ...     item.entry.number, account.unfinished(), account.left
        (1, [], Fraction(1, 2))
        """
        return [] if self.path is None else unfinished(self.path, self.entries)

    def finish(self, release: Any) -> None:
        """Remove the stored copy of a release whose values you have elsewhere.

        :meth:`gmtree.Release.save` removes it by itself. Raises ValueError if the release was not
        charged to this account.
        """
        self.verify(release)
        if self.path is not None:
            number = release.provenance["account"]["entry"]
            discard(stored_copy(self.path, self.entries[number - 1]))

    def check(self, tree: Tree, allocation: Allocation) -> None:
        """Raise the error that :meth:`charge` would raise now, if any, and charge nothing.

        Examples
        --------
        >>> import gmtree as gm
        >>> from gmtree import privacy
        >>> tree = gm.shapes.star(4)
        >>> privacy.Account(epsilon=1).check(tree, privacy.allocate(tree, epsilon=2))
        Traceback (most recent call last):
            ...
        gmtree.InputError: Argument 'account' must have 2 left in epsilon; it has 1 of 1.
        """
        _with(self._state(), self._draft(tree, allocation, ""))

    def verify(self, *releases: Any) -> int:
        """Check the chain of all entries, and that the account has an entry for each release.

        Parameters
        ----------
        *releases : Release or TableRelease
            Releases that were charged to this account.

        Returns
        -------
        int
            Number of entries.

        Raises
        ------
        ValueError
            If an entry was changed or removed, or if a release has no entry in the account, or one
            that differs. Then the file was edited, replaced by another account, or restored from a
            backup that is older than the release.

        Examples
        --------
        >>> import gmtree as gm
        >>> from gmtree import privacy
        >>> account = privacy.Account(epsilon=1)
        >>> r = gm.release(gm.shapes.star(4), [3, 0, 2], epsilon="1/2", account=account)
        >>> account.verify(r)
        1
        """
        entries = self.entries
        for release in releases:
            refuse_unknown(entries, release.ledger, release.provenance)
        return len(entries)

    def _draft(self, tree: Tree, allocation: Allocation, what: str) -> Entry:
        """Return an entry without number and time; refuse one that this account cannot take."""
        check.instance("tree", tree, Tree)
        check.instance("allocation", allocation, Allocation)
        ledger = allocation.ledger
        if ledger.neighbors != self.neighbors:
            check.fail(
                "account",
                f"must be for neighbors={ledger.neighbors!r}; it is for {self.neighbors!r}.",
            )
        self._refuse_other_unit(ledger)
        cost = self._cost(tree, allocation)
        return Entry(
            number=0,
            time="",
            what=one_line("what", what),
            tree=fingerprint(tree),
            nodes=tree.n,
            measure=ledger.measure,
            total=ledger.total,
            charged=round_up(cost),
            mechanism=ledger.mechanism,
            max_contributions=ledger.max_contributions,
            max_per_leaf=ledger.max_per_leaf,
            person=ledger.person,
            invariants=len(ledger.invariants) + len(ledger.derived_invariants),
            disclosures=len(ledger.disclosures),
            version=__version__,
            ledger=ledger_fingerprint(ledger),
            operator=self.operator,
            purpose=self.purpose,
        )

    def _refuse_other_unit(self, ledger: Ledger) -> None:
        """Refuse a release whose loss is about another privacy unit."""
        if unit_of(ledger) == unit_of(self._seen):
            return
        ours, theirs = unit_name(self._seen), unit_name(ledger)
        advice = ""
        if ledger.person is None and self.person is None:
            k = self.max_contributions
            advice = (
                f" With max_contributions={k}, the release would state the loss of {records(k)}."
            )
        check.fail(
            "account", f"must protect the same privacy unit, {theirs}; it protects {ours}.{advice}"
        )

    def _cost(self, tree: Tree, allocation: Allocation) -> Fraction:
        """Return the loss in the measure of this account; refuse a release without a finite one."""
        if self.target is None:
            cost = loss_in(tree, allocation, self.measure)
            if cost is None:
                ledger = allocation.ledger
                check.fail(
                    "account",
                    f"must be in {ledger.measure} for {MECHANISMS[ledger.mechanism].title} noise, "
                    f"which has no finite {self.measure}; it is in {self.measure}.",
                )
            return cost
        cost, ledger = gaussian_loss_in(tree, allocation), allocation.ledger
        if cost is not None and cost <= self.budget:
            return cost
        # A release whose loss as Gaussian noise exceeds the budget may still meet the (epsilon,
        # delta) target by itself. It is then charged the whole budget.
        if ledger.measure == "rho" and ledger.total <= self.budget:
            epsilon, delta = self.target
            if ledger.epsilon(delta) <= epsilon:
                return self.budget
        if cost is None:
            check.fail(
                "account", "must be in rho, without a delta, for noise of a scale below 1/30."
            )
        return cost

    def _state(self) -> State:
        """Return the current state, which must continue the last one that was seen."""
        # Take the last known state before reading the file. Otherwise a charge by another thread in
        # between could make it longer than the contents that we have read.
        seen = self._seen
        if self.path is None:
            self._refuse_forked()
            return seen
        state = read(self.path)
        if state.terms != seen.terms or state.entries[: len(seen.entries)] != seen.entries:
            refuse("it has lost or changed entries that were there before")
        self._seen = max(self._seen, state, key=lambda each: len(each.entries))
        return state

    def _refuse_forked(self) -> None:
        """Refuse the copy of an account in memory that a forked process has: both could spend."""
        if os.getpid() != self._process:
            check.fail(
                "account",
                "must be used in the process that created it, because an account in memory cannot "
                "see what other processes charge. Give the account a file (path=...).",
            )

    def _locked(self) -> AbstractContextManager[Any]:
        if self.path is not None:
            return lock(self.path.with_name(f".{self.path.name}.lock"))
        # A process that was forked during a charge would wait forever for this lock.
        self._refuse_forked()
        return self._thread_lock


def _with(state: State, draft: Entry) -> State:
    """Return the account with one more entry; raise ValueError if that exceeds its budget."""
    named = replace(draft, number=len(state.entries) + 1, time=now(), release=uuid.uuid4().hex)
    entry = named.chained(state.hash)
    after = replace(state, entries=(*state.entries, entry))
    if after.spent > state.budget:
        left = short_down(state.budget - state.spent)
        check.fail(
            "account",
            f"must have {short(entry.charged, up=True)} left in {state.measure}; it has "
            f"{left} of {short_down(state.budget)}.{how_to_spend_less(entry, after)}",
        )
    return after
