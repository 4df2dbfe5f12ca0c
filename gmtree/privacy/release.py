"""Counts on a tree, published with differential privacy.

:mod:`gmtree.privacy` says what that guarantees, to whom, and what not. The way of a release:
keywords become a :class:`gmtree.privacy.budget.Budget`, which is divided among the levels
(:mod:`gmtree.privacy.allocation`); counts get their noise (:mod:`gmtree.privacy.measuring`);
everything after that, in the class below, is computed from the noisy counts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree._text import preformatted, short
from gmtree.consistency import Consistency
from gmtree.privacy.account import Account
from gmtree.privacy.allocation import divide, largest_sum
from gmtree.privacy.budget import Budget
from gmtree.privacy.cumulants import measurement_cumulants
from gmtree.privacy.intervals import ErrorLaws, confidence
from gmtree.privacy.ledger import Ledger
from gmtree.privacy.measuring import forget_locals, measure, measured_nodes
from gmtree.privacy.planning import Plan
from gmtree.privacy.provenance import Drawing, with_options, with_tree
from gmtree.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gmtree.privacy.bootstrap import BootstrapErrors

# Noise exceeds so many times its scale with a probability below exp(-64).
_REACH = 64


def release(
    tree: Tree,
    counts: Any,
    *,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = None,
    level_shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    max_per_leaf: int | None = None,
    invariants: Any = (),
    mechanism: str | None = None,
    nonnegative: bool = False,
    integer: bool = False,
    max_count: int | None = None,
    outside: Sequence[str] = (),
    account: Account | None = None,
    threads: int | None = None,
) -> Release:
    """Publish counts on a tree with differential privacy.

    Each measured node gets its count with exact discrete noise; the released values are the
    consistent ones with the least error. :mod:`gmtree.privacy` says what that guarantees and what
    not. :func:`plan` tells the error beforehand, :func:`optimal_shares` lowers it.

    Parameters
    ----------
    tree : Tree
        Public: chosen without looking at the data, with all leaves that could have a count. If
        it was made from the records, say so with `outside`.
    counts : array of int
        True count of each leaf, in the order of ``tree.leaves``. Negative ones count as 0, or
        are refused with ``neighbors="change_one"``.
    epsilon, rho, delta, level_shares, neighbors, max_contributions, max_per_leaf, invariants, \
