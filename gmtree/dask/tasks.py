"""What is done with one partition: functions of files and messages that keep nothing in between.

Each may run anywhere, any number of times: it reads its rows and what earlier tasks wrote, and
writes files that appear whole and are the same every time. No function here knows of Dask.

Sweeps run on one thread: the partitions are what runs side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency, round_values
from gmtree.consistency.rounding import fraction_steps, rounding_ranges
from gmtree.dask.measured import Measured, numbers, variances
from gmtree.dask.parquet import Partition, arrow, read, save, write
from gmtree.dask.part import Part
from gmtree.dask.rows import Key, find_runs
from gmtree.dask.top import Ends, Units, usable

Where = tuple[int, int]
# More fractions than this are told with fewer digits: messages must stay small.
_MOST_FRACTIONS = 1 << 16
_COARSE = 14
# Bytes that a task needs for each node, beside the columns of labels: measured, rounded up.
BYTES_PER_NODE = {False: 80, True: 150}


@dataclass(frozen=True)
class Problem:
    """What all tasks of one run are told.

    Attributes
    ----------
    levels : tuple of str
        Columns of labels, coarse to fine.
    value : str
        Column of values in leaves and measurements, and of results.
    variance : str or tuple of float
        A column, or one number for each level, the total's first.
    measured : tuple of Measured or None
        For each level above the leaves, where its measurements are.
    nonnegative, integer, std_error : bool
    out, scratch : str
        Folders for results and for what tasks leave for later ones.
    memory : float
        Bytes that one task may use.
    noise : dict, optional
        For a release: files with noisy counts by partition.
    """

    levels: tuple[str, ...]
    value: str
    variance: Any
    measured: tuple[Measured | None, ...]
    nonnegative: bool
    integer: bool
    std_error: bool
    out: str
    scratch: str
    memory: float
    noise: dict[int, str] | None = None
    names: dict[str, str] = field(default_factory=dict)

    @property
    def height(self) -> int:
        """Number of levels below the total."""
        return len(self.levels)

    @property
    def keeps(self) -> bool:
        """Whether later tasks read what the first one found, instead of the rows again."""
        return self.nonnegative or self.integer

    @property
    def columns(self) -> list[str]:
        """Columns of the leaves to be read."""
        if self.noise is not None:
            return list(self.levels)
        more = [self.variance] if isinstance(self.variance, str) else []
        return [*self.levels, self.value, *more]

    def file(self, what: str, p: int) -> Path:
        """A file for later tasks."""
        return Path(self.scratch) / f"{what}-{p}.npz"


class Told(NamedTuple):
    """What the first task tells of its partition.

    Attributes
    ----------
    ends : Ends
    value, variance : arrays
        Measurements of the path nodes, by level and side.
    matched : tuple of int
        By level, how many nodes that are only here have a row of measurements.
    matched_paths : tuple of pairs of bool
        Which path nodes have one.
    messages : dict of arrays
        By group: sums of estimates and of variances, and the least sum.
    """

    ends: Ends
    value: np.ndarray
    variance: np.ndarray
    matched: tuple[int, ...]
    matched_paths: tuple[tuple[bool, bool], ...]
    messages: dict[Where, np.ndarray]


# --------------------------------------------------------------------------- reading


def load_rows(problem: Problem, partition: Partition) -> Any:
    """The rows of a partition; labels above the leaves as codes."""
    return read(partition.pieces, problem.columns, problem.levels[:-1])


def find_part(problem: Problem, partition: Partition, table: Any) -> tuple[Part, Key, Key]:
    """The tree of a partition, and the labels of its first and last row."""
    runs = find_runs(table, problem.levels, "leaves", partition.start)
    part = Part.of(runs)
    needed = part.n * BYTES_PER_NODE[problem.keeps] + table.nbytes
    refuse_large(partition, part.n, needed, problem.memory)
    return part, runs.first, runs.last


def refuse_large(partition: Partition, nodes: int, needed: float, memory: float) -> None:
    """Refuse a partition that would not fit into the memory of its worker."""
    if needed > memory:
        check.fail(
            "leaves",
            f"must have partitions that fit into a worker; partition {partition.number} (from row "
            f"{partition.start} on) has {nodes:,} nodes, which take about {needed / 1e6:,.0f} MB, "
            f"and one task may use {memory / 1e6:,.0f} MB. Pass a smaller 'partition_rows', write "
            "the files with smaller row groups, or give the workers more memory or fewer threads.",
        )


def load_values(
    problem: Problem, partition: Partition, part: Part, table: Any
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Measurements and variances by node, and by level which nodes have a row."""
    if problem.noise is not None:
        with np.load(problem.noise[partition.number]) as noise:
            v = noise["noisy"].astype(np.float64)
        return v, part.by_level(problem.variance), []
    by_column = isinstance(problem.variance, str)
    v, s = _row_values(problem, part, table)
    matched = []
    for level, source in enumerate(problem.measured):
        here = part.nodes(level)
        if source is None:
            s[here] = np.inf
            matched.append(np.zeros(part.sizes[level], bool))
            continue
        row, found = source.rows(
            part, table, problem.levels[:level], problem.columns[problem.height :]
        )
        missing = np.ones(part.sizes[level], bool)
        missing[row] = False
        v[here][row] = numbers(found, problem.value, source.argument)
        if by_column:
            s[here][row] = variances(found, problem.variance, source.argument)
        s[here][missing] = np.inf
        matched.append(~missing)
    _mark_unmeasured(v[: part.n_inner], s[: part.n_inner])
    return v, s, matched


