"""Messages of subtrees to the rest of a tree, node by node."""

from __future__ import annotations

import numpy as np


def messages(parent, v, s, bound):
    """(estimate, variance, least) of every node, by recursion; variances are 0 at leaves only."""
    n = len(parent)
    children = [[c for c in range(n) if parent[c] == i] for i in range(n)]
    found = {}

    def visit(i):
        below = children[i]
        for c in below:
            visit(c)
        if not below:
            found[i] = v[i], s[i], bound if s[i] > 0 else -np.inf
            return
        t = sum(found[c][1] for c in below)
        b = sum(found[c][0] for c in below)
        # The least change per unit of variance until a child is at its least value.
        steps = [(least - z) / q for z, q, least in (found[c] for c in below) if q > 0]
        least = b + t * max(steps) if steps else -np.inf
        found[i] = (v[i] * t + b * s[i]) / (s[i] + t), s[i] * t / (s[i] + t), least

    visit(parent.index(-1))
    return [np.array(column) for column in zip(*(found[i] for i in range(n)), strict=True)]
