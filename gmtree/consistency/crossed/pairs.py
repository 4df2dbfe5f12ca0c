"""Pairs (or triples, ...) of nodes, one of each tree: which exist, and their names in messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from gmtree import _memory
from gmtree import _validate as check
from gmtree.matrix import GenerationMatrix
from gmtree.tree import Tree


@dataclass(frozen=True)
class Pairs:
    """All pairs of nodes.

    Attributes
    ----------
    trees : tuple of Tree
    exists : array of bool, by pair of leaves, or None
        None if all of them exist.
    """

    trees: tuple[Tree, ...]
    exists: np.ndarray | None

    @classmethod
    def of(cls, trees: Any, exists: Any) -> Pairs:
        """Make pairs from the arguments of :class:`gmtree.CrossedConsistency`."""
        if isinstance(trees, Tree) or not isinstance(trees, Sequence):
            check.fail_type("trees", f"must be a list of trees, not a {type(trees).__name__}.")
        if not trees:
            check.fail("trees", "must have at least one tree.")
        for k, tree in enumerate(trees):
            if not isinstance(tree, Tree):
                check.fail_type("trees", f"must hold trees; entry {k} is a {type(tree).__name__}.")
        if exists is None:
            return cls(tuple(trees), None)
        check.refuse_all_labels("exists", exists)
        a = check.array("exists", exists)
        shape = tuple(tree.n_leaves for tree in trees)
        if a.dtype != bool:
            check.fail_type("exists", f"must hold bools, not {a.dtype}.")
        if a.shape != shape:
            check.fail("exists", f"must have one entry per pair of leaves {shape}, not {a.shape}.")
        if not a.any():
            check.fail("exists", "must be true for some pair of leaves.")
        return cls(tuple(trees), None if a.all() else a.copy())

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes of each tree."""
        return tuple(tree.n for tree in self.trees)

    @property
    def none(self) -> np.ndarray:
        """Mask of the pairs of nodes below which no pair of leaves exists."""
        if self.exists is None:
            return np.broadcast_to(np.False_, self.shape)
        none = np.ones(self.shape, bool)
        aggregates = self.series[: self.sums.shape[0]]
        none.ravel()[aggregates] = np.diff(self.sums.indptr) == 0
        none.ravel()[self.series[aggregates.size :]] = False
        return none

    @cached_property
    def series(self) -> np.ndarray:
        """Flat indices of all pairs: first those that are sums, then pairs of leaves."""
        is_leaf = reduce(np.logical_and.outer, [tree.child_count == 0 for tree in self.trees])
        # In the order of `tree.leaves`, as `exists` and the columns of `sums`.
        leaves = np.arange(is_leaf.size).reshape(self.shape)[
            np.ix_(*(tree.leaves for tree in self.trees))
        ]
        leaves = leaves.ravel() if self.exists is None else leaves[self.exists]
        return np.concatenate([np.flatnonzero(~is_leaf), leaves])

    @cached_property
    def sums(self) -> Any:
        """Sparse 0-1 matrix that sums pairs of leaves to all other pairs."""
        from scipy import sparse

        entries = int(np.prod([float(tree.depth[tree.leaves].sum()) for tree in self.trees]))
        _memory.refuse_above_limit(
            "The matrix of sums", 12 * entries, "Use variances that are products of one per tree."
        )
        by_tree = [GenerationMatrix(tree).inverse()[tree.leaves].T for tree in self.trees]
        matrix = reduce(lambda a, b: sparse.kron(a, b, format="csr"), by_tree).tocsr()
        exists = slice(None) if self.exists is None else np.flatnonzero(self.exists)
        count = self.series.size - matrix[:, exists].shape[1]
        return sparse.csr_array(matrix[self.series[:count]][:, exists])


def first_true(mask: np.ndarray) -> tuple[int, ...]:
    """Index of the first true entry."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def named(index: tuple[int, ...]) -> str:
    """A pair of nodes as text for an error message."""
    what = {1: "node", 2: "pair"}.get(len(index), "tuple")
    return f"{what} {index[0] if len(index) == 1 else index}"


def refuse_exact(pair: tuple[int, ...], difference: float) -> None:
    """Refuse exactly known values that contradict each other."""
    check.fail(
        "noisy",
        f"must agree if values are known exactly (variance 0); {named(pair)} differs by "
        f"{difference:.6g} from the value that the other exact values determine.",
    )