def _row_values(problem: Problem, part: Part, table: Any) -> tuple[np.ndarray, np.ndarray]:
    """Measurements and variances by node, those of the rows filled in."""
    by_column = isinstance(problem.variance, str)
    v = np.zeros(part.n)
    s = part.by_level([np.inf] * (part.height + 1) if by_column else problem.variance)
    v[part.rows] = numbers(table, problem.value, "leaves")
    if by_column:
        s[part.rows] = variances(table, problem.variance, "leaves")
    _mark_unmeasured(v[part.rows], s[part.rows])
    return v, s


def _mark_unmeasured(v: np.ndarray, s: np.ndarray) -> None:
    """What is missing has an infinite variance, in place."""
    missing = np.isnan(v)
    if missing.any():
        s[missing] = np.inf
        v[missing] = 0


def load(
    problem: Problem, partition: Partition, table: Any = None
) -> tuple[Part, np.ndarray, np.ndarray]:
    """Tree, measurements and variances of a partition."""
    with np.load(problem.file("part", partition.number)) as kept:
        part = Part([kept[f"begin{k}"] for k in range(problem.height)], int(kept["rows"]))
        v, s = kept["v"], kept["s"]
    if v.size == part.n:
        return part, v, s
    if problem.noise is not None:
        return part, *load_values(problem, partition, part, table)[:2]
    above_v, above_s = v, s
    v, s = _row_values(problem, part, table)
    v[: part.n_inner], s[: part.n_inner] = above_v, above_s
    return part, v, s


# --------------------------------------------------------------------------- upward


def up(problem: Problem, partition: Partition) -> Told:
    """Read a partition, and tell what is known of the children of its path nodes."""
    table = load_rows(problem, partition)
    part, first, last = find_part(problem, partition, table)
    v, s, matched = load_values(problem, partition, part, table)
    del table
    # Later tasks need not look for nodes again; where there is one only, it reads the rows again.
    begin = {f"begin{k}": starts for k, starts in enumerate(part.begin)}
    kept = slice(None) if problem.keeps else slice(part.n_inner)
    rows = np.array(part.sizes[-1])
    save(problem.file("part", partition.number), v=v[kept], s=s[kept], rows=rows, **begin)
    groups = tuple((g.level, g.side) for g in part.groups)
    ends = Ends(first, last, partition.start, part.sizes[-1], part.sizes, groups)
    told = tell(problem, part, v, s)
    arrow().default_memory_pool().release_unused()
    paths = tuple((bool(m[0]), bool(m[-1])) for m in matched)
    inside = tuple(int(np.count_nonzero(m[1:-1])) for m in matched)
    return Told(ends, part.at_paths(v), part.at_paths(s), inside, paths, told)


