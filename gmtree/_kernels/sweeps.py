"""The sweeps behind a Generation Matrix: products and solves, downward and upward.

In each, ``w_i`` is the weight of node i and ``e_i`` that of the edge from i to its parent,
both stored by position and ``None`` when all are one. Values are one number per node or one row of
numbers per node. This is known when a kernel is compiled.

On the way up, ``total[p]`` holds the sum over the children of position p. It has 64 bits, so that a
million small 32-bit numbers do not get lost next to their sum, and it is by position, so that
siblings find it in the cache. ``total`` is ``None`` if ``out`` itself can serve.
"""

import numpy as np

from gmtree._kernels._jit import helper, inlined, kernel
from gmtree._kernels._shared import ONE, at, first_new_parent

# Number of leaves whose parents' sums are initialised together.
STRETCH = np.uint64(128)


@helper
def _times(x, weight, r):
    return x if weight is None else x * weight[r]


@helper
def _over(x, weight, r):
    return x if weight is None else x / weight[r]


@kernel
def propagate(parent, order, node, edge, v, out, start, stop):
    """z_i = (v_i + e_i z_parent) / w_i, parents before children. `out` may be `v`."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), at(order, parent[r])
        if v.ndim == 1:
            out[i] = _over(v[i] + _times(out[p], edge, r), node, r)
        else:
            for j in range(v.shape[1]):
                out[i, j] = _over(v[i, j] + _times(out[p, j], edge, r), node, r)


@inlined
def _add_to(total, out, order, p, x):
    """Add x to the sum at position p."""
    if total is None:
        out[at(order, p)] += x
    else:
        total[p] += x


@inlined
def _add_entry_to(total, out, order, p, j, x):
    """Add x to the sum of column j, if a node has a row of numbers."""
    if total is None:
        out[at(order, p), j] += x
    else:
        total[p, j] += x


@helper
def _start_sums(total, v, out, order, p, stop):
    """Initialise the sums of positions p to ``stop - 1``, before their children are added."""
    while p < stop:
        if v.ndim == 1:
            if total is None:
                out[at(order, p)] = v[at(order, p)]
            else:
                total[p] = 0
        else:
            for j in range(v.shape[1]):
                if total is None:
                    out[at(order, p), j] = v[at(order, p), j]
                else:
                    total[p, j] = 0
        p += ONE


@inlined
def _take_leaf(order, node, edge, v, out, r):
    """z_i = v_i / w_i of the leaf at position r; returns e_i z_i, which its parent's sum gets."""
    i = at(order, r)
    z = _over(v[i], node, r)
    out[i] = z
    return _times(z, edge, r)


@kernel
def accumulate_leaves(parent, order, node, edge, v, out, total, n_inner, start, stop):
    """z_i = v_i / w_i at leaves, added as e_i z_i to the parent. `out` may be `v`.

    Parents of leaves ascend. The kernel initialises their sums, and those of the internal nodes
    without leaves between them, one stretch at a time, while they are in the cache. On entry the
    sums may hold anything.
    """
    start, stop = np.uint64(start), np.uint64(stop)
    new = first_new_parent(parent, n_inner, start)
    for first in range(start, stop, STRETCH):
        end = min(first + STRETCH, stop)
        _start_sums(total, v, out, order, new, parent[end - ONE] + ONE)
        new = parent[end - ONE] + ONE
        for r in range(first, end):
            i, p = at(order, r), parent[r]
            if v.ndim == 1:
                z = _over(v[i], node, r)
                out[i] = z
                _add_to(total, out, order, p, _times(z, edge, r))
            else:
                for j in range(v.shape[1]):
                    z = _over(v[i, j], node, r)
                    out[i, j] = z
                    _add_entry_to(total, out, order, p, j, _times(z, edge, r))


@kernel
def accumulate_leaf_families(parent, order, node, edge, v, out, total, n_inner, start, stop):
    """`accumulate_leaves` with four running sums, which is faster if families are large."""
    four = np.uint64(4)
    r, stop = np.uint64(start), np.uint64(stop)
    new = first_new_parent(parent, n_inner, r)
    while r < stop:
        p = parent[r]
        _start_sums(total, v, out, order, new, p + ONE)
        a = b = c = d = out.dtype.type(0) if total is None else total.dtype.type(0)
        while r + four <= stop and parent[r + np.uint64(3)] == p:
            a += _take_leaf(order, node, edge, v, out, r)
            b += _take_leaf(order, node, edge, v, out, r + ONE)
            c += _take_leaf(order, node, edge, v, out, r + np.uint64(2))
            d += _take_leaf(order, node, edge, v, out, r + np.uint64(3))
            r += four
        while r < stop and parent[r] == p:
            a += _take_leaf(order, node, edge, v, out, r)
            r += ONE
        _add_to(total, out, order, p, (a + b) + (c + d))
        new = p + ONE


@kernel
def accumulate(parent, order, node, edge, v, out, total, start, stop):
    """z_i = (v_i + sum of e_c z_c) / w_i, children before parents. `out` may be `v`.

    The sum is in `total`; if that is None, `out` holds v_i plus the sum. `accumulate_leaves` has
    added the leaves already.
    """
    r = np.uint64(stop)
    while r > np.uint64(start):
        r -= ONE
        i, p = at(order, r), parent[r]
        if v.ndim == 1:
            z = _over(out[i] if total is None else v[i] + total[r], node, r)
            out[i] = z
            _add_to(total, out, order, p, _times(z, edge, r))
        else:
            for j in range(v.shape[1]):
                z = _over(out[i, j] if total is None else v[i, j] + total[r, j], node, r)
                out[i, j] = z
                _add_entry_to(total, out, order, p, j, _times(z, edge, r))


@kernel
def multiply(parent, order, node, edge, v, out, start, stop):
    """y_i = w_i v_i - e_i v_parent. `out` is not `v`."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), at(order, parent[r])
        if v.ndim == 1:
            out[i] = _times(v[i], node, r) - _times(v[p], edge, r)
        else:
            for j in range(v.shape[1]):
                out[i, j] = _times(v[i, j], node, r) - _times(v[p, j], edge, r)


@kernel
def multiply_transposed(parent, order, edge, v, out, start, stop):
    """y_parent -= e_i v_i, where `out` starts as w * v."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), at(order, parent[r])
        if v.ndim == 1:
            out[p] -= _times(v[i], edge, r)
        else:
            for j in range(v.shape[1]):
                out[p, j] -= _times(v[i, j], edge, r)
