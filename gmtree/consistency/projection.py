"""Measurements at every node of a tree into consistent values with the least error.

Consistent means that each parent equals the sum of its children. Among all consistent values
the projection minimises ``sum (x_i - v_i)^2 / s_i``, where node i was measured as ``v_i`` with
variance ``s_i``: with independent unbiased errors it has the smallest variance of all linear
unbiased estimates, at every node at once.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Literal, NamedTuple, NoReturn, overload
from weakref import WeakKeyDictionary

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import projection as kernels
from gmtree.consistency import errors
from gmtree.consistency.bounded import BoundedSolver, lower_bounds
from gmtree.consistency.certificate import violation
from gmtree.consistency.exact import Tolerance, refuse_contradictions
from gmtree.consistency.factor import Factor, sum_leaves
from gmtree.consistency.messages import Messages, messages
from gmtree.consistency.rounding import check_how, round_consistent
from gmtree.consistency.tracking import Tracker
from gmtree.matrix import ConstraintMatrix, GenerationMatrix
from gmtree.tree import Tree


class _Workspace(threading.local):
    """Memory of earlier projections, for each thread its own, given back with their solvers.

    Fresh memory costs page faults, a tenth of the time of a projection.
    """

    def __init__(self) -> None:
        self._free: WeakKeyDictionary[Consistency, np.ndarray] = WeakKeyDictionary()

    def take(self, solver: Consistency, shape: tuple[int, ...]) -> np.ndarray:
        """An array of any content. It belongs to the caller alone until given back."""
        b = self._free.pop(solver, None)
        return np.empty(shape) if b is None or b.shape != shape else b

    def give_back(self, solver: Consistency, b: np.ndarray) -> None:
        self._free[solver] = b


_workspace = _Workspace()


class ProjectionInfo(NamedTuple):
    """How a projection went; for several columns at once, the worst of each number.

    Attributes
    ----------
    passes : int
        How often leaves below their bounds were looked for; all but the first touch only what
        has changed.
    at_bound : int
        Leaves at their bounds.
    violation : float
        Largest distance by which a condition of optimality is missed, in units of values. It is
        computed from the result alone, in two sweeps: how far any leaf would still move if it could
        trade with the total or with another leaf, and whether sums, bounds and exactly known
        values are kept. It is infinite if it cannot be computed.
    """

    passes: int
    at_bound: int
    violation: float


class Consistency:
    """Optimal consistent values for measurements on a tree.

    The constructor does what depends on the tree and the variances only; :meth:`project` may
    then be called for any number of measurements.

    Parameters
    ----------
    tree : Tree
    variance : optional
        Variance of the measurement at each node: one number for all, one per node, or one per
        level from the root down. None means equal. 0 marks a value that is known exactly and
        is kept; inf a node that was not measured, whose value is ignored. Others must lie
        between 1e-100 and 1e100. Write ``{"node": [...]}`` or ``{"level": [...]}`` to say which
        of both an array is; that is needed only on a chain, which has as many nodes as levels,
        and only where the two readings differ.
    threads : int, optional
        Threads that share a sweep over a large tree; by default the cores at hand. Results do
        not depend on it, to the last bit.

    Notes
    -----
    Where several siblings were measured neither by themselves nor through any node below them,
    only their sum is determined. It is split evenly among them, the limit of equal large
    variances, and :meth:`node_variance` is infinite there. A leaf with no measurement anywhere
    on its path to the root could have any value and is refused.

    A `Consistency` never changes after construction and keeps no array of the caller's, so several
    threads may use one at the same time.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> tree = gm.Tree.from_parents([-1, 0, 0])
    >>> post = gm.Consistency(tree)
    >>> post.project([10.0, 4.0, 3.0])
    array([9., 5., 4.])
    >>> gm.Consistency(tree, variance=[0, 1, 3]).project([10.0, 4.0, 3.0])
    array([10.  ,  4.75,  5.25])
    >>> post.node_variance()
    array([0.66666667, 0.66666667, 0.66666667])
    """

    def __init__(self, tree: Tree, variance: Any = None, threads: int | None = None) -> None:
        check.instance("tree", tree, Tree)
        self.tree = tree
        self._threads = check.threads("threads", threads)
        self._factor = Factor.of(tree, variance, self._threads)

    def __repr__(self) -> str:
        s = self._factor.s
        if s is None:
            what = "equal variances"
        else:
            known, missing = int((s == 0).sum()), int(np.isinf(s).sum())
            what = f"variance per node ({known} known exactly, {missing} not measured)"
        return f"Consistency({self.tree!r}, {what})"

    # ------------------------------------------------------------------ projection

    @overload
    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        lower: Any = None,
        out: np.ndarray | None = None,
        return_info: Literal[False] = False,
        rng: np.random.Generator | int | None = None,
    ) -> np.ndarray: ...

    @overload
    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        lower: Any = None,
        out: np.ndarray | None = None,
        return_info: Literal[True],
        rng: np.random.Generator | int | None = None,
    ) -> tuple[np.ndarray, ProjectionInfo]: ...

    @overload
    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        lower: Any = None,
        out: np.ndarray | None = None,
        return_info: bool,
        rng: np.random.Generator | int | None = None,
    ) -> np.ndarray | tuple[np.ndarray, ProjectionInfo]: ...

    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        lower: Any = None,
        out: np.ndarray | None = None,
        return_info: bool = False,
        rng: np.random.Generator | int | None = None,
    ) -> np.ndarray | tuple[np.ndarray, ProjectionInfo]:
        """The consistent values closest to the measurements.

        Parameters
        ----------
        noisy : array of shape (n,) or (n, k)
            Measured value of each node; float32 stays float32.
        nonnegative : bool
            Among the values with all leaves at least 0; still the exact optimum. It is no
            longer unbiased: small counts come out larger on average. Their errors become smaller,
            but where most counts are small, those of large totals may grow.
        integer : bool or "random"
            Round to whole numbers, with the sums exact: every node becomes the floor or the
            ceiling of its optimum, as int64. The root goes to the nearest, a half up; at each
            node the units left over go to the children with the largest fractions, ties to the
            smallest number. Fractions within 1e-9 may count as equal. With ``"random"`` units
            are drawn so that each node's expectation is its optimum.
        lower : number or array of n_leaves, optional
            Bounds of the leaves, in the order of ``tree.leaves``, other than 0; -inf for none.
            With `integer`, whole bounds and whole exactly known values are kept; fractional ones
            may be rounded, bounds below themselves.
        out : array, optional
            Where to put the result. It may be `noisy`. A call that fails leaves it alone, except
            that it may fill it with NaN, unless it is `noisy`, if results are too large for it.
        return_info : bool
            Also return a `ProjectionInfo`: passes, leaves at their bounds, and the largest
            violation of the conditions of optimality.
        rng : optional
            Random generator or seed for ``integer="random"``.

        Returns
        -------
        array of the shape of `noisy`, or (array, info)

        Notes
        -----
        Each parent of the result differs from the sum of its children by rounding only: by less
        than 1e-12 (float32: 1e-6) times the sum of the children's absolute values, in families of
        any size. A child counts as returned, as measured or as estimated from all that is below
        it, whichever is largest: of values of 1e9 that cancel, the rounding remains.

        Values that are known exactly (variance 0) must agree with each other up to 1e-11 (float32:
        1e-6) of the sum of the absolute values added up, and exactly where all of them are whole
        and that sum is below 2**53 (float32: 2**24).

        The optimum with bounds is found by holding each leaf that falls below its bound at the
        bound, for good, and solving again. That is exact, because a leaf below its bound is at
        it in the optimum: written in the leaves, the problem has an ultrametric matrix, whose
        inverse has no positive entry off the diagonal [1]_, and for such matrices a set of held
        variables only ever grows [2]_. The proof is in ``gmtree/consistency/bounded.py``.

        References
        ----------
        .. [1] S. Martinez, G. Michon, J. San Martin, "Inverse of strictly ultrametric matrices
           are of Stieltjes type", SIAM J. Matrix Anal. Appl. 15 (1994).
        .. [2] R. Chandrasekaran, "A special case of the complementary pivot problem", Opsearch 7
           (1970).

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.star(4))
        >>> post.project([2.0, 3.0, 1.5, -4.0], nonnegative=True).round(3)
        array([2.833, 2.167, 0.667, 0.   ])
        >>> post.project([2.0, 3.0, 1.5, -4.0], nonnegative=True, integer=True)
        array([3, 2, 1, 0])
        """
        check_how(integer)
        v = self._measurements(noisy)
        if integer and v.dtype == np.float32:
            # Sums of these would be off by more than rounding to whole numbers can mend.
            v = v.astype(np.float64)
        check.flag("nonnegative", nonnegative)
        check.flag("return_info", return_info)
        bounds = None
        if nonnegative or lower is not None:
            bounds = lower_bounds(self.tree, nonnegative, lower)
        if out is not None:
            check.output("out", out, v.shape, np.int64 if integer else _result_dtype(v))
        x = self._memory(v, None if integer else out)
        passes = self._project(v, x) if bounds is None else self._project_bounded(v, bounds, x)
        info = self._info(passes, x, v, bounds) if return_info else None
        if integer:
            x = round_consistent(self.tree, self._factor.families, x, integer, rng)
        if out is not None and x is not out:
            np.copyto(out, x)
            x = out
        return x if info is None else (x, info)

    def _measurements(self, noisy: Any) -> np.ndarray:
        """Values as they are, 0 where not measured; whether they are finite is checked in use."""
        v = check.values("noisy", self.tree._aligned("noisy", noisy), self.tree.n)
        measured = self._factor.measured
        if measured is not None:
            v = np.where(measured if v.ndim == 1 else measured[:, None], v, v.dtype.type(0))
        return v

    def _memory(self, v: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """Memory for the result: `out` itself if the sweeps can write to it.

        They cannot if it overlaps the measurements, or if exactly known values may yet be found
        to contradict each other or the bounds: then `out` must stay as it is.
        """
        usable = out is not None and out.flags.c_contiguous and not self._factor.some_exact
        if out is None or not usable or np.may_share_memory(out, v):
            return np.empty(v.shape, _result_dtype(v))
        return out

    def _project(self, v: np.ndarray, out: np.ndarray) -> int:
        """Write the plain optimum into `out`; returns the number of passes, which is one."""
        tree, factor, layout = self.tree, self._factor, self.tree._layout
        if tree.n == 1:
            check.finite("noisy", v)
            np.copyto(out, v)
            return 1
        v = _sweep.readonly(v)
        b = _workspace.take(self, (tree.n_internal, *v.shape[1:]))
        largest, seen = float(np.finfo(out.dtype).max), np.zeros(1, bool)
        result = (out, largest, seen)
        with _sweep.team(layout, self._threads) as run:
            self._collect(run, v, b)
            kernels.root(layout.order, factor.s, factor.t, v, b, *result)
            for segment in layout.segments:
                args: tuple = (layout.parent, layout.order)
                if segment[0] < layout.n_inner:
                    run(kernels.down_inner, (*args, *factor.weights, v, b, *result), segment, True)
                else:
                    q = factor.s if factor.q is None else factor.q
                    run(kernels.down_leaves, (*args, q, v, b, *result), segment, True)
        _workspace.give_back(self, b)
        if seen[0]:
            _refuse_overflow(out)
        return 1

    def _collect(self, run: _sweep.Run, v: np.ndarray, b: np.ndarray) -> None:
        """The upward sweep: b at internal nodes; refuses bad values."""
        layout, factor = self.tree._layout, self._factor
        sum_leaves(run, layout, layout.order, v, b)
        args = (layout.parent, layout.order, factor.s, factor.t, v, b)
        for segment in reversed(layout.segments):
            if segment[0] < layout.n_inner:
                run(kernels.up_inner, args, segment)
        # A NaN or an infinity anywhere has made its way up to the root.
        is_finite = math.isfinite if v.ndim == 1 else _all_finite
        if not (is_finite(b[0]) and is_finite(v[self.tree.root])):
            check.finite("noisy", v)
            check.fail("noisy", "must have sums that floating point numbers can hold.")
        refuse_contradictions(factor, v, b)

    def _refuse_contradictions(self, v: np.ndarray) -> np.ndarray:
        """The upward sweep for its checks; returns b."""
        b = np.empty((self.tree.n_internal, *v.shape[1:]))
        with _sweep.team(self.tree._layout, self._threads) as run:
            self._collect(run, _sweep.readonly(v), b)
        return b

    def _project_bounded(self, v: np.ndarray, bounds: np.ndarray, out: np.ndarray) -> int:
        """Write the optimum with bounded leaves into `out`; returns the passes of the worst column.

        Columns are solved one after the other.
        """
        if v.ndim > 1 or self._factor.exact.size:
            # A single column is checked on the way, before anything is written.
            check.finite("noisy", v)
        if self._factor.exact.size:
            self._refuse_contradictions(v)
        solver = BoundedSolver(self._factor, bounds, self._threads)
        shape, most_passes = (self.tree.n, -1), 0
        for column, result in zip(v.reshape(shape).T, out.reshape(shape).T, strict=True):
            noisy = np.ascontiguousarray(column, np.float64)
            direct = result.dtype == np.float64 and result.flags.c_contiguous
            x = result if direct else np.empty(self.tree.n)
            passes, fits = solver.solve(noisy, x, Tolerance.of(v.dtype))
            most_passes = max(most_passes, passes)
            if not direct:
                with np.errstate(over="ignore"):
                    result[:] = x
                fits = bool(np.isfinite(result).all())
            if not fits:
                _refuse_overflow(out)
        return most_passes

    def _info(
        self, passes: int, x: np.ndarray, v: np.ndarray, bounds: np.ndarray | None
    ) -> ProjectionInfo:
        """How it went, for the worst column."""
        with np.errstate(over="ignore"):
            # The bounds as they are in the type of the result.
            low = np.asarray(-np.inf if bounds is None else bounds).astype(x.dtype)
        at_bound, worst = 0, 0.0
        shape = (self.tree.n, -1)
        for values, noisy in zip(x.reshape(shape).T, v.reshape(shape).T, strict=True):
            at_bound = max(at_bound, int(np.count_nonzero(values[self.tree.leaves] <= low)))
            noisy = np.asarray(noisy, values.dtype)
            worst = max(worst, violation(self.tree, values, noisy, self._factor.s, low))
        return ProjectionInfo(passes, at_bound, worst)

    def messages(
        self, noisy: Any, nodes: Any = None, *, nonnegative: bool = False, lower: Any = None
    ) -> Messages:
        """What the subtrees of some nodes tell the rest of the tree, in one sweep upward.

        Whoever has the messages of all subtrees of a family can put an exactly equivalent leaf in
        the place of each: a leaf measured as ``estimate`` with variance ``variance``. That is how
        a tree is made consistent of which no one holds more than a part.

        Parameters
        ----------
        noisy : array of shape (n,)
            Measured value of each node.
        nodes : array of int, optional
            Roots of the subtrees; all nodes by default.
        nonnegative, lower
            Bounds of the leaves as in :meth:`project`: then the messages have a third part, how
            low each root may go until a leaf falls below its bound. Leaves that are held at their
            bounds already are those with variance 0.

        Returns
        -------
        Messages
            Named tuple of the arrays ``estimate``, ``variance`` and ``least``, one entry per node.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
        >>> told = gm.Consistency(tree).messages([9.0, 6.0, 3.0, 1.0, 3.0], [1], nonnegative=True)
        >>> told.estimate.round(3), told.variance.round(3), told.least
        (array([5.333]), array([0.667]), array([2.]))
        """
        v = self._measurements(noisy)
        if v.ndim != 1:
            check.fail("noisy", f"must be one value per node, not have shape {v.shape}.")
        chosen = np.arange(self.tree.n)
        if nodes is not None:
            chosen = np.atleast_1d(check.node_numbers("nodes", nodes, self.tree.n)).ravel()
        check.flag("nonnegative", nonnegative)
        bounds = None
        if nonnegative or lower is not None:
            bounds = lower_bounds(self.tree, nonnegative, lower)
        v = np.ascontiguousarray(v, np.float64)
        if self.tree.n == 1:
            check.finite("noisy", v)
            b = np.zeros(0)
        else:
            b = self._refuse_contradictions(v)
        return messages(self._factor, v, b, chosen, bounds)

    def track(self, noisy: Any) -> Tracker:
        """Consistent values for measurements that change one at a time.

        Parameters
        ----------
        noisy : array of shape (n,)
            Measured value of each node; it is copied.

        Returns
        -------
        Tracker
            With methods ``update(node, value)``, ``value(node)`` and ``values()``. It follows the
            plain projection only: there is no variant with bounds or whole numbers.

        Examples
        --------
        >>> import gmtree as gm
        >>> live = gm.Consistency(gm.shapes.star(3)).track([10.0, 4.0, 3.0])
        >>> live.value(0)
        9.0
        >>> live.update(1, 7.0)
        >>> live.value(0), live.value(1)
        (10.0, 7.0)
        """
        v = self._measurements(noisy)
        return Tracker(self._factor, v, self.project, self._refuse_contradictions)

    # ------------------------------------------------------------------ the paper's matrices

    @property
    def theta(self) -> np.ndarray:
        """For each internal node, in the order of ``tree.internal``: sum of q over its children.

        With equal variances of one this is the theta of the Generation Matrix construction; q
        is the variance of what is known of a child from itself and below.
        """
        return self._by_internal(self._factor.t) * self._factor.scale

    def _by_internal(self, a: np.ndarray) -> np.ndarray:
        """From positions to the order of ``tree.internal``."""
        if self.tree.is_canonical:
            return a
        return a[np.argsort(self.tree.order[: self.tree.n_internal], kind="stable")]

    @property
    def generation_matrix(self) -> GenerationMatrix:
        """The Generation Matrix G on ``tree.subtree(1)`` with ``G.T @ G = M.T @ diag(s) @ M``.

        Its node weights are ``sqrt(tau_i)`` and its edge weights ``s_i / sqrt(tau_i)`` with
        ``tau_i = s_i + theta_i``; M is the constraint matrix. It exists where all variances
        are positive and finite.
        """
        if self.tree.n == 1:
            check.fail("tree", "must have an internal node; a single node has no constraints.")
        s = self._positive_variance()[self.tree.internal]
        root_tau = np.sqrt(s + self.theta)
        return GenerationMatrix(self.tree.subtree(1), node=root_tau, edge=s / root_tau)

    def _positive_variance(self) -> np.ndarray:
        """The variance of each node, where all are such that a Generation Matrix exists."""
        variance = self._factor.variance
        bad = np.flatnonzero(~((variance > 0) & (variance < np.inf)))
        if bad.size:
            check.fail(
                "variance",
                f"must be positive and finite for a Generation Matrix to exist; "
                f"node {bad[0]} has {variance[bad[0]]}.",
            )
        return variance

    # ------------------------------------------------------------------ errors of the result

    def node_variance(self, noise: Any = None) -> np.ndarray:
        """Variance of every projected value, in one sweep.

        Infinite where only the sum of several undetermined siblings is known. With equal
        variances s these add up to s times the number of leaves.

        Parameters
        ----------
        noise : optional
            The true variances of the measurements, where those that the values are weighted with
            are not: one number, one per node or level, or an array of shape (n, k) for k sets of
            them. The result is then exact for these, in two sweeps for each set. By default the
            weights are the true variances.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.star(3))
        >>> post.node_variance(noise=[4.0, 1.0, 1.0]).round(4)
        array([2., 1., 1.])
        >>> gm.Consistency(gm.shapes.star(3), [4.0, 1.0, 1.0]).node_variance().round(4)
        array([1.3333, 0.8333, 0.8333])
        """
        if noise is not None:
            return errors.noise_variance(self._factor, errors.read_noise(self._factor, noise))
        return self.tree.from_positions(self._factor.node_variance) * self._factor.scale

    @overload
    def covariance(self, i: check.Integer, j: check.Integer) -> float: ...

    @overload
    def covariance(self, i: Any, j: Any) -> np.ndarray: ...

    def covariance(self, i: Any, j: Any) -> float | np.ndarray:
        """Covariance of the projected values of two nodes; arrays of nodes give arrays.

        NaN where one of two nodes has an infinite variance.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.star(3))
        >>> round(post.covariance(1, 2), 6), round(post.covariance(0, 1), 6)
        (-0.333333, 0.333333)
        """
        return errors.covariance(self._factor, i, j)

    def leaf_sum_variance(self, mask: Any) -> float:
        """Variance of the sum of some projected leaf values, in one sweep.

        Parameters
        ----------
        mask : array of bool
            One entry per leaf, in the order of ``tree.leaves``: true for those in the sum.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.complete(2, 3))
        >>> round(post.leaf_sum_variance([True, True, False, False]), 4)
        0.4762
        """
        return errors.leaf_sum_variance(self._factor, mask)

    @overload
    def range_variance(self, ranges: tuple[int, int] | list[int]) -> float: ...

    @overload
    def range_variance(self, ranges: Any) -> np.ndarray: ...

    def range_variance(self, ranges: Any) -> float | np.ndarray:
        """Variances of sums of projected values over ranges of leaves, O(height) each.

        Parameters
        ----------
        ranges : array of int of shape (m, 2)
            Rows ``start, stop`` for the sum over leaves ``start`` to ``stop - 1``, counted in the
            order of ``tree.leaves_left_to_right``, in which every subtree is one stretch. This is
            NOT the order of ``tree.leaves``, which vectors by leaf are in.

        Returns
        -------
        array of shape (m,), or a float for a single pair

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.complete(2, 3))
        >>> post.range_variance([[0, 4], [0, 1]]).round(4)
        array([0.5714, 0.619 ])
        """
        return errors.range_variance(self._factor, ranges)


def _result_dtype(v: np.ndarray) -> np.dtype:
    """float32 for float32 measurements, float64 for all others."""
    return v.dtype if v.dtype == np.float32 else np.dtype(np.float64)


def _all_finite(a: np.ndarray) -> bool:
    return bool(np.isfinite(a).all())


def _refuse_overflow(x: np.ndarray) -> NoReturn:
    """Name the first node whose value is not finite; none of the others must be used either."""
    bad = np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(axis=1))
    x.fill(np.nan)
    where = f"; that of node {bad[0]} is too large" if bad.size else ""
    check.fail(
        "noisy",
        f"must lead to consistent values, within the bounds if there are any, that {x.dtype} can "
        f"hold{where}.",
    )


@overload
def consistent(
    tree: Tree,
    noisy: Any,
    variance: Any = None,
    *,
    threads: int | None = None,
    return_info: Literal[True],
    **options: Any,
) -> tuple[np.ndarray, ProjectionInfo]: ...


@overload
def consistent(
    tree: Tree,
    noisy: Any,
    variance: Any = None,
    *,
    threads: int | None = None,
    return_info: Literal[False] = False,
    **options: Any,
) -> np.ndarray: ...


def consistent(
    tree: Tree, noisy: Any, variance: Any = None, *, threads: int | None = None, **options: Any
) -> np.ndarray | tuple[np.ndarray, ProjectionInfo]:
    """Optimal consistent values in one call: ``Consistency(tree, variance).project(noisy)``.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.consistent(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([9., 5., 4.])
    """
    return Consistency(tree, variance, threads).project(noisy, **options)


def consistency_bias(tree: Tree, values: Any) -> float:
    """Root mean square of parent minus sum of children: 0 for consistent values.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.consistency_bias(gm.shapes.star(3), [10.0, 4.0, 3.0])
    3.0
    """
    check.instance("tree", tree, Tree)
    v = check.values("values", tree._aligned("values", values), tree.n)
    check.finite("values", v)
    if tree.n_internal == 0:
        return 0.0
    difference = ConstraintMatrix(tree).T @ v
    return float(np.sqrt(np.mean(np.square(difference, dtype=np.float64))))
