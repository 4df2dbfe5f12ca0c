"""Distance of given values from the optimum, measured by trades between pairs of leaves.

In a trade one leaf gives a unit and another takes it, so that the nodes on both paths up to their
common ancestor change. Along such a path, called a *way*, the objective has the slope ``sum (x_i -
v_i) / s_i`` and the stiffness (second derivative) ``sum 1 / s_i``. At the optimum no trade lowers
the objective: if two ways meet, the slope of the giving way is at most that of the taking way.
Otherwise the difference of the slopes, divided by the sum of the stiffnesses, is the size of the
best trade. A leaf can also trade alone, by a way through the root; its partner then counts as a way
with slope 0.

A way can give (1) if all of its nodes are above their lower bounds, and take (2) if all of them are
below their upper bounds. It can do neither if one of its nodes is known exactly. If ways up to a
node can both give and take, the least stiff one of them represents all ways up to this node.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, at, lower_of, upper_of, variance_of


class Ways(NamedTuple):
    """The best way up to each internal node: slope, stiffness and kind (0 none, 1, or 3 both)."""

    slope: np.ndarray
    stiffness: np.ndarray
    kind: np.ndarray


@inlined
def _own(s, r, difference):
    """(slope, stiffness) of the measurement at position r."""
    variance = variance_of(s, r)
    if variance == 0.0 or variance == np.inf:
        return 0.0, np.inf if variance == 0.0 else 0.0
    return difference / variance, 1.0 / variance


@inlined
def _larger(a, b):
    """The larger of a and b; if b is NaN, it counts as infinite."""
    if b <= a:
        return a
    return b if b > a else np.inf


@inlined
def _gain(giver, taker):
    """The size of the best trade of two ways."""
    if giver[2] == 0 or taker[2] == 0 or giver[1] + taker[1] == 0.0:
        return 0.0
    return (giver[0] - taker[0]) / (giver[1] + taker[1])


@inlined
def _offer(ways, p, way, sign):
    """Keep this way, which ends at p, if it is better than the best one so far."""
    if way[2] == 0 or way[2] < ways.kind[p]:
        return
    if way[2] == ways.kind[p]:
        if way[2] == 3 and way[1] >= ways.stiffness[p]:
            return
        if way[2] == 1 and sign * way[0] <= sign * ways.slope[p]:
            return
    ways.slope[p] = way[0]
    ways.stiffness[p] = way[1]
    ways.kind[p] = way[2]


@inlined
def _lengthened(ways, r, n_internal, slope, stiffness, can, can_other):
    """The best way up to r, extended to its parent."""
    if not can or stiffness == np.inf:
        return 0.0, 0.0, 0
    kind = 3
    if r < n_internal:
        slope += ways.slope[r]
        stiffness += ways.stiffness[r]
        kind = np.int64(ways.kind[r])
    return slope, stiffness, min(kind, 3 if can_other else 1)


@kernel
def largest_gain(parent, order, v, s, lower, upper, x, near, giving, taking):
    """The largest size of a trade, or distance from a bound or exact value; children first.

    A node within the distance `near` of a bound counts as being at the bound. `giving` and `taking`
    hold zeros on entry.
    """
    n_internal = np.uint64(giving.slope.size)
    largest = 0.0
    r = np.uint64(parent.size)
    while r > ZERO:
        r -= ONE
        i = at(order, r)
        low, high = np.float64(lower_of(lower, i)), np.float64(upper_of(upper, i))
        largest = _larger(largest, max(low - x[i], x[i] - high))
        slope, stiffness = _own(s, r, x[i] - v[i])
        if stiffness == np.inf:
            largest = _larger(largest, abs(x[i] - v[i]))
        can_give, can_take = x[i] - low > near, high - x[i] > near
        giver = _lengthened(giving, r, n_internal, slope, stiffness, can_give, can_take)
        taker = _lengthened(taking, r, n_internal, slope, stiffness, can_take, can_give)
        if r == ZERO:
            largest = _larger(largest, _gain(giver, (0.0, 0.0, 3)))
            return _larger(largest, _gain((0.0, 0.0, 3), taker))
        p = np.uint64(parent[r])
        best_giver = giving.slope[p], giving.stiffness[p], np.int64(giving.kind[p])
        best_taker = taking.slope[p], taking.stiffness[p], np.int64(taking.kind[p])
        largest = _larger(largest, _gain(giver, best_taker))
        largest = _larger(largest, _gain(best_giver, taker))
        _offer(giving, p, giver, 1.0)
        _offer(taking, p, taker, -1.0)
    return largest