def tell(problem: Problem, part: Part, v: np.ndarray, s: np.ndarray) -> dict[Where, np.ndarray]:
    """For each group the sums of its estimates and variances, and its least sum with bounds.

    The path nodes and what is elsewhere do not matter to nodes below: they count as measured, so
    that their values are determined.
    """
    s = s.copy()
    s[part.extra_leaves] = 1.0
    for level in range(part.height):
        s[[part.path_node(level, side) for side in part.sides(level)]] = 1.0
    post = Consistency(part.tree, {"node": s}, threads=1)
    nodes = [np.arange(g.start, g.stop) for g in part.groups]
    bounds = lower_bounds(part) if problem.nonnegative else None
    told = post.messages(v, np.concatenate(nodes), lower=bounds)
    found, start = {}, 0
    for g in part.groups:
        here = slice(start, start + g.stop - g.start)
        start = here.stop
        z, q = told.estimate[here], told.variance[here]
        least = -np.inf if told.least is None else _least_sum(z, q, told.least[here])
        found[g.level, g.side] = np.array([np.sum(z), np.sum(q), least])
    return found


def _least_sum(z: np.ndarray, q: np.ndarray, least: np.ndarray) -> float:
    """The least sum of siblings for which none of them is below its least value."""
    lack, variance = least - z, float(np.sum(q))
    if variance == np.inf:
        # Only what is known by nothing else takes a difference.
        q = np.where(np.isinf(q), 1.0, 0.0)
        variance = float(np.sum(q))
    moves = q > 0
    need = float(np.max(lack[moves] / q[moves], initial=-np.inf))
    if np.any(lack[~moves] > 0):
        need = np.inf
    return float(np.sum(z)) + variance * need if variance > 0 else need


def lower_bounds(part: Part) -> np.ndarray:
    """Zero for rows, none for what is elsewhere; by leaf in the order of the tree's leaves."""
    bounds = np.zeros(part.n)
    bounds[part.extra_leaves] = -np.inf
    return bounds[part.n_inner :]


