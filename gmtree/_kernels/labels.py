"""Numbering of labels by hashing, in order of first appearance."""

import numpy as np

from gmtree._kernels._jit import helper, kernel


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


@kernel
def factorize_texts(texts, table, codes, first):
    """`factorize` for texts of one width: row k of `texts` holds the characters of label k.

    A text is shorter than that where it ends in zeros, which need no hashing.
    """
    mask = np.uint64(table.size - 1)
    distinct = 0
    for k in range(np.uint64(texts.shape[0])):
        h = np.uint64(0)
        for c in texts[k]:
            if c == 0:
                break
            h = (h ^ np.uint64(c)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
        slot = (h * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
        while True:
            code = table[slot]
            if code < 0:
                table[slot] = distinct
                first[distinct] = k
                codes[k] = distinct
                distinct += 1
                break
            if _are_equal(texts[np.uint64(first[code])], texts[k]):
                codes[k] = code
                break
            slot = (slot + np.uint64(1)) & mask
    return distinct


@helper
def _are_equal(a, b):
    """Whether two rows hold the same characters."""
    j = np.uint64(0)
    while j < np.uint64(a.size) and a[j] == b[j]:
        j += np.uint64(1)
    return j == np.uint64(a.size)
