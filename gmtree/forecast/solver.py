"""Weighted least squares for series in columns: sweeps on a tree, sparse factors otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from gmtree import _validate as check
from gmtree._sweep import share, usable_threads
from gmtree.consistency import Consistency
from gmtree.consistency.crossed.separable import as_product
from gmtree.consistency.sparse import ContradictionError, SparseSolver, nonnegative_optimum
from gmtree.forecast.bounds import Bounds
from gmtree.forecast.structure import Structure
from gmtree.tree import Tree

# For structures that are not trees: the largest allowed distance from the non-negative optimum, in
# standard deviations, and the largest number of solves.
NONNEGATIVE_TOLERANCE, MOST_SOLVES = 1e-7, 5000
# If columns have more than MANY different sets of variances, and each has fewer than SMALL numbers,
# they are solved in one tree that has a copy of the hierarchy for each column.
MANY, SMALL = 8, 20_000


def numbered_step(k: int) -> str:
    """Name a step in an error message if it has no label."""
    return f"step {k}"


class _Solver(Protocol):
    def project(
        self, y: np.ndarray, nonnegative: bool, bounds: Bounds | None = None
    ) -> np.ndarray: ...

    def noise_variance(self, noise: np.ndarray) -> np.ndarray: ...

    def undetermined(self) -> tuple[int, int] | None: ...


class Weights:
    """The variances that serve as weights, and the solvers for them.

    NaN marks missing values, which have no weight.

    Parameters
    ----------
    structure : Structure
    variance : array of shape (n,) or (n, steps), or None
        Variance of each series, for all columns or for each of them. If there are more columns
        than steps, the steps are repeated. None stands for equal variances. A value with variance 0
        is not changed, and a value with variance inf is ignored.
    threads : int, optional
    step : function
        Name of a column in error messages.
    """

    def __init__(
        self,
        structure: Structure,
        variance: np.ndarray | None,
        threads: int | None = None,
        step: Callable[[int], str] = numbered_step,
    ) -> None:
        self.structure, self.variance = structure, variance
        self._threads, self._step = threads, step
        self._last: tuple[bytes, _Solver] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the solver, because factors of scipy cannot be pickled."""
        return {**self.__dict__, "_last": None}

    def project(
        self, y: np.ndarray, nonnegative: bool = False, bounds: Bounds | None = None
    ) -> np.ndarray:
        """Return the coherent values of each column; only a tree can have bounds."""
        return self._solve(y, lambda solver, part: solver.project(part, nonnegative, bounds))

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Return the variances of coherent values whose measurements have the variances `noise`."""
        return self._solve(noise, lambda solver, part: solver.noise_variance(part))

    def _solve(
        self, x: np.ndarray, answer: Callable[[_Solver, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Apply `answer` to all columns of x; columns with equal variances share a solver."""
        missing, s = np.isnan(x), self.variance
        if s is not None and s.ndim == 2:
            s = np.tile(s, x.shape[1] // s.shape[1])
        if missing.any():
            s = np.ones(self.structure.n) if s is None else s
            s = np.where(missing, np.inf, s if s.ndim == 2 else s[:, None])
            x = np.where(missing, 0.0, x)
        if s is None or s.ndim == 1:
            return self._answered(answer, s, 0, x)
        together: dict[bytes, list[int]] = {}
        for k in range(x.shape[1]):
            together.setdefault(s[:, k].tobytes(), []).append(k)
        if len(together) == 1:
            return self._answered(answer, s[:, 0], 0, x)
        if len(together) > MANY and len(x) < SMALL and self.structure.tree is not None:
            return self._answered(answer, s, 0, x)
        out = np.empty(x.shape)
        for same in together.values():
            out[:, same] = self._answered(answer, s[:, same[0]], same[0], x[:, same])
        return out

    def _answered(
        self,
        answer: Callable[[_Solver, np.ndarray], np.ndarray],
        s: np.ndarray | None,
        first: int,
        x: np.ndarray,
    ) -> np.ndarray:
        """Apply `answer` with a solver for variances s; `first` numbers the first column of s."""
        s = None if s is None else np.ascontiguousarray(s)
        key = b"" if s is None else s.tobytes()
        with self._named():
            if self._last is None or self._last[0] != key:
                self._last = None  # one at a time, because solvers are large
                self._last = key, self._make(s, first)
            return answer(self._last[1], np.ascontiguousarray(x))

    def _make(self, s: np.ndarray | None, first: int) -> _Solver:
        """Make a solver, and refuse measurements that do not determine all series."""
        if s is None or np.isfinite(s).all():
            return _solver(self.structure, s, self._threads)
        there = np.isfinite(s).reshape(len(s), -1).astype(float)
        # Mark leaves that are not measured and are in no measured series.
        never = np.argwhere(abs(self.structure.matrix).T @ there == 0)
        if never.size:
            loose = int(self.structure.leaf[never[0, 0]]), int(never[0, 1])
        else:
            solver = _solver(self.structure, s, self._threads)
            found = solver.undetermined()
            if found is None:
                return solver
            loose = found
        # The names of pairs of a series and a period contain the time.
        when = "" if self.structure._axes else f" at {self._step(first + loose[1])}"
        check.fail("Y_hat_df", f"must determine every series; {self.structure.name(loose[0])} has "
                   f"no value{when}, and none follows from other forecasts.")  # fmt: skip

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Make errors name series instead of nodes."""
        try:
            yield
        except check.ArgumentError as error:
            is_tree = self.structure.tree is not None
            name = self._series if is_tree else str
            raise check.reworded(error, argument={"noisy": "Y_hat_df"}, name=name) from None

    def _series(self, node: check.Node) -> str:
        """The series of a node of the tree, which may have a root above all series."""
        assert self.structure.tree is not None
        k = node.number % self.structure.tree.n  # there may be a copy of the tree for each column
        return self.structure.name(k) if k < self.structure.n else "the total"


def _solver(structure: Structure, s: np.ndarray | None, threads: int | None) -> _Solver:
    if structure.tree is not None:
        return _TreeSolver(structure, s, threads)
    s = np.ones(structure.n) if s is None else s
    if structure._axes is not None:
        by_axis = as_product(s.reshape([axis.n for axis in structure._axes]))
        if by_axis is not None:
            return _ProductSolver(structure, s, by_axis, threads)
    return _SparseSolver(structure, s)


class _TreeSolver:
    """The solver for a strict hierarchy, in which node k of the tree is series k.

    With one variance per series and column, each column is solved on its own copy of the tree. A
    root that is never measured is above all copies.
    """

    def __init__(self, structure: Structure, s: np.ndarray | None, threads: int | None) -> None:
        tree = structure.tree
        assert tree is not None
        self._n, self._nodes, self._threads = structure.n, tree.n, threads
        self._copies = s.shape[1] if s is not None and s.ndim == 2 else 0
        if s is not None or tree.n > structure.n:
            s = self._padded(np.ones(structure.n) if s is None else s, np.inf)
        if self._copies:
            offset = np.arange(self._copies, dtype=np.int64)[:, None] * tree.n
            above = np.where(tree.parent < 0, self._copies * tree.n, tree.parent + offset)
            tree = Tree.from_parents(np.append(above.ravel(), -1))
        self._post = Consistency(tree, None if s is None else {"node": s}, threads)

    def _padded(self, y: np.ndarray, value: float) -> np.ndarray:
        """Add values for the nodes that are not series."""
        if self._nodes > self._n:
            y = np.concatenate([y, np.full((self._nodes - self._n, *y.shape[1:]), value)])
        return np.append(y.T.ravel(), value) if self._copies else y

    def _repeated(self, x: np.ndarray, value: float) -> np.ndarray:
        """Repeat one number per series for the nodes of all copies of the tree."""
        return self._padded(np.tile(x[:, None], self._copies) if self._copies else x, value)

    def _series(self, x: np.ndarray) -> np.ndarray:
        """Drop the nodes that are not series."""
        if self._copies:
            x = x[:-1].reshape(self._copies, self._nodes).T
        return np.ascontiguousarray(x[: self._n])

    def undetermined(self) -> tuple[int, int] | None:
        """Return a series and a column whose value does not follow from the measurements."""
        loose = np.isinf(self._series(self._post.node_variance())).reshape(self._n, -1)
        return tuple(np.argwhere(loose)[0].tolist()) if loose.any() else None

    def project(self, y: np.ndarray, nonnegative: bool, bounds: Bounds | None = None) -> np.ndarray:
        wide = self._padded(y, 0.0)
        options: dict[str, Any] = {"nonnegative": nonnegative}
        if bounds is not None:
            for name, x, none in zip(bounds._fields, bounds, (-np.inf, np.inf), strict=True):
                options[name] = None if x is None else {"node": self._repeated(x, none)}
        if not (nonnegative or bounds) or self._copies or y.shape[1] == 1:
            return self._series(self._post.project(wide, **options))
        # With bounds, columns are separate problems, which threads can solve at the same time.
        wide = np.ascontiguousarray(wide.T)
        out, post = np.empty(wide.shape), self._post

        def solve(k: int) -> None:
            post.project(wide[k], out=out[k], **options)

        share(usable_threads(self._threads), solve, range(len(wide)))
        return self._series(out.T)

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        wide = self._padded(noise, 0.0)
        given = {"node": wide} if self._copies else wide
        return self._series(self._post.node_variance(noise=given))


class _SparseSolver:
    """The solver for any summing matrix, with a sparse factor."""

    def __init__(self, structure: Structure, s: np.ndarray) -> None:
        # The solver numbers sums before leaves.
        self._order = structure._sums_first
        self._structure, self._s = structure, s[self._order]
        self._A = structure.matrix[self._order[: -structure.leaf.size]]
        self._solver = SparseSolver(self._A, self._s)

    def undetermined(self) -> tuple[int, int] | None:
        """Return a series whose value does not follow from the measurements."""
        loose = np.flatnonzero(self._solver.undetermined)
        return (int(self._order[loose[0]]), 0) if loose.size else None

    def project(self, y: np.ndarray, nonnegative: bool, bounds: Bounds | None = None) -> np.ndarray:
        out, y = np.empty(y.shape), y[self._order]
        try:
            n_a = self._A.shape[0]
            x = self._solver.solve(y).values
            for k in range(y.shape[1] if nonnegative else 0):
                # Start with the series that are negative in the optimum without bounds, because
                # most of them are zero in the non-negative optimum.
                held = x[n_a:, k] < 0
                if held.any():
                    x[:, k] = nonnegative_optimum(
                        self._A, self._s, y[:, k], NONNEGATIVE_TOLERANCE, MOST_SOLVES, held=held
                    )[0]
            out[self._order] = x
            return out
        except ContradictionError as error:
            name = self._structure.name(int(self._order[error.series]))
            check.fail("Y_hat_df", "must add up if series are known exactly; "
                       f"{name} differs by {error.difference:.6g}.")  # fmt: skip

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        out = np.empty(noise.shape)
        out[self._order] = self._solver.variances(noise=noise[self._order])
        return out


class _ProductSolver:
    """The solver for pairs whose weights are products: one projection along each axis."""

    def __init__(
        self, structure: Structure, s: np.ndarray, by_axis: list[np.ndarray], threads: int | None
    ) -> None:
        assert structure._axes is not None
        self._structure, self._s = structure, s
        both = zip(structure._axes, by_axis, strict=True)
        self._axes = [Weights(axis, v, threads) for axis, v in both]

    def undetermined(self) -> None:
        """Return None, because all pairs are measured."""

    def project(self, y: np.ndarray, nonnegative: bool, bounds: Bounds | None = None) -> np.ndarray:
        if nonnegative:
            return _SparseSolver(self._structure, self._s).project(y, True)
        return self._along_axes(y, Weights.project)

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        return self._along_axes(noise, Weights.noise_variance)

    def _along_axes(self, x: np.ndarray, answer: Callable[..., np.ndarray]) -> np.ndarray:
        wide = x.reshape(*(weights.structure.n for weights in self._axes), -1)
        for weights in self._axes:
            found = answer(weights, wide.reshape(wide.shape[0], -1)).reshape(wide.shape)
            wide = found.swapaxes(0, 1)
        return wide.reshape(x.shape)
