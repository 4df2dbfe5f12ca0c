"""Counts published with differential privacy, from Parquet to Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.dask import noise
from gmtree.dask.engine import Engine
from gmtree.dask.noise import RECORD, Draw, Record, remove_folders
from gmtree.dask.parquet import is_path
from gmtree.dask.pipeline import Run
from gmtree.dask.reconcile import output_names
from gmtree.dask.result import MANIFEST, Levels
from gmtree.dask.sources import leaf_partitions, level_columns, scratch_folder
from gmtree.dask.tasks import Problem
from gmtree.dask.top import Top
from gmtree.privacy.allocation import Allocation
from gmtree.privacy.cumulants import noise_moments
from gmtree.privacy.level_sizes import allocate_levels, largest_sum_of, worst_paths


def release(
    leaves: Any,
    levels: Sequence[str],
    count: str,
    *,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = None,
    level_shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    mechanism: str | None = None,
    max_count: int | None = None,
    outside: Sequence[str] = (),
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
) -> Levels:
    """Publish the counts of a hierarchy that outgrows one machine, with differential privacy.

    What is published, and what that guarantees, is as in :func:`gmtree.release`: every measured
    node gets its count with exact discrete noise once, and the values are the consistent ones with
    the least error.

    Parameters
    ----------
    leaves, levels
        As in :func:`reconcile`. The list of leaves is public, and so is its order.
    count : str
        Column of true counts, whole numbers.
    epsilon, rho, delta, level_shares, neighbors, max_contributions, mechanism, max_count, outside
        As in :func:`gmtree.privacy.allocate`. Bounds of counts are those of the whole tree. There
        are no invariants and no `max_per_leaf`: what follows from them depends on the whole tree.
    nonnegative, integer : bool
        As in :func:`gmtree.release`.
    account : object with a method ``charge(tree, allocation, what)``, optional
        A budget shared with other releases, such as ``privacy.Account``. It is charged before
        anything is drawn; if it refuses, nothing is.
    out : path
        New folder for what is published: one folder of Parquet files per level, with the columns
        `count` (the consistent values), ``{count}_noisy`` (missing where not measured),
        ``{count}_std_error`` and, with `nonnegative` or `integer`, ``{count}_estimate``, which the
        standard errors belong to.
    confidential : path
        New or empty folder for what must never be published, which every worker can reach. Keep
        it from everybody who must not see the counts themselves: true sums and repeated draws are
        in it while the release is made. At the end only the record of the run is left.
    resume : bool
        Continue the run in `confidential` that was stopped: draws that count are kept, others are
        made, and nothing more is spent. Without it, a run counts as new spending.
    scratch, sort, partition_rows, client
        As in :func:`reconcile`.

    Returns
    -------
    Levels
        With the account of the release in ``ledger``.

    Notes
    -----
    A cluster may run a task twice, and so draw noise twice for one count. Two draws are as
    confidential as the count: together they tell more than one was paid for. What happens instead:

    1. The spending is recorded before anything is drawn.
    2. Each attempt of a task writes to a file of its own in `confidential`, and returns its name.
    3. The first name for each partition is written to the record, and later steps read only the
       files that the record names.
    4. Nodes that are in several partitions get their noise in one place, once, from sums in
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
    names = level_columns(levels, count)
    check.flag("nonnegative", nonnegative)
    check.flag("integer", integer)
    check.flag("resume", resume)
    if account is not None and not callable(getattr(account, "charge", None)):
        check.fail_type("account", f"must have a method 'charge', not be {account!r}.")
    engine = Engine(client)
    target = check.path("out", out).absolute()
    secret = check.path("confidential", confidential).absolute()
    if target == secret or secret.is_relative_to(target):
        check.fail("confidential", "must not be inside of 'out', which is published.")
    keeps = nonnegative or integer
    budget = {
        "epsilon": epsilon,
        "rho": rho,
        "delta": delta,
        "level_shares": level_shares,
        "neighbors": neighbors,
        "max_contributions": max_contributions,
        "mechanism": mechanism,
        "max_count": max_count,
        "outside": outside,
    }
    if not resume:
        _refuse_used(secret)
    record = Record.read(secret) if resume else None
    if record is not None and (record.data["published"] or (target / MANIFEST).exists()):
        made = Levels(target)
        _refuse_other(record, made.manifest.get("request"), made.manifest.get("ledger"))
        record.close()
        return made
    memory = engine.memory()
    request = {
        "leaves": str(leaves) if is_path(leaves) else "a frame",
        "levels": list(names),
        "count": count,
        "nonnegative": nonnegative,
        "integer": integer,
    }
    try:
        if record is None:
            partitions = leaf_partitions(
                engine, leaves, names, [count], secret, sort=sort, rows=partition_rows, keeps=keeps
            )
        else:
            partitions = record.partitions
        work = [(names, count, p, memory, keeps) for p in partitions]
        top = Top(engine.run("reading levels", noise.survey, work))
        allocation, scales, sizes = _allocate(top, names, budget)
        ledger = allocation.ledger
        if record is None:
            if account is not None:
                account.charge(worst_paths(sizes), allocation, f"release of {sum(sizes):,} nodes")
            record = Record.new(secret, request, ledger.to_dict(), partitions)
        else:
            _refuse_other(record, request, ledger.to_dict())
    finally:
        if record is None:
            # Nothing was drawn, and the next call may begin with an empty folder.
            remove_folders(secret)
    job = Draw(
        names,
        count,
        str(record.attempts),
        scales,
        ledger.mechanism,
        ledger.max_count,
        largest_sum_of(sizes),
        memory,
    )
    _draw(engine, record, job, top)
    variance = tuple(np.inf if s is None else noise_moments(ledger.mechanism, s)[0] for s in scales)
    with scratch_folder(scratch, target) as folder:
        problem = Problem(
            names,
            count,
            variance,
            (),
            nonnegative,
            integer,
            True,
            str(target),
            str(folder),
            memory,
            record.noisy(),
            output_names(names, count),
        )
        run = Run(engine, problem, partitions, lambda top: record.joint().astype(np.float64))
        manifest = {"kind": "release", "request": request, "ledger": ledger.to_dict()}
        made = run.solve(manifest)
    record.close()
    return made


