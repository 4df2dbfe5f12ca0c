"""Variances of consistent values, exactly, and single values of a kept solution.

The final value of node c given that of its parent p is ``x_c = z_c + k_c (x_p - b_p)`` with
``k_c = q_c / t_p``; all variances follow from that. Arrays are by position, and as in
`gmtree._kernels.consistency`.
"""

import numpy as np

from gmtree._kernels._jit import kernel
from gmtree._kernels._shared import known, ratio, share, weights


@kernel
def largest_children(parent, s, t, largest, rest):
    """The child with the largest q of each node, and the sum of q over its other children.

    ``t - q_c`` for that child would cancel; for all others it does not. Both outputs hold zeros
    on entry (position 0 is nobody's child).
    """
    for r in range(1, parent.size):
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
    variance[0] = known(s, t, 0)
    for r in range(1, parent.size):
        p = parent[r]
        own = known(s, t, r)
        if own == np.inf:
            # Known only as the difference of the parent and the other children.
            others = np.inf if largest[p] != r else rest[p]
            variance[r] = others + variance[p]
        elif known(s, t, largest[p]) == np.inf:
            variance[r] = own
        else:
            k = share(q, s, t, r, p)
            others = rest[p] if largest[p] == r else t[p] - own
            variance[r] = own * ratio(others, t[p]) + k * k * variance[p]


@kernel
def _overlap(a, b, sibling, t):
    """q_a q_b / t, and its limit where a, b or some `sibling` is undetermined."""
    if a == np.inf or b == np.inf:
        return min(a, b)
    return 0.0 if sibling == np.inf else a * ratio(b, t)


@kernel
def covariances(parent, q, s, t, largest, variance, first, second, out):
    """Covariances of the final values of pairs, climbing from both to where they meet.

    Both are determined: an undetermined node is met only alone in its family, or with factor 0.
    """
    for m in range(out.size):
        # In this order, so that both ways round give the same to the last bit.
        a = min(first[m], second[m])
        b = max(first[m], second[m])
        # What the parent passes on to each side, up to and without the last step.
        factor = 1.0
        k_a = 1.0
        k_b = 1.0
        q_a = -1.0
        q_b = -1.0
        while a != b:
            # Of two positions the larger is never an ancestor of the other.
            if a > b:
                factor *= k_a
                q_a = known(s, t, a)
                k_a = share(q, s, t, a, parent[a])
                a = parent[a]
            else:
                factor *= k_b
                q_b = known(s, t, b)
                k_b = share(q, s, t, b, parent[b])
                b = parent[b]
        common = k_a * k_b * variance[a] if k_a * k_b > 0.0 else 0.0
        if q_a >= 0.0 and q_b >= 0.0:
            sibling = known(s, t, largest[a])
            common -= _overlap(q_a, q_b, sibling, t[a])
        out[m] = factor * common if factor > 0.0 else 0.0


@kernel
def weigh_leaves(parent, q, s, t, weight, spread):
    """A weighted sum of leaves as weight_i x_i plus noise of variance spread_i, at every node.

    ``weight_p = sum k_c weight_c`` and
    ``spread_p = sum spread_c + sum q_c (weight_c - weight_p)^2``. On entry `weight` holds the
    weights of the leaves and zeros elsewhere, `spread` zeros.
    """
    for c in range(parent.size - 1, 0, -1):
        weight[parent[c]] += share(q, s, t, c, parent[c]) * weight[c]
    for c in range(parent.size - 1, 0, -1):
        p = parent[c]
        difference = weight[c] - weight[p]
        variance = known(s, t, c)
        spread[p] += spread[c]
        if variance < np.inf:
            spread[p] += variance * difference * difference
        elif abs(difference) > 1e-9 * abs(weight[c]):
            # Undetermined siblings that do not all count the same.
            spread[p] = np.inf


@kernel
def sibling_sums(child, rank, s, t, sums, place):
    """Sums of q over stretches of the child lists, and where each node stands in them.

    The second half of `sums` holds q along the lists; entry i of the first half is the sum of
    entries 2i and 2i + 1. Differences of running sums would lose small variances beside large
    ones.
    """
    size = child.size
    for k in range(size):
        sums[size + k] = known(s, t, rank[child[k]])
        place[child[k]] = k
    for k in range(size - 1, 0, -1):
        sums[k] = sums[2 * k] + sums[2 * k + 1]


