"""Slow, obvious readers of labels, sets of leaves and Newick text."""

from __future__ import annotations

import re


def tree_of_rows(rows):
    """All paths (tuples of labels) that rows give, and the path of each row; None ends a row."""
    ends = [tuple(x for x in row if x is not None) for row in rows]
    paths = {end[:k] for end in ends for k in range(len(end) + 1)}
    return paths, ends


def sums_by_path(rows, values):
    """The sum of the values of all rows at or below each path."""
    paths, ends = tree_of_rows(rows)
    return {
        path: sum(v for end, v in zip(ends, values, strict=True) if end[: len(path)] == path)
        for path in paths
    }


def nest(sets):
    """Parent of each set of leaves: the smallest other one that holds it, the last if equal."""
    parents = []
    for i, own in enumerate(sets):
        above = [
            (len(other), -j)
            for j, other in enumerate(sets)
            if own < other or (own == other and j < i)
        ]
        parents.append(-min(above)[1] if above else -1)
    return parents


def newick(text):
    """Nodes (parent, name, length) in the order in which they begin, by recursion."""
    tokens = re.findall(r"'(?:[^']|'')*'|\[[^\]]*\]|[(),:;]|[^\s(),:;'\[\]]+", text)
    tokens = [t for t in tokens if not t.startswith("[")]
    nodes = []

    def node(k, parent):
        i = len(nodes)
        nodes.append([parent, None, None])
        if tokens[k] == "(":
            k = node(k + 1, i)
            while tokens[k] == ",":
                k = node(k + 1, i)
            assert tokens[k] == ")"
            k += 1
        if tokens[k] not in "(),:;":
            name = tokens[k]
            nodes[i][1] = name[1:-1].replace("''", "'") if name[0] == "'" else name
            k += 1
        if tokens[k] == ":":
            nodes[i][2] = float(tokens[k + 1])
            k += 2
        return k

    assert tokens[node(0, -1)] == ";"
    return nodes
