"""The consistent optimum with bounded leaves, by a growing set of leaves held at their bounds.

Arrays are by position as in `projection`. ``d_p = (x_p - b_p) / t_p`` is the change per unit of
variance below p: a child c gets the value ``z_c + w_c d_p``, and for a leaf z is its value and w
its variance. ``tau_p`` is the least ``d_p`` for which no leaf below p falls below its bound. A
subtree is entered only if ``d_p < tau_p``.

``d_p`` only falls, so the held leaves of p are those with ``v + w d_p`` below their bounds, and no
state per leaf is needed. Three numbers describe the leaves of a family: ``leaf_t`` is the total
weight of the leaves that are not held, ``leaf_b`` is the sum of all leaves, in which each held leaf
counts as its bound, and ``leaf_tau`` is the least d for which no further leaf must be held.

If children of p are undetermined (nothing is known of them from below), only these children share
the difference, evenly. Then p is called *split*: they have weight 1, and its other children have
weight 0. When one of them becomes determined, the remaining ones share the difference, so d_p may
rise again. When the last one becomes determined, p is no longer split, and its other children begin
to share from ``d_p = 0`` on. So in trees with such families, ``low_p``, the least d_p so far,
determines which leaves are held. In other trees it is the same array as d.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, add, at, total_of, variance_of


class State(NamedTuple):
    """The problem (first block) and its current solution (second block), per internal node."""

    parent: np.ndarray
    order: np.ndarray | None
    # leaves of p: first_leaf[p] to first_leaf[p + 1]; its other children: inner[...]
    first_leaf: np.ndarray
    first_inner: np.ndarray
    inner: np.ndarray
    v: np.ndarray
    s: np.ndarray | None
    bound: np.ndarray | None

    # None if no node is ever split
    split: np.ndarray | None
    dirty: np.ndarray
    entered: np.ndarray
    leaf_t: np.ndarray
    inner_t: np.ndarray
    leaf_b: np.ndarray
    leaf_tau: np.ndarray
    b: np.ndarray
    tau: np.ndarray
    d: np.ndarray
    low: np.ndarray


@inlined
def _bound(bound, r):
    return 0.0 if bound is None else bound[r]


@inlined
def _is_split(split, p):
    return False if split is None else split[p] != 0


@inlined
def _weight(split, q):
    """Share of a child whose value is known from below with variance q."""
    if split:
        return 1.0 if q == np.inf else 0.0
    return q


@inlined
def _need(least, z, weight):
    """The least d of the parent for which z + weight d is at least `least`."""
    if weight > 0.0:
        return (least - z) / weight
    return np.inf if z < least else -np.inf


@inlined
def _judge_one(order, v, s, bounds, splits, split, r, counts, d, t, b, tau):
    """Return (t, b, tau) of `_judge`, changed to include the leaf at position r if it `counts`.

    There are no branches on whether a leaf is held, because the processor could not predict them.
    """
    x = v[at(order, r)]
    bound = _bound(bounds, r)
    weight = 1.0 if s is None else _weight(split, s[r])
    is_held = False if d is None else x + weight * d < bound
    if splits is not None:
        # An undetermined leaf of a family that is not split was held earlier.
        is_held |= weight == np.inf
    need = bound - x if s is None else _need(bound, x, weight)
    need = need if counts and not is_held else -np.inf
    t += weight if counts and not is_held else 0.0
    x = bound if is_held else x
    return t, b + (x if counts else 0.0), need if need > tau else tau


@inlined
def _judge(order, v, s, bounds, splits, split, first, stop, d):
    """(leaf_t, leaf_b, leaf_tau) of leaves `first` to ``stop - 1``, held if d is too small.

    If d is None, no leaf is held. The processor computes the four independent sums at the same
    time. The last leaves (at most three) are added without a loop, because the processor could not
    predict the end of a loop over few leaves.
    """
    t0 = t1 = t2 = t3 = b0 = b1 = b2 = b3 = 0.0
    tau0 = tau1 = tau2 = tau3 = -np.inf
    args = (order, v, s, bounds, splits, split)
    two, three, four = np.uint64(2), np.uint64(3), np.uint64(4)
    while first + four <= stop:
        t0, b0, tau0 = _judge_one(*args, first, True, d, t0, b0, tau0)
        t1, b1, tau1 = _judge_one(*args, first + ONE, True, d, t1, b1, tau1)
        t2, b2, tau2 = _judge_one(*args, first + two, True, d, t2, b2, tau2)
        t3, b3, tau3 = _judge_one(*args, first + three, True, d, t3, b3, tau3)
        first += four
    if first < stop:
        last = stop - ONE
        second, third = min(first + ONE, last), min(first + two, last)
        t0, b0, tau0 = _judge_one(*args, first, True, d, t0, b0, tau0)
        t1, b1, tau1 = _judge_one(*args, second, first < last, d, t1, b1, tau1)
        t2, b2, tau2 = _judge_one(*args, third, second < last, d, t2, b2, tau2)
    tau = max(max(tau0, tau1), max(tau2, tau3))
    return (t0 + t1) + (t2 + t3), (b0 + b1) + (b2 + b3), tau


@kernel
def begin(state, largest, seen, start, stop):
    """Start without held leaves; set seen[0] if a value is not finite or larger than `largest`."""
    order, v, s, bounds = state.order, state.v, state.s, state.bound
    fits = True
    for p in range(np.uint64(start), np.uint64(stop)):
        first, last = np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + ONE])
        split = _is_split(state.split, p)
        t, b, tau = _judge(order, v, s, bounds, state.split, split, first, last, None)
        state.leaf_t[p] = t
        state.leaf_b[p] = b
        state.leaf_tau[p] = tau
        state.d[p] = np.inf
        state.low[p] = np.inf
        state.dirty[p] = 1
        state.entered[p] = 0
        fits &= abs(v[at(order, p)]) <= largest
    # This is a single loop over all leaves, because separate loops over families would take several
    # times as long.
    for r in range(np.uint64(state.first_leaf[start]), np.uint64(state.first_leaf[stop])):
        fits &= abs(v[at(order, r)]) <= largest
    if not fits:
        seen[0] = True


# --------------------------------------------------------------------------- upward


@inlined
def _known(order, v, s, split, t, b, c):
    """(z, q) of the internal node c from its own measurement and from below."""
    own = v[at(order, c)]
    if s is None:
        carry = 1.0 / (1.0 + t)
        return (own * t + b) * carry, t * carry
    variance = s[c]
    if variance == 0.0 or (_is_split(split, c) and variance < np.inf):
        return own, variance
    if variance == np.inf:
        return b, np.inf if _is_split(split, c) else t
    both = variance + t
    return (own * t + b * variance) / both, t * (variance / both)


@inlined
def _need_of_inner(state, split, c, z, q):
    """The least d of its parent for which no leaf below the internal node c has to be held."""
    t, b, tau = state.leaf_t[c] + state.inner_t[c], state.b[c], state.tau[c]
    if state.s is None:
        return tau * (1.0 + t) + (b - state.v[at(state.order, c)])
    # If t is 0, the leaves cannot move, and tau is plus or minus infinity.
    return _need(b + t * tau if t > 0.0 else tau, z, _weight(split, q))


@inlined
def _stays_split(splits, s, leaf_t, inner, first, last):
    """Whether some child is still undetermined, either a leaf that is not held or an inner node."""
    if splits is None or s is None or leaf_t > 0.0:
        return splits is not None
    some = False
    for k in range(first, last):
        some |= splits[inner[k]] != 0 and s[inner[k]] == np.inf
    return some


@inlined
def _end_split(splits, p):
    if splits is not None:
        splits[p] = 0


@kernel
def collect(state, start, stop):
    """t, b and tau from the children, for families that changed; children first."""
    order, v, s, bounds, splits = state.order, state.v, state.s, state.bound, state.split
    leaf_t, inner_t, b = state.leaf_t, state.inner_t, state.b
    p = np.uint64(stop)
    while p > np.uint64(start):
        p -= ONE
        if not state.dirty[p]:
            continue
        state.dirty[p] = 0
        if p > ZERO:
            state.dirty[state.parent[p]] = 1
        first, last = np.uint64(state.first_inner[p]), np.uint64(state.first_inner[p + ONE])
        split = _is_split(splits, p)
        if split and not _stays_split(splits, s, leaf_t[p], state.inner, first, last):
            split = False
            _end_split(splits, p)
            state.low[p] = 0.0
            start_leaf, stop_leaf = state.first_leaf[p], state.first_leaf[p + ONE]
            leaf_t[p], state.leaf_b[p], state.leaf_tau[p] = _judge(
                order, v, s, bounds, splits, False, np.uint64(start_leaf), np.uint64(stop_leaf), 0.0
            )
        t, total, tau = 0.0, state.leaf_b[p], state.leaf_tau[p]
        for k in range(first, last):
            c = state.inner[k]
            z, q = _known(order, v, s, splits, leaf_t[c] + inner_t[c], b[c], c)
            t += _weight(split, q)
            total += z
            tau = max(tau, _need_of_inner(state, split, c, z, q))
        inner_t[p] = t
        b[p] = total
        state.tau[p] = tau


# --------------------------------------------------------------------------- downward


@inlined
def _least_so_far(splits, d, low):
    """d, but at most `low` if no family is split, since only rounding could then make d larger."""
    return d if splits is not None else min(d, low)


@inlined
def _give(state, p):
    """(x_p, d_p) from the parent's d, which must have been computed before."""
    s, t, b = state.s, state.leaf_t[p] + state.inner_t[p], state.b[p]
    above = 0.0 if p == ZERO else state.d[state.parent[p]]
    if s is None:
        d = (state.v[at(state.order, p)] - b + above) / (1.0 + t)
        return b + t * d, min(d, state.low[p])
    x, q = _known(state.order, state.v, s, state.split, t, b, p)
    if p > ZERO:
        x += _weight(_is_split(state.split, state.parent[p]), q) * above
    d = (x - b) / t if t > 0.0 else 0.0
    return x, _least_so_far(state.split, d, state.low[p])


