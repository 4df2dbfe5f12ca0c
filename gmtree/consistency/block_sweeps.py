"""Several tree problems with the same tree, done in one sweep over rows of numbers.

The columns of a row fall into blocks, and the columns of a block share the variances of one
problem. Tables on a tree have one block for each set of axes. Trees across trees have a single
block of many columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree._kernels import tables as kernels
from gmtree.consistency.factor import Factor
from gmtree.tree import Tree


@dataclass(frozen=True)
class BlockSweeps:
    """The weights of both sweeps, by position, with one column per block.

    Attributes
    ----------
    gain, carry : arrays of shape (n_internal, blocks)
        Weights of an internal node's own measurement, and of the sum of its children.
    share : array of shape (n, blocks)
        The fraction of its parent's difference that a node takes.
    first : array of int
        Where the columns of each block begin, and where those of the last one end.
    exact : tuple of arrays of int
        For each block, positions of nodes that are known exactly both by themselves and by their
        children.
    """

    tree: Tree
    layout: _sweep.Layout
    gain: np.ndarray
    carry: np.ndarray
    share: np.ndarray
    first: np.ndarray
    exact: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, tree: Tree, factors: Sequence[Factor | None], first: Sequence[int]) -> BlockSweeps:
        """Weights from stage 1 of each block; a block that is not measured (None) stays 0."""
        inner, every = (tree.n_internal, len(factors)), (tree.n, len(factors))
        gain, carry, share = np.zeros(inner), np.zeros(inner), np.zeros(every)
        for k, factor in enumerate(factors):
            if factor is not None:
                columns = (gain[:, k], carry[:, k], share[:, k])
                kernels.steps(tree._layout.parent, *factor.weights, *columns)
        segments, starts = tree._segments(first[-1]), np.array(first, np.int64)
        exact = tuple(np.empty(0, np.int64) if f is None else f.exact for f in factors)
        return cls(
            tree, replace(tree._layout, segments=segments), gain, carry, share, starts, exact
        )

    def workspace(self, width: int) -> np.ndarray:
        """Zeros for the sums of children, with one row even if no node has children."""
        return np.zeros((max(1, self.tree.n_internal), width))

    def up(self, run: _sweep.Run, x: np.ndarray, b: np.ndarray) -> None:
        """Sums of the estimates of the children, into `b`, by position."""
        args = (self.layout.parent, self.layout.order, self.gain, self.carry, self.first, x, b)
        for segment in reversed(self.layout.segments):
            run(kernels.up, args, segment)

    def down(self, run: _sweep.Run, x: np.ndarray, b: np.ndarray) -> None:
        """Replace `x` by the optimum, after :meth:`up`."""
        args = (*self._weights(), x, b)
        kernels.down(*args, 0, 1)
        for segment in self.layout.segments:
            run(kernels.down, args, segment, True)

    def down_to_cells(
        self, run: _sweep.Run, lengths: np.ndarray, source: np.ndarray, x: np.ndarray, b: np.ndarray
    ) -> None:
        """Replace `x` by the cells of the optimal tables, after :meth:`up`."""
        args = (*self._weights(), lengths, source, x, b)
        kernel = with_work(kernels.down_to_cells, args, x.shape[1])
        kernel(0, 1)
        for segment in self.layout.segments:
            run(kernel, (), segment, True)

    def _weights(self) -> tuple[Any, ...]:
        weights = (self.gain, self.carry, self.share, self.first)
        return (self.layout.parent, self.layout.order, *weights)


def with_work(kernel: Callable[..., Any], args: tuple, size: int | tuple[int, ...]) -> Callable:
    """A function that runs the kernel over a range, with memory that no other thread uses."""
    spare: list[np.ndarray] = []

    def call(start: int, stop: int) -> None:
        # We do not test whether `spare` is empty, because another thread may take its last array
        # between the test and `pop`.
        try:
            work = spare.pop()
        except IndexError:
            work = np.empty(size)
        kernel(*args, work, start, stop)
        spare.append(work)

    return call
