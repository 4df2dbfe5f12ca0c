"""From a parent array to heights and the canonical order, in linear time without recursion.

Kernels that read the caller's parent array before it is known to have a single root take signed
numbers, in which -1 means "no parent". The other kernels here take unsigned numbers, like all
kernels, in which -1 becomes the largest number.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO


@kernel
def canonical_levels(parent, n_internal, height, level_end):
    """Heights and levels in one reverse sweep, if the numbering is canonical already.

    Returns how many levels there are, or 0 if it is not canonical. `level_end[k]` becomes the
    first node after those of height k + 1. `height` holds zeros for the first `n_internal`
    nodes, which in a canonical numbering are those up to the largest parent.
    """
    n = parent.size
    if parent[0] != -1:
        return 0
    level_end[0] = n
    above = parent[n - 1]
    for i in range(n - 1, max(n_internal, 1) - 1, -1):
        p = parent[i]
        if p < 0 or p > above:
            return 0
        above = p
        height[p] = 2
    levels = 1
    for i in range(n_internal - 1, -1, -1):
        h = height[i]
        p = parent[i]
        if h == levels:
            if p > above:
                return 0
        elif h > levels:
            level_end[levels] = i + 1
            levels = h
        else:
            return 0
        above = p
        if i > 0:
            if p < 0 or p >= i:
                return 0
            # Heights only grow in the reverse sweep, so the last child seen has the largest height.
            height[p] = h + 1
    return levels


@kernel
def scan_parents(parent, is_internal):
    """Mark parents; return (number of roots, first root, second root, parents come first)."""
    roots = 0
    first = -1
    second = -1
    parents_first = True
    for i in range(parent.size):
        p = parent[i]
        if p < 0:
            if roots == 0:
                first = i
            elif roots == 1:
                second = i
            roots += 1
        else:
            is_internal[p] = 1
            parents_first &= p < i
    return roots, first, second, parents_first


@kernel
def count_children(parent, count):
    """count_p += 1."""
    for p in parent:
        if p >= 0:
            count[p] += 1


@kernel
def place_buckets(parent, is_internal, shift, place):
    """place[k, p >> shift] = where the bucket of the children of p begins; leaves have k = 0.

    The buckets of leaves come first. Returns the number of leaves. `place` holds zeros on entry.
    """
    n = np.uint64(parent.size)
    for i in range(n):
        p = np.uint64(parent[i])
        if p < n:
            place[is_internal[i], p >> shift] += ONE
    total = ZERO
    leaves = ZERO
    for k in range(np.uint64(2)):
        leaves = total
        for bucket in range(np.uint64(place.shape[1])):
            count = place[k, bucket]
            place[k, bucket] = total
            total += count
    return leaves


@kernel
def fill_buckets(parent, is_internal, shift, place, pair):
    """Append (i, p) to its bucket: pair[place[k, p >> shift]], with the places of `place_buckets`.

    The parents of a bucket have similar numbers, so their entries in other arrays fit into the
    cache. Without buckets, random access to memory would take most of the time.
    """
    n = np.uint64(parent.size)
    for i in range(n):
        p = np.uint64(parent[i])
        if p < n:
            k, bucket = np.uint64(is_internal[i]), p >> shift
            r = place[k, bucket]
            place[k, bucket] = r + ONE
            pair[r, 0] = i
            pair[r, 1] = p


@inlined
def _start(end, i):
    """Where the children of i begin in a list of `group_pairs`."""
    return np.uint64(end[i - ONE]) if i > 0 else ZERO


@kernel
def group_pairs(pair, end, child):
    """Children grouped by parent: those of p are child[end[p - 1]:end[p]], in the order of pairs.

    `end` holds zeros on entry.
    """
    for k in range(np.uint64(pair.shape[0])):
        end[pair[k, 1]] += ONE
    _counts_to_starts(end)
    for k in range(np.uint64(pair.shape[0])):
        p = pair[k, 1]
        child[end[p]] = pair[k, 0]
        end[p] += ONE


@kernel
def group_internal(parent, is_internal, end, child):
    """Like `group_pairs` for all internal nodes but the root."""
    n = np.uint64(parent.size)
    for i in range(n):
        if is_internal[i] and parent[i] < n:
            end[parent[i]] += ONE
    _counts_to_starts(end)
    for i in range(n):
        p = parent[i]
        if is_internal[i] and p < n:
            child[end[p]] = i
            end[p] += ONE


@inlined
def _counts_to_starts(end):
    total = ZERO
    for p in range(np.uint64(end.size)):
        count = np.uint64(end[p])
        end[p] = total
        total += count


@kernel
def heights_parents_first(parent, is_internal, height):
    """h_p = 1 + max h_c over the internal nodes, in one reverse sweep; `height` holds zeros."""
    for i in range(parent.size - 1, 0, -1):
        if is_internal[i]:
            h = max(height[i], 2)
            height[i] = h
            p = parent[i]
            height[p] = max(height[p], h + 1)
    height[0] = max(height[0], 2)


@kernel
def heights_any_order(parent, is_internal, end, pending, queue, height):
    """Peel internal nodes with a first-in, first-out queue, which they leave by ascending height.

    `end` is that of `group_pairs` for internal children. `pending` becomes the number of internal
    children that have not left the queue. Returns how many nodes were reached. The rest are the
    nodes on cycles, which have pending > 0.
    """
    n = np.uint64(parent.size)
    tail = ZERO
    for i in range(n):
        pending[i] = end[i] - _start(end, i)
        if is_internal[i] and pending[i] == 0:
            queue[tail] = i
            height[i] = 2
            tail += ONE
    head = ZERO
    while head < tail:
        i = queue[head]
        head += ONE
        p = parent[i]
        if p < n:
            pending[p] -= ONE
            if pending[p] == 0:
                # The last child to leave the queue has the largest height among its siblings.
                height[p] = height[i] + ONE
                queue[tail] = p
                tail += ONE
    return tail


@kernel
def count_heights(height, sizes):
    """sizes[h] = number of nodes of height h; here leaves have the height 0."""
    for i in range(height.size):
        sizes[height[i]] += 1


@kernel
def order_internal(root, height, end, child, cursor, n_internal, order, position_parent):
    """Walk internal nodes in final order and append each child to the bucket of its height.

    Within a height, nodes are ordered by the position of their parent, then by number. On entry
    `cursor[k]` holds the position at which height k + 1 begins; it is overwritten.
    """
    order[0] = root
    for r in range(np.uint64(n_internal)):
        i = np.uint64(order[r])
        for k in range(_start(end, i), np.uint64(end[i])):
            c = child[k]
            h = height[c] - ONE
            place = cursor[h]
            cursor[h] = place + ONE
            order[place] = c
            position_parent[place] = r


@kernel
def order_by_number(parent, is_internal, position, family, order, position_parent):
    """Internal nodes by number, parents before children; `position` and `family` are work space.

    Returns 0 if the positions of parents ascend, else the largest number of internal children of
    any node. `family` holds zeros on entry.
    """
    r = ZERO
    ascending = True
    largest = ZERO
    for i in range(np.uint64(parent.size)):
        if is_internal[i]:
            order[r] = i
            position[i] = r
            if r > ZERO:
                p = position[parent[i]]
                position_parent[r] = p
                ascending &= r == ONE or p >= position_parent[r - ONE]
                family[p] += ONE
                largest = max(largest, np.uint64(family[p]))
            r += ONE
    return ZERO if ascending else largest


@kernel
def order_leaves(end, leaf, n_internal, order, position_parent):
    """Give leaves their positions, ordered by the positions of their parents."""
    place = np.uint64(n_internal)
    for r in range(np.uint64(n_internal)):
        i = np.uint64(order[r])
        for k in range(_start(end, i), np.uint64(end[i])):
            order[place] = leaf[k]
            position_parent[place] = r
            place += ONE


@kernel
def order_leaves_by_number(parent, is_internal, n_internal, place, order, position_parent):
    """Like `order_leaves` without lists, for numbers in which families are close together.

    `place` is work space that holds zeros on entry.
    """
    for i in range(np.uint64(parent.size)):
        if not is_internal[i]:
            place[parent[i]] += ONE
    start = np.uint64(n_internal)
    for r in range(np.uint64(n_internal)):
        i = order[r]
        stop = start + np.uint64(place[i])
        place[i] = start
        while start < stop:
            position_parent[start] = r
            start += ONE
    for i in range(np.uint64(parent.size)):
        if not is_internal[i]:
            p = parent[i]
            order[place[p]] = i
            place[p] += ONE


@kernel
def group_children(parent, start, child):
    """Counting sort by parent: children of i, ascending, end up in child[start[i]:start[i+1]].

    On entry `start[i]` holds the number of children of i, and `start` has one place more.
    """
    total = 0
    for i in range(start.size - 1):
        total += start[i]
        start[i] = total
    start[start.size - 1] = total
    for i in range(parent.size - 1, -1, -1):
        p = parent[i]
        if p >= 0:
            start[p] -= 1
            child[start[p]] = i


@kernel
def invert(order, rank):
    """rank[order[r]] = r."""
    for r in range(np.uint64(order.size)):
        rank[order[r]] = r


@kernel
def depth_first(root, start, child, stack, walk):
    """walk = all nodes depth first, siblings by ascending number; `stack` is work space."""
    stack[0] = root
    top, found = ONE, ZERO
    while top > ZERO:
        top -= ONE
        i = stack[top]
        walk[found] = i
        found += ONE
        first, k = np.uint64(start[i]), np.uint64(start[i + ONE])
        while k > first:
            k -= ONE
            stack[top] = child[k]
            top += ONE


@kernel
def descendants(start, child, found):
    """Append the children of each node found so far, until `found` is full; found[0] is given."""
    end = ONE
    for k in range(np.uint64(found.size)):
        i = found[k]
        for s in range(start[i], start[i + ONE]):
            found[end] = child[s]
            end += ONE


@kernel
def find_cycle(parent, first, cycle):
    """The nodes on the path of parents from `first` back to itself; returns how many.

    Only as many as fit into `cycle` are written.
    """
    i = first
    length = 0
    while True:
        if length < cycle.size:
            cycle[length] = i
        length += 1
        i = parent[i]
        if i == first:
            return length


@kernel
def first_repeat(codes, seen):
    """First place whose code occurred earlier, or -1; `seen` holds zeros, one per code."""
    for k in range(codes.size):
        if seen[codes[k]]:
            return k
        seen[codes[k]] = 1
    return -1


@kernel
def first_leaves(parent, n_internal, first):
    """first[p] = position of the first leaf of p; leaves of one parent are consecutive."""
    place = n_internal
    for p in range(n_internal):
        first[p] = place
        while place < parent.size and parent[place] == p:
            place += 1
    first[n_internal] = place


@kernel
def group_inner(parent, n_internal, first, inner):
    """Internal children of each internal node: inner[first[p]:first[p + 1]], ascending."""
    for c in range(1, n_internal):
        first[parent[c] + 1] += 1
    for p in range(n_internal):
        first[p + 1] += first[p]
    for c in range(1, n_internal):
        p = parent[c]
        inner[first[p]] = c
        first[p] += 1
    for p in range(n_internal, 0, -1):
        first[p] = first[p - 1]
    first[0] = 0
