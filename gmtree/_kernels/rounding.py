"""Whole numbers from consistent values: every node its floor or its ceiling, sums exact.

Each node may become any whole number less than 1 away from its value. From the leaves up, the
sums of the children narrow that to a range of one or two numbers; from the root down, each node
hands its number on to its children within theirs. Rounded values need not add up exactly for
that to work: the children's ranges come first.
"""

import numpy as np

from gmtree._kernels._jit import kernel


@kernel
def ranges(parent, order, x, least, room, sum_least, sum_room):
    """least_i and room_i: node i may become least_i or, where room_i is 1, one more.

    By position; `sum_least` and `sum_room` are per internal node and hold zeros.
    """
    n_internal = sum_least.size
    for r in range(parent.size - 1, -1, -1):
        value = x[order[r]]
        lowest = np.int64(np.floor(value))
        highest = np.int64(np.ceil(value))
        if r < n_internal:
            # Not beyond what the children can add up to.
            lowest = min(max(lowest, sum_least[r]), sum_least[r] + sum_room[r])
            highest = min(max(highest, sum_least[r]), sum_least[r] + sum_room[r])
        least[r] = lowest
        room[r] = highest - lowest
        if r > 0:
            sum_least[parent[r]] += lowest
            sum_room[parent[r]] += highest - lowest


@kernel
def _comes_before(key, place, a, b):
    """Whether a is to lose its unit before b: smaller fraction, or listed later."""
    return key[a] < key[b] or (key[a] == key[b] and place[a] > place[b])


@kernel
def _sift(key, place, size, k):
    """Restore a heap below k, with the first to lose its unit on top."""
    while True:
        child = 2 * k + 1
        if child >= size:
            return
        if child + 1 < size and _comes_before(key, place, child + 1, child):
            child += 1
        if not _comes_before(key, place, child, k):
            return
        key[k], key[child] = key[child], key[k]
        place[k], place[child] = place[child], place[k]
        k = child


@kernel
def round_largest(order, rank, start, child, x, room, out, units, key, place):
    """Parents first: the units of a node beyond its children's least go to the largest fractions.

    On entry `out` holds each node's least (the root its number) and `units` what each internal
    node has beyond the sum of those of its children (the root's included, the others' to be
    raised by one where they get a unit). `key` and `place` have room for the largest family.
    """
    for r in range(units.size):
        i = order[r]
        wanted = units[r]
        size = 0
        for k in range(start[i], start[i + 1]):
            c = child[k]
            if wanted == 0 or room[rank[c]] == 0:
                continue
            fraction = x[c] - out[c]
            if size < wanted:
                key[size] = fraction
                place[size] = k
                size += 1
                if size == wanted:
                    for m in range(size // 2 - 1, -1, -1):
                        _sift(key, place, size, m)
            elif fraction > key[0]:
                key[0] = fraction
                place[0] = k
                _sift(key, place, size, 0)
        for m in range(size):
            c = child[place[m]]
            out[c] += 1
            if rank[c] < units.size:
                units[rank[c]] += 1


@kernel
def round_random(order, rank, start, child, x, room, uniform, raised, out, units):
    """As `round_largest`, but each child gets a unit with a probability of its fraction.

    Systematic sampling: with the fractions laid end to end, child c gets a unit if one of the
    points u, u + 1, ... falls into its stretch. How many points fall into all of them depends
    on whether u lies below the fraction f of the parent, that is, on whether the parent got a
    unit itself (`raised`); so u is drawn from [0, f) if it did and from [f, 1) if not.
    """
    for r in range(units.size):
        i = order[r]
        total = 0.0
        eligible = 0
        for k in range(start[i], start[i + 1]):
            c = child[k]
            if room[rank[c]] > 0:
                total += x[c] - out[c]
                eligible += 1
        f = total - np.floor(total)
        u = f * uniform[r] if raised[r] else f + (1.0 - f) * uniform[r]
        wanted = units[r]
        done = 0.0
        for k in range(start[i], start[i + 1]):
            c = child[k]
            if room[rank[c]] == 0:
                continue
            before = np.ceil(done - u)
            done += x[c] - out[c]
            # Rounding of the running sum must not change how many units are handed out.
            hit = np.ceil(done - u) > before
            if wanted > 0 and (hit or wanted == eligible):
                out[c] += 1
                wanted -= 1
                if rank[c] < units.size:
                    units[rank[c]] += 1
                    raised[rank[c]] = 1
            eligible -= 1
