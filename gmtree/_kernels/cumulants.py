"""Exact fourth cumulants of consistent values, which measure how far from normal their errors are.

Cumulants of independent variables add up, and a factor w multiplies the fourth cumulant by w^4. So
the recursion writes each quantity as a sum of independent parts: the noise at and below a node, and
the noise elsewhere.

Arrays are by position, with the names of `gmtree._kernels.projection`. ``kappa`` holds the fourth
cumulant of the noise of each measurement. If it is None, all of these cumulants and all variances
are 1.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import helper, kernel
from gmtree._kernels._shared import ONE, ZERO, at, share, weights


@helper
def _noise(kappa, r):
    return 1.0 if kappa is None else kappa[r]


@helper
def _fourth(x):
    return (x * x) * (x * x)


@kernel
def collect(parent, s, t, kappa, below, inside, start, stop):
    """Z_i = g^4 kappa_i + h^4 sum of Z_c: fourth cumulants of the estimates from below.

    `below` receives Z, and `inside` the sums over children; `inside` holds zeros on entry. Children
    come before parents.
    """
    r = np.uint64(stop)
    while r > np.uint64(start):
        r -= ONE
        z = _noise(kappa, r)
        if r < t.size:
            g, h, _ = weights(s, t, r)
            z = _fourth(g) * z + _fourth(h) * inside[r]
        below[r] = z
        if r > ZERO:
            inside[parent[r]] += z


@kernel
def spread_root(s, t, kappa, lean, outside):
    """Start of the downward sweep: at the root, lean = h and outside = g^4 kappa."""
    r = ZERO
    g, h, _ = weights(s, t, r)
    lean[r] = h
    outside[r] = _fourth(g) * _noise(kappa, r)


@kernel
def spread(parent, q, s, t, kappa, below, inside, lean, outside, start, stop):
    """Fourth cumulants of the consistent values, in place of Z in `below`.

    The final value of a child c of p is ``z_c + k (x_p - b_p)``, and x_p is `lean_p` times b_p plus
    a part that is independent of the children. So in x_c, z_c has the weight ``1 + k (lean_p -
    1)``, each sibling has ``k (lean_p - 1)``, and noise from outside has k times its weight in x_p.
    """
    for r in range(np.uint64(start), np.uint64(stop)):
        p = parent[r]
        k = share(q, s, t, r, p)
        step = k * (lean[p] - 1.0)
        elsewhere = _fourth(step) * max(inside[p] - below[r], 0.0) + _fourth(k) * outside[p]
        below[r] = _fourth(1.0 + step) * below[r] + elsewhere
        if r < t.size:
            g, h, _ = weights(s, t, r)
            lean[r] = h * (1.0 + step)
            outside[r] = _fourth(g * (1.0 + step)) * _noise(kappa, r) + elsewhere


# --------------------------------------------------------------------------- sums over ranges


@kernel
def family_sums(start, child, rank, x, sums):
    """Running sums of x along each list of children; x is by position, and lists are by node."""
    for i in range(np.uint64(start.size - 1)):
        total = 0.0
        for k in range(np.uint64(start[i]), np.uint64(start[i + ONE])):
            total += x[at(rank, child[k])]
            sums[k] = total


@helper
def _stretch(sums, begin, first, stop):
    """The sum over entries `first` to ``stop - 1`` of the list that begins at `begin`."""
    if first >= stop:
        return 0.0
    return max(sums[stop - ONE] - (sums[first - ONE] if first > begin else 0.0), 0.0)


class Climb(NamedTuple):
    """The tree, the weights and the noise, in the form that sums over ranges need.

    `start` and `place` describe the lists of children, by node. `shares` and `fourths` are running
    sums of k and of Z along these lists.
    """

    parent: np.ndarray
    order: np.ndarray | None
    rank: np.ndarray | None
    q: np.ndarray | None
    s: np.ndarray | None
    t: np.ndarray
    kappa: np.ndarray | None
    below: np.ndarray
    start: np.ndarray
    place: np.ndarray
    shares: np.ndarray
    fourths: np.ndarray


@kernel
def shares(parent, q, s, t, out):
    """k of all nodes; k is 0 at the root."""
    out[0] = 0.0
    for r in range(ONE, np.uint64(parent.size)):
        out[r] = share(q, s, t, r, parent[r])


@helper
def _beside(sums, tree, i, c, left, right):
    """Running sums over the siblings left and right of c, times `left` and `right`."""
    total = 0.0
    if left != 0.0:
        total += left * _stretch(sums, tree.start[i], tree.start[i], tree.place[c])
    if right != 0.0:
        total += right * _stretch(sums, tree.start[i], tree.place[c] + ONE, tree.start[i + ONE])
    return total


@helper
def _step_up(tree, c, weight, left, right):
    """Return W of the parent of c; siblings left and right of c have weights `left` and `right`."""
    r = at(tree.rank, c)
    p = np.uint64(tree.parent[r])
    own = weight * share(tree.q, tree.s, tree.t, r, p)
    return own + _beside(tree.shares, tree, np.uint64(at(tree.order, p)), c, left, right)


@helper
def _own(tree, i, e, w):
    """Fourth cumulant of the noise of node i if z_i has weight e, and the weight ``h e - w``."""
    r = at(tree.rank, i)
    g, h, _ = weights(tree.s, tree.t, r)
    return _fourth(g * e) * _noise(tree.kappa, r), h * e - w


@helper
def _descend(tree, i, e, w, path, weight, size, left, right):
    """Walk down a path from i; return the fourth cumulants beside it, and i, e and w at its end."""
    total = 0.0
    j = size
    while j > ZERO:
        j -= ONE
        c = np.uint64(path[j])
        fourth, base = _own(tree, i, e, w)
        beside_left, beside_right = _fourth(base + left), _fourth(base + right)
        total += fourth + _beside(tree.fourths, tree, i, c, beside_left, beside_right)
        w = weight[j]
        e = base + w
        i = c
    return total, i, e, w


@kernel
def range_fourths(tree, leaves, ranges, path, weight, out):
    """Fourth cumulants of sums over ranges of leaves.

    Upward from both ends, the sum is ``W_u x_u + sum over children of (w_c - W_u) z_c`` plus
    similar terms further down, with ``W_u = sum k_c w_c``. Downward, the weight e of each z in the
    whole sum is ``e_c = w_c - W_u + h_u e_u``. Children that are not on the two paths have weights
    w of 1 or 0.

    `path` and `weight` have three rows for the nodes of the paths and their weights: the paths from
    the first and the last leaf up to below their meeting point, and the path from there up to below
    the root.
    """
    none = ZERO
    for m in range(np.uint64(out.size)):
        a = np.uint64(leaves[ranges[m, 0]])
        b = np.uint64(leaves[ranges[m, 1] - 1])
        w_a, w_b = 1.0, 1.0
        n_a, n_b, n_top = none, none, none
        while a != b:
            r_a = np.uint64(tree.parent[at(tree.rank, a)])
            r_b = np.uint64(tree.parent[at(tree.rank, b)])
            # The parent with the larger position is not the one where the paths meet.
            if r_a >= r_b:
                path[0, n_a], weight[0, n_a] = a, w_a
                n_a += ONE
            if r_b >= r_a:
                path[1, n_b], weight[1, n_b] = b, w_b
                n_b += ONE
            if r_a == r_b:
                w_a = _step_up(tree, a, w_a, 0.0, 0.0) + _step_up(tree, b, w_b, 0.0, 0.0)
                between = tree.place[a] + ONE
                a = np.uint64(at(tree.order, r_a))
                w_a += _stretch(tree.shares, tree.start[a], between, tree.place[b])
                b = a
            elif r_a > r_b:
                w_a = _step_up(tree, a, w_a, 0.0, 1.0)
                a = np.uint64(at(tree.order, r_a))
            else:
                w_b = _step_up(tree, b, w_b, 1.0, 0.0)
                b = np.uint64(at(tree.order, r_b))
        while at(tree.rank, a) > none:
            path[2, n_top], weight[2, n_top] = a, w_a
            n_top += ONE
            w_a = _step_up(tree, a, w_a, 0.0, 0.0)
            a = np.uint64(at(tree.order, tree.parent[at(tree.rank, a)]))
        total, i, e, w = _descend(tree, a, w_a, w_a, path[2], weight[2], n_top, 0.0, 0.0)
        if n_a == none:
            # The range is a single leaf.
            out[m] = total + _fourth(e) * tree.below[at(tree.rank, i)]
            continue
        a = np.uint64(path[0, n_a - ONE])
        b = np.uint64(path[1, n_b - ONE])
        fourth, base = _own(tree, i, e, w)
        outside = _fourth(base)
        total += fourth + _beside(tree.fourths, tree, i, a, outside, 0.0)
        total += _beside(tree.fourths, tree, i, b, 0.0, outside)
        between = _stretch(tree.fourths, tree.start[i], tree.place[a] + ONE, tree.place[b])
        total += _fourth(base + 1.0) * between
        for side in range(2):
            size = (n_a, n_b)[side] - ONE
            w = weight[side, size]
            left, right = float(side), 1.0 - side
            top = np.uint64(path[side, size])
            part, i, e, _ = _descend(
                tree, top, base + w, w, path[side], weight[side], size, left, right
            )
            total += part + _fourth(e) * tree.below[at(tree.rank, i)]
        out[m] = total
