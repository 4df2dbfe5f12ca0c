"""What kernels of several modules are made of.

All is `inlined`. Machine code kept on disk is renewed when this file changes (`_jit`), as it is for
the file a kernel stands in. So what kernels share across modules belongs here, and nowhere else.
"""

import numpy as np

from gmtree._kernels._jit import inlined


@inlined
def at(order, r):
    """The caller's node at position r."""
    return r if order is None else order[r]


@inlined
def weights(s, t, r):
    """(gain, carry, q) of internal position r: z = gain v + carry b, and the variance of z.

    gain = t / (s + t), carry = s / (s + t) and q = s t / (s + t), with their limits for s = 0
    (exactly known), s = inf (not measured) and t = inf (undetermined from below).
    """
    if s is None:
        carry = 1.0 / (1.0 + t[r])
        return t[r] * carry, carry, t[r] * carry
    if s[r] == 0.0 or (t[r] == np.inf and s[r] < np.inf):
        return 1.0, 0.0, s[r]
    if s[r] == np.inf:
        return 0.0, 1.0, t[r]
    inverse = 1.0 / (s[r] + t[r])
    carry = s[r] * inverse
    return t[r] * inverse, carry, t[r] * carry


@inlined
def known(s, t, r):
    """q: variance of what is known of position r from itself and below."""
    if r < t.size:
        return weights(s, t, r)[2]
    return 1.0 if s is None else s[r]


@inlined
def ratio(part, t):
    """part / t; 0 where all children are exactly known; a fraction stays what it is."""
    if t == np.inf:
        return part
    return part / t if t > 0.0 else 0.0


@inlined
def share(q, s, t, r, p):
    """What position r takes of a difference at its parent p."""
    return ratio(known(s, t, r) if q is None else q[r], t[p])


@inlined
def add(total, lost, x):
    """total + x, and `lost` with what rounding took from that."""
    both = total + x
    kept = both - total
    return both, lost + ((total - (both - kept)) + (x - kept))
