"""The consistent optimum with bounded leaves: a set of leaves held at zero that only grows.

Positions as elsewhere; ``d_p = (x_p - b_p) / t_p`` is what each unit of variance below p has to
give or take, so that a leaf comes out as ``v_c + s_c d_p``. ``tau_p`` is the least ``d_p`` for
which no leaf below p is negative: a subtree is entered only where ``d_p < tau_p``.

Where children of p are undetermined (infinite variance), they alone share the difference,
evenly: they weigh 1, all others 0, and ``t_p`` counts them.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import kernel


class State(NamedTuple):
    """The problem (first block) and its current solution (second block)."""

    parent: np.ndarray
    order: np.ndarray | None
    # leaves of p: first_leaf[p] to first_leaf[p + 1]; its other children: inner[...]
    first_leaf: np.ndarray
    first_inner: np.ndarray
    inner: np.ndarray
    v: np.ndarray
    variance: np.ndarray | None
    unbounded: np.ndarray | None

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
def _is_bounded(unbounded, r):
    return True if unbounded is None else not unbounded[r]


@kernel
def _least(state, c):
    """The least x_c for which no leaf below the internal node c is negative."""
    return state.b[c] + state.t[c] * state.tau[c] if state.t[c] > 0.0 else -np.inf


@kernel
def _need(least, z, weight):
    """The least d of the parent for which z + weight d is not below `least`."""
    if weight > 0.0:
        return (least - z) / weight
    return np.inf if z < least else -np.inf


@kernel
def _collect(state, p):
    """t, b and tau of p from its children, then z and q."""
    t = 0.0
    b = 0.0
    tau = -np.inf
    undetermined = 0
    # Which leaves are held is as good as random, so the loop selects instead of branching.
    for r in range(np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + 1])):
        s = _variance(state.variance, r)
        x = _value(state.order, state.v, r)
        counts = state.held[r] == 0
        unknown = counts and s == np.inf
        undetermined += 1 if unknown else 0
        t += s if counts and not unknown else 0.0
        b += x if counts and not unknown else 0.0
        need = -x / s if counts and s > 0.0 and not unknown else -np.inf
        tau = max(tau, need if _is_bounded(state.unbounded, r) else -np.inf)
    for k in range(state.first_inner[p], state.first_inner[p + 1]):
        c = state.inner[k]
        b += state.z[c]
        state.weight[c] = state.q[c]
        if state.q[c] == np.inf:
            undetermined += 1
        else:
            t += state.q[c]
            tau = max(tau, _need(_least(state, c), state.z[c], state.q[c]))
    state.split[p] = undetermined > 0
    if undetermined > 0:
        tau = _tau_undetermined(state, p)
        t = float(undetermined)
    state.t[p] = t
    state.b[p] = b
    state.tau[p] = tau
    s = _variance(state.variance, p)
    v = _value(state.order, state.v, p)
    if s == 0.0 or (undetermined > 0 and s < np.inf):
        state.q[p] = s
        state.z[p] = v
    elif s == np.inf:
        state.q[p] = np.inf if undetermined > 0 else t
        state.z[p] = b
    else:
        state.q[p] = t * (s / (s + t))
        state.z[p] = (v * t + b * s) / (s + t)


@kernel
def _tau_undetermined(state, p):
    """The threshold of p, and weights 1 and 0, where some of its children are undetermined."""
    tau = -np.inf
    for r in range(state.first_leaf[p], state.first_leaf[p + 1]):
        s = _variance(state.variance, r)
        if not state.held[r] and s > 0.0 and _is_bounded(state.unbounded, r):
            x = 0.0 if s == np.inf else _value(state.order, state.v, r)
            tau = max(tau, _need(0.0, x, 1.0 if s == np.inf else 0.0))
    for k in range(state.first_inner[p], state.first_inner[p + 1]):
        c = state.inner[k]
        state.weight[c] = 1.0 if state.q[c] == np.inf else 0.0
        tau = max(tau, _need(_least(state, c), state.z[c], state.weight[c]))
    return tau


@kernel
def _hold_undetermined(state, p):
    """Hold the negative leaves of a family with undetermined members; returns how many."""
    new = 0
    for r in range(state.first_leaf[p], state.first_leaf[p + 1]):
        s = _variance(state.variance, r)
        if not state.held[r] and s > 0.0 and _is_bounded(state.unbounded, r):
            x = state.d[p] if s == np.inf else _value(state.order, state.v, r)
            if x < 0.0:
                state.held[r] = 1
                new += 1
    return new


@kernel
def _hold(state, p):
    """Hold the negative leaves of p, then those that become negative by that; returns how many.

    Holding leaves raises the sum below p by their negative values. Of that, at least the share
    ``1 / (s_p + t_p)`` per unit of variance is taken back from the leaves that remain: what
    lies outside knows x_p with a variance of at most s_p. So each leaf held here is negative in
    the exact solution with the leaves held before it.
    """
    if state.split[p]:
        return _hold_undetermined(state, p)
    t_inner = 0.0
    for k in range(state.first_inner[p], state.first_inner[p + 1]):
        t_inner += state.q[state.inner[k]]
    d = state.d[p]
    held = 0
    while True:
        excess = 0.0
        t = t_inner
        new = 0
        tau = -np.inf
        for r in range(np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + 1])):
            s = _variance(state.variance, r)
            value = _value(state.order, state.v, r)
            x = value + s * d
            counts = state.held[r] == 0
            bounded = _is_bounded(state.unbounded, r) and s > 0.0
            negative = counts and bounded and x < 0.0
            stays = counts and not negative
            state.held[r] = 0 if stays else 1
            new += 1 if negative else 0
            excess += x if negative else 0.0
            t += s if stays else 0.0
            tau = max(tau, -value / s if stays and bounded else -np.inf)
        held += new
        total = _variance(state.variance, p) + t
        if new == 0 or total == 0.0 or total == np.inf:
            return held
        d += excess / total
        if d >= tau:
            return held


@kernel
def _give(state, p):
    """d_p from the parent; returns x_p."""
    x = state.z[p]
    if p > 0:
        x += state.weight[p] * state.d[state.parent[p]]
    state.d[p] = (x - state.b[p]) / state.t[p] if state.t[p] > 0.0 else 0.0
    return x


# --------------------------------------------------------------------------- whole sweeps


@kernel
def collect(state, start, stop):
    """`_collect` for a range of positions, children before parents, where something changed."""
    for p in range(stop - 1, start - 1, -1):
        if state.dirty[p]:
            _collect(state, p)
            state.dirty[p] = 0
            if p > 0:
                state.dirty[state.parent[p]] = 1


@kernel
def scan(state, start, stop):
    """Hold negative leaves below a range of positions, parents first; marks families `dirty`.

    A subtree is entered only if it has negative leaves.
    """
    for p in range(start, stop):
        state.entered[p] = 0
        if p == 0 or state.entered[state.parent[p]]:
            _give(state, p)
            if state.d[p] < state.tau[p]:
                state.entered[p] = 1
                if _hold(state, p) > 0:
                    state.dirty[p] = 1


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
            s = _variance(state.variance, r)
            value = _value(state.order, state.v, r)
            x = value + s * d
            if split:
                x = d if s == np.inf else value
            x = max(x, 0.0) if _is_bounded(state.unbounded, r) else x
            _put(state.order, out, r, 0.0 if state.held[r] else x)


# --------------------------------------------------------------------------- bounds


@kernel
def least_sums(parent, order, v, variance, least):
    """Least value a node can have: what is known exactly, else the sum of its children.

    `least` holds the bounds of the leaves and zeros elsewhere. Returns the last position that
    is known exactly and cannot be, or -1. Sums of exact values may be rounded.
    """
    bad = -1
    for r in range(parent.size - 1, -1, -1):
        if variance[r] == 0.0:
            x = _value(order, v, r)
            if least[r] - x > 1e-9 * max(abs(least[r]), abs(x)):
                bad = r
            least[r] = x
        if r > 0:
            least[parent[r]] += least[r]
    return bad


@kernel
def nearest_known(parent, order, known, nearest):
    """The nearest ancestor that is known exactly, by the caller's numbers; -1 on entry."""
    for r in range(1, parent.size):
        above = order[parent[r]]
        nearest[order[r]] = above if known[above] else nearest[above]
