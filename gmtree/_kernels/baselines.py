"""Published post-processing methods as sweeps, for comparison with the optimum.

``total`` has one entry per internal position, all zero on entry. ``v`` and ``out`` are in the
caller's numbering. On the way down, each entry of ``total`` is replaced by the value that the node
passes to its children.
"""

import numpy as np

from gmtree._kernels._jit import kernel
from gmtree._kernels._shared import ONE, ZERO, at

# --------------------------------------------------------------------------- Boosting


@kernel
def boosting_leaves(parent, order, v, total, out, start, stop):
    """z_i = v_i, added to total_parent."""
    for r in range(np.uint64(start), np.uint64(stop)):
        z = v[at(order, r)]
        out[at(order, r)] = z
        total[parent[r]] += z


@kernel
def boosting_inner(parent, order, level_start, own, below, v, total, out):
    """z_i = own_l v_i + below_l total_i at each level l of internal nodes, children first."""
    for level in range(level_start.size - 3, -1, -1):
        for r in range(np.uint64(level_start[level]), np.uint64(level_start[level + 1])):
            i = at(order, r)
            z = own[level] * v[i] + below[level] * total[r]
            out[i] = z
            if r > ZERO:
                total[parent[r]] += z


@kernel
def boosting_down(parent, order, share, total, out):
    """x_i = z_i + (x_parent - total_parent) / k, where `share` is 1 / k; parents first."""
    total[0] = (out[at(order, ZERO)] - total[0]) * share
    for r in range(ONE, np.uint64(parent.size)):
        i = at(order, r)
        x = out[i] + total[parent[r]]
        out[i] = x
        if r < np.uint64(total.size):
            total[r] = (x - total[r]) * share


# --------------------------------------------------------------------------- PrivTrie


@kernel
def privtrie_up(parent, order, t, total, out):
    """y_i = total_i / (1 + t_i) with t_i = sum q_c, total_i = sum y_c, q_i = t_i / (1 + t_i).

    On entry `out` holds y at the leaves, which is the sum of the measurements from the root, and
    `t` holds zeros. At leaves q is 1.
    """
    for r in range(parent.size - 1, -1, -1):
        i = at(order, r)
        q = 1.0
        if r < t.size:
            q = t[r] / (1.0 + t[r])
            out[i] = total[r] / (1.0 + t[r])
        if r > 0:
            t[parent[r]] += q
            total[parent[r]] += out[i]


@kernel
def privtrie_down(parent, order, t, total, out):
    """x_i = y_i - q_i (sum of x over the ancestors of i), parents first."""
    total[0] = out[at(order, ZERO)]
    for r in range(ONE, np.uint64(parent.size)):
        i = at(order, r)
        above = total[parent[r]]
        if r < np.uint64(t.size):
            x = out[i] - t[r] / (1.0 + t[r]) * above
            total[r] = above + x
        else:
            x = out[i] - above
        out[i] = x
