"""Functions that kernels of several modules share.

All of them are `inlined`. Machine code on disk is renewed if this file or the file of the kernel
itself changes (see `_jit`), but not if another file changes. So functions that kernels share across
modules must be defined here.
"""

import numpy as np

from gmtree._kernels._jit import inlined

# Unsigned and signed integers must not be mixed, since numba would convert them to floats.
ZERO, ONE = np.uint64(0), np.uint64(1)


@inlined
def at(order, r):
    """The caller's node at position r; if `rank` is passed as `order`, the position of node r."""
    return r if order is None else order[r]


@inlined
def variance_of(s, r):
    """Variance of position r, in units of the common variance if all are equal."""
    return 1.0 if s is None else s[r]


@inlined
def lower_of(lower, i):
    return -np.inf if lower is None else lower[i]


@inlined
def upper_of(upper, i):
    return np.inf if upper is None else upper[i]


@inlined
def first_new_parent(parent, n_inner, start):
    """The position after the parent of leaf ``start - 1``, or 0 if `start` is the first leaf.

    The parents of leaves ascend, so a sweep over the leaves from `start` on must initialise the
    sums from this position on.
    """
    return parent[start - ONE] + ONE if start > np.uint64(n_inner) else ZERO


@inlined
def weights(s, t, r):
    """(gain, carry, q) of internal position r: z = gain v + carry b, and the variance of z.

    gain = t / (s + t), carry = s / (s + t) and q = s t / (s + t), with their limits for s = 0
    (exactly known), s = inf (not measured), t = 0 (all children exactly known) and t = inf
    (undetermined from below).
    """
    if s is None:
        carry = 1.0 / (1.0 + t[r])
        return t[r] * carry, carry, t[r] * carry
    return _weights_of(s[r], t[r])


@inlined
def _weights_of(s, t):
    """`weights` of two numbers, compiled once for all types of arrays they come from."""
    if s == 0.0 or (t == np.inf and s < np.inf):
        return 1.0, 0.0, s
    if s == np.inf or t == 0.0:
        return 0.0, 1.0, t
    inverse = 1.0 / (s + t)
    carry = s * inverse
    return t * inverse, carry, t * carry


@inlined
def combine(v, b, s, t, r):
    """z = gain v + carry b at internal position r."""
    if s is None:
        return (v * t[r] + b) / (1.0 + t[r])
    gain, carry, _ = weights(s, t, r)
    return gain * v + carry * b


@inlined
def known(s, t, r):
    """q: variance of the estimate of position r from itself and below."""
    if r < t.size:
        return weights(s, t, r)[2]
    return 1.0 if s is None else s[r]


@inlined
def ratio(part, t):
    """part / t; 0 if all children are exactly known.

    If t is infinite, `part` already is a fraction.
    """
    if t == np.inf:
        return part
    return part / t if t > 0.0 else 0.0


@inlined
def share(q, s, t, r, p):
    """The fraction of a difference at its parent p that position r takes."""
    return ratio(known(s, t, r) if q is None else q[r], t[p])


@inlined
def add(total, lost, x):
    """total + x, and `lost` plus the rounding error of that sum."""
    both = total + x
    kept = both - total
    return both, lost + ((total - (both - kept)) + (x - kept))


@inlined
def total_of(total, lost):
    """total + lost, or `total` itself if it is infinite, since `lost` is then NaN."""
    return total if abs(total) == np.inf else total + lost


@inlined
def stretch(sums, first, stop):
    """The sum over places `first` to ``stop - 1`` of a list.

    The second half of `sums` holds the list. Entry k of the first half is the sum of entries 2k
    and 2k + 1, so that the first half holds sums of pairs, of pairs of pairs, and so on. Unlike a
    difference of running sums, this does not lose small numbers next to large ones.
    """
    total = 0.0
    first += np.uint64(sums.size // 2)
    stop += np.uint64(sums.size // 2)
    while first < stop:
        if first & ONE:
            total += sums[first]
            first += ONE
        if stop & ONE:
            stop -= ONE
            total += sums[stop]
        first >>= ONE
        stop >>= ONE
    return total
