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

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, add, at, total_of


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
    s: np.ndarray | None
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
def _variance(s, r):
    return 1.0 if s is None else s[r]


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
def _leaf_weight(s, split, r):
    return 1.0 if s is None else _weight(split, s[r])


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
    order, v, s, bounds = state.order, state.v, state.s, state.bound
    first_leaf, first_inner, held = state.first_leaf, state.first_inner, state.held
    p = np.uint64(stop)
    while p > np.uint64(start):
        p -= ONE
        if not state.dirty[p]:
            continue
        state.dirty[p] = 0
        if p > np.uint64(0):
            state.dirty[state.parent[p]] = 1
        split = False
        # Most often once; again if children turn out to be undetermined.
        while True:
            t = 0.0
            b = 0.0
            tau = -np.inf
            # Which leaves are held is as good as random, so the loop selects, without branches.
            for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
                weight = _leaf_weight(s, split, r)
                x = v[at(order, r)]
                bound = _bound(bounds, r)
                is_held = held[r] != 0
                t += 0.0 if is_held else weight
                b += bound if is_held else x
                tau = max(tau, -np.inf if is_held else _need(bound, x, weight))
            for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
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
        variance = _variance(s, p)
        own = v[at(order, p)]
        if variance == 0.0 or (split and variance < np.inf):
            state.q[p] = variance
            state.z[p] = own
        elif variance == np.inf:
            state.q[p] = np.inf if split else t
            state.z[p] = b
        else:
            state.q[p] = t * (variance / (variance + t))
            state.z[p] = (own * t + b * variance) / (variance + t)


# --------------------------------------------------------------------------- downward


@kernel
def _give(state, p):
    """d_p from the parent; returns x_p."""
    x = state.z[p]
    if p > np.uint64(0):
        x += state.weight[p] * state.d[state.parent[p]]
    state.d[p] = (x - state.b[p]) / state.t[p] if state.t[p] > 0.0 else 0.0
    return x


@kernel
def scan(state, start, stop):
    """Hold leaves that are below their bounds, for a range of positions, parents first.

    A subtree is entered only if it has such leaves; families that change become `dirty`.

    Holding leaves raises the sum below p by what they lacked. Of that, at least the share
    ``1 / (s_p + t_p)`` per unit of variance is taken back from the children that remain, since
    the rest of the tree knows x_p with a variance of at most s_p. (Undetermined children give
    back all of it.) Leaves pushed below their bounds by this step are held immediately, without
    another pass over the tree, and so on: each of them is below its bound in the exact solution
    with the leaves held before it.
    """
    order, v, s, bounds = state.order, state.v, state.s, state.bound
    first_leaf, first_inner, held = state.first_leaf, state.first_inner, state.held
    for p in range(np.uint64(start), np.uint64(stop)):
        state.entered[p] = 0
        if p > np.uint64(0) and not state.entered[state.parent[p]]:
            continue
        _give(state, p)
        if not state.d[p] < state.tau[p]:
            continue
        state.entered[p] = 1
        split = state.split[p]
        t_inner = 0.0
        for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
            t_inner += state.weight[state.inner[k]]
        d = state.d[p]
        tau = np.inf
        while d < tau:
            lack = 0.0
            t = t_inner
            new = 0
            tau = -np.inf
            for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
                weight = _leaf_weight(s, split, r)
                value = v[at(order, r)]
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
            total = t if split else _variance(s, p) + t
            if total == 0.0:
                break
            d -= lack / total


@kernel
def write_inner(state, out, floor, start, stop):
    """Final values of internal nodes, and d for their children."""
    for p in range(np.uint64(start), np.uint64(stop)):
        out[at(state.order, p)] = max(_give(state, p), floor)


@kernel
def write_leaves(state, out, start, stop):
    """Final values of the leaves of a range of internal nodes."""
    first_leaf, order, s = state.first_leaf, state.order, state.s
    for p in range(np.uint64(start), np.uint64(stop)):
        d = state.d[p]
        split = state.split[p]
        for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
            bound = _bound(state.bound, r)
            i = at(order, r)
            x = max(state.v[i] + _leaf_weight(s, split, r) * d, bound)
            out[i] = bound if state.held[r] else x


# --------------------------------------------------------------------------- bounds


@inlined
def _is_whole(x):
    return x == np.floor(x)


@kernel
def least_sums(parent, order, v, s, least, lost, size, fractional, tolerance, whole_below):
    """Least value a node can have: what is known exactly, else the sum of its children.

    Returns the last position that is known exactly to be less than that, or -1. Sums may be
    rounded by `tolerance`, relative to `size`: the sum of what they are made of, without signs.
    Where all of that is whole and below `whole_below`, nothing is rounded. `least` holds the
    bounds of the leaves and zeros elsewhere on entry; `lost` (what rounding took from the sums),
    `size` and `fractional` hold zeros.
    """
    bad = -1
    r = np.uint64(parent.size)
    while r > np.uint64(0):
        r -= ONE
        low = total_of(least[r], lost[r])
        of_one = s[r] == 0.0 or size[r] == 0.0
        if s[r] == 0.0:
            x = np.float64(v[at(order, r)])
            is_exact = _is_whole(x) and not fractional[r] and size[r] < whole_below
            if low - x > (0.0 if is_exact else tolerance * size[r]):
                bad = np.int64(r)
            low = x
        if r > np.uint64(0):
            p = parent[r]
            least[p], lost[p] = add(least[p], lost[p], low)
            if low > -np.inf:
                size[p] += abs(low) if of_one else size[r]
                fractional[p] |= not _is_whole(low) if of_one else fractional[r]
    return bad
