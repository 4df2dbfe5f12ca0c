"""Measurements that change one at a time, by updates of the upward sweep along one path.

`sums` holds z of every node except the root in the order of the lists of children (`start` and
`place`, by the caller's nodes), and sums over pairs of entries, pairs of pairs and so on, as the
helper `stretch` expects them. The sum b of a family is the sum of a few such entries. Every number
is computed from the current measurements by a fixed sequence of additions, so that earlier
measurements leave no rounding errors behind.

Positions, weights (q, s, t) and measurements v (by node) are as in `gmtree._kernels.projection`.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, at, combine, share, stretch


@inlined
def _below(start, sums, i):
    """b of the caller's node i."""
    return stretch(sums, start[i], start[i + ONE])


@inlined
def _estimate(start, sums, s, t, v, i, r):
    """z of node i at position r."""
    return combine(v[i], _below(start, sums, i), s, t, r) if r < t.size else np.float64(v[i])


@kernel
def fill(order, s, t, start, place, v, sums):
    """z of all nodes, children before parents; returns whether z of the root is finite.

    If z of a node is not finite, z of all of its ancestors is not finite, either.
    """
    size = np.uint64(sums.size // 2)
    r = np.uint64(v.size)
    z = 0.0
    while r > ZERO:
        r -= ONE
        i = np.uint64(at(order, r))
        if r < t.size:
            low, high = size + start[i], size + start[i + ONE]
            while low < high:
                low, high = (low + ONE) >> ONE, high >> ONE
                for k in range(low, high):
                    sums[k] = sums[k + k] + sums[k + k + ONE]
        z = _estimate(start, sums, s, t, v, i, r)
        if r > ZERO:
            sums[size + place[i]] = z
    return np.isfinite(z)


@kernel
def renew(parent, order, s, t, start, place, v, sums, r):
    """Recompute all changed numbers from position r up; returns whether all of them are finite.

    In each family, z of one child changes, and with it the sums over ever larger stretches of
    siblings that contain it, up to the first stretch that is not within the family.
    """
    size = np.uint64(sums.size // 2)
    while r > ZERO:
        i = np.uint64(at(order, r))
        z = _estimate(start, sums, s, t, v, i, r)
        k = size + place[i]
        if sums[k] == z:
            return True
        sums[k] = z
        r = np.uint64(parent[r])
        i = np.uint64(at(order, r))
        low, high = size + start[i], size + start[i + ONE]
        while True:
            low, high, k = (low + ONE) >> ONE, high >> ONE, k >> ONE
            if k < low or k >= high:
                break
            sums[k] = sums[k + k] + sums[k + k + ONE]
    return np.isfinite(_estimate(start, sums, s, t, v, np.uint64(at(order, r)), r))


@kernel
def renew_all(parent, order, rank, s, t, start, place, v, sums, nodes):
    """`renew` for several nodes with new measurements; returns whether all numbers are finite."""
    finite = True
    for i in nodes:
        r = np.uint64(at(rank, i))
        finite &= renew(parent, order, s, t, start, place, v, sums, r)
    return finite


@kernel
def values_at(parent, order, rank, q, s, t, start, place, v, sums, nodes, out):
    """out = x of some nodes, by ``constant + factor x_u`` for higher and higher ancestors u."""
    size = np.uint64(sums.size // 2)
    for m in range(np.uint64(nodes.size)):
        r = np.uint64(at(rank, nodes[m]))
        constant = 0.0
        factor = 1.0
        while r > ZERO and factor > 0.0:
            p = np.uint64(parent[r])
            k = share(q, s, t, r, p)
            z = sums[size + place[at(order, r)]]
            b = _below(start, sums, np.uint64(at(order, p)))
            constant += factor * (z - k * b)
            factor *= k
            r = p
        if factor > 0.0:
            i = np.uint64(at(order, r))
            constant += factor * _estimate(start, sums, s, t, v, i, r)
        out[m] = constant
