"""Weighted least squares in exact fractions, for measurements of sums of unknowns.

Every float is a fraction, so that nothing is rounded here. A variance of 0 is an equation, and an
infinite one means that there is no measurement. The optimum solves the optimality conditions

    sum over measurements i of  rows[i] (rows[i] x - y_i) / s_i  +  rows_0' multipliers = 0,
    rows_0 x = y_0,

which rational Gaussian elimination solves whether or not they are singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

Vector = list[Fraction]


class Exact(NamedTuple):
    """The optimum: value and variance of each row; variances are None if undetermined."""

    unknowns: Vector
    value: Vector
    variance: list[Fraction | None]


def optimum(
    rows: Sequence[Sequence[int]], y: Sequence[float], s: Sequence[float], split: Sequence[int]
) -> Exact | None:
    """The exact optimum, or None if values known exactly contradict each other.

    Among several optima, the sum of squares of the unknowns in `split` is least.
    """
    n = len(rows[0])
    exact = [i for i, v in enumerate(s) if v == 0]
    used = [i for i, v in enumerate(s) if 0 < v < float("inf")]
    normal = [[Fraction(0)] * n for _ in range(n)]
    right = [Fraction(0)] * n
    for i in used:
        weight = 1 / Fraction(s[i])
        support = [a for a in range(n) if rows[i][a]]
        for a in support:
            right[a] += rows[i][a] * Fraction(y[i]) * weight
            for b in support:
                normal[a][b] += rows[i][a] * rows[i][b] * weight
    system = [normal[a] + [Fraction(rows[i][a]) for i in exact] for a in range(n)]
    system += [[Fraction(v) for v in rows[i]] + [Fraction(0)] * len(exact) for i in exact]
    rhs = [[right[a], *(Fraction(row[a]) for row in rows)] for a in range(n)]
    rhs += [[Fraction(y[i]), *([Fraction(0)] * len(rows))] for i in exact]
    solved, free = solve(system, rhs)
    if solved[0] is None:
        return None
    x = solved[0][:n]
    null = [vector[:n] for vector in free if any(vector[:n])]
    variance: list[Fraction | None] = []
    for row, c in zip(rows, solved[1:], strict=True):
        determined = c is not None and not any(_dot(row, vector) for vector in null)
        variance.append(_dot(row, c[:n]) if determined and c is not None else None)
    if null:
        gram = [[sum((u[k] * w[k] for k in split), Fraction(0)) for w in null] for u in null]
        slope = [[-sum((u[k] * x[k] for k in split), Fraction(0))] for u in null]
        (steps,), _ = solve(gram, slope)
        assert steps is not None
        for step, vector in zip(steps, null, strict=True):
            x = [a + step * b for a, b in zip(x, vector, strict=True)]
    return Exact(x, [_dot(row, x) for row in rows], variance)


def solve(matrix: list[Vector], rhs: list[Vector]) -> tuple[list[Vector | None], list[Vector]]:
    """A solution for each column of `rhs`, None if there is none; and a basis of the null space."""
    n, columns = len(matrix[0]), len(rhs[0])
    work = [[*a, *b] for a, b in zip(matrix, rhs, strict=True)]
    pivots: list[int] = []
    for k in range(n):
        top = len(pivots)
        found = next((r for r in range(top, len(work)) if work[r][k]), None)
        if found is None:
            continue
        work[top], work[found] = work[found], work[top]
        inverse = 1 / work[top][k]
        work[top] = [v * inverse for v in work[top]]
        for r, row in enumerate(work):
            if r != top and row[k]:
                factor = row[k]
                work[r] = [v - factor * p if p else v for v, p in zip(row, work[top], strict=True)]
        pivots.append(k)
    solutions: list[Vector | None] = []
    for c in range(n, n + columns):
        if any(row[c] for row in work[len(pivots) :]):
            solutions.append(None)
            continue
        x = [Fraction(0)] * n
        for row, k in zip(work, pivots, strict=False):
            x[k] = row[c]
        solutions.append(x)
    null = []
    for k in range(n):
        if k not in pivots:
            vector = [Fraction(0)] * n
            vector[k] = Fraction(1)
            for row, p in zip(work, pivots, strict=False):
                vector[p] = -row[k]
            null.append(vector)
    return solutions, null


def _dot(row: Sequence[int], x: Vector) -> Fraction:
    return sum((a * b for a, b in zip(row, x, strict=True) if a), Fraction(0))


def floats(values: Sequence[Fraction | None]) -> np.ndarray:
    """Rounded to floats; inf for None."""
    return np.array([np.inf if v is None else float(v) for v in values])
