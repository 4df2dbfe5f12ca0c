"""Estimates of nodes from all other measurements, and sums of squared residuals by level.

The estimate of a node without its own measurement combines two independent estimates: ``b_i`` with
variance ``t_i`` from below, and ``y_i`` with variance ``a_i`` from the rest of the tree. For a
child c of p, the second one is ``y_c = y_p' - (b_p - z_c)`` with ``a_c = u_p + (t_p - q_c)``. Here
``y_p'`` with variance ``u_p`` combines ``y_p`` and the measurement of p. The difference ``t_p -
q_c`` does not suffer from cancellation, because for the largest child it is computed as the sum of
q over its siblings.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, at, combine, known, variance_of


@inlined
def _join(x, s, y, a):
    """The estimate that combines x with variance s and y with variance a, and its variance."""
    if s == 0.0 or a == np.inf:
        return x, s
    if s == np.inf or a == 0.0:
        return y, a
    inverse = 1.0 / (s + a)
    return (x * a + y * s) * inverse, s * a * inverse


@inlined
def _include(sums, level, count, first_power, second_power, chi2):
    sums[level, 0] += count
    sums[level, 1] += first_power
    sums[level, 2] += second_power
    sums[level, 3] += chi2


@kernel
def leave_one_out(
    parent, order, s, t, largest, rest, scale, v, b, heard, spread, depth, expected, variance, sums
):
    """m_i joins (b_i, t_i) and (y_i, a_i), parents before children.

    `expected` becomes m, which is NaN if it is undetermined, and `variance` its variance. Let ``w =
    s / (s + variance)`` for measured nodes that are not known exactly. For each level, `sums` gets
    the number of these nodes, ``sum w``, ``sum w^2`` and ``sum r^2 / s = sum (v - m)^2 w / (s +
    variance)``, where s and the variance in the last sum are in units of `scale`. `heard`, `spread`
    and `depth` are working memory, by position of internal nodes.
    """
    # Local variables for the sums of the current level, which are faster than entries of an array.
    count = first_power = second_power = chi2 = 0.0
    current = ZERO
    for r in range(np.uint64(parent.size)):
        i = at(order, r)
        own = variance_of(s, r)
        x = v[i]
        y, a, level = 0.0, np.inf, ZERO
        if r > ZERO:
            p = parent[r]
            level = depth[p] + ONE
            below = known(s, t, r)
            first = np.uint64(largest[p])
            if first == r:
                a = spread[p] + rest[p]
            elif t[p] < np.inf:
                a = spread[p] + (t[p] - below)
            z = combine(x, b[r], s, t, r) if r < np.uint64(t.size) else x
            y = heard[p] - (b[p] - z)
        m, left = y, a
        if r < np.uint64(t.size):
            depth[r] = level
            m, left = _join(b[r], t[r], y, a)
            heard[r], spread[r] = _join(x, own, y, a)
        expected[i] = m if left < np.inf else np.nan
        variance[i] = left * scale
        if level != current:
            _include(sums, current, count, first_power, second_power, chi2)
            count = first_power = second_power = chi2 = 0.0
            current = level
        if own > 0.0 and own < np.inf:
            count += 1.0
            if left < np.inf:
                inverse = 1.0 / (own + left)
                w = own * inverse
                first_power += w
                second_power += w * w
                chi2 += (x - m) * (x - m) * w * inverse
    _include(sums, current, count, first_power, second_power, chi2)
