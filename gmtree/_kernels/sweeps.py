"""The sweeps behind a Generation Matrix: products and solves, downward and upward.

In each, ``w_i`` is the weight of node i and ``e_i`` that of the edge from i to its parent,
both stored by position and ``None`` when all are one. Values are one number per node or one
row of numbers per node; which one is known when a kernel is compiled.
"""

import numpy as np

from gmtree._kernels._jit import kernel
from gmtree._kernels._shared import at


@kernel
def _times(x, weight, r):
    return x if weight is None else x * weight[r]


@kernel
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


@kernel
def accumulate_leaves(parent, order, node, edge, v, out, start, stop):
    """z_i = v_i / w_i at leaves, added as e_i z_i to the parent. `out` may be `v`."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), at(order, parent[r])
        if v.ndim == 1:
            z = _over(v[i], node, r)
            out[i] = z
            out[p] += _times(z, edge, r)
        else:
            for j in range(v.shape[1]):
                z = _over(v[i, j], node, r)
                out[i, j] = z
                out[p, j] += _times(z, edge, r)


@kernel
def accumulate(parent, order, node, edge, out, start, stop):
    """z_i = (v_i + sum of e_c z_c) / w_i in place, children before parents."""
    r = np.uint64(stop)
    while r > np.uint64(start):
        r -= np.uint64(1)
        i, p = at(order, r), at(order, parent[r])
        if out.ndim == 1:
            z = _over(out[i], node, r)
            out[i] = z
            out[p] += _times(z, edge, r)
        else:
            for j in range(out.shape[1]):
                z = _over(out[i, j], node, r)
                out[i, j] = z
                out[p, j] += _times(z, edge, r)


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
