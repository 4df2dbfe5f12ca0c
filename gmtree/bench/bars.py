"""All limits that gmtree sets for its own speed and memory ("bars"), measured in one run.

Bars are ratios of times measured in the same process, so that they mean the same on any machine.
The unit is mostly the time to copy a vector with one entry per node. Bars apply to the full sizes:
on a small tree, calls of functions take longer than sweeps, and copying stays within the
processor's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gmtree.bench import trees
from gmtree.bench.comparisons import measurements
from gmtree.bench.report import Check, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import Action, best_times, copying, peak_bytes
from gmtree.consistency import Consistency
from gmtree.convert import adjacency, laplacian
from gmtree.matrix import GenerationMatrix
from gmtree.tree import Tree

PAIRS = 1_000_000
COLUMNS = 8

# The names that most programs use. Their modules are imported when a name is first used.
NAMES = "import gmtree as gm; gm.Tree, gm.GenerationMatrix"
# A first program after these imports.
EXAMPLE = f"""
import numpy as np
{NAMES}
tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
G = gm.GenerationMatrix(tree)
sizes = G.T.solve(np.ones(tree.n))
depth = G.solve(np.ones(tree.n))
"""

# Numbers of threads to measure with, and their names in the report.
THREADS = ((None, ""), (1, " with one thread"))


# For each claim, the action to measure and its limit.
Claims = dict[str, tuple[Action, float]]


class Case(NamedTuple):
    """A tree to measure, its shape, and the number of repetitions."""

    shape: str
    tree: Tree
    times: int

    def check(self, claim: str, measured: float, limit: float, **kw: Any) -> Check:
        """Return a check of a claim about this tree."""
        return Check(f"{self.shape}: {claim}", measured, limit, **kw)

    def ratios(self, unit: Action, bars: Claims, times: int = 9) -> Iterator[Check]:
        """Check some claims: the time of each action, in units of the time of `unit`."""
        actions = [unit, *(action for action, _ in bars.values())]
        one, *seconds = best_times(actions, min(times, self.times))
        for (claim, (_, limit)), each in zip(bars.items(), seconds, strict=True):
            yield self.check(claim, each / one, limit)


Measure = Callable[[Case], Iterator[Check]]


def run(report: Report, settings: Settings) -> None:
    """Measure all bars, except comparisons with other packages (``gmtree bench peers``)."""
    report.expect(sum(map(len, BARS.values())) + 1)
    for shape, measures in BARS.items():
        case = Case(shape, trees.make(shape, settings.size), settings.times(usual=9, quick=3))
        for measure in measures:
            report.step(f"{shape}: {measure.__name__.replace('_', ' ')}")
            report.add(measure(case))
        del case  # before the next tree is made
    report.step("import")
    report.add(imports(settings.times(usual=5, quick=1)))


# --------------------------------------------------------------------------- sweeps

# Limits by shape and number of threads.
TRANSPOSED_LIMITS = {
    ("census", None): 1.3,
    ("census", 1): 2.0,
    ("binary", None): 1.7,
    ("grouped", None): 1.7,
}


def sweeps(case: Case) -> Iterator[Check]:
    """Time of a solve with a Generation Matrix, in units of the time to copy a vector."""
    tree, rng = case.tree, np.random.default_rng(0)
    v, out = rng.standard_normal(tree.n), np.empty(tree.n)
    w = rng.uniform(1, 2, tree.n)
    bars: Claims = {}
    for threads, name in THREADS:
        unit = GenerationMatrix(tree, threads=threads)
        weighted = GenerationMatrix(tree, w, w, threads=threads)
        for claim, solve, limit in (
            ("solve", unit.solve, None if threads else 2.0),
            ("T.solve", unit.T.solve, TRANSPOSED_LIMITS.get((case.shape, threads))),
            ("weighted solve", weighted.solve, 5.0),
            ("weighted T.solve", weighted.T.solve, 5.0),
        ):
            if limit is not None:
                bars[f"{claim}{name}, in copies"] = (partial(solve, v, out=out), limit)
    yield from case.ratios(copying(tree.n), bars)


def several_columns(case: Case) -> Iterator[Check]:
    """Time of eight right-hand sides in one sweep, in units of the time to copy eight vectors."""
    tree, rng = case.tree, np.random.default_rng(0)
    V, Out = rng.standard_normal((tree.n, COLUMNS)), np.empty((tree.n, COLUMNS))
    G = GenerationMatrix(tree)
    bars: Claims = {
        f"solve of {COLUMNS} columns, in copies of these": (partial(G.solve, V, out=Out), 1.3),
        f"T.solve of {COLUMNS} columns, in copies of these": (partial(G.T.solve, V, out=Out), 1.6),
    }
    yield from case.ratios(partial(np.copyto, Out, V), bars, times=5)


def building(case: Case) -> Iterator[Check]:
    """Time of Tree.from_parents, in units of a stable argsort of the heights, and its memory."""
    numberings = (("shuffled", trees.shuffled, 2.5), ("parents first", trees.depth_first, 1.5))
    for name, renumbered, limit in numberings:
        parent = renumbered(case.tree)
        build = partial(Tree.from_parents, parent)
        built = build()
        kept = built.nbytes / built.n  # before the tree computes its heights and keeps them
        heights = partial(np.argsort, built.node_height, kind="stable")
        claim = f"from_parents, {name}"
        yield from case.ratios(heights, {f"{claim}, in argsorts": (build, limit)}, times=3)
        yield case.check(f"{claim}, bytes per node kept", kept, 16)
        yield case.check(f"{claim}, bytes per node at peak", peak_bytes(build) / built.n, 48)


def extreme(case: Case) -> Iterator[Check]:
    """Time per node on a star, in units of the time per node on a binary tree."""
    n = case.tree.n
    G, B = GenerationMatrix(case.tree), GenerationMatrix(trees.make("binary", n))
    for name, ours, theirs in (("solve", G.solve, B.solve), ("T.solve", G.T.solve, B.T.solve)):
        own, other = (
            partial(solve, np.ones(m), out=np.empty(m))
            for solve, m in ((ours, n), (theirs, B.shape[0]))
        )
        seconds, unit = best_times((own, other), case.times)
        cost = seconds / n / (unit / B.shape[0])
        yield case.check(f"{name} per node, relative to binary", cost, 4)


# --------------------------------------------------------------------------- pairs and matrices


def pairs(case: Case) -> Iterator[Check]:
    """Time of queries about a million random pairs of nodes, in units of the time of a copy."""
    tree = case.tree
    i, j = np.random.default_rng(1).integers(0, tree.n, (2, PAIRS))

    def prepare() -> None:
        tree._cache.clear()
        tree.lca(0, 0)

    bars: Claims = {
        "preparing for pairs, in copies": (prepare, 60),
        "lca of a million pairs, in copies": (partial(tree.lca, i, j), 60),
        "distance of a million pairs, in copies": (partial(tree.distance, i, j), 60),
    }
    yield from case.ratios(copying(tree.n), bars, times=3)


def sparse_matrices(case: Case) -> Iterator[Check]:
    """Time to make the Laplacian and adjacency matrices, in units of scipy's COO-to-CSR time."""
    for name, build in (("laplacian", laplacian), ("adjacency", adjacency)):

        def from_nothing(build: Callable[[Tree], object] = build) -> None:
            case.tree._cache.clear()
            build(case.tree)

        claim = f"{name}, in conversions of the same entries"
        yield from case.ratios(build(case.tree).tocoo().tocsr, {claim: (from_nothing, 3)}, times=3)


