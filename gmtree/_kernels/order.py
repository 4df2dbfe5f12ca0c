"""From a parent array to heights and the canonical order, in linear time without recursion."""

from gmtree._kernels._jit import kernel


@kernel
def scan_parents(parent, child_count):
    """Count children; return (number of roots, first root, second root, parents come first)."""
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
            child_count[p] += 1
            parents_first &= p < i
    return roots, first, second, parents_first


@kernel
def heights_parents_first(parent, height):
    """h_p = 1 + max h_c in one reverse sweep; `height` holds ones. Returns 'is canonical'."""
    for i in range(parent.size - 1, 0, -1):
        h = height[i] + 1
        p = parent[i]
        height[p] = max(height[p], h)
    for i in range(2, parent.size):
        if height[i] > height[i - 1]:
            return False
        if height[i] == height[i - 1] and parent[i] < parent[i - 1]:
            return False
    return True


@kernel
def heights_any_order(parent, pending, queue, height):
    """Peel leaves first in, first out: nodes leave the queue by ascending height.

    `pending` holds child counts and is used up; `height` holds ones. Returns how many nodes
    were reached: the rest lie on a cycle, and are those with pending > 0.
    """
    tail = 0
    for i in range(parent.size):
        if pending[i] == 0:
            queue[tail] = i
            tail += 1
    head = 0
    while head < tail:
        i = queue[head]
        head += 1
        p = parent[i]
        if p >= 0:
            pending[p] -= 1
            if pending[p] == 0:
                # The last child to leave the queue is a highest one.
                height[p] = height[i] + 1
                queue[tail] = p
                tail += 1
    return tail


@kernel
def count_heights(height, sizes):
    """sizes[k] = number of nodes of height k + 1."""
    for i in range(height.size):
        sizes[height[i] - 1] += 1


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
def canonical_order(root, height, start, child, cursor, order, position_parent):
    """Walk nodes in final order and append each child to the bucket of its height.

    Descending height, ties by the parent's position, then by number. `cursor[k]` holds the
    position where height k + 1 begins and is used up.
    """
    order[0] = root
    for r in range(order.size):
        i = order[r]
        for k in range(start[i], start[i + 1]):
            c = child[k]
            h = height[c] - 1
            place = cursor[h]
            cursor[h] = place + 1
            order[place] = c
            position_parent[place] = r


@kernel
def invert(order, rank):
    """rank[order[r]] = r."""
    for r in range(order.size):
        rank[order[r]] = r


@kernel
def leaves_left_to_right(root, start, child, stack, leaves):
    """Leaves in depth-first order, siblings by ascending number; `stack` is work space."""
    stack[0] = root
    top = 1
    found = 0
    while top > 0:
        top -= 1
        i = stack[top]
        if start[i] == start[i + 1]:
            leaves[found] = i
            found += 1
        for k in range(start[i + 1] - 1, start[i] - 1, -1):
            stack[top] = child[k]
            top += 1


@kernel
def find_cycle(parent, first, cycle):
    """The nodes from `first` along the parents until it comes round again; returns how many.

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
    """First place whose code occurred before, or -1; `seen` holds zeros, one per code."""
    for k in range(codes.size):
        if seen[codes[k]]:
            return k
        seen[codes[k]] = 1
    return -1
