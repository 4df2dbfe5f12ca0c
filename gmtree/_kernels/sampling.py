"""Draws of integer noise from random words, with integer arithmetic only.

The random words may leave a draw undecided. The kernels list such draws in `undecided`. The caller
completes them from the same words and additional words, so that each draw is a function of one
endless stream of words.
"""

import numpy as np

from gmtree._kernels._jit import helper, kernel
from gmtree._kernels._shared import ONE, ZERO


@helper
def _find(floors, guide, shift, u):
    """The first k with floors[k] >= u; the last entry is at least as large as any u."""
    k = np.uint64(guide[u >> shift])
    while floors[k] < u:
        k += ONE
    return k


@helper
def _signed(magnitude, sign):
    """`magnitude`, or its negative if `sign` is 1."""
    s = np.int64(sign)
    return (np.int64(magnitude) ^ -s) + s


@kernel
def invert(words, width, floors, guide, shift, digits, digit_guide, digit_shift, out, undecided):
    """Signed magnitudes, each from `width` words: the sign and the leading part, then the digits.

    If the leading part T is 0, the magnitude is 0. Otherwise it is 1 plus the number whose digits
    are T - 1 and then the drawn digits. The lowest bit of the first word is the sign; the remaining
    bits of each word are compared with the table. Returns the number of draws in `undecided`.
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

    The first word gives the sign, and k by inversion. The second word gives a uniform r below m
    and, in its other b bits, v. If chance[k] < 2^b, a draw must be kept with a probability above 1
    - r chance[k] / (m 2^b), so it is kept if v m >= r chance[k]. All other draws are undecided, and
    so is zero with a negative sign. Returns the number of draws in `undecided`.
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
