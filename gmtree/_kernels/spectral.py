"""Eigenvectors of a Generation Matrix, each computed in one walk.

If the walk meets another node whose weight is the eigenvalue, the eigenvector does not exist. The
kernels return the position of the first such node, or -1.
"""

import numpy as np

from gmtree._kernels._jit import helper, kernel
from gmtree._kernels._shared import at


@helper
def _weight(weight, r):
    return 1.0 if weight is None else weight[r]


@kernel
def right_eigenvector(parent, order, node, edge, below, out, position):
    """v_j = e_j v_parent / (w_j - w_i) below i, parents before children.

    `position` is the position of i. On entry `out` is 1 and `below` is true at i, and both are zero
    elsewhere.
    """
    eigenvalue = _weight(node, position)
    for r in range(np.uint64(position + 1), np.uint64(parent.size)):
        p = parent[r]
        if below[p]:
            gap = _weight(node, r) - eigenvalue
            if gap == 0:
                return np.int64(r)
            below[r] = True
            out[at(order, r)] = _weight(edge, r) * out[at(order, p)] / gap
    return np.int64(-1)


@kernel
def left_eigenvector(parent, order, node, edge, out, position):
    """u_parent = e_j u_j / (w_parent - w_i) from i up to the root.

    `position` is the position of i. On entry `out` is 1 at i and zero elsewhere.
    """
    eigenvalue = _weight(node, position)
    r = np.uint64(position)
    while r > 0:
        p = np.uint64(parent[r])
        gap = _weight(node, p) - eigenvalue
        if gap == 0:
            return np.int64(p)
        out[at(order, p)] = _weight(edge, r) * out[at(order, r)] / gap
        r = p
    return np.int64(-1)
