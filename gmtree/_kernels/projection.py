"""Optimal consistent values: one sweep up, one down.

Node i was measured as ``v_i`` with variance ``s_i``. On the way up, each node collects
``b_i = sum z_c`` and ``t_i = sum q_c`` from its children. It combines these sums with its own
measurement into the estimate ``z_i`` with variance ``q_i``. On the way down, the difference between
a node's final value and ``b_i`` is shared among its children in proportion to their ``q_c``. Each
child takes ``q_c d_i``, where ``d_i = (x_i - b_i) / t_i`` is the difference per unit of variance.

Arrays ``t`` and ``b`` are by position of internal nodes, ``s`` by position of all nodes, and
``v`` and ``out`` in the caller's numbering. If all variances are equal, ``s`` is None and they
count as one. If nothing is known of some node from below, its q and its parent's t are infinite.
Only in this case there is an array ``q``, by position of all nodes. In families with such a node it
holds the fraction that each child takes, and in all other families ``q_i``.

If all variances are equal, ``inverse`` holds 1 / (1 + t), so that the sweeps need not divide, and
``t`` may be None. Otherwise ``inverse`` is not read.

On the way down, kernels set ``seen[0]`` if a result is larger than ``largest``, the largest
number that ``out`` can hold, or is not a number.
"""

import numpy as np

from gmtree._kernels._jit import helper, inlined, kernel
from gmtree._kernels._shared import (
    ONE,
    ZERO,
    add,
    at,
    first_new_parent,
    known,
    ratio,
    total_of,
    weights,
)

# Sums of at least this many consecutive siblings are compensated, since rounding errors that are
# equal for all siblings do not average out.
LONG = np.uint64(128)
# Like `LONG`, but for several columns, which are added up one after the other: the rows of a
# stretch then fit into the cache of the processor.
LONG_ROWS = np.uint64(4096)


@inlined
def _gap(v, b, inverse):
    """``inverse * (b - v)``, even if the difference itself would overflow."""
    return 2.0 * inverse * (0.5 * b - 0.5 * v)


@inlined
def _estimate(v, b, s, t, inverse, r):
    """z_r."""
    if t is None:
        return v + _gap(v, b, inverse[r])
    if s is None:
        return t[r] * inverse[r] * v + inverse[r] * b
    gain, carry, _ = weights(s, t, r)
    return gain * v + carry * b


@inlined
def _value(v, b, d, q, s, t, inverse, r):
    """(x_r, d_r) from v_r, b_r and the parent's d."""
    if t is None:
        own = inverse[r] * d - _gap(v, b, inverse[r])
        return v + d - own, own
    if s is None:
        gain = t[r] * inverse[r]
        x = gain * v + inverse[r] * b + gain * d
        return x, inverse[r] * d - _gap(v, b, inverse[r])
    gain, carry, variance = weights(s, t, r)
    x = gain * v + carry * b + (variance if q is None else q[r]) * d
    return x, ratio(x - b, t[r])


@inlined
def _stretch_before(parent, r, start, long):
    """The start of the stretch of positions that ends before r, and whether the stretch is long.

    It is long if it has `long` positions, all of them siblings. Stretches begin at multiples of
    `long`, so that they do not depend on how threads share a sweep.
    """
    last = r - ONE
    first = max(last - last % long, start)
    return first, r == first + long and parent[first] == parent[last]


@inlined
def _is_chain(parent, start, stop):
    """Whether each position from `start` to ``stop - 1`` is a child of the one before it."""
    r = start
    while r < stop and parent[r] + ONE == r:
        r += ONE
    return r == stop


# --------------------------------------------------------------------------- stage 1


@kernel
def take_variances(order, variance, smallest, largest, s, seen, start, stop):
    """Variances by position; sets seen = [invalid, infinite, zero].

    Positive finite variances are valid between `smallest` and `largest`.
    """
    usual = True
    for r in range(np.uint64(start), np.uint64(stop)):
        own = variance[at(order, r)]
        s[r] = own
        usual &= (own >= smallest) & (own <= largest)
    if usual:
        return
    for own in s[start:stop]:
        if own == np.inf:
            seen[1] = True
        elif own == 0.0:
            seen[2] = True
        elif not smallest <= own <= largest:
            seen[0] = True


@kernel
def count_leaves(parent, t, start, stop):
    """t_parent += 1."""
    for r in range(np.uint64(start), np.uint64(stop)):
        t[parent[r]] += 1.0


@kernel
def factor_inner(parent, s, t, start, stop):
    """t_parent += q_i, children before parents."""
    r, start = np.uint64(stop), np.uint64(start)
    while r > start:
        first, is_long = _stretch_before(parent, r, start, LONG)
        if is_long:
            p = parent[first]
            total, lost = t[p], 0.0
            while r > start and parent[r - ONE] == p:
                r -= ONE
                total, lost = add(total, lost, weights(s, t, r)[2])
            t[p] = total_of(total, lost)
        while r > first:
            r -= ONE
            t[parent[r]] += weights(s, t, r)[2]


