"""Rounding of consistent values: each node becomes its floor or ceiling, and sums stay exact.

Each node may become any whole number less than 1 away from its value. From the leaves up, the sums
of the children narrow this to one or two numbers. From the root down, each node divides its number
among its children, each of which gets one of its own one or two numbers. The values need not add up
exactly, since the range of a node is computed from its children's sums.

Families are by position: the leaves of p begin at first_leaf[p], and its other children are in
`inner`. `x` and `out` are by the caller's nodes. ``room_r`` is 1 if the node may also become its
least number plus 1. Fractions are compared in steps of 2**-30, so that rounding in the last digits
does not decide ties.
"""

import numpy as np

from gmtree._kernels._jit import helper, inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, at


@kernel
def ranges(order, first_leaf, first_inner, inner, x, out, room):
    """out = the least number of each node, and room; children before parents.

    Returns the last position whose children can add up to neither its floor nor its ceiling, or -1.
    """
    bad = -1
    p = np.uint64(first_leaf.size - 1)
    while p > ZERO:
        p -= ONE
        total = 0
        extra = 0
        for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
            i = at(order, r)
            least = np.int64(np.floor(x[i]))
            most = np.int64(np.ceil(x[i]))
            out[i] = least
            room[r] = most - least
            total += least
            extra += most - least
        for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
            c = inner[k]
            total += out[at(order, c)]
            extra += np.int64(room[c])
        i = at(order, p)
        # Of its floor and ceiling, keep the numbers that its children can add up to.
        least = max(np.int64(np.floor(x[i])), total)
        most = min(np.int64(np.ceil(x[i])), total + extra)
        if least > most:
            bad = np.int64(p)
            most = least
        out[i] = least
        room[p] = most - least
    return bad


@helper
def _wanted(order, first_leaf, first_inner, inner, out, room, p):
    """Number of units that p must pass on, and number of children that can take one."""
    wanted = out[at(order, p)]
    takers = 0
    for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
        wanted -= out[at(order, r)]
        takers += np.int64(room[r])
    for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
        c = inner[k]
        wanted -= out[at(order, c)]
        takers += np.int64(room[c])
    return wanted, takers


@inlined
def _family_size(first_leaf, first_inner, p):
    """Number of children of p."""
    leaves = np.uint64(first_leaf[p + ONE]) - np.uint64(first_leaf[p])
    return leaves + np.uint64(first_inner[p + ONE]) - np.uint64(first_inner[p])


@inlined
def _child(first_leaf, first_inner, inner, p, m):
    """Position of child m of p; its leaves come first."""
    leaves = np.uint64(first_leaf[p + ONE]) - np.uint64(first_leaf[p])
    if m < leaves:
        return np.uint64(first_leaf[p]) + m
    return np.uint64(inner[np.uint64(first_inner[p]) + m - leaves])


@helper
def _fraction(x, least):
    """x - least, between 0 and 1, in steps of 2**-30."""
    return np.int64((x - least) * 2.0**30 + 0.5)


@helper
def _loses_first(fraction, node, a, b):
    """Whether a loses its unit before b: smaller fraction, or equal fraction and larger number."""
    return fraction[a] < fraction[b] or (fraction[a] == fraction[b] and node[a] > node[b])


@helper
def _sift(fraction, node, size, k):
    """Restore the heap below entry k; the entry on top is the first to lose its unit."""
    while True:
        child = 2 * k + 1
        if child >= size:
            return
        if child + 1 < size and _loses_first(fraction, node, child + 1, child):
            child += 1
        if not _loses_first(fraction, node, child, k):
            return
        fraction[k], fraction[child] = fraction[child], fraction[k]
        node[k], node[child] = node[child], node[k]
        k = child


