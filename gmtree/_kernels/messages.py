"""The message of a subtree to the rest of the tree: its estimate, variance and least value.

Positions and arrays are those of `projection`. ``least_i`` is the least value of node i for which
no free leaf below it falls below its bound. ``tau_p`` is the least change per unit of variance
below p, ``d_p = (x_p - b_p) / t_p``, for which this holds.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, at, combine, known


@inlined
def _estimate(order, s, t, v, b, r):
    """z_r: the estimate of position r from measurements at and below it."""
    own = v[at(order, r)]
    return combine(own, b[r], s, t, r) if r < t.size else own


@inlined
def _least(s, t, b, bound, tau, r):
    """least_r = b_r + t_r tau_r; the bound for a free leaf, -inf for a leaf that cannot move."""
    if r >= t.size:
        return bound[r] if s is None or s[r] > 0.0 else -np.inf
    if t[r] == np.inf:
        return b[r] + tau[r]
    return b[r] + t[r] * tau[r] if t[r] > 0.0 else tau[r]


@kernel
def estimates(order, s, t, v, b, position, z, q):
    """z and q = the estimates and their variances at the given positions."""
    for k in range(position.size):
        r = np.uint64(position[k])
        z[k] = _estimate(order, s, t, v, b, r)
        q[k] = known(s, t, r)


@inlined
def _need(lack, weight):
    """The step d for which ``weight d`` equals `lack`."""
    if weight > 0.0:
        return lack / weight
    return np.inf if lack > 0.0 else -np.inf


@kernel
def least_steps(parent, order, q, s, t, v, b, bound, tau):
    """tau_p = max over children of (least_c - z_c) / q_c, children first; `tau` starts as -inf.

    For a child that cannot move (q_c = 0), the quotient counts as -inf, or as inf if the child is
    below its least value.
    """
    n_internal = np.uint64(t.size)
    # A single node has no parent.
    for r in range(max(n_internal, ONE), np.uint64(parent.size)):
        weight = 1.0
        if q is not None:
            weight = q[r]
        elif s is not None:
            weight = s[r]
        # A child that is known exactly cannot fall.
        moves = s is None or s[r] > 0.0
        if moves:
            p = parent[r]
            tau[p] = max(tau[p], _need(bound[r] - v[at(order, r)], weight))
    r = n_internal
    while r > ONE:
        r -= ONE
        lack = _least(s, t, b, bound, tau, r) - _estimate(order, s, t, v, b, r)
        weight = known(s, t, r) if q is None else q[r]
        p = parent[r]
        tau[p] = max(tau[p], _need(lack, weight))


@kernel
def least_values(s, t, b, bound, tau, position, least):
    """least = the least values of the nodes at the given positions."""
    for k in range(position.size):
        least[k] = _least(s, t, b, bound, tau, np.uint64(position[k]))