@kernel
def count_undetermined(parent, s, t, count):
    """count_parent = number of children about which nothing is known from below."""
    for r in range(ONE, np.uint64(parent.size)):
        if known(s, t, r) == np.inf:
            count[parent[r]] += 1.0


@kernel
def split_evenly(parent, s, t, count, q):
    """q_c = 1 / count_p for undetermined children c, and 0 for their determined siblings.

    This is the limit of large equal variances. Without undetermined children, q is unchanged.
    """
    q[0] = known(s, t, ZERO)
    for r in range(ONE, np.uint64(parent.size)):
        p = parent[r]
        q[r] = known(s, t, r)
        if t[p] == np.inf:
            q[r] = 1.0 / count[p] if q[r] == np.inf else 0.0


# --------------------------------------------------------------------------- stage 2


@helper
def _start_sums(b, p, stop):
    """Sums of positions p to ``stop - 1`` begin at zero."""
    while p < stop:
        if b.ndim == 1:
            b[p] = 0.0
        else:
            for j in range(b.shape[1]):
                b[p, j] = 0.0
        p += ONE


@kernel
def up_leaves(parent, order, v, b, start, stop):
    """b_parent = sum of v_i over leaves; 0 for positions without any. Parents ascend."""
    r, stop = np.uint64(start), np.uint64(stop)
    long = LONG if v.ndim == 1 else LONG_ROWS
    new = first_new_parent(parent, b.shape[0], r)
    while r < stop:
        end = min(r - r % long + long, stop)
        # Sums are initialised a stretch at a time, while they are in the cache.
        _start_sums(b, new, parent[end - ONE] + ONE)
        new = parent[end - ONE] + ONE
        if r + long == end and parent[r] == parent[end - ONE]:
            p = parent[r]
            if v.ndim == 1:
                total, r = _add_family(parent, order, v, r, stop)
                b[p] += total
            else:
                for j in range(v.shape[1]):
                    total, lost = 0.0, 0.0
                    for k in range(r, end):
                        total, lost = add(total, lost, v[at(order, k), j])
                    b[p, j] += total_of(total, lost)
                r = end
        for k in range(r, end):
            i, p = at(order, k), parent[k]
            if v.ndim == 1:
                b[p] += v[i]
            else:
                for j in range(v.shape[1]):
                    b[p, j] += v[i, j]
        r = max(r, end)


@kernel
def up_leaf_families(parent, order, v, b, start, stop):
    """`up_leaves` with four independent sums, which is faster if families are large."""
    r, stop = np.uint64(start), np.uint64(stop)
    new = first_new_parent(parent, b.shape[0], r)
    while r < stop:
        p = parent[r]
        _start_sums(b, new, p)
        b[p], r = _add_family(parent, order, v, r, stop)
        new = p + ONE


@helper
def _add_family(parent, order, v, r, stop):
    """The sum of v over r and the siblings that follow up to `stop`, and the end of these.

    A long sum is the sum of short ones, whose rounding errors are added last.
    """
    p = parent[r]
    total, r = _add_siblings(parent, order, v, r, min(r + LONG, stop))
    lost = 0.0
    while r < stop and parent[r] == p:
        more, r = _add_siblings(parent, order, v, r, min(r + LONG, stop))
        total, lost = add(total, lost, more)
    return total_of(total, lost), r


@helper
def _add_siblings(parent, order, v, r, stop):
    """The sum of v over r and the siblings that follow up to `stop`, and the end of these."""
    if parent[stop - ONE] != parent[r]:
        p, stop = parent[r], r
        while parent[stop] == p:
            stop += ONE
    return _add_all(order, v, r, stop), stop


@inlined
def _add_all(order, v, r, stop):
    """The sum of v over positions r to ``stop - 1``, in four parts that are independent."""
    a = b = c = d = 0.0
    while r + np.uint64(4) <= stop:
        a += v[at(order, r)]
        b += v[at(order, r + ONE)]
        c += v[at(order, r + np.uint64(2))]
        d += v[at(order, r + np.uint64(3))]
        r += np.uint64(4)
    while r < stop:
        a += v[at(order, r)]
        r += ONE
    return (a + b) + (c + d)