# --------------------------------------------------------------------------- consistency

PROJECT_LIMITS = {"census": 2.0, "binary": 2.5, "depth first": 3.75, "grouped": 2.7}


def projection(case: Case) -> Iterator[Check]:
    """Time of both stages of consistency, in units of copying, and memory of the second stage."""
    tree = case.tree
    v, out = measurements(tree), np.empty(tree.n)
    variance = np.random.default_rng(0).uniform(0.5, 2, tree.n)
    post, alone, weighted = (
        Consistency(tree, s, threads=threads)
        for s, threads in ((None, None), (None, 1), (variance, None))
    )
    bars: Claims = {
        "project, in copies": (partial(post.project, v, out=out), PROJECT_LIMITS[case.shape]),
        "construction given the tree, in copies": (partial(Consistency, tree), 5),
        "project with a variance per node, in copies": (partial(weighted.project, v, out=out), 9),
        "construction with a variance per node, in copies": (
            partial(Consistency, tree, variance),
            5,
        ),
    }
    yield from case.ratios(copying(tree.n), bars)
    peak = peak_bytes(partial(Consistency(tree).project, v, out=out)) / tree.n
    yield case.check("project, bytes per node beyond input and output", peak, 24)
    two = Consistency(tree, threads=2)
    claim = "project by two threads, relative to one"
    yield from case.ratios(
        partial(alone.project, v, out=out), {claim: (partial(two.project, v, out=out), 1.05)}
    )


def waiting(case: Case) -> Iterator[Check]:
    """The projection on a chain, in which each node waits for the result of the one before it."""
    tree = case.tree
    project = partial(Consistency(tree).project, measurements(tree), out=np.empty(tree.n))
    yield from case.ratios(copying(tree.n), {"project, in copies": (project, 15)})


def consistent_sums(case: Case) -> Iterator[Check]:
    """Largest |parent - sum of children|, in units of 1e-12 of the scale of the family."""
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
        claim = f"|parent - sum of children| for {name}, in units of 1e-12 of the family"
        yield case.check(claim, gap, 1, about_results=True)


