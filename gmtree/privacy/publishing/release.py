"""Counts on a tree, published with differential privacy.

:mod:`gmtree.privacy` describes the guarantee and its limits. A release takes these steps: keywords
become a `Budget` (:mod:`gmtree.privacy.accounting.budget`), which is divided among the levels
(:mod:`gmtree.privacy.accounting.allocation`); counts get their noise
(:mod:`gmtree.privacy.publishing.measuring`); everything after that, in the class below, is computed
from the noisy counts. :mod:`gmtree.privacy.publishing.publish` runs these steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree._text import short
from gmtree.consistency import Consistency, Diagnostics
from gmtree.privacy.accounting.account import Account
from gmtree.privacy.files import storage
from gmtree.privacy.planning.plan import Plan
from gmtree.privacy.publishing.bootstrap import BootstrapErrors, bootstrap
from gmtree.privacy.publishing.columns import columns_of_results
from gmtree.privacy.publishing.cumulants import measurement_cumulants, solver_of_counts
from gmtree.privacy.publishing.intervals import ErrorLaws, proper_confidence
from gmtree.privacy.publishing.measuring import measure, measured_nodes
from gmtree.privacy.publishing.publish import Published, publish_given
from gmtree.privacy.publishing.quantiles import OrderedLeaves
from gmtree.queries import range_sum
from gmtree.tree import Tree, outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def release(
    tree: Tree,
    counts: Any,
    *,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = None,
    shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    max_per_leaf: int | None = None,
    invariants: Any = (),
    mechanism: str | None = None,
    nonnegative: bool = False,
    integer: bool = False,
    lower: Any = None,
    upper: Any = None,
    max_count: int | None = None,
    disclosures: Sequence[str] = (),
    account: Account | None = None,
    threads: int | None = None,
) -> Release:
    """Publish counts on a tree with differential privacy.

    Exact discrete noise is added to the count of each measured node. The released values are the
    consistent values with the least error. :mod:`gmtree.privacy` describes the guarantee and its
    limits. :func:`plan` computes the errors in advance, and :func:`gmtree.privacy.optimal_shares`
    chooses shares that make them small.

    Parameters
    ----------
    tree : Tree
        Public: chosen without looking at the data, with all leaves that could have a count. If
        it was made from the records, declare that with `disclosures`.
    counts : array of int
        True count of each leaf, in the order of ``tree.leaves``. Negative ones count as 0, or
        are refused with ``neighbors="change_one"``.
    epsilon : int, Fraction, str or float
        Budget of pure differential privacy. A float is taken at its exact value, which for 0.1 is
        slightly more than one tenth; write ``"0.1"`` for exactly one tenth. Three releases with
        ``epsilon=0.1`` do not fit into ``Account(epsilon="0.3")``, three with ``epsilon="0.1"`` do.
    rho : int, Fraction, str or float
        Budget of zero-concentrated differential privacy. Give this or `epsilon`, not both.
    delta : number, optional
        With `epsilon`, a target: the release uses the largest rho whose noise satisfies
        (epsilon, delta)-differential privacy, and the ledger shows rho and the target. For Gaussian
        noise this rho is computed from the law of the noise itself (see
        :meth:`gmtree.privacy.Ledger.epsilon`), which needs 4 to 10 % less noise than the conversion
        :func:`gmtree.privacy.zcdp_rho`.
    shares : sequence of numbers, optional
        Relative shares of the levels, one per depth, the root's first; only their ratios matter.
        A level with share 0 is not measured. Default: all equal.
    neighbors : {'add_remove', 'change_one'}
        How neighbouring data sets differ. With 'add_remove', one person's records are added or
        removed, which changes the counts on the path to their leaf. With 'change_one', they move to
        another leaf, which changes both paths except the nodes above both leaves. Then the total
        is public, and measuring the root costs nothing, whatever its share.
    max_contributions : int
        Largest number of records per person. k records multiply the loss by k in epsilon and by
        k^2 in rho.
    max_per_leaf : int, optional
        Largest number of records per person in one leaf, at most `max_contributions`. For a budget
        in rho it lowers the cost of several records, because they then change several leaves by
        small amounts instead of one leaf by a large amount.
    invariants : sequence, optional
        Counts that are published exactly: node numbers, labels or paths of nodes, names of levels,
        or :class:`gmtree.privacy.Level`. Nodes whose counts are sums or differences of exact counts
        become exact too. Exact counts get no noise and cost nothing, but the guarantee does not
        cover them. The ledger names them all. It also states the loss between neighbouring data
        that agree on all exact counts (``total_given_invariants``).
    mechanism : {'discrete_laplace', 'discrete_gaussian'}, optional
        Default: Laplace noise for `epsilon`, Gaussian noise for `rho`.
    nonnegative : bool
        Whether to keep all values at least 0. If many counts are small, this lowers the error of
        leaves, but the values are no longer unbiased: small counts become larger on average. Their
        sums become larger, too, and can have an error several times as large as without this
        option. Standard errors and intervals belong to :attr:`Release.estimate`;
        :meth:`Release.bootstrap` estimates the errors of non-negative values.
    integer : bool
        Whether to round values to whole numbers, with exact sums.
    lower, upper : optional
        Public bounds of `values`, in the forms of :meth:`Consistency.project`: a block cannot hold
        more people than its housing, or the total of a state lies in a range that everyone knows.
        Choose them without looking at the data: then they cost nothing, and the ledger states that
        you gave them as public knowledge. They do not change `noisy`, `estimate` and its errors;
        :meth:`Release.bootstrap` estimates the errors of `values`. Bounds that no values can meet
        are refused before anything is charged or drawn, and so are bounds with `invariants`. With
        `integer`, fractional bounds may be rounded beyond themselves.
    max_count : int, optional
        Public bound at which the counts of leaves are cut off before noise is added. By default,
        and at most, 2^50 divided by the height and by the number of leaves. That is more than
        any count on many trees (5e8 for a star of a million leaves), but low on deep trees:
        4,503 on a caterpillar of 10^6 nodes. The ledger states the bound. This argument is not
        allowed with ``neighbors="change_one"``, whose public total must be at most 2^50 divided by
        the height.
    disclosures : sequence of str, optional
        Sentences for the ledger about other facts of the data that are published without noise.
        Pass :data:`gmtree.privacy.LEAVES_FROM_RECORDS` if the tree was made from the records. For
        trees made by :meth:`gmtree.Tree.from_records` this sentence is added automatically.
    account : gmtree.privacy.Account, optional
        Account that is charged. It refuses a release that exceeds its budget before anything is
        drawn. If it has a file, the noisy counts are stored beside it until the release is saved
        (:meth:`gmtree.privacy.Account.unfinished`).
    threads : int, optional
        As in :class:`Consistency`.

    Returns
    -------
    Release

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    >>> r = gm.release(tree, [304, 372, 29], epsilon=1, nonnegative=True, integer=True)
    >>> r
    Release(Tree(n=6, internal=3, leaves=3, height=3), epsilon=1, nonnegative, integer)
    >>> bool(r.values[0] == r.values[3:].sum()), r.std_error.round(2)
    (True, array([3.1 , 2.87, 2.62, 3.31, 3.31, 2.62]))

    Everyone knows that 600 to 700 people live in New York, and at most 350 in its county Albany:

    >>> public = {"lower": {"NY": 600}, "upper": {"NY": 700, ("NY", "Albany"): 350}}
    >>> r = gm.release(tree, [304, 372, 29], epsilon=1, **public)
    >>> bool(600 <= r.values[1] <= 700), bool(r.values[3] <= 350)
    (True, True)
    """
    try:
        return publish_given(Release, locals())
    finally:
        # Drop the true counts, so that tracebacks that print local variables cannot leak them.
        del counts


class Release(OrderedLeaves, Published[Consistency]):
    """A release: noisy counts, consistent values, their errors, and the privacy ledger.

    Made by :func:`release` and :meth:`load`. All arrays are by node, in the tree's numbering, and
    read-only.

    Attributes
    ----------
    tree : Tree
    noisy : array of int64
        Counts with noise; 0 at nodes that were not measured, the exact count at invariants.
    ledger : Ledger
        The privacy loss by level, the assumptions, and the facts outside the guarantee.
    nonnegative, integer : bool
        The options with which `values` are computed.
    bounds : dict
        Arrays by node of the public bounds 'lower' and 'upper' of `values`, if they were given.
    """

    noisy: np.ndarray
    _function, _form = "release", storage.FORMAT
    _solver, _measure = staticmethod(solver_of_counts), staticmethod(measure)
    _shared = ("_post", "_laws", "estimate", "std_error")

    def __init__(self, tree: Tree, noisy: np.ndarray, *parts: Any, **options: Any) -> None:
        noisy.flags.writeable = False
        super().__init__(tree, noisy, *parts, **options)

    def __repr__(self) -> str:
        return self._describe()

    def _compute(self) -> None:
        self.values  # noqa: B018

    def _views(self, x: np.ndarray) -> dict[None, np.ndarray]:
        return {None: x}

    # ------------------------------------------------------------------ values

    @property
    def measured(self) -> np.ndarray:
        """Mask of the nodes that have a count in `noisy`, with noise or exact."""
        measured = measured_nodes(self.tree, self.ledger, self._exact)
        return np.ones(self.tree.n, bool) if measured is None else measured

    # ------------------------------------------------------------------ errors

    @cached_property
    def std_error(self) -> np.ndarray:
        """Standard error of `estimate` at every node, exactly.

        Infinite if only the sum of several siblings is known. Non-negative values have different
        errors, which depend on the counts: see :meth:`bootstrap`.
        """
        error = np.sqrt(self._post.node_variance())
        error.flags.writeable = False
        return error

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals, one for every node.

        Each interval covers the true count with a probability of at least `confidence`, up to the
        approximation described below. Intervals belong to `estimate`, so the `values` of a
        non-negative release can lie outside of them. For such a release, both ends are raised to
        zero if they are negative.

        Parameters
        ----------
        confidence : float
            Above 0 and below 1.

        Notes
        -----
        The variance and the fourth cumulant of each estimate's error are exact. The quantile is
        taken from the variance-gamma law with this variance and cumulant. This is exact if the
        error comes from a single Laplace noise, and in the limit of many noises. If the noise is
        small, errors are multiples of large steps. The half-width is then increased by half a step,
        so that it reaches the next error that can occur.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> low, high = r.interval(0.95)
        >>> bool(((high - low) / r.std_error > 4).all())
        True
        """
        width = self._laws.node_half_widths(proper_confidence(confidence))
        return self._bounded(self.estimate - width, np.add(self.estimate, width, out=width))

    def range_sum(self, ranges: Any) -> np.ndarray:
        """Sums of values over leaves ``start`` to ``stop - 1`` for each row of `ranges`.

        Leaves are counted in the order of ``tree.leaves_left_to_right``, in which the leaves of
        every subtree are contiguous, NOT in the order of ``tree.leaves``.

        Parameters
        ----------
        ranges : array of int, of shape (m, 2)
            Start and stop of each range. An empty range has the sum 0.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.complete(2, 3), [5, 8, 2, 0], epsilon=1, integer=True)
        >>> bool(r.range_sum([[0, 4]])[0] == r.values[0])
        True
        """
        return range_sum(self.tree, self.values, ranges)

    def range_std_error(self, ranges: Any) -> np.ndarray:
        """Standard errors of sums of `estimate` over ranges of leaves, exactly.

        Parameters
        ----------
        ranges : array of int, of shape (m, 2)
            As in :meth:`range_sum`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.complete(2, 3), [5, 8, 2, 0], epsilon=1)
        >>> r.range_std_error([[0, 4]]).round(2), r.std_error[[0]].round(2)
        (array([3.19]), array([3.19]))
        """
        return np.sqrt(self._post.range_variance(ranges))

    def range_interval(
        self, ranges: Any, confidence: float = 0.95
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals of sums over ranges of leaves.

        They have the properties of :meth:`interval`.

        Parameters
        ----------
        ranges : array of int, of shape (m, 2)
            As in :meth:`range_sum`.
        confidence : float
            Above 0 and below 1.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.complete(2, 3), [5, 8, 2, 0], epsilon=1)
        >>> low, high = r.range_interval([[0, 4], [1, 2]])
        >>> low.shape, bool((low < high).all())
        ((2,), True)
        """
        confidence = proper_confidence(confidence)
        pairs = check.ranges("ranges", ranges, self.tree.n_leaves)
        centre = range_sum(self.tree, self.estimate, pairs)
        width = self._laws.range_half_widths(confidence, pairs)
        return self._bounded(centre - width, centre + width)

    def bootstrap(self, runs: int = 200, rng: Any = None) -> BootstrapErrors:
        """Estimate bias and error of `values`, also for `nonnegative` and `integer`.

        `std_error` does not apply to non-negative values, for which no exact formula is known. This
        is a parametric bootstrap: it treats `values` as the true counts, draws noise `runs` times,
        computes the values of each draw, and summarises their errors by node and by level. The
        result is approximate, because the true counts differ from `values`. The method uses nothing
        but the release, so that it costs no privacy, and a seed is allowed.

        Parameters
        ----------
        runs : int
            Number of draws, at most 100,000. The relative error of a root mean square error from
            200 runs is about 5 %.
        rng : int or numpy Generator, optional
            Seed or generator, as for :func:`numpy.random.default_rng`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(101), [0] * 90 + [5] * 10, epsilon=1, nonnegative=True)
        >>> errors = r.bootstrap(runs=20, rng=1)
        >>> errors.level_bias.shape, errors.rmse.shape
        ((2,), (101,))
        """
        return bootstrap(self, runs, rng)[None]

    def diagnose(self) -> Diagnostics:
        """Test whether the noisy counts agree with each other, given the exact law of the noise.

        The test uses published numbers only, so that it costs no privacy. If the ledger is right,
        `p_value` is an ordinary p-value. Laplace noise has larger residuals than normal noise:
        among a thousand nodes, a few exceed 6 standard deviations.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.complete(3, 4), range(27), epsilon=1)
        >>> r.diagnose().dof
        13
        """
        variance, fourth = (np.asarray(x, float) for x in self._cumulants)
        known = (variance > 0) & (variance < np.inf)
        kurtosis = np.divide(fourth, variance**2, out=np.zeros(variance.shape), where=known)
        return self._post.diagnose(self.noisy, excess_kurtosis=kurtosis[()])

    @property
    def plan(self) -> Plan:
        """Errors of `estimate` by level, as :func:`plan` predicts them."""
        return Plan._of(self.tree, self.ledger, [self._post.node_variance()])

    @cached_property
    def _cumulants(self) -> tuple[Any, Any]:
        """Variances and fourth cumulants of the noise."""
        return measurement_cumulants(self.tree, self.ledger, self._exact)

    @cached_property
    def _laws(self) -> ErrorLaws:
        return ErrorLaws(self._post, *self._cumulants)

    # ------------------------------------------------------------------ tables and files

    def to_frame(self, confidence: float = 0.95, *, backend: str | None = None) -> Any:
        """Return a pandas, polars or pyarrow DataFrame with one row per node.

        Columns: ``node`` and ``parent`` (node numbers; the parent of the root is -1), ``depth``,
        ``label`` (or, for a tree made from named levels, one column of labels per level),
        ``value``, ``noisy`` (missing if the node was not measured), ``estimate``, its standard
        error ``estimate_std_error``, and the ends ``estimate_low`` and ``estimate_high`` of its
        intervals at this `confidence`.

        Parameters
        ----------
        confidence : float
            Above 0 and below 1.
        backend : {'pandas', 'polars', 'pyarrow'}, optional
            Library of the DataFrame, as in :meth:`gmtree.Tree.to_frame`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> r.to_frame().columns.tolist()
        ['node', 'parent', 'depth', 'value', 'noisy', 'estimate', 'estimate_std_error',
         'estimate_low', 'estimate_high']
        """
        return self.tree.to_frame(backend=backend, **columns_of_results(self, confidence))

    def plot(self, *, unit: str = "records", ax: Any = None) -> Axes:
        """Draw the noisy counts against the values, with 95 % intervals; returns matplotlib Axes.

        The intervals are those of :meth:`interval`: with `nonnegative` or `integer` they belong to
        `estimate`. ``plan.plot()`` draws the errors by level.

        Parameters
        ----------
        unit : str
            Unit of the counts, for the axis.
        ax : matplotlib Axes, optional
            Axes to draw on. By default new axes are made.
        """
        from gmtree import plot

        ax = plot.noisy_against_consistent(
            self.tree, self.noisy, self.values, measured=self.measured,
            interval=self.interval(), unit=unit, ax=ax,
        )  # fmt: skip
        spent = f"{self.ledger.measure} = {short(self.ledger.total, up=True)}"
        ax.set_title(f"{ax.get_title()}, {spent}, 95 % intervals")
        return ax

    def _repr_html_(self) -> str:
        spent = f"{self.ledger.measure} = {short(self.ledger.total, up=True)}"
        columns = {"value": self.values}
        if self.nonnegative or self.integer or self.bounds:
            columns["estimate"] = self.estimate
        columns["std. error"] = self.std_error
        rounded = {name: np.round(x, 2) for name, x in columns.items()}
        return f"<b>Release</b>, {escape(spent)}{outline.html(self.tree, rounded)}"