@kernel
def scan(state, start, stop):
    """Hold leaves that are below their bounds, for a range of positions, parents first.

    A subtree is entered only if it has such leaves; families that change become `dirty`.

    Holding leaves raises the sum below p by their distances from their bounds. The remaining
    children give back at least the fraction ``1 / (s_p + t_p)`` of this per unit of variance, since
    the rest of the tree knows x_p with a variance of at most s_p. (Undetermined children give back
    all of it.) So d_p falls by at least this amount. Leaves pushed below their bounds by this step
    are held immediately, without another pass over the tree, and so on: each of them is below its
    bound in the exact solution with the leaves held before it.
    """
    order, v, s, bounds, splits = state.order, state.v, state.s, state.bound, state.split
    for p in range(np.uint64(start), np.uint64(stop)):
        state.entered[p] = 0
        if p > ZERO and not state.entered[state.parent[p]]:
            continue
        _, d = _give(state, p)
        state.d[p] = d
        if not d < state.tau[p]:
            continue
        state.entered[p] = 1
        first, last = np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + ONE])
        split = _is_split(splits, p)
        rest = state.inner_t[p] + (0.0 if split else variance_of(s, p))
        t, b, tau = state.leaf_t[p], state.leaf_b[p], state.leaf_tau[p]
        if not d < tau:
            continue
        while d < tau:
            t_before, b_before = t, b
            t, b, tau = _judge(order, v, s, bounds, splits, split, first, last, d)
            if t == t_before and b == b_before:
                break
            state.dirty[p] = 1
            lack = (b - b_before) - (t_before - t) * d
            if rest + t > 0.0 and lack > 0.0:
                d -= lack / (rest + t)
        state.leaf_t[p] = t
        state.leaf_b[p] = b
        state.leaf_tau[p] = tau
        state.low[p] = min(d, state.low[p])


