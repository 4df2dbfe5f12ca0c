"""Every bar that gmtree sets itself, measured in one run.

Bars are ratios of times measured in the same process, mostly to copying a vector as long as the
tree, so that they mean the same on any machine. They are meant for the full sizes: on a small
tree, calls of functions count for more than sweeps, and copying stays within the processor's
cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from gmtree._progress import Progress
from gmtree.bench import trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.report import Check, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import (
    Action,
    best_times,
    copy_ratio,
    copying,
    peak_bytes,
    ratio,
)
from gmtree.consistency import Consistency
from gmtree.convert import adjacency, laplacian
from gmtree.matrix import GenerationMatrix
from gmtree.tree import Tree

PAIRS = 1_000_000
COLUMNS = 8

# The names that most programs use are imported with their modules when they are first asked for.
NAMES = "import gmtree as gm; gm.Tree, gm.GenerationMatrix"
# What a first program does after that.
EXAMPLE = f"""
import numpy as np
{NAMES}
tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
G = gm.GenerationMatrix(tree)
sizes = G.T.solve(np.ones(tree.n))
depth = G.solve(np.ones(tree.n))
"""


class Case(NamedTuple):
    """A tree, and how often to measure."""

    shape: str
    tree: Tree
    times: int

    def at_most(self, claim: str, measured: float, limit: float | None) -> Check:
        """A bar on this tree, or a figure without one."""
        return Check(f"{self.shape}: {claim}", measured, limit)


Measure = Callable[[Case], Iterator[Check]]


def run(settings: Settings) -> Report:
    """Measure all bars; ``gmtree bench peers`` measures those beside other packages."""
    report = Report("bars", "Bars", settings.as_dict())
    times = settings.times(usual=9, quick=3)
    with Progress(sum(map(len, BARS.values())) + 1, "bars") as progress:

        def add(label: str, checks: Iterable[Check]) -> None:
            """Measure, and print each figure as soon as it is known."""
            progress.advance(0, label)
            for check in checks:
                if not settings.is_full_size:
                    check = replace(check, applies=check.about_results)
                report.checks.append(check)
                progress.say(str(check))
            progress.advance(1)

        for shape, measures in BARS.items():
            progress.advance(0, shape)
            case = Case(shape, trees.make(shape, settings.size), times)
            for measure in measures:
                add(f"{shape}: {measure.__name__.replace('_', ' ')}", measure(case))
            del case  # before the next tree is made
        add("import", imports(settings.times(usual=9, quick=1)))
    if not settings.is_full_size:
        report.notes.append("The limits are those of the full sizes; these trees are smaller.")
    return report


# --------------------------------------------------------------------------- sweeps


# Threads to measure with, and how the report calls them: servers and workers have one each.
THREADS = ((None, ""), (1, " with one thread"))

# By shape and number of threads. Where none is named, the figure stands alone.
TRANSPOSED_LIMITS = {
    ("census", None): 1.3,
    ("census", 1): 2.0,
    ("binary", None): 1.7,
    ("grouped", None): 1.7,
}


def sweeps(case: Case) -> Iterator[Check]:
    """Solving with a Generation Matrix, in units of copying."""
    tree, rng = case.tree, np.random.default_rng(0)
    v, out = rng.standard_normal(tree.n), np.empty(tree.n)
    w = rng.uniform(1, 2, tree.n)
    limits: list[tuple[str, float | None]] = []
    actions: list[Action] = []
    for threads, name in THREADS:
        unit = GenerationMatrix(tree, threads=threads)
        weighted = GenerationMatrix(tree, w, w, threads=threads)
        for what, limit, solve in (
            ("solve", 2.0 if threads is None else None, unit.solve),
            ("T.solve", TRANSPOSED_LIMITS.get((case.shape, threads)), unit.T.solve),
            ("weighted solve", 5.0, weighted.solve),
            ("weighted T.solve", 5.0, weighted.T.solve),
        ):
            limits.append((f"{what}, copies{name}", limit))
            actions.append(partial(solve, v, out=out))
    copy, *seconds = best_times([copying(tree.n), *actions], case.times)
    for (claim, limit), each in zip(limits, seconds, strict=True):
        yield case.at_most(claim, each / copy, limit)


def several_columns(case: Case) -> Iterator[Check]:
    """Eight right-hand sides in one sweep, in units of copying as many."""
    tree, rng = case.tree, np.random.default_rng(0)
    V, Out = rng.standard_normal((tree.n, COLUMNS)), np.empty((tree.n, COLUMNS))
    for threads, name in THREADS:
        G = GenerationMatrix(tree, threads=threads)
        copy, down, up = best_times(
            (
                partial(np.copyto, Out, V),
                partial(G.solve, V, out=Out),
                partial(G.T.solve, V, out=Out),
            ),
            min(case.times, 5),
        )
        for what, seconds, limit in (("solve", down, 1.3), ("T.solve", up, 1.6)):
            claim = f"{what} of {COLUMNS} columns, copies of these{name}"
            yield case.at_most(claim, seconds / copy, limit if threads is None else None)


def building(case: Case) -> Iterator[Check]:
    """Tree.from_parents, in units of a stable argsort of the heights; and its memory."""
    tree, times = case.tree, min(case.times, 3)
    numberings = (("shuffled", trees.shuffled, 3.0), ("parents first", trees.depth_first, 1.5))
    for name, renumbered, limit in numberings:
        parent = renumbered(tree)
        built = Tree.from_parents(parent)
        kept = built.nbytes / tree.n
        heights = built.node_height
        cost = ratio(
            partial(Tree.from_parents, parent), partial(np.argsort, heights, kind="stable"), times
        )
        yield case.at_most(f"from_parents, {name}, argsorts", cost, limit)
        yield case.at_most(f"from_parents, {name}, bytes per node kept", kept, 16)
        peak = peak_bytes(partial(Tree.from_parents, parent)) / tree.n
        yield case.at_most(f"from_parents, {name}, bytes per node at peak", peak, 48)


def extreme(case: Case) -> Iterator[Check]:
    """Time per node on a chain or a star, in units of that on a binary tree."""
    is_chain = case.tree.height == case.tree.n
    binary = trees.make("binary", case.tree.n)
    G, B = GenerationMatrix(case.tree), GenerationMatrix(binary)
    (v, out), (w, other) = ((np.ones(n), np.empty(n)) for n in (case.tree.n, binary.n))
    for name, ours, theirs in (
        ("solve", partial(G.solve, v, out=out), partial(B.solve, w, out=other)),
        ("T.solve", partial(G.T.solve, v, out=out), partial(B.T.solve, w, out=other)),
    ):
        cost = ratio(ours, theirs, case.times) * binary.n / case.tree.n
        # A chain is one long dependence: each node waits for the one before.
        yield case.at_most(f"{name} per node, of binary", cost, None if is_chain else 4)


# --------------------------------------------------------------------------- pairs and matrices


def pairs(case: Case) -> Iterator[Check]:
    """A million random pairs of nodes, in units of copying."""
    tree = case.tree
    i, j = np.random.default_rng(1).integers(0, tree.n, (2, PAIRS))
    for name, query in (("lca", tree.lca), ("distance", tree.distance)):
        cost = copy_ratio(partial(query, i, j), tree.n, min(case.times, 5))
        yield case.at_most(f"{name} of a million pairs, copies", cost, 60)

    def prepare() -> None:
        tree._cache.clear()
        tree.lca(0, 0)

    yield case.at_most("preparing for pairs, copies", copy_ratio(prepare, tree.n, 3), 60)


def sparse_matrices(case: Case) -> Iterator[Check]:
    """Laplacian and adjacency, in units of scipy's conversion of the same from COO to CSR."""
    tree = case.tree
    for name, build in (("laplacian", laplacian), ("adjacency", adjacency)):

        def anew(build: Callable[[Tree], object] = build) -> None:
            tree._cache.clear()
            build(tree)

        matrix = build(tree)
        listings = {"by edge": trees.entries_by_edge(matrix, tree), "by row": matrix.tocoo()}
        for listing, coo in listings.items():
            cost = ratio(anew, coo.tocsr, 3)
            yield case.at_most(f"{name}, conversions of entries {listing}", cost, 3)


