"""Optimal consistent values: one sweep up, one down.

Node i was measured as ``v_i`` with variance ``s_i``. On the way up each node collects from its
children ``b_i = sum z_c`` and ``t_i = sum q_c`` and combines that with its own measurement into
the estimate ``z_i`` with variance ``q_i``; on the way down the difference between a node's
final value and ``b_i`` is shared among its children in proportion to their ``q_c``.

Arrays ``t`` and ``b`` are by position of internal nodes, ``s`` by position of all nodes, and
``v`` and ``out`` in the caller's numbering. ``s`` is None where all variances are equal; they
then count as one. Where nothing is known from below of some node, its q and its parent's t are
infinite; only then there is an array ``q``, by position of all nodes, which in such families
holds the fraction that each child takes, and elsewhere the q above.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import add, at, known, ratio, weights

# Where so many positions in a row, from a multiple of it on, are siblings, they are added up with
# care: rounding that is the same for all of them does not average out.
LONG = np.uint64(128)


@inlined
def _combine(v, b, s, t, r):
    """z = gain v + carry b."""
    if s is None:
        return (v * t[r] + b) / (1.0 + t[r])
    gain, carry, _ = weights(s, t, r)
    return gain * v + carry * b


@inlined
def _combine_again(v, b, q, s, t, r):
    """(z, q, 1 / t) on the way down."""
    if s is None:
        # One division for all three: it is what a sweep over internal nodes waits for.
        inverse = 1.0 / (t[r] * (1.0 + t[r]))
        return (v * t[r] + b) * t[r] * inverse, t[r] * t[r] * inverse, (1.0 + t[r]) * inverse
    gain, carry, variance = weights(s, t, r)
    return gain * v + carry * b, variance if q is None else q[r], ratio(1.0, t[r])


@inlined
def _total_of(total, lost):
    """total + lost; with infinite terms nothing is lost, nor can it be told."""
    return total if abs(total) == np.inf else total + lost


@inlined
def _stretch_before(parent, r, start):
    """Where the stretch of positions that ends before r begins, and whether it is long siblings."""
    last = r - np.uint64(1)
    first = max(last - last % LONG, start)
    return first, r == first + LONG and parent[first] == parent[last]


# --------------------------------------------------------------------------- stage 1


@kernel
def take_variances(order, variance, smallest, largest, s, seen, start, stop):
    """Variances by position, and what there is among them.

    `seen` is told of numbers that are no variance, of infinite ones and of zeros. Other positive
    numbers must lie between `smallest` and `largest`.
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
        first, is_long = _stretch_before(parent, r, start)
        if is_long:
            p = parent[first]
            total, lost = t[p], 0.0
            while r > start and parent[r - np.uint64(1)] == p:
                r -= np.uint64(1)
                total, lost = add(total, lost, weights(s, t, r)[2])
            t[p] = _total_of(total, lost)
        while r > first:
            r -= np.uint64(1)
            t[parent[r]] += weights(s, t, r)[2]


@kernel
def count_undetermined(parent, s, t, count):
    """count_parent = number of children about which nothing is known from below."""
    for r in range(1, parent.size):
        if known(s, t, r) == np.inf:
            count[parent[r]] += 1


@kernel
def split_evenly(parent, s, t, count, q):
    """Undetermined children share alone and evenly, the limit of equal large variances."""
    q[0] = known(s, t, 0)
    for r in range(1, parent.size):
        p = parent[r]
        q[r] = known(s, t, r)
        if t[p] == np.inf:
            q[r] = 1.0 / count[p] if q[r] == np.inf else 0.0


# --------------------------------------------------------------------------- stage 2


@kernel
def up_leaves(parent, order, v, b, start, stop):
    """b_parent += v_i."""
    r, stop = np.uint64(start), np.uint64(stop)
    while r < stop:
        end = min(r - r % LONG + LONG, stop)
        if v.ndim == 1 and r + LONG == end and parent[r] == parent[end - np.uint64(1)]:
            p = parent[r]
            total, r = _add_family(parent, order, v, r, stop)
            b[p] += total
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
    """`up_leaves` with each family's sum in a register: faster where families are large."""
    r, stop = np.uint64(start), np.uint64(stop)
    while r < stop:
        p = parent[r]
        total, r = _add_family(parent, order, v, r, stop)
        b[p] += total


