"""The exact consistent optimum with leaves bounded from below, in a handful of O(n) passes.

Why it is exact. Write the problem in the values x of the leaves alone: minimise
``x' Q x / 2 - c' x`` over ``x >= 0``, where ``Q[i, j]`` is the sum of ``1 / s`` over the common
ancestors of leaves i and j. Such a matrix is *ultrametric*: of any three leaves two meet below
(or where) both meet the third. The inverse of a strictly ultrametric matrix has no positive
entry off its diagonal (Martinez, Michon and San Martin 1994): it is a symmetric M-matrix.
Holding some leaves at zero and solving for the rest leaves a matrix of the same kind.

Let H be leaves that are zero in the optimum, and y the solution with those held. Suppose leaf i
has ``y_i < 0``. The optimum x* differs from y by the effect of its multipliers m outside H:
``x* - y = A m``, with A the inverse of Q restricted to the leaves not in H, ``m >= 0``, and
``m_j = 0`` wherever ``x*_j > 0``. If x*_i were positive, m_i would be 0, and as A has no positive
entry off the diagonal, ``x*_i - y_i = sum over j != i of A_ij m_j <= 0``, so ``x*_i <= y_i < 0``: a
contradiction. So i is zero in the optimum too, and may be held for good
(Chandrasekaran 1970 has this for all M-matrices). The set only grows, so the procedure ends, and
it ends where no leaf is negative. That solution is the best of all with H held at zero, and the
optimum is one of them: so it is the optimum.

After the first passes few leaves change. Each node therefore remembers from which point on a
leaf below it turns negative: only the paths to such leaves are entered, and only where leaves were
held is anything computed anew.

References
----------
R. Chandrasekaran, "A special case of the complementary pivot problem", Opsearch 7 (1970).
S. Martinez, G. Michon, J. San Martin, "Inverse of strictly ultrametric matrices are of
Stieltjes type", SIAM J. Matrix Anal. Appl. 15 (1994).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._families import Families
from gmtree._kernels import nonnegative as kernels
from gmtree.tree import Tree


def lower_bounds(tree: Tree, nonnegative: bool, lower: Any) -> np.ndarray:
    """The bound of each leaf in the order of ``tree.leaves``, or one for all; -inf for none."""
    if lower is None:
        return np.zeros(())
    a = np.asarray(lower)
    if a.dtype.kind not in "iuf":
        check.fail_type("lower", f"must hold real numbers, not dtype {a.dtype}.")
    if a.shape not in ((), (tree.n_leaves,)):
        check.fail("lower", f"must be one number or one per leaf ({tree.n_leaves}), not {a.shape}.")
    bounds = a.astype(np.float64)
    bad = np.flatnonzero(np.isnan(bounds) | (bounds == np.inf))
    if bad.size:
        check.fail("lower", f"must be below infinity; leaf {bad[0]} has {bounds.flat[bad[0]]}.")
    return np.maximum(bounds, 0) if nonnegative else bounds


def project(
    tree: Tree,
    families: Families,
    v: np.ndarray,
    variance: np.ndarray | None,
    bounds: np.ndarray,
    out: np.ndarray,
    threads: int | None,
) -> tuple[int, int]:
    """Write the optimum for one column of measurements into `out`; (passes, leaves held).

    `v`, `variance` and `out` are by node, `bounds` by leaf or one for all.
    """
    shift = free = None
    if bounds.any():
        bounds = np.broadcast_to(bounds, tree.n_leaves)
        unbounded = np.isinf(bounds)
        shift = tree.aggregate(np.where(unbounded, 0.0, bounds))
        v = v - shift
        if unbounded.any():
            free = np.zeros(tree.n, np.uint8)
            free[tree.rank[tree.leaves[unbounded]]] = 1
    s = None if variance is None else tree.to_positions(variance)
    if s is not None and (s == 0).any():
        _check_feasible(tree, v, s, free, shift)
    if tree.n == 1:
        held = int(v[0] < 0 and free is None)
        out[0] = 0.0 if held else v[0]
        passes = 1
    else:
        passes, held = _solve(tree, families, v, s, free, out, threads)
    if shift is not None:
        out += shift
        # Adding the bounds back may round a leaf to just below its own.
        out[tree.leaves] = np.maximum(out[tree.leaves], bounds)
    return passes, held


def _solve(
    tree: Tree,
    families: Families,
    v: np.ndarray,
    variance: np.ndarray | None,
    unbounded: np.ndarray | None,
    out: np.ndarray,
    threads: int | None,
) -> tuple[int, int]:
    n_internal = tree.n_internal
    state = kernels.State(
        tree._position_parent,
        tree._order,
        *families,
        _sweep.readonly(v),
        None if variance is None else _sweep.readonly(variance),
        unbounded,
        np.zeros(tree.n, np.uint8),
        split=np.zeros(n_internal, np.uint8),
        dirty=np.ones(n_internal, np.uint8),
        entered=np.zeros(n_internal, np.uint8),
        **{name: np.zeros(n_internal) for name in ("t", "b", "z", "q", "weight", "tau", "d")},
    )
    layout = tree._layout
    inner = [(0, 1, False), *(s for s in layout.segments if s[0] < layout.n_inner)]
    with _sweep.team(layout, threads) as run:
        passes = _grow(state, inner, run)
        floor = 0.0 if unbounded is None else -np.inf
        for segment in inner:
            run(kernels.write_inner, (state, out, floor), segment)
        for segment in inner:
            run(kernels.write_leaves, (state, out), segment)
    return passes, int(np.count_nonzero(state.held))


def _grow(state: kernels.State, segments: list[tuple[int, int, bool]], run: _sweep.Run) -> int:
    """Hold negative leaves until there are none; returns the number of passes."""
    passes = 0
    while state.dirty.any():
        for segment in reversed(segments):
            run(kernels.collect, (state,), segment)
        for segment in segments:
            run(kernels.scan, (state,), segment)
        passes += 1
    return passes


def _check_feasible(
    tree: Tree,
    v: np.ndarray,
    variance: np.ndarray,
    unbounded: np.ndarray | None,
    shift: np.ndarray | None,
) -> None:
    """Refuse exactly known values below the least possible sum of their leaves."""
    least = np.zeros(tree.n)
    if unbounded is not None:
        least[unbounded == 1] = -np.inf
    bad = kernels.least_sums(tree._position_parent, tree._order, v, variance, least)
    if bad >= 0:
        i = int(tree.order[bad])
        known = v[i] if shift is None else v[i] + shift[i]
        check.fail(
            "noisy",
            f"must leave room for the lower bounds; node {i} is known exactly to be {known:g}, "
            "less than the bounds and known values below it add up to.",
        )


def violation(
    tree: Tree, x: np.ndarray, v: np.ndarray, variance: np.ndarray | None, bounds: np.ndarray
) -> float:
    """How far x is from the optimality conditions, in units of values.

    The gradient at a leaf is the sum of ``(x_i - v_i) / s_i`` over its ancestors, up to the
    multipliers of exactly known nodes, which are free. It must be 0 where the leaf is above its
    bound and not negative where it is at it. Divided by the curvature, the sum of ``1 / s_i``, it
    tells how far the leaf alone would move to become optimal.
    """
    leaves = tree.leaves
    if variance is None:
        gradient, curvature = x - v, np.ones(tree.n)
        known = np.zeros(tree.n, bool)
    else:
        known = variance == 0
        usable = ~known & np.isfinite(variance)
        precision = np.divide(1.0, variance, out=np.zeros(tree.n), where=usable)
        gradient, curvature = np.where(usable, x - v, 0.0) * precision, precision
    group = _nearest_known(tree, known)
    for array in (gradient, curvature):
        _sweep.propagate(tree._layout, array, array)
    # Only the part of the path below the nearest exactly known node counts.
    below = np.where(group >= 0, group, tree.root)[leaves]
    has_group = group[leaves] >= 0
    g = gradient[leaves] - np.where(has_group, gradient[below], 0.0)
    h = curvature[leaves] - np.where(has_group, curvature[below], 0.0)
    free = (x[leaves] > bounds) & ~known[leaves]
    g = g - np.where(has_group, _multiplier(g, h, free, below, tree.n), 0.0)
    step = np.divide(g, h, out=np.zeros_like(g), where=h > 0)
    moved = np.maximum(bounds, x[leaves] - step)
    return float(np.max(np.where(known[leaves], 0.0, abs(moved - x[leaves])), initial=0.0))


def _nearest_known(tree: Tree, known: np.ndarray) -> np.ndarray:
    """For each node the nearest exactly known node above it, or -1."""
    group = np.full(tree.n, -1, dtype=np.int64)
    if known.any():
        kernels.nearest_known(tree._position_parent, tree.order, known, group)
    return group


def _multiplier(
    g: np.ndarray, h: np.ndarray, free: np.ndarray, group: np.ndarray, n: int
) -> np.ndarray:
    """The multiplier of each leaf's group: the mean gradient of its free leaves."""
    weight = np.where(free, 1.0, 0.0)
    total = np.bincount(group, weights=weight, minlength=n)
    mean = np.bincount(group, weights=weight * g, minlength=n) / np.maximum(total, 1)
    # With no free leaf any multiplier that is low enough will do.
    lowest = np.full(n, np.inf)
    np.minimum.at(lowest, group, g)
    return np.where(total > 0, mean, np.minimum(lowest, 0.0))[group]