@kernel
def up_inner(parent, order, s, t, inverse, v, b, start, stop):
    """b_parent += z_i, with z_i from v_i and b_i; children before parents."""
    r, start = np.uint64(stop), np.uint64(start)
    while r > start:
        first, is_long = _stretch_before(parent, r, start, LONG if v.ndim == 1 else LONG_ROWS)
        if is_long:
            p = parent[first]
            if v.ndim == 1:
                total, lost = b[p], 0.0
                while r > start and parent[r - ONE] == p:
                    r -= ONE
                    z = _estimate(v[at(order, r)], b[r], s, t, inverse, r)
                    total, lost = add(total, lost, z)
                b[p] = total_of(total, lost)
            else:
                for j in range(v.shape[1]):
                    total, lost = 0.0, 0.0
                    for k in range(first, r):
                        z = _estimate(v[at(order, k), j], b[k, j], s, t, inverse, k)
                        total, lost = add(total, lost, z)
                    b[p, j] += total_of(total, lost)
                r = first
        if v.ndim == 1 and _is_chain(parent, first, r):
            # On a chain, each position waits for the sum of the one before. So the sum is passed in
            # a register and not in memory.
            below = b[r - ONE]
            while r > first:
                r -= ONE
                below = b[r - ONE] + _estimate(v[at(order, r)], below, s, t, inverse, r)
                b[r - ONE] = below
        while r > first:
            r -= ONE
            i, p = at(order, r), parent[r]
            if v.ndim == 1:
                b[p] += _estimate(v[i], b[r], s, t, inverse, r)
            else:
                for j in range(v.shape[1]):
                    b[p, j] += _estimate(v[i, j], b[r, j], s, t, inverse, r)


@kernel
def root(order, s, t, inverse, v, b, out, largest, seen):
    """x_root = z_root, then d_root in place of b_root."""
    r = ZERO
    i = at(order, r)
    if v.ndim == 1:
        x, b[r] = _value(v[i], b[r], 0.0, None, s, t, inverse, r)
        seen[0] |= not abs(x) <= largest
        out[i] = x
    else:
        for j in range(v.shape[1]):
            x, b[r, j] = _value(v[i, j], b[r, j], 0.0, None, s, t, inverse, r)
            seen[0] |= not abs(x) <= largest
            out[i, j] = x


@kernel
def down_inner(parent, order, q, s, t, inverse, v, b, out, largest, seen, start, stop):
    """x_i = z_i + q_i d_parent, then d_i = (x_i - b_i) / t_i in place of b_i.

    z_i is computed again, because this takes less time than storing it on the way up. `out` may be
    `v`.
    """
    fits = True
    for first in range(np.uint64(start), np.uint64(stop), LONG):
        end = min(first + LONG, np.uint64(stop))
        if v.ndim == 1 and _is_chain(parent, first, end):
            d = b[first - ONE]
            for r in range(first, end):
                i = at(order, r)
                x, d = _value(v[i], b[r], d, q, s, t, inverse, r)
                b[r] = d
                fits &= abs(x) <= largest
                out[i] = x
            continue
        for r in range(first, end):
            i, p = at(order, r), parent[r]
            if v.ndim == 1:
                x, b[r] = _value(v[i], b[r], b[p], q, s, t, inverse, r)
                fits &= abs(x) <= largest
                out[i] = x
            else:
                for j in range(v.shape[1]):
                    x, b[r, j] = _value(v[i, j], b[r, j], b[p, j], q, s, t, inverse, r)
                    fits &= abs(x) <= largest
                    out[i, j] = x
    if not fits:
        seen[0] = True


@kernel
def down_leaves(parent, order, q, v, b, out, largest, seen, start, stop):
    """x_i = v_i + q_i d_parent. `out` may be `v`."""
    fits = True
    for first in range(np.uint64(start), np.uint64(stop), LONG):
        end = min(first + LONG, np.uint64(stop))
        if v.ndim == 1 and parent[first] == parent[end - ONE]:
            # Several children of one parent can be computed at the same time.
            d = b[parent[first]]
            for r in range(first, end):
                i = at(order, r)
                x = v[i] + (d if q is None else q[r] * d)
                fits &= abs(x) <= largest
                out[i] = x
            continue
        for r in range(first, end):
            i, p = at(order, r), parent[r]
            if v.ndim == 1:
                x = v[i] + (b[p] if q is None else q[r] * b[p])
                fits &= abs(x) <= largest
                out[i] = x
            else:
                for j in range(v.shape[1]):
                    x = v[i, j] + (b[p, j] if q is None else q[r] * b[p, j])
                    fits &= abs(x) <= largest
                    out[i, j] = x
    if not fits:
        seen[0] = True


# --------------------------------------------------------------------------- exactly known values


@kernel
def known_sizes(parent, order, s, v, size, fractional):
    """size_p = sum of |v_c| over the children of each internal node; children before parents.

    A child that is not known exactly contributes its own size, which is the sum over its children.
    `fractional` is set for nodes with a summand that is not whole. `size` and `fractional` hold
    zeros on entry.
    """
    r = np.uint64(parent.size)
    while r > ONE:
        r -= ONE
        p = parent[r]
        if s[r] == 0.0 or r >= size.size:
            x = np.float64(v[at(order, r)])
            size[p] += abs(x)
            fractional[p] |= x != np.floor(x)
        else:
            size[p] += size[r]
            fractional[p] |= fractional[r]
