"""Numbering of labels by hashing, in order of first appearance."""

import numpy as np

from gmtree._kernels._jit import kernel


@kernel
def factorize(keys, hashes, table, codes, first):
    """codes[k] = number of keys[k] among the distinct keys; returns how many there are.

    `first[c]` becomes the row where code c appeared first. `table` holds -1 and its length is
    a power of two above the number of keys: open addressing with linear probing, from where the
    lowest bits of a key's hash say.
    """
    mask = np.uint64(table.size - 1)
    distinct = 0
    for k in range(keys.size):
        slot = hashes[k] & mask
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
