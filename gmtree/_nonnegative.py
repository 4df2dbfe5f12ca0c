"""The exact consistent optimum with leaves bounded from below, in a handful of O(n) passes.

The method: solve without bounds; hold every leaf that falls below its bound at the bound, for
good; solve again, until no leaf falls below.

Why it is exact. Count each leaf from its bound, so that all bounds are 0, and write the problem
in the values x of the leaves alone: minimise ``x' Q x / 2 - c' x`` over ``x >= 0``, where
``Q[i, j]`` is the sum of ``1 / s`` over the common ancestors of leaves i and j, a leaf being one of
its own. Such a matrix is *ultrametric*, ``Q[i, j] >= min(Q[i, k], Q[k, j])``: where k's path to the
root meets those of i and j, the upper one of the two meetings is above all three. If all leaves
were measured it is so strictly, ``Q[i, i] > Q[i, j]``. The inverse of a strictly ultrametric matrix
has no positive entry off its diagonal (Martinez, Michon and San Martin 1994), and what remains of
Q when some leaves are held is strictly ultrametric again.

Let H be leaves that are 0 in the optimum x*, and y the solution with H held and no other bound.
Outside H both solve the same equations but for the multipliers m of the bounds,

    Q y = c,    Q x* = c + m,    so    x* = y + A m,    A the inverse of Q outside H,

with ``m >= 0`` and ``m_j = 0`` wherever ``x*_j > 0``. Suppose ``y_i < 0``. If x*_i were positive,
m_i would be 0, all that is left of row i of A would be off the diagonal, and
``x*_i = y_i + sum of A_ij m_j <= y_i < 0``: a contradiction. So ``x*_i = 0``, and i may join H
(Chandrasekaran 1970 has this for linear complementarity with any such A). The set only grows, so
the method ends; it ends with a y that is nowhere negative and the best of all values with H held.
The optimum is one of those values: so y is the optimum.

Values known exactly and nodes not measured are the limits ``s -> 0`` and ``s -> inf`` of this: a
leaf that is negative in the limit of y is negative shortly before it, hence 0 in every optimum
on the way, and in their limit. Where siblings are undetermined there are several optima, and the
limit depends on how their variances grow. That does no harm: with H held there still is an
optimum, and the next solution starts from H anew.

How much work it is. When leaves are held, the others together give up at most what those lacked;
what the next ones lack is the part of it that falls on them. In a star where the root and the
leaves not held have the variance t together, leaves with a share f of t lack at most f times what
the ones before did, and leave (1 - f) t: the product of both falls to a quarter or less, and the
number of rounds to the logarithm of the range of values and variances. Passes over other trees were
found to be as few. And a pass is not a whole sweep: each node remembers from which point on a
leaf under it falls below its bound, only the paths to such leaves are entered, and only there is
anything computed anew. A leaf is held once, so all passes together enter at most as many nodes as
the held leaves have ancestors, each leaf counting its own.

References
----------
R. Chandrasekaran, "A special case of the complementary pivot problem", Opsearch 7 (1970).
S. Martinez, G. Michon, J. San Martin, "Inverse of strictly ultrametric matrices are of
Stieltjes type", SIAM J. Matrix Anal. Appl. 15 (1994).
"""

from __future__ import annotations

from collections.abc import Iterable
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
    a = check.array("lower", lower)
    if a.dtype.kind not in "iuf":
        check.fail_type("lower", f"must hold real numbers, not dtype {a.dtype}.")
    if a.shape not in ((), (tree.n_leaves,)):
        check.fail("lower", f"must be one number or one per leaf ({tree.n_leaves}), not {a.shape}.")
    bounds = a.astype(np.float64)
    bad = np.flatnonzero(np.isnan(bounds) | (bounds == np.inf))
    if bad.size:
        where = f"; leaf {bad[0]} (node {tree.leaves[bad[0]]}) has" if a.ndim else ", not"
        check.fail("lower", f"must be below infinity{where} {bounds.flat[bad[0]]}.")
    return np.maximum(bounds, 0) if nonnegative else bounds


def check_feasible(
    tree: Tree,
    columns: Iterable[np.ndarray],
    variance: np.ndarray | None,
    bounds: np.ndarray,
    tolerance: float,
) -> None:
    """Refuse exactly known values below the least possible sum of their leaves.

    `tolerance` is how far sums may be rounded, relative to what they are made of.
    """
    if variance is None or not (variance == 0).any():
        return
    s = tree.to_positions(variance)
    for column in columns:
        v = np.ascontiguousarray(column, np.float64)
        least = np.zeros(tree.n)
        least[tree.rank[tree.leaves]] = bounds
        size = np.zeros(tree.n)
        problem = (tree._position_parent, tree._order, _sweep.readonly(v), _sweep.readonly(s))
        bad = kernels.least_sums(*problem, least, size, tolerance)
        if bad >= 0:
            i = int(tree.order[bad])
            check.fail(
                "noisy",
                f"must leave room for the lower bounds; node {i} is known exactly to be {v[i]:g}, "
                "less than the bounds and known values below it add up to.",
            )


def project(
    tree: Tree,
    families: Families,
    v: np.ndarray,
    variance: np.ndarray | None,
    bounds: np.ndarray,
    out: np.ndarray,
    threads: int | None,
) -> int:
    """Write the optimum for one column of measurements into `out`; returns the passes.

    `v`, `variance` and `out` are by node, `bounds` by leaf or one for all.
    """
    if tree.n == 1:
        out[0] = np.maximum(v, bounds)[0]
        return 1
    bound = None
    if bounds.any():
        bound = np.zeros(tree.n)
        bound[tree.rank[tree.leaves]] = bounds
    s = None if variance is None else _sweep.readonly(tree.to_positions(variance))
    n_internal = tree.n_internal
    numbers = {name: np.zeros(n_internal) for name in ("t", "b", "z", "q", "weight", "tau", "d")}
    state = kernels.State(
        parent=tree._position_parent,
        order=tree._order,
        **families._asdict(),
        v=_sweep.readonly(v),
        variance=s,
        bound=bound,
        held=np.zeros(tree.n, np.uint8),
        split=np.zeros(n_internal, np.uint8),
        dirty=np.ones(n_internal, np.uint8),
        entered=np.zeros(n_internal, np.uint8),
        **numbers,
    )
    layout = tree._layout
    inner = [(0, 1, False), *(s for s in layout.segments if s[0] < layout.n_inner)]
    # Sums of what is not negative are not negative, but for rounding.
    floor = 0.0 if bounds.min() >= 0 else -np.inf
    with _sweep.team(layout, threads) as run:
        passes = _grow(state, inner, run)
        for segment in inner:
            run(kernels.write_inner, (state, out, floor), segment)
        for segment in inner:
            run(kernels.write_leaves, (state, out), segment)
    return passes


def _grow(state: kernels.State, segments: list[tuple[int, int, bool]], run: _sweep.Run) -> int:
    """Hold leaves until none is below its bound; returns the number of passes."""
    passes = 0
    while state.dirty.any():
        for segment in reversed(segments):
            run(kernels.collect, (state,), segment)
        for segment in segments:
            run(kernels.scan, (state,), segment)
        passes += 1
    return passes
