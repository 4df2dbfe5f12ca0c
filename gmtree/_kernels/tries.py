"""Paths numbered level by level by hashing, and sets of leaves nested into a tree."""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE


@inlined
def _slot(above, code, mask, key):
    """The place in the table at which the search for a pair begins.

    Every bit of both numbers affects it. `key` holds two random odd numbers, so that nobody can
    prepare pairs with equal places.
    """
    h = np.uint64(above) * key[0] + np.uint64(code) * key[1]
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    return h & mask


@kernel
def enter(table, parent, label, distinct, key):
    """Enter the pairs (parent[c], label[c]), c < distinct, into an empty table (holding -1)."""
    mask = np.uint64(table.size - 1)
    for c in range(distinct):
        slot = _slot(parent[c], label[c], mask, key)
        while table[slot] >= 0:
            slot = (slot + ONE) & mask
        table[slot] = c


@kernel
def descend(start, above, code, table, parent, label, distinct, key):
    """above[k] = number of the pair (above[k], code[k]) among the distinct pairs, from k = start.

    Pair c is (parent[c], label[c]). On entry `distinct` pairs are in `table`. The kernel stops when
    the table is three quarters full. It returns the row at which it stopped, or the number of rows,
    and the number of distinct pairs so far.
    """
    mask = np.uint64(table.size - 1)
    most = table.size - table.size // 4
    last = np.int64(-1)
    for k in range(start, code.size):
        i, x = above[k], code[k]
        # Rows of one node often follow each other.
        if last >= 0 and parent[last] == i and label[last] == x:
            above[k] = last
            continue
        slot = _slot(i, x, mask, key)
        while True:
            c = table[slot]
            if c < 0:
                if distinct >= most:
                    return k, distinct
                table[slot] = distinct
                parent[distinct] = i
                label[distinct] = x
                c = distinct
                distinct += 1
                break
            if parent[c] == i and label[c] == x:
                break
            slot = (slot + ONE) & mask
        last = np.int64(c)
        above[k] = c
    return code.size, distinct


@kernel
def descend_sorted(above, code, parent, label):
    """The distinct pairs of rows sorted by (above, code); returns their number.

    Returns -1 if a row is out of order. `above` does not change; `number_sorted` does that.
    """
    distinct = np.int64(0)
    for k in range(code.size):
        i, x = above[k], code[k]
        if k > 0:
            before = above[k - 1]
            if i < before or (i == before and x < code[k - 1]):
                return np.int64(-1)
            if i == before and x == code[k - 1]:
                continue
        parent[distinct] = i
        label[distinct] = x
        distinct += 1
    return distinct


@kernel
def number_sorted(above, code):
    """above[k] = number of the pair (above[k], code[k]) among the distinct pairs of sorted rows."""
    last = np.int64(-1)
    before, x_before = above[0], code[0]
    for k in range(code.size):
        i, x = above[k], code[k]
        if last < 0 or i != before or x != x_before:
            last += 1
        before, x_before = i, x
        above[k] = last


@kernel
def nest(order, start, column, owner, parent):
    """parent[r] = the smallest earlier set that contains set r; sets come in order of falling size.

    Set r is column[start[r]:start[r + 1]]. owner[c] is the last set with column c, or -1 before the
    first. Returns the first set whose columns have different owners, or -1.
    """
    for k in range(order.size):
        r = order[k]
        i = owner[column[start[r]]]
        for p in range(start[r], start[r + 1]):
            if owner[column[p]] != i:
                return r
        for p in range(start[r], start[r + 1]):
            owner[column[p]] = r
        parent[r] = i
    return -1
