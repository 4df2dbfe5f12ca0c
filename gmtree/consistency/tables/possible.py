"""Tables with structural zeros: cells that are known to be zero at every leaf.

Without some of the cells the problem no longer splits up by contrasts. The cells that remain are
the bottom series of a sparse least squares problem, which is solved exactly
(:mod:`gmtree.consistency.sparse`).
"""

from __future__ import annotations

import numpy as np

from gmtree.consistency.sparse import NonnegativeInfo, SparseSolver, nonnegative_optimum
from gmtree.consistency.tables.nonnegative import series
from gmtree.consistency.tables.problem import TableProblem


class PossibleCells:
    """The solver of tables of which only the cells marked in `possible` can differ from zero."""

    def __init__(self, problem: TableProblem, possible: np.ndarray) -> None:
        self._problem, self._possible = problem, possible.ravel()
        self._solver: SparseSolver | None = None

    def solve(
        self, ys: list[np.ndarray], nonnegative: bool, tolerance: float, most: int
    ) -> tuple[np.ndarray, NonnegativeInfo | None]:
        """The optimal tables of all nodes, of shape (n, cells), and with `nonnegative` the info."""
        tree, possible = self._problem.tree, self._possible
        A, variance, y, _ = series(self._problem, ys)
        cells = np.tile(possible, tree.n_leaves)
        A = A[:, np.flatnonzero(cells)]
        # Sums of cells that are all zero are known.
        sums = np.diff(A.indptr) > 0
        A, kept = A[np.flatnonzero(sums)], np.concatenate([sums, cells])
        info = None
        if nonnegative:
            values, info = nonnegative_optimum(A, variance[kept], y[kept], tolerance, most)
        else:
            if self._solver is None:
                self._solver = SparseSolver(A, variance[kept])
            values = self._solver.solve(y[kept]).values
        leaf = np.zeros((tree.n_leaves, possible.size))
        leaf[:, possible] = values[A.shape[0] :].reshape(tree.n_leaves, -1)
        return tree.aggregate(leaf), info
