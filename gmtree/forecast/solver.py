"""Coherent values for series in columns: one tree in sweeps, crossed trees by their solver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._sweep import share, usable_threads
from gmtree.consistency import Consistency
from gmtree.consistency.crossed import CrossedConsistency
from gmtree.forecast.structure import Structure
from gmtree.tree import Tree

# Conjugate gradients stop here. Results are then right to about nine digits, or more.
TOLERANCE = 1e-11
# Of values that are not negative on crossed trees: distance from the optimum in deviations.
NONNEGATIVE_TOLERANCE = 1e-7
# Many small problems with variances of their own are solved side by side in one tree.
MANY, SMALL = 8, 20_000


class Weights:
    """Variances that values are weighted with, and the solvers for them.

    Parameters
    ----------
    structure : Structure
    variance : array of shape (n,) or (n, columns), or None
        Of each series, for all columns or for each; None for equal ones. 0 keeps a value, inf
        ignores it.
    measured : array of bool of shape (n, columns), or None
        Which values there are.
    threads : int, optional
    step : function
        Names a column in errors.
    """

    def __init__(
        self,
        structure: Structure,
        variance: np.ndarray | None,
        measured: np.ndarray | None = None,
        threads: int | None = None,
        step: Callable[[int], str] = lambda k: f"step {k}",
    ) -> None:
        self.structure, self._threads, self._step = structure, threads, step
        s = variance
        if measured is not None and not measured.all():
            s = np.ones(structure.n) if s is None else s
            s = np.where(measured, s if s.ndim == 2 else s[:, None], np.inf)
        self._variance = s
        self._solvers: dict[bytes, Any] = {}

    # ------------------------------------------------------------------ groups of columns

    def _groups(self, columns: int) -> list[tuple[np.ndarray | None, Any]]:
        """Variances, and the columns that share them."""
        s = self._variance
        if s is None or s.ndim == 1:
            return [(s, slice(None))]
        together: dict[bytes, list[int]] = {}
        for k in range(columns):
            together.setdefault(s[:, k].tobytes(), []).append(k)
        if len(together) == 1:
            return [(np.ascontiguousarray(s[:, 0]), slice(None))]
        return [(np.ascontiguousarray(s[:, same[0]]), same) for same in together.values()]

    def _solver(self, s: np.ndarray | None, first: int) -> Any:
        key = b"" if s is None else s.tobytes()
        if key not in self._solvers:
            if s is not None and np.isinf(s).any():
                self._refuse_unmeasured(s, first)
            make = _CrossedSolver if self.structure.tree is None else _TreeSolver
            with self._named():
                solver = make(self.structure, s, self._threads)
            self._solvers.clear()  # one at a time: they are large
            self._solvers[key] = solver
            if s is not None and np.isinf(s).any():
                loose = solver.undetermined()
                if loose is not None:
                    check.fail(
                        "Y_hat_df",
                        f"must determine every series; {self.structure.name(loose)} has no value "
                        f"at {self._step(first)}, and none follows from the others.",
                    )
        return self._solvers[key]

    def _refuse_unmeasured(self, s: np.ndarray, first: int) -> None:
        """Name a leaf that neither itself nor any series above tells anything about."""
        never = self.structure.matrix.T @ np.isfinite(s).astype(float) == 0
        if never.any():
            leaf = int(self.structure.leaf[int(np.argmax(never))])
            check.fail(
                "Y_hat_df",
                f"must have a value for each leaf or some series above it; "
                f"{self.structure.name(leaf)} has none at {self._step(first)}, nor have those "
                "above it.",
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors name series instead of nodes."""
        try:
            yield
        except ValueError as error:
            text = str(error).replace("'noisy'", "'Y_hat_df'")
            if self.structure.tree is not None:
                n = self.structure.n
                text = re.sub(
                    r"\b(?:node|leaf) (\d+)\b",
                    lambda m: self.structure.name(int(m[1])) if int(m[1]) < n else "the total",
                    text,
                )
            raise type(error)(text) from None

    # ------------------------------------------------------------------ answers

    def project(self, y: np.ndarray, nonnegative: bool = False) -> np.ndarray:
        """Coherent values of each column; what is not measured may hold anything."""
        groups = self._groups(y.shape[1])
        if len(groups) > MANY and y.shape[0] < SMALL and self.structure.tree is not None:
            return self._side_by_side().project(y, nonnegative)
        if len(groups) == 1:
            with self._named():
                return self._solver(groups[0][0], 0).project(y, nonnegative)
        out = np.empty(y.shape)
        for s, same in groups:
            solver = self._solver(s, same[0])
            with self._named():
                out[:, same] = solver.project(np.ascontiguousarray(y[:, same]), nonnegative)
        return out

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        """Variance of coherent values whose measurements have the variances `noise`."""
        groups = self._groups(noise.shape[1])
        if len(groups) > MANY and noise.shape[0] < SMALL and self.structure.tree is not None:
            return self._side_by_side().noise_variance(noise)
        if len(groups) == 1:
            return self._solver(groups[0][0], 0).noise_variance(noise)
        out = np.empty(noise.shape)
        for s, same in groups:
            out[:, same] = self._solver(s, same[0]).noise_variance(noise[:, same])
        return out

    def _side_by_side(self) -> _Forest:
        s = self._variance
        assert s is not None
        if b"all" not in self._solvers:
            for k in np.flatnonzero(np.isinf(s).any(axis=0)).tolist():
                self._refuse_unmeasured(s[:, k], k)
            self._solvers[b"all"] = _Forest(self.structure, s, self._threads, self._step)
        return self._solvers[b"all"]


