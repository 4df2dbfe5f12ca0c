"""How far leaves would move from given values if they could trade with each other.

If one leaf gives a unit and another takes it, the nodes on both paths up to their common ancestor
change. Along a path (called *way* here) the objective has the slope ``sum (x_i - v_i) / s_i`` and
the stiffness (its second derivative) ``sum 1 / s_i``. At the optimum no trade pays: if two ways
meet, the slope of the giving way is at most the slope of the taking way. Their difference divided
by the sum of both stiffnesses is the distance from the best trade. Beyond the root there is no
partner, which counts as a partner with slope 0.

A way can give (1) if all of its nodes are above their lower bounds, and take (2) if all are below
their upper bounds. A node that is known exactly closes it, since its value cannot change. Among the
ways up to a node, one that can give and take represents all of them; if there are several, the
least stiff one does.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import helper, inlined, kernel
from gmtree._kernels._shared import ONE, at


class Ways(NamedTuple):
    """The best way up to each internal node: its slope, its stiffness, and 0 (none), 1 or 3."""

    slope: np.ndarray
    stiffness: np.ndarray
    kind: np.ndarray


@inlined
def _own(s, r, difference):
    """(slope, stiffness) of the measurement at position r."""
    variance = 1.0 if s is None else s[r]
    if variance == 0.0 or variance == np.inf:
        return 0.0, np.inf if variance == 0.0 else 0.0
    return difference / variance, 1.0 / variance


@inlined
def _larger(a, b):
    """The larger of a and b; b counts as infinite if it is not a number."""
    if b <= a:
        return a
    return b if b > a else np.inf


@inlined
def _gain(giver, taker):
    """The distance of two ways from their best trade."""
    if giver[2] == 0 or taker[2] == 0 or giver[1] + taker[1] == 0.0:
        return 0.0
    return (giver[0] - taker[0]) / (giver[1] + taker[1])


@helper
def _offer(ways, p, way, sign):
    """Replace the best way up to p if this one is better."""
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
    """The largest distance from a best trade, a bound or an exact value; children before parents.

    A node within `near` of a bound counts as at the bound. `giving` and `taking` hold zeros.
    """
    n_internal = np.uint64(giving.slope.size)
    largest = 0.0
    r = np.uint64(parent.size)
    while r > np.uint64(0):
        r -= ONE
        i = at(order, r)
        low = -np.inf if lower is None else np.float64(lower[i])
        high = np.inf if upper is None else np.float64(upper[i])
        largest = _larger(largest, max(low - x[i], x[i] - high))
        slope, stiffness = _own(s, r, x[i] - v[i])
        if stiffness == np.inf:
            largest = _larger(largest, abs(x[i] - v[i]))
        can_give, can_take = x[i] - low > near, high - x[i] > near
        giver = _lengthened(giving, r, n_internal, slope, stiffness, can_give, can_take)
        taker = _lengthened(taking, r, n_internal, slope, stiffness, can_take, can_give)
        if r == np.uint64(0):
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
