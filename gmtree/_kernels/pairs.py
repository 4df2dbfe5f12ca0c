"""Pairs of nodes: lowest common ancestors over heavy paths, and all distances at once.

Every inner node continues the path it lies on into its largest child. ``jump[r]`` holds the
position where the path through r begins, its *head*, and the parent of that head, side by side
because a walk needs both. From a head to its parent the subtree at least doubles, so a walk to
the root changes paths at most log2(n) times.
"""

import numpy as np

from gmtree._kernels._jit import kernel
from gmtree._kernels._shared import at


@kernel
def choose_heavy(parent, size, heavy, start, stop):
    """heavy[p] = the child of p with the largest subtree, the first of several; 0 at leaves.

    `heavy` holds zeros: position 0 is the root, which is nobody's child.
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
            # Positions have parents first, so the later head cannot be above the other node.
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
    """d_ij = d_parent(i),j + e_i for every j before i; `out` holds zeros."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), at(order, parent[r])
        step = 1 if edge is None else edge[i]
        for s in range(r):
            j = at(order, s)
            d = out[p, j] + step
            out[i, j] = d
            out[j, i] = d
