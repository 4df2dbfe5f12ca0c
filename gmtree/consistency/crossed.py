"""Trees across trees: sales by region and by product, forecasts by place and by month.

Values belong to pairs of nodes (or triples, ...), one of each tree. They are consistent if they
are so along each tree. Where the variance of a pair is a product ``a_i b_j``, the optimum is one
projection along each axis, in any order, and the variances of the result are products as well: the
optimum in all pairs is the Kronecker product of the optima along the trees. Variances that
are all equal, or proportional to numbers of leaves, are of that kind.

Other variances need iterations. Let P be the projection for variances ``a_i b_j`` fitted to those
given, W the precisions and D those of the fit. Then conjugate gradients for the normal
equations, with those of the fit as preconditioner, need P alone: for consistent values x, the
preconditioned residual is ``P D^-1 W (y - x)``, and every vector of the iteration is an
array of values of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import crossed_errors, crossed_solvers
from gmtree.consistency.along import Along
from gmtree.consistency.crossed_solvers import EXACT_WEIGHT, first_true, named, refuse_exact
from gmtree.consistency.exact import Tolerance
from gmtree.consistency.factor import VARIANCE_RANGE, Factor, checked_variances
from gmtree.consistency.products import as_product, fit_products
from gmtree.consistency.splitting import NonnegativeInfo
from gmtree.tree import Tree

# Most unknowns for which covariances are computed by dense algebra.
MOST_DENSE = 2000


@dataclass(frozen=True)
class CrossedInfo:
    """How a projection with variances that are no products went.

    Attributes
    ----------
    iterations : int
        Iterations of conjugate gradients; 0 where one projection per axis is the exact answer.
    residual : float
        Norm of the preconditioned residual, relative to that of the measurements.
    """

    iterations: int
    residual: float


class CrossedConsistency:
    """Optimal values that are consistent along several trees at once.

    Parameters
    ----------
    trees : sequence of Tree
        One for each axis of the values.
    variance : optional
        None for equal variances. A list with one entry per tree, each as in
        :class:`gmtree.Consistency`, for variances that are their products. An array of shape
        ``(n of the first tree, n of the second, ...)`` for any others; 0 marks a value that is
        known exactly, inf one that was not measured.
    exists : array of bool, optional
        Which pairs of leaves exist, of shape ``(leaves of the first tree, leaves of the second,
        ...)``, each in the order of ``tree.leaves``. The others are zero and no part of the
        problem, whatever their measurements and variances, NaN included: a product that is not
        sold in a region.
    threads : int, optional
        Threads that share a sweep over large arrays; by default the cores at hand.

    Notes
    -----
    With equal variances and with products the result is exact: one projection along each axis. An
    array that is a product to rounding is recognised. Otherwise, and with `exists`, the
    optimum is found by conjugate gradients to the tolerance asked for, or there is an error.

    A pair of leaves of which neither itself nor any pair of nodes above it was measured could have
    any value and is refused. Where the values measured determine the sum of some pairs only,
    products split it evenly, as in :class:`gmtree.Consistency`, and arrays so that the sum of
    squares, weighted with the fitted precisions, is least.

    Frames with labels are refused: values, variances and `exists` are arrays in the order of the
    nodes (or leaves) of each tree.

    Whole numbers are not offered (there is no ``integer=``). Along one tree every value can become
    its floor or ceiling with exact sums, in one sweep. Along three trees at once that can be
    impossible, and along two it is no sweep. Where sums may move, round the pairs of leaves and
    add them up.

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
        self.trees = _trees(trees)
        self.shape = tuple(tree.n for tree in self.trees)
        self._threads = check.threads("threads", threads)
        self._exists = self._mask(exists)
        self._precision: np.ndarray | None = None
        if isinstance(variance, (list, tuple)):
            if len(variance) != len(self.trees):
                check.fail("variance", f"must have one entry per tree ({len(self.trees)}), "
                           f"not {len(variance)}.")  # fmt: skip
            self._fit = [
                checked_variances(tree, given, f"tree {k}")
                for k, (tree, given) in enumerate(zip(self.trees, variance, strict=True))
            ]
        elif variance is None:
            self._fit = [np.ones(tree.n) for tree in self.trees]
        else:
            s = self._array(variance)
            product = as_product(s)
            if product is None:
                self._refuse_unmeasured(s)
                self._fit, self._precision = self._fitted(s)
            else:
                self._fit = product
        if self._precision is None:
            self._refuse_mixed()
            if self._exists is not None:
                s = reduce(np.multiply.outer, self._fit)
                self._fit, self._precision = self._fitted(s)
        self._along = [
            Along(tree, factor, self._threads)
            for tree, factor in zip(self.trees, self._factors(), strict=True)
        ]
        self._sums = [Along.aggregate(tree, self._threads) for tree in self.trees]

    # ------------------------------------------------------------------ variances

    def _mask(self, exists: Any) -> np.ndarray | None:
        if exists is None:
            return None
        check.refuse_all_labels("exists", exists)
        a = check.array("exists", exists)
        shape = tuple(tree.n_leaves for tree in self.trees)
        if a.dtype != bool:
            check.fail_type("exists", f"must hold bools, not {a.dtype}.")
        if a.shape != shape:
            check.fail("exists", f"must have one entry per pair of leaves {shape}, not {a.shape}.")
        if not a.any():
            check.fail("exists", "must be true for some pair of leaves.")
        return None if a.all() else a.copy()

    def _array(self, variance: Any) -> np.ndarray:
        check.refuse_all_labels("variance", variance)
        a = check.reals("variance", variance)
        if a.shape not in ((), self.shape):
            check.fail(
                "variance", "must be None, a list with one entry per tree, one number, or an array "
                f"of shape {self.shape}, not of shape {a.shape}.",
            )  # fmt: skip
        s = np.array(np.broadcast_to(a, self.shape), np.float64)
        s[self._none & np.isnan(s)] = np.inf
        smallest, largest = VARIANCE_RANGE
        bad = ~((s == 0) | (s == np.inf) | ((s >= smallest) & (s <= largest)))
        if bad.any():
            first = first_true(bad)
            check.fail(
                "variance",
                f"must be 0, inf or from {smallest} to {largest}; {named(first)} has {s[first]}.",
            )
        return s

    def _refuse_mixed(self) -> None:
        """Refuse products of 0 and infinity."""
        for k, a in enumerate(self._fit):
            for m, b in enumerate(self._fit):
                zero, missing = np.flatnonzero(a == 0), np.flatnonzero(np.isinf(b))
                if k != m and zero.size and missing.size:
                    check.fail(
                        "variance",
                        f"must not be 0 in one tree and inf in another; node {zero[0]} of tree {k} "
                        f"is known exactly and node {missing[0]} of tree {m} not measured.",
                    )

    def _refuse_unmeasured(self, s: np.ndarray) -> None:
        """Refuse pairs of leaves about which nothing is known, themselves or above."""
        if not np.isinf(s).any():
            return
        known = np.isfinite(s).astype(np.float64)
        self._from_root(known)
        never = known[self._leaf_pairs] == 0
        if self._exists is not None:
            never &= self._exists
        if never.any():
            pair = tuple(
                int(tree.leaves[i]) for tree, i in zip(self.trees, first_true(never), strict=True)
            )
            check.fail(
                "variance",
                "must be finite for each pair of leaves, or some pair of nodes above it; neither "
                f"{named(pair)} nor any pair above it is measured, so its value could be anything.",
            )

    def _fitted(self, s: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Products that are close to `s`, and the precisions to iterate with."""
        self._exact = s == 0
        fit = fit_products(s)
        if self._exists is None:
            for k, tree in enumerate(self.trees):
                others = tuple(a for a in range(s.ndim) if a != k)
                missing = np.isinf(s).all(axis=others)
                if not missing.any():
                    continue
                # A node that is never measured counts as such, if the others determine it.
                try:
                    without = np.where(missing, np.inf, fit[k])
                    Factor.of(tree, {"node": without}, self._threads)
                    fit[k] = without
                except ValueError:
                    pass
        with np.errstate(divide="ignore"):
            precision = 1 / s
        if self._exact.any():
            finite = reduce(np.multiply.outer, [np.where(np.isinf(a), 1, a) for a in fit])
            precision[self._exact] = EXACT_WEIGHT / finite[self._exact]
        return fit, precision

    def __repr__(self) -> str:
        how = "products" if self._precision is None else "any variances"
        return f"CrossedConsistency({', '.join(map(repr, self.trees))}, {how})"

    # ------------------------------------------------------------------ projection

    @overload
    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        out: np.ndarray | None = None,
        return_info: Literal[False] = False,
        tolerance: float | None = None,
        iterations: int = 5000,
    ) -> np.ndarray: ...

    @overload
    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        out: np.ndarray | None = None,
        return_info: Literal[True],
        tolerance: float | None = None,
        iterations: int = 5000,
    ) -> tuple[np.ndarray, CrossedInfo | NonnegativeInfo]: ...

    @overload
    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        out: np.ndarray | None = None,
        return_info: bool,
        tolerance: float | None = None,
        iterations: int = 5000,
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
            Measured values; float32 stays float32. Those not measured are ignored.
        nonnegative : bool
            Among the values that are nowhere negative, by a splitting method.
        out : array, optional
            Where to put the result. It may be `noisy`.
        return_info : bool
            Also return a :class:`CrossedInfo`, or with `nonnegative` a
            :class:`gmtree.consistency.splitting.NonnegativeInfo`.
        tolerance : float, optional
            Of conjugate gradients: the residual to reach, relative to that of the
            measurements; by default 1e-10. With `nonnegative`: how far any pair of leaves may miss
            its condition of optimality, in standard deviations; by default 1e-6.
        iterations : int
            How many to do at most before giving up with an error.

        Returns
        -------
        array of the shape of `noisy`, or (array, info)
        """
        check.flag("nonnegative", nonnegative)
        check.flag("return_info", return_info)
        most = check.count("iterations", iterations, least=1)
        if tolerance is None:
            tolerance = 1e-6 if nonnegative else 1e-10
        tolerance = check.real("tolerance", tolerance)
        if tolerance <= 0:
            check.fail("tolerance", f"must be positive, not {tolerance}.")
        v = self._measurements(noisy)
        dtype = np.float32 if v.dtype == np.float32 else np.float64
        if out is not None:
            check.output("out", out, self.shape, dtype)
        info: Any = CrossedInfo(0, 0.0)
        if nonnegative:
            x, info = crossed_solvers.nonnegative(self, v.astype(np.float64), tolerance, most)
        elif self._precision is not None:
            v = v.astype(np.float64)
            linear = np.where(self._exact, 0, self._precision * v)
            x, done, residual = crossed_solvers.minimum(self, linear, v, tolerance, most)
            info = CrossedInfo(done, residual)
        else:
            x = self._separable(v, out, dtype)
        if out is not None and x is not out:
            np.copyto(out, x, casting="same_kind")
        x = x.astype(dtype, copy=False) if out is None else out
        return (x, info) if return_info else x

    def _measurements(self, noisy: Any) -> np.ndarray:
        """Values as they are, 0 where not measured; the rest must be finite."""
        check.refuse_all_labels("noisy", noisy)
        a = check.array("noisy", noisy)
        if a.shape != self.shape:
            check.fail("noisy", f"must have one value per pair {self.shape}, not {a.shape}.")
        v = check.values("noisy", a.reshape(a.shape[0], -1), a.shape[0]).reshape(self.shape)
        if self._precision is not None:
            missing = (self._precision == 0) | self._none
        else:
            missing = np.zeros(self.shape if self._some_missing else (), bool)
            for k, variance in enumerate(self._fit):
                if np.isinf(variance).any():
                    missing |= _on_axis(np.isinf(variance), k, len(self.shape))
        if missing.any():
            v = np.where(missing, v.dtype.type(0), v)
        if v.dtype.kind == "f" and not np.isfinite(v.sum()) and not np.isfinite(v).all():
            first = first_true(~np.isfinite(v))
            check.fail("noisy", f"must be finite; {named(first)} is {v[first]}.")
        return v

    @property
    def _some_missing(self) -> bool:
        return any(np.isinf(a).any() for a in self._fit)

    def _separable(self, v: np.ndarray, out: np.ndarray | None, dtype: Any) -> np.ndarray:
        """One projection along each axis, the last one first; refuses exact values not met."""
        known = [np.flatnonzero(a == 0) for a in self._fit]
        can_fail = any(nodes.size for nodes in known)
        direct = out is not None and out.flags.c_contiguous and not can_fail
        if direct and out is not None and not np.may_share_memory(out, v):
            x = out
        else:
            x = np.empty(self.shape, dtype)
        self._apply(self._along, v, x)
        tolerance = Tolerance.of(np.dtype(dtype)).relative
        for k, nodes in enumerate(known if can_fail else []):
            difference = abs(np.take(x, nodes, axis=k) - np.take(v, nodes, axis=k))
            self._refuse_not_met(difference, nodes, k, tolerance * float(abs(v).max()))
        return x

    def _refuse_not_met(
        self, difference: np.ndarray, nodes: np.ndarray, axis: int, allowed: float
    ) -> None:
        bad = difference > allowed
        if bad.any():
            first = first_true(bad)
            pair = (*first[:axis], int(nodes[first[axis]]), *first[axis + 1 :])
            refuse_exact(pair, float(difference[first]))

    def _apply(self, along: Sequence[Along], v: np.ndarray, x: np.ndarray) -> None:
        """The sweeps along all axes, from `v` into `x`, which may be `v`."""
        source = v
        for axis in range(len(along) - 1, -1, -1):
            along[axis].apply(source, x, axis)
            source = x

    def _from_root(self, x: np.ndarray) -> None:
        """Add to each pair all pairs of nodes above it, in place."""
        self._apply([Along(tree, None, self._threads) for tree in self.trees], x, x)

    @property
    def _leaf_pairs(self) -> tuple[np.ndarray, ...]:
        return np.ix_(*(tree.leaves for tree in self.trees))

    @property
    def _none(self) -> np.ndarray:
        """Pairs of leaves that do not exist, by pair of nodes."""
        if self._exists is None:
            return np.broadcast_to(np.False_, self.shape)
        none = np.zeros(self.shape, bool)
        none[self._leaf_pairs] = ~self._exists
        return none

    def _from_leaves(self, leaf: np.ndarray, x: np.ndarray) -> None:
        """Sums of pairs of leaves, into `x`."""
        x.fill(0)
        x[self._leaf_pairs] = leaf if self._exists is None else np.where(self._exists, leaf, 0)
        self._apply(self._sums, x, x)

    def _variances(self) -> np.ndarray:
        """The variance of each pair, as given."""
        if self._precision is None:
            return reduce(np.multiply.outer, self._fit)
        with np.errstate(divide="ignore"):
            return np.where(self._exact, 0, 1 / self._precision)

    # ------------------------------------------------------------------ errors of the result

    def node_variance(self, noise: Any = None) -> np.ndarray:
        """Variance of every projected value, exactly.

        Products where the variances are. Otherwise by dense algebra, for at most 2,000 pairs of
        leaves; :meth:`variance_at` gives those of single pairs of nodes for problems of any size.

        Parameters
        ----------
        noise : number or array of the shape of the values, optional
            The true variances of the measurements, where those that the values are weighted with
            are not.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.CrossedConsistency([gm.shapes.star(3), gm.shapes.star(3)])
        >>> post.node_variance()[0, 0].round(4)
        np.float64(0.4444)
        """
        given = None if noise is None else self._noise(noise)
        if self._precision is None:
            if given is not None:
                return crossed_errors.along_axes(self._factors(), given)
            by_tree = [
                tree.from_positions(factor.node_variance)
                for tree, factor in zip(self.trees, self._factors(), strict=True)
            ]
            return reduce(np.multiply.outer, by_tree)
        unknowns = int(np.prod([tree.n_leaves for tree in self.trees]))
        if self._exists is not None:
            unknowns = int(self._exists.sum())
        if unknowns > MOST_DENSE:
            check.fail(
                "variance",
                f"must be products for the variances of more than {MOST_DENSE} pairs of leaves; "
                f"there are {unknowns}. Use variance_at for single pairs of nodes.",
            )
        return crossed_errors.dense(self, unknowns, given)

    def _factors(self) -> list[Factor]:
        """Stage 1 along each axis, for the fitted variances."""
        return [
            Factor.of(tree, {"node": a}, self._threads)
            for tree, a in zip(self.trees, self._fit, strict=True)
        ]

    def _noise(self, noise: Any) -> np.ndarray:
        """True variances of all pairs, 0 where they do not matter."""
        check.refuse_all_labels("noise", noise)
        a = check.reals("noise", noise)
        if a.shape not in ((), self.shape):
            check.fail(
                "noise",
                f"must be one number or an array of shape {self.shape}, not of shape {a.shape}.",
            )
        a = np.array(np.broadcast_to(a, self.shape), np.float64)
        measured = np.isfinite(self._variances()) & ~self._none
        bad = measured & ~((a >= 0) & (a < np.inf))
        if bad.any():
            first = first_true(bad)
            check.fail("noise", "must be finite and not negative where a pair is measured; "
                       f"{named(first)} has {a[first]}.")  # fmt: skip
        return np.where(measured, a, 0)

    def variance_at(self, *nodes: int, tolerance: float = 1e-10, iterations: int = 5000) -> float:
        """Variance of the projected value of one pair of nodes, one node for each tree.

        Where variances are no products this takes as long as a projection. For a value that is
        not determined, conjugate gradients do not converge, which is an error.

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
        if self._precision is None:
            return float(self.node_variance()[pair])
        linear = np.zeros(self.shape)
        linear[pair] = 1
        zero = np.zeros(self.shape)
        x, *_ = crossed_solvers.minimum(self, linear, zero, tolerance, iterations)
        return float(x[pair])


def _trees(trees: Sequence[Tree]) -> tuple[Tree, ...]:
    if isinstance(trees, Tree) or not isinstance(trees, Sequence):
        check.fail_type("trees", f"must be a list of trees, not a {type(trees).__name__}.")
    if not trees:
        check.fail("trees", "must have at least one tree.")
    for k, tree in enumerate(trees):
        if not isinstance(tree, Tree):
            check.fail_type("trees", f"must hold trees; entry {k} is a {type(tree).__name__}.")
    return tuple(trees)


def _on_axis(a: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """A vector along one axis of an array with so many."""
    return a.reshape([-1 if k == axis else 1 for k in range(ndim)])
