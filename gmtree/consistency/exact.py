"""Check that values known exactly (variance 0) do not contradict each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import projection as kernels
from gmtree.consistency.factor import Factor
from gmtree.tree.locate import node_in_error


class Tolerance(NamedTuple):
    """How far a sum of exactly known values may be off, since it may have been rounded.

    `relative` is in units of the sum of the absolute values of the summands. If all summands are
    whole and this sum is below `whole_below`, nothing was rounded, and sums must be exact.
    """

    relative: float
    whole_below: float

    @classmethod
    def of(cls, dtype: np.dtype) -> Tolerance:
        """Tolerance for measurements of this type; float32 holds whole numbers only up to 2**24."""
        return cls(1e-6, 2.0**24) if dtype == np.float32 else cls(1e-11, 2.0**53)


def refuse_contradictions(factor: Factor, v: np.ndarray, b: np.ndarray) -> None:
    """Refuse exactly known values that differ from the sums of exactly known values below them.

    `b` holds the sum of the children of each internal node, by position, for measurements `v`.
    """
    if factor.exact.size == 0:
        return
    nodes = factor.tree._sweep_order[factor.exact]
    own, below = v[nodes].astype(np.float64), b[factor.exact]
    difference, tolerance = abs(own - below), Tolerance.of(v.dtype)
    rounded = tolerance.relative * np.maximum(abs(own), abs(below))
    # If a value and its sum are whole, all summands may be whole. Then no difference is allowed.
    if not np.any((difference > rounded) | ((difference > 0) & (below == np.floor(below)))):
        return
    # If children have opposite signs, their sum may be smaller than its rounding error. So compare
    # with the sum of the absolute values.
    size, is_whole = _made_of(factor, v)
    must_be_right = is_whole & (own == np.floor(own)) & (size < tolerance.whole_below)
    bad = np.argwhere(difference > np.where(must_be_right, 0, tolerance.relative * size))
    if bad.size:
        first = tuple(bad[np.argmin(nodes[bad[:, 0]])])
        check.fail(
            "noisy",
            "must agree where values are known exactly (variance 0); ",
            node_in_error(factor.tree, int(nodes[first[0]])),
            f" is {own[first]} but its children add up to {below[first]}.",
        )


def _made_of(factor: Factor, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each node in ``factor.exact``: sum of absolute values below, and whether all are whole.

    The values below a node are those of its children; a child that is not known exactly is replaced
    by the values below it.
    """
    layout = factor.tree._layout
    shape = (factor.exact.size, *v.shape[1:])
    sizes, whole = np.empty(shape), np.empty(shape, bool)
    columns = (a.reshape(len(a), -1).T for a in (v, sizes, whole))
    for column, of_sizes, of_whole in zip(*columns, strict=True):
        size, fractional = np.zeros(layout.n_inner), np.zeros(layout.n_inner, bool)
        column = np.ascontiguousarray(column)
        kernels.known_sizes(layout.parent, layout.order, factor.s, column, size, fractional)
        of_sizes[:], of_whole[:] = size[factor.exact], ~fractional[factor.exact]
    return sizes, whole
