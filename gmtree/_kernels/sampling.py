"""Draws of integer noise from random words, by integers alone.

Where the random words do not decide a draw, no kernel decides it either. Inversion notes the
places of such draws in `undecided`; rejection stops before the first draw it cannot finish. The
caller finishes them from the same words and fresh ones, so that each draw is a function of one
endless stream of words.
"""

import numpy as np

from gmtree._kernels._jit import helper, kernel

ONE = np.uint64(1)
ZERO = np.uint64(0)
WORD = np.uint64(64)
# Rejection leaves numbers of 63 bits and more to the caller, so that no sum overflows.
LIMIT = np.uint64(1 << 63)


# --------------------------------------------------------------------------- inversion


@helper
def _find(floors, guide, shift, u):
    """The first k with floors[k] >= u; the last entry is at least any u."""
    k = np.uint64(guide[u >> shift])
    while floors[k] < u:
        k += ONE
    return k


@helper
def _signed(magnitude, sign):
    """`magnitude`, or minus it where `sign` is 1."""
    s = np.int64(sign)
    return (np.int64(magnitude) ^ -s) + s


@kernel
def invert(words, width, floors, guide, shift, digits, digit_guide, digit_shift, out, undecided):
    """Signed magnitudes, each from `width` words: its sign and leading part, then its digits.

    If the leading part T is 0, the magnitude is 0. Otherwise it is one more than the number that
    is written, in base radix, as T - 1 followed by the digits. The lowest bit of a word is a sign
    (not used in digits); the other bits are compared with the table. Returns the number of draws
    noted in `undecided`.
    """
    count = ZERO
    for i in range(ZERO, np.uint64(out.size)):
        first = i * np.uint64(width)
        word = np.uint64(words[first])
        u = word >> ONE
        k = _find(floors, guide, np.uint64(shift), u)
        tie = floors[k] == u
        if digits is not None:  # noqa: SIM102 - known when compiled, unlike k
            if k > ZERO:
                k -= ONE
                for j in range(ZERO, np.uint64(digits.shape[0])):
                    u = np.uint64(words[first + j + ONE]) >> ONE
                    r = _find(digits[j], digit_guide[j], np.uint64(digit_shift), u)
                    tie |= digits[j, r] == u
                    k = k * np.uint64(digits.shape[1]) + r
                k += ONE
        if tie:
            undecided[count] = i
            count += ONE
        out[i] = _signed(k, word & ONE)
    return count


@kernel
def invert_cells(words, word_bits, floors, guide, shift, cell_bits, chance, out, undecided):
    """Signed magnitudes m k + r, each from two words, with m = 2^cell_bits.

    The first word gives the sign and k by inversion; the second a uniform r below m and, in its
    other b bits, v. The draw is to be kept with a probability above 1 - r chance[k] / (m 2^b), if
    chance[k] < 2^b: so v m >= r chance[k] keeps it. Other draws are undecided, as is a zero with
    a minus sign. Returns the number of draws noted in `undecided`.
    """
    count = ZERO
    cell = np.uint64(cell_bits)
    b = np.uint64(word_bits) - cell
    below = (ONE << b) - ONE
    for i in range(ZERO, np.uint64(out.size)):
        word = np.uint64(words[i + i])
        u = word >> ONE
        k = _find(floors, guide, np.uint64(shift), u)
        second = np.uint64(words[i + i + ONE])
        r, v = second >> b, second & below
        magnitude = (k << cell) + r
        sign = word & ONE
        open_chance = chance[k] > below or (v << cell) < r * chance[k]
        if floors[k] == u or open_chance or (sign == ONE and magnitude == ZERO):
            undecided[count] = i
            count += ONE
        out[i] = _signed(magnitude, sign)
    return count


# --------------------------------------------------------------------------- rejection
#
# `at[0]` is the place of the next word. A function that cannot go on, because no words are left or
# a number would exceed 63 bits, sets it past the end, and all loops stop.


@helper
def _stop(words, at):
    at[0] = np.uint64(words.size) + ONE


@helper
def _stopped(words, at):
    return at[0] > np.uint64(words.size)


@helper
def _below(words, at, n):
    """A uniform integer below n >= 1, for n up to 2^63."""
    bits = ZERO
    while (n - ONE) >> bits:
        bits += ONE
    if bits == ZERO:
        return ZERO
    while at[0] < np.uint64(words.size):
        x = words[at[0]] >> (WORD - bits)
        at[0] += ONE
        if x < n:
            return x
    _stop(words, at)
    return ZERO


@helper
def _bernoulli_exp(words, at, a, b):
    """True with probability exp(-a / b), for 0 <= a <= b.

    With A_k true with probability a / (b k), the first k for which A_k is false is odd with
    probability 1 - a/b + (a/b)^2/2! - ...
    """
    k, bound = ONE, b
    while _below(words, at, bound) < a and not _stopped(words, at):
        k += ONE
        bound += b
        if bound >= LIMIT:
            _stop(words, at)
    return (k & ONE) == ONE


@helper
def _laplace(words, at, t, s):
    """P(x) ~ exp(-|x| s / t)."""
    while not _stopped(words, at):
        u = _below(words, at, t)
        if not _bernoulli_exp(words, at, u, t):
            continue
        while _bernoulli_exp(words, at, ONE, ONE) and not _stopped(words, at):
            u += t
            if u >= LIMIT:
                _stop(words, at)
        magnitude = u // s
        negative = _below(words, at, np.uint64(2))
        if magnitude > ZERO or negative == ZERO:
            return _signed(magnitude, negative)
    return np.int64(0)


@kernel
def laplace_by_rejection(words, at, t, s, out, start):
    """Fill `out` from `start` on; returns where the first unfinished draw is.

    On return `at[0]` is the place of the first word of that draw.
    """
    for i in range(np.uint64(start), np.uint64(out.size)):
        first = at[0]
        out[i] = _laplace(words, at, np.uint64(t), np.uint64(s))
        if _stopped(words, at):
            at[0] = first
            return i
    return np.uint64(out.size)


@kernel
def gaussian_by_rejection(words, at, t, a, b, c, largest, out, start):
    """The same for draws of scale t kept with probability exp(-(a |y| - b)^2 / c).

    `largest` is the largest |y| for which the square is below 2^63.
    """
    for i in range(np.uint64(start), np.uint64(out.size)):
        first = at[0]
        kept = False
        while not kept and not _stopped(words, at):
            y = _laplace(words, at, np.uint64(t), ONE)
            magnitude = np.uint64(abs(y))
            if magnitude > np.uint64(largest):
                _stop(words, at)
                break
            left, right = magnitude * np.uint64(a), np.uint64(b)
            distance = left - right if left > right else right - left
            square = distance * distance
            kept = True
            for _ in range(ZERO, square // np.uint64(c)):
                if not _bernoulli_exp(words, at, ONE, ONE) or _stopped(words, at):
                    kept = False
                    break
            if kept:
                kept = _bernoulli_exp(words, at, square % np.uint64(c), np.uint64(c))
            out[i] = y
        if _stopped(words, at):
            at[0] = first
            return i
    return np.uint64(out.size)
