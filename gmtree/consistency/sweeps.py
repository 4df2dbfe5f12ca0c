"""The plain projection: one upward and one downward sweep over the segments of a layout."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import projection as kernels
from gmtree.consistency.exact import refuse_contradictions
from gmtree.consistency.factor import Factor, leaf_kernel


class _Workspace(threading.local):
    """Memory of earlier projections, separate for each thread and freed with its factor.

    New memory causes page faults, which take a tenth of the time of a projection.
    """

    def __init__(self) -> None:
        self._free: WeakKeyDictionary[Factor, np.ndarray] = WeakKeyDictionary()

    def take(self, factor: Factor, shape: tuple[int, ...]) -> np.ndarray:
        """An uninitialised array, which belongs to the caller alone until it is given back."""
        b = self._free.pop(factor, None)
        return np.empty(shape) if b is None or b.shape != shape else b

    def give_back(self, factor: Factor, b: np.ndarray) -> None:
        self._free[factor] = b


_workspace = _Workspace()


def result_dtype(v: np.ndarray) -> np.dtype:
    """float32 for float32 measurements, and float64 for all other types."""
    return v.dtype if v.dtype == np.float32 else np.dtype(np.float64)


def project(factor: Factor, threads: int | None, v: np.ndarray, out: np.ndarray) -> None:
    """Write the optimum without bounds into `out`; refuse values that are not finite."""
    tree, layout = factor.tree, factor.tree._layout
    if tree.n == 1:
        check.finite("noisy", v)
        np.copyto(out, v)
        return
    v = _sweep.readonly(v)
    b = _workspace.take(factor, (tree.n_internal, *v.shape[1:]))
    largest, seen = float(np.finfo(out.dtype).max), np.zeros(1, bool)
    result = (out, largest, seen)
    q = factor.s if factor.q is None else factor.q
    of_inner = (layout.parent, layout.order, factor.q, *factor.projecting, v, b, *result)
    of_leaves = (layout.parent, layout.order, q, v, b, *result)
    with _sweep.team(layout, threads) as run:
        _collect(run, factor, v, b)
        kernels.root(layout.order, *factor.projecting, v, b, *result)
        for segment in layout.joint_segments:
            if isinstance(segment[2], tuple):
                run(_down_subtree, (of_inner, of_leaves), segment, True)
            elif segment[0] < layout.n_inner:
                run(kernels.down_inner, of_inner, segment, True)
            else:
                run(kernels.down_leaves, of_leaves, segment, True)
    _workspace.give_back(factor, b)
    if seen[0]:
        refuse_overflow(out)


def sums_below(factor: Factor, threads: int | None, v: np.ndarray) -> np.ndarray:
    """The upward sweep: for each internal node the sum of its children's estimates, by position.

    Values that are not finite, and exactly known values that contradict each other, are refused.
    """
    if factor.tree.n == 1:
        check.finite("noisy", v)
        return np.empty((0, *v.shape[1:]))
    b = np.empty((factor.tree.n_internal, *v.shape[1:]))
    with _sweep.team(factor.tree._layout, threads) as run:
        _collect(run, factor, _sweep.readonly(v), b)
    return b


def _collect(run: _sweep.Run, factor: Factor, v: np.ndarray, b: np.ndarray) -> None:
    layout = factor.tree._layout
    of_leaves = (layout.parent, layout.order, v, b)
    of_inner = (layout.parent, layout.order, *factor.projecting, v, b)
    sum_leaves = leaf_kernel(layout, v)
    for segment in reversed(layout.joint_segments):
        if isinstance(segment[2], tuple):
            run(_up_subtree, (sum_leaves, of_leaves, of_inner), segment)
        elif segment[0] < layout.n_inner:
            run(kernels.up_inner, of_inner, segment)
        else:
            run(sum_leaves, of_leaves, segment)
    # A NaN or an infinity anywhere propagates to the root.
    is_finite = math.isfinite if v.ndim == 1 else check.all_finite
    if not (is_finite(b[0]) and is_finite(v[factor.tree.root])):
        check.finite("noisy", v)
        check.fail("noisy", "must have sums that floating point numbers can hold.")
    refuse_contradictions(factor, v, b)


def _up_subtree(
    sum_leaves: Callable[..., None], of_leaves: tuple, of_inner: tuple, *bounds: int
) -> None:
    start, stop, first_leaf, last_leaf = bounds
    sum_leaves(*of_leaves, first_leaf, last_leaf)
    kernels.up_inner(*of_inner, start, stop)


def _down_subtree(of_inner: tuple, of_leaves: tuple, *bounds: int) -> None:
    start, stop, first_leaf, last_leaf = bounds
    kernels.down_inner(*of_inner, start, stop)
    kernels.down_leaves(*of_leaves, first_leaf, last_leaf)


def refuse_overflow(x: np.ndarray) -> NoReturn:
    """Fill `x` with NaN, and raise an error that names the first node with a non-finite value."""
    bad = np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(axis=1))
    x.fill(np.nan)
    where = ("; that of ", check.Node(int(bad[0])), " is too large.") if bad.size else (".",)
    check.fail(
        "noisy",
        "must lead to consistent values, within the bounds if there are any, that "
        f"{x.dtype} can hold",
        *where,
    )