@inlined
def _leaf_value(v, s, bound, splits, split, r, d, low):
    """x of the leaf at position r, or its bound if it is held."""
    if s is None:
        return max(v + d, bound)
    weight = _weight(split, s[r])
    x = max(v + weight * d, bound)
    if splits is None:
        return x
    return bound if weight == np.inf or v + weight * low < bound else x


@kernel
def write(state, out, floor, start, stop):
    """Final values of a range of internal nodes and of their leaves, parents first."""
    order, v, s, bounds, splits = state.order, state.v, state.s, state.bound, state.split
    for p in range(np.uint64(start), np.uint64(stop)):
        x, d = _give(state, p)
        state.d[p] = d
        out[at(order, p)] = max(x, floor)
        split, low = _is_split(splits, p), state.low[p]
        for r in range(np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + ONE])):
            i = at(order, r)
            out[i] = _leaf_value(v[i], s, _bound(bounds, r), splits, split, r, d, low)


# --------------------------------------------------------------------------- bounds


@inlined
def _is_whole(x):
    return x == np.floor(x)


@kernel
def least_sums(parent, order, v, s, least, lost, size, fractional, tolerance, whole_below):
    """The least value of each node: its exactly known value, else the sum of its children's.

    Returns the last position whose exactly known value is less than its children's sum, or -1. Sums
    may be rounded by `tolerance`, relative to `size`, the sum of the absolute values of their
    summands. If all summands are whole and `size` is below `whole_below`, nothing is rounded. On
    entry `least` holds the bounds of the leaves and zeros elsewhere, and `lost` (the rounding
    errors of the sums), `size` and `fractional` hold zeros.
    """
    bad = -1
    r = np.uint64(parent.size)
    while r > ZERO:
        r -= ONE
        low = total_of(least[r], lost[r])
        of_one = s[r] == 0.0 or size[r] == 0.0
        if s[r] == 0.0:
            x = np.float64(v[at(order, r)])
            is_exact = _is_whole(x) and not fractional[r] and size[r] < whole_below
            if low - x > (0.0 if is_exact else tolerance * size[r]):
                bad = np.int64(r)
            low = x
        if r > ZERO:
            p = parent[r]
            least[p], lost[p] = add(least[p], lost[p], low)
            if low > -np.inf:
                size[p] += abs(low) if of_one else size[r]
                fractional[p] |= not _is_whole(low) if of_one else fractional[r]
    return bad