@kernel
def _add_family(parent, order, v, r, stop):
    """The sum of v over r and its siblings that follow, and where they end; up to `stop`.

    A long sum is put together from short ones, with what is lost between them added at the end.
    """
    p = parent[r]
    total, r = _add_siblings(parent, order, v, r, min(r + LONG, stop))
    lost = 0.0
    while r < stop and parent[r] == p:
        more, r = _add_siblings(parent, order, v, r, min(r + LONG, stop))
        total, lost = add(total, lost, more)
    return _total_of(total, lost), r


@kernel
def _add_siblings(parent, order, v, r, stop):
    """The sum of v over r and its siblings that follow, and where they end; up to `stop`."""
    if parent[stop - np.uint64(1)] != parent[r]:
        p, stop = parent[r], r
        while parent[stop] == p:
            stop += np.uint64(1)
    return _add_all(order, v, r, stop), stop


@inlined
def _add_all(order, v, r, stop):
    """The sum of v over positions r to ``stop - 1``, in four parts that need not wait in turn."""
    a = b = c = d = 0.0
    while r + np.uint64(4) <= stop:
        a += v[at(order, r)]
        b += v[at(order, r + np.uint64(1))]
        c += v[at(order, r + np.uint64(2))]
        d += v[at(order, r + np.uint64(3))]
        r += np.uint64(4)
    while r < stop:
        a += v[at(order, r)]
        r += np.uint64(1)
    return (a + b) + (c + d)


@kernel
def up_inner(parent, order, s, t, v, b, start, stop):
    """b_parent += z_i, with z_i from v_i and b_i; children before parents."""
    r, start = np.uint64(stop), np.uint64(start)
    while r > start:
        first, is_long = _stretch_before(parent, r, start)
        if v.ndim == 1 and is_long:
            p = parent[first]
            total, lost = b[p], 0.0
            while r > start and parent[r - np.uint64(1)] == p:
                r -= np.uint64(1)
                z = _combine(v[at(order, r)], b[r], s, t, r)
                total, lost = add(total, lost, z)
            b[p] = _total_of(total, lost)
        while r > first:
            r -= np.uint64(1)
            i, p = at(order, r), parent[r]
            if v.ndim == 1:
                b[p] += _combine(v[i], b[r], s, t, r)
            else:
                for j in range(v.shape[1]):
                    b[p, j] += _combine(v[i, j], b[r, j], s, t, r)


@kernel
def estimates(order, s, t, v, b, z):
    """z of internal nodes, after the upward sweep."""
    for r in range(np.uint64(t.size)):
        z[r] = _combine(v[at(order, r)], b[r], s, t, r)


@kernel
def root(order, s, t, v, b, out):
    """x_root = z_root; b_root becomes what its children share."""
    r = np.uint64(0)
    i = at(order, r)
    per_variance = ratio(1.0, t[r])
    if v.ndim == 1:
        x = _combine(v[i], b[r], s, t, r)
        out[i] = x
        b[r] = (x - b[r]) * per_variance
    else:
        for j in range(v.shape[1]):
            x = _combine(v[i, j], b[r, j], s, t, r)
            out[i, j] = x
            b[r, j] = (x - b[r, j]) * per_variance


@kernel
def down_inner(parent, order, q, s, t, v, b, out, start, stop):
    """x_i = z_i + q_i d_parent, then d_i = (x_i - b_i) / t_i in place of b_i.

    Computing z_i again costs less than having kept it. `out` may be `v`.
    """
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), parent[r]
        if v.ndim == 1:
            z, variance, per_variance = _combine_again(v[i], b[r], q, s, t, r)
            x = z + variance * b[p]
            out[i] = x
            b[r] = (x - b[r]) * per_variance
        else:
            for j in range(v.shape[1]):
                z, variance, per_variance = _combine_again(v[i, j], b[r, j], q, s, t, r)
                x = z + variance * b[p, j]
                out[i, j] = x
                b[r, j] = (x - b[r, j]) * per_variance


