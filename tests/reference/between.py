"""Random problems with bounds on any nodes, and their optima from dense matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

import gmtree as gm
import reference


@dataclass(frozen=True)
class Problem:
    """One column of measurements with bounds by node."""

    tree: gm.Tree
    v: np.ndarray
    s: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def solve(self, **options):
        bounds = {"lower": {"node": self.lower}, "upper": {"node": self.upper}}
        return gm.Consistency(self.tree, {"node": self.s}).project(self.v, **bounds, **options)

    @property
    def sums(self) -> np.ndarray:
        """Row i marks the leaves whose sum is node i."""
        return reference.aggregate(self.tree.parent, np.eye(self.tree.n_leaves))

    @property
    def measured(self) -> np.ndarray:
        return np.isfinite(self.s)

    def objective(self, x: np.ndarray) -> float:
        used = (self.s > 0) & self.measured
        return float(np.sum((x - self.v)[used] ** 2 / self.s[used]))


def random_problem(rng: np.random.Generator, kind: str, max_n: int = 30) -> Problem:
    """A problem with variances over four decades; some consistent values meet all of its bounds.

    About half of the nodes have a lower bound, and half have an upper bound. If `kind` is "exact",
    some nodes are known exactly. If it is "unmeasured", some nodes are not measured. If it is
    "any", both occur.
    """
    n = int(rng.integers(1, max_n + 1))
    tree = gm.shapes.random_recursive(n, rng)
    tree = gm.Tree.from_parents(_renumbered(tree.parent, rng.permutation(n)))
    s = 10.0 ** rng.uniform(-2, 2, n)
    if kind in ("exact", "any"):
        s[rng.random(n) < 0.1] = 0
    if kind in ("unmeasured", "any"):
        s[(rng.random(n) < 0.25) & (s > 0)] = np.inf
        if np.isinf(s[tree.root]):
            s[tree.root] = 1.0
    inside = tree.aggregate(rng.normal(0, 3, tree.n_leaves))
    v = np.where(s == 0, inside, inside + rng.normal(0, 3, n))
    below, above = rng.exponential(2, (2, n)) * (rng.random((2, n)) < 0.9)
    lower = np.where(rng.random(n) < 0.5, inside - below, -np.inf)
    upper = np.where(rng.random(n) < 0.5, inside + above, np.inf)
    return Problem(tree, v, s, lower, upper)


def _renumbered(parent: np.ndarray, number: np.ndarray) -> np.ndarray:
    out = np.full(parent.size, -1)
    out[number] = np.where(parent < 0, -1, number[parent])
    return out


def constraints(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(C, c, E, e) with ``C y <= c`` and ``E y = e`` for the leaves y."""
    A, exact = problem.sums, problem.s == 0
    above, below = np.isfinite(problem.upper), np.isfinite(problem.lower)
    C = np.vstack([A[above], -A[below]])
    c = np.concatenate([problem.upper[above], -problem.lower[below]])
    return C, c, A[exact], problem.v[exact]


def is_feasible(problem: Problem) -> bool:
    """Whether any consistent values meet all bounds and all exactly known values."""
    C, c, E, e = constraints(problem)
    free = [(None, None)] * problem.tree.n_leaves
    found = linprog(np.zeros(len(free)), C, c, E, e, bounds=free)
    return found.status == 0


def infeasible_node(problem: Problem) -> int | None:
    """The last node in canonical order whose subtree has no values within its bounds."""
    tree = problem.tree
    reach: dict[int, tuple[float, float]] = {}
    for i in tree.order[::-1].tolist():
        below = [reach[c] for c in tree.children(i).tolist()]
        low, high = (sum(x) for x in zip(*below, strict=True)) if below else (-np.inf, np.inf)
        own = (problem.v[i], problem.v[i]) if problem.s[i] == 0 else (-np.inf, np.inf)
        low, high = (max(low, own[0], problem.lower[i]), min(high, own[1], problem.upper[i]))
        if low > high + 1e-9:
            return i
        reach[i] = (low, max(low, high))
    return None


def by_clarabel(problem: Problem) -> np.ndarray:
    """The optimum by an interior-point method, to its last digits."""
    import clarabel
    import scipy.sparse as sp

    A, used = problem.sums, (problem.s > 0) & problem.measured
    weighted = A[used].T / problem.s[used]
    C, c, E, e = constraints(problem)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(len(e)), clarabel.NonnegativeConeT(len(c))]
    args = sp.csc_matrix(np.triu(weighted @ A[used])), -weighted @ problem.v[used]
    bounds = sp.csc_matrix(np.vstack([E, C])), np.concatenate([e, c])
    solution = clarabel.DefaultSolver(*args, *bounds, cones, settings).solve()
    return A @ np.array(solution.x)


def optimality_gap(problem: Problem, x: np.ndarray) -> float:
    """The part of the gradient that no multipliers of bounds can cancel, in units of values.

    The gradient is with respect to the leaves. A bound that holds with equality has a multiplier of
    known sign, and an exactly known value has a multiplier of either sign.
    """
    from scipy.optimize import nnls

    A, s = problem.sums, problem.s
    used = (s > 0) & problem.measured
    gradient = A[used].T @ ((x - problem.v)[used] / s[used])
    scale = 1e-11 * max(1.0, float(np.abs(x).max()))
    low, high = x <= problem.lower + scale, x >= problem.upper - scale
    columns = np.hstack([A[s == 0].T, -A[s == 0].T, A[low].T, -A[high].T])
    curvature = A[used].T @ (1 / s[used])
    unit = 1 / np.where(curvature > 0, curvature, 1.0)
    if columns.shape[1] == 0:
        return float(np.abs(gradient * unit).max())
    scaled = columns * unit[:, None]
    size = np.maximum(np.abs(scaled).max(axis=0), 1e-300)
    weights, _ = nnls(scaled / size, gradient * unit, maxiter=10_000)
    return float(np.abs(scaled / size @ weights - gradient * unit).max())
