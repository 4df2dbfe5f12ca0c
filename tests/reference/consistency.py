"""Optimal consistent values and covariances in exact rational arithmetic; random problems.

Nothing here knows about sweeps: the optimum is the solution of the linear equations that say
that a quadratic function has its minimum under linear constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from trees import parents

import gmtree as gm
import reference

# Stands for "not measured", and is so large that variances that depend on it stand out.
HUGE = Fraction(10) ** 60


def leaf_sums(parent: Sequence[int]) -> list[list[int]]:
    """Row i tells which leaves, by ascending number, node i is the sum of."""
    leaves = reference.leaves(parent)
    rows = [[0] * len(leaves) for _ in parent]
    for j, leaf in enumerate(leaves):
        for a in reference.ancestors(parent, leaf):
            rows[a][j] = 1
    return rows


def solve(rows: list[list[Fraction]], right: list[list[Fraction]]) -> list[list[Fraction]]:
    """A solution of consistent linear equations, for several right-hand sides."""
    table = [list(a) + list(b) for a, b in zip(rows, right, strict=True)]
    columns = len(rows[0])
    pivots: list[int] = []
    for j in range(columns):
        k = next((i for i in range(len(pivots), len(table)) if table[i][j] != 0), None)
        if k is None:
            continue
        r = len(pivots)
        table[r], table[k] = table[k], table[r]
        table[r] = [x / table[r][j] for x in table[r]]
        for i in range(len(table)):
            factor = table[i][j]
            if i != r and factor != 0:
                table[i] = [x - factor * y for x, y in zip(table[i], table[r], strict=True)]
        pivots.append(j)
    assert not any(any(row[columns:]) for row in table[len(pivots) :]), "contradiction"
    out = [[Fraction(0)] * len(right[0]) for _ in range(columns)]
    for row, j in zip(table, pivots, strict=False):
        out[j] = row[columns:]
    return out


def estimates(
    parent: Sequence[int], variance: Sequence[Fraction], values: list[list[Fraction]]
) -> list[list[Fraction]]:
    """The optimum for each column of `values`; variance 0 binds, all others are positive.

    Minimise ``sum (x_i - v_i)^2 / s_i`` over the leaves, with a multiplier for each node that is
    known exactly.
    """
    A = leaf_sums(parent)
    n, m, k = len(parent), len(A[0]), len(values[0])
    free = [i for i in range(n) if variance[i] > 0]
    bound = [i for i in range(n) if variance[i] == 0]
    zeros = [Fraction(0)] * len(bound)
    rows, right = [], []
    for a in range(m):
        weight = {i: A[i][a] / variance[i] for i in free if A[i][a]}
        rows.append(
            [sum((w * A[i][b] for i, w in weight.items()), Fraction(0)) for b in range(m)]
            + [Fraction(A[i][a]) for i in bound]
        )
        right.append(
            [sum((w * values[i][c] for i, w in weight.items()), Fraction(0)) for c in range(k)]
        )
    for i in bound:
        rows.append([Fraction(x) for x in A[i]] + zeros)
        right.append(list(values[i]))
    x = solve(rows, right)[:m]
    return [
        [sum((x[j][c] for j in range(m) if A[i][j]), Fraction(0)) for c in range(k)]
        for i in range(n)
    ]


def fractions(variance: np.ndarray) -> list[Fraction]:
    return [HUGE if np.isinf(s) else Fraction(float(s)) for s in variance]


def project(parent: Sequence[int], v: np.ndarray, variance: np.ndarray) -> list[Fraction]:
    """The consistent values closest to v, exactly."""
    known = [
        [Fraction(float(x)) if np.isfinite(s) else Fraction(0)]
        for x, s in zip(v, variance, strict=True)
    ]
    return [row[0] for row in estimates(parent, fractions(variance), known)]


def projection(parent: Sequence[int], variance: np.ndarray) -> list[list[Fraction]]:
    """The matrix from measurements to consistent values; exact values count as 0."""
    n, s = len(parent), fractions(variance)
    unit = [[Fraction(int(i == j and s[i] > 0)) for j in range(n)] for i in range(n)]
    return estimates(parent, s, unit)


def covariance(parent: Sequence[int], variance: np.ndarray) -> list[list[Fraction]]:
    """Covariances of all consistent values, ``P S P^T``; huge where undetermined."""
    P, s = projection(parent, variance), fractions(variance)
    n = len(parent)
    return [
        [sum((P[i][k] * s[k] * P[j][k] for k in range(n)), Fraction(0)) for j in range(n)]
        for i in range(n)
    ]


def theta(parent: Sequence[int], variance: np.ndarray) -> list[float]:
    """The theta of each inner node, ascending, by the published recursion."""
    s = fractions(variance)
    inner = reference.internal(parent)
    found: dict[int, Fraction] = {}
    for i in sorted(inner, key=lambda i: reference.heights(parent)[i]):
        found[i] = Fraction(0)
        for c in reference.children(parent, i):
            found[i] += s[c] - (s[c] ** 2 / (s[c] + found[c]) if c in found else 0)
    return [float(found[i]) for i in inner]


def dense(parent: Sequence[int], v: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The closed form ``v - S M (M^T S M)^-1 M^T v`` in floating point."""
    M = reference.constraint(parent)
    SM = variance[:, None] * M
    return v - SM @ np.linalg.solve(M.T @ SM, M.T @ v)


