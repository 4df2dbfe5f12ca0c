"""The consistent optimum with bounds on both sides of any nodes, by Newton's method for the prices.

Arrays are by position as in `projection`, and bounds are by node. The children of p have a common
price ``d_p``. Let ``z_c`` and ``q_c`` be the value of child c at the price 0 and its slope, from
its measurement and from below (for a leaf its measurement and variance). At the price d its value
is ``z_c + q_c d``, cut off at its bounds. So the children of p add up to ``b_p + t_p d``. Here
``t_p`` is the sum of the slopes of the children that are not cut off, and ``b_p`` is the sum of
their values at the price 0 and of the bounds of the remaining children. This holds for prices from
``low_p`` to ``high_p``. At all other prices, different children are cut off, so the family is
judged again.

`collect` computes z and q, children first. From these, `scan` computes prices, parents first. If
all children of a node are leaves, its new price is exact, given the price of its parent. Otherwise
it is exact only if z and q of its children do not change. If no family had to be judged again,
prices and bounds agree, so the conditions of optimality hold. Newton's method can swing back and
forth. Steps are then shortened, but the method may still fail to end.
"""

from typing import NamedTuple

import numpy as np

from gmtree._kernels._jit import inlined, kernel
from gmtree._kernels._shared import ONE, ZERO, add, at, lower_of, upper_of, variance_of

# Within stretches of this many leaves, rounding errors of sums are not compensated.
BLOCK = np.uint64(256)
# Several times the rounding error of a number.
NEAR = 2e-15
MOST_STEPS = 100


class State(NamedTuple):
    """The problem (first block) and its current solution (second block), per internal node."""

    parent: np.ndarray
    order: np.ndarray | None
    first_leaf: np.ndarray
    first_inner: np.ndarray
    inner: np.ndarray
    v: np.ndarray
    s: np.ndarray | None
    lower: np.ndarray | None
    upper: np.ndarray | None

    # Nodes whose t and b may have changed are marked.
    dirty: np.ndarray
    z: np.ndarray
    q: np.ndarray
    t: np.ndarray
    b: np.ndarray
    low: np.ndarray
    high: np.ndarray
    d: np.ndarray
    # The last step of d, and the longest step that is allowed next.
    step: np.ndarray
    limit: np.ndarray


@inlined
def _cut(x, least, most):
    return min(max(x, least), most)


@inlined
def _include(line, x, variance, least, most, d):
    """Return (t, sum, low, high) of a family, changed to include one more child at the price d."""
    t, total, low, high = line
    if variance == 0.0 or least == most:
        return t, total + _cut(x, least, most), low, high
    enter, leave = (least - x) / variance, (most - x) / variance
    is_low, is_high = d < enter, d > leave
    t += 0.0 if is_low or is_high else variance
    total += least if is_low else (most if is_high else x)
    low = max(low, leave if is_high else (-np.inf if is_low else enter))
    high = min(high, enter if is_low else (np.inf if is_high else leave))
    return t, total, low, high


@inlined
def _judge(state, p, d):
    """(t, b, low, high) of p if its children have the price d."""
    order, v, s, lower, upper = state.order, state.v, state.s, state.lower, state.upper
    t, b, lost, low, high = 0.0, 0.0, 0.0, -np.inf, np.inf
    for k in range(np.uint64(state.first_inner[p]), np.uint64(state.first_inner[p + ONE])):
        c = np.uint64(state.inner[k])
        i = np.uint64(at(order, c))
        line = t, 0.0, low, high
        least, most = lower_of(lower, i), upper_of(upper, i)
        t, x, low, high = _include(line, state.z[c], state.q[c], least, most, d)
        b, lost = add(b, lost, x)
    start, last = np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + ONE])
    while start < last:
        stop = min(start + BLOCK, last)
        line = t, 0.0, low, high
        for r in range(start, stop):
            i = np.uint64(at(order, r))
            least, most = lower_of(lower, i), upper_of(upper, i)
            line = _include(line, np.float64(v[i]), variance_of(s, r), least, most, d)
        t, x, low, high = line
        b, lost = add(b, lost, x)
        start = stop
    return t, b + lost, low, high


@inlined
def _store(state, p, family):
    t, b, low, high = family
    if t != state.t[p] or b != state.b[p]:
        state.dirty[p] = 1
    state.t[p], state.b[p], state.low[p], state.high[p] = t, b, low, high


@kernel
def begin(state, start, stop):
    """Set all prices to 0, at which leaves with measurements beyond their bounds are cut off."""
    for p in range(np.uint64(start), np.uint64(stop)):
        if state.first_inner[p] == state.first_inner[p + ONE]:
            _store(state, p, _judge(state, p, 0.0))
        state.dirty[p] = 1
        state.d[p] = 0.0
        state.step[p] = 0.0
        state.limit[p] = np.inf


@kernel
def collect(state, start, stop):
    """z = (t v + s b) / (s + t) and q = s t / (s + t) of changed families, children first."""
    p = np.uint64(stop)
    while p > np.uint64(start):
        p -= ONE
        if state.dirty[p] == 0:
            continue
        if state.first_inner[p] < state.first_inner[p + ONE]:
            _store(state, p, _judge(state, p, state.d[p]))
        state.dirty[p] = 0
        if p > ZERO:
            state.dirty[state.parent[p]] = 1
        t, b = state.t[p], state.b[p]
        own, variance = np.float64(state.v[at(state.order, p)]), variance_of(state.s, p)
        if variance == 0.0:
            b, t = own, 0.0
        elif variance < np.inf:
            both = variance + t
            b, t = (own * t + b * variance) / both, t * (variance / both)
        state.z[p] = b
        state.q[p] = t


