"""Slow, obvious versions of queries about pairs, of eigenvectors and of other matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import reference

Parents = Sequence[int]


# --------------------------------------------------------------------------- pairs


def is_ancestor(parent: Parents, i: int, j: int) -> bool:
    return i in reference.ancestors(parent, j)


def common_ancestors(parent: Parents, i: int, j: int) -> list[int]:
    """Nodes that lie on both paths to the root, lowest first."""
    above = reference.ancestors(parent, j)
    return [a for a in reference.ancestors(parent, i) if a in above]


def lca(parent: Parents, i: int, j: int) -> int:
    return common_ancestors(parent, i, j)[0]


def distance(parent: Parents, i: int, j: int, edge: Sequence[float] | None = None) -> float:
    """Lengths of the edges that lie on one of the two paths to the root, but not on both."""
    apart = set(reference.ancestors(parent, i)) ^ set(reference.ancestors(parent, j))
    return sum(1 if edge is None else edge[k] for k in sorted(apart))


def heads(parent: Parents) -> list[int]:
    """First node of the heavy path through each node; `parent` has parents first."""
    size = reference.subtree_sizes(parent)

    def head(i: int) -> int:
        p = parent[i]
        if p < 0:
            return i
        heavy = max(reference.children(parent, p), key=lambda c: (size[c], -c))
        return head(p) if heavy == i else i

    return [head(i) for i in range(len(parent))]


# --------------------------------------------------------------------------- matrices


def adjacency(parent: Parents, edge: Sequence[float] | None = None) -> np.ndarray:
    A = np.zeros((len(parent), len(parent)))
    for i, p in enumerate(parent):
        if p >= 0:
            A[i, p] = 1 if edge is None else edge[i]
    return A


def laplacian(parent: Parents, edge: Sequence[float] | None = None) -> np.ndarray:
    A = adjacency(parent, edge)
    A = A + A.T
    return np.diag(A.sum(axis=1)) - A


def distances(parent: Parents, edge: Sequence[float] | None = None) -> np.ndarray:
    nodes = range(len(parent))
    return np.array([[distance(parent, i, j, edge) for j in nodes] for i in nodes])


def cophenetic(parent: Parents, height: Sequence[float]) -> np.ndarray:
    leaves = reference.leaves(parent)
    return np.array([[height[lca(parent, i, j)] for j in leaves] for i in leaves])


def ancestral(parent: Parents, edge: Sequence[float] | None = None) -> np.ndarray:
    def shared(i: int, j: int) -> float:
        edges = [a for a in common_ancestors(parent, i, j) if parent[a] >= 0]
        return sum(1 if edge is None else edge[a] for a in edges)

    leaves = reference.leaves(parent)
    return np.array([[shared(i, j) for j in leaves] for i in leaves])


# --------------------------------------------------------------------------- factors


def same_weight_below(parent: Parents, node: Sequence[float], i: int) -> list[int]:
    """Proper descendants of i with the weight of i."""
    below = [j for j in range(len(parent)) if j != i and is_ancestor(parent, i, j)]
    return [j for j in below if node[j] == node[i]]


def same_weight_above(parent: Parents, node: Sequence[float], i: int) -> list[int]:
    """Proper ancestors of i with the weight of i, nearest first."""
    return [j for j in reference.ancestors(parent, i)[1:] if node[j] == node[i]]


def diagonal_decomposition(
    parent: Parents, node: Sequence[float], edge: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """alpha_i is the product of w_j / e_j over i and its ancestors, with e = 1 at the root."""

    def alpha(i: int) -> float:
        path = reference.ancestors(parent, i)
        return float(np.prod([node[j] / (edge[j] if parent[j] >= 0 else 1) for j in path]))

    a = np.array([alpha(i) for i in range(len(parent))])
    return a, np.asarray(node) / a


def theta(parent: Parents) -> dict[int, float]:
    """theta_i = number of children - sum of 1 / (1 + theta_j) over inner children j."""
    inner = [i for i in range(len(parent)) if reference.children(parent, i)]

    def of(i: int) -> float:
        children = reference.children(parent, i)
        return len(children) - sum(1 / (1 + of(j)) for j in children if j in inner)

    return {i: of(i) for i in inner}
