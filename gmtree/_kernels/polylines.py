"""Find which bounds hold with equality in the optimum, by merging polylines from the leaves up.

Let mu be the price that the rest of the tree pays for a unit of ``x_p``. The best answer of the
subtree of p, ``x_p(mu)``, is a non-decreasing, piecewise linear function of mu. Its slope changes
at prices at which a bound begins or ceases to hold. An *entry* is such a price, with the jump of
the slope.

- Leaf: ``x = v + s mu``, cut off at its bounds.
- Children of p at their common price lam: ``y_p(lam) = sum x_c(lam)``. Their entries are merged in
  the order of prices; values, slopes and jumps add up.
- The measurement of p makes the price ``mu = lam + (x - v_p) / s_p`` and a slope a
  ``a s_p / (a + s_p)``. The order of entries stays as it is.
- The bounds of p cut off ``x_p(mu)``. In any case, entries below the cut at the lower bound are
  passed and entries above the cut at the upper bound are not, so none of these is needed again.

In the optimum the price of the root is 0: entries of the root below 0 are passed, and those above
it are not. A lower bound holds with equality if its entry is not passed, an upper bound if its
entry is passed. So no data of a node are needed once it has been merged into its parent.

If nothing is known about a node, at the price 0 its answer may be any value between its bounds.
This is a vertical piece of the polyline. An entry with the jump ``inf`` begins it, and its `height`
is the length of the piece. An entry with the jump ``-inf`` ends it, and its `height` is the slope
after the piece minus the slope before it. Vertical pieces of siblings begin together and end
together. A piece that only has an ending entry has no lower end.

Arrays `first`, `size`, `x`, `left` and `right` are by position of internal nodes: where the entries
of a subtree begin, how many there are, the value at the price 0 (at the lower end of a vertical
piece, if it is finite), and the slopes before the first and after the last entry. `status` is by
position of all nodes: 0 at the lower bound, 1 between the bounds, 2 at the upper bound.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, add, at, lower_of, upper_of, variance_of

# Prices are cut off here, since larger ones are never reached.
FAR = 1e200


class Entries(NamedTuple):
    """Prices at which the slope of a polyline jumps; the event ``2 r + 1`` is the upper bound of r.

    `height` is None in a tree without vertical pieces.
    """

    price: np.ndarray
    jump: np.ndarray
    height: np.ndarray | None
    event: np.ndarray


class State(NamedTuple):
    """The problem, and the polylines of internal nodes."""

    order: np.ndarray | None
    first_leaf: np.ndarray
    first_inner: np.ndarray
    inner: np.ndarray
    v: np.ndarray
    s: np.ndarray | None
    lower: np.ndarray | None
    upper: np.ndarray | None

    entries: Entries
    spare: Entries
    first: np.ndarray
    size: np.ndarray
    x: np.ndarray
    left: np.ndarray
    right: np.ndarray
    status: np.ndarray


# --------------------------------------------------------------------------- entries


@inlined
def _height_of(height, k):
    return 0.0 if height is None else height[k]


@inlined
def _set_height(height, k, x):
    if height is not None:
        height[k] = x


@inlined
def _comes_after(a, k, b, m):
    """Whether entry k of `a` belongs after entry m of `b`."""
    if a.price[k] != b.price[m]:
        return a.price[k] > b.price[m]
    # At equal prices, jumps come first, then beginnings of vertical pieces, then their ends.
    ends_a, ends_b = a.jump[k] == -np.inf, b.jump[m] == -np.inf
    if ends_a or ends_b:
        return ends_a and not ends_b
    return a.jump[k] == np.inf and b.jump[m] < np.inf


@inlined
def _copy_entry(a, k, b, m):
    """Entry k of `a` becomes entry m of `b`."""
    b.price[m] = a.price[k]
    b.jump[m] = a.jump[k]
    b.event[m] = a.event[k]
    _set_height(b.height, m, _height_of(a.height, k))


@inlined
def _append_entry(entries, place, price, jump, height, event):
    entries.price[place] = price
    entries.jump[place] = jump
    entries.event[place] = event
    _set_height(entries.height, place, height)
    return place + ONE


# --------------------------------------------------------------------------- sorting


@inlined
def _run(a, k, stop):
    """End of the ascending run of entries that begins at k."""
    k += ONE
    while k < stop and not _comes_after(a, k - ONE, a, k):
        k += ONE
    return k


@inlined
def _merge_pairs(a, k, stop, b, m):
    """Merge runs of ascending entries of `a` in pairs into `b`; returns how many runs `b` has."""
    runs = 0
    while k < stop:
        middle = other = _run(a, k, stop)
        end = _run(a, middle, stop) if middle < stop else stop
        runs += 1
        while k < middle and other < end:
            if _comes_after(a, k, a, other):
                _copy_entry(a, other, b, m)
                other += ONE
            else:
                _copy_entry(a, k, b, m)
                k += ONE
            m += ONE
        while k < middle:
            _copy_entry(a, k, b, m)
            k += ONE
            m += ONE
        while other < end:
            _copy_entry(a, other, b, m)
            other += ONE
            m += ONE
        k = end
    return runs


@inlined
def _sort(entries, spare, start, stop):
    """Sort entries by price; runs that already ascend are only merged."""
    if stop - start < np.uint64(2) or _run(entries, start, stop) == stop:
        return
    while True:
        runs = _merge_pairs(entries, start, stop, spare, ZERO)
        runs = _merge_pairs(spare, ZERO, stop - start, entries, start)
        if runs == 1:
            return


# --------------------------------------------------------------------------- one family


@inlined
def _pass(status, event):
    """Pass an event: its node leaves its lower bound or reaches its upper bound."""
    r = event >> ONE
    status[r] = max(status[r], np.uint8(ONE + (event & ONE)))


@inlined
def _gather(state, p, place):
    """Children of p: (end of their entries, sum at the price 0, slope far below, unbounded).

    The entries are written from `place` on, in no particular order. `unbounded` includes 1 if the
    sum has no least value at the price 0, and 2 if it has no largest value.
    """
    order, v, s, entries = state.order, state.v, state.s, state.entries
    x, lost, slope, slope_lost, unbounded = 0.0, 0.0, 0.0, 0.0, 0
    for k in range(np.uint64(state.first_inner[p]), np.uint64(state.first_inner[p + ONE])):
        c = state.inner[k]
        first, size = np.uint64(state.first[c]), np.uint64(state.size[c])
        left = state.left[c]
        is_open = left == np.inf or (size > ZERO and entries.jump[first] == -np.inf)
        unbounded |= (1 if is_open else 0) | (2 if state.right[c] == np.inf else 0)
        if left < np.inf:
            slope, slope_lost = add(slope, slope_lost, left)
        x, lost = add(x, lost, state.x[c])
        for m in range(first, first + size):
            _copy_entry(entries, m, entries, place)
            place += ONE
    for r in range(np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + ONE])):
        i = at(order, r)
        variance, low, high = variance_of(s, r), lower_of(state.lower, i), upper_of(state.upper, i)
        value, event = np.float64(v[i]), np.uint64(2) * r
        if low == -np.inf:
            state.status[r] = 1
        if variance == 0.0 or low == high:
            x, lost = add(x, lost, value if variance == 0.0 else low)
            continue
        if variance == np.inf:
            unbounded |= (1 if low == -np.inf else 0) | (2 if high == np.inf else 0)
            value = low if low > -np.inf else (high if high < np.inf else 0.0)
        elif low == -np.inf:
            slope, slope_lost = add(slope, slope_lost, variance)
        x, lost = add(x, lost, min(max(value, low), high))
        if low > -np.inf:
            price = 0.0 if variance == np.inf else (low - value) / variance
            place = _append_entry(entries, place, price, variance, high - low, event)
        if high < np.inf:
            price = 0.0 if variance == np.inf else (high - value) / variance
            place = _append_entry(entries, place, price, -variance, 0.0, event + ONE)
    return place, x + lost, slope + slope_lost, unbounded


@inlined
def _pass_below(state, start, stop, x, slope):
    """Pass all entries up to the top of a vertical piece without a lower end at the price 0.

    Returns the first remaining entry, and the value and the slope there.
    """
    entries, lost = state.entries, 0.0
    while start < stop and (
        entries.price[start] < 0.0
        or (entries.price[start] == 0.0 and entries.jump[start] > -np.inf)
    ):
        if entries.jump[start] == np.inf:
            x += _height_of(entries.height, start)
        else:
            slope, lost = add(slope, lost, entries.jump[start])
        _pass(state.status, np.uint64(entries.event[start]))
        start += ONE
    return start, x, max(slope + lost, 0.0)


@inlined
def _add_up(entries, sums, start, stop, x, slope):
    """Write the value at each entry to ``sums.price``, and the slope after it to ``sums.jump``.

    `x` is the value at the price 0, and `slope` is the slope before the first entry. Values are
    added up from the price 0 in both directions, since starting at very large prices would lose all
    digits. Returns the first entry at or above 0, and the end of the reachable entries.
    """
    lam, lost, top, middle, own = 0.0, 0.0, -np.inf, start, x
    for k in range(start, stop):
        jump = entries.jump[k]
        if entries.price[k] < 0.0:
            middle = k + ONE
        elif jump == -np.inf:
            own = max(own, top)
        elif jump < np.inf or top == -np.inf:
            own += max(slope + lost, 0.0) * (entries.price[k] - lam)
            lam = entries.price[k]
        if jump == np.inf:
            # All vertical pieces begin at the same value.
            top = max(own, top) + _height_of(entries.height, k)
        elif top == np.inf:
            stop = k
            break
        else:
            change = jump if jump > -np.inf else _height_of(entries.height, k)
            slope, lost = add(slope, lost, change)
        sums.price[k - start] = own
        sums.jump[k - start] = np.inf if jump == np.inf else max(slope + lost, 0.0)
    k, lam = middle, 0.0
    while k > start:
        k -= ONE
        x -= sums.jump[k - start] * (lam - entries.price[k])
        lam = entries.price[k]
        sums.price[k - start] = x
    return middle, stop


@inlined
def _sheared(slope, variance):
    """The slope with respect to the price of p, from that with respect to its children's price."""
    if variance == np.inf or slope == 0.0:
        return slope
    return variance if slope == np.inf else slope * (variance / (slope + variance))


