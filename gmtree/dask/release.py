"""Counts published with differential privacy, from Parquet to Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask import drawing
from gmtree.dask.confidential import RECORD, Record, forgets_locals, hold, remove_folders
from gmtree.dask.counting import count_people
from gmtree.dask.drawing import Draw
from gmtree.dask.engine import Engine
from gmtree.dask.joint_tree import JointTree
from gmtree.dask.messages import Problem
from gmtree.dask.pipeline import Run
from gmtree.dask.result import MANIFEST, ROOT, Result, refuse_used
from gmtree.dask.sources import leaf_partitions, level_columns, scratch_folder
from gmtree.dask.storage import is_path, local_path
from gmtree.privacy.accounting.allocation import Allocation
from gmtree.privacy.accounting.budget import Budget
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.accounting.level_sizes import divide_levels, largest_sum_of, worst_paths
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.privacy.publishing.people import Bounds


@forgets_locals
def release(
    leaves: Any,
    levels: Sequence[str],
    count: str,
    *,
    records: Any = None,
    person: str | None = None,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = None,
    shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    mechanism: str | None = None,
    max_count: int | None = None,
    disclosures: Sequence[str] = (),
    nonnegative: bool = False,
    integer: bool = False,
    account: Any = None,
    out: str | PathLike[str],
    confidential: str | PathLike[str],
    resume: bool = False,
    scratch: str | PathLike[str] | None = None,
    sort: bool = False,
    partition_rows: int | None = None,
    client: Any = None,
) -> Result:
    """Publish the counts of a hierarchy that outgrows one machine, with differential privacy.

    The results and their guarantee are those of :func:`gmtree.release`: exact discrete noise is
    added once to the count of every measured node, and the values are the consistent ones with the
    least error.

    Parameters
    ----------
    leaves, levels
        As in :func:`reconcile`. The list of leaves is public, and so is its order.
    count : str
        Column of true counts, whole numbers. With `records`, `leaves` needs no such column, and
        `count` only names the column of the results.
    records : path, optional
        Parquet files with one record per row, in any order, with the columns `levels` and `person`.
        The leaf of each record must be in `leaves`. Like `leaves`, they must be on a mounted file
        system.
    person : str, optional
        Column of `records` that identifies people. The first `max_contributions` records of each
        person are counted, in an order that depends on this person's records only; further records
        are left out. The rule is that of :func:`gmtree.release_frame`, and counts the same records.
    epsilon, rho, delta, shares, neighbors, max_contributions, mechanism, max_count, disclosures
        As in :func:`gmtree.release`. Bounds of counts are computed from the whole tree. Invariants
        and `max_per_leaf` are not supported, because they need the whole tree in memory.
    nonnegative, integer : bool
        As in :func:`gmtree.release`.
    account : object with a method ``charge(tree, allocation, what)``, optional
        A budget shared with other releases, such as ``privacy.Account``. It is charged before
        any noise is drawn. If it refuses, no noise is drawn.
    out : path
        New folder for the published results: one folder of Parquet files per level, with the
        columns `count` (the consistent values), ``{count}_noisy`` (missing for nodes that were not
        measured), ``{count}_std_error`` and, with `nonnegative` or `integer`,
        ``{count}_estimate``, to which the standard errors refer.
    confidential : path
        New or empty folder for files that must never be published, on a file system that every
        worker has mounted. It holds true sums and repeated draws while the release is made. So it
        is created for its owner only (mode 700), and an existing folder with a wider mode is
        refused. The workers must run as the same user. It must not be inside `out`, nor `out`
        inside it. One release at a time can use it. At the end only the record of the run and an
        empty lock file are left. If anything else cannot be removed, an OSError is raised.
    resume : bool
        Continue the interrupted run in `confidential`. Noise that was drawn is kept, missing noise
        is drawn, and nothing is charged again. Without `resume`, a run spends budget again.
    scratch, sort, partition_rows, client
        As in :func:`reconcile`.

    Returns
    -------
    Result
        With the privacy ledger of the release in ``ledger``.

    Notes
    -----
    A cluster may run a task twice, and so draw noise twice for one count. Two draws are as
    confidential as the count, because their mean has less noise than the ledger states. Therefore:

    1. A lock on `confidential` is held for the whole run, and the spending is recorded before
       anything is drawn.
    2. Each attempt of a task writes to a separate file in `confidential`, and returns its name.
    3. The first name for each partition is written to the record, and later steps read only the
       files that the record names.
    4. One task draws the noise of all nodes that are in several partitions, from sums in
       `confidential`. No true count is ever a result or an argument of a task.
    5. All other attempts, and the sums, are destroyed before anything is published.

    Examples
    --------
    >>> import tempfile, pandas as pd, gmtree.dask
    >>> leaves = pd.DataFrame({"state": ["NY", "NY", "VT"], "county": [1, 2, 3], "n": [9, 8, 7]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = gmtree.dask.release(leaves, ["state", "county"], "n", epsilon=1, integer=True,
    ...         out=folder + "/public", confidential=folder + "/secret")
    ...     total, states = (made.table(name)["n"].to_pylist() for name in ("total", "state"))
    >>> total == [sum(states)], made.ledger.total
    (True, Fraction(1, 1))
    """
    names = level_columns(levels, "count", count, *([] if person is None else [person]))
    for name, given in {"nonnegative": nonnegative, "integer": integer, "resume": resume}.items():
        check.flag(name, given)
    _refuse_account(account)
    target, secret = _folders(out, confidential)
    run = _Release(
        Engine(client),
        names,
        count,
        nonnegative,
        integer,
        budget=Budget.of(
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            shares=shares,
            neighbors=neighbors,
            max_contributions=max_contributions,
            mechanism=mechanism,
            max_count=max_count,
            disclosures=disclosures,
            person=person,
        ),
        sources=_names_of(leaves, records, person),
        out=target,
        confidential=secret,
    )
    with hold(secret, resume=resume):
        record = Record.read(secret) if resume else None
        if record is not None and run.has_ended(record):
            return run.finished(record)
        begun = run.begin(record, leaves, records, account, sort, partition_rows)
        return run.publish(begun, scratch)


@dataclass(frozen=True)
class _Divided:
    """A run whose budget is divided and recorded.

    Attributes
    ----------
    record : Record
    joint : JointTree
    sizes : list of int
        Number of nodes of each level of the tree.
    ledger : Ledger
    scales : tuple
        Scale of the noise for each level, beginning with the total; None if it is not measured.
    """

    record: Record
    joint: JointTree
    sizes: list[int]
    ledger: Ledger
    scales: tuple[Any, ...]


@dataclass(frozen=True)
class _Release:
    """One release: its arguments, and its steps in order."""

    engine: Engine
    levels: tuple[str, ...]
    count: str
    nonnegative: bool
    integer: bool
    budget: Budget
    sources: dict[str, str | None]
    out: Path
    confidential: Path

    @property
    def request(self) -> dict[str, Any]:
        """The arguments that must be equal when the run is resumed."""
        return {
            **self.sources,
            "levels": list(self.levels),
            "count": self.count,
            "nonnegative": self.nonnegative,
            "integer": self.integer,
        }

    def has_ended(self, record: Record) -> bool:
        """Whether the run to resume has published its results."""
        record.refuse_other(request=self.request)
        return record.data["published"] or (self.out / MANIFEST).exists()

    def finished(self, record: Record) -> Result:
        """Return the results of a run that has ended, and remove all its confidential files."""
        made = Result(self.out) if (self.out / MANIFEST).exists() else None
        if made is None or made.manifest.get("run") != record.data["run"]:
            check.fail("out", f"must be the folder of the run to resume, not {str(self.out)!r}.")
        sizes = [made.nodes(name) for name in made]
        allocation, _, _ = self._allocate(sizes if ROOT in made else [1, *sizes])
        record.refuse_other(ledger=allocation.ledger.to_dict())
        record.close()
        return made

    def begin(
        self,
        record: Record | None,
        leaves: Any,
        records: Any,
        account: Any,
        sort: bool,
        rows: int | None,
    ) -> _Divided:
        """Divide the budget, charge it, and write the record, unless an earlier call did."""
        refuse_used(self.out)
        keeps, person = self.nonnegative or self.integer, self.budget.person
        try:
            if record is None:
                partitions = leaf_partitions(
                    self.engine,
                    leaves,
                    self.levels,
                    [self.count] if person is None else [],
                    self.confidential,
                    sort=sort,
                    rows=rows,
                    keeps=keeps,
                )
                if person is not None:
                    most = self.budget.max_contributions
                    partitions = count_people(
                        self.engine,
                        records,
                        partitions,
                        self.levels,
                        person,
                        self.count,
                        Bounds(most, most, most),
                        rows,
                        self.confidential,
                    )
            else:
                partitions = record.partitions
            memory = self.engine.memory()
            work = [(self.levels, self.count, p, memory, keeps) for p in partitions]
            joint = JointTree(self.engine.run("reading levels", drawing.survey, work))
            allocation, scales, sizes = self._allocate(joint.sizes)
            ledger = allocation.ledger
            if record is None:
                if account is not None:
                    what = f"release of {sum(sizes):,} nodes"
                    account.charge(worst_paths(sizes), allocation, what)
                record = Record.new(self.confidential, self.request, ledger.to_dict(), partitions)
            else:
                record.refuse_other(ledger=ledger.to_dict())
        finally:
            # An interrupt may come right after the record was written, so we look for the file.
            # Without a record no noise was drawn, and the next call needs an empty folder.
            if not (self.confidential / RECORD).exists():
                remove_folders(self.confidential)
        return _Divided(record, joint, sizes, ledger, scales)

    def _allocate(
        self, sizes: list[int]
    ) -> tuple[Allocation, tuple[Fraction | None, ...], list[int]]:
        """Divide the budget; also return the scale and the number of nodes of each level.

        `sizes` and the scales begin with the total. The returned numbers of nodes also do, unless
        the first level has one node, which then is the root of the tree.
        """
        names = [ROOT, *self.levels]
        above: tuple[None, ...] = ()
        if sizes[1] == 1:
            sizes, names, above = sizes[1:], names[1:], (None,)
        allocation = divide_levels(sizes, names, self.budget)
        if allocation.scales[-1] is None:
            check.fail(
                "shares", "must not be 0 for the leaves: their values would be undetermined."
            )
        return allocation, (*above, *allocation.scales), sizes

    def _draw(self, divided: _Divided) -> None:
        """Draw all noise that the record does not have yet, and destroy all other draws."""
        record, ledger = divided.record, divided.ledger
        job = Draw(
            self.levels,
            self.count,
            record.attempts,
            divided.scales,
            ledger.mechanism,
            ledger.max_count,
            largest_sum_of(divided.sizes),
        )
        waiting = record.waiting
        work = [(job, p) for p in waiting]
        for k, attempt in self.engine.each("drawing noise", drawing.draw, work):
            record.commit(waiting[k], attempt)
        record.destroy_others()
        if record.data["joint"] is None:
            attempts = [record.data["committed"][str(p.number)] for p in record.partitions]
            shared = (job, attempts, divided.joint.boundary, divided.joint.level)
            record.commit_joint(self.engine.run("drawing noise", drawing.draw_joint, [shared])[0])
        record.destroy_others()

    def publish(self, divided: _Divided, scratch: Any) -> Result:
        """Draw the noise, make the noisy counts consistent, and write them."""
        record, ledger = divided.record, divided.ledger
        self._draw(divided)
        moments = MECHANISMS[ledger.mechanism].moments
        variance = tuple(np.inf if s is None else moments(s)[0] for s in divided.scales)
        with scratch_folder(scratch, self.out) as folder:
            problem = Problem(
                levels=self.levels,
                value=self.count,
                variance=variance,
                measured=(),
                nonnegative=self.nonnegative,
                integer=self.integer,
                std_error=True,
                out=self.out,
                scratch=folder,
                memory=self.engine.memory(),
                noise=record.noisy(),
            )
            run = Run(self.engine, problem, record.partitions, record.joint().astype(np.float64))
            made = run.solve(
                {"kind": "release", "run": record.data["run"], "ledger": ledger.to_dict()}
            )
        record.close()
        return made


def _refuse_account(account: Any) -> None:
    if account is not None and not callable(getattr(account, "charge", None)):
        check.fail_type("account", f"must have a method 'charge', not be {account!r}.")


def _name_of(argument: str, source: Any) -> str:
    """Return the argument as text; refuse true counts on file systems that are not mounted."""
    if not is_path(source):
        return "a frame"
    for item in source if isinstance(source, (list, tuple)) else [source]:
        local_path(argument, item)
    return str(source)


def _names_of(leaves: Any, records: Any, person: str | None) -> dict[str, str | None]:
    """Return the arguments as text; refuse records that are not files, or without people."""
    if (records is None) != (person is None):
        check.fail("person", "must be given with 'records', and only then.")
    if records is not None and not is_path(records):
        check.fail_type("records", f"must be Parquet files, not {type(records).__name__}.")
    return {
        "leaves": _name_of("leaves", leaves),
        "records": None if records is None else _name_of("records", records),
    }


def _folders(out: Any, confidential: Any) -> tuple[Path, Path]:
    """Return both folders; refuse them if one is inside the other, also through links."""
    found = local_path("out", out), local_path("confidential", confidential)
    public, secret = (path.resolve() for path in found)
    if secret.is_relative_to(public):
        check.fail("confidential", "must not be 'out' or inside 'out', which is published.")
    if public.is_relative_to(secret):
        check.fail("out", "must not be inside 'confidential', which is emptied at the end.")
    return found
