"""Exact variances and covariances of consistent values, and of sums over ranges of leaves.

The final value of node c given that of its parent p is ``x_c = z_c + k_c (x_p - b_p)`` with ``k_c =
q_c / t_p``, from which all variances follow. Arrays are by position, with the names of
`gmtree._kernels.projection`.
"""

import numpy as np

from gmtree._kernels._jit import helper, inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, at, known, ratio, share, stretch, weights


@inlined
def _square(x):
    """x * x. In machine code ``x**2`` is the same, but in Python its last bit may differ."""
    return x * x


@kernel
def largest_children(parent, s, t, largest, rest):
    """The child with the largest q of each node, and the sum of q over its other children.

    For the largest child ``t - q_c`` would suffer from cancellation, so that `rest` is used
    instead. Both outputs hold zeros on entry, since position 0 is never a child.
    """
    for r in range(ONE, np.uint64(parent.size)):
        p = parent[r]
        variance = known(s, t, r)
        first = largest[p]
        if first == 0:
            largest[p] = r
        elif variance > known(s, t, first):
            rest[p] += known(s, t, first)
            largest[p] = r
        else:
            rest[p] += variance


@kernel
def node_variances(parent, q, s, t, largest, rest, variance):
    """P_c = q_c (t_p - q_c) / t_p + k_c^2 P_p, parents before children."""
    variance[0] = known(s, t, ZERO)
    for r in range(ONE, np.uint64(parent.size)):
        p = parent[r]
        own = known(s, t, r)
        if own == np.inf:
            # This child is determined only as its parent minus its siblings.
            others = np.inf if largest[p] != r else rest[p]
            variance[r] = others + variance[p]
        elif known(s, t, largest[p]) == np.inf:
            variance[r] = own
        else:
            k = share(q, s, t, r, p)
            others = rest[p] if largest[p] == r else t[p] - own
            variance[r] = own * ratio(others, t[p]) + k * k * variance[p]


@kernel
def noise_upward(parent, order, s, t, noise, own, below, largest, rest):
    """own_i = variance of z_i if measurements have the variances `noise`; children before parents.

    ``own_i = gain_i^2 noise_i + carry_i^2 below_i`` with ``below_i = sum own_c``. `largest` is the
    child with the largest variance of each node, and `rest` the sum over its other children. The
    last three hold zeros on entry.
    """
    r = np.uint64(parent.size)
    while r > ZERO:
        r -= ONE
        given = noise[at(order, r)]
        if r < np.uint64(t.size):
            gain, carry, _ = weights(s, t, r)
            variance = carry * carry * below[r]
            if gain > 0.0:
                variance += gain * gain * given
        else:
            variance = 0.0 if s is not None and s[r] == np.inf else given
        own[r] = variance
        if r > ZERO:
            p = parent[r]
            below[p] += variance
            first = largest[p]
            if first == 0:
                largest[p] = r
            elif variance > own[first]:
                rest[p] += own[first]
                largest[p] = r
            else:
                rest[p] += variance


@kernel
def noise_downward(
    parent, order, q, s, t, largest_q, rest_q, noise, own, below, largest, rest, kept, lost, apart,
    variance,
):  # fmt: skip
    """Variances of consistent values, after `noise_upward`; parents before children.

    ``x_i = kept_i z_i + o_i``, where o_i is independent of the measurements below i and has the
    variance `apart_i`. In ``x_i - b_i``, b_i has the coefficient ``-lost_i = kept_i carry_i - 1``.
    So ``kept_c = 1 - k_c lost_p``, written as ``(1 - k_c) + k_c kept_p carry_p``, and ``apart_c =
    k_c^2 (kept_p^2 gain_p^2 noise_p + lost_p^2 (below_p - own_c) + apart_p)``.
    """
    for r in range(np.uint64(parent.size)):
        keep, other, from_above = 1.0, 0.0, 0.0
        if r > ZERO:
            p = parent[r]
            gain, carry, _ = weights(s, t, p)
            k = share(q, s, t, r, p)
            if t[p] == np.inf or t[p] == 0.0:
                rest_of_k = 1.0 - k
            else:
                rest_of_k = ratio(rest_q[p] if largest_q[p] == r else t[p] - known(s, t, r), t[p])
            keep = rest_of_k + k * kept[p] * carry
            from_above = k * lost[p]
            siblings = rest[p] if largest[p] == r else below[p] - own[r]
            other = lost[p] * lost[p] * siblings + apart[p]
            if gain > 0.0:
                other += _square(kept[p] * gain) * noise[at(order, p)]
            other *= k * k
        if r < np.uint64(t.size):
            gain, carry, _ = weights(s, t, r)
            kept[r] = keep
            lost[r] = from_above + keep * gain
            apart[r] = other
        variance[r] = keep * keep * own[r] + other


@helper
def _overlap(a, b, sibling, t):
    """q_a q_b / t, or its limit if a, b or a sibling is undetermined."""
    if a == np.inf or b == np.inf:
        return min(a, b)
    return 0.0 if sibling == np.inf else a * ratio(b, t)


