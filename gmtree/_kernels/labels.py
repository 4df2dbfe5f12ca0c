"""Numbering of labels by hashing, in order of first appearance."""

import numpy as np

from gmtree._kernels._jit import helper, kernel
from gmtree._kernels._shared import ONE


@kernel
def factorize(keys, hashes, table, codes, first):
    """codes[k] = number of keys[k] among the distinct keys; returns the number of distinct keys.

    A key is a number or a row of numbers. `first[c]` becomes the first row with code c. The hash
    `table` uses open addressing with linear probing, from the place that the lowest bits of the
    hash give. It holds -1 on entry, and its length is a power of two above the number of keys.
    """
    mask = np.uint64(table.size - 1)
    distinct = 0
    for k in range(hashes.size):
        slot = hashes[k] & mask
        while True:
            code = table[slot]
            if code < 0:
                table[slot] = distinct
                first[distinct] = k
                codes[k] = distinct
                distinct += 1
                break
            if _are_equal(keys, first[code], k):
                codes[k] = code
                break
            slot = (slot + ONE) & mask
    return distinct


@helper
def _are_equal(keys, a, b):
    """Whether keys a and b are equal."""
    if keys.ndim == 1:
        return keys[a] == keys[b]
    j = 0
    while j < keys.shape[1] and keys[a, j] == keys[b, j]:
        j += 1
    return j == keys.shape[1]


@kernel
def hash_texts(texts, hashes, key):
    """Hash of each row of characters up to the first zero; shorter texts are padded with zeros.

    `key` holds two random odd numbers, so that nobody can prepare texts with equal hashes.
    """
    factor = key[0]
    for k in range(np.uint64(hashes.size)):
        h = key[1]
        for j in range(np.uint64(texts.shape[1])):
            if texts[k, j] == 0:
                break
            h = (h ^ np.uint64(texts[k, j])) * factor
        # The product carries bits upward; the shifts bring them down again.
        h = (h ^ (h >> np.uint64(29))) * factor
        hashes[k] = h ^ (h >> np.uint64(32))
