"""Tables at the leaves of a tree, published with differential privacy.

The steps are those of :mod:`gmtree.privacy.publishing.release`, but each node has a table, of which
several *queries* (marginals) are measured. Noise is added to all of them, and the best estimate of
all cells of all nodes is computed by :class:`gmtree.TableConsistency`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.tables import TableConsistency
from gmtree.consistency.tables.exact import exact_marginal
from gmtree.privacy.accounting.account import Account
from gmtree.privacy.accounting.workload import TableQuery, lengths_of
from gmtree.privacy.files import storage
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.privacy.planning.plan import Plan
from gmtree.privacy.publishing.bootstrap import BootstrapErrors, bootstrap
from gmtree.privacy.publishing.columns import of_query
from gmtree.privacy.publishing.cumulants import solver_of_tables
from gmtree.privacy.publishing.intervals import proper_confidence, widest
from gmtree.privacy.publishing.measuring import measure_tables
from gmtree.privacy.publishing.publish import Published, publish_given
from gmtree.tree import Tree


def release_tables(
    tree: Tree,
    counts: Any,
    *,
    axes: Mapping[str, Any],
    queries: Sequence[TableQuery],
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = None,
    shares: Mapping[TableQuery, Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    max_per_leaf: int | None = None,
    invariants: Any = (),
    mechanism: str | None = None,
    nonnegative: bool = False,
    integer: bool = False,
    max_count: int | None = None,
    disclosures: Sequence[str] = (),
    structural_zeros: Any = None,
    account: Account | None = None,
    threads: int | None = None,
) -> TableRelease:
    """Publish tables of counts on a tree with differential privacy.

    Every query is measured at every node with exact discrete noise. The released tables are the
    consistent tables with the least error. The error of each query is never larger than the error
    of its own measurement, and is much smaller if further queries measure the same records.

    Parameters
    ----------
    tree : Tree
        Public: chosen without looking at the data, as are `axes` and all options.
    counts : array of int, of shape (n_leaves, *lengths of the axes)
        True table of each leaf, in the order of ``tree.leaves``. A record is in one cell of one
        leaf. :func:`gmtree.release_frame` with `axes` counts the records of a DataFrame, and at
        most `max_contributions` of them per person. Negative entries count as 0, or are refused
        with ``neighbors="change_one"``.
    axes : mapping from name to labels or length
        The axes of the table, such as ``{"sex": ["f", "m"], "age": 4}``. Labels are public; they
        name the columns of :meth:`TableRelease.to_frame`.
    queries : sequence of tuples
        The marginals to measure: ``()`` is the total of a node, ``("sex",)`` its table by sex.
    epsilon, rho, delta, neighbors, max_contributions, max_per_leaf, mechanism, disclosures
        As in :func:`gmtree.release`. With ``neighbors="change_one"`` a record may move to another
        leaf, to another cell of its leaf, or both.
    shares : mapping from query to numbers, optional
        Relative shares of the budget: for each query one number for all levels, or one per level,
        the root's first. Share 0 means not measured. Default: all equal. See
        :func:`optimal_shares`.
    invariants : sequence, optional
        Nodes or levels whose *totals* are published exactly, as in :func:`gmtree.release`. If
        ``()`` is not among the queries, other totals are not measured.
    nonnegative, integer : bool
        Whether to keep cells at least 0, and whether to round them to whole numbers with exact sums
        up the tree. Rounding each cell would change the totals of `invariants`. So `integer` is
        refused together with `invariants`, before anything is charged or drawn, unless a table has
        only one cell.
    max_count : int, optional
        Public bound at which the cells of leaves are cut off. By default, and at most, 2^50
        divided by the height, the number of leaves and the number of cells.
    structural_zeros : array of bool of the shape of a table, optional
        Marks cells that cannot occur at any leaf, such as married children. This is public
        knowledge: these cells are published as 0, get no noise and cost nothing, and other values
        become more precise. Records in them are not counted, without a message, because a message
        would depend on the data. Not allowed with ``neighbors="change_one"``.
    account : gmtree.privacy.Account, optional
        Account that is charged. It refuses a release that exceeds its budget before anything is
        drawn. If it has a file, the noisy counts are stored beside it until the release is saved
        (:meth:`gmtree.privacy.Account.unfinished`).
    threads : int, optional
        As in :class:`TableConsistency`.

    Returns
    -------
    TableRelease

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    >>> counts = [[150, 154], [180, 192], [15, 14]]
    >>> r = gm.release_tables(tree, counts, axes={"sex": 2}, queries=[(), ("sex",)], rho=1)
    >>> r
    TableRelease(Tree(n=6, internal=3, leaves=3, height=3), {sex: 2}, rho=1)
    >>> r.values.shape, r.std_error(()).round(2)
    ((6, 2), array([1.04, 0.96, 0.88, 1.11, 1.11, 0.88]))
    >>> bool(abs(r.marginal(())[0] - r.values[3:].sum()) < 1e-9)
    True
    """
    try:
        return publish_given(TableRelease, locals())
    finally:
        # Drop the true counts, so that tracebacks that print local variables cannot leak them.
        del counts


class TableRelease(Published[TableConsistency]):
    """A release of tables: noisy marginals, consistent tables, their errors, and the ledger.

    Made by :func:`release_tables` and :meth:`load`. All arrays have one row per node, in the tree's
    numbering, and are read-only.

    Attributes
    ----------
    tree : Tree
    axes : dict from name to length
    queries : tuple
    noisy : mapping from query to array of int64
        The measured marginals with noise: shape ``(n, *lengths of its axes)``. Entries are 0 at
        levels that were not measured, and exact totals at invariants.
    ledger : Ledger
        The privacy loss of the release, with a line per level and query.
    nonnegative, integer : bool
        The options with which `values` are computed.
    """

    noisy: Mapping[TableQuery, np.ndarray]
    _function, _form = "release_tables", storage.TABLES_FORMAT
    _solver, _measure = staticmethod(solver_of_tables), staticmethod(measure_tables)

    def __init__(
        self, tree: Tree, noisy: Mapping[TableQuery, np.ndarray], *parts: Any, **options: Any
    ) -> None:
        for table in noisy.values():
            table.flags.writeable = False
        super().__init__(tree, MappingProxyType(dict(noisy)), *parts, **options)
        self.axes, self.queries = lengths_of(self.ledger.axes), tuple(noisy)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}: {length}" for name, length in self.axes.items())
        return self._describe(f"{{{axes}}}")

    def _picklable(self) -> Any:
        return dict(self.noisy)

    @staticmethod
    def _refuse(solver: TableConsistency, integer: bool) -> None:
        """Refuse whole numbers together with exact totals, which rounding cells would change."""
        if integer and exact_marginal(solver._problem) is not None:
            check.fail(
                "integer",
                "must be False with invariants: cells are rounded one by one, and their sums would "
                "differ from the totals that are published exactly. Leave out `integer` and round "
                "the tables yourself, or leave out the invariants.",
            )

    def _compute(self) -> None:
        # Non-negative tables are found by iteration; if that fails, the noisy counts must not be
        # lost.
        self.estimate  # noqa: B018

    # ------------------------------------------------------------------ values

    def marginal(self, query: TableQuery) -> np.ndarray:
        """The `values` of any query: an array of shape ``(n, *lengths of its axes)``.

        Parameters
        ----------
        query : tuple of str
            Names of axes. The query need not be measured.
        """
        return self._post.marginal(self.values, query)

    # ------------------------------------------------------------------ errors

    def std_error(self, query: TableQuery) -> np.ndarray:
        """Standard error of each cell of a query of `estimate`, at every node, exactly.

        It is equal for all cells of a query at a node, and infinite if only sums of cells are
        known. With structural zeros it is an upper bound for the other cells, because it ignores
        the precision that the zeros add.

        Parameters
        ----------
        query : tuple of str
            Names of axes. The query need not be measured.

        Returns
        -------
        array by node
        """
        return np.sqrt(self._post.node_variance(query))

    def interval(
        self, query: TableQuery, confidence: float = 0.95
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals of all cells of a query.

        Each interval covers the true count with a probability of at least `confidence`, over the
        noise. Intervals belong to `estimate`; for a non-negative release, negative ends are raised
        to 0. They are exact for Gaussian noise, apart from its steps of whole numbers. For Laplace
        noise they are wide enough for any sum of such noises with this variance.

        Parameters
        ----------
        query : tuple of str
            Names of axes. The query need not be measured.
        confidence : float
            Above 0 and below 1.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release_tables(
        ...     gm.shapes.star(3), [[30, 20], [10, 40]], axes={"sex": 2}, queries=[("sex",)], rho=1
        ... )
        >>> low, high = r.interval(("sex",))
        >>> low.shape, bool((high - low > 3.9 * r.std_error(("sex",))[:, None]).all())
        ((3, 2), True)
        """
        confidence = proper_confidence(confidence)
        variance = self._post.node_variance(query)
        width = widest(confidence, variance, *self._noise_limits)
        centre = self._post.marginal(self.estimate, query)
        width = width.reshape(-1, *(1,) * (centre.ndim - 1))
        width = np.where(self.ledger._workload.possible_cells(query), width, 0)
        return self._bounded(centre - width, centre + width)

    def bootstrap(self, runs: int = 200, rng: Any = None) -> dict[TableQuery, BootstrapErrors]:
        """Estimate bias and error of `values` for each query; see :meth:`Release.bootstrap`.

        This is how to find the errors of non-negative and of whole values, and, with structural
        zeros, those of single cells. It costs no privacy, and a seed is allowed.

        Parameters
        ----------
        runs : int
            Number of draws, at most 100,000. Each one computes all tables again.
        rng : int or numpy Generator, optional
            Seed or generator, as for :func:`numpy.random.default_rng`.

        Returns
        -------
        dict from query to BootstrapErrors

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release_tables(
        ...     gm.shapes.star(3), [[30, 0], [0, 40]], axes={"sex": 2}, queries=[(), ("sex",)],
        ...     rho=1, nonnegative=True,
        ... )
        >>> errors = r.bootstrap(runs=20, rng=1)
        >>> errors[("sex",)].rmse.shape, errors[()].level_bias.shape
        ((3, 2), (2,))
        """
        return bootstrap(self, runs, rng)

    def _views(self, x: np.ndarray) -> dict[TableQuery, np.ndarray]:
        return {query: self._post.marginal(x, query) for query in self.queries}

    @cached_property
    def _noise_limits(self) -> tuple[float, float]:
        """The largest excess kurtosis of any noise, and the smallest variance."""
        scales = {scale for scale in self.ledger.scales if scale is not None}
        moments = [MECHANISMS[self.ledger.mechanism].moments(scale) for scale in scales]
        return max(k / s**2 for s, k in moments), min(s for s, _ in moments)

    @property
    def plan(self) -> Plan:
        """Errors of `estimate` by level and query, as :func:`plan` predicts them."""
        variances = [self._post.node_variance(query) for query in self.queries]
        return Plan._of(self.tree, self.ledger, variances)

    # ------------------------------------------------------------------ frames and files

    def to_frame(
        self, query: TableQuery = (), confidence: float = 0.95, *, backend: str | None = None
    ) -> Any:
        """Return a DataFrame with one row per node, and value and interval of each cell of a query.

        By default, the query is the total of each node.

        Columns are named by the labels of the cell: ``value_f_old``, ``estimate_f_old``,
        ``estimate_low_f_old`` and ``estimate_high_f_old``. Axes without labels use numbers from 0,
        and the columns of the total have no suffix. Intervals and ``estimate_std_error``, which is
        equal for all cells, belong to `estimate`, which differs from `value` with `nonnegative` or
        `integer`.

        Parameters
        ----------
        query : tuple of str
            Names of axes. The query need not be measured.
        confidence : float
            Above 0 and below 1.
        backend : {'pandas', 'polars', 'pyarrow'}, optional
            Library of the DataFrame, as in :meth:`gmtree.Tree.to_frame`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release_tables(
        ...     gm.shapes.star(3), [[30, 20], [10, 40]], axes={"sex": 2}, queries=[("sex",)], rho=1
        ... )
        >>> r.to_frame().columns.tolist()  # doctest: +NORMALIZE_WHITESPACE
        ['node', 'parent', 'depth', 'value', 'estimate', 'estimate_low', 'estimate_high',
         'estimate_std_error']
        """
        columns = of_query(self, query, proper_confidence(confidence))
        return self.tree.to_frame(backend=backend, **columns)
