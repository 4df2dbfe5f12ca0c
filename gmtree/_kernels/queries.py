"""Sums over ranges of leaves, from the fewest nodes that cover them.

These kernels use the caller's numbers of nodes. `start`, `child` and `place` are the child lists of
the tree: child[start[p]:start[p + 1]] are the children of p from left to right, and child[place[i]]
is i. `child`, `place` and `leaves` are ``None`` if the tree is numbered level by level: then
child[s] is s + 1, and the leaves come last. `rank` is ``None`` if parents have smaller numbers than
their children.
"""

import numpy as np

from gmtree._kernels._jit import helper, kernel
from gmtree._kernels._shared import ONE, at


@helper
def _child_in(child, s):
    return np.uint64(s + ONE) if child is None else np.uint64(child[s])


@helper
def _place_of(place, i):
    return np.uint64(i - ONE) if place is None else np.uint64(place[i])


@helper
def _leaf_at(leaves, n_inner, a):
    return np.uint64(n_inner + a) if leaves is None else np.uint64(leaves[a])


@helper
def _add_node(v, i, out, k):
    for j in range(out.shape[1]):
        out[k, j] += v[i, j]


@helper
def _add_places(child, v, prefix, first, lo, hi, out, k):
    """Add the nodes at places lo to hi - 1 of the family that begins at place `first`."""
    if lo >= hi:
        return
    for j in range(out.shape[1]):
        if prefix is None:
            for s in range(lo, hi):
                out[k, j] += v[_child_in(child, s), j]
        else:
            total = prefix[hi - ONE, j]
            if lo > first:
                total -= prefix[lo - ONE, j]
            out[k, j] += total


@kernel
def family_prefix(start, child, v, prefix):
    """prefix_s = v of the node at place s + prefix_(s-1), with a new sum in each family."""
    for p in range(np.uint64(start.size - 1)):
        first = np.uint64(start[p])
        for s in range(first, np.uint64(start[p + ONE])):
            i = _child_in(child, s)
            for j in range(prefix.shape[1]):
                prefix[s, j] = v[i, j]
                if s > first:
                    prefix[s, j] += prefix[s - ONE, j]


@kernel
def cover_sums(
    parent, rank, start, child, place, leaves, n_inner, root, v, prefix, ranges, out, begin, end
):
    """out_k = sum of v over the highest nodes whose leaves all lie in [a_k, b_k).

    The kernel climbs from both end leaves to the children of their lowest common ancestor. As long
    as all leaves below `left` are in the range, `left` stands for them. When `left` has a sibling
    further left, it is added, and from then on the siblings to its right are added at each step. If
    `prefix` is None, siblings are added one by one.
    """
    for k in range(np.uint64(begin), np.uint64(end)):
        for j in range(out.shape[1]):
            out[k, j] = 0
        a, b = ranges[k, 0], ranges[k, 1]
        if a == b:
            continue
        left, right = _leaf_at(leaves, n_inner, a), _leaf_at(leaves, n_inner, b - ONE)
        left_whole = right_whole = True
        top = left
        if left != right:
            p, q = np.uint64(parent[left]), np.uint64(parent[right])
            # The parent with the larger position cannot be the common ancestor.
            while p != q:
                if at(rank, p) > at(rank, q):
                    first, s = np.uint64(start[p]), _place_of(place, left)
                    if left_whole and s > first:
                        left_whole = False
                        _add_node(v, left, out, k)
                    if not left_whole:
                        last = np.uint64(start[p + ONE])
                        _add_places(child, v, prefix, first, s + ONE, last, out, k)
                    left, p = p, np.uint64(parent[p])
                else:
                    first, s = np.uint64(start[q]), _place_of(place, right)
                    if right_whole and s + ONE < np.uint64(start[q + ONE]):
                        right_whole = False
                        _add_node(v, right, out, k)
                    if not right_whole:
                        _add_places(child, v, prefix, first, first, s, out, k)
                    right, q = q, np.uint64(parent[q])
            first, last = np.uint64(start[p]), np.uint64(start[p + ONE])
            s, t = _place_of(place, left), _place_of(place, right)
            top = p
            if not (left_whole and right_whole and s == first and t + ONE == last):
                if left_whole:
                    _add_node(v, left, out, k)
                if right_whole:
                    _add_node(v, right, out, k)
                _add_places(child, v, prefix, first, s + ONE, t, out, k)
                continue
        # A single node covers the range. If it is an only child, its parent has the same leaves and
        # takes its place.
        while top != root:
            p = np.uint64(parent[top])
            if np.uint64(start[p + ONE]) - np.uint64(start[p]) > ONE:
                break
            top = p
        _add_node(v, top, out, k)
