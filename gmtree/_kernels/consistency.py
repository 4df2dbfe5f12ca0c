"""Optimal consistent values: one sweep up, one down.

Node i was measured as ``v_i`` with variance ``s_i``. On the way up each node collects from its
children ``b_i = sum z_c`` and ``t_i = sum q_c`` and combines that with its own measurement into
the estimate ``z_i`` with variance ``q_i``; on the way down the difference between a node's
final value and ``b_i`` is shared among its children in proportion to their ``q_c``.

Arrays ``t``, ``b``, ``gain``, ``carry`` are by position of internal nodes, ``q`` by position of
all nodes, and ``v`` and ``out`` in the caller's numbering. Where all variances are equal they
count as one, ``q``, ``gain`` and ``carry`` are None, and everything follows from ``t``.
"""

import numpy as np

from gmtree._kernels._jit import kernel


@kernel
def _at(order, r):
    """The caller's node at position r."""
    return r if order is None else order[r]


@kernel
def _combine(v, b, t, gain, carry, r):
    """z = (v t + b s) / (s + t)."""
    if gain is None:
        return (v * t[r] + b) / (1.0 + t[r])
    return gain[r] * v + carry[r] * b


@kernel
def _combine_again(v, b, t, q, gain, carry, r):
    """(z, q, 1 / t) on the way down; 1 / t is 0 where all children are exactly known."""
    if q is None:
        # One division for all three: it is what a sweep over internal nodes waits for.
        inverse = 1.0 / (t[r] * (1.0 + t[r]))
        return (v * t[r] + b) * t[r] * inverse, t[r] * t[r] * inverse, (1.0 + t[r]) * inverse
    return gain[r] * v + carry[r] * b, q[r], 1.0 / t[r] if t[r] > 0.0 else 0.0


# --------------------------------------------------------------------------- stage 1


@kernel
def factor_leaves(parent, q, t, start, stop):
    """t_parent += s_i."""
    for r in range(np.uint64(start), np.uint64(stop)):
        t[parent[r]] += 1.0 if q is None else q[r]


@kernel
def factor_inner_equal(parent, t, start, stop):
    """t_parent += t_i / (1 + t_i), children before parents."""
    r = np.uint64(stop)
    while r > np.uint64(start):
        r -= np.uint64(1)
        t[parent[r]] += t[r] / (1.0 + t[r])


@kernel
def factor_inner(parent, q, t, gain, carry, start, stop):
    """q = s t / (s + t), gain = t / (s + t), carry = s / (s + t); `q` holds s on entry.

    With s = 0 (exactly known) and s = inf (not measured) as the limits of these.
    """
    r = np.uint64(stop)
    while r > np.uint64(start):
        r -= np.uint64(1)
        s = q[r]
        if s == 0.0 or (t[r] == np.inf and s < np.inf):
            gain[r] = 1.0
            carry[r] = 0.0
        elif s == np.inf:
            gain[r] = 0.0
            carry[r] = 1.0
            q[r] = t[r]
        else:
            gain[r] = t[r] / (s + t[r])
            carry[r] = s / (s + t[r])
            q[r] = t[r] * carry[r]
        if r > np.uint64(0):
            t[parent[r]] += q[r]


@kernel
def count_undetermined(parent, q, count, start, stop):
    """count_parent = number of children about which nothing is known from below."""
    for r in range(np.uint64(start), np.uint64(stop)):
        if q[r] == np.inf:
            count[parent[r]] += 1


@kernel
def split_evenly(parent, q, t, start, stop):
    """Undetermined children share alone and evenly, the limit of equal large variances.

    `t` holds inf at parents of undetermined nodes.
    """
    for r in range(np.uint64(start), np.uint64(stop)):
        if t[parent[r]] == np.inf:
            q[r] = 1.0 if q[r] == np.inf else 0.0


# --------------------------------------------------------------------------- stage 2


@kernel
def up_leaves(parent, order, v, b, start, stop):
    """b_parent += v_i."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = _at(order, r), parent[r]
        if v.ndim == 1:
            b[p] += v[i]
        else:
            for j in range(v.shape[1]):
                b[p, j] += v[i, j]


@kernel
def up_inner(parent, order, t, gain, carry, v, b, start, stop):
    """b_parent += z_i, with z_i from v_i and b_i; children before parents."""
    r = np.uint64(stop)
    while r > np.uint64(start):
        r -= np.uint64(1)
        i, p = _at(order, r), parent[r]
        if v.ndim == 1:
            b[p] += _combine(v[i], b[r], t, gain, carry, r)
        else:
            for j in range(v.shape[1]):
                b[p, j] += _combine(v[i, j], b[r, j], t, gain, carry, r)


@kernel
def root(order, t, gain, carry, v, b, out):
    """x_root = z_root; b_root becomes what its children share."""
    r = np.uint64(0)
    i = _at(order, r)
    per_variance = 1.0 / t[r] if t[r] > 0.0 else 0.0
    if v.ndim == 1:
        x = _combine(v[i], b[r], t, gain, carry, r)
        out[i] = x
        b[r] = (x - b[r]) * per_variance
    else:
        for j in range(v.shape[1]):
            x = _combine(v[i, j], b[r, j], t, gain, carry, r)
            out[i, j] = x
            b[r, j] = (x - b[r, j]) * per_variance


@kernel
def down_inner(parent, order, t, q, gain, carry, v, b, out, start, stop):
    """x_i = z_i + q_i d_parent, then d_i = (x_i - b_i) / t_i in place of b_i.

    Computing z_i again costs less than having kept it. `out` may be `v`.
    """
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = _at(order, r), parent[r]
        if v.ndim == 1:
            z, variance, per_variance = _combine_again(v[i], b[r], t, q, gain, carry, r)
            x = z + variance * b[p]
            out[i] = x
            b[r] = (x - b[r]) * per_variance
        else:
            for j in range(v.shape[1]):
                z, variance, per_variance = _combine_again(v[i, j], b[r, j], t, q, gain, carry, r)
                x = z + variance * b[p, j]
                out[i, j] = x
                b[r, j] = (x - b[r, j]) * per_variance


@kernel
def down_leaves(parent, order, q, v, b, out, start, stop):
    """x_i = v_i + q_i d_parent. `out` may be `v`."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = _at(order, r), parent[r]
        if v.ndim == 1:
            out[i] = v[i] + (b[p] if q is None else q[r] * b[p])
        else:
            for j in range(v.shape[1]):
                out[i, j] = v[i, j] + (b[p, j] if q is None else q[r] * b[p, j])


@kernel
def up_leaf_families(parent, order, v, b, start, stop):
    """`up_leaves` with each family's sum in a register: faster where families are large.

    A long sum is put together from short ones, with what is lost between them added at the end.
    """
    r, stop = np.uint64(start), np.uint64(stop)
    while r < stop:
        p = parent[r]
        total, r = _add_siblings(parent, order, v, r, min(r + np.uint64(128), stop))
        lost = 0.0
        while r < stop and parent[r] == p:
            more, r = _add_siblings(parent, order, v, r, min(r + np.uint64(128), stop))
            both = total + more
            kept = both - total
            lost += (total - (both - kept)) + (more - kept)
            total = both
        b[p] += total + lost


@kernel
def _add_siblings(parent, order, v, r, stop):
    """The sum of v over r and its siblings that follow, and where they end; up to `stop`."""
    p = parent[r]
    total = 0.0
    while r < stop and parent[r] == p:
        total += v[_at(order, r)]
        r += np.uint64(1)
    return total, r
