"""Variances and covariances of consistent values, exactly.

The functions here take a :class:`Factor` and return results in its units and in the caller's
numbering of nodes and leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import variances as kernels
from gmtree.consistency.factor import Factor, variance_by_node


def noise_variance(factor: Factor, noise: np.ndarray) -> np.ndarray:
    """Variance of each value if measurements have the variances `noise`, which may have columns.

    The noise and the result are in the caller's numbering, and in the units of the noise.
    """
    tree, n, inner = factor.tree, factor.tree.n, factor.tree.n_internal
    layout = tree._layout
    columns = noise.reshape(n, -1)
    out = np.empty(columns.shape)
    largest = np.empty(inner, layout.parent.dtype)
    below, rest, kept, lost, apart = np.empty((5, inner))
    own, variance = np.empty((2, n))
    for k in range(columns.shape[1]):
        column = np.ascontiguousarray(columns[:, k], np.float64)
        for a in (below, rest, largest):
            a.fill(0)
        args = (layout.parent, layout.order, factor.s, factor.t, column)
        kernels.noise_upward(*args, own, below, largest, rest)
        kernels.noise_downward(
            layout.parent, layout.order, *factor.weights, *factor.largest_children, column,
            own, below, largest, rest, kept, lost, apart, variance,
        )  # fmt: skip
        out[:, k] = tree._from_positions(variance)
    if factor.has_undetermined:
        out[tree._from_positions(np.isinf(factor.node_variance))] = np.inf
    return out.reshape(noise.shape)


def read_noise(factor: Factor, noise: Any) -> np.ndarray:
    """Read variances: one number, one per node or level, or columns with one number per node.

    They must be finite for measured nodes.
    """
    tree = factor.tree
    if not isinstance(noise, Mapping):
        noise = check.reals("noise", tree._aligned("noise", noise))
    if isinstance(noise, np.ndarray) and noise.ndim == 2:
        if noise.shape[0] != tree.n:
            check.fail("noise", f"must have one row per node ({tree.n}), not shape {noise.shape}.")
        a = noise.astype(np.float64)
    else:
        try:
            scale, by_node = variance_by_node(tree, noise)
        except check.ArgumentError as error:
            raise check.reworded(error, argument={"variance": "noise"}) from None
        a = np.full(tree.n, scale) if by_node is None else np.array(by_node)
    bad = ~((a >= 0) & (a < np.inf))
    if factor.measured is not None:
        bad &= factor.measured if a.ndim == 1 else factor.measured[:, None]
    if bad.any():
        i = int(np.flatnonzero(bad.reshape(tree.n, -1).any(axis=1))[0])
        check.fail(
            "noise",
            "must be finite and not negative if a node is measured; ",
            check.Node(i),
            f" has {a[i]}.",
        )
    if factor.measured is not None:
        a[~factor.measured] = 0
    return a


def covariance(factor: Factor, i: Any, j: Any) -> float | np.ndarray:
    """Covariance of the values of two nodes; NaN if either has an infinite variance."""
    tree = factor.tree
    first, second = np.broadcast_arrays(
        check.node_numbers("i", i, tree.n), check.node_numbers("j", j, tree.n)
    )
    a, b = (tree._sweep_rank[x.ravel()].astype(np.uint64) for x in (first, second))
    out = np.empty(a.size)
    largest, _ = factor.largest_children
    known = (tree._layout.parent, *factor.weights, largest, factor.node_variance)
    kernels.covariances(*known, a, b, out)
    if factor.has_undetermined:
        unknown = np.isinf(factor.node_variance)
        out[unknown[a] | unknown[b]] = np.nan
        out[unknown[a] & (a == b)] = np.inf
    out *= factor.scale
    return out.reshape(first.shape) if first.ndim else float(out[0])


def leaf_sum_variance(factor: Factor, mask: Any) -> float:
    """Variance of the sum of the leaves that `mask` marks, in the order of ``tree.leaves``."""
    n_leaves = factor.tree.n_leaves
    a = check.array("mask", factor.tree._aligned("mask", mask, "leaf"))
    if a.dtype != bool:
        check.fail_type(
            "mask", f"must hold bools, not {a.dtype}. For ranges of leaves, use range_variance."
        )
    if a.shape != (n_leaves,):
        check.fail("mask", f"must have one entry per leaf ({n_leaves}), not {a.shape}.")
    return _weighted_sum_variance(factor, a)


def range_variance(factor: Factor, ranges: Any) -> float | np.ndarray:
    """Variances of sums over ranges of ``tree.leaves_left_to_right``; a float for one pair."""
    a = check.array("ranges", ranges)
    several = a.reshape(1, 2) if a.shape == (2,) else a
    pairs = check.ranges("ranges", several, factor.tree.n_leaves)
    variances = _range_variances(factor, pairs)
    return float(variances[0]) if a.ndim == 1 else variances


def _weighted_sum_variance(factor: Factor, leaf_weight: np.ndarray) -> float:
    """Variance of a weighted sum of all leaves, in one sweep."""
    tree = factor.tree
    weight, spread = np.zeros((2, tree.n))
    weight[tree._sweep_rank[tree.leaves]] = leaf_weight
    kernels.weigh_leaves(tree._layout.parent, *factor.weights, weight, spread)
    return float(factor.scale * (spread[0] + weight[0] ** 2 * factor.node_variance[0]))


def _range_variances(factor: Factor, ranges: np.ndarray) -> np.ndarray:
    tree, layout = factor.tree, factor.tree._layout
    out = np.zeros(len(ranges))
    if factor.has_undetermined:
        # Infinite variances cancel if all undetermined siblings of a family are in the range.
        for k, (start, stop) in enumerate(ranges):
            mask = np.zeros(tree.n)
            mask[tree.leaves_left_to_right[start:stop]] = 1
            out[k] = _weighted_sum_variance(factor, mask[tree.leaves])
        return out
    some = np.flatnonzero(ranges[:, 0] < ranges[:, 1])
    result = np.empty(some.size)
    lists = tree._child_lists
    kernels.range_variances(
        layout.parent, layout.order, factor.rank, factor.s, factor.t, lists.start, lists.place,
        factor.sibling_sums, tree.leaves_left_to_right, ranges[some], factor.node_variance[0],
        result,
    )  # fmt: skip
    out[some] = factor.scale * result
    return out
