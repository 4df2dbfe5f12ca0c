"""The sweeps of a tree along one axis of an array, whichever it is, without transposing it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree._kernels import tables as kernels
from gmtree.consistency.factor import Factor
from gmtree.consistency.stacked import Stacked, with_work
from gmtree.tree import Tree

# Rows of the last axis that are done side by side: what vector instructions take at once.
LANES = 8


class Along:
    """Both sweeps of one tree along one axis of an array."""

    def __init__(self, tree: Tree, factor: Factor | None, threads: int | None) -> None:
        self.tree, self._threads = tree, threads
        self._upward = factor is not None
        # Without stage 1: only the sums from the root down to each node.
        weights = [factor] if factor is not None else [None]
        self._stacked = Stacked.of(tree, weights, [0, 1])
        if factor is None:
            self._stacked.gain.fill(1)
            self._stacked.share.fill(1)

    @classmethod
    def aggregate(cls, tree: Tree, threads: int | None) -> Along:
        """Sums of leaves, whatever the values of internal nodes are."""
        variance = np.where(tree.child_count == 0, 1.0, np.inf)
        return cls(tree, Factor.of(tree, {"node": variance}, threads), threads)

    def apply(self, v: np.ndarray, x: np.ndarray, axis: int) -> None:
        """From `v` into `x`, both contiguous; `x` may be `v`."""
        n, before = self.tree.n, int(np.prod(x.shape[:axis], dtype=np.int64))
        after = x.size // (n * before) if x.size else 1
        s = self._stacked
        args = (s.layout.parent, s.layout.order, s.gain, s.carry, s.share)
        if before > 1 and after == 1:
            flat = (before, n)
            work = (n + max(1, self.tree.n_internal), LANES)
            pair = (_sweep.readonly(v.reshape(flat)), x.reshape(flat))
            self._share(with_work(kernels.rows, (*args, self._upward, *pair), work), before, n)
            return
        if x is not v:
            np.copyto(x, v)
        first = np.array([0, after])
        if before > 1:
            slabs = (*args, first, self._upward, x.reshape(before, n, after))
            work = (max(1, self.tree.n_internal), after)
            self._share(with_work(kernels.slabs, slabs, work), before, n * after)
            return
        segments = _sweep.segment_levels(self.tree._level_start, self.tree.n_internal, after)
        wide = replace(s, first=first, layout=replace(s.layout, segments=segments))
        x, b = x.reshape(n, after), wide.workspace(after)
        with _sweep.team(wide.layout, self._threads) as run:
            if self._upward:
                wide.up(run, x, b)
            wide.down(run, x, b)

    def _share(self, kernel: Any, count: int, size: int) -> None:
        """Run a kernel over a range, shared by threads where it is much work."""
        worth = count * size >= _sweep.SMALLEST_SHARED_LEVEL * _sweep.SHARED_LEVELS_PER_SWEEP
        layout = replace(self._stacked.layout, segments=((0, count, worth),))
        with _sweep.team(layout, self._threads) as run:
            run(kernel, (), layout.segments[0], True)