@inlined
def _price(lam, x, value, variance):
    """The price of p at which its children have the price `lam` and the sum x."""
    return lam if variance == np.inf else min(max(lam + (x - value) / variance, -FAR), FAR)


@inlined
def _crossing(entries, sums, start, middle, k, x, left, target):
    """(price, slope) where the piece before entry k has the value `target`; x is at the price 0."""
    slope = left if k == start else sums.jump[k - start - ONE]
    lam = 0.0
    if k != middle:
        # Start from the end that is nearer to the price 0.
        m = k - ONE if k > middle else k
        lam, x = entries.price[m], sums.price[m - start]
    return (lam + (target - x) / slope if slope < np.inf else lam), slope


@inlined
def _at_zero(entries, sums, start, middle, stop, x, left, value, variance):
    """The value at the price 0 of p; x is the value at the price 0 of its children."""
    if variance == np.inf:
        return x
    price = _price(0.0, x, value, variance)
    k = middle
    while price > 0.0 and k > start:
        own = sums.price[k - start - ONE]
        further = _price(entries.price[k - ONE], own, value, variance)
        if further <= 0.0:
            break
        k -= ONE
        x, price = own, further
    while price < 0.0 and k < stop:
        own = sums.price[k - start]
        further = _price(entries.price[k], own, value, variance)
        if further >= 0.0:
            break
        k += ONE
        x, price = own, further
    slope = left if k == start else sums.jump[k - start - ONE]
    return x - _sheared(slope, variance) * price


