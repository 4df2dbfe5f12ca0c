"""Several tree problems in one sweep: tables at the nodes of a tree, and trees across trees.

Each node has one row of `x`. Its columns fall into blocks, ``first[k]`` to ``first[k + 1] - 1``,
and the columns of a block share the weights of one tree problem. With these weights (see
`gmtree._kernels.projection`) the sweeps are, at position r with parent p,

    upward      z_r = gain_r x_r + carry_r b_r,    b_p = sum of z over the children of p,
    downward    x_r = z_r + share_r (x_p - b_p),

where z is x itself at leaves. They work in place: after the downward sweep ``b_r`` holds the
difference ``x_r - b_r``. Arrays `gain`, `carry` (internal positions) and `share` (all positions)
have one column per block.

The table of a node is written as sums and contrasts: along each axis of k values, the first entry
becomes their sum S and entry j > 0 becomes ``x_j - S / k``. All entries that are contrasts along
the same axes make up one block.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, at, share, weights

# Largest difference between equal numbers that rounding can cause, relative to the largest number
# of a row.
ROUNDING = 1e-14


@kernel
def steps(parent, q, s, t, gain, carry, part):
    """The weights of both sweeps for one block, from those of stage 1; all are by position."""
    for r in range(np.uint64(part.size)):
        if r < t.size:
            gain[r], carry[r], _ = weights(s, t, r)
        part[r] = 0.0 if r == 0 else share(q, s, t, r, parent[r])


# --------------------------------------------------------------------------- rows of cells


@inlined
def _sum(x, start, stop):
    """The sum of x[start:stop], in four independent parts, which the processor adds in parallel."""
    a = b = c = d = 0.0
    j = start
    while j + np.uint64(4) <= stop:
        a += x[j]
        b += x[j + ONE]
        c += x[j + np.uint64(2)]
        d += x[j + np.uint64(3)]
        j += np.uint64(4)
    while j < stop:
        a += x[j]
        j += ONE
    return (a + b) + (c + d)


@inlined
def _to_contrasts(lengths, work, size):
    """S = sum of x_j, then x_j - S / k: along each axis of a row-major table, in place."""
    inner = ONE
    for a in range(lengths.size - 1, -1, -1):
        k = np.uint64(lengths[a])
        over = 1.0 / np.float64(k)
        for base in range(ZERO, np.uint64(size), k * inner):
            if inner == ONE:
                work[base] = _sum(work, base, base + k)
                mean = work[base] * over
                for j in range(base + ONE, base + k):
                    work[j] -= mean
                continue
            for j in range(ONE, k):
                for c in range(inner):
                    work[base + c] += work[base + j * inner + c]
            for j in range(ONE, k):
                for c in range(inner):
                    work[base + j * inner + c] -= work[base + c] * over
        inner *= k


@inlined
def _from_contrasts(lengths, work, size):
    """x_j = d_j + S / k for j > 0, and x_0 = S minus the sum of these: the inverse."""
    inner = ONE
    for a in range(lengths.size - 1, -1, -1):
        k = np.uint64(lengths[a])
        over = 1.0 / np.float64(k)
        for base in range(ZERO, np.uint64(size), k * inner):
            if inner == ONE:
                mean = work[base] * over
                for j in range(base + ONE, base + k):
                    work[j] += mean
                work[base] -= _sum(work, base + ONE, base + k)
                continue
            for j in range(ONE, k):
                for c in range(inner):
                    work[base + j * inner + c] += work[base + c] * over
            for j in range(ONE, k):
                for c in range(inner):
                    work[base + c] -= work[base + j * inner + c]
        inner *= k


@kernel
def take(y, lengths, precision, query, block, source, factor, begins, before, s, first, x, work,
         start, stop):  # fmt: skip
    """x_T += (precision of the query in T) / (that of all queries in T) * contrasts of y_T.

    Row i of `y` has the table of one query at node i, with axes of `lengths`. The query measures
    the blocks in `block`; the columns of the k-th are, in order, at the next places of `source`.
    ``factor[k] * precision[i, query]`` is its precision there, and ``s[i, T]`` the variance of
    all queries together. If ``begins[k]`` is true, no other query has written the k-th block yet.
    If several queries are exact, only the first of them counts: ``before[q, k]`` is true if query
    q, which precedes this one, measures the k-th block.
    """
    size = np.uint64(y.shape[1])
    for i in range(np.uint64(start), np.uint64(stop)):
        own = precision[i, query]
        if own > 0.0:
            for c in range(size):
                work[c] = y[i, c]
            _to_contrasts(lengths, work, size)
        place = ZERO
        for k in range(block.size):
            low, high = np.uint64(first[block[k]]), np.uint64(first[block[k] + 1])
            part = own * factor[k] * s[i, block[k]] if own > 0.0 else 0.0
            if own == np.inf:
                part = 1.0
                for q in range(before.shape[0]):
                    if before[q, k] and precision[i, q] == np.inf:
                        part = 0.0
            if begins[k]:
                if part > 0.0:
                    for j in range(low, high):
                        x[i, j] = part * work[source[place + j - low]]
                else:
                    for j in range(low, high):
                        x[i, j] = 0.0
            elif part > 0.0:
                for j in range(low, high):
                    x[i, j] += part * work[source[place + j - low]]
            place += high - low


@kernel
def up(parent, order, gain, carry, first, x, b, start, stop):
    """b_parent += z_r, children before parents; `b` holds zeros on entry."""
    n_inner = np.uint64(gain.shape[0])
    r, start = np.uint64(stop), np.uint64(start)
    while r > start:
        r -= ONE
        i, p = at(order, r), parent[r]
        if r >= n_inner:
            for j in range(np.uint64(x.shape[1])):
                b[p, j] += x[i, j]
            continue
        for k in range(np.uint64(gain.shape[1])):
            g, c = gain[r, k], carry[r, k]
            for j in range(np.uint64(first[k]), np.uint64(first[k + ONE])):
                b[p, j] += g * x[i, j] + c * b[r, j]


@inlined
def _down_row(r, i, p, gain, carry, part, first, x, b):
    """x_r = z_r + share_r b_parent, then b_r = x_r - b_r."""
    is_inner = r < gain.shape[0]
    for k in range(np.uint64(part.shape[1])):
        f = part[r, k]
        low, high = np.uint64(first[k]), np.uint64(first[k + ONE])
        if is_inner:
            g, c = gain[r, k], carry[r, k]
            for j in range(low, high):
                z = g * x[i, j] + c * b[r, j]
                # The root has no parent, so it takes no share of a difference.
                own = z + f * b[p, j] if r > 0 else z
                x[i, j] = own
                b[r, j] = own - b[r, j]
        elif r > 0:
            for j in range(low, high):
                x[i, j] += f * b[p, j]


@kernel
def down(parent, order, gain, carry, part, first, x, b, start, stop):
    """x_r = z_r + share_r b_parent, then b_r = x_r - b_r; parents before children."""
    for r in range(np.uint64(start), np.uint64(stop)):
        p = np.uint64(parent[r]) if r > 0 else ZERO
        _down_row(r, at(order, r), p, gain, carry, part, first, x, b)


@kernel
def down_to_cells(parent, order, gain, carry, part, first, lengths, source, x, b, work,
                  start, stop):  # fmt: skip
    """`down`, followed by the conversion of each row from sums and contrasts to cells.

    Column j of the blocks belongs to entry ``source[j]`` of the table.
    """
    size = np.uint64(x.shape[1])
    for r in range(np.uint64(start), np.uint64(stop)):
        i = at(order, r)
        p = np.uint64(parent[r]) if r > 0 else ZERO
        _down_row(r, i, p, gain, carry, part, first, x, b)
        for j in range(size):
            work[source[j]] = x[i, j]
        _from_contrasts(lengths, work, size)
        for c in range(size):
            x[i, c] = work[c]


# --------------------------------------------------------------------------- cells not below zero


@kernel
def pull(leaves, own, rho, y, w, target, start, stop):
    """target = (own y + rho |w|) / (own + rho): the measurement combined with the pull to |w|."""
    for k in range(np.uint64(start), np.uint64(stop)):
        i = leaves[k]
        total = own[k] + rho[k]
        keep = own[k] / total if own[k] < np.inf else 1.0
        for c in range(np.uint64(w.shape[1])):
            measured = keep * y[i, c] if keep > 0.0 else 0.0
            target[i, c] = measured + (1.0 - keep) * abs(w[k, c])


@kernel
def split(leaves, rho, relax, x, w, found, start, stop):
    """w = relax x + (1 - relax) max(w, 0) + min(w, 0), and the distance of x from the optimum.

    ``slope = rho (|w| - x)`` is the gradient of the objective at x. At the optimum it is 0 at
    positive cells, and not negative at cells that are held at zero. Other slopes are called wrong.
    Row k of `found` has five numbers for leaf k: rho times the squared distance of x from the new
    max(w, 0), and of the new max(w, 0) from the old one; the sum of squares of wrong slopes; the
    sum of wrong positive slopes times their cells; and the largest absolute value of wrong negative
    slopes.
    """
    for k in range(np.uint64(start), np.uint64(stop)):
        i = leaves[k]
        primal = dual = square = gap = lowest = largest = 0.0
        for c in range(np.uint64(w.shape[1])):
            largest = max(largest, abs(w[k, c]))
        for c in range(np.uint64(w.shape[1])):
            own, old = x[i, c], w[k, c]
            slope = rho[k] * (abs(old) - own)
            if abs(abs(old) - own) <= ROUNDING * largest:
                slope = 0.0
            z = max(old, 0.0)
            new = relax * own + (1.0 - relax) * z + min(old, 0.0)
            w[k, c] = new
            positive = max(own, 0.0) if new > 0.0 else 0.0
            # There are no branches, because the processor would mispredict every second one.
            negative = 0.5 * (abs(slope) - slope)
            rest = slope + negative
            gap += rest * positive
            square += negative * negative + (rest * rest if positive > 0.0 else 0.0)
            lowest = negative if negative > lowest else lowest
            to_new, step = own - max(new, 0.0), max(new, 0.0) - z
            primal += to_new * to_new
            dual += step * step
        found[k, 0] = rho[k] * primal
        found[k, 1] = rho[k] * dual
        found[k, 2] = square
        found[k, 3] = gap
        found[k, 4] = lowest


# --------------------------------------------------------------------------- trees across trees


@kernel
def rows(parent, order, gain, carry, part, v, x, work, start, stop):
    """Both sweeps along each row of `v`, into `x`.

    `work` has one column for each row of `v` that is processed at the same time. Its first rows are
    x by position, and its last rows are the sums b.
    """
    n, n_inner = np.uint64(x.shape[1]), np.uint64(gain.shape[0])
    lanes = np.uint64(work.shape[1])
    for first in range(np.uint64(start), np.uint64(stop), lanes):
        full = min(lanes, np.uint64(stop) - first)
        work[n:, :] = 0.0
        for lane in range(full):
            for r in range(n):
                work[r, lane] = v[first + lane, at(order, r)]
        for lane in range(full, lanes):
            for r in range(n):
                work[r, lane] = 0.0
        r = n
        while r > ONE:
            r -= ONE
            p = n + parent[r]
            if r >= n_inner:
                for lane in range(lanes):
                    work[p, lane] += work[r, lane]
            else:
                g, c = gain[r, 0], carry[r, 0]
                for lane in range(lanes):
                    work[p, lane] += g * work[r, lane] + c * work[n + r, lane]
        for r in range(n):
            p = n + (parent[r] if r > 0 else ZERO)
            f = part[r, 0]
            if r < n_inner:
                g, c = gain[r, 0], carry[r, 0]
                for lane in range(lanes):
                    own = g * work[r, lane] + c * work[n + r, lane]
                    if r > 0:
                        own += f * work[p, lane]
                    work[r, lane] = own
                    work[n + r, lane] = own - work[n + r, lane]
            elif r > 0:
                for lane in range(lanes):
                    work[r, lane] += f * work[p, lane]
        for lane in range(full):
            for r in range(n):
                x[first + lane, at(order, r)] = work[r, lane]


@kernel
def slabs(parent, order, gain, carry, part, first, x, work, start, stop):
    """Both sweeps along the middle axis of `x`, for a range of the first axis; in place."""
    n = np.uint64(x.shape[1])
    for k in range(np.uint64(start), np.uint64(stop)):
        work[:, :] = 0.0
        up(parent, order, gain, carry, first, x[k], work, 1, n)
        down(parent, order, gain, carry, part, first, x[k], work, 0, n)
