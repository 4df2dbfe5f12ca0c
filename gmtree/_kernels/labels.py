"""Numbering of labels by hashing, in order of first appearance."""

import numpy as np

from gmtree._kernels._jit import kernel


@kernel
def _mix(key):
    """Let every bit of the key act on the lowest bits, which choose the slot.

    Multiplying by an odd number carries bits upward, the shifts bring them down again: whole
    numbers as floats, or times as nanoseconds, differ only in high bits.
    """
    key ^= key >> np.uint64(32)
    key *= np.uint64(0x9E3779B97F4A7C15)
    key ^= key >> np.uint64(29)
    key *= np.uint64(0x9E3779B97F4A7C15)
    return key ^ (key >> np.uint64(32))


@kernel
def factorize(keys, table, codes, first):
    """codes[k] = number of keys[k] among the distinct keys; returns how many there are.

    `first[c]` becomes the row where code c appeared first. `table` holds -1 and its length is
    a power of two above the number of keys: open addressing with linear probing.
    """
    mask = np.uint64(table.size - 1)
    distinct = 0
    for k in range(keys.size):
        slot = _mix(np.uint64(keys[k])) & mask
        while True:
            code = table[slot]
            if code < 0:
                table[slot] = distinct
                first[distinct] = k
                codes[k] = distinct
                distinct += 1
                break
            if keys[first[code]] == keys[k]:
                codes[k] = code
                break
            slot = (slot + np.uint64(1)) & mask
    return distinct