@helper
def _offer(fraction, node, size, wanted, f, i):
    """Keep (f, i) if it is among the `wanted` best candidates so far; returns the new size."""
    if size < wanted:
        fraction[size] = f
        node[size] = i
        # Move the new entry up, because the entry that loses its unit first belongs on top.
        k = size
        while k > 0 and _loses_first(fraction, node, k, (k - 1) // 2):
            up = (k - 1) // 2
            fraction[k], fraction[up] = fraction[up], fraction[k]
            node[k], node[up] = node[up], node[k]
            k = up
        return size + 1
    if f > fraction[0] or (f == fraction[0] and i < node[0]):
        fraction[0] = f
        node[0] = i
        _sift(fraction, node, size, np.int64(0))
    return size


@helper
def _bin_of(f, bins):
    """The bin that contains the fraction f, if [0, 1] is divided into equal bins."""
    return min((f * bins) >> 30, bins - 1)


@kernel
def round_largest(order, first_leaf, first_inner, inner, x, out, room, counts, fraction, node):
    """Pass units on to the children with the largest fractions, parents first.

    Ties go to the child with the smaller number. A histogram of the fractions, with as many bins as
    candidates, shows in which bins all children get a unit. Only in one bin must children be
    compared. `counts`, `fraction` and `node` have space for the largest family, and `counts` holds
    zeros on entry.
    """
    for p in range(np.uint64(first_leaf.size - 1)):
        wanted, takers = _wanted(order, first_leaf, first_inner, inner, out, room, p)
        if wanted == 0:
            continue
        size = _family_size(first_leaf, first_inner, p)
        for m in range(size):
            c = _child(first_leaf, first_inner, inner, p, m)
            i = at(order, c)
            if room[c] and wanted < takers:
                counts[_bin_of(_fraction(x[i], out[i]), takers)] += 1
        # All children above the bin `split` get a unit, and `left` units remain for this bin.
        split = takers - 1
        left = wanted
        while wanted < takers and counts[split] <= left:
            left -= counts[split]
            split -= 1
        if wanted == takers:
            split = -1
        best = np.int64(0)
        for m in range(size):
            c = _child(first_leaf, first_inner, inner, p, m)
            i = at(order, c)
            if room[c]:
                f = _fraction(x[i], out[i])
                b = _bin_of(f, takers)
                if b > split:
                    out[i] += 1
                elif b == split and left > 0:
                    best = _offer(fraction, node, best, left, f, np.int64(i))
        for m in range(best):
            out[node[m]] += 1
        counts[:takers] = 0


@kernel
def round_random(order, first_leaf, first_inner, inner, x, out, room, uniform):
    """Pass units on so that each child gets one with a probability equal to its fraction.

    This is systematic sampling. The fractions are laid end to end, and child c gets a unit if one
    of the points u, u + 1, ... falls into its interval. Let f be the fractional part of the sum of
    all fractions. If u is below f, one more point falls into the intervals. So u is drawn from [0,
    f) if there is one more unit, and otherwise from [f, 1). The parent was rounded up with
    probability f.
    """
    for p in range(np.uint64(first_leaf.size - 1)):
        wanted, takers = _wanted(order, first_leaf, first_inner, inner, out, room, p)
        size = _family_size(first_leaf, first_inner, p)
        total = 0.0
        for m in range(size):
            c = _child(first_leaf, first_inner, inner, p, m)
            i = at(order, c)
            if room[c]:
                total += x[i] - out[i]
        f = total - np.floor(total)
        u = f * uniform[p] if wanted > np.floor(total) else f + (1.0 - f) * uniform[p]
        done = 0.0
        for m in range(size):
            c = _child(first_leaf, first_inner, inner, p, m)
            i = at(order, c)
            if room[c]:
                before = np.ceil(done - u)
                done += x[i] - out[i]
                # Rounding errors of the running sum must not change the number of units passed on.
                hit = np.ceil(done - u) > before
                if wanted > 0 and (hit or wanted == takers):
                    out[i] += 1
                    wanted -= 1
                takers -= 1
