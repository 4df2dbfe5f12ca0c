"""Tables on a tree and trees across trees by dense algebra; random problems.

Nothing here knows about sweeps or contrasts: there is one unknown for each cell of each leaf, one
equation for each value that is known exactly, and one row of a least squares problem for each other
one that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

import gmtree as gm
import reference

Query = tuple[str, ...]


def leaf_sums(tree: gm.Tree) -> np.ndarray:
    """Row i marks the leaves whose sum is node i."""
    S = np.zeros((tree.n, tree.n_leaves))
    for j, leaf in enumerate(reference.leaves(tree.parent)):
        S[reference.ancestors(tree.parent, leaf), j] = 1
    return S


def cell_sums(axes: dict[str, int], query: Query) -> np.ndarray:
    """Row c marks the cells of the whole table whose sum is cell c of a query."""
    return reduce(
        np.kron,
        [np.eye(n) if name in query else np.ones((1, n)) for name, n in axes.items()],
        np.ones((1, 1)),
    )


class Solution(NamedTuple):
    """Values and variances of sums of the unknowns; variances are infinite if undetermined."""

    value: np.ndarray
    variance: np.ndarray


class Dense:
    """Generalised least squares with equations for s = 0; rows with s = inf are ignored."""

    def __init__(self, rows: np.ndarray, y: np.ndarray, s: np.ndarray) -> None:
        exact, used = s == 0, (s > 0) & np.isfinite(s)
        free = np.eye(rows.shape[1])
        start = np.zeros(rows.shape[1])
        if exact.any():
            start = np.linalg.lstsq(rows[exact], y[exact], rcond=None)[0]
            assert np.allclose(rows[exact] @ start, y[exact])
            _, size, right = np.linalg.svd(rows[exact])
            free = right[np.count_nonzero(size > 1e-9) :].T
        root = np.sqrt(s[used])[:, None]
        left, size, right = np.linalg.svd(rows[used] @ free / root)
        rank = np.count_nonzero(size > 1e-9)
        rest = (y[used] - rows[used] @ start) / root[:, 0]
        self._known = free @ right[:rank].T / size[:rank]
        self._unknown = free @ right[rank:].T
        self._x = start + self._known @ (left[:, :rank].T @ rest)

    def of(self, wanted: np.ndarray) -> Solution:
        """Values and variances of sums of the unknowns, one per row of `wanted`."""
        variance = ((wanted @ self._known) ** 2).sum(axis=1)
        variance[(abs(wanted @ self._unknown) > 1e-8).any(axis=1)] = np.inf
        return Solution(wanted @ self._x, variance)


class Problem(NamedTuple):
    """Measured tables: `variance` and `y` by query, for each node."""

    tree: gm.Tree
    axes: dict[str, int]
    variance: dict[Query, np.ndarray]
    y: dict[Query, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.axes.values())

    def system(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One row for each measured cell: which unknowns it sums, its value, its variance."""
        S = leaf_sums(self.tree)
        rows, y, s = [], [], []
        for query, variance in self.variance.items():
            sums = cell_sums(self.axes, query)
            rows.append(np.kron(S, sums))
            in_order = np.argsort([list(self.axes).index(name) for name in query])
            values = self.y[query].transpose(0, *(1 + in_order))
            y.append(np.where(np.isfinite(values), values, 0).ravel())
            s.append(np.repeat(variance, sums.shape[0]))
        return np.vstack(rows), np.concatenate(y), np.concatenate(s)

    def solutions(self) -> dict[Query, Solution]:
        """Values and variances of the cells of all queries at every node."""
        dense, found = Dense(*self.system()), {}
        for query in all_queries(list(self.axes)):
            values, variances = dense.of(np.kron(leaf_sums(self.tree), cell_sums(self.axes, query)))
            shape = (self.tree.n, *(self.axes[name] for name in query))
            found[query] = Solution(values.reshape(shape), variances.reshape(shape))
        return found

    def nonnegative(self) -> np.ndarray:
        """An optimum without negative cells, for variances that are not 0."""
        rows, y, s = self.system()
        used = np.isfinite(s)
        root = np.sqrt(s[used])
        x, _ = nnls(rows[used] / root[:, None], y[used] / root, maxiter=100_000)
        return x

    def objective(self, cells: np.ndarray) -> float:
        rows, y, s = self.system()
        used = np.isfinite(s) & (s > 0)
        return 0.5 * float(np.sum((rows[used] @ cells - y[used]) ** 2 / s[used]))


def all_queries(axes: Sequence[str]) -> list[Query]:
    return [q for k in range(len(axes) + 1) for q in combinations(axes, k)]


def random_problem(
    rng: np.random.Generator,
    *,
    most_nodes: int = 9,
    most_unknowns: int = 80,
    missing: float = 0.5,
    exact: float = 0.1,
    low: float = 0.0,
    whole: bool = False,
) -> Problem:
    """A problem of any tree, axes and queries.

    `missing` and `exact` are the shares of pairs (node, query) that are unmeasured or exact.
    """
    while True:
        parent = np.array(
            [-1, *(rng.integers(0, i) for i in range(1, rng.integers(1, most_nodes)))]
        )
        tree = gm.Tree.from_parents(_shuffled(parent, rng))
        axes = {name: int(rng.integers(1, 6)) for name in "abcd"[: rng.integers(1, 5)]}
        if tree.n_leaves * np.prod(list(axes.values())) <= most_unknowns:
            break
    queries = [q for q in all_queries(list(axes)) if rng.random() < 0.6]
    if whole or not queries:
        queries = sorted({*queries, tuple(axes)})
    variance = {}
    for query in queries:
        s = np.exp(rng.normal(0, 1, tree.n))
        s[rng.random(tree.n) < exact] = 0
        s[rng.random(tree.n) < missing] = np.inf
        variance[query] = s
    for leaf in tree.leaves:
        path = reference.ancestors(tree.parent, leaf)
        if all(np.isinf(s[path]).all() for s in variance.values()):
            variance[queries[0]][leaf] = 1
    return Problem(tree, axes, variance, measured(rng, tree, axes, variance, low))


def measured(
    rng: np.random.Generator,
    tree: gm.Tree,
    axes: dict[str, int],
    variance: dict[Query, np.ndarray],
    low: float = 0.0,
) -> dict[Query, np.ndarray]:
    """Noisy tables around true counts; NaN where not measured."""
    size = int(np.prod(list(axes.values())))
    truth = leaf_sums(tree) @ (low + rng.poisson(3, (tree.n_leaves, size)))
    y = {}
    for query, s in variance.items():
        values = truth @ cell_sums(axes, query).T
        noise = np.where(np.isfinite(s), np.sqrt(np.where(np.isfinite(s), s, 0)), np.nan)
        values = values + noise[:, None] * rng.standard_normal(values.shape)
        y[query] = values.reshape(tree.n, *(axes[name] for name in query))
    return y


def _shuffled(parent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    number = rng.permutation(parent.size) if rng.random() < 0.5 else np.arange(parent.size)
    out = np.empty_like(parent)
    out[number] = np.where(parent < 0, -1, number[parent])
    return out


def crossed(
    trees: Sequence[gm.Tree], y: np.ndarray, s: np.ndarray, exists: np.ndarray | None = None
) -> Solution:
    """Values and variances of all pairs of nodes."""
    S = reduce(np.kron, [leaf_sums(tree) for tree in trees])
    if exists is not None:
        S = S * exists.ravel()
    found = Dense(S, np.where(np.isfinite(s), y, 0).ravel(), s.ravel()).of(S)
    return Solution(found.value.reshape(y.shape), found.variance.reshape(y.shape))