class _TreeSolver:
    """A strict hierarchy: node k of the tree is series k."""

    def __init__(self, structure: Structure, s: np.ndarray | None, threads: int | None) -> None:
        self._n, self._has_total = structure.n, structure.has_total
        tree = structure.tree
        assert tree is not None
        if not self._has_total:
            s = np.append(np.ones(self._n) if s is None else s, np.inf)
        self._threads = threads
        self._post = Consistency(tree, None if s is None else {"node": s}, threads)

    def undetermined(self) -> int | None:
        loose = np.flatnonzero(np.isinf(self._post.node_variance()[: self._n]))
        return int(loose[0]) if loose.size else None

    def _padded(self, y: np.ndarray) -> np.ndarray:
        return y if self._has_total else np.vstack([y, np.zeros((1, y.shape[1]))])

    def project(self, y: np.ndarray, nonnegative: bool) -> np.ndarray:
        if not nonnegative or y.shape[1] == 1:
            return self._post.project(self._padded(y), nonnegative=nonnegative)[: self._n]
        # With bounds, columns are problems of their own, which threads can solve at the same time.
        wide = np.ascontiguousarray(self._padded(y).T)
        out = np.empty(wide.shape)
        post = self._post

        def solve(k: int) -> None:
            post.project(wide[k], nonnegative=True, out=out[k])

        share(usable_threads(self._threads), solve, range(len(wide)))
        return np.ascontiguousarray(out.T[: self._n])

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        return self._post.node_variance(noise=self._padded(noise))[: self._n]


