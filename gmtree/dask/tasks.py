"""The work on one partition: functions of files and messages that keep nothing in between.

Each task may run on any worker, any number of times. It reads its rows and the files of earlier
tasks, and writes files that appear in one step and have the same contents every time. No function
here depends on Dask.

Sweeps run on one thread, because partitions are processed in parallel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency, round_values
from gmtree.consistency.rounding import fraction_steps, rounding_ranges
from gmtree.dask import storage
from gmtree.dask.joint_tree import Units, Where, usable
from gmtree.dask.messages import Instructions, Problem, Report
from gmtree.dask.parquet import Partition, arrow, read
from gmtree.dask.partition_tree import PartitionTree
from gmtree.dask.partition_values import find_part, keep, load, load_rows, load_values
from gmtree.dask.writing import Columns, publish

# If there are more fractions than this, they are sent with fewer digits to keep messages small.
_MOST_FRACTIONS = 1 << 16
_COARSE = 14


# --------------------------------------------------------------------------- upward


def up(problem: Problem, partition: Partition) -> Report:
    """Read a partition, and report the sums of the children of its boundary nodes."""
    table = load_rows(problem, partition)
    part, ends = find_part(problem.levels, partition, table, problem.memory, problem.keeps)
    v, s, matched = load_values(problem, partition, part, table)
    del table
    keep(problem, partition, part, v, s)
    own = v[part.boundary], s[part.boundary]
    messages = group_messages(problem, part, v, s)
    arrow().default_memory_pool().release_unused()
    at_boundary = np.array([m[[0, -1]] for m in matched])
    inside = tuple(int(np.count_nonzero(m[1:-1])) for m in matched)
    return Report(ends, *own, inside, at_boundary, messages)


def group_messages(
    problem: Problem, part: PartitionTree, v: np.ndarray, s: np.ndarray
) -> dict[Where, np.ndarray]:
    """For each group the sums of its estimates and variances, and its least sum with bounds.

    The measurements of boundary nodes and of rows elsewhere do not affect these sums. Their entries
    in `s` are set to 1, so that all values are determined.
    """
    s[part.extra_leaves] = 1.0
    s[part.boundary] = 1.0
    post = Consistency(part.tree, {"node": s}, threads=1)
    nodes = [np.arange(g.start, g.stop) for g in part.groups]
    bounds = lower_bounds(part) if problem.nonnegative else None
    messages = post.messages(v, np.concatenate(nodes), lower=bounds)
    found, start = {}, 0
    for g in part.groups:
        here = slice(start, start + g.stop - g.start)
        start = here.stop
        z, q = messages.estimate[here], messages.variance[here]
        least = -np.inf if messages.least is None else _least_sum(z, q, messages.least[here])
        found[g.level, g.side] = np.array([np.sum(z), np.sum(q), least])
    return found


def _least_sum(z: np.ndarray, q: np.ndarray, least: np.ndarray) -> float:
    """Return the smallest sum of siblings at which none of them is below its least value."""
    lack, variance = least - z, float(np.sum(q))
    if variance == np.inf:
        # Siblings with an infinite variance absorb any difference alone.
        q = np.where(np.isinf(q), 1.0, 0.0)
        variance = float(np.sum(q))
    moves = q > 0
    need = float(np.max(lack[moves] / q[moves], initial=-np.inf))
    if np.any(lack[~moves] > 0):
        need = np.inf
    return float(np.sum(z)) + variance * need if variance > 0 else need


def lower_bounds(part: PartitionTree) -> np.ndarray:
    """Bounds of the tree's leaves in their order: 0 for rows, -inf for extra leaves."""
    bounds = np.zeros(part.n)
    bounds[part.extra_leaves] = -np.inf
    return bounds[part.n_inner :]


def surround(part: PartitionTree, v: np.ndarray, s: np.ndarray, outside: np.ndarray) -> None:
    """Fill in measurements and variances from the driver, in place.

    `outside` has, by level and side, an estimate of all rows elsewhere and its variance, then the
    measurement of the boundary node and its variance.
    """
    there = part.elsewhere >= 0
    v[part.elsewhere[there]] = np.where(np.isinf(outside[there][:, 1]), 0, outside[there][:, 0])
    s[part.elsewhere[there]] = usable(outside[there][:, 1])
    v[part.boundary], s[part.boundary] = outside[:, :, 2], outside[:, :, 3]


# --------------------------------------------------------------------------- bounds


def _hold(part: PartitionTree, v: np.ndarray, s: np.ndarray, held: np.ndarray) -> None:
    """Fix some rows at zero, in place."""
    v[part.rows][held] = 0
    s[part.rows][held] = 0


def _load_held(name: storage.Location | None) -> np.ndarray:
    if name is None:
        return np.zeros(0, np.int64)
    return storage.load(name)["held"]


def enter(
    problem: Problem,
    partition: Partition,
    outside: np.ndarray,
    before: storage.Location | None,
    turn: int,
) -> tuple[storage.Location, int, dict[Where, np.ndarray]]:
    """Hold the rows that fall below zero while the estimates of rows elsewhere stay fixed.

    Returns the file with the held rows, the number of newly held rows, and the new messages. No
    row has to be released later: a row that is below zero in a solution with some rows held is
    zero in the optimum, even if further rows of other partitions are held.
    """
    part, v, s = load(problem, partition)
    old = _load_held(before)
    _hold(part, v, s, old)
    surround(part, v, s, outside)
    post = Consistency(part.tree, {"node": s}, threads=1)
    x = post.project(v, lower=lower_bounds(part))
    held = np.flatnonzero(x[part.rows] <= 0)
    _hold(part, v, s, held)
    name = problem.file(f"held{turn}", partition.number)
    storage.save(name, held=held)
    return name, held.size - old.size, group_messages(problem, part, v, s)