@kernel
def _stretch(sums, first, stop):
    """The sum of q over places `first` to ``stop - 1`` of the child lists."""
    total = 0.0
    first += sums.size // 2
    stop += sums.size // 2
    while first < stop:
        if first & 1:
            total += sums[first]
            first += 1
        if stop & 1:
            stop -= 1
            total += sums[stop]
        first >>= 1
        stop >>= 1
    return total


@kernel
def _climb(weight, spread, own, inside, outside):
    """weight and spread one step up: siblings of total q `inside` count 1, `outside` 0."""
    total = own + inside + outside
    above = ratio(weight * own + inside, total)
    return above, spread + (
        own * (weight - above) ** 2 + inside * (1.0 - above) ** 2 + outside * above**2
    )


@kernel
def range_variances(parent, order, rank, s, t, start, sums, place, leaves, ranges, top, out):
    """Variances of sums over ranges of leaves: climb from both ends, then on to the root.

    Apart from the two paths every node is in or out as a whole. The lists of children (`start`,
    `sums`, `place`) are by the caller's nodes, `top` is the variance of the root.
    """
    for m in range(out.size):
        # a and b: nodes of which a right and a left part is in the range
        a = leaves[ranges[m, 0]]
        b = leaves[ranges[m, 1] - 1]
        weight_a, spread_a = 1.0, 0.0
        weight_b, spread_b = 1.0, 0.0
        while a != b:
            r_a = parent[rank[a]]
            r_b = parent[rank[b]]
            own_a = known(s, t, rank[a])
            own_b = known(s, t, rank[b])
            if r_a == r_b:
                i = order[r_a]
                between = _stretch(sums, place[a] + 1, place[b])
                outside = _stretch(sums, start[i], place[a])
                outside += _stretch(sums, place[b] + 1, start[i + 1])
                total = own_a + own_b + between + outside
                above = ratio(weight_a * own_a + weight_b * own_b + between, total)
                spread_a += (
                    spread_b
                    + own_a * (weight_a - above) ** 2
                    + own_b * (weight_b - above) ** 2
                    + between * (1.0 - above) ** 2
                    + outside * above**2
                )
                weight_a = above
                a = i
                b = i
            elif r_a > r_b:
                # The parent with the larger position is not the one where the paths meet.
                i = order[r_a]
                inside = _stretch(sums, place[a] + 1, start[i + 1])
                outside = _stretch(sums, start[i], place[a])
                weight_a, spread_a = _climb(weight_a, spread_a, own_a, inside, outside)
                a = i
            else:
                i = order[r_b]
                inside = _stretch(sums, start[i], place[b])
                outside = _stretch(sums, place[b] + 1, start[i + 1])
                weight_b, spread_b = _climb(weight_b, spread_b, own_b, inside, outside)
                b = i
        r = rank[a]
        while r > 0:
            i = order[parent[r]]
            k = place[order[r]]
            others = _stretch(sums, start[i], k) + _stretch(sums, k + 1, start[i + 1])
            weight_a, spread_a = _climb(weight_a, spread_a, known(s, t, r), 0.0, others)
            r = parent[r]
        out[m] = spread_a + weight_a * weight_a * top


# --------------------------------------------------------------------------- kept solutions


@kernel
def change_path(parent, s, t, z, b, r, change):
    """A measurement changes by `change`: renew z and b from position r up to the root."""
    if r < t.size:
        change *= weights(s, t, r)[0]
        z[r] += change
    while r > 0:
        r = parent[r]
        b[r] += change
        change *= weights(s, t, r)[1]
        z[r] += change


@kernel
def value_at(parent, q, s, t, z, b, leaf_value, r):
    """x at position r, as an affine function of the value of ever higher ancestors."""
    constant = 0.0
    factor = 1.0
    while r > 0:
        p = parent[r]
        k = share(q, s, t, r, p)
        own = z[r] if r < t.size else leaf_value
        constant += factor * (own - k * b[p])
        factor *= k
        r = p
    own = z[0] if t.size > 0 else leaf_value
    return constant + factor * own