@kernel
def down_leaves(parent, order, q, v, b, out, start, stop):
    """x_i = v_i + q_i d_parent. `out` may be `v`."""
    for first in range(np.uint64(start), np.uint64(stop), LONG):
        end = min(first + LONG, np.uint64(stop))
        if v.ndim == 1 and parent[first] == parent[end - np.uint64(1)]:
            # With one parent several children can be done at once.
            d = b[parent[first]]
            for r in range(first, end):
                i = at(order, r)
                out[i] = v[i] + (d if q is None else q[r] * d)
            continue
        for r in range(first, end):
            i, p = at(order, r), parent[r]
            if v.ndim == 1:
                out[i] = v[i] + (b[p] if q is None else q[r] * b[p])
            else:
                for j in range(v.shape[1]):
                    out[i, j] = v[i, j] + (b[p, j] if q is None else q[r] * b[p, j])


# --------------------------------------------------------------------------- giant families


@inlined
def _is_giant(place, p):
    """Whether `place` has a number for the family of p; it ends with the last that has one."""
    return p < place.size and place[p] >= 0


@inlined
def _together(parent, r):
    """How many positions from r on to take at once: many siblings, or one."""
    end = r + LONG
    if end > parent.size or parent[end - np.uint64(1)] != parent[r]:
        return np.uint64(1)
    # Where another height begins in between, there may be others' children.
    same = True
    for k in range(r, end):
        same &= parent[k] == parent[r]
    return LONG if same else np.uint64(1)


@kernel
def subtract_children(parent, order, place, x, rest, total, lost):
    """rest = x_p - sum of x_c for giant families; holds x_p on entry.

    `total` and `lost` hold zeros; their columns are lanes that can be done at once.
    """
    lanes = np.uint64(total.shape[1])
    r = np.uint64(1)
    while r < parent.size:
        p, end = parent[r], r + _together(parent, r)
        if _is_giant(place, p):
            g = place[p]
            for first in range(r, end, lanes):
                for k in range(np.uint64(0), min(lanes, end - first)):
                    i = at(order, first + k)
                    total[g, k], lost[g, k] = add(total[g, k], lost[g, k], -x[i])
        r = end
    for g in range(rest.size):
        all_lost = 0.0
        for k in range(lanes):
            rest[g], all_lost = add(rest[g], all_lost + lost[g, k], total[g, k])
        rest[g] += all_lost


@kernel
def settle(parent, order, place, q, s, t, count, eps, rest, waiting, x):
    """Give the children of giant families what is left of their parents' values.

    The part of one child may be too small to change it; what rounding leaves is `waiting` for the
    next, 0 on entry. A child that is known far better than the mean of all `count` lets others
    take its part, and none takes much more than its own part and rounding (`eps`) of itself, so
    that what large values leave is not for small ones. Of many leaves one takes the parts of all,
    which is quicker; an internal node takes no more than its own, since its children do not
    follow, nor does a float32, where parts are not that small.
    """
    r = np.uint64(1)
    while r < parent.size:
        p, end = parent[r], r + np.uint64(1)
        if r >= t.size and x.itemsize == 8:
            end = r + _together(parent, r)
        if _is_giant(place, p):
            parts, largest, taker = _parts(q, s, t, r, end)
            own = parts * ratio(1.0, t[p]) * rest[place[p]]
            left = waiting[place[p]] + own
            if ratio(largest, t[p]) * count[place[p]] > 0.5:
                i = at(order, taker)
                before = np.float64(x[i])
                most = 2.0 * abs(own) + 8.0 * eps * abs(before)
                x[i] = before + max(-most, min(left, most))
                left -= np.float64(x[i]) - before
            waiting[place[p]] = left
        r = end


@inlined
def _parts(q, s, t, r, end):
    """The sum of q over positions r to ``end - 1``, the largest, and where that is."""
    if q is None and s is None and r >= t.size:
        return float(end - r), 1.0, r
    total, largest, where = 0.0, 0.0, r
    for c in range(r, end):
        part = known(s, t, c) if q is None else q[c]
        total += part
        if part > largest:
            largest, where = part, c
    return total, largest, where
