"""Pairs of nodes: lowest common ancestors by heavy paths, and matrices of all pairs.

Every internal node continues its path into its largest child. ``jump[r]`` holds the *head* of the
path through r, which is the position where the path begins, and the parent of that head. They are
stored side by side because a walk needs both. The subtree of a head's parent is at least twice as
large as that of the head, so a walk to the root changes paths at most log2(n) times.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, at


@kernel
def choose_heavy(parent, size, heavy, start, stop):
    """heavy[p] = the child of p with the largest subtree, or the first of these; 0 at leaves.

    `heavy` holds zeros on entry. Position 0 is the root, which is never a child.
    """
    for r in range(np.uint64(start), np.uint64(stop)):
        p = parent[r]
        best = heavy[p]
        if best == 0 or size[r] > size[best]:
            heavy[p] = r


@kernel
def find_jumps(parent, heavy, jump, start, stop):
    """jump_i = jump_parent at the heavy child, (i, parent) elsewhere; parents before children."""
    for r in range(np.uint64(start), np.uint64(stop)):
        p = parent[r]
        if heavy[p] == r:
            jump[r, 0], jump[r, 1] = jump[p, 0], jump[p, 1]
        else:
            jump[r, 0], jump[r, 1] = r, p


@kernel
def lowest_common_ancestors(jump, order, rank, i, j, out, start, stop):
    """out_k = lca(i_k, j_k): lift the node whose path begins later until both share a path."""
    for k in range(np.uint64(start), np.uint64(stop)):
        a, b = at(rank, i[k]), at(rank, j[k])
        head_a, head_b = jump[a, 0], jump[b, 0]
        while head_a != head_b:
            # Parents have earlier positions, so the later head cannot be above the other node.
            if head_a > head_b:
                a = jump[a, 1]
                head_a = jump[a, 0]
            else:
                b = jump[b, 1]
                head_b = jump[b, 0]
        out[k] = at(order, min(a, b))


@kernel
def are_ancestors(jump, rank, i, j, out, start, stop):
    """out_k = whether i_k is j_k or one of its ancestors."""
    for k in range(np.uint64(start), np.uint64(stop)):
        a, b = at(rank, i[k]), at(rank, j[k])
        while jump[b, 0] > a:
            b = jump[b, 1]
        out[k] = jump[a, 0] == jump[b, 0] and a <= b


@kernel
def all_distances(parent, order, edge, out, start, stop):
    """d_ij = d_parent(i),j + e_i for every j before i; `out` holds zeros on entry."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), at(order, parent[r])
        step = 1 if edge is None else edge[i]
        for s in range(r):
            j = at(order, s)
            d = out[p, j] + step
            out[i, j] = d
            out[j, i] = d


@inlined
def _entry(value, end, low, k, m):
    """The entry of nodes k and m, whose common ancestor is at position `low`."""
    return value[low] if end is None else end[k] + end[m] - value[low] - value[low]


@kernel
def all_pairs(place, branch, row, value, end, out, start, stop):
    """out_km = value at lca(k, m); with `end`, end_k + end_m - 2 value at lca(k, m).

    Nodes are listed depth first: node k of the list is at position place_k, and its row and column
    are row_k. branch_k is the position of the common ancestor of nodes k and k + 1. The common
    ancestor of k and m is the least of the branches between them, since parents have smaller
    positions. Row k is written from entry k to the right and to the left, so that all writes stay
    within the row.
    """
    size = np.uint64(place.size)
    for k in range(np.uint64(start), np.uint64(stop)):
        i = at(row, k)
        low = place[k]
        out[i, i] = _entry(value, end, low, k, k)
        for m in range(k + ONE, size):
            low = min(low, branch[m - ONE])
            out[i, at(row, m)] = _entry(value, end, low, k, m)
        low = place[k]
        m = k
        while m > ZERO:
            m -= ONE
            low = min(low, branch[m])
            out[i, at(row, m)] = _entry(value, end, low, k, m)
