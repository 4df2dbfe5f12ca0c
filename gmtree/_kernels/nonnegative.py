"""The consistent optimum with bounded leaves: a set of leaves held at their bounds that only grows.

Positions as elsewhere; ``d_p = (x_p - b_p) / t_p`` is what each unit of variance below p has to
give or take: a child c comes out as ``z_c + w_c d_p``, where z is the value of a leaf and w its
variance. ``tau_p`` is the least ``d_p`` for which no leaf below p falls below its bound: a subtree
is entered only where ``d_p < tau_p``.

Where children of p are undetermined (nothing is known of them from below), they alone share the
difference, evenly: p is *split*, they weigh 1 and all others 0.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import kernel


class State(NamedTuple):
    """The problem (first block) and its current solution (second block).

    Kernels loop over families themselves: a call that is handed the state, and is not inlined,
    counts references to all its arrays, which takes longer than the work on a small family.
    """

    parent: np.ndarray
    order: np.ndarray | None
    # leaves of p: first_leaf[p] to first_leaf[p + 1]; its other children: inner[...]
    first_leaf: np.ndarray
    first_inner: np.ndarray
    inner: np.ndarray
    v: np.ndarray
    variance: np.ndarray | None
    bound: np.ndarray | None

    held: np.ndarray
    split: np.ndarray
    dirty: np.ndarray
    entered: np.ndarray
    t: np.ndarray
    b: np.ndarray
    z: np.ndarray
    q: np.ndarray
    weight: np.ndarray
    tau: np.ndarray
    d: np.ndarray


@kernel
def _value(order, v, r):
    return v[r] if order is None else v[order[r]]


@kernel
def _put(order, out, r, x):
    if order is None:
        out[r] = x
    else:
        out[order[r]] = x


@kernel
def _variance(variance, r):
    return 1.0 if variance is None else variance[r]


@kernel
def _bound(bound, r):
    return 0.0 if bound is None else bound[r]


@kernel
def _weight(split, q):
    """Share of a child whose value is known from below with variance q."""
    if split:
        return 1.0 if q == np.inf else 0.0
    return q


@kernel
def _leaf_weight(variance, split, r):
    return 1.0 if variance is None else _weight(split, variance[r])


@kernel
def _need(least, z, weight):
    """The least d of the parent for which z + weight d is not below `least`."""
    if weight > 0.0:
        return (least - z) / weight
    return np.inf if z < least else -np.inf


@kernel
def _least(state, c):
    """The least x_c for which no leaf below the internal node c falls below its bound."""
    # With nothing to share out, leaves stay where they are, and tau is infinite either way.
    return state.b[c] + state.t[c] * state.tau[c] if state.t[c] > 0.0 else state.tau[c]


# --------------------------------------------------------------------------- upward


@kernel
def collect(state, start, stop):
    """t, b and tau from the children, then z and q, where something changed; children first."""
    order, v, variance, bounds = state.order, state.v, state.variance, state.bound
    first_leaf, held = state.first_leaf, state.held
    for p in range(stop - 1, start - 1, -1):
        if not state.dirty[p]:
            continue
        state.dirty[p] = 0
        if p > 0:
            state.dirty[state.parent[p]] = 1
        split = False
        # Most often once; again if children turn out to be undetermined.
        while True:
            t = 0.0
            b = 0.0
            tau = -np.inf
            # Which leaves are held is as good as random, so the loop selects, without branches.
            for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + 1])):
                weight = _leaf_weight(variance, split, r)
                x = _value(order, v, r)
                bound = _bound(bounds, r)
                is_held = held[r] != 0
                t += 0.0 if is_held else weight
                b += bound if is_held else x
                tau = max(tau, -np.inf if is_held else _need(bound, x, weight))
            for k in range(state.first_inner[p], state.first_inner[p + 1]):
                c = state.inner[k]
                weight = _weight(split, state.q[c])
                state.weight[c] = weight
                t += weight
                b += state.z[c]
                tau = max(tau, _need(_least(state, c), state.z[c], weight))
            if t < np.inf:
                break
            split = True
        state.split[p] = split
        state.t[p] = t
        state.b[p] = b
        state.tau[p] = tau
        s = _variance(variance, p)
        own = _value(order, v, p)
        if s == 0.0 or (split and s < np.inf):
            state.q[p] = s
            state.z[p] = own
        elif s == np.inf:
            state.q[p] = np.inf if split else t
            state.z[p] = b
        else:
            state.q[p] = t * (s / (s + t))
            state.z[p] = (own * t + b * s) / (s + t)


# --------------------------------------------------------------------------- downward


@kernel
def _give(state, p):
    """d_p from the parent; returns x_p."""
    x = state.z[p]
    if p > 0:
        x += state.weight[p] * state.d[state.parent[p]]
    state.d[p] = (x - state.b[p]) / state.t[p] if state.t[p] > 0.0 else 0.0
    return x


@kernel
def scan(state, start, stop):
    """Hold leaves that are below their bounds, for a range of positions, parents first.

    A subtree is entered only if it has such leaves; families that change become `dirty`.

    In each family those that fall below their bounds by that are held at once. Holding leaves
    raises the sum below p by what they lacked. Of that, at least the share ``1 / (s_p + t_p)``
    per unit of variance is taken back from the children that remain: what lies outside knows
    x_p with a variance of at most s_p. (Undetermined children give back all of it.) So each leaf
    held here is below its bound in the exact solution with the leaves held before it.
    """
    order, v, variance, bounds = state.order, state.v, state.variance, state.bound
    first_leaf, held = state.first_leaf, state.held
    for p in range(start, stop):
        state.entered[p] = 0
        if p > 0 and not state.entered[state.parent[p]]:
            continue
        _give(state, p)
        if not state.d[p] < state.tau[p]:
            continue
        state.entered[p] = 1
        split = state.split[p]
        t_inner = 0.0
        for k in range(state.first_inner[p], state.first_inner[p + 1]):
            t_inner += state.weight[state.inner[k]]
        d = state.d[p]
        tau = np.inf
        while d < tau:
            lack = 0.0
            t = t_inner
            new = 0
            tau = -np.inf
            for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + 1])):
                weight = _leaf_weight(variance, split, r)
                value = _value(order, v, r)
                bound = _bound(bounds, r)
                x = value + weight * d
                is_held = held[r] != 0
                falls = x < bound and not is_held
                stays = not is_held and not falls
                held[r] = 0 if stays else 1
                new += 1 if falls else 0
                lack += bound - x if falls else 0.0
                t += weight if stays else 0.0
                tau = max(tau, _need(bound, value, weight) if stays else -np.inf)
            if new == 0:
                break
            state.dirty[p] = 1
            total = t if split else _variance(variance, p) + t
            if total == 0.0:
                break
            d -= lack / total


@kernel
def write_inner(state, out, floor, start, stop):
    """Final values of internal nodes, and d for their children."""
    for p in range(start, stop):
        _put(state.order, out, p, max(_give(state, p), floor))


@kernel
def write_leaves(state, out, start, stop):
    """Final values of the leaves of a range of internal nodes."""
    for p in range(start, stop):
        d = state.d[p]
        split = state.split[p]
        for r in range(np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + 1])):
            bound = _bound(state.bound, r)
            value = _value(state.order, state.v, r)
            x = max(value + _leaf_weight(state.variance, split, r) * d, bound)
            _put(state.order, out, r, bound if state.held[r] else x)


# --------------------------------------------------------------------------- bounds


@kernel
def least_sums(parent, order, v, variance, least, size, tolerance):
    """Least value a node can have: what is known exactly, else the sum of its children.

    `least` holds the bounds of the leaves, and zeros elsewhere; `size` zeros. Returns the last
    position that is known exactly and cannot be, or -1. Sums may be rounded, relative to
    `size`: what they are made of, without signs.
    """
    bad = -1
    for r in range(parent.size - 1, -1, -1):
        if variance[r] == 0.0:
            x = _value(order, v, r)
            if least[r] - x > tolerance * size[r]:
                bad = r
            least[r] = x
        if r > 0:
            least[parent[r]] += least[r]
            size[parent[r]] += max(size[r], abs(least[r])) if least[r] > -np.inf else 0.0
    return bad
