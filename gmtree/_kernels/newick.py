"""Parser of Newick text, which fills arrays in one pass over the bytes."""

import numpy as np

from gmtree._kernels._jit import inlined, kernel

OPEN, CLOSE, COMMA, COLON, SEMICOLON = 40, 41, 44, 58, 59
QUOTE, BRACKET, UNBRACKET = 39, 91, 93

# Codes of errors that `parse` returns instead of the number of nodes, which is positive.
UNBALANCED, UNCLOSED, NO_END, COMMENT, QUOTED, TWO_NAMES, NO_LENGTH, MORE = range(-1, -9, -1)


@inlined
def _is_blank(c):
    return c == 32 or (9 <= c <= 13)


@inlined
def _is_special(c):
    return c in (OPEN, CLOSE, COMMA, COLON, SEMICOLON, QUOTE, BRACKET) or _is_blank(c)


@inlined
def _after_comment(text, k):
    """The place after the comment that begins at k, or -1 if it has no end; comments may nest."""
    depth = 0
    while k < text.size:
        depth += text[k] == BRACKET
        depth -= text[k] == UNBRACKET
        k += 1
        if depth == 0:
            return k
    return -1


@inlined
def _after_blanks(text, k):
    """The first place from k on that is neither blank nor in a comment, or the end of the text.

    If a comment has no end, the result is ``-1 - j`` for the place j at which it begins.
    """
    while k < text.size:
        if _is_blank(text[k]):
            k += 1
        elif text[k] == BRACKET:
            end = _after_comment(text, k)
            if end < 0:
                return -1 - k
            k = end
        else:
            break
    return k


@inlined
def _after_word(text, k):
    """The place after the characters from k on that have no meaning in Newick text."""
    while k < text.size and not _is_special(text[k]):
        k += 1
    return k


@inlined
def _after_quotes(text, k):
    """The place after the quoted name that begins at k, or -1; two quotes stand for one in it."""
    k += 1
    while k < text.size:
        if text[k] != QUOTE:
            k += 1
        elif k + 1 < text.size and text[k + 1] == QUOTE:
            k += 2
        else:
            return k + 1
    return -1


@kernel
def count_nodes(text):
    """An upper bound of the number of nodes: 1 plus the number of commas and of "("."""
    nodes = 1
    for c in text:
        nodes += c in (COMMA, OPEN)
    return nodes


@kernel
def parse(text, parent, start, stop, place, number):
    """Read the nodes in the order in which they begin.

    The name of node i is text[start[i]:stop[i]], including quotes, and its length is
    text[place[2i]:place[2i + 1]]. number[i] is the value of the length if it has so few digits that
    two operations give it exactly, and otherwise NaN. On entry `parent` holds -1, `number` NaN, and
    all other outputs 0.

    Returns the number of nodes, or the code of an error, and the place of the error in the text.
    """
    n, k, size = 1, 0, text.size
    node = np.int64(0)
    # Whether the current node has a name, and whether it has children.
    named, below = False, False
    while True:
        k = _after_blanks(text, k)
        if k < 0:
            return COMMENT, -1 - k
        if k == size:
            return NO_END, k
        c = text[k]
        if c == OPEN:
            if named or below or place[2 * node + 1] > 0:
                return TWO_NAMES, k
            parent[n] = node
            node = n
            n += 1
            k += 1
        elif c in (COMMA, CLOSE):
            above = parent[node]
            if above < 0:
                return UNBALANCED, k
            node = np.int64(above)
            if c == COMMA:
                parent[n] = above
                node = n
                n += 1
            named, below = False, c == CLOSE
            k += 1
        elif c == SEMICOLON:
            if parent[node] >= 0:
                return UNCLOSED, k
            k = _after_blanks(text, k + 1)
            if k < 0:
                return COMMENT, -1 - k
            return n if k == size else MORE, k
        elif c == COLON:
            k = _after_blanks(text, k + 1)
            if k < 0:
                return COMMENT, -1 - k
            if place[2 * node + 1] > 0 or k == size or _is_special(text[k]):
                return NO_LENGTH, k
            place[2 * node] = k
            k = _after_word(text, k)
            place[2 * node + 1] = k
            number[node] = _number(text, place[2 * node], k)
        else:
            if named or place[2 * node + 1] > 0:
                return TWO_NAMES, k
            named = True
            start[node] = k
            k = _after_quotes(text, k) if c == QUOTE else _after_word(text, k)
            if k < 0:
                return QUOTED, start[node]
            stop[node] = k


@inlined
def _number(text, k, end):
    """The number text[k:end] if it has at most 15 digits and a power of ten up to 22; else NaN."""
    negative = text[k] == 45
    if negative or text[k] == 43:
        k += 1
    digits, mantissa, exponent = 0, np.int64(0), 0
    point = False
    while k < end:
        c = text[k]
        if 48 <= c <= 57:
            mantissa = 10 * mantissa + (np.int64(c) - 48)
            digits += 1
            exponent -= point
        elif c == 46 and not point:
            point = True
        else:
            break
        if digits > 15:
            return np.nan
        k += 1
    if digits == 0:
        return np.nan
    if k < end and (text[k] == 69 or text[k] == 101):
        k += 1
        minus = k < end and text[k] == 45
        if k < end and (text[k] == 45 or text[k] == 43):
            k += 1
        power, first = 0, k
        while k < end and 48 <= text[k] <= 57 and power < 1000:
            power = 10 * power + (np.int64(text[k]) - 48)
            k += 1
        if k == first:
            return np.nan
        exponent += -power if minus else power
    if k < end or exponent < -22 or exponent > 22:
        return np.nan
    scale = 1.0
    for _ in range(abs(exponent)):
        scale *= 10.0
    value = mantissa / scale if exponent < 0 else mantissa * scale
    return -value if negative else value