def surround(
    part: Part, v: np.ndarray, s: np.ndarray, outside: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Measurements and variances with what the driver tells.

    That is, by level and side, an estimate and its variance for all that is elsewhere, and the
    measurement and its variance at the path node itself.
    """
    v, s = v.copy(), s.copy()
    there = part.elsewhere >= 0
    v[part.elsewhere[there]] = np.where(np.isinf(outside[there][:, 1]), 0, outside[there][:, 0])
    s[part.elsewhere[there]] = usable(outside[there][:, 1])
    put(part, v, outside[:, :, 2])
    put(part, s, outside[:, :, 3])
    return v, s


# --------------------------------------------------------------------------- bounds


def _hold(part: Part, v: np.ndarray, s: np.ndarray, held: np.ndarray) -> None:
    """Make rows known to be zero, in place."""
    v[part.rows][held] = 0
    s[part.rows][held] = 0


def _load_held(name: str | None) -> np.ndarray:
    if name is None:
        return np.zeros(0, np.int64)
    with np.load(name) as arrays:
        return arrays["held"]


def enter(
    problem: Problem, partition: Partition, outside: np.ndarray, before: str | None, turn: int
) -> tuple[str, int, dict[Where, np.ndarray]]:
    """Hold the rows that fall below zero while all that is elsewhere stays as it is.

    Returns the file with the held rows, how many of them are new, and the messages with them.
    That they stay held is right: a row below zero in the solution with some rows held is zero in
    the optimum, whatever rows elsewhere will be held.
    """
    part, v, s = load(problem, partition)
    old = _load_held(before)
    _hold(part, v, s, old)
    noisy, variance = surround(part, v, s, outside)
    post = Consistency(part.tree, {"node": variance}, threads=1)
    x = post.project(noisy, lower=lower_bounds(part))
    held = np.flatnonzero(x[part.rows] <= 0)
    _hold(part, v, s, held)
    name = problem.file(f"held{turn}", partition.number)
    save(name, held=held)
    return str(name), held.size - old.size, tell(problem, part, v, s)


# --------------------------------------------------------------------------- downward


class Final(NamedTuple):
    """What the driver tells a partition at the end.

    Attributes
    ----------
    outside : array
        What :func:`surround` takes, by level and side.
    plain : array
        The same without bounds, which standard errors and estimates belong to.
    path : array
        Values of the path nodes.
    plain_path : array
        The same without bounds.
    path_error : array
        Their standard errors.
    held : str or None
        File with the rows that are held at zero.
    skips_first : array of bool
        By level, whether the first node is written by another partition.
    levels : tuple of int
        Levels to be written.
    """

    outside: np.ndarray
    plain: np.ndarray
    path: np.ndarray
    plain_path: np.ndarray
    path_error: np.ndarray
    held: str | None
    skips_first: np.ndarray
    levels: tuple[int, ...]


class Columns(NamedTuple):
    """Results of a partition by node."""

    value: np.ndarray
    error: np.ndarray | None
    estimate: np.ndarray | None


def down(problem: Problem, partition: Partition, final: Final) -> Any:
    """Values of all nodes of a partition, written, or kept to be rounded.

    Returns the rows written per level, or what each group can be rounded to.
    """
    table = None if problem.keeps else load_rows(problem, partition)
    part, v, s = load(problem, partition, table)
    columns = _solve(problem, part, v, s, final)
    if not problem.integer:
        if table is None:
            table = read(partition.pieces, problem.levels, problem.levels[:-1])
        return publish(problem, partition, part, table, columns, final, v, s)
    kept = {name: x for name, x in columns._asdict().items() if x is not None}
    save(problem.file("values", partition.number), **kept)
    return _units(part, columns.value)


def _solve(problem: Problem, part: Part, v: np.ndarray, s: np.ndarray, final: Final) -> Columns:
    error = estimate = None
    wants_estimate = problem.noise is not None and problem.keeps
    x: Any = None
    if problem.std_error or wants_estimate or not problem.nonnegative:
        noisy, variance = surround(part, v, s, final.plain)
        post = Consistency(part.tree, {"node": variance}, threads=1)
        undetermined = np.isinf(s[part.rows]).any()
        if problem.std_error or undetermined:
            error = np.sqrt(post.node_variance())
            _refuse_undetermined(part, error)
            put(part, error, final.path_error)
            error = error if problem.std_error else None
        if wants_estimate or not problem.nonnegative:
            x = post.project(noisy)
            del noisy, variance, post
        if wants_estimate:
            estimate = x
            put(part, estimate, final.plain_path)
    if problem.nonnegative:
        # In copies: the measurements themselves are yet to be written.
        noisy, variance = surround(part, v, s, final.outside)
        _hold(part, noisy, variance, _load_held(final.held))
        x = Consistency(part.tree, {"node": variance}, threads=1).project(noisy)
        # Rounding must not make anything negative that is not.
        np.maximum(x[: part.n_inner], 0, out=x[: part.n_inner])
        np.maximum(x[part.rows], 0, out=x[part.rows])
    if wants_estimate and not problem.nonnegative:
        x = x.copy()
    if not problem.integer:
        put(part, x, final.path)
    return Columns(x, error, estimate)


def put(part: Part, x: np.ndarray, path: np.ndarray) -> None:
    """Values of path nodes as the driver has them: the same in all partitions."""
    for level in range(part.height):
        for side in part.sides(level):
            x[part.path_node(level, side)] = path[level, side]


def _refuse_undetermined(part: Part, error: np.ndarray) -> None:
    loose = np.flatnonzero(np.isinf(error[part.rows]))
    if loose.size:
        check.fail(
            "value",
            f"must determine every node; row {loose[0]} of a partition has no value, and none "
            "follows from the others.",
        )


# --------------------------------------------------------------------------- whole numbers


def _units(part: Part, x: np.ndarray) -> dict[Where, Units]:
    """What each group can be rounded to."""
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
    final: Final,
    whole: np.ndarray,
    groups: dict[Where, int],
) -> Any:
    """Hand out the units that the driver gave to the groups of a partition, and write.

    `whole` are the numbers of the path nodes, by level and side; `groups` those of the groups.
    """
    part, v, s = load(problem, partition)
    with np.load(problem.file("values", partition.number)) as kept:
        found = {name: kept[name] for name in kept.files}
    columns = Columns(found["value"], found.get("error"), found.get("estimate"))
    x, given = columns.value, {}
    for level in range(part.height):
        for side in part.sides(level):
            given[part.path_node(level, side)] = int(whole[level, side])
    for level in range(part.height):
        for side in part.sides(level):
            rest = int(whole[level, side]) - groups.get((level, side), 0)
            # What is elsewhere takes the rest; path nodes that are children have theirs already.
            rest -= sum(given[c] for c in _path_children(part, level, side))
            x[part.elsewhere[level, side]] = rest
    rounded = round_values(part.tree, x, given=given)
    table = read(partition.pieces, problem.levels, problem.levels[:-1])
    done = columns._replace(value=rounded)
    return publish(problem, partition, part, table, done, final, v, s)


def _path_children(part: Part, level: int, side: int) -> list[int]:
    """Children of a path node that are path nodes."""
    if level + 1 == part.height:
        return []
    if part.has_two(level):
        return [part.path_node(level + 1, side)]
    return sorted({part.path_node(level + 1, below) for below in part.sides(level + 1)})


# --------------------------------------------------------------------------- writing


def publish(
    problem: Problem,
    partition: Partition,
    part: Part,
    table: Any,
    columns: Columns,
    final: Final,
    v: np.ndarray,
    s: np.ndarray,
) -> dict[int, int]:
    """Write the nodes that belong to this partition, one file per level; returns their numbers."""
    pa = arrow()
    written = {}
    put(part, v, final.plain[:, :, 2])
    put(part, s, final.plain[:, :, 3])
    starts: Any = np.arange(part.sizes[-1])
    rows_of = {}
    for level in reversed(range(part.height)):
        starts = starts[part.begin[level]]
        rows_of[level] = starts
    for level in final.levels:
        inner = level < part.height
        skip = int(inner and final.skips_first[level])
        nodes = part.nodes(level)
        here = slice(nodes.start + skip, nodes.stop)
        if here.start >= here.stop:
            continue
        names = list(problem.levels[:level])
        labels = table.select(names)
        if inner:
            labels = labels.take(pa.array(rows_of[level][skip:]))
        found = {name: labels.column(name) for name in names}
        found[problem.value] = pa.array(columns.value[here])
        if problem.noise is not None:
            # What was not measured has no noisy count.
            noisy = v[here].astype(np.int64)
            found[problem.names["noisy"]] = pa.array(noisy, mask=np.isinf(s[here]))
        if columns.estimate is not None:
            found[problem.names["estimate"]] = pa.array(columns.estimate[here])
        if columns.error is not None:
            found[problem.names["error"]] = pa.array(columns.error[here])
        folder = Path(problem.out) / problem.names[f"level {level}"]
        write(pa.table(found), folder / f"part-{partition.number:05d}.parquet", names)
        written[level] = here.stop - here.start
    pa.default_memory_pool().release_unused()
    return written