# --------------------------------------------------------------------------- consistency

PROJECT_LIMITS = {"census": 2.0, "binary": 3.3, "grouped": 2.7}


def projection(case: Case) -> Iterator[Check]:
    """Both stages of consistency, in units of copying; and the memory of the second."""
    tree, times = case.tree, case.times
    v, out = measurements(tree), np.empty(tree.n)
    post = Consistency(tree)
    alone = Consistency(tree, threads=1)
    construct, project, project_alone, copy = best_times(
        (
            partial(Consistency, tree),
            partial(post.project, v, out=out),
            partial(alone.project, v, out=out),
            copying(tree.n),
        ),
        times,
    )
    yield case.at_most("project, copies", project / copy, PROJECT_LIMITS.get(case.shape))
    yield case.at_most("project, copies with one thread", project_alone / copy, None)
    yield case.at_most("construction given the tree, copies", construct / copy, 5)
    peak = peak_bytes(partial(Consistency(tree).project, v, out=out)) / tree.n
    yield case.at_most("project, bytes per node beyond input and output", peak, 24)
    variance = np.random.default_rng(0).uniform(0.5, 2, tree.n)
    weighted = Consistency(tree, variance)
    construct, project, copy = best_times(
        (
            partial(Consistency, tree, variance),
            partial(weighted.project, v, out=out),
            copying(tree.n),
        ),
        times,
    )
    yield case.at_most("project with a variance per node, copies", project / copy, 9)
    yield case.at_most("construction with a variance per node, copies", construct / copy, 5)