# --------------------------------------------------------------------------- downward


def down(
    problem: Problem, partition: Partition, final: Instructions
) -> dict[int, int] | dict[Where, Units]:
    """Compute the values of all nodes of a partition, and write them, or keep them for rounding.

    Returns the number of rows written for each level, or, with `integer`, the whole numbers to
    which each group can be rounded.
    """
    table = None if problem.keeps else load_rows(problem, partition)
    part, v, s = load(problem, partition, table)
    columns = _solve(problem, part, v, s, final, partition.start)
    if not problem.integer:
        if table is None:
            table = read(partition.pieces, problem.levels, problem.levels[:-1])
        return publish(problem, partition, part, table, columns, final, v, s)
    kept = {name: x for name, x in columns._asdict().items() if x is not None}
    storage.save(problem.file("values", partition.number), **kept)
    return _units(part, columns.value)


def _solve(
    problem: Problem,
    part: PartitionTree,
    v: np.ndarray,
    s: np.ndarray,
    final: Instructions,
    start: int,
) -> Columns:
    """Compute the columns of results; messages of errors count rows from `start`."""
    error = estimate = None
    wants_estimate = problem.has_estimate
    # The value of a row that was not measured may be determined by other measurements.
    wants_error = problem.std_error or np.isinf(s[part.rows]).any()
    x: Any = None
    if wants_error or wants_estimate or not problem.nonnegative:
        surround(part, v, s, final.plain)
        post = Consistency(part.tree, {"node": s}, threads=1)
        if wants_error:
            error = np.sqrt(post.node_variance())
            _refuse_undetermined(part, error, start)
            error[part.boundary] = final.boundary_error
            error = error if problem.std_error else None
        if wants_estimate or not problem.nonnegative:
            x = post.project(v)
            del post
        if wants_estimate:
            x[part.boundary] = final.plain_boundary
            # Without bounds, x itself is rounded later.
            estimate = x if problem.nonnegative else x.copy()
    if problem.nonnegative:
        surround(part, v, s, final.outside)
        # Rows are held in copies, because the measurements themselves are written later.
        noisy, variance = v.copy(), s.copy()
        _hold(part, noisy, variance, _load_held(final.held))
        x = Consistency(part.tree, {"node": variance}, threads=1).project(noisy)
        # Rounding errors may have made zeros negative.
        np.maximum(x[: part.n_inner], 0, out=x[: part.n_inner])
        np.maximum(x[part.rows], 0, out=x[part.rows])
    if not problem.integer:
        x[part.boundary] = final.boundary
    return Columns(x, error, estimate)


def _refuse_undetermined(part: PartitionTree, error: np.ndarray, start: int) -> None:
    loose = np.flatnonzero(np.isinf(error[part.rows]))
    if loose.size:
        check.fail(
            "value",
            f"must determine every node; row {start + loose[0]} has no value, and other "
            "measurements do not determine it.",
        )


# --------------------------------------------------------------------------- whole numbers


def _units(part: PartitionTree, x: np.ndarray) -> dict[Where, Units]:
    """Return, for each group, the whole numbers that its nodes can be rounded to."""
    least, room = rounding_ranges(part.tree, x)
    found = {}
    for g in part.groups:
        here = slice(g.start, g.stop)
        takes = room[here]
        steps = fraction_steps(x[here][takes], least[here][takes])
        if steps.size > _MOST_FRACTIONS:
            steps = steps >> _COARSE << _COARSE
        step, count = np.unique(steps, return_counts=True)
        found[g.level, g.side] = Units(int(least[here].sum()), step, count)
    return found


def finish(
    problem: Problem,
    partition: Partition,
    final: Instructions,
    whole: np.ndarray,
    groups: dict[Where, int],
) -> dict[int, int]:
    """Round the values of a partition to the sums that the driver chose, and write them.

    `whole` has the numbers of the boundary nodes by level and side, and `groups` those of groups.
    """
    part, v, s = load(problem, partition)
    kept = storage.load(problem.file("values", partition.number))
    columns = Columns(kept["value"], kept.get("error"), kept.get("estimate"))
    x = columns.value
    given = dict(zip(part.boundary.ravel().tolist(), whole.ravel().tolist(), strict=True))
    for level, side in np.argwhere(part.elsewhere >= 0).tolist():
        # The extra leaf gets the units that are left. Children that are boundary nodes already have
        # their numbers.
        rest = int(whole[level, side]) - groups.get((level, side), 0)
        rest -= sum(given[c] for c in _boundary_children(part, level, side))
        x[part.elsewhere[level, side]] = rest
    rounded = round_values(part.tree, x, given=given)
    table = read(partition.pieces, problem.levels, problem.levels[:-1])
    done = columns._replace(value=rounded)
    return publish(problem, partition, part, table, done, final, v, s)


def _boundary_children(part: PartitionTree, level: int, side: int) -> set[int]:
    """Return the children of a boundary node that are boundary nodes themselves."""
    if level + 1 == part.height:
        return set()
    below = part.boundary[level + 1]
    return set((below[[side]] if part.has_two(level) else below).tolist())