@inlined
def _settle(state, p, family, slope, target, wanted):
    """Find the price at which ``slope * price`` plus the sum of the children of p is `target`.

    Returns the price (`wanted`, or near it, if all prices of a range solve this), the family at
    that price, and whether the equation is solved.
    """
    least, most = -np.inf, np.inf
    t, b, low, high = family
    for _ in range(MOST_STEPS):
        rest = target - b
        slack = NEAR * (abs(target) + abs(b))
        can_move = slope + t > 0.0
        if can_move:
            d = rest / (slope + t)
            slack = slack / (slope + t) + NEAR * abs(d)
        elif abs(rest) <= slack:
            return _cut(wanted, low, high), (t, b, low, high), True
        else:
            # No child can move before the price at which the next one leaves its bound.
            d = high if rest > 0.0 else low
            if abs(d) == np.inf:
                break
        is_middle = not least < d < most and least > -np.inf and most < np.inf
        if is_middle:
            d = 0.5 * (least + most)
        if not can_move or not low - slack <= d <= high + slack:
            t, b, low, high = _judge(state, p, d)
        elif not is_middle:
            return d, (t, b, low, high), True
        if (slope + t) * d < target - b:
            least = d
        else:
            most = d
    return wanted, (t, b, low, high), False


@inlined
def _settle_free(state, p, family, own, above):
    """`_settle` for a node that is between its bounds and has the price `above`."""
    variance = variance_of(state.s, p)
    if variance < np.inf:
        return _settle(state, p, family, variance, variance * above + own, state.d[p])
    slack = NEAR * abs(above)
    if not family[2] - slack <= above <= family[3] + slack:
        family = _judge(state, p, above)
    return above, family, True


@inlined
def _settle_at(state, p, family, own, above, bound):
    """`_settle` for a node whose value is `bound`.

    Also returns the price that its measurement asks for, which `_settle` takes as `wanted`.
    """
    variance = variance_of(state.s, p)
    wanted = above
    if 0.0 < variance < np.inf:
        wanted = above - (bound - own) / variance
    d, family, solved = _settle(state, p, family, 0.0, bound, wanted)
    return d, family, solved, wanted


@inlined
def _side(state, p, i, z, q, above):
    """-1 if p is below its lower bound at the price `above`, 1 if above its upper bound, else 0."""
    x = z + q * above
    slack = NEAR * (abs(z) + abs(q * above))
    if x < lower_of(state.lower, i) - slack:
        return -1
    return 1 if x > upper_of(state.upper, i) + slack else 0


@inlined
def _price(state, p, above):
    """(price of the children of p, its family, whether it is right) from the price of p."""
    i = np.uint64(at(state.order, p))
    own, variance = np.float64(state.v[i]), variance_of(state.s, p)
    family = state.t[p], state.b[p], state.low[p], state.high[p]
    d, solved = state.d[p], True
    if variance == 0.0:
        d, family, solved, _ = _settle_at(state, p, family, own, above, own)
        return d, family, solved
    side = _side(state, p, i, state.z[p], state.q[p], above)
    if side != 0:
        bound = lower_of(state.lower, i) if side < 0 else upper_of(state.upper, i)
        d, family, solved, wanted = _settle_at(state, p, family, own, above, bound)
        slack = NEAR * (abs(d) + abs(above) + abs(d - above))
        if (d - wanted) * side <= slack:
            return d, family, solved
    d, family, solved = _settle_free(state, p, family, own, above)
    side = _side(state, p, i, family[1], family[0], d)
    if side != 0:
        bound = lower_of(state.lower, i) if side < 0 else upper_of(state.upper, i)
        d, family, solved, _ = _settle_at(state, p, family, own, above, bound)
    return d, family, solved


@inlined
def _shortened(state, p, d):
    """The new price d, or a price between the old one and d if prices swing back and forth.

    A step back is at most half as long as the step before, and steps in one direction may grow.
    """
    step, before, limit = d - state.d[p], abs(state.step[p]), state.limit[p]
    if step * state.step[p] >= 0.0:
        limit *= 1.5
    elif abs(step) > 0.5 * before and before > 1e-9 * abs(d):
        limit = 0.5 * before
    if abs(step) > limit:
        step = limit if step > 0.0 else -limit
    state.step[p] = step
    state.limit[p] = limit
    return d if abs(step) < limit else state.d[p] + step


@kernel
def scan(state, shortened, start, stop):
    """The prices of a range of internal nodes, parents first; those that change become `dirty`."""
    for p in range(np.uint64(start), np.uint64(stop)):
        above = 0.0 if p == ZERO else state.d[state.parent[p]]
        d, family, solved = _price(state, p, above)
        if shortened and state.first_inner[p] < state.first_inner[p + ONE]:
            nearer = _shortened(state, p, d)
            if nearer != d:
                d, solved = nearer, False
                family = _judge(state, p, d)
        _store(state, p, family)
        if not solved:
            state.dirty[p] = 1
        state.d[p] = d


@kernel
def write(state, out, start, stop):
    """Final values of a range of internal nodes and of their leaves."""
    order, v, s, lower, upper = state.order, state.v, state.s, state.lower, state.upper
    for p in range(np.uint64(start), np.uint64(stop)):
        i, d = np.uint64(at(order, p)), state.d[p]
        above = 0.0 if p == ZERO else state.d[state.parent[p]]
        x = state.z[p] + state.q[p] * above
        out[i] = _cut(x, lower_of(lower, i), upper_of(upper, i))
        for r in range(np.uint64(state.first_leaf[p]), np.uint64(state.first_leaf[p + ONE])):
            i = np.uint64(at(order, r))
            x = np.float64(v[i]) + variance_of(s, r) * d
            out[i] = _cut(x, lower_of(lower, i), upper_of(upper, i))
