"""The optimum of tables without bounds, by one sweep up and one down, and its errors."""

from __future__ import annotations

import numpy as np

from gmtree import _sweep
from gmtree._kernels import tables as kernels
from gmtree.consistency.block_sweeps import BlockSweeps, with_work
from gmtree.consistency.factor import Factor
from gmtree.consistency.projection import Consistency
from gmtree.consistency.tables import exact
from gmtree.consistency.tables.problem import TableProblem
from gmtree.consistency.tables.queries import contrast, one_cell


class TableSolver:
    """Stage 1 of all spaces of contrasts, and the sweeps.

    Attributes
    ----------
    problem : TableProblem
    sweeps : BlockSweeps
        One block of columns for each space.
    """

    def __init__(self, problem: TableProblem) -> None:
        self.problem = problem
        spaces = problem.axes.spaces
        self._s = np.empty((problem.tree.n, len(spaces)))
        # For each space, the nodes at which it is not determined, or None.
        self._unknown: list[np.ndarray | None] = []
        factors = [self._factor(k) for k in range(len(spaces))]
        first = [space.start for space in spaces] + [spaces[-1].stop]
        self.sweeps = BlockSweeps.of(problem.tree, factors, first)
        self._space_variances: dict[int, np.ndarray] = {}

    def _factor(self, k: int) -> Factor | None:
        """Stage 1 of one space; None if nothing measures it."""
        problem, tree, s = self.problem, self.problem.tree, self._s[:, k]
        precision = np.zeros(tree.n)
        for q, query in enumerate(problem.queries):
            for place in np.flatnonzero(query.blocks == k):
                precision += query.factor[place] * problem.precision[:, q]
        with np.errstate(divide="ignore"):
            np.divide(1, precision, out=s)
        self._unknown.append(None)
        if problem.axes.spaces[k].axes and np.isinf(s[tree.root]):
            unmeasured = np.isinf(s).astype(np.int64)
            _sweep.propagate(tree._layout, unmeasured, unmeasured)
            never = (unmeasured == tree.depth) & (tree.child_count == 0)
            if never.any():
                # This space is held at zero, and values that depend on it have an infinite
                # variance.
                s[never] = 0
                self._unknown[k] = tree.aggregate(never[tree.leaves].astype(np.int64)) > 0
                if never.sum() == tree.n_leaves:
                    return None
        return Factor.of(tree, {"node": s}, problem.threads)

    # ------------------------------------------------------------------ values

    @property
    def can_contradict(self) -> bool:
        """Whether values known exactly can contradict each other."""
        return self.problem.exact_twice.size > 0 or any(e.size for e in self.sweeps.exact)

    def solve(self, ys: list[np.ndarray], x: np.ndarray, run: _sweep.Run | None = None) -> None:
        """Write the optimum into `x` of shape (n, cells)."""
        if run is None:
            with _sweep.team(self.sweeps.layout, self.problem.threads) as run:
                return self.solve(ys, x, run)
        b = self.sweeps.workspace(x.shape[1])
        self._load(run, ys, x)
        self.sweeps.up(run, x, b)
        if self.can_contradict:
            exact.refuse_contradictions(self.problem, self.sweeps, ys, x, b)
        axes = self.problem.axes
        self.sweeps.down_to_cells(run, np.array(axes.shape, np.int64), axes.columns, x, b)

    def _load(self, run: _sweep.Run, ys: list[np.ndarray], x: np.ndarray) -> None:
        """The effective measurement of each node in each space, as columns of `x`."""
        problem, spaces = self.problem, self.problem.axes.spaces
        written = np.zeros(len(spaces), bool)
        for q, (query, y) in enumerate(zip(problem.queries, ys, strict=True)):
            earlier = [np.isin(query.blocks, other.blocks) for other in problem.queries[:q]]
            before = np.array(earlier, bool).reshape(q, query.blocks.size)
            kernel = with_work(
                kernels.take,
                (
                    _sweep.readonly(y), query.lengths, problem.precision, q, query.blocks,
                    query.source, query.factor, ~written[query.blocks], before, self._s,
                    self.sweeps.first, x,
                ),
                y.shape[1],
            )  # fmt: skip
            run(kernel, (), (0, problem.tree.n, True), True)
            written[query.blocks] = True
        for k in np.flatnonzero(~written):
            x[:, spaces[k].columns] = 0

    # ------------------------------------------------------------------ errors

    def sum_variance(
        self, kept: tuple[int, ...], weight: np.ndarray, only_known: bool = False
    ) -> np.ndarray:
        """Variance of a weighted sum of cells of a query, at every node."""
        out = np.zeros(self.problem.tree.n)
        size = float(np.sum(weight**2))
        for k, space in enumerate(self.problem.axes.spaces):
            if not space.axes <= set(kept):
                continue
            square = float(np.sum(contrast(weight, [a in space.axes for a in kept]) ** 2))
            # A smaller weight is a rounding error, and the sum does not depend on this space.
            if square > 1e-24 * size:
                own = self._space_variance(k)
                out += square * (np.where(np.isinf(own), 0, own) if only_known else own)
        return out

    def known_cell_variance(self) -> np.ndarray:
        """Variance of a cell at each node, leaving out undetermined spaces.

        A variance of 0 is replaced by the mean of the positive variances, or by 1 without these.
        """
        shape = self.problem.axes.shape
        variance = self.sum_variance(tuple(range(len(shape))), one_cell(shape), only_known=True)
        usual = variance[variance > 0]
        return np.where(variance > 0, variance, usual.mean() if usual.size else 1.0)

    def covariance(self, in_order: tuple[int, ...], i: int, j: int) -> np.ndarray:
        """Covariances of the cells of a query at two nodes, with its axes twice."""
        lengths = self.problem.axes.shape
        shape = [lengths[a] for a in in_order]
        out = np.zeros(shape + shape)
        for k, space in enumerate(self.problem.axes.spaces):
            if not space.axes <= set(in_order):
                continue
            unknown = np.isinf(self._space_variance(k)[[i, j]]).any()
            product = np.array(np.nan if unknown else self._consistency(k).covariance(i, j))
            for axis in in_order:
                n = lengths[axis]
                matrix = np.eye(n) - 1 / n if axis in space.axes else np.full((n, n), 1 / n**2)
                product = np.multiply.outer(product, matrix)
            # Reorder pairs of axes: first all axes of i, then all axes of j.
            d = len(shape)
            out += product.transpose(*range(0, 2 * d, 2), *range(1, 2 * d, 2))
        return out

    def _space_variance(self, k: int) -> np.ndarray:
        """Variance of one coordinate of a space at each node; inf if it is not determined."""
        if k not in self._space_variances:
            tree, unknown = self.problem.tree, self._unknown[k]
            if unknown is not None and unknown[tree.leaves].all():
                variance = np.full(tree.n, np.inf)
            else:
                variance = self._consistency(k).node_variance()
                if unknown is not None:
                    variance[unknown] = np.inf
            self._space_variances[k] = variance
        return self._space_variances[k]

    def _consistency(self, k: int) -> Consistency:
        return Consistency(self.problem.tree, {"node": self._s[:, k]}, self.problem.threads)