@inlined
def _fix(state, p, x, status):
    """Set the polyline of p to the single value x."""
    state.size[p] = 0
    state.x[p] = x
    state.left[p] = 0.0
    state.right[p] = 0.0
    state.status[p] = status


@inlined
def _height(entries, sums, start, k, stop, x, high):
    """Length of the vertical piece that begins at x, before or at entry k."""
    while k < stop and entries.jump[k] == np.inf:
        k += ONE
    return (min(sums.price[k - start], high) if k < stop else high) - x


@inlined
def _cut(state, p, start, middle, stop, x, left, variance, value, low, high):
    """Turn entries of the children of p, and their sums in `spare`, into those of p."""
    entries, sums = state.entries, state.spare
    zero = _at_zero(entries, sums, start, middle, stop, x, left, value, variance)
    lowest = -np.inf if left > 0.0 else (sums.price[0] if start < stop else x)
    if lowest >= high:
        return _fix(state, p, high, 2)
    # The entries k to m - 1 remain.
    k = start
    is_cut_below = lowest < low
    if is_cut_below:
        while k < stop and sums.price[k - start] <= low:
            _pass(state.status, np.uint64(entries.event[k]))
            k += ONE
        at_low, slope = _crossing(entries, sums, start, middle, k, x, left, low)
        if slope == 0.0 or low == high:
            return _fix(state, p, low, 0)
    m = k
    while m < stop and sums.price[m - start] < high:
        m += ONE
    at_high, last = _crossing(entries, sums, start, middle, m, x, left, high)
    is_cut_above = high < np.inf and last > 0.0
    place, first = np.uint64(state.first[p]), np.uint64(state.first[p])
    state.status[p] = 0 if is_cut_below else 1
    state.left[p] = 0.0 if is_cut_below else _sheared(left, variance)
    if start < stop and state.left[p] == np.inf:
        state.left[p] = 0.0
    state.right[p] = 0.0 if is_cut_above else _sheared(last, variance)
    if left == np.inf and variance == np.inf:
        # The lower end of the vertical piece, or its upper end if it has no lower end.
        zero = low if is_cut_below else (high if start == stop and high < np.inf else zero)
    state.x[p] = min(max(zero, low), high)
    if is_cut_below:
        height = _height(entries, sums, start, k, stop, low, high)
        price = _price(at_low, low, value, variance)
        place = _append_entry(
            entries, place, price, _sheared(slope, variance), height, np.uint64(2) * p
        )
    before = slope if is_cut_below else left
    finite = before if before < np.inf else 0.0
    for e in range(k, m):
        own, after = sums.price[e - start], sums.jump[e - start]
        jump, height = entries.jump[e], 0.0
        if variance < np.inf:
            jump = _sheared(after, variance) - _sheared(before, variance)
        elif jump == np.inf and before < np.inf:
            height = _height(entries, sums, start, e, stop, own, high)
        elif jump == -np.inf:
            height = after - finite
        finite = after if after < np.inf else finite
        price = _price(entries.price[e], own, value, variance)
        place = _append_entry(entries, place, price, jump, height, np.uint64(entries.event[e]))
        before = after
    if is_cut_above:
        price, jump = _price(at_high, high, value, variance), -_sheared(last, variance)
        place = _append_entry(entries, place, price, jump, -finite, np.uint64(2) * p + ONE)
    state.size[p] = place - first
    return None


