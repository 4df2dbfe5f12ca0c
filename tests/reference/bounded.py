"""Bounded optima by dense matrices, whole numbers one node at a time, and problems to try them on.

The objective is ``sum (x_i - v_i)^2 / s_i`` over consistent x whose leaves respect their bounds;
``s = 0`` binds x_i to v_i, ``s = inf`` leaves node i out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import ceil, floor

import numpy as np
from scipy.optimize import nnls
from trees import renumber

import gmtree as gm
import reference


@dataclass(frozen=True)
class Problem:
    """One column of measurements; `lower` has one bound per leaf, by ascending number."""

    parent: np.ndarray
    v: np.ndarray
    s: np.ndarray
    lower: np.ndarray

    @property
    def tree(self) -> gm.Tree:
        return gm.Tree.from_parents(self.parent)

    @property
    def sums(self) -> np.ndarray:
        """Row i marks the leaves whose sum is node i."""
        return reference.aggregate(self.parent, np.eye(self.lower.size))

    @property
    def scale(self) -> float:
        """The largest number in the problem."""
        finite = self.lower[np.isfinite(self.lower)]
        return float(max(1.0, np.abs(self.v).max(), np.abs(finite).max(initial=0)))

    def numbered(self, number: np.ndarray) -> Problem:
        """The problem with node i called number[i]; leaves keep their order."""
        parent = renumber(self.parent, number)
        old = [int(np.flatnonzero(number == leaf)[0]) for leaf in reference.leaves(parent)]
        here = reference.leaves(self.parent)
        v, s = np.empty_like(self.v), np.empty_like(self.s)
        v[number], s[number] = self.v, self.s
        lower = self.lower[[here.index(leaf) for leaf in old]]
        return replace(self, parent=parent, v=v, s=s, lower=lower)

    def solve(self, **options) -> np.ndarray:
        return self.solver.project(self.v, lower=self.lower, **options)

    @property
    def solver(self) -> gm.Consistency:
        return gm.Consistency(self.tree, {"node": self.s})


def objective(problem: Problem, x: np.ndarray) -> float:
    """The objective at x, which must keep all exactly known values."""
    used = (problem.s > 0) & np.isfinite(problem.s)
    return float(np.sum((x - problem.v)[used] ** 2 / problem.s[used]))


def with_held(problem: Problem, held: list[int]) -> np.ndarray | None:
    """The optimum with these leaves at their bounds and no bounds for all other leaves.

    By the equations that say so, with a multiplier for each exactly known node. None where
    those cannot be solved.
    """
    A, s = problem.sums, problem.s
    free = [j for j in range(A.shape[1]) if j not in held]
    used, known = (s > 0) & np.isfinite(s), s == 0
    fixed = np.zeros(A.shape[1])
    fixed[held] = problem.lower[held]
    rest = problem.v - A @ fixed
    H = A[np.ix_(used, free)].T / s[used]
    E = A[np.ix_(known, free)]
    zero = np.zeros((known.sum(), known.sum()))
    matrix = np.block([[H @ A[np.ix_(used, free)], E.T], [E, zero]])
    right = np.concatenate([H @ rest[used], rest[known]])
    # Equations of different units are solved as precisely when their largest factors are one.
    size = np.sqrt(np.maximum(abs(matrix).max(axis=1, initial=0), 1e-300))
    y = np.linalg.lstsq(matrix / np.outer(size, size), right / size, rcond=1e-12)[0] / size
    if np.abs(matrix @ y - right).max(initial=0) > 1e-8 * max(1, np.abs(right).max(initial=0)):
        return None
    fixed[free] = y[: len(free)]
    return A @ fixed


def active_set(problem: Problem) -> np.ndarray:
    """Hold the leaf that is farthest below its bound, one at a time, until no leaf is below."""
    leaves = reference.leaves(problem.parent)
    held: list[int] = []
    while True:
        x = with_held(problem, held)
        assert x is not None
        short = x[leaves] - problem.lower
        short[held] = 0
        # Exactly known leaves cannot move, whatever rounding makes of them.
        short[problem.s[leaves] == 0] = 0
        if short.min() >= -1e-11 * problem.scale:
            return x
        held.append(int(short.argmin()))


def brute_force(problem: Problem) -> np.ndarray:
    """The best feasible optimum over all sets of leaves held at their bounds."""
    leaves = reference.leaves(problem.parent)
    can = [j for j in range(len(leaves)) if np.isfinite(problem.lower[j])]
    best = None
    for k in range(len(can) + 1):
        for held in combinations(can, k):
            x = with_held(problem, list(held))
            if x is None or (x[leaves] < problem.lower - 1e-9 * problem.scale).any():
                continue
            if best is None or objective(problem, x) < objective(problem, best):
                best = x
    assert best is not None
    return best


def optimality_gap(problem: Problem, x: np.ndarray) -> float:
    """The part of the gradient that no multipliers can cancel, by leaf, in units of values.

    The gradient by the leaves must be a sum of multipliers of exactly known nodes, of any sign,
    and of leaves at their bounds, not negative: a question for non-negative least squares.
    """
    A, s = problem.sums, problem.s
    leaves = reference.leaves(problem.parent)
    used, known = (s > 0) & np.isfinite(s), s == 0
    gradient = A[used].T @ ((x - problem.v)[used] / s[used])
    # A leaf without room may be rounded to just above its bound.
    at_bound = x[leaves] <= problem.lower + 1e-12 * problem.scale
    # Rows in units of values: how far a leaf alone would move.
    curvature = A[used].T @ (1 / s[used])
    unit = 1 / np.where(curvature > 0, curvature, 1.0)
    columns = np.hstack([A[known].T, -A[known].T, np.eye(len(leaves))[:, at_bound]])
    scaled = columns * unit[:, None]
    if scaled.shape[1] == 0:
        return float(np.abs(gradient * unit).max())
    size = np.maximum(np.abs(scaled).max(axis=0, initial=0), 1e-300)
    weights, _ = nnls(scaled / size, gradient * unit, maxiter=10_000)
    return float(np.abs(scaled / size @ weights - gradient * unit).max())


def by_nnls(problem: Problem) -> np.ndarray:
    """The optimum by scipy, if all variances are positive and finite."""
    A, weight = problem.sums, 1 / np.sqrt(problem.s)
    shifted = (problem.v - A @ problem.lower) * weight
    above, _ = nnls(A * weight[:, None], shifted, maxiter=10_000)
    return A @ (above + problem.lower)


def simplex_star(v: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The non-negative optimum on a star, exactly: leaves in the order in which they turn 0.

    With a multiplier d each leaf is ``max(0, v + s d)``, and the root ``v_0 - s_0 d`` is their sum.
    """
    exact_v, exact_s = [Fraction(float(a)) for a in v], [Fraction(float(a)) for a in s]
    order = sorted(range(1, len(v)), key=lambda i: exact_v[i] / exact_s[i], reverse=True)
    total, variance = Fraction(0), exact_s[0]
    d = exact_v[0] / exact_s[0]
    for i in order:
        if exact_v[i] + exact_s[i] * d <= 0:
            break
        total += exact_v[i]
        variance += exact_s[i]
        d = (exact_v[0] - total) / variance
    x = [max(Fraction(0), a + b * d) for a, b in zip(exact_v, exact_s, strict=True)]
    x[0] = sum(x[1:], Fraction(0))
    return np.array([float(a) for a in x])


