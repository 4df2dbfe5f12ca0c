"""Sums along paths of a tree."""

import numpy as np

from gmtree._kernels._jit import kernel


@kernel
def farthest_leaves(parent, order, n_inner, reach, best, second):
    """The largest sum over the nodes on one of the paths to two leaves but not on both.

    `reach` holds, by node, the sum over the path from the root, all summands >= 0. Where two
    leaves part at l, the sum is reach(a) + reach(b) - 2 reach(l): best_i is the largest reach
    of a leaf below i, second_i the largest below another child. Both start at -1 and have a place
    for each inner position. Returns -1 where the tree has one leaf only.
    """
    largest = np.int64(-1)
    r = np.uint64(parent.size)
    while r > np.uint64(0):
        r -= np.uint64(1)
        own = reach[r if order is None else order[r]]
        if r < np.uint64(n_inner):
            if second[r] >= 0:
                largest = max(largest, best[r] + second[r] - own - own)
            own = best[r]
        if r > np.uint64(0):
            p = parent[r]
            if own > best[p]:
                second[p] = best[p]
                best[p] = own
            elif own > second[p]:
                second[p] = own
    return largest