@inlined
def _settle_at_zero(state, start, stop):
    """Settle entries, given that the price is 0 whatever the rest of the tree does."""
    entries = state.entries
    for k in range(start, stop):
        if entries.price[k] < 0.0 or (entries.price[k] == 0.0 and entries.jump[k] == np.inf):
            _pass(state.status, np.uint64(entries.event[k]))


@kernel
def merge(state):
    """The polylines of all internal nodes, children before parents; `status` is then final."""
    p = np.uint64(state.first.size)
    while p > ZERO:
        p -= ONE
        i = at(state.order, p)
        value, variance = np.float64(state.v[i]), variance_of(state.s, p)
        low, high = lower_of(state.lower, i), upper_of(state.upper, i)
        first = np.uint64(state.first[p]) + np.uint64(low > -np.inf)
        end, x, slope, unbounded = _gather(state, p, first)
        if variance == 0.0:
            low = high = value
        if unbounded == 3:
            _settle_at_zero(state, first, end)
            x, slope, end = value, np.inf, first
        middle = first
        if first < end:
            _sort(state.entries, state.spare, first, end)
            if unbounded == 1:
                first, x, slope = _pass_below(state, first, end, x, slope)
            middle, end = _add_up(state.entries, state.spare, first, end, x, slope)
            slope = np.inf if unbounded == 1 else slope
        elif variance < np.inf:
            # Combine the line of the children with the measurement of p.
            if 0.0 < slope < np.inf:
                x = (value * slope + x * variance) / (slope + variance)
            slope = _sheared(slope, variance)
            variance = np.inf
        _cut(state, p, first, middle, end, x, slope, variance, value, low, high)
    # The price of the root is 0.
    first = np.uint64(state.first[0])
    _settle_at_zero(state, first, first + np.uint64(state.size[0]))
