"""Bounded optima where they are hard: worst cases, other variances and bounds, and a QP solver.

Run as a script, in the directory above,

    python -m benchmarks.nonnegative

it prints all ratios, and our objective beside that of Clarabel: it must never be larger.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

import gmtree as gm
from gmtree.bench import trees
from gmtree.bench.comparisons import COMPARISONS, NONNEGATIVE, measurements
from gmtree.bench.timing import ratio

from . import LARGEST, unit

PLAIN = "times a plain projection"


class Bounded:
    """A bounded projection beside a plain one of the same measurements."""

    def prepare(self, tree: gm.Tree, v: np.ndarray, s: np.ndarray | None, **options) -> None:
        self.post = gm.Consistency(tree, s)
        self.v, self.out, self.options = v, np.zeros(tree.n), options
        # Compiles.
        self.project()

    def project(self) -> None:
        self.post.project(self.v, out=self.out, **self.options)

    def plain(self) -> None:
        self.post.project(self.v, out=self.out)

    def ratio(self) -> float:
        return ratio(self.project, self.plain, times=3)

    def passes(self) -> int:
        return self.post.project(self.v, return_info=True, **self.options)[1].passes


Case = tuple[gm.Tree, np.ndarray, np.ndarray | None]


def star(nodes: int) -> Case:
    """Projection onto a simplex, where rounds are as many as they can be."""
    return gm.shapes.star(nodes), np.r_[1.0, trees.held_slowly(nodes - 1, 0.1)], None


def spider(nodes: int) -> Case:
    """The same with each leaf below a node of its own, so that rounds become passes."""
    m = nodes // 2
    v = trees.held_slowly(m, 0.1)
    return gm.shapes.from_fanouts([[m], [1] * m]), np.r_[1.0, v, v], None


def _unmeasured(tree: gm.Tree, share: float) -> Case:
    s = np.where(tree.child_count > 0, np.inf, 1.0)
    s[tree.root] = 1.0
    v = np.zeros(tree.n)
    rng = np.random.default_rng(0)
    v[tree.leaves] = rng.permutation(trees.held_slowly(tree.n_leaves, share))
    return tree, v, s


def caterpillar(nodes: int) -> Case:
    """A star drawn out: one large family in effect, as deep as can be."""
    return _unmeasured(gm.shapes.caterpillar(nodes), 0.3)


def binary(nodes: int) -> Case:
    """The same as a binary tree."""
    return _unmeasured(trees.make("binary", nodes), 0.3)


def zeros(nodes: int) -> Case:
    """Nothing but noise, which leaves hardly anything above zero."""
    tree = trees.make("caterpillar", nodes)
    return tree, np.random.default_rng(0).laplace(0, 8, tree.n), None


WORST: dict[str, Callable[[int], Case]] = {
    f.__name__: f for f in (star, spider, caterpillar, binary, zeros)
}


class WorstCases(Bounded):
    """Families on which the set of held leaves grows slowly."""

    params = (tuple(WORST), LARGEST)
    param_names = ("case", "nodes")
    timeout = 600

    def setup(self, case: str, nodes: int) -> None:
        self.prepare(*WORST[case](nodes), nonnegative=True)

    def time_nonnegative(self, case: str, nodes: int) -> None:
        self.project()

    @unit(PLAIN)
    def track_nonnegative(self, case: str, nodes: int) -> float:
        return self.ratio()

    @unit("passes")
    def track_passes(self, case: str, nodes: int) -> int:
        return self.passes()


class Settings(Bounded):
    """Other variances and other bounds, on census-shaped counts."""

    params = (("equal", "per node", "known", "not measured", "bounds", "no bounds"), LARGEST)
    param_names = ("setting", "nodes")

    def setup(self, setting: str, nodes: int) -> None:
        tree = trees.make("census", nodes)
        rng = np.random.default_rng(1)
        v, s = measurements(tree), None
        options: dict = {"nonnegative": True}
        if setting == "per node":
            s = rng.uniform(1, 2, tree.n)
        elif setting == "known":
            # The states, as in a census.
            s = np.where(tree.depth == 2, 0.0, 1.0)
            v[tree.depth == 2] = np.maximum(v[tree.depth == 2], 0)
        elif setting == "not measured":
            s = np.where((tree.depth % 2 == 0) & (tree.child_count > 0), np.inf, 1.0)
        elif setting == "bounds":
            options = {"lower": rng.integers(0, 3, tree.n_leaves)}
        elif setting == "no bounds":
            options = {"lower": -np.inf}
        self.prepare(tree, v, s, **options)

    def time_bounded(self, setting: str, nodes: int) -> None:
        self.project()

    @unit(PLAIN)
    def track_bounded(self, setting: str, nodes: int) -> float:
        return self.ratio()


# --------------------------------------------------------------------------- objectives


def objectives(nodes: int) -> tuple[float, float, float]:
    """(ours, Clarabel's, its largest leaf below zero), each objective at consistent values.

    The solver meets its constraints only nearly. Its leaves are summed up anew, so that both
    sides are consistent; leaves it leaves below zero make its problem easier, not harder.
    """
    comparison = next(c for c in COMPARISONS if c.task == NONNEGATIVE and c.peer == "Clarabel")
    tree = trees.make("census", nodes).canonical()
    pair, v = comparison.prepare(tree), measurements(tree)
    ours = pair.ours()
    theirs = np.asarray(pair.theirs())[tree.leaves]
    feasible = tree.aggregate(np.maximum(theirs, 0.0))
    mine, other = (float(np.sum((x - v) ** 2)) for x in (ours, feasible))
    return mine, other, float(max(0.0, -theirs.min()))


def main() -> None:
    for case in (WorstCases, Settings):
        for params in product(*case.params):
            benchmark = case()
            benchmark.setup(*params)
            for name in dir(case):
                if name.startswith("track_"):
                    track = getattr(benchmark, name)
                    number = track(*params)
                    print(f"{params[0]:14} {params[1]:>10,} {number:8.2f} {track.unit}", flush=True)
    for nodes in (1_000, 10_000, 100_000):
        ours, theirs, below = objectives(nodes)
        print(
            f"{nodes:>9,} nodes: objective {ours:.12g}, Clarabel {theirs:.12g}, "
            f"{theirs - ours:.1e} more (leaves down to -{below:.0e})",
            flush=True,
        )
        if ours > theirs:
            raise SystemExit("our objective is larger")


if __name__ == "__main__":
    main()
