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
    for r in range(state.first_leaf[p], state.first_leaf[p + 1]):
        if not state.held[r]:
            s = _variance(state.variance, r)
            x = _value(state.order, state.v, r)
            if s == np.inf:
                undetermined += 1
            else:
                t += s
                b += x
                if s > 0.0 and _is_bounded(state.unbounded, r):
                    tau = max(tau, -x / s)
    for k in range(state.first_inner[p], state.first_inner[p + 1]):
        c = state.inner[k]
        b += state.z[c]
        state.weight[c] = state.q[c]
        if state.q[c] == np.inf:
            undetermined += 1
        else:
            t += state.q[c]
            tau = max(tau, _need(_least(state, c), state.z[c], state.q[c]))
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
    t_inner = 0.0
    for k in range(state.first_inner[p], state.first_inner[p + 1]):
        if state.q[state.inner[k]] == np.inf:
            return _hold_undetermined(state, p)
        t_inner += state.q[state.inner[k]]
    d = state.d[p]
    held = 0
    while True:
        excess = 0.0
        t = t_inner
        new = 0
        for r in range(state.first_leaf[p], state.first_leaf[p + 1]):
            if state.held[r]:
                continue
            s = _variance(state.variance, r)
            if s == np.inf:
                return held + _hold_undetermined(state, p)
            x = _value(state.order, state.v, r) + s * d
            if x < 0.0 and s > 0.0 and _is_bounded(state.unbounded, r):
                state.held[r] = 1
                excess += x
                new += 1
            else:
                t += s
        held += new
        total = _variance(state.variance, p) + t
        if new == 0 or total == 0.0 or total == np.inf:
            return held
        d += excess / total


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
    """`_collect` for a range of positions, children before parents."""
    for p in range(stop - 1, start - 1, -1):
        _collect(state, p)


@kernel
def scan(state, changed, start, stop):
    """d for a range of positions, parents first; changed_p = leaves of p newly held."""
    for p in range(start, stop):
        _give(state, p)
        changed[p] = _hold(state, p) if state.d[p] < state.tau[p] else 0


@kernel
def write_inner(state, out, floor, start, stop):
    """Final values of internal nodes, and d for their children."""
    for p in range(start, stop):
        _put(state.order, out, p, max(_give(state, p), floor))


@kernel
def write_leaves(state, out, start, stop):
    """Final values of the leaves of a range of internal nodes."""
    for p in range(start, stop):
        split = False
        for k in range(state.first_inner[p], state.first_inner[p + 1]):
            split |= state.q[state.inner[k]] == np.inf
        for r in range(state.first_leaf[p], state.first_leaf[p + 1]):
            split |= _variance(state.variance, r) == np.inf and not state.held[r]
        for r in range(state.first_leaf[p], state.first_leaf[p + 1]):
            s = _variance(state.variance, r)
            x = 0.0
            if not state.held[r]:
                if split:
                    x = state.d[p] if s == np.inf else _value(state.order, state.v, r)
                else:
                    x = _value(state.order, state.v, r) + s * state.d[p]
                if _is_bounded(state.unbounded, r):
                    x = max(x, 0.0)
            _put(state.order, out, r, x)


# --------------------------------------------------------------------------- where it changed


@kernel
def scan_below_tau(state, queue, changed):
    """`scan` along the paths that lead to negative leaves; returns (families changed, leaves)."""
    _give(state, 0)
    head = 0
    tail = 0
    if state.d[0] < state.tau[0]:
        queue[0] = 0
        tail = 1
    families = 0
    leaves = 0
    while head < tail:
        p = queue[head]
        head += 1
        for k in range(state.first_inner[p], state.first_inner[p + 1]):
            c = state.inner[k]
            _give(state, c)
            if state.d[c] < state.tau[c]:
                queue[tail] = c
                tail += 1
        new = _hold(state, p)
        if new > 0:
            changed[families] = p
            families += 1
            leaves += new
    return families, leaves


@kernel
def with_ancestors(parent, nodes, count, seen):
    """Extend the first `count` of `nodes` by all their ancestors; returns how many there are.

    `seen` holds zeros, and holds ones for those nodes afterwards.
    """
    for k in range(count):
        seen[nodes[k]] = 1
    tail = count
    k = 0
    while k < tail:
        r = nodes[k]
        k += 1
        if r > 0 and not seen[parent[r]]:
            seen[parent[r]] = 1
            nodes[tail] = parent[r]
            tail += 1
    return tail


@kernel
def collect_nodes(state, nodes, seen):
    """`_collect` for these positions, given in descending order; clears `seen`."""
    for k in range(nodes.size):
        _collect(state, nodes[k])
        seen[nodes[k]] = 0


# --------------------------------------------------------------------------- layout, bounds


@kernel
def group_inner(parent, n_internal, first, inner):
    """Internal children of each internal node: inner[first[p]:first[p + 1]], ascending."""
    for c in range(1, n_internal):
        first[parent[c] + 1] += 1
    for p in range(n_internal):
        first[p + 1] += first[p]
    for c in range(1, n_internal):
        p = parent[c]
        inner[first[p]] = c
        first[p] += 1
    for p in range(n_internal, 0, -1):
        first[p] = first[p - 1]
    first[0] = 0


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
