"""How far leaves would move from given values if they could trade with one another.

Moving a unit into a leaf changes the nodes above it up to where the unit comes from: the total, or
the path down to another leaf. Along that way the objective has the slope ``sum (x_i - v_i) / s_i``,
counted negative where the unit is taken out, and the stiffness (its second derivative)
``sum 1 / s_i``; slope / stiffness is how far it is to the best point. A node known exactly is
infinitely stiff, one that was not measured not at all.
"""

import numpy as np

from gmtree._kernels._jit import helper, kernel
from gmtree._kernels._shared import ONE, at


@helper
def _own(s, r, difference):
    """(slope, stiffness) of the measurement at position r."""
    variance = 1.0 if s is None else s[r]
    if variance == 0.0 or variance == np.inf:
        return 0.0, np.inf if variance == 0.0 else 0.0
    return difference / variance, 1.0 / variance


@helper
def _larger(a, b):
    """The larger of both, where b counts as infinite if it is not a number."""
    if b <= a:
        return a
    return b if b > a else np.inf


@kernel
def find_loosest(parent, order, v, s, bound, x, slope, stiffness, through):
    """The least stiff way from each internal node down to a leaf above its bound.

    `through` is the first step of that way. `stiffness` holds infinities on entry, which mean
    that there is no such leaf.
    """
    n_internal = np.uint64(slope.size)
    r = np.uint64(parent.size)
    while r > ONE:
        r -= ONE
        i, p = at(order, r), parent[r]
        g, h = _own(s, r, x[i] - v[i])
        if r < n_internal:
            g += slope[r]
            h += stiffness[r]
        elif not x[i] > bound[i]:
            continue
        if h < stiffness[p]:
            slope[p] = g
            stiffness[p] = h
            through[p] = r


@kernel
def largest_move(parent, order, v, s, bound, x, slope, stiffness, through, above, stiff):
    """The largest move of a leaf, or distance below its bound or from its exact value.

    Parents first: (above_r, stiff_r) is the least stiff way for a unit into internal node r, from
    the total or out of a sibling.
    """
    n_internal = np.uint64(slope.size)
    largest = 0.0
    for r in range(np.uint64(parent.size)):
        i = at(order, r)
        own_slope, own_stiffness = _own(s, r, x[i] - v[i])
        g = 0.0
        h = 0.0
        if r > np.uint64(0):
            p = parent[r]
            g = above[p]
            h = stiff[p]
            if stiffness[p] < h and through[p] != r:
                g = -slope[p]
                h = stiffness[p]
        g += own_slope
        h += own_stiffness
        if r < n_internal:
            above[r] = g
            stiff[r] = h
            total = h + stiffness[r]
            if 0.0 < total < np.inf:
                largest = _larger(largest, abs(g + slope[r]) / total)
        else:
            largest = _larger(largest, bound[i] - x[i])
            if 0.0 < h < np.inf:
                # Downward no farther than to the bound.
                largest = _larger(largest, min(g / h, x[i] - bound[i]))
                largest = _larger(largest, -g / h)
        if own_stiffness == np.inf:
            largest = _larger(largest, abs(x[i] - v[i]))
    return largest
