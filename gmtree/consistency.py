"""Measurements at every node of a tree into consistent values with the least error.

Consistent means that each parent equals the sum of its children. Among all consistent values
the projection minimises ``sum (x_i - v_i)^2 / s_i``, where node i was measured as ``v_i`` with
variance ``s_i``: with independent unbiased errors it has the smallest variance of all linear
unbiased estimates, at every node at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._certificate import violation
from gmtree._factor import Factor, sum_leaves, variance_by_node
from gmtree._families import Families
from gmtree._kernels import consistency as kernels
from gmtree._kernels import errors
from gmtree._nonnegative import check_feasible, lower_bounds
from gmtree._nonnegative import project as project_bounded
from gmtree._rounding import check_how, round_consistent
from gmtree.matrix import ConstraintMatrix, GenerationMatrix
from gmtree.tree import Tree

# In a family with this many children in a row, rounding that is the same for all of them adds up
# to more than the rounding of the largest value.
GIANT_FAMILY = 1 << 13
# Sums of such families are added up side by side in as many as a processor may take at once.
LANES = 16
# Values known exactly may be sums that were rounded; beyond this they contradict each other.
EXACT_TOLERANCE, EXACT_TOLERANCE_FLOAT32 = 1e-11, 1e-6


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
        found from the result alone, in two sweeps: how far any leaf would still move if it could
        trade with the total or with another leaf, and whether sums, bounds and exactly known
        values are kept.
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
        between 1e-100 and 1e100.
    threads : int, optional
        Threads that share a sweep over a large tree; by default the cores at hand. Results do
        not depend on it, to the last bit.

    Notes
    -----
    Where several siblings were measured neither by themselves nor through any node below them,
    only their sum is determined. It is split evenly among them, the limit of equal large
    variances, and :meth:`node_variance` is infinite there. A leaf with no measurement anywhere
    on its path to the root could have any value and is refused.

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
        if not isinstance(tree, Tree):
            check.fail_type("tree", f"must be a Tree, not {type(tree).__name__}.")
        self.tree = tree
        self._threads = check.threads("threads", threads)
        self._scale, by_node = variance_by_node(tree, variance)
        if by_node is None:
            self._factor = Factor.equal(tree, self._threads)
        else:
            self._factor = Factor.of(tree, by_node, self._threads)
        # Work space of the last call, taken out while in use: fresh memory costs a page fault
        # for each 4 KiB, several times what the sweep itself needs.
        self._spare: list[np.ndarray] = []
        self._families: Families | None = None
        self._last: np.ndarray | None = None
        self._kept: _Kept | None = None

    @property
    def _variance(self) -> np.ndarray | None:
        """The variance of each node, in the caller's numbering; None where all are equal."""
        s = self._factor.s
        return None if s is None else self.tree.from_positions(s)

    def __repr__(self) -> str:
        s = self._factor.s
        if s is None:
            what = "equal variances"
        else:
            known, missing = int((s == 0).sum()), int(np.isinf(s).sum())
            what = f"variance per node ({known} known exactly, {missing} not measured)"
        return f"Consistency({self.tree!r}, {what})"

    # ------------------------------------------------------------------ projection

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
    ) -> Any:
        """The consistent values closest to the measurements.

        Parameters
        ----------
        noisy : array of shape (n,) or (n, k)
            Measured value of each node; float32 stays float32.
        nonnegative : bool
            Among the values with all leaves at least 0; still the exact optimum. This lowers
            the error but is no longer unbiased: small counts come out larger on average.
        integer : bool or "random"
            Round to whole numbers, with the sums exact: every node becomes the floor or the
            ceiling of its optimum, as int64. The root goes to the nearest, a half up; at each
            node the units left over go to the children with the largest fractions, ties to the
            smallest number. Fractions within 1e-9 may count as equal. With ``"random"`` units
            are drawn so that each node's expectation is its optimum.
        lower : number or array of n_leaves, optional
            Bounds of the leaves, in the order of ``tree.leaves``, other than 0; -inf for none.
            With `integer`, a bound that is not whole may be undercut by rounding down, as a
            value known exactly that is not whole is rounded; whole ones are kept.
            Whole numbers may fall short of a bound that is none.
        out : array, optional
            Where to put the result. It may be `noisy`.
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
        The optimum with bounds is found by holding each leaf that falls below its bound at the
        bound, for good, and solving again. That is exact, because a leaf below its bound is at
        it in the optimum: written in the leaves, the problem has an ultrametric matrix, whose
        inverse has no positive entry off the diagonal [1]_, and for such matrices a set of held
        variables only ever grows [2]_. The proof is in ``gmtree/_nonnegative.py``.

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
        if not isinstance(nonnegative, (bool, np.bool_)):
            check.fail_type("nonnegative", f"must be True or False, not {nonnegative!r}.")
        bounded = nonnegative or lower is not None
        bounds = lower_bounds(self.tree, nonnegative, lower) if bounded else None
        if out is not None:
            check.output("out", out, v.shape, np.int64 if integer else _result_dtype(v))
            if np.may_share_memory(out, v):
                # The measurements are still needed when the result is already there.
                v = v.copy()
        self._last, self._kept = v, None
        target = None if integer else out
        if bounds is None:
            x, passes = self._project(v, self._memory(v, target)), 1
        else:
            x, passes = self._project_bounded(v, bounds, self._memory(v, target))
        info = self._info(passes, x, v, bounds) if return_info else None
        if integer:
            x = round_consistent(self.tree, self._children(), x, integer, rng)
        if out is not None and x is not out:
            np.copyto(out, x)
            x = out
        return (x, info) if return_info else x

    def _project_bounded(
        self, v: np.ndarray, bounds: np.ndarray, out: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """The optimum with bounded leaves, column by column, and the passes of the worst."""
        check.finite("noisy", v)
        if self._factor.exact.size:
            # Contradictions between exact values show in a plain projection.
            self._project(v, self._memory(v, None))
        columns = v.reshape(self.tree.n, -1).T
        check_feasible(self.tree, columns, self._variance, bounds, _tolerance(v))
        passes = 0
        for column, result in zip(columns, out.reshape(self.tree.n, -1).T, strict=True):
            direct = result.dtype == np.float64 and result.flags.c_contiguous
            x = result if direct else np.empty(self.tree.n)
            found = project_bounded(
                self.tree, self._children(), np.ascontiguousarray(column, np.float64),
                self._variance, bounds, x, self._threads,
            )  # fmt: skip
            result[:] = x
            passes = max(passes, found)
        return out, passes

    def _children(self) -> Families:
        """The families of the tree, found on first use."""
        if self._families is None:
            self._families = Families.of(self.tree)
        return self._families

    def _info(
        self, passes: int, x: np.ndarray, v: np.ndarray, bounds: np.ndarray | None
    ) -> ProjectionInfo:
        """How it went, for the worst column."""
        with np.errstate(over="ignore"):
            # As the leaves were rounded.
            low = np.asarray(-np.inf if bounds is None else bounds).astype(x.dtype)
        at_bound, worst = 0, 0.0
        shape = (self.tree.n, -1)
        for values, noisy in zip(x.reshape(shape).T, v.reshape(shape).T, strict=True):
            at_bound = max(at_bound, int(np.count_nonzero(values[self.tree.leaves] <= low)))
            noisy = np.asarray(noisy, values.dtype)
            worst = max(worst, violation(self.tree, values, noisy, self._variance, low))
        return ProjectionInfo(passes, at_bound, worst)

    def _measurements(self, noisy: Any) -> np.ndarray:
        """Values as they are, 0 where not measured; whether finite is checked in use."""
        v = check.values("noisy", noisy, self.tree.n)
        measured = self._factor.measured
        if measured is not None:
            v = np.where(measured if v.ndim == 1 else measured[:, None], v, v.dtype.type(0))
        return v

    def _memory(self, v: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """Memory for the result: `out` itself where the sweeps can write there and cannot fail."""
        if out is not None and out.flags.c_contiguous and not self._factor.exact.size:
            return out
        return np.empty(v.shape, _result_dtype(v))

    def _project(self, v: np.ndarray, out: np.ndarray) -> np.ndarray:
        tree, factor, layout = self.tree, self._factor, self.tree._layout
        if tree.n == 1:
            check.finite("noisy", v)
            np.copyto(out, v)
            return out
        v = _sweep.readonly(v)
        b = self._workspace((tree.n_internal, *v.shape[1:]))
        with _sweep.team(layout, self._threads) as run:
            self._collect(run, v, b)
            kernels.root(layout.order, factor.s, factor.t, v, b, out)
            for segment in layout.segments:
                args: tuple = (layout.parent, layout.order)
                if segment[0] < layout.n_inner:
                    run(kernels.down_inner, (*args, *factor.weights, v, b, out), segment, True)
                else:
                    q = factor.s if factor.q is None else factor.q
                    run(kernels.down_leaves, (*args, q, v, b, out), segment, True)
        self._spare.append(b)
        self._settle(out)
        return out

    def _settle(self, out: np.ndarray) -> None:
        """Make up for what rounding leaves between a parent and its very many children."""
        layout = self.tree._layout
        last = layout.parent[GIANT_FAMILY - 1 :: GIANT_FAMILY]
        in_a_row = last[layout.parent[::GIANT_FAMILY][: last.size] == last]
        if not in_a_row.size:
            return
        giant = np.unique(in_a_row)
        place = np.full(int(giant[-1]) + 1, -1)
        place[giant] = np.arange(giant.size)
        nodes = self.tree.order[giant]
        count = self.tree.child_count[nodes]
        for x in out.reshape(self.tree.n, -1).T:
            rest, waiting = x[nodes].astype(np.float64), np.zeros(giant.size)
            total, lost = np.zeros((2, giant.size, LANES))
            kernels.subtract_children(layout.parent, layout.order, place, x, rest, total, lost)
            # Nothing is left where the difference is within the rounding of the parent itself.
            rest[abs(rest) <= np.spacing(abs(x[nodes]))] = 0
            if rest.any():
                eps = np.finfo(x.dtype).eps
                args = (place, *self._factor.weights, count, eps, rest, waiting, x)
                kernels.settle(layout.parent, layout.order, *args)

    def _collect(self, run: _sweep.Run, v: np.ndarray, b: np.ndarray) -> None:
        """The upward sweep: b at internal nodes; refuses bad values."""
        layout, factor = self.tree._layout, self._factor
        sum_leaves(run, layout, layout.order, v, b)
        args = (layout.parent, layout.order, factor.s, factor.t, v, b)
        for segment in reversed(layout.segments):
            if segment[0] < layout.n_inner:
                run(kernels.up_inner, args, segment)
        # A NaN or an infinity anywhere has made its way up to the root.
        if not (np.isfinite(b[0]).all() and np.isfinite(v[self.tree.root]).all()):
            check.finite("noisy", v)
            check.fail("noisy", "must have sums that floating point numbers can hold.")
        self._check_exact(v, b)

    def _workspace(self, shape: tuple[int, ...]) -> np.ndarray:
        """Zeros, in the memory of an earlier call where it fits and no other thread has it."""
        try:
            b = self._spare.pop()
        except IndexError:
            return np.zeros(shape)
        self._spare.clear()
        if b.shape != shape:
            return np.zeros(shape)
        b.fill(0)
        return b

    def _check_exact(self, v: np.ndarray, b: np.ndarray) -> None:
        """Refuse exactly known values that contradict those of their children."""
        exact = self._factor.exact
        if exact.size == 0:
            return
        nodes = self.tree.order[exact]
        own, below = v[nodes].astype(np.float64), b[exact]
        difference = abs(own - below)
        if not np.any(difference > _tolerance(v) * np.maximum(abs(own), abs(below))):
            return
        # Children of both signs may add up to less than their rounding.
        size = np.maximum(abs(own), self._child_sizes(v)[nodes])
        bad = np.argwhere(difference > _tolerance(v) * size)
        if bad.size:
            first = tuple(bad[np.argmin(nodes[bad[:, 0]])])
            check.fail(
                "noisy",
                f"must agree where values are known exactly (variance 0); node {nodes[first[0]]} "
                f"is {own[first]} but its children add up to {below[first]}.",
            )

    def _child_sizes(self, v: np.ndarray) -> np.ndarray:
        """Sum of absolute values over the children of each node.

        A child counts with its own value where that is known exactly, and else as the sum of
        its children.
        """
        tree = self.tree
        assert self._variance is not None
        known = self._variance == 0
        size = abs(v.astype(np.float64))
        size[~known & (tree.child_count > 0)] = 0
        passes = ~tree.to_positions(known)[tree._position_parent]
        _sweep.accumulate(tree._layout, size, size, edge=passes.astype(np.float64))
        return size - GenerationMatrix(tree).T @ size

    # ------------------------------------------------------------------ the paper's matrices

    @property
    def theta(self) -> np.ndarray:
        """For each internal node, in the order of ``tree.internal``: sum of q over its children.

        With equal variances of one this is the theta of the Generation Matrix construction; q
        is the variance of what is known of a child from itself and below.
        """
        return self._by_internal(self._factor.t) * self._scale

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
        variance = self._variance
        if variance is None:
            return np.full(self.tree.n, self._scale)
        bad = np.flatnonzero(~((variance > 0) & (variance < np.inf)))
        if bad.size:
            check.fail(
                "variance",
                f"must be positive and finite for a Generation Matrix to exist; "
                f"node {bad[0]} has {variance[bad[0]]}.",
            )
        return variance

    # ------------------------------------------------------------------ errors of the result

    def node_variance(self) -> np.ndarray:
        """Variance of every projected value, in one sweep.

        Infinite where only the sum of several undetermined siblings is known. With equal
        variances s these add up to s times the number of leaves.
        """
        return self.tree.from_positions(self._factor.node_variance) * self._scale

    def covariance(self, i: Any, j: Any) -> Any:
        """Covariance of the projected values of two nodes; arrays of nodes give arrays.

        NaN where one of two nodes has an infinite variance.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.star(3))
        >>> round(post.covariance(1, 2), 6), round(post.covariance(0, 1), 6)
        (-0.333333, 0.333333)
        """
        tree, factor = self.tree, self._factor
        first, second = np.broadcast_arrays(
            check.node_numbers("i", i, tree.n), check.node_numbers("j", j, tree.n)
        )
        a, b = (tree.rank[x.ravel()] for x in (first, second))
        out = np.empty(a.size)
        largest = factor.largest_children[0]
        errors.covariances(
            tree._position_parent, *factor.weights, largest,
            factor.node_variance, a, b, out,
        )  # fmt: skip
        out *= self._scale
        if factor.has_undetermined:
            unknown = np.isinf(factor.node_variance)
            out[unknown[a] | unknown[b]] = np.nan
            out[unknown[a] & (a == b)] = np.inf
        return out.reshape(first.shape) if first.ndim else float(out[0])

    def leaf_sum_variance(self, mask_or_ranges: Any) -> Any:
        """Variance of sums of projected leaf values, leaves in the order of ``tree.leaves``.

        Parameters
        ----------
        mask_or_ranges : array
            Either one bool per leaf, for the sum of those that are true (one sweep); or
            integers of shape (m, 2) with rows ``start, stop``, for the sums over leaves
            ``start`` to ``stop - 1`` (each in time proportional to the height).

        Returns
        -------
        float or array of m

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.complete(2, 3))
        >>> post.leaf_sum_variance([[0, 4], [0, 1]]).round(4)
        array([0.5714, 0.619 ])
        >>> round(post.leaf_sum_variance([True, True, False, False]), 4)
        0.4762
        """
        a = np.asarray(mask_or_ranges)
        if a.dtype == bool:
            if a.shape != (self.tree.n_leaves,):
                check.fail(
                    "mask_or_ranges",
                    f"must have one entry per leaf ({self.tree.n_leaves}), not {a.shape}.",
                )
            return float(self._weighted_sum_variance(a))
        if a.dtype.kind not in "iu":
            check.fail_type("mask_or_ranges", f"must hold bools or integers, not {a.dtype}.")
        ranges = a.reshape(1, 2) if a.shape == (2,) else a
        if ranges.ndim != 2 or ranges.shape[1] != 2:
            check.fail("mask_or_ranges", f"must have shape (m, 2) for ranges, not {a.shape}.")
        m = self.tree.n_leaves
        bad = np.flatnonzero(
            (ranges[:, 0] < 0) | (ranges[:, 1] > m) | (ranges[:, 0] > ranges[:, 1])
        )
        if bad.size:
            check.fail(
                "mask_or_ranges",
                f"must have 0 <= start <= stop <= {m}; row {bad[0]} is {ranges[bad[0]].tolist()}.",
            )
        out = self._range_variances(ranges.astype(np.int64))
        return float(out[0]) if a.ndim == 1 else out

    def _weighted_sum_variance(self, leaf_weight: np.ndarray) -> float:
        tree, factor = self.tree, self._factor
        weight, spread = np.zeros(tree.n), np.zeros(tree.n)
        weight[tree.rank[tree.leaves]] = leaf_weight
        errors.weigh_leaves(tree._position_parent, *factor.weights, weight, spread)
        return self._scale * (spread[0] + weight[0] ** 2 * factor.node_variance[0])

    def _range_variances(self, ranges: np.ndarray) -> np.ndarray:
        tree, factor = self.tree, self._factor
        out = np.zeros(len(ranges))
        if factor.has_undetermined:
            # Infinite variances cancel or not depending on which siblings are in a range.
            for k, (start, stop) in enumerate(ranges):
                mask = np.zeros(tree.n_leaves)
                mask[start:stop] = 1
                out[k] = self._weighted_sum_variance(mask)
            return out
        some = np.flatnonzero(ranges[:, 0] < ranges[:, 1])
        result = np.empty(some.size)
        sums, place = factor.sibling_sums
        errors.range_variances(
            tree._position_parent, tree.order, tree.rank, factor.s, factor.t, tree._children[0],
            sums, place, tree.leaves, ranges[some], factor.node_variance[0], result,
        )  # fmt: skip
        out[some] = self._scale * result
        return out

    # ------------------------------------------------------------------ one measurement at a time

    def keep(self, noisy: Any) -> Consistency:
        """Keep the solution for these measurements, for :meth:`update` and :meth:`value`.

        Not needed after :meth:`project`: without it the first update or value uses what the
        array given there then holds.

        Examples
        --------
        >>> import gmtree as gm
        >>> post = gm.Consistency(gm.shapes.star(3)).keep([10.0, 4.0, 3.0])
        >>> post.value(0)
        9.0
        >>> post.update(1, 7.0)
        >>> post.value(0), post.value(1)
        (10.0, 7.0)
        """
        v = self._measurements(noisy)
        if v.ndim != 1:
            check.fail("noisy", f"must have shape ({self.tree.n},) to be kept, not {v.shape}.")
        v = np.array(v, dtype=np.float64)
        b = np.zeros(self.tree.n_internal)
        if self.tree.n == 1:
            check.finite("noisy", v)
        else:
            with _sweep.team(self.tree._layout, self._threads) as run:
                self._collect(run, _sweep.readonly(v), b)
        z = np.empty(self.tree.n_internal)
        kernels.estimates(self.tree._layout.order, self._factor.s, self._factor.t, v, b, z)
        self._kept = _Kept(v, z, b)
        return self

    def _solution(self) -> _Kept:
        if self._kept is None:
            if self._last is None:
                raise ValueError(
                    "No measurements are kept yet: call project(noisy) or keep(noisy)."
                )
            self.keep(self._last)
        assert self._kept is not None
        return self._kept

    def update(self, node: int, value: float) -> None:
        """Change one measurement of the kept solution, in time proportional to the depth."""
        i = check.node_number("node", node, self.tree.n)
        value = check.real("value", value)
        kept, factor = self._solution(), self._factor
        if factor.measured is not None and not factor.measured[i]:
            return
        r = int(self.tree.rank[i])
        if factor.s is not None and factor.s[r] == 0:
            # An exact value may contradict others, which only a whole sweep can tell.
            v = kept.v.copy()
            v[i] = value
            self.keep(v)
            return
        change = value - kept.v[i]
        parent, (_, s, t) = self.tree._position_parent, factor.weights
        errors.change_path(parent, s, t, kept.z, kept.b, r, change)
        kept.v[i] = value

    def value(self, node: int) -> float:
        """The projected value of one node, in time proportional to its depth."""
        i = check.node_number("node", node, self.tree.n)
        kept, factor = self._solution(), self._factor
        r = int(self.tree.rank[i])
        state = (kept.z, kept.b, kept.v[i])
        return float(errors.value_at(self.tree._position_parent, *factor.weights, *state, r))


def _result_dtype(v: np.ndarray) -> np.dtype:
    """float32 stays what it is; all else becomes float64, whole numbers as they are read."""
    return v.dtype if v.dtype == np.float32 else np.dtype(np.float64)


def _tolerance(v: np.ndarray) -> float:
    return EXACT_TOLERANCE_FLOAT32 if v.dtype == np.float32 else EXACT_TOLERANCE


class _Kept:
    """A solution half done: after the upward sweep."""

    __slots__ = ("b", "v", "z")

    def __init__(self, v: np.ndarray, z: np.ndarray, b: np.ndarray) -> None:
        self.v, self.z, self.b = v, z, b


def consistent(
    tree: Tree, noisy: Any, variance: Any = None, *, threads: int | None = None, **options: Any
) -> np.ndarray:
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
    v = check.values("values", values, tree.n)
    check.finite("values", v)
    if tree.n_internal == 0:
        return 0.0
    difference = ConstraintMatrix(tree).T @ v
    return float(np.sqrt(np.mean(np.square(difference, dtype=np.float64))))
