"""How far leaves would move from given values if they could trade with one another.

Moving a unit into a leaf changes the nodes above it up to where the unit comes from: the total, or
the path down to another leaf. Along that way the objective has the slope ``sum (x_i - v_i) / s_i``,
counted negative where the unit is taken out, and the stiffness (its second derivative)
``sum 1 / s_i``; slope / stiffness is how far it is to the best point. A node known exactly is
infinitely stiff, one that was not measured not at all.
"""

import numpy as np

from gmtree._kernels._jit import kernel
from gmtree._kernels._shared import at


@kernel
def _own(variance, r, difference):
    """(slope, stiffness) of the measurement at position r."""
    s = 1.0 if variance is None else variance[r]
    if s == 0.0 or s == np.inf:
        return 0.0, np.inf if s == 0.0 else 0.0
    return difference / s, 1.0 / s


@kernel
def find_loosest(parent, order, v, variance, bound, x, slope, stiffness, through):
    """The least stiff way from each internal node down to a leaf above its bound.

    On entry `stiffness` holds infinities, for none; `through` is its first step.
    """
    n_internal = slope.size
    for r in range(parent.size - 1, 0, -1):
        i, p = at(order, r), parent[r]
        g, h = _own(variance, r, x[i] - v[i])
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
def largest_move(parent, order, v, variance, bound, x, slope, stiffness, through, above, stiff):
    """The largest move of a leaf, or its distance from its bound or from its exact value.

    Parents first: (above_r, stiff_r) is the least stiff way for a unit into internal node r, from
    the total or out of a sibling.
    """
    n_internal = slope.size
    largest = 0.0
    for r in range(parent.size):
        i = at(order, r)
        own_slope, own_stiffness = _own(variance, r, x[i] - v[i])
        g = 0.0
        h = 0.0
        if r > 0:
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
                largest = max(largest, abs(g + slope[r]) / total)
        else:
            largest = max(largest, bound[i] - x[i])
            if 0.0 < h < np.inf:
                # Downward no farther than to the bound.
                largest = max(largest, min(g / h, x[i] - bound[i]), -g / h)
        if own_stiffness == np.inf:
            largest = max(largest, abs(x[i] - v[i]))
    return largest