class _Forest:
    """Each column on a copy of the tree; the root above all of them is never measured."""

    def __init__(
        self,
        structure: Structure,
        s: np.ndarray,
        threads: int | None,
        step: Callable[[int], str],
    ) -> None:
        tree = structure.tree
        assert tree is not None
        self._structure, self._copies, self._nodes = structure, s.shape[1], tree.n
        offset = np.arange(self._copies, dtype=np.int64)[:, None] * tree.n
        parent = np.where(tree.parent < 0, self._copies * tree.n, tree.parent + offset).ravel()
        if not structure.has_total:
            s = np.vstack([s, np.full((1, s.shape[1]), np.inf)])
        self._post = Consistency(
            Tree.from_parents(np.append(parent, -1)),
            {"node": np.append(s.T.ravel(), np.inf)},
            threads,
        )
        loose = np.flatnonzero(np.isinf(self._post.node_variance()[:-1]))
        loose = loose[loose % tree.n < structure.n]
        if loose.size:
            column, k = divmod(int(loose[0]), tree.n)
            check.fail(
                "Y_hat_df",
                f"must determine every series; {structure.name(k)} has no value at "
                f"{step(column)}, and none follows from the others.",
            )

    def _flat(self, y: np.ndarray) -> np.ndarray:
        flat = np.zeros((self._copies, self._nodes))
        flat[:, : self._structure.n] = y.T
        return np.append(flat.ravel(), 0.0)

    def _columns(self, x: np.ndarray) -> np.ndarray:
        wide = x[:-1].reshape(self._copies, self._nodes)[:, : self._structure.n]
        return np.ascontiguousarray(wide.T)

    def project(self, y: np.ndarray, nonnegative: bool) -> np.ndarray:
        return self._columns(self._post.project(self._flat(y), nonnegative=nonnegative))

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        return self._columns(self._post.node_variance(noise={"node": self._flat(noise)}))


class _CrossedSolver:
    """Crossed trees: each series is a cell of the array of tuples of nodes.

    Series that are the same sum share a cell; together they are one measurement, with the
    precision of all of them.
    """

    def __init__(self, structure: Structure, s: np.ndarray | None, threads: int | None) -> None:
        crossing = structure.crossing
        self._cell, self._shape, self._structure = crossing.cell, crossing.shape, structure
        size = int(np.prod(self._shape))
        s = np.ones(structure.n) if s is None else s
        exact = np.zeros(size, bool)
        exact[self._cell[s == 0]] = True
        with np.errstate(divide="ignore"):
            precision = np.where(np.isinf(s), 0, 1 / s)
        # Where some series is known exactly, the others do not count.
        precision = np.where(exact[self._cell], (s == 0).astype(float), precision)
        total = np.bincount(self._cell, precision, size)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = precision / total[self._cell]
            variance = np.where(exact, 0, 1 / total)
        self._share = np.where(total[self._cell] > 0, share, 0)
        self._used = self._share > 0
        self._exact = exact
        self._post = CrossedConsistency(
            list(crossing.trees),
            variance.reshape(self._shape),
            exists=crossing.exists,
            threads=threads,
        )

    def undetermined(self) -> int | None:
        """A series that coherent values, measured without error, would not give back."""
        leaves = np.random.default_rng(0).uniform(1, 2, (self._structure.n_leaves, 1))
        truth = self._structure.matrix @ leaves
        wrong = abs(self.project(truth, False) - truth)[:, 0] > 1e-5 * truth[:, 0]
        return int(np.argmax(wrong)) if wrong.any() else None

    def _cells(self, y: np.ndarray, share: np.ndarray) -> np.ndarray:
        y = np.where(self._used, y, 0)
        return np.bincount(self._cell, share * y, int(np.prod(self._shape))).reshape(self._shape)

    def project(self, y: np.ndarray, nonnegative: bool) -> np.ndarray:
        out = np.empty(y.shape)
        tolerance = NONNEGATIVE_TOLERANCE if nonnegative else TOLERANCE
        for k in range(y.shape[1]):
            bad = self._used & ~np.isfinite(y[:, k])
            if bad.any():
                name = self._structure.name(int(np.argmax(bad)))
                check.fail("noisy", f"must be finite; {name} is {y[int(np.argmax(bad)), k]}.")
            v = self._cells(y[:, k], self._share)
            x = self._post.project(v, nonnegative=nonnegative, tolerance=tolerance)
            out[:, k] = x.ravel()[self._cell]
        return out

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        out = np.empty(noise.shape)
        for k in range(noise.shape[1]):
            v = self._cells(noise[:, k], self._share**2)
            out[:, k] = self._post.node_variance(noise=v).ravel()[self._cell]
        return out