# --------------------------------------------------------------------------- whole numbers


def whole_ranges(parent: np.ndarray, x: np.ndarray) -> dict[int, tuple[int, int]]:
    """Least and most whole number of each node: floor and ceiling, within the children's sums."""
    found: dict[int, tuple[int, int]] = {}

    def fill(i: int) -> tuple[int, int]:
        low, high = floor(x[i]), ceil(x[i])
        below = [fill(c) for c in reference.children(parent, i)]
        if below:
            low = max(low, sum(a for a, _ in below))
            high = min(high, sum(b for _, b in below))
        assert low <= high
        found[i] = (low, high)
        return found[i]

    fill(reference.root(parent))
    return found


def round_largest(parent: np.ndarray, x: np.ndarray) -> list[int]:
    """Give units to the children with the largest fractions, in ties to the smallest number."""
    ranges = whole_ranges(parent, x)
    out = [ranges[i][0] for i in range(len(parent))]

    def fraction(i: int) -> int:
        return floor((Fraction(float(x[i])) - out[i]) * 2**30 + Fraction(1, 2))

    def share(i: int) -> None:
        below = reference.children(parent, i)
        units = out[i] - sum(out[c] for c in below)
        takers = [c for c in below if ranges[c][1] > ranges[c][0]]
        for c in sorted(takers, key=lambda c: (-fraction(c), c))[:units]:
            out[c] += 1
        for c in below:
            share(c)

    top = reference.root(parent)
    if ranges[top][1] > ranges[top][0] and fraction(top) >= 2**29:
        out[top] += 1
    share(top)
    return out


# --------------------------------------------------------------------------- problems

# Kinds of variances for `random_problem`; those of the first group are positive and finite.
POSITIVE = ("equal", "weighted", "wide")
KINDS = (*POSITIVE, "known", "unmeasured", "any")


def random_problem(rng: np.random.Generator, max_n: int = 30, kind: str = "any") -> Problem:
    """Small counts with noise on a random tree; variances and bounds by `kind`.

    If `kind` is "known", some nodes are known exactly. If it is "unmeasured", some nodes are not
    measured. If it is "any", both occur. Half of the problems have bounds other than 0.
    """
    n = int(rng.integers(1, max_n + 1))
    parent = gm.shapes.random_recursive(n, rng).parent.astype(np.int64)
    if rng.random() < 0.5:
        parent = renumber(parent, rng.permutation(n))
    tree = gm.Tree.from_parents(parent)
    lower = np.zeros(tree.n_leaves)
    if rng.random() < 0.5:
        lower = rng.choice([-np.inf, -2.0, -0.5, 0.0, 0.25, 3.0], tree.n_leaves)
        if kind in POSITIVE:
            lower = rng.normal(0, 2, tree.n_leaves)
    if kind == "equal":
        s = np.ones(n)
    elif kind == "wide":
        s = 10.0 ** rng.uniform(-2, 2, n)
    else:
        s = rng.uniform(0.1, 10, n)
    true = np.maximum(rng.poisson(1, tree.n_leaves), lower)
    v = tree.aggregate(true)
    if kind in ("known", "any"):
        s[rng.random(n) < 0.2] = 0
    if kind in ("unmeasured", "any"):
        s[(rng.random(n) < 0.3) & (s > 0)] = np.inf
        if np.isinf(s[tree.root]):
            s[tree.root] = 1.0
    v = np.where(s == 0, v, v + rng.normal(0, 3, n))
    return Problem(parent, v, s, lower)


def random_problems(count: int, seed: int, **options) -> Iterator[Problem]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield random_problem(rng, **options)


def noisy_counts(tree: gm.Tree, rng: np.random.Generator, zeros: float = 0.4) -> np.ndarray:
    """Noisy counts, many of which are zero without the noise."""
    counts = np.where(rng.random(tree.n_leaves) < zeros, 0, rng.geometric(0.1, tree.n_leaves))
    return tree.aggregate(counts) + rng.laplace(0, 8, tree.n)