def _largest_gap(post: Consistency, v: np.ndarray, x: np.ndarray) -> float:
    """Largest |parent - sum of children| of x, relative to the scale of the family.

    The scale is a sum of absolute values: the parent's measurement, and for each child the largest
    of its result, its measurement and its estimate from below.
    Sums are in more than double precision if the platform has it.
    """
    tree = post.tree
    start, child = tree._children
    child, first = child[: tree.n - 1], start[tree.internal]
    sums = np.add.reduceat(x[child].astype(np.longdouble), first)
    below = post.messages(abs(v)).estimate
    scale = np.add.reduceat(np.maximum(np.maximum(abs(v), abs(x)), below)[child], first)
    scale += abs(v[tree.internal])
    return float((abs(x[tree.internal] - sums) / scale).max())


def _census_counts(m: int) -> dict[str, np.ndarray]:
    """Two kinds of counts for the leaves of a census, of which 40 % are empty.

    In the kind with a gamma distribution, most counts are far below their mean of 28.
    """
    rng = np.random.default_rng(2)
    empty = rng.random(m) < 0.4
    kinds = {"geometric": rng.geometric(1 / 46, m), "gamma": rng.gamma(0.3, 28 / 0.3, m).round()}
    return {name: np.where(empty, 0, counts).astype(np.int64) for name, counts in kinds.items()}


def nonnegative(case: Case) -> Iterator[Check]:
    """Time of the exact non-negative optimum, in units of a plain projection."""
    tree, rng = case.tree, np.random.default_rng(2)
    out = np.empty(tree.n)
    for kind, counts in _census_counts(tree.n_leaves).items():
        v = tree.aggregate(counts) + rng.laplace(0, 8, tree.n)
        claim = f"non-negative project of {kind} counts"
        for threads, name in THREADS:
            post = Consistency(tree, threads=threads)
            bounded = partial(post.project, v, nonnegative=True, out=out)
            plain = partial(post.project, v, out=out)
            bars: Claims = {f"{claim}{name}, relative to project": (bounded, 5)}
            yield from case.ratios(plain, bars, times=5)
        _, info = post.project(v, nonnegative=True, return_info=True)
        yield case.check(f"{claim}, passes", info.passes, 64)
        violation = info.violation / abs(v).max()
        claim = f"violation of optimality for {kind} counts, relative to the largest value"
        yield case.check(claim, violation, 1e-9, about_results=True)


def bounds(case: Case) -> Iterator[Check]:
    """Time of the optimum with an upper bound on every leaf and bounds on all states."""
    tree, rng = case.tree, np.random.default_rng(2)
    counts = tree.aggregate(_census_counts(tree.n_leaves)["gamma"])
    v, out = counts + rng.laplace(0, 8, tree.n), np.empty(tree.n)
    lower, upper = np.full(tree.n, -np.inf), np.full(tree.n, np.inf)
    upper[tree.leaves] = counts[tree.leaves] + rng.poisson(3, tree.n_leaves)
    states = tree.depth == 2
    lower[states], upper[states] = counts[states] - 5, counts[states] + 5
    post = Consistency(tree)
    for name, least in (("", -np.inf), ("and below ", 0)):
        lower[tree.leaves] = least
        options: dict[str, Any] = {"lower": {"node": lower}, "upper": {"node": upper}}
        bounded = partial(post.project, v, out=out, **options)
        plain, claim = partial(post.project, v, out=out), f"leaves bounded above {name}and states"
        yield from case.ratios(plain, {f"{claim}, relative to project": (bounded, 40)}, times=5)
        peak = peak_bytes(bounded) / tree.n / 8
        yield case.check(f"{claim}, copies in memory beyond input and output", peak, 6)
        _, info = post.project(v, return_info=True, **options)
        violation = info.violation / abs(v).max()
        claim = f"{claim}: violation of optimality, relative to the largest value"
        yield case.check(claim, violation, 1e-9, about_results=True)


# --------------------------------------------------------------------------- fresh processes


def imports(times: int) -> Iterator[Check]:
    """Time of an import, in units of importing numba, and extra seconds of a first example."""
    # Installed packages have bytecode on disk, but some containers prevent Python from writing it.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def fresh(code: str) -> Callable[[], object]:
        return partial(subprocess.run, [sys.executable, "-c", code], check=True, env=settings)

    ours, names, numba, example = best_times(
        [fresh(code) for code in ("import gmtree", NAMES, "import numba", EXAMPLE)], times
    )
    yield Check("import gmtree, relative to import numba", ours / numba, 1.15)
    claim = "import gmtree with Tree and GenerationMatrix, relative to import numba"
    yield Check(claim, names / numba, 1.15)
    yield Check("first example, seconds beyond the import", example - names, 0.6)


LARGE: tuple[Measure, ...] = (sweeps, several_columns, building, projection, consistent_sums)
BARS: dict[str, tuple[Measure, ...]] = {
    "census": (*LARGE, pairs, nonnegative, bounds),
    "binary": LARGE,
    "depth first": (projection,),
    "grouped": LARGE,
    "chain": (waiting, consistent_sums),
    "star": (extreme, consistent_sums),
    "caterpillar": (consistent_sums,),
    "random": (sparse_matrices, consistent_sums),
}
