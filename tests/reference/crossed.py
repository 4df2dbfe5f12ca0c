"""Random problems of crossed trees, and their optima in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

import gmtree as gm
from reference import rational
from reference.tables import leaf_sums


class Optimum(NamedTuple):
    """Values and variances of all pairs; infinite variances if undetermined."""

    value: np.ndarray
    variance: np.ndarray


class Crossed(NamedTuple):
    """Measurements `y` with variances `s` of all pairs of nodes."""

    trees: Sequence[gm.Tree]
    s: np.ndarray
    y: np.ndarray
    exists: np.ndarray

    @property
    def sums(self) -> np.ndarray:
        """Row i marks the pairs of leaves whose sum is pair i."""
        S = reduce(np.kron, [leaf_sums(tree) for tree in self.trees])
        return S * self.exists.ravel()

    @property
    def measured(self) -> np.ndarray:
        """Pairs that exist and are measured."""
        return np.isfinite(self.s) & (self.sums.sum(axis=1) > 0).reshape(self.s.shape)

    @property
    def unmeasured_leaf(self) -> tuple[int, ...] | None:
        """An existing pair of leaves that is not measured, and no pair above it is; or None."""
        known = self.sums[np.isfinite(self.s).ravel()].sum(axis=0).reshape(self.exists.shape)
        never = np.argwhere(self.exists & (known == 0))
        if not never.size:
            return None
        return tuple(int(t.leaves[k]) for t, k in zip(self.trees, never[0], strict=True))

    def optimum(self) -> Optimum | None:
        """Exact values, rounded at the end; None if exact values contradict each other.

        A sum that nothing determines further is split such that squares of pairs of leaves that
        were not measured are least.
        """
        leaves = np.ix_(*(tree.leaves for tree in self.trees))
        s = np.where(self.measured, self.s, np.inf)
        split = np.flatnonzero(np.isinf(s[leaves]).ravel()).tolist()
        rows = self.sums.astype(int).tolist()
        # Unknowns that do not exist are zero.
        none = np.flatnonzero(~self.exists.ravel())
        rows += np.eye(self.exists.size, dtype=int)[none].tolist()
        y = [*np.where(np.isfinite(s), self.y, 0).ravel().tolist(), *[0.0] * none.size]
        found = rational.optimum(rows, y, [*s.ravel().tolist(), *[0.0] * none.size], split)
        if found is None:
            return None
        value, variance = (rational.floats(a[: s.size]) for a in (found.value, found.variance))
        return Optimum(value.reshape(s.shape), variance.reshape(s.shape))


def random_crossed(rng: np.random.Generator, *, span: float = 6) -> Crossed:
    """A problem of small trees, with variances from 10**-span to 10**span, 0 and infinity."""
    count = int(rng.choice([1, 2, 2, 2, 3]))
    most = {1: 14, 2: 8, 3: 5}[count]
    trees = [gm.shapes.random_recursive(int(rng.integers(1, most)), rng) for _ in range(count)]
    shape, leaves = [tree.n for tree in trees], [tree.n_leaves for tree in trees]
    exists = np.ones(leaves, bool)
    if rng.random() < 0.3:
        exists = rng.random(leaves) < 0.7
        exists.flat[rng.integers(exists.size)] = True
    whole = rng.random() < 0.7
    s = 10.0 ** (rng.integers(-span, span + 1, shape) if whole else rng.uniform(-span, span, shape))
    s[rng.random(shape) < rng.choice([0, 0.1, 0.3, 0.5])] = np.inf
    s[rng.random(shape) < rng.choice([0, 0, 0.1, 0.3])] = 0
    # Multiples of a quarter, so that exact values that agree are exactly equal.
    x = rng.integers(-40, 80, leaves) / 4 * exists
    for axis, tree in enumerate(trees):
        x = np.moveaxis(np.tensordot(leaf_sums(tree), x, (1, axis)), 0, axis)
    noise = rng.integers(-30, 30, shape) / 4 * rng.choice([0, 1, 1, 1])
    wrong = rng.random(shape) < rng.choice([0, 0, 0.1])
    return Crossed(trees, s, np.where((s > 0) | wrong, x + noise, x), exists)
