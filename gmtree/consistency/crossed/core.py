"""Optimal values for pairs of nodes, one node of each tree, that are consistent along all trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.crossed.pairs import Pairs, first_true, named, refuse_exact
from gmtree.consistency.crossed.separable import Separable, as_product, fit_products, refuse_mixed
from gmtree.consistency.exact import Tolerance
from gmtree.consistency.factor import VARIANCE_RANGE, checked_variances
from gmtree.tree import Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gmtree.consistency.sparse import NonnegativeInfo, SparseSolver

# Largest number of multiplications for the variances of all pairs, which take some minutes.
MOST_OPERATIONS = 3e11


@dataclass(frozen=True)
class CrossedInfo:
    """Information about a projection.

    Attributes
    ----------
    iterations : int
        Iterations of conjugate gradients; 0 if the result was computed directly.
    residual : float
        Bound of the error of the result: the norm of all errors is at most `residual` times the
        norm of the differences between measurements. Both norms are in units of standard
        deviations.
    """

    iterations: int
    residual: float


class ProjectOptions(TypedDict, total=False):
    """The keywords of :meth:`CrossedConsistency.project` besides `return_info`."""

    nonnegative: bool
    out: np.ndarray | None
    tolerance: float | None
    iterations: int


class CrossedConsistency:
    """Optimal values that are consistent along several trees at once.

    Parameters
    ----------
    trees : sequence of Tree
        One for each axis of the values.
    variance : optional
        By default all variances are equal. A list with one entry per tree, each as in
        :class:`gmtree.Consistency`, means that the variance of a value is the product of the
        variances of its nodes. All other variances are passed as an array of shape ``(n of the
        first tree, n of the second, ...)``. 0 marks a value that is known exactly, inf a value that
        was not measured.
    exists : array of bool, optional
        Which pairs of leaves exist, of shape ``(leaves of the first tree, leaves of the second,
        ...)``, each in the order of ``tree.leaves``. A product that is not sold in a region does
        not exist there. Pairs that do not exist are zero, and so are sums that contain no other
        pairs. Their measurements and variances are ignored and may be NaN.
    threads : int, optional
        Threads that share a sweep over large arrays; by default one for each available core.

    Notes
    -----
    If variances are equal or products, the result is exact and takes one projection along each
    axis. An array that is such a product up to rounding is recognised. Other variances, and
    `exists`, lead to a sparse system of equations (:mod:`gmtree.consistency.sparse`), which is
    factored once. The result is exact to rounding, however much variances differ. If the factor
    would not fit into memory, the equations are solved by conjugate gradients up to `tolerance`.

    A pair of leaves could have any value, and is refused, if neither it nor any pair of nodes above
    it was measured. If only the sum of some pairs is determined, it is split. With variances that
    are products, it is split evenly, as in :class:`gmtree.Consistency`. With an array of variances,
    it is split such that the sum of squares of all pairs of leaves that were not measured is least.

    Values, variances and `exists` are arrays in the order of the nodes (or leaves) of each tree.
    Series and DataFrames with labels are refused.

    Results cannot be rounded to whole numbers. Along one tree, every value can become its floor or
    ceiling with exact sums. Along several trees at once that can be impossible. If sums may differ
    by 1 or more from their optimum, round the pairs of leaves and add them up.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> regions, products = gm.shapes.star(3), gm.shapes.star(4)
    >>> post = gm.CrossedConsistency([regions, products])
    >>> noisy = np.arange(12.0).reshape(3, 4)
    >>> x = post.project(noisy)
    >>> x.round(3)
    array([[ 8.   ,  1.333,  2.667,  4.   ],
           [ 1.   , -0.333,  0.333,  1.   ],
           [ 7.   ,  1.667,  2.333,  3.   ]])
    >>> bool(np.allclose(x[0], x[1] + x[2])), bool(np.allclose(x[:, 0], x[:, 1:].sum(axis=1)))
    (True, True)
    >>> post.node_variance()[0].round(3)
    array([0.5, 0.5, 0.5, 0.5])
    """

    def __init__(
        self,
        trees: Sequence[Tree],
        variance: Any = None,
        *,
        exists: Any = None,
        threads: int | None = None,
    ) -> None:
        self._pairs = Pairs.of(trees, exists)
        self.trees, self.shape = self._pairs.trees, self._pairs.shape
        self._threads = check.threads("threads", threads)
        by_tree = self._by_tree(variance)
        self._separable: Separable | None = None
        if by_tree is None:
            self._variance = self._array(variance)
            by_tree = as_product(self._variance)
        else:
            refuse_mixed(by_tree)
            self._variance = reduce(np.multiply.outer, by_tree)
        if self._pairs.exists is not None:
            self._variance = np.where(self._pairs.none, np.inf, self._variance)
        if by_tree is not None and self._pairs.exists is None:
            self._separable = Separable(self._pairs, by_tree, self._threads)
        else:
            self._refuse_unmeasured()

    # ------------------------------------------------------------------ variances

    def _by_tree(self, variance: Any) -> list[np.ndarray] | None:
        """Variances given as products; None if an array was given."""
        if variance is None:
            return [np.ones(tree.n) for tree in self.trees]
        if not isinstance(variance, (list, tuple)):
            return None
        if len(variance) != len(self.trees):
            check.fail("variance", f"must have one entry per tree ({len(self.trees)}), "
                       f"not {len(variance)}.")  # fmt: skip
        return [
            checked_variances(tree, given, f"tree {k}")
            for k, (tree, given) in enumerate(zip(self.trees, variance, strict=True))
        ]

    def _array(self, variance: Any) -> np.ndarray:
        """Variances given as one array, or as one number for all pairs."""
        check.refuse_all_labels("variance", variance)
        a = check.reals("variance", variance)
        if a.shape not in ((), self.shape):
            check.fail(
                "variance", "must be None, a list with one entry per tree, one number, or an array "
                f"of shape {self.shape}, not of shape {a.shape}.",
            )  # fmt: skip
        s = np.array(np.broadcast_to(a, self.shape), np.float64)
        smallest, largest = VARIANCE_RANGE
        good = (s == 0) | (s == np.inf) | ((s >= smallest) & (s <= largest))
        bad = ~(good | self._pairs.none)
        if bad.any():
            first = first_true(bad)
            check.fail(
                "variance",
                f"must be 0, inf or from {smallest} to {largest}; {named(first)} has {s[first]}.",
            )
        return s

    def _refuse_unmeasured(self) -> None:
        """Refuse pairs of leaves if neither they nor any pair above them is measured."""
        if not np.isinf(self._variance).any():
            return
        measured = np.isfinite(self._variance).ravel()[self._pairs.series].astype(float)
        sums = self._pairs.sums
        never = np.flatnonzero(sums.T @ measured[: sums.shape[0]] + measured[sums.shape[0] :] == 0)
        if never.size:
            pair = self._pair(sums.shape[0] + int(never[0]))
            check.fail(
                "variance",
                "must be finite for each pair of leaves, or some pair of nodes above it; neither "
                f"{named(pair)} nor any pair above it is measured, so its value could be anything.",
            )

    def _pair(self, series: int) -> tuple[int, ...]:
        """Return the nodes, one of each tree, whose pair has the given number among the series."""
        index = np.unravel_index(self._pairs.series[series], self.shape)
        return tuple(int(i) for i in index)

    def __repr__(self) -> str:
        how = "products" if self._separable is not None else "any variances"
        return f"CrossedConsistency({', '.join(map(repr, self.trees))}, {how})"

    # ------------------------------------------------------------------ projection

    @overload
    def project(
        self, noisy: Any, *, return_info: Literal[False] = False, **options: Unpack[ProjectOptions]
    ) -> np.ndarray: ...

    @overload
    def project(
        self, noisy: Any, *, return_info: Literal[True], **options: Unpack[ProjectOptions]
    ) -> tuple[np.ndarray, CrossedInfo | NonnegativeInfo]: ...

    @overload
    def project(
        self, noisy: Any, *, return_info: bool, **options: Unpack[ProjectOptions]
    ) -> np.ndarray | tuple[np.ndarray, CrossedInfo | NonnegativeInfo]: ...

    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        out: np.ndarray | None = None,
        return_info: bool = False,
        tolerance: float | None = None,
        iterations: int = 5000,
    ) -> np.ndarray | tuple[np.ndarray, CrossedInfo | NonnegativeInfo]:
        """The consistent values closest to the measurements.

        Parameters
        ----------
        noisy : array of shape ``(n of the first tree, n of the second, ...)``
            Measured values; float32 stays float32. Those that were not measured are ignored.
        nonnegative : bool
            Require that no value is negative. The result is then the exact optimum among such
            values.
        out : array, optional
            Array that receives the result. It may be `noisy`. If results are too large for its
            type, it may hold NaN after the error.
        return_info : bool
            Also return a :class:`CrossedInfo`, or with `nonnegative` a
            :class:`gmtree.consistency.sparse.NonnegativeInfo`.
        tolerance : float, optional
            With `nonnegative`: the largest `distance` of the result from the optimum, which is
            a bound for all measured values in units of their standard deviations; by default
            1e-6. An error is raised if rounding does not allow it. Without `nonnegative`, only
            conjugate gradients use it: the largest `residual`, by default 1e-10.
        iterations : int
            Largest number of iterations before an error is raised.

        Returns
        -------
        array of the shape of `noisy`, or (array, info)

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.CrossedConsistency([gm.shapes.star(3), gm.shapes.chain(2)])
        >>> post.project([[9.0, 9.0], [4.0, 4.0], [2.0, 2.0]])
        array([[8., 8.],
               [5., 5.],
               [3., 3.]])
        """
        check.flag("nonnegative", nonnegative)
        check.flag("return_info", return_info)
        most = check.count("iterations", iterations, least=1)
        if tolerance is None:
            tolerance = 1e-6 if nonnegative else 1e-10
        tolerance = check.positive("tolerance", tolerance)
        v = self._measurements(noisy)
        dtype = np.dtype(np.float32 if v.dtype == np.float32 else np.float64)
        if out is not None:
            check.output("out", out, self.shape, dtype)
        info: CrossedInfo | NonnegativeInfo = CrossedInfo(0, 0.0)
        if nonnegative:
            x, info = self._nonnegative(v, tolerance, most)
        elif self._separable is None:
            x, info = self._solve(v, tolerance, most)
        else:
            x = self._project_separable(self._separable, v, out, dtype)
        with np.errstate(over="ignore"):
            x = x.astype(dtype, copy=False)
        _refuse_overflow(x)
        if out is not None and x is not out:
            np.copyto(out, x)
            x = out
        return (x, info) if return_info else x

    def _measurements(self, noisy: Any) -> np.ndarray:
        """Measurements in floating point, 0 if missing; all other values must be finite."""
        check.refuse_all_labels("noisy", noisy)
        a = check.array("noisy", noisy)
        if a.shape != self.shape:
            check.fail("noisy", f"must have one value per pair {self.shape}, not {a.shape}.")
        v = check.values("noisy", a.reshape(a.shape[0], -1), a.shape[0]).reshape(self.shape)
        if self._separable is None:
            missing = np.isinf(self._variance) | self._pairs.none
        else:
            missing = self._separable.missing
        if missing.any():
            v = np.where(missing, v.dtype.type(0), v)
        if v.dtype.kind == "f" and not check.all_finite(v):
            first = first_true(~np.isfinite(v))
            check.fail("noisy", f"must be finite; {named(first)} is {v[first]}.")
        return v

    def _project_separable(
        self, separable: Separable, v: np.ndarray, out: np.ndarray | None, dtype: np.dtype
    ) -> np.ndarray:
        """One projection along each axis, written directly into `out` if that is possible."""
        x = out
        may_fail = separable.can_contradict
        if x is None or may_fail or not x.flags.c_contiguous or np.may_share_memory(x, v):
            x = np.empty(self.shape, dtype)
        separable.project(v, x)
        separable.refuse_contradictions(v, x)
        return x

    # ------------------------------------------------------------------ the sparse system

    @cached_property
    def _solver(self) -> SparseSolver:
        from gmtree.consistency.sparse import SparseSolver

        variance = self._variance.ravel()[self._pairs.series]
        return SparseSolver(self._pairs.sums, variance, self._precondition)

    @cached_property
    def _fit(self) -> Separable:
        """A solver for variances that are products and close to the given ones."""
        return Separable(self._pairs, fit_products(self._variance), self._threads)

    def _precondition(self, r: np.ndarray) -> np.ndarray:
        """Solve the equations of the aggregates approximately: exactly for the fitted products.

        With measurements r of the aggregates and 0 of pairs of leaves, the optimum x of the fit
        satisfies ``r - x = w z``, where z solves its equations.
        """
        aggregates = self._pairs.series[: r.size]
        v = np.zeros(self.shape)
        v.ravel()[aggregates] = r
        self._fit.project(v, v)
        w = reduce(np.multiply.outer, self._fit.by_tree).ravel()[aggregates]
        return (r - v.ravel()[aggregates]) / w

    def _solve(self, v: np.ndarray, tolerance: float, most: int) -> tuple[np.ndarray, CrossedInfo]:
        """Return the optimum, computed from the sparse system of equations."""
        from gmtree.consistency.sparse import ContradictionError

        rounding = Tolerance.of(v.dtype).relative
        try:
            found = self._solver.solve(
                v.ravel()[self._pairs.series].astype(np.float64),
                rounding=rounding, tolerance=tolerance, most=most,
            )  # fmt: skip
        except ContradictionError as error:
            refuse_exact(self._pair(error.series), error.difference)
        return self._by_pair(found.values), CrossedInfo(found.iterations, found.residual)

    def _by_pair(self, values: np.ndarray) -> np.ndarray:
        """Reorder from series to pairs; pairs of leaves that do not exist are 0."""
        x = np.zeros(self.shape)
        x.ravel()[self._pairs.series] = values
        return x

    def _nonnegative(
        self, v: np.ndarray, tolerance: float, most: int
    ) -> tuple[np.ndarray, NonnegativeInfo]:
        from gmtree.consistency.sparse import ContradictionError, nonnegative_optimum

        bad = (self._variance == 0) & (v < 0)
        if bad.any():
            first = first_true(bad)
            check.fail("noisy", "must not be negative if known exactly (variance 0), with "
                       f"nonnegative=True; {named(first)} is {v[first]}.")  # fmt: skip
        series = self._pairs.series
        y, variance = (a.ravel()[series].astype(np.float64) for a in (v, self._variance))
        try:
            values, info = nonnegative_optimum(
                self._pairs.sums, variance, y, tolerance, most, precondition=self._precondition
            )
        except ContradictionError as error:
            check.fail(
                "noisy",
                "must allow non-negative values if nonnegative=True. The values known exactly "
                f"(variance 0) rule them out: {named(self._pair(error.series))} is missed by "
                f"{error.difference:.6g}.",
            )
        return self._by_pair(values), info

    # ------------------------------------------------------------------ errors of the result

    def node_variance(self, noise: Any = None) -> np.ndarray:
        """Variance of every projected value, exactly; infinite if a value is not determined.

        For variances that are not products the time grows with the square of the number of
        pairs. :meth:`variance_at` gives the variances of single pairs.

        Parameters
        ----------
        noise : number or array of the shape of the values, optional
            True variances of the measurements, if they differ from the weights.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.CrossedConsistency([gm.shapes.star(3), gm.shapes.star(3)])
        >>> post.node_variance()[0, 0].round(4)
        np.float64(0.4444)
        """
        given = None if noise is None else self._noise(noise)
        if self._separable is not None:
            return self._separable.node_variance(given)
        series, solver = self._pairs.series, self._solver
        if series.size * solver.operations > MOST_OPERATIONS:
            check.fail(
                "variance",
                f"must be products for the variances of all {series.size} pairs, which would take "
                "too long. Use variance_at for single pairs of nodes.",
            )
        by_series = None if given is None else given.ravel()[series]
        return self._by_pair(solver.variances(noise=by_series))

    def _noise(self, noise: Any) -> np.ndarray:
        """True variances of all pairs; 0 if they do not matter."""
        check.refuse_all_labels("noise", noise)
        a = check.reals("noise", noise)
        if a.shape not in ((), self.shape):
            check.fail(
                "noise",
                f"must be one number or an array of shape {self.shape}, not of shape {a.shape}.",
            )
        a = np.array(np.broadcast_to(a, self.shape), np.float64)
        measured = np.isfinite(self._variance) & ~self._pairs.none
        bad = measured & ~((a >= 0) & (a < np.inf))
        if bad.any():
            first = first_true(bad)
            check.fail("noise", "must be finite and not negative if a pair is measured; "
                       f"{named(first)} has {a[first]}.")  # fmt: skip
        return np.where(measured, a, 0)

    def variance_at(self, *nodes: int, tolerance: float = 1e-10, iterations: int = 5000) -> float:
        """Variance of the projected value of one pair of nodes, one node for each tree.

        Infinite if the value is not determined. If variances are not products, this takes as long
        as a projection; `tolerance` and `iterations` are those of conjugate gradients.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.CrossedConsistency([gm.shapes.star(3), gm.shapes.star(3)])
        >>> round(post.variance_at(0, 1), 4)
        0.4444
        """
        if len(nodes) != len(self.trees):
            check.fail("nodes", f"must be one for each tree ({len(self.trees)}), not {len(nodes)}.")
        pair = tuple(
            check.node_number(f"nodes[{k}]", i, tree.n)
            for k, (i, tree) in enumerate(zip(nodes, self.trees, strict=True))
        )
        if self._separable is not None:
            return float(self._separable.node_variance(None)[pair])
        series = np.flatnonzero(self._pairs.series == np.ravel_multi_index(pair, self.shape))
        # A pair of leaves that does not exist is zero.
        found = self._solver.variances(series, tolerance=tolerance, most=iterations)
        return float(found[0]) if series.size else 0.0


def _refuse_overflow(x: np.ndarray) -> None:
    """Refuse values that are too large, and set all values to NaN."""
    if not check.all_finite(x):
        first = first_true(~np.isfinite(x))
        x.fill(np.nan)
        check.fail(
            "noisy",
            f"must lead to consistent values that {x.dtype} can hold; that of {named(first)} is "
            "too large.",
        )