@kernel
def covariances(parent, q, s, t, largest, variance, first, second, out):
    """Covariances of the final values of pairs: climb from both nodes to the common ancestor.

    Both nodes must be determined. So an undetermined node on the way either is an only child or has
    the factor 0.
    """
    for m in range(np.uint64(out.size)):
        # This order makes the result symmetric in both nodes, to the last bit.
        a = min(first[m], second[m])
        b = max(first[m], second[m])
        # `factor` is the product of the shares on both sides, except the last step of each.
        factor = 1.0
        k_a = 1.0
        k_b = 1.0
        q_a = -1.0
        q_b = -1.0
        while a != b:
            # The larger of two positions is never an ancestor of the smaller.
            if a > b:
                factor *= k_a
                q_a = known(s, t, a)
                k_a = share(q, s, t, a, parent[a])
                a = np.uint64(parent[a])
            else:
                factor *= k_b
                q_b = known(s, t, b)
                k_b = share(q, s, t, b, parent[b])
                b = np.uint64(parent[b])
        common = k_a * k_b * variance[a] if k_a * k_b > 0.0 else 0.0
        if q_a >= 0.0 and q_b >= 0.0:
            sibling = known(s, t, largest[a])
            common -= _overlap(q_a, q_b, sibling, t[a])
        out[m] = factor * common if factor > 0.0 else 0.0


@kernel
def weigh_leaves(parent, q, s, t, weight, spread):
    """At every node, a weighted sum of leaves as weight_i x_i plus noise of variance spread_i.

    ``weight_p = sum k_c weight_c`` and
    ``spread_p = sum spread_c + sum q_c (weight_c - weight_p)^2``. On entry `weight` holds the
    weights of the leaves and zeros elsewhere, `spread` zeros.
    """
    c = np.uint64(parent.size)
    while c > ONE:
        c -= ONE
        weight[parent[c]] += share(q, s, t, c, parent[c]) * weight[c]
    c = np.uint64(parent.size)
    while c > ONE:
        c -= ONE
        p = parent[c]
        difference = weight[c] - weight[p]
        variance = known(s, t, c)
        spread[p] += spread[c]
        if variance < np.inf:
            spread[p] += variance * difference * difference
        elif abs(difference) > 1e-9 * abs(weight[c]):
            # The undetermined siblings have different weights.
            spread[p] = np.inf


@kernel
def sibling_sums(child, rank, s, t, sums):
    """Sums of q over stretches of the child lists, as the helper `stretch` expects them."""
    size = np.uint64(child.size)
    for k in range(size):
        sums[size + k] = known(s, t, at(rank, child[k]))
    k = size
    while k > ONE:
        k -= ONE
        sums[k] = sums[k + k] + sums[k + k + ONE]


@helper
def _climb(weight, spread, own, inside, outside):
    """weight and spread one step up; siblings with total q `inside` have weight 1, all others 0."""
    total = own + inside + outside
    above = ratio(weight * own + inside, total)
    return above, spread + (
        own * _square(weight - above) + inside * _square(1.0 - above) + outside * _square(above)
    )


@kernel
def range_variances(parent, order, rank, s, t, start, place, sums, leaves, ranges, top, out):
    """Variances of sums over ranges of leaves, by climbing from both ends and then to the root.

    The leaves below any node that is not on these paths are all inside the range or all outside.
    The lists of children (`start`, `place`, `sums`) are by the caller's nodes. `top` is the
    variance of the root.
    """
    for m in range(np.uint64(out.size)):
        # Only a right part of node a, and a left part of node b, is in the range.
        a = np.uint64(leaves[ranges[m, 0]])
        b = np.uint64(leaves[ranges[m, 1] - 1])
        weight_a, spread_a = 1.0, 0.0
        weight_b, spread_b = 1.0, 0.0
        while a != b:
            r_a = np.uint64(parent[at(rank, a)])
            r_b = np.uint64(parent[at(rank, b)])
            own_a = known(s, t, at(rank, a))
            own_b = known(s, t, at(rank, b))
            if r_a == r_b:
                i = np.uint64(at(order, r_a))
                between = stretch(sums, place[a] + ONE, place[b])
                outside = stretch(sums, start[i], place[a])
                outside += stretch(sums, place[b] + ONE, start[i + ONE])
                total = own_a + own_b + between + outside
                above = ratio(weight_a * own_a + weight_b * own_b + between, total)
                spread_a += (
                    spread_b
                    + own_a * _square(weight_a - above)
                    + own_b * _square(weight_b - above)
                    + between * _square(1.0 - above)
                    + outside * _square(above)
                )
                weight_a = above
                a = i
                b = i
            elif r_a > r_b:
                # The parent with the larger position is not the one where the paths meet.
                i = np.uint64(at(order, r_a))
                inside = stretch(sums, place[a] + ONE, start[i + ONE])
                outside = stretch(sums, start[i], place[a])
                weight_a, spread_a = _climb(weight_a, spread_a, own_a, inside, outside)
                a = i
            else:
                i = np.uint64(at(order, r_b))
                inside = stretch(sums, start[i], place[b])
                outside = stretch(sums, place[b] + ONE, start[i + ONE])
                weight_b, spread_b = _climb(weight_b, spread_b, own_b, inside, outside)
                b = i
        r = np.uint64(at(rank, a))
        while r > ZERO:
            i = np.uint64(at(order, parent[r]))
            k = place[at(order, r)]
            others = stretch(sums, start[i], k) + stretch(sums, k + ONE, start[i + ONE])
            weight_a, spread_a = _climb(weight_a, spread_a, known(s, t, r), 0.0, others)
            r = np.uint64(parent[r])
        out[m] = spread_a + weight_a * weight_a * top
