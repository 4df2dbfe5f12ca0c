"""Variances of pairs that are products of one number per tree: one projection along each axis.

The optimum in all pairs is the Kronecker product of the optima along the trees, and the variances
of the result are products as well.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.crossed.axis_sweeps import AxisSweeps
from gmtree.consistency.crossed.pairs import Pairs, first_true, refuse_exact
from gmtree.consistency.errors import noise_variance
from gmtree.consistency.exact import Tolerance
from gmtree.consistency.factor import Factor

# Relative error up to which variances count as products.
PRODUCT_TOLERANCE = 1e-13


class Separable:
    """The solver for products of the given variances, one vector per tree."""

    def __init__(self, pairs: Pairs, by_tree: list[np.ndarray], threads: int | None) -> None:
        self._pairs, self.by_tree = pairs, by_tree
        self._factors = [
            Factor.of(tree, {"node": a}, threads)
            for tree, a in zip(pairs.trees, by_tree, strict=True)
        ]
        self._sweeps = [
            AxisSweeps(tree, factor, threads)
            for tree, factor in zip(pairs.trees, self._factors, strict=True)
        ]
        self._exact = [np.flatnonzero(a == 0) for a in by_tree]
        # Whether a result may be refused after it was computed.
        self.can_contradict = any(nodes.size for nodes in self._exact)

    @property
    def missing(self) -> np.ndarray:
        """Mask of the pairs that are not measured; a zero-dimensional array if all are measured."""
        missing = np.zeros((), bool)
        for k, a in enumerate(self.by_tree):
            if np.isinf(a).any():
                along = [-1 if axis == k else 1 for axis in range(len(self.by_tree))]
                missing = missing | np.isinf(a).reshape(along)
        return missing

    def project(self, v: np.ndarray, x: np.ndarray) -> None:
        """Write the optimum into `x`, which may be `v`, axis by axis from the last to the first."""
        source = v
        for axis in range(len(self._sweeps) - 1, -1, -1):
            self._sweeps[axis].apply(source, x, axis)
            source = x

    def refuse_contradictions(self, v: np.ndarray, x: np.ndarray) -> None:
        """Refuse exactly known values that the optimum `x` differs from."""
        for axis, nodes in enumerate(self._exact):
            if not nodes.size:
                continue
            own = np.take(v, nodes, axis=axis).astype(np.float64)
            difference = abs(np.take(x, nodes, axis=axis) - own)
            bad = difference > Tolerance.of(x.dtype).relative * abs(own).max()
            if bad.any():
                first = first_true(bad)
                pair = (*first[:axis], int(nodes[first[axis]]), *first[axis + 1 :])
                refuse_exact(pair, float(difference[first]))

    def node_variance(self, noise: np.ndarray | None) -> np.ndarray:
        """Variances of the result; `noise` holds the true variances if they are not the weights.

        The values are ``(A (x) B) y`` with the Kronecker product (x). So their variances follow
        from the squared entries of A and B, one axis after the other.
        """
        if noise is None:
            by_tree = [
                tree._from_positions(factor.node_variance)
                for tree, factor in zip(self._pairs.trees, self._factors, strict=True)
            ]
            return reduce(np.multiply.outer, by_tree)
        for axis, factor in enumerate(self._factors):
            moved = np.moveaxis(noise, axis, 0)
            found = noise_variance(factor, moved.reshape(moved.shape[0], -1))
            noise = np.moveaxis(found.reshape(moved.shape), 0, axis)
        return np.ascontiguousarray(noise)


def refuse_mixed(by_tree: list[np.ndarray]) -> None:
    """Refuse products of 0 and infinity."""
    for k, a in enumerate(by_tree):
        for m, b in enumerate(by_tree):
            zero, missing = np.flatnonzero(a == 0), np.flatnonzero(np.isinf(b))
            if k != m and zero.size and missing.size:
                check.fail(
                    "variance",
                    f"must not be 0 in one tree and inf in another; node {zero[0]} of tree {k} "
                    f"is known exactly and node {missing[0]} of tree {m} not measured.",
                )


def as_product(s: np.ndarray) -> list[np.ndarray] | None:
    """One vector for each axis, whose outer product is `s`; None if there are no such vectors."""
    if not np.all((s > 0) & (s < np.inf)):
        return None
    vectors = []
    for k in range(s.ndim):
        line = s[tuple(slice(None) if a == k else 0 for a in range(s.ndim))]
        # Scaled to about 1, so that the entries of each vector are within the limits for variances.
        middle = np.sqrt(line.min()) * np.sqrt(line.max())
        vectors.append(line / middle if k else line)
    origin = [vector[0] for vector in vectors[1:]]
    vectors[0] = reduce(np.divide, origin, vectors[0])
    product = reduce(np.multiply.outer, vectors)
    return vectors if np.all(abs(product - s) <= PRODUCT_TOLERANCE * s) else None


def fit_products(s: np.ndarray) -> list[np.ndarray]:
    """Positive vectors whose product is close to `s`: each averages logarithms over other axes.

    Values that are known exactly, or not measured, are ignored.
    """
    usable = np.isfinite(s) & (s > 0)
    logs = np.log(s, where=usable, out=np.zeros(s.shape))
    mean = logs.sum() / max(1, usable.sum())
    fit = []
    for k in range(s.ndim):
        others = tuple(a for a in range(s.ndim) if a != k)
        count, total = usable.sum(axis=others), logs.sum(axis=others)
        log = np.where(count > 0, total / np.maximum(count, 1), mean)
        fit.append(np.exp(log - (mean if k else 0)))
    return fit