def consistent_sums(case: Case) -> Iterator[Check]:
    """Largest |parent - sum of children|, in units of 1e-12 of the sum of the children's sizes."""
    tree, rng = case.tree, np.random.default_rng(3)
    noise = rng.standard_normal(tree.n)
    inputs = {
        "counts": tree.aggregate(rng.integers(0, 100, tree.n_leaves)) + noise,
        "noise alone": noise,
        "1e9 beside 1": np.where(rng.random(tree.n) < 0.01, 1e9, 1.0) * noise,
    }
    post = Consistency(tree)
    for name, v in inputs.items():
        gap = _largest_gap(post, v, post.project(v)) / 1e-12
        claim = f"{case.shape}: parent - sum of children, {name}, in units of 1e-12 of the latter"
        yield Check(claim, gap, 1, about_results=True)


def _largest_gap(post: Consistency, v: np.ndarray, x: np.ndarray) -> float:
    """Largest |parent - sum of children| of x, relative to the sum of the children's sizes.

    The size of a child is the largest of its result x, its measurement v and what is estimated of
    it from below, all in absolute values. Sums are in more than double precision where the
    platform has it.
    """
    tree = post.tree
    start, child = tree._children
    child, first = child[: tree.n - 1], start[tree.internal]
    sums = np.add.reduceat(x[child].astype(np.longdouble), first)
    below = post.messages(abs(v)).estimate
    sizes = np.add.reduceat(np.maximum(np.maximum(abs(v), abs(x)), below)[child], first)
    return float((abs(x[tree.internal] - sums) / sizes).max())


def threads(case: Case) -> Iterator[Check]:
    """Two threads, in units of one."""
    v, out = measurements(case.tree), np.empty(case.tree.n)
    one, two = (Consistency(case.tree, threads=k) for k in (1, 2))
    cost = ratio(partial(two.project, v, out=out), partial(one.project, v, out=out), case.times)
    yield case.at_most("project by two threads, of one", cost, 1.05)


def _census_counts(m: int) -> dict[str, np.ndarray]:
    """Two kinds of counts of the leaves of a census, 40 % of them empty."""
    rng = np.random.default_rng(2)
    empty = rng.random(m) < 0.4
    kinds = {"geometric": rng.geometric(1 / 46, m), "gamma": rng.gamma(0.3, 46 / 0.3, m).round()}
    return {name: np.where(empty, 0, counts).astype(np.int64) for name, counts in kinds.items()}


def nonnegative(case: Case) -> Iterator[Check]:
    """The exact non-negative optimum, in units of a plain projection."""
    tree, rng = case.tree, np.random.default_rng(2)
    out = np.empty(tree.n)
    for kind, counts in _census_counts(tree.n_leaves).items():
        v = tree.aggregate(counts) + rng.laplace(0, 8, tree.n)
        for threads, name in THREADS:
            post = Consistency(tree, threads=threads)
            cost = ratio(
                partial(post.project, v, nonnegative=True, out=out),
                partial(post.project, v, out=out),
                min(case.times, 5),
            )
            yield case.at_most(f"non-negative project of {kind} counts, of project{name}", cost, 6)
        _, info = post.project(v, nonnegative=True, return_info=True)
        yield case.at_most(f"non-negative project of {kind} counts, passes", info.passes, 64)
        claim = f"{case.shape}: violation of optimality for {kind} counts, relative to the largest"
        yield Check(claim, info.violation / abs(v).max(), 1e-9, about_results=True)


# --------------------------------------------------------------------------- fresh processes


def imports(times: int) -> Iterator[Check]:
    """Importing, in units of importing numba; and the first example, in seconds more."""
    # Installed packages have their bytecode on disk; some containers keep Python from writing it.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def fresh(code: str) -> Callable[[], object]:
        return partial(subprocess.run, [sys.executable, "-c", code], check=True, env=settings)

    ours, names, numba, example = best_times(
        [fresh(code) for code in ("import gmtree", NAMES, "import numba", EXAMPLE)], times
    )
    yield Check("import gmtree, of import numba", ours / numba, 1.15)
    yield Check(
        "import gmtree with Tree and GenerationMatrix, of import numba", names / numba, 1.15
    )
    yield Check("first example, seconds beyond the import", example - names, 0.6)


BARS: dict[str, tuple[Measure, ...]] = {
    "census": (
        sweeps,
        several_columns,
        building,
        pairs,
        projection,
        threads,
        nonnegative,
        consistent_sums,
    ),
    "binary": (sweeps, several_columns, building, projection, threads, consistent_sums),
    "grouped": (sweeps, several_columns, building, projection, threads, consistent_sums),
    "chain": (extreme, consistent_sums),
    "star": (extreme, consistent_sums),
    "caterpillar": (consistent_sums,),
    "random": (sparse_matrices, consistent_sums),
}