def _refuse_used(secret: Path) -> None:
    """A folder with a run in it is either resumed or left alone."""
    secret.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (secret / RECORD).exists():
        check.fail(
            "confidential",
            f"must be an empty folder; {str(secret)!r} has a run. Pass resume=True to continue it, "
            "or another folder to begin anew, which counts as new spending.",
        )
    if any(secret.iterdir()):
        check.fail("confidential", f"must be an empty folder; {str(secret)!r} has files.")


def _refuse_other(record: Record, request: Any, ledger: Any) -> None:
    """A run can only be resumed as it was begun."""
    for name, given in (("request", request), ("ledger", ledger)):
        if record.data[name] != given:
            check.fail(
                "resume",
                f"must continue the same release; the {name} of the run in "
                f"{str(record.folder)!r} is another. Begin anew in another folder; that counts as "
                "new spending.",
            )


def _allocate(
    top: Top, levels: tuple[str, ...], budget: dict[str, Any]
) -> tuple[Allocation, tuple[Any, ...], list[int]]:
    """The budget divided; scales by level with the total's first; nodes per level of the tree."""
    sizes, names = top.sizes, [None, *levels]
    above: tuple[None, ...] = ()
    if sizes[1] == 1:
        # The one node of the first level is the total.
        sizes, names, above = sizes[1:], names[1:], (None,)
    allocation = allocate_levels(sizes, names=names, **budget)
    if allocation.scales[-1] is None:
        check.fail(
            "level_shares", "must not be 0 for the leaves: their values would be undetermined."
        )
    return allocation, (*above, *allocation.scales), sizes


def _draw(engine: Engine, record: Record, job: Draw, top: Top) -> None:
    """Noise for all that has none yet; then nothing is left but the draws that count."""
    waiting = record.waiting
    for k, attempt in engine.each("drawing noise", noise.draw, [(job, p) for p in waiting]):
        record.commit(waiting[k], attempt)
    record.destroy_others()
    if record.data["joint"] is None:
        attempts = [record.data["committed"][str(p.number)] for p in record.partitions]
        work = [(job, attempts, top.path, top.level)]
        record.commit_joint(engine.run("drawing noise", noise.draw_joint, work)[0])
    record.destroy_others()
