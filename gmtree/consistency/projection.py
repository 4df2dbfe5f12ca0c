"""Turn measurements at the nodes of a tree into consistent values with the least error.

Consistent means that each parent equals the sum of its children. Let node i be measured as ``v_i``
with variance ``s_i``. Among all consistent values, the projection minimises ``sum (x_i - v_i)^2 /
s_i``. If errors are independent and unbiased, it has the smallest variance of all linear unbiased
estimates, at every node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import errors, sweeps
from gmtree.consistency.between import project_between
from gmtree.consistency.bounded import project_bounded
from gmtree.consistency.bounds import Bounds
from gmtree.consistency.certificate import ProjectionInfo, projection_info
from gmtree.consistency.diagnostics import Diagnostics, diagnose
from gmtree.consistency.factor import Factor
from gmtree.consistency.messages import Messages, messages
from gmtree.consistency.rounding import check_how, round_consistent
from gmtree.consistency.tracking import Tracker
from gmtree.matrix import GenerationMatrix
from gmtree.tree import Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ProjectOptions(TypedDict, total=False):
    """The keywords of :meth:`Consistency.project` besides `return_info`."""

    nonnegative: bool
    integer: bool | str
    lower: Any
    upper: Any
    out: np.ndarray | None
    rng: np.random.Generator | int | None


class Consistency:
    """Optimal consistent values for measurements on a tree.

    The constructor does all work that depends only on the tree and the variances. After that, call
    :meth:`project` for any number of measurements.

    Parameters
    ----------
    tree : Tree
    variance : optional
        Variance of the measurement at each node: one number for all, one per node, or one per
        level from the root down. If the levels of the tree have names, a dict by name is also
        accepted, such as ``{"state": 1.0, "county": 4.0}``. Levels that the dict does not name have
        variance 1. The name of a root above all named levels is ``"total"``. None means equal
        variances. 0 marks a value that is known exactly and is kept. inf marks a node that was not
        measured, whose value is ignored. Other variances must lie between 1e-100 and 1e100. Write
        ``{"node": [...]}`` or ``{"level": [...]}`` to say whether an array is per node or per
        level. This is needed only on a chain, which has as many nodes as levels.
    threads : int, optional
        Threads that share a sweep over a large tree; by default one for each available core.
        Results do not depend on this number, to the last bit.

    Notes
    -----
    If several siblings were measured neither by themselves nor through any node below them, only
    their sum is determined. It is split evenly among them, which is the limit of equal large
    variances, and their :meth:`node_variance` is infinite. A leaf with no measurement anywhere on
    its path to the root could have any value and is refused.

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
        self, noisy: Any, *, return_info: Literal[False] = False, **options: Unpack[ProjectOptions]
    ) -> np.ndarray: ...

    @overload
    def project(
        self, noisy: Any, *, return_info: Literal[True], **options: Unpack[ProjectOptions]
    ) -> tuple[np.ndarray, ProjectionInfo]: ...

    @overload
    def project(
        self, noisy: Any, *, return_info: bool, **options: Unpack[ProjectOptions]
    ) -> np.ndarray | tuple[np.ndarray, ProjectionInfo]: ...

    def project(
        self,
        noisy: Any,
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        lower: Any = None,
        upper: Any = None,
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
            Require all leaves to be at least 0. The result is still the exact optimum, but no
            longer unbiased: small counts become larger on average. Their errors become smaller, but
            if most counts are small, the errors of large totals may grow.
        integer : bool or "random"
            Round to whole numbers with exact sums: every node becomes the floor or the ceiling of
            its optimum, as int64. The root is rounded to the nearest number, halves up. At each
            node, remaining units go to the children with the largest fractions, in ties to the
            smallest node number. Fractions within 1e-9 may count as equal. With ``"random"``, units
            are drawn at random such that the expectation of each node is its optimum.
        lower, upper : optional
            Bounds of any nodes: one number for every leaf, one number per leaf in the order of
            ``tree.leaves``, ``{"node": [...]}`` with one number per node, ``{"leaf": [...]}``, a
            dict from labels to numbers, or a pandas Series or DataFrame with labels. -inf and inf
            mean no bound, as do nodes that are not named. The optimum is exact. Bounds that no
            consistent values can meet are refused with an error that names the node. With
            `integer`, whole bounds and whole exactly known values are kept; fractional ones may be
            rounded beyond themselves.
        out : array, optional
            Array that receives the result. It may be `noisy`. On failure `out` is unchanged, except
            that it may hold NaN if results are too large for its type and it is not `noisy`.
        return_info : bool
            Also return a `ProjectionInfo`: passes, nodes at their bounds, and the largest
            violation of the conditions of optimality.
        rng : optional
            Random generator or seed for ``integer="random"``.

        Returns
        -------
        array of the shape of `noisy`, or (array, info)

        Notes
        -----
        Each parent of the result differs from the sum of its children by rounding only: by less
        than 1e-12 (float32: 1e-6) times the scale of the family, however many children it has. The
        scale is a sum of absolute values: the parent's measurement, and for each child the largest
        of its returned value, its measurement and its estimate from below. So if values of 1e9
        cancel, their rounding errors remain.

        Values that are known exactly (variance 0) must agree with each other up to 1e-11 (float32:
        1e-6) of the sum of the absolute values added up. If all of them are whole and this sum is
        below 2**53 (float32: 2**24), they must agree exactly.

        If only leaves are bounded, and only from below, each leaf that falls below its bound is
        held at the bound for good, and the problem is solved again. That is exact, because a leaf
        that falls below its bound is at its bound in the optimum. To see this, write the problem as
        a function of the leaves. Its matrix is ultrametric, so its inverse has no positive entry
        off the diagonal [1]_. For matrices with this property, held variables never have to be
        released [2]_. The proof is in ``gmtree/consistency/bounded.py``. With other bounds a held
        node may have to be released again. Newton's method then looks for the Lagrange multipliers
        of the sums, which prove the optimum. If it does not converge, an exact method with a fixed
        number of steps takes its place (``gmtree/consistency/between.py``).

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
        >>> post.project([9.0, 3.0, 1.5, 4.0], upper={"node": [8, 2, 9, 9]})
        array([8.  , 2.  , 1.75, 4.25])
        """
        check_how(integer)
        v = self._measurements(noisy)
        if integer and v.dtype == np.float32:
            # Sums of larger numbers would be off by more than rounding to whole numbers can repair.
            v = v.astype(np.float64)
        check.flag("nonnegative", nonnegative)
        check.flag("return_info", return_info)
        bounds = Bounds.read(self.tree, nonnegative, lower, upper)
        if out is not None:
            check.output("out", out, v.shape, np.int64 if integer else sweeps.result_dtype(v))
        x = self._memory(v, None if integer else out)
        passes = 1
        if bounds is None:
            sweeps.project(self._factor, self._threads, v, x)
        elif bounds.leaves is None:
            project_between(self._factor, self._threads, v, bounds.lower, bounds.upper, x)
        else:
            passes = project_bounded(self._factor, self._threads, v, bounds.leaves, x)
        info = projection_info(self._factor, passes, x, v, bounds) if return_info else None
        if integer:
            x = round_consistent(self.tree, self._factor.families, x, integer, rng)
        if out is not None and x is not out:
            np.copyto(out, x)
            x = out
        return x if info is None else (x, info)

    def _measurements(self, noisy: Any, *, columns: bool = True) -> np.ndarray:
        """Values with 0 for nodes not measured; the sweeps check that they are finite."""
        v = self.tree._values("noisy", noisy, columns=columns)
        measured = self._factor.measured
        if measured is not None:
            v = np.where(measured if v.ndim == 1 else measured[:, None], v, v.dtype.type(0))
        return v

    def _memory(self, v: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """Memory for the result: `out` itself if the sweeps can write to it, else a new array.

        A new array is needed if `out` overlaps the measurements. It is also needed if some values
        are known exactly: if they contradict each other or the bounds, `out` must stay unchanged.
        """
        may_fail = self._factor.some_exact
        if out is None or may_fail or not out.flags.c_contiguous or np.may_share_memory(out, v):
            return np.empty(v.shape, sweeps.result_dtype(v))
        return out

    def messages(
        self, noisy: Any, nodes: Any = None, *, nonnegative: bool = False, lower: Any = None
    ) -> Messages:
        """Messages of the subtrees of some nodes to the rest of the tree, in one upward sweep.

        Each subtree can be replaced by one leaf measured as ``estimate`` with variance
        ``variance``, without changing values elsewhere. So a tree can be made consistent in parts.

        Parameters
        ----------
        noisy : array of shape (n,)
            Measured value of each node.
        nodes : array of int, optional
            Roots of the subtrees; all nodes by default.
        nonnegative, lower
            Bounds of the leaves as in :meth:`project`. Messages then have a third part, the least
            value of each root for which no leaf falls below its bound. Leaves with variance 0 count
            as held.

        Returns
        -------
        Messages
            Named tuple of the arrays ``estimate``, ``variance`` and ``least``, one entry per node.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
        >>> sent = gm.Consistency(tree).messages([9.0, 6.0, 3.0, 1.0, 3.0], [1], nonnegative=True)
        >>> sent.estimate.round(3), sent.variance.round(3), sent.least
        (array([5.333]), array([0.667]), array([2.]))
        """
        v = self._measurements(noisy, columns=False)
        chosen = np.arange(self.tree.n)
        if nodes is not None:
            chosen = np.atleast_1d(check.node_numbers("nodes", nodes, self.tree.n)).ravel()
        check.flag("nonnegative", nonnegative)
        bounds = Bounds.read(self.tree, nonnegative, lower, None)
        if bounds and bounds.leaves is None:
            check.fail("lower", "must bound leaves only.")
        v = np.ascontiguousarray(v, np.float64)
        b = sweeps.sums_below(self._factor, self._threads, v)
        return messages(self._factor, v, b, chosen, bounds and bounds.leaves)

    def track(self, noisy: Any) -> Tracker:
        """Consistent values for measurements that change one at a time.

        Parameters
        ----------
        noisy : array of shape (n,)
            Measured value of each node; it is copied.

        Returns
        -------
        Tracker
            It has the methods ``update(node, value)``, ``value(node)`` and ``values()``. Its values
            are those of the plain projection, without bounds or rounding to whole numbers.

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
        v = self._measurements(noisy, columns=False)
        return Tracker(self._factor, self._threads, v)

    def diagnose(self, noisy: Any, *, excess_kurtosis: Any = 0.0) -> Diagnostics:
        """Check the measurements against each other, in two sweeps.

        A wrong measurement has a large standardised residual, which is the number of standard
        deviations by which it differs from the estimate of its node from all other measurements.

        Parameters
        ----------
        noisy : array of shape (n,)
            Measured value of each node.
        excess_kurtosis : number or array of shape (n,)
            Excess kurtosis of the errors, for the p-value of chi-squared: 0 for normal errors, 3
            for Laplace noise. Laplace noise also has larger standardised residuals than normal
            noise: 6 standard deviations are not unusual among some thousand nodes.

        Returns
        -------
        Diagnostics
            Residuals, leave-one-out estimates, leverages, chi-squared in total and by level, and
            the most suspicious nodes. ``print`` shows a summary.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
        >>> d = gm.Consistency(tree).diagnose([40.0, 30.0, 20.0, 10.0, 11.0, 10.0, 10.0])
        >>> round(d.chi2, 6), d.dof, d.worst(1)[0].node
        (48.0, 3, 1)
        """
        v = self._measurements(noisy, columns=False)
        return diagnose(self._factor, self._threads, v, excess_kurtosis)

    # ------------------------------------------------------------------ the paper's matrices

    @property
    def theta(self) -> np.ndarray:
        """Sum of q over the children of each internal node, in the order of ``tree.internal``.

        Here q is the variance of the estimate of a child from its own measurement and those below
        it. If all variances are one, this is the theta of the Generation Matrix construction.
        """
        theta = self._factor.t * self._factor.scale
        if self.tree.is_canonical:
            return theta
        return theta[np.argsort(self.tree._sweep_order[: self.tree.n_internal], kind="stable")]

    @property
    def generation_matrix(self) -> GenerationMatrix:
        """The Generation Matrix G on ``tree.k_order_subtree(1)`` with ``G.T @ G = M.T @ S @ M``.

        M is the constraint matrix, and S the diagonal matrix of the variances s. G has the node
        weights ``sqrt(tau_i)`` and the edge weights ``s_i / sqrt(tau_i)``, with ``tau_i = s_i +
        theta_i``. It exists if all variances are positive and finite.
        """
        if self.tree.n == 1:
            check.fail("tree", "must have an internal node; a single node has no constraints.")
        s = self._factor.positive_variance()[self.tree.internal]
        root_tau = np.sqrt(s + self.theta)
        return GenerationMatrix(self.tree.k_order_subtree(1), root_tau, s / root_tau)

    # ------------------------------------------------------------------ errors of the result

    def node_variance(self, noise: Any = None) -> np.ndarray:
        """Variance of every projected value, in one sweep.

        It is infinite for undetermined siblings, of which only the sum is known. If all
        measurements have the variance s, the result adds up to s times the number of leaves.

        Parameters
        ----------
        noise : optional
            True variances of the measurements, if they differ from the weights: one number, one per
            node or level, or an array of shape (n, k) for k sets of variances. The result is then
            exact for these variances, in two sweeps per set.

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
        return self.tree._from_positions(self._factor.node_variance) * self._factor.scale

    @overload
    def covariance(self, i: check.Integer, j: check.Integer) -> float: ...

    @overload
    def covariance(self, i: Any, j: Any) -> np.ndarray: ...

    def covariance(self, i: Any, j: Any) -> float | np.ndarray:
        """Covariance of the projected values of two nodes; arrays of nodes give arrays.

        It is NaN if either node has an infinite variance.

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
            One entry per leaf, in the order of ``tree.leaves``; true for leaves in the sum.

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
            NOT ``tree.leaves``, which is the order of all vectors by leaf.

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
