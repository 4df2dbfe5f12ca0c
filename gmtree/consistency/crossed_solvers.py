"""Optima along several trees that take iterations: other variances than products, and bounds.

Each function takes a :class:`gmtree.CrossedConsistency` as `problem`.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._progress import Progress
from gmtree.consistency.along import Along
from gmtree.consistency.exact import Tolerance
from gmtree.consistency.factor import Factor
from gmtree.consistency.products import fit_products
from gmtree.consistency.splitting import ConvergenceError, NonnegativeInfo

# An exactly known value counts as this much more precise than the fit while iterating, and its
# remaining difference is added to it until it is met.
EXACT_WEIGHT = 1e4
EXACT_ROUNDS = 12
# By how much one round can lower the residual.
LEAST_PROGRESS = 1e-12
# Steps between looks at the conditions of optimality, and how far to go beyond each.
LOOK_EVERY, RELAX = 5, 1.6


# --------------------------------------------------------------------------- conjugate gradients


def minimum(
    problem: Any, linear: np.ndarray, exact: np.ndarray, tolerance: float, most: int
) -> tuple[np.ndarray, int, float]:
    """The consistent x that minimises ``x' W x / 2 - linear' x`` and meets exact values.

    Exact values are met by the method of multipliers: each counts with a large precision, and
    what it is missed by is added to it for the next round. Without any, a second round makes up
    for rounding where the residual is larger than it was updated to be.

    Returns x, the number of iterations and the relative residual.
    """
    weight, normal = problem._precision, _Preconditioned(problem)
    assert weight is not None
    x, target = np.zeros(problem.shape), np.where(problem._exact, exact, 0)
    allowed = 10 * Tolerance.of(exact.dtype).relative * float(abs(exact).max(initial=0))
    # The size of the measurements, with exact ones as precise as others.
    _, first = normal.solve(
        normal.gradient(linear + np.where(problem._exact, normal.weigh(exact), 0))
    )
    done, missed = 0, 0.0
    with Progress(most, "conjugate gradients") as progress:
        for _ in range(EXACT_ROUNDS):
            h = linear - weight * x
            h[problem._exact] += (weight * target)[problem._exact]
            rest = normal.gradient(h)
            z, size = normal.solve(rest)
            missed = float(abs(x - exact)[problem._exact].max(initial=0))
            if size <= (10 * tolerance) ** 2 * first and missed <= allowed:
                return x, done, float(np.sqrt(size / first)) if first else 0.0
            p = z.copy()
            # Below that, rounding in the updates exceeds what is left: start from x again.
            enough = max(tolerance**2 * first, LEAST_PROGRESS**2 * size)
            while size > enough:
                if done == most:
                    raise ConvergenceError(
                        f"Conjugate gradients reached a residual of {np.sqrt(size / first):.1e}"
                        f" in {most} iterations, not {tolerance:.1e}. Allow more `iterations`, "
                        "or a larger `tolerance`."
                    )
                step = weight * p
                length = size / float(np.vdot(p, step))
                x += length * p
                rest -= length * normal.gradient(step)
                before = size
                z, size = normal.solve(rest)
                p *= size / before
                p += z
                done += 1
                progress.advance(1)
            target[problem._exact] += (exact - x)[problem._exact]
    if missed > allowed:
        refuse_exact(first_true(abs(x - exact) * problem._exact >= missed), missed)
    raise ConvergenceError(
        f"Conjugate gradients do not get below a residual of {np.sqrt(size / first):.1e}: "
        "these variances are too different for floating point numbers."
    )


class _Preconditioned:
    """The normal equations of a problem, solved for its fitted variances.

    A gradient is an array h by pair of nodes, of which only the sums over the pairs above each pair
    of leaves count. Near the optimum these vanish while h does not, so that products with h would
    be lost in rounding. So a gradient is kept as the solution P D^-1 h that it leads to; where some
    pairs of leaves do not exist, which P does not know of, as those sums themselves.
    """

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        fit = problem._fit
        self._variance = reduce(np.multiply.outer, [np.where(np.isinf(a), 0, a) for a in fit])
        self._precision = reduce(np.multiply.outer, [1 / a for a in fit])

    def weigh(self, x: np.ndarray) -> np.ndarray:
        """Values as gradients, with the fitted precisions."""
        return self._precision * x

    def gradient(self, h: np.ndarray) -> np.ndarray:
        """What counts of `h`, which is used up."""
        problem = self._problem
        if problem._exists is None:
            h *= self._variance
            problem._apply(problem._along, h, h)
            return h
        problem._from_root(h)
        sums = np.where(problem._exists, h[problem._leaf_pairs], 0)
        h.fill(0)
        h[problem._leaf_pairs] = sums
        return h

    def solve(self, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """The solution z for the fitted variances, and the product of both."""
        problem = self._problem
        if problem._exists is None:
            return gradient, float(np.sum(gradient * gradient * self._precision))
        z = self._variance * gradient
        problem._apply(problem._along, z, z)
        problem._from_leaves(z[problem._leaf_pairs], z)
        return z, float(np.vdot(z, gradient))


# --------------------------------------------------------------------------- values not below zero


def nonnegative(
    problem: Any, v: np.ndarray, tolerance: float, most: int
) -> tuple[np.ndarray, NonnegativeInfo]:
    """The optimum with no value below zero, by the method of Douglas and Rachford.

    With the metric of the fitted variances d, it alternates between the projection along all
    axes and the minimum of the objective, pair by pair, over what is not negative:
    ``z = argmin f(z) + (z - w)^2 / 2 d``, ``w += relax (P(2 z - w) - z)``. In the limit z is
    consistent, and ``(w - z) / d`` is the gradient of f with the multipliers of the bounds.
    """
    s = problem._variances()
    exact, missing = s == 0, np.isinf(s)
    bad = exact & (v < 0)
    if bad.any():
        first = first_true(bad)
        check.fail("noisy", "must not be negative where known exactly (variance 0), with "
                   f"nonnegative=True; {named(first)} is {v[first]}.")  # fmt: skip
    fit = fit_products(s)
    along = [
        Along(tree, Factor.of(tree, {"node": a}, problem._threads), problem._threads)
        for tree, a in zip(problem.trees, fit, strict=True)
    ]
    d = reduce(np.multiply.outer, fit)
    # The share of the measurement in z.
    keep = np.where(missing, 0, np.where(exact, 1, d / (d + np.where(missing, 1, s))))
    weight = np.where(exact | missing, 0, 1 / np.where(exact | missing, 1, s))
    none = problem._none
    w, x = v.copy(), np.empty(problem.shape)
    deviation = np.sqrt(d[problem._leaf_pairs])
    violation = np.inf
    with Progress(most, "values not below zero") as progress:
        for iteration in range(1, most + 1):
            z = w + keep * (v - w)
            np.maximum(z, 0, out=z)
            z[none] = 0
            np.subtract(2 * z, w, out=x)
            problem._apply(along, x, x)
            if iteration % LOOK_EVERY == 0:
                leaf = np.where(z > 0, np.maximum(x, 0), 0)[problem._leaf_pairs]
                found = np.empty(problem.shape)
                problem._from_leaves(leaf, found)
                slope = weight * (found - v) + np.where(exact, (w - z) / d, 0)
                problem._from_root(slope)
                slope = slope[problem._leaf_pairs]
                leaf = found[problem._leaf_pairs]
                off = abs(np.minimum(leaf, slope * deviation**2))
                if problem._exists is not None:
                    off[~problem._exists] = 0
                missed = float(abs(found - v)[exact].max(initial=0))
                violation = max(float(off.max()), missed)
                if np.all(off <= tolerance * deviation) and missed <= tolerance * _usual(deviation):
                    gap = float(abs(slope * leaf).sum())
                    at_bound = int(np.count_nonzero(leaf == 0))
                    return found, NonnegativeInfo(iteration, at_bound, violation, gap)
            w += RELAX * (x - z)
            progress.advance(1)
    raise ConvergenceError(
        f"The optimum without negative values was not found to {tolerance:.0e} standard "
        f"deviations in {most} iterations; a pair still misses its condition of optimality by "
        f"{violation:.3g}. Values known exactly may leave no such optimum; otherwise allow "
        "more `iterations`, or a larger `tolerance`."
    )


def _usual(a: np.ndarray) -> float:
    """The mean of what is positive and finite, or 1."""
    some = a[np.isfinite(a) & (a > 0)]
    return float(some.mean()) if some.size else 1.0


# --------------------------------------------------------------------------- pairs in messages


def first_true(mask: np.ndarray) -> tuple[int, ...]:
    """Index of the first true entry."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def named(index: tuple[int, ...]) -> str:
    """How messages call a pair of nodes."""
    what = {1: "node", 2: "pair"}.get(len(index), "tuple")
    return f"{what} {index[0] if len(index) == 1 else index}"


def refuse_exact(pair: tuple[int, ...], difference: float) -> None:
    """Refuse exactly known values that contradict each other."""
    check.fail(
        "noisy",
        f"must agree where values are known exactly (variance 0); {named(pair)} cannot be met "
        f"together with the others, it is missed by {difference:.6g}.",
    )