mechanism, max_count
        Budget and how it is divided, and the public bound at which counts are cut off: see
        :func:`gmtree.privacy.allocate`. Floats are taken at their exact value: three releases
        with ``epsilon=0.1`` do not fit into ``Account(epsilon="0.3")``, three with
        ``epsilon="0.1"`` do.
    nonnegative : bool
        Values with all leaves at least 0. Where many counts are small, that lowers the error of
        leaves, but it is no longer unbiased: small counts come out larger on average, and so do
        their sums, whose error can be several times as large as without. Standard errors and
        intervals belong to :attr:`Release.estimate`; :meth:`Release.bootstrap` estimates the
        errors of such values.
    integer : bool
        Whole numbers, with exact sums.
    outside : sequence of str, optional
        Sentences for the ledger about what else is published without noise: see
        :func:`gmtree.privacy.allocate`.
    account : gmtree.privacy.Account, optional
        What the release is charged to before anything is drawn; refused if too little is left.
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
    """
    outer = sys.exc_info()[1]
    try:
        budget = Budget.of(
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            level_shares=level_shares,
            neighbors=neighbors,
            max_contributions=max_contributions,
            max_per_leaf=max_per_leaf,
            invariants=invariants,
            mechanism=mechanism,
            max_count=max_count,
            outside=outside,
        )
        allocation = divide(tree, budget)
        ledger, exact = allocation.ledger, allocation.exact
        options = whole_options(tree, ledger, nonnegative, integer)
        # Refuses scales that leave a value undetermined: before anything is spent.
        post = Consistency(tree, {"node": measurement_cumulants(tree, ledger, exact)[0]}, threads)
        draw = Drawing("release", tree, allocation, account)
        noisy = measure(tree, counts, allocation, draw.charge)
    except BaseException as error:
        forget_locals(error, outer)
        raise
    finally:
        # Tracebacks that print local variables must not print the true counts.
        del counts
    origin = draw.origin(nonnegative=options[0], integer=options[1])
    made = Release(tree, noisy, ledger, exact, *options, threads, post=post, origin=origin)
    # Computed now, so that an error in it is seen where the budget is spent.
    made.values  # noqa: B018
    return made


class Release:
    """What was published: noisy counts, consistent values, their errors, and the account.

    Made by :func:`release` and :meth:`load`. All arrays are by node, in the tree's numbering, and
    read-only.

    Attributes
    ----------
    tree : Tree
    noisy : array of int64
        Counts with noise; 0 at nodes that were not measured, the exact count at invariants.
    ledger : Ledger
        What was spent, on what, and what the guarantee does not cover.
    nonnegative, integer : bool
        How `values` were made.
    """

    def __init__(
        self,
        tree: Tree,
        noisy: np.ndarray,
        ledger: Ledger,
        exact: np.ndarray | None,
        nonnegative: bool,
        integer: bool,
        threads: int | None = None,
        *,
        post: Consistency | None = None,
        origin: dict[str, Any] | None = None,
    ) -> None:
        noisy.flags.writeable = False
        self.tree, self.noisy, self.ledger = tree, noisy, ledger
        self.nonnegative, self.integer = nonnegative, integer
        self._exact, self._threads, self._origin = exact, threads, origin
        if post is not None:
            self._post = post

    def __repr__(self) -> str:
        spent = f"{self.ledger.measure}={short(self.ledger.total, up=True)}"
        options = [name for name in ("nonnegative", "integer") if getattr(self, name)]
        return f"Release({', '.join([repr(self.tree), spent, *options])})"

    def __reduce__(self) -> tuple[Any, ...]:
        # What can be computed again is left out.
        options = (self.nonnegative, self.integer, self._threads)
        parts = (self.tree, self.noisy, self.ledger, self._exact, *options)
        return _again, (parts, self._origin)

    @cached_property
    def provenance(self) -> dict[str, Any] | None:
        """Where the release comes from, for those who read its file later.

        The function, time and versions that made it, its options, the fingerprint of its tree,
        and the entry of the account it was charged to, if any. None for releases that an older
        version saved.
        """
        return with_tree(self._origin, self.tree)

    # ------------------------------------------------------------------ values

    @cached_property
    def values(self) -> np.ndarray:
        """Consistent values: each parent the sum of its children; int64 if `integer`."""
        if not (self.nonnegative or self.integer):
            return self.estimate
        x = self._post.project(self.noisy, nonnegative=self.nonnegative, integer=self.integer)
        x.flags.writeable = False
        return x

    @cached_property
    def estimate(self) -> np.ndarray:
        """The best unbiased estimate of every count, which standard errors and intervals belong to.

        These are the consistent values without `nonnegative` and `integer`: some may be
        negative. The mean of ``values - estimate`` over many nodes shows the bias of `values`.
        """
        x = self._post.project(self.noisy)
        x.flags.writeable = False
        return x

    @property
    def measured(self) -> np.ndarray:
        """Which nodes have a count in `noisy`, with noise or exactly."""
        measured = measured_nodes(self.tree, self.ledger, self._exact)
        return np.ones(self.tree.n, bool) if measured is None else measured

    def reprocess(self, *, nonnegative: bool = False, integer: bool = False) -> Release:
        """The same noisy counts with other options for `values`. Costs no privacy.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(5), [3, 0, 2, 0], epsilon=1)
        >>> bool((r.reprocess(nonnegative=True).values >= 0).all())
        True
        """
        options = whole_options(self.tree, self.ledger, nonnegative, integer)
        other = Release(
            self.tree, self.noisy, self.ledger, self._exact, *options, self._threads,
            origin=with_options(self._origin, nonnegative=options[0], integer=options[1]),
        )  # fmt: skip
        shared = ("_post", "_laws", "estimate", "std_error")
        other.__dict__.update({k: x for k, x in self.__dict__.items() if k in shared})
        return other

    # ------------------------------------------------------------------ errors

    @cached_property
    def std_error(self) -> np.ndarray:
        """Standard error of `estimate` at every node, exactly.

        Infinite where only the sum of several siblings is known. The errors of values that were
        kept from being negative are others, and depend on the counts: see :meth:`bootstrap`.
        """
        error = np.sqrt(self._post.node_variance())
        error.flags.writeable = False
        return error

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals, one for every node.

        Each covers the true count with a probability of at least `level`, over the noise, up to
        the approximation described below. They belong to `estimate`, whatever options `values`
        were made with, and `values` of a non-negative release can lie outside; of such a release
        only the part that is not negative is returned.

        Notes
        -----
        The variance and the fourth cumulant of each estimate's error are exact; the quantile is
        that of the variance-gamma law which has both, exact for one Laplace noise and in the
        limit of many. Where noise is small, errors are multiples of large steps. The half-width is
        then made larger by half of a step, so that it reaches the next error that can occur.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> low, high = r.interval(0.95)
        >>> bool(((high - low) / r.std_error > 4).all())
        True
        """
        width = self._laws.node_half_widths(confidence("level", level))
        return self._bounded(self.estimate - width, np.add(self.estimate, width, out=width))

    def range_sum(self, ranges: Any) -> np.ndarray:
        """Sums of values over leaves ``start`` to ``stop - 1`` for each row of `ranges`.

        Leaves are counted in the order of ``tree.leaves_left_to_right``, in which every subtree is
        one stretch, NOT in that of ``tree.leaves``.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.complete(2, 3), [5, 8, 2, 0], epsilon=1, integer=True)
        >>> bool(r.range_sum([[0, 4]])[0] == r.values[0])
        True
        """
        from gmtree.queries import range_sum

        return range_sum(self.tree, self.values, ranges)

    def range_std_error(self, ranges: Any) -> np.ndarray:
        """Standard errors of sums of `estimate` over ranges of leaves; see `range_sum`."""
        return np.sqrt(self._post.range_variance(ranges))

    def range_interval(self, ranges: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals of sums over ranges; see `interval`."""
        from gmtree.queries import range_sum

        level = confidence("level", level)
        pairs = check.ranges("ranges", ranges, self.tree.n_leaves)
        centre = range_sum(self.tree, self.estimate, pairs)
        width = self._laws.range_half_widths(level, pairs)
        return self._bounded(centre - width, centre + width)

    def _bounded(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where values are not negative, neither are the ends."""
        if self.nonnegative:
            np.maximum(low, 0, out=low)
            np.maximum(high, 0, out=high)
        return low, high

    def bootstrap(self, runs: int = 200, rng: Any = None) -> BootstrapErrors:
        """Estimate bias and error of `values`, whatever options they were made with.

        For values that were kept from being negative, no exact formula is known, and `std_error`
        is not theirs. Here `values` take the place of the true counts: noise is added to them and
        taken out again as it was for the release, `runs` times, and the errors that this makes
        are summarised by node and by level. They are approximate: the true counts are others.
        This uses nothing but the release, so that it costs no privacy, and a seed is allowed.

        Parameters
        ----------
        runs : int
            How often, at most 100,000 times. The relative error of a root mean square error from
            200 runs is about 5 %.
        rng : int or numpy Generator, optional
            What :func:`numpy.random.default_rng` accepts.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(101), [0] * 90 + [5] * 10, epsilon=1, nonnegative=True)
        >>> errors = r.bootstrap(runs=20, rng=1)
        >>> errors.level_bias.shape, errors.rmse.shape
        ((2,), (101,))
        """
        from gmtree.privacy.bootstrap import bootstrap

        return bootstrap(self, runs, rng)

    @property
    def plan(self) -> Plan:
        """Errors of `estimate` by level, as :func:`plan` tells them before."""
        return Plan.of(self.tree, self.ledger, self._post.node_variance())

    @cached_property
    def _post(self) -> Consistency:
        return Consistency(self.tree, {"node": self._cumulants[0]}, self._threads)

    @cached_property
    def _cumulants(self) -> tuple[Any, Any]:
        """Variances and fourth cumulants of the noise."""
        return measurement_cumulants(self.tree, self.ledger, self._exact)

    @cached_property
    def _laws(self) -> ErrorLaws:
        return ErrorLaws(self._post, *self._cumulants)

    # ------------------------------------------------------------------ tables and files

    def to_frame(self, level: float = 0.95, *, kind: str | None = None) -> Any:
        """A frame with one row per node, of pandas, polars or pyarrow; see `Tree.to_frame`.

        Columns: ``node`` and ``parent`` (numbers; -1 above the root), ``depth``, the label of the
        node (``label``) or, for a tree made from named levels, of the node and all above it (one
        column each), ``value``, ``noisy`` (missing where not measured), ``estimate``, its standard
        error ``estimate_std_error``, and the ends ``estimate_low`` and ``estimate_high`` of its
        intervals at confidence `level`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> r.to_frame().columns.tolist()
        ['node', 'parent', 'depth', 'value', 'noisy', 'estimate', 'estimate_std_error',
         'estimate_low', 'estimate_high']
        """
        from gmtree.privacy.columns import to_frame

        return to_frame(self, level, kind)

    def plot(self, *, unit: str = "records", ax: Any = None) -> Axes:
        """Draw the noisy counts against the consistent values; returns matplotlib Axes.

        ``plan.plot()`` draws the errors by level.
        """
        from gmtree import plot

        return plot.noisy_against_consistent(
            self.tree, self.noisy, self.values, measured=self.measured, unit=unit, ax=ax
        )

    def _repr_html_(self) -> str:
        return preformatted(f"{self!r}\n\n{self.plan}")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a file, from which :meth:`load` makes it again.

        The file holds the noisy counts, the tree with its labels, the ledger, the options and
        the provenance: what is public already. ``.npz`` needs nothing else; ``.parquet`` needs
        pyarrow, and has one row per node that other programs can read, values, estimates and
        their standard errors included.
        """
        from gmtree.privacy import storage

        storage.save(self, path)

    def save_ledger(self, path: str | PathLike[str]) -> None:
        """Write ledger and provenance as JSON, to lie beside a table that you write yourself.

        :func:`gmtree.privacy.load_ledger` reads it.
        """
        from gmtree.privacy import storage

        storage.save_ledger(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Release:
        """Read a release that :meth:`save` wrote.

        A file that is damaged, or of another kind, is a ValueError, and so is one whose ledger
        understates what its noise costs on its tree. Nothing in a file is ever run. The checksum
        tells accidents, not forgery.

        Examples
        --------
        >>> import gmtree as gm, tempfile, os
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     r.save(os.path.join(folder, "release.npz"))
        ...     again = gm.Release.load(os.path.join(folder, "release.npz"))
        >>> bool((again.values == r.values).all()), again.ledger == r.ledger
        (True, True)
        """
        from gmtree.privacy import storage

        tree, noisy, ledger, exact, nonnegative, integer, origin = storage.load(path)
        options = whole_options(tree, ledger, nonnegative, integer)
        return cls(tree, noisy, ledger, exact, *options, origin=origin)


def _again(parts: tuple[Any, ...], origin: dict[str, Any] | None) -> Release:
    return Release(*parts, origin=origin)


def whole_options(tree: Tree, ledger: Ledger, nonnegative: Any, integer: Any) -> tuple[bool, bool]:
    """Whether values shall not be negative, and shall be whole; refused if noise is too large."""
    for name, value in (("nonnegative", nonnegative), ("integer", integer)):
        if not isinstance(value, (bool, np.bool_)):
            check.fail_type(name, f"must be True or False, not {value!r}.")
    largest = max(scale for scale in ledger.scales if scale is not None)
    counts = tree.n * ledger.workload.table_cells
    if integer and _REACH * largest * counts > largest_sum(tree):
        # Known beforehand, so that rounding never fails on account of what was drawn.
        check.fail("integer", f"must be False with noise as large as {float(largest):.3g}.")
    return bool(nonnegative), bool(integer)
