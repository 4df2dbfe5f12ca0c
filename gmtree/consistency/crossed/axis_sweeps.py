"""The sweeps of a tree along any axis of an array, without transposing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree._kernels import tables as kernels
from gmtree.consistency.block_sweeps import BlockSweeps, with_work
from gmtree.consistency.factor import Factor
from gmtree.tree import Tree

# Rows of the last axis that one vector instruction processes side by side.
LANES = 8


class AxisSweeps:
    """Both sweeps of one tree along one axis of an array."""

    def __init__(self, tree: Tree, factor: Factor, threads: int | None) -> None:
        self.tree, self._threads = tree, threads
        self._blocks = BlockSweeps.of(tree, [factor], [0, 1])

    def apply(self, v: np.ndarray, x: np.ndarray, axis: int) -> None:
        """Write the projection of `v` along one axis into `x`; both are contiguous.

        `x` may be `v`.
        """
        n, before = self.tree.n, int(np.prod(x.shape[:axis], dtype=np.int64))
        after = x.size // (n * before) if x.size else 1
        s = self._blocks
        args = (s.layout.parent, s.layout.order, s.gain, s.carry, s.share)
        if before > 1 and after == 1:
            flat = (before, n)
            work = (n + max(1, self.tree.n_internal), LANES)
            pair = (_sweep.readonly(v.reshape(flat)), x.reshape(flat))
            self._share(with_work(kernels.rows, (*args, *pair), work), before, n)
            return
        if x is not v:
            np.copyto(x, v)
        first = np.array([0, after])
        if before > 1:
            slabs = (*args, first, x.reshape(before, n, after))
            work = (max(1, self.tree.n_internal), after)
            self._share(with_work(kernels.slabs, slabs, work), before, n * after)
            return
        segments = self.tree._segments(after)
        wide = replace(s, first=first, layout=replace(s.layout, segments=segments))
        x, b = x.reshape(n, after), wide.workspace(after)
        with _sweep.team(wide.layout, self._threads) as run:
            wide.up(run, x, b)
            wide.down(run, x, b)

    def _share(self, kernel: Callable[..., Any], count: int, size: int) -> None:
        """Run a kernel over a range, which threads share if it is long enough."""
        worth = count * size >= _sweep.SMALLEST_SHARED_LEVEL * _sweep.SHARED_LEVELS_PER_SWEEP
        layout = replace(self._blocks.layout, segments=((0, count, worth),))
        with _sweep.team(layout, self._threads) as run:
            run(kernel, (), layout.segments[0], True)
