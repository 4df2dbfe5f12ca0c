"""Sums of losses along the paths of a tree, and counts that can be derived from exact counts.

``exact`` marks nodes (in the caller's numbering) whose counts are published without noise. It is
None if no counts are exact.
"""

import numpy as np

from gmtree._kernels._jit import kernel
from gmtree._kernels._shared import ONE, ZERO, at


@kernel
def worst_paths(
    parent, order, n_inner, level, loss, beside_exact, shared, exact, stop_at_exact, best, second
):  # fmt: skip
    """down_i = loss_i + max down_c, the largest loss on a path from i down to a leaf.

    Here loss_i is ``loss[level[i]]``, or ``beside_exact[level[i]]`` if the count of i is exact.
    Returns two numbers: down at the root (-1 if there is no path), and the largest loss if a record
    moves from one leaf to another. If the paths to these leaves part below i, the nodes below i
    contribute the two largest ``down_c``, and the nodes from the root to i contribute
    ``shared[level[i]]``. This is also the whole loss if a record stays in leaf i and changes its
    cell. With `stop_at_exact`, paths must not contain an exact node below the point at which they
    part. `best` and `second` have one entry per internal position and hold -1 on entry.
    """
    path = np.int64(-1)
    pair = np.int64(0)
    r = np.uint64(parent.size)
    while r > ZERO:
        r -= ONE
        i = at(order, r)
        here = np.uint64(level[i])
        down = np.int64(0)
        if r < np.uint64(n_inner):
            down = best[r]
            if second[r] >= 0:
                pair = max(pair, best[r] + second[r] + shared[here])
        else:
            pair = max(pair, shared[here])
        if exact is not None and exact[i]:
            if stop_at_exact:
                down = np.int64(-1)
            elif down >= 0:
                down += beside_exact[here]
        elif down >= 0:
            down += loss[here]
        if r == ZERO:
            path = down
        elif down >= 0:
            p = parent[r]
            if down > best[p]:
                second[p] = best[p]
                best[p] = down
            elif down > second[p]:
                second[p] = down
    return path, pair


@kernel
def add_sums(parent, order, n_inner, exact, open_children):
    """Mark nodes as exact if all of their children are exact, children before parents.

    `open_children` holds zeros on entry. It becomes the number of children of each internal
    position that are not exact.
    """
    r = np.uint64(parent.size)
    while r > ZERO:
        r -= ONE
        i = at(order, r)
        if r < np.uint64(n_inner) and open_children[r] == 0:
            exact[i] = True
        if r > ZERO and not exact[i]:
            open_children[parent[r]] += 1


@kernel
def add_differences(parent, order, exact, open_children):
    """Mark a child as exact if its parent and all of its siblings are exact, parents first."""
    for r in range(ONE, np.uint64(parent.size)):
        p = parent[r]
        if open_children[p] == 1 and exact[at(order, p)]:
            exact[at(order, r)] = True