# --------------------------------------------------------------------------- random problems


def per_node(s: np.ndarray | None) -> dict[str, np.ndarray] | None:
    """Variances by node, or None for equal ones, as they are understood on a chain too."""
    return None if s is None else {"node": s}


class Problem(NamedTuple):
    """Measurements on a tree: `given` as a user writes the variance, `s` by node."""

    tree: gm.Tree
    given: Any
    s: np.ndarray
    v: np.ndarray

    @property
    def parent(self) -> np.ndarray:
        return self.tree.parent

    @property
    def solver(self) -> gm.Consistency:
        return gm.Consistency(self.tree, self.given)


KINDS = ("equal", "scalar", "level", "node", "wide", "extreme", "mixed")


@st.composite
def problems(draw: st.DrawFn, max_n: int = 10, kinds: Sequence[str] = KINDS) -> Problem:
    """Measurements with variances of any kind, in which exact values do not contradict."""
    parent = draw(parents(max_n))
    kind = draw(st.sampled_from(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_problem(gm.Tree.from_parents(parent), kind, rng)


def random_problem(tree: gm.Tree, kind: str, rng: np.random.Generator) -> Problem:
    n = tree.n
    given: Any = {
        "equal": lambda: None,
        "scalar": lambda: float(rng.uniform(0.1, 10)),
        "level": lambda: rng.uniform(0.1, 10, tree.height),
        "node": lambda: rng.uniform(0.1, 10, n),
        "wide": lambda: 10 ** rng.uniform(-12, 12, n),
        "extreme": lambda: rng.choice([1e-12, 1.0, 1e12], n),
        "mixed": lambda: _mixed(tree, rng),
    }[kind]()
    if given is None:
        s = np.ones(n)
    elif kind == "level":
        s = given[np.array(reference.depths(tree.parent)) - 1]
    else:
        s = np.broadcast_to(given, n).astype(float)
    if tree.height == n and np.ndim(given):
        # On a chain, the form of the variances must be stated.
        given = {"level": given} if kind == "level" else per_node(given)
    truth = tree.aggregate(rng.integers(0, 100, tree.n_leaves)).astype(float)
    noise = rng.standard_normal(n) * 10 ** rng.uniform(-2, 2, n)
    return Problem(tree, given, s, truth + np.where(s == 0, 0, noise))


def _mixed(tree: gm.Tree, rng: np.random.Generator) -> np.ndarray:
    """Some nodes are known exactly, some are not measured; each leaf or an ancestor is measured."""
    s = rng.uniform(0.1, 10, tree.n)
    s[rng.random(tree.n) < 0.3] = np.inf
    s[rng.random(tree.n) < 0.2] = 0
    for leaf in tree.leaves:
        if np.isinf(s[reference.ancestors(tree.parent, leaf)]).all():
            s[leaf] = 1
    return s


# --------------------------------------------------------------------------- checks


def inconsistency(tree: gm.Tree, x: np.ndarray) -> float:
    """Largest difference between a parent and the sum of its children."""
    if tree.n == 1:
        return 0.0
    child = np.flatnonzero(tree.parent >= 0)
    sums = np.zeros(tree.n, np.longdouble)
    np.add.at(sums, tree.parent[child], x[child])
    inner = tree.child_count > 0
    return float(np.abs(x - sums)[inner].max())


def noise_variances(
    parent: Sequence[int], variance: np.ndarray, noise: np.ndarray
) -> list[Fraction]:
    """Variances of consistent values whose measurements have the variances `noise`, exactly.

    What is known exactly has no noise here; see `projection`.
    """
    P = projection(parent, variance)
    n = len(parent)
    given = [Fraction(float(x)) for x in noise]
    return [sum((P[i][k] ** 2 * given[k] for k in range(n)), Fraction(0)) for i in range(n)]
