"""Functions that kernels of several modules are made of.

All of them are `inlined`. Machine code kept on disk is renewed when this file changes (see
`_jit`), as it is when the file of the kernel itself changes, but not for any other file. So what
kernels share across modules belongs here, and nowhere else.
"""

import numpy as np

from gmtree._kernels._jit import inlined

# Unsigned and signed integers must not be mixed: numba makes floating point numbers of them.
ONE = np.uint64(1)


@inlined
def at(order, r):
    """The caller's node at position r; with `rank` for `order`, the position of node r."""
    return r if order is None else order[r]


@inlined
def first_new_parent(parent, n_inner, start):
    """The first position that is neither a parent of a leaf before `start` nor before one.

    A sweep over leaves, whose parents ascend, has to start the sums from here on.
    """
    return parent[start - ONE] + ONE if start > np.uint64(n_inner) else np.uint64(0)


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
    """`weights` of two numbers: compiled once, whatever kinds of arrays they come from."""
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
    """q: variance of what is known of position r from itself and below."""
    if r < t.size:
        return weights(s, t, r)[2]
    return 1.0 if s is None else s[r]


@inlined
def ratio(part, t):
    """part / t; 0 where all children are exactly known.

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
    """total + x, and `lost` with what rounding took from that sum."""
    both = total + x
    kept = both - total
    return both, lost + ((total - (both - kept)) + (x - kept))


@inlined
def total_of(total, lost):
    """total + lost; nothing is added to an infinite total, since `lost` is then not a number."""
    return total if abs(total) == np.inf else total + lost


@inlined
def stretch(sums, first, stop):
    """The sum over places `first` to ``stop - 1`` of a list, from sums of pairs of pairs.

    The second half of `sums` holds the list; entry k of the first half is the sum of entries 2k
    and 2k + 1. Unlike a difference of running sums this loses no small numbers beside large ones.
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
