"""The values that nodes can have within bounds, and even shares for undetermined nodes.

Families are by position (leaves of p from first_leaf[p] on, its other children in `inner`), bounds
by the caller's nodes, or None.
"""

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, add, at, lower_of, total_of, upper_of, variance_of

# --------------------------------------------------------------------------- room for the entries


@inlined
def _bounds_of(lower, upper, i):
    """Number of finite bounds of node i."""
    return np.uint64(lower_of(lower, i) > -np.inf) + np.uint64(upper_of(upper, i) < np.inf)


@kernel
def count_entries(order, first_leaf, first_inner, inner, lower, upper, count):
    """Finite bounds at and below each internal node, children before parents."""
    p = np.uint64(count.size)
    while p > ZERO:
        p -= ONE
        total = _bounds_of(lower, upper, at(order, p))
        for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
            total += _bounds_of(lower, upper, at(order, r))
        for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
            total += np.uint64(count[inner[k]])
        count[p] = total


@kernel
def place_entries(order, first_inner, inner, lower, count, first):
    """Where the entries of each subtree begin, parents first: lower bound, children, the rest."""
    first[0] = 0
    for p in range(np.uint64(first.size)):
        place = np.uint64(first[p]) + np.uint64(lower_of(lower, at(order, p)) > -np.inf)
        for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
            c = inner[k]
            first[c] = place
            place += np.uint64(count[c])


# --------------------------------------------------------------------------- feasibility


@inlined
def _size(a, b):
    """Sum of the absolute values of two bounds; infinite ones do not count."""
    return (abs(a) if abs(a) < np.inf else 0.0) + (abs(b) if abs(b) < np.inf else 0.0)


@kernel
def find_infeasible(
    order, first_leaf, first_inner, inner, v, s, lower, upper, tolerance, least, most
):
    """[least, most]: the values that each internal node can have, children before parents.

    Returns the position of the first node for which its bounds (or exactly known value) and its
    children leave no value, and [least, most] of its children; -1 if there is none. `tolerance`
    allows for rounding, relative to the largest summand.
    """
    p = np.uint64(least.size)
    while p > ZERO:
        p -= ONE
        low, low_lost, high, high_lost, size = 0.0, 0.0, 0.0, 0.0, 0.0
        for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
            i = at(order, r)
            a, b = lower_of(lower, i), upper_of(upper, i)
            if variance_of(s, r) == 0.0:
                if not a <= v[i] <= b:
                    return np.int64(r), -np.inf, np.inf
                a = b = v[i]
            low, low_lost = add(low, low_lost, a)
            high, high_lost = add(high, high_lost, b)
            size += _size(a, b)
        for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
            a, b = least[inner[k]], most[inner[k]]
            low, low_lost = add(low, low_lost, a)
            high, high_lost = add(high, high_lost, b)
            size += _size(a, b)
        low, high = total_of(low, low_lost), total_of(high, high_lost)
        i = at(order, p)
        a, b = lower_of(lower, i), upper_of(upper, i)
        if variance_of(s, p) == 0.0:
            if not a <= v[i] <= b:
                return np.int64(p), low, high
            a = b = v[i]
        slack = tolerance * size
        if low > b + slack or high < a - slack:
            return np.int64(p), low, high
        least[p] = min(max(low, a), b)
        most[p] = max(min(high, b), a)
    return np.int64(-1), 0.0, 0.0


# --------------------------------------------------------------------------- even shares


@kernel
def find_reach(problem, s, t, x, base, least, most):
    """Ranges of undetermined internal nodes, and their values without a share of the parent.

    The children of these nodes that are determined already have their final values. Children come
    before parents.
    """
    order, first_leaf, first_inner, inner, lower, upper = problem
    p = np.uint64(t.size)
    while p > ZERO:
        p -= ONE
        if t[p] < np.inf:
            continue
        known, low, high = 0.0, 0.0, 0.0
        for r in range(np.uint64(first_leaf[p]), np.uint64(first_leaf[p + ONE])):
            i = at(order, r)
            if s[r] == np.inf:
                low += lower_of(lower, i)
                high += upper_of(upper, i)
            else:
                known += x[i]
        low += known
        high += known
        for k in range(np.uint64(first_inner[p]), np.uint64(first_inner[p + ONE])):
            c = inner[k]
            is_open = s[c] == np.inf and t[c] == np.inf
            own = x[at(order, c)]
            known += base[c] if is_open else own
            low += least[c] if is_open else own
            high += most[c] if is_open else own
        base[p] = known
        least[p] = max(low, lower_of(lower, at(order, p)))
        most[p] = min(high, upper_of(upper, at(order, p)))


@inlined
def _reach(problem, s, t, base, least, most, p, m):
    """Return (node, base, least, most, is_open) of child m of p, counted with leaves first."""
    order, first_leaf, first_inner, inner, lower, upper = problem
    leaves = np.uint64(first_leaf[p + ONE]) - np.uint64(first_leaf[p])
    if m < leaves:
        r = np.uint64(first_leaf[p]) + m
        i = np.uint64(at(order, r))
        return i, 0.0, lower_of(lower, i), upper_of(upper, i), s[r] == np.inf
    c = np.uint64(inner[np.uint64(first_inner[p]) + m - leaves])
    is_open = s[c] == np.inf and t[c] == np.inf
    return np.uint64(at(order, c)), base[c], least[c], most[c], is_open


@inlined
def _fill(problem, s, t, base, least, most, x, p, size, wanted):
    """Move the undetermined children of p by one common step, as far as bounds allow.

    The total is a piecewise linear function of the step. The step is found by Newton's method, and
    by bisection if that leaves the interval known to contain the step.
    """
    step, low, high = 0.0, -np.inf, np.inf
    for _ in range(200):
        total, rising, falling, above, below = 0.0, 0.0, 0.0, np.inf, -np.inf
        for m in range(size):
            i, own, a, b, is_open = _reach(problem, s, t, base, least, most, p, m)
            if is_open:
                x[i] = min(max(own + step, a), b)
                total += x[i]
                rising += 1.0 if a - own <= step < b - own else 0.0
                falling += 1.0 if a - own < step <= b - own else 0.0
                above = a - own if step < a - own < above else above
                below = b - own if below < b - own < step else below
        if total == wanted:
            return
        if total < wanted:
            low = step
            step = step + (wanted - total) / rising if rising > 0.0 else above
        else:
            high = step
            step = step + (wanted - total) / falling if falling > 0.0 else below
        if not low < step < high:
            step = (low + high) * 0.5
            if not low < step < high:
                return


@kernel
def share_evenly(problem, s, t, base, least, most, x):
    """Share the rest of the parent among its undetermined children as evenly as bounds allow."""
    order, first_leaf, first_inner = problem[:3]
    for p in range(np.uint64(t.size)):
        if t[p] < np.inf:
            continue
        size = np.uint64(first_leaf[p + ONE]) - np.uint64(first_leaf[p])
        size += np.uint64(first_inner[p + ONE]) - np.uint64(first_inner[p])
        wanted, lost = np.float64(x[at(order, p)]), 0.0
        for m in range(size):
            i, _, _, _, is_open = _reach(problem, s, t, base, least, most, p, m)
            if not is_open:
                wanted, lost = add(wanted, lost, -x[i])
        _fill(problem, s, t, base, least, most, x, p, size, wanted + lost)
