"""Tables at the leaves of a tree, published with differential privacy.

The way of a release is that of :mod:`gmtree.privacy.release`; what differs is what is measured: at
every node several *queries*, marginals of its table. Noise is added to all of them, and the best
estimate of all cells of all nodes is computed by :class:`gmtree.TableConsistency`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._text import preformatted, short
from gmtree.consistency.tables import TableConsistency
from gmtree.consistency.tables_exact import exact_marginal
from gmtree.privacy.account import Account
from gmtree.privacy.allocation import divide
from gmtree.privacy.budget import Budget
from gmtree.privacy.columns import INTERVAL
from gmtree.privacy.cumulants import noise_moments, query_variances
from gmtree.privacy.intervals import confidence, widest
from gmtree.privacy.ledger import Ledger
from gmtree.privacy.measuring import forget_locals, measure_tables
from gmtree.privacy.planning import Plan, workload_of
from gmtree.privacy.provenance import Drawing, with_options, with_tree
from gmtree.privacy.release import whole_options
from gmtree.privacy.workload import TableQuery
from gmtree.tree import Tree


def release_tables(
    tree: Tree,
    counts: Any,
    *,
    axes: Mapping[str, int],
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
    outside: Sequence[str] = (),
    account: Account | None = None,
    threads: int | None = None,
) -> TableRelease:
    """Publish tables of counts on a tree with differential privacy.

    Every query is measured at every node with exact discrete noise; the released tables are the
    consistent ones with the least error. The error of each query is never larger than that of its
    own measurement, and much smaller where others tell of the same records.

    Parameters
    ----------
    tree : Tree
        Public: chosen without looking at the data, as are `axes` and all options.
    counts : array of int, of shape (n_leaves, *lengths of the axes)
        True table of each leaf, in the order of ``tree.leaves``. A record is in one cell of one
        leaf. Negative counts count as 0, or are refused with ``neighbors="change_one"``.
    axes : mapping from name to length
        The axes of the table, such as ``{"sex": 2, "age": 4}``.
    queries : sequence of tuples
        Which marginals are measured: ``()`` is the total of a node, ``("sex",)`` its table by sex.
    epsilon, rho, delta, neighbors, max_contributions, max_per_leaf, mechanism, outside
        As in :func:`gmtree.privacy.allocate`. With ``neighbors="change_one"`` a record may move to
        another leaf, to another cell of its leaf, or both.
    shares : mapping from query to numbers, optional
        Relative shares of the budget: for each query one number for all levels, or one per level,
        the root's first. 0 is not measured. Default: all equal. See :func:`optimal_shares`.
    invariants : sequence, optional
        Nodes or levels whose *totals* are published exactly, as in :func:`gmtree.release`. If
        ``()`` is not among the queries, other totals are not measured.
    nonnegative, integer : bool
        Tables without negative cells, and of whole numbers with exact sums up the tree. Cells are
        rounded one by one, which would change the totals of `invariants`: `integer` is refused
        with them, before anything is charged or drawn, unless a table has one cell only.
    max_count : int, optional
        Public bound at which the cells of leaves are cut off. By default, and at most, 2^50
        divided by the height, the number of leaves and the number of cells.
    account : gmtree.privacy.Account, optional
        What the release is charged to before anything is drawn.
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

    From a frame with a row per record, for a public list of leaves and of the values of the axis:

    >>> import pandas as pd
    >>> people = pd.DataFrame({"town": ["b", "a", "b"], "sex": ["f", "f", "m"]})
    >>> towns = pd.Index(["a", "b", "c"], name="town")
    >>> found = people.groupby(["town", "sex"]).size().unstack(fill_value=0)
    >>> counts = found.reindex(index=towns, columns=["f", "m"], fill_value=0)
    >>> counts.to_numpy().tolist()  # leaves come in the order of the list that a tree is made of
    [[1, 0], [1, 1], [0, 0]]
    >>> tree = gm.Tree.from_levels(towns)
    >>> gm.release_tables(tree, counts.to_numpy(), axes={"sex": 2}, queries=[("sex",)], rho=1)
    TableRelease(Tree(n=4, internal=1, leaves=3, height=2), {sex: 2}, rho=1)
    """
    outer = sys.exc_info()[1]
    try:
        budget = Budget.of(
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            neighbors=neighbors,
            max_contributions=max_contributions,
            max_per_leaf=max_per_leaf,
            invariants=invariants,
            mechanism=mechanism,
            max_count=max_count,
            outside=outside,
        )
        allocation = divide(tree, budget, workload_of(budget, axes, queries), shares)
        ledger, exact = allocation.ledger, allocation.exact
        options = whole_options(tree, ledger, nonnegative, integer)
        # Refuses queries that leave a leaf undetermined: before anything is spent.
        post = TableConsistency(tree, dict(ledger.axes or ()), query_variances(tree, ledger, exact),
                                threads)  # fmt: skip
        _refuse_rounded_totals(post, options[1])
        draw = Drawing("release_tables", tree, allocation, account)
        noisy = measure_tables(tree, counts, allocation, draw.charge)
    except BaseException as error:
        forget_locals(error, outer)
        raise
    finally:
        # Tracebacks that print local variables must not print the true counts.
        del counts
    origin = draw.origin(nonnegative=options[0], integer=options[1])
    made = TableRelease(tree, noisy, ledger, exact, *options, threads, post=post, origin=origin)
    # Computed now, so that an error in it is seen where the budget is spent. Values without
    # negative cells are found by iteration; if that fails, the measurements must not be lost.
    made.estimate  # noqa: B018
    return made


class TableRelease:
    """What was published: noisy marginals, consistent tables, their errors, and the account.

    Made by :func:`release_tables` and :meth:`load`. All arrays have one row per node, in the tree's
    numbering, and are read-only.

    Attributes
    ----------
    tree : Tree
    axes : dict from name to length
    queries : tuple
    noisy : mapping from query to array of int64
        The measured marginals with noise: shape ``(n, *lengths of its axes)``. 0 where a level was
        not measured, the exact total at invariants.
    ledger : Ledger
        What was spent, with a line per level and query.
    nonnegative, integer : bool
        How `values` were made.
    """

    def __init__(
        self,
        tree: Tree,
        noisy: Mapping[TableQuery, np.ndarray],
        ledger: Ledger,
        exact: np.ndarray | None,
        nonnegative: bool,
        integer: bool,
        threads: int | None = None,
        *,
        post: TableConsistency | None = None,
        origin: dict[str, Any] | None = None,
    ) -> None:
        for table in noisy.values():
            table.flags.writeable = False
        self.tree, self.noisy, self.ledger = tree, MappingProxyType(dict(noisy)), ledger
        self.axes, self.queries = dict(ledger.axes or ()), tuple(noisy)
        self.nonnegative, self.integer = nonnegative, integer
        self._exact, self._threads, self._origin = exact, threads, origin
        if post is not None:
            self._post = post

    def __repr__(self) -> str:
        spent = f"{self.ledger.measure}={short(self.ledger.total, up=True)}"
        axes = ", ".join(f"{name}: {length}" for name, length in self.axes.items())
        options = [name for name in ("nonnegative", "integer") if getattr(self, name)]
        return f"TableRelease({', '.join([repr(self.tree), f'{{{axes}}}', spent, *options])})"

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self.nonnegative, self.integer, self._threads)
        parts = (self.tree, dict(self.noisy), self.ledger, self._exact, *options)
        return _again, (parts, self._origin)

    def _repr_html_(self) -> str:
        return preformatted(f"{self!r}\n\n{self.plan}")

    @cached_property
    def provenance(self) -> dict[str, Any] | None:
        """Where the release comes from; see :attr:`gmtree.Release.provenance`."""
        return with_tree(self._origin, self.tree)

    # ------------------------------------------------------------------ values

    @cached_property
    def values(self) -> np.ndarray:
        """Consistent tables of shape (n, *shape): each parent the sum of its children."""
        if not (self.nonnegative or self.integer):
            return self.estimate
        x = self._post.project(self.noisy, nonnegative=self.nonnegative, integer=self.integer)
        x.flags.writeable = False
        return x

    @cached_property
    def estimate(self) -> np.ndarray:
        """The best unbiased estimate of all cells, which standard errors and intervals belong to.

        These are the consistent tables without `nonnegative` and `integer`.
        """
        x = self._post.project(self.noisy)
        x.flags.writeable = False
        return x

    def marginal(self, query: TableQuery) -> np.ndarray:
        """The `values` of any query, measured or not: shape ``(n, *lengths of its axes)``."""
        return self._post.marginal(self.values, query)

    def reprocess(self, *, nonnegative: bool = False, integer: bool = False) -> TableRelease:
        """The same noisy tables with other options for `values`. Costs no privacy.

        `integer` is refused for a release with invariants, as in :func:`release_tables`.
        """
        options = whole_options(self.tree, self.ledger, nonnegative, integer)
        _refuse_rounded_totals(self._post, options[1])
        other = TableRelease(
            self.tree, self.noisy, self.ledger, self._exact, *options, self._threads,
            origin=with_options(self._origin, nonnegative=options[0], integer=options[1]),
        )  # fmt: skip
        shared = ("_post", "estimate")
        other.__dict__.update({k: x for k, x in self.__dict__.items() if k in shared})
        return other

    # ------------------------------------------------------------------ errors

    def std_error(self, query: TableQuery) -> np.ndarray:
        """Standard error of each cell of a query of `estimate`, at every node, exactly.

        All cells of a query at a node have the same. Infinite where only sums of cells are known.
        """
        return np.sqrt(self._post.node_variance(query))

    def interval(self, query: TableQuery, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals of all cells of a query.

        Each covers the true count with a probability of at least `level`, over the noise. They
        belong to `estimate`; of a non-negative release only the part that is not negative is
        returned. Exact for Gaussian noise, but for its steps of whole numbers; for Laplace noise
        the widest is taken that a sum of such noises with the same variance can need.

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
        level = confidence("level", level)
        variance = self._post.node_variance(query)
        width = widest(level, variance, *self._noise_limits)
        centre = self._post.marginal(self.estimate, query)
        width = width.reshape(-1, *(1,) * (centre.ndim - 1))
        low, high = centre - width, centre + width
        if self.nonnegative:
            np.maximum(low, 0, out=low)
            np.maximum(high, 0, out=high)
        return low, high

    @cached_property
    def _noise_limits(self) -> tuple[float, float]:
        """The largest excess kurtosis of any noise, and the smallest variance."""
        scales = {scale for scale in self.ledger.scales if scale is not None}
        moments = [noise_moments(self.ledger.mechanism, scale) for scale in scales]
        return max(k / s**2 for s, k in moments), min(s for s, _ in moments)

    @property
    def plan(self) -> Plan:
        """Errors of `estimate` by level and query, as :func:`plan` tells them before."""
        return Plan.of_tables(self.tree, self.ledger, self._post)

    @cached_property
    def _post(self) -> TableConsistency:
        variances = query_variances(self.tree, self.ledger, self._exact)
        return TableConsistency(self.tree, self.axes, variances, self._threads)

    # ------------------------------------------------------------------ frames and files

    def to_frame(
        self, query: TableQuery = (), level: float = 0.95, *, kind: str | None = None
    ) -> Any:
        """A frame with one row per node, and for each cell of a query its value and interval.

        The query is the total of each node unless you name axes.

        Columns are named by the cell: ``value_0_2``, ``estimate_0_2``, ``estimate_low_0_2`` and
        ``estimate_high_0_2`` for the first and third value of its two axes; plain ``value`` and so
        on for the total. Intervals and ``estimate_std_error``, which is the same for all cells,
        belong to `estimate`; with `nonnegative` or `integer` it is not `value`.

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
        if kind is not None:
            check.one_of("kind", kind, ("pandas", "polars", "pyarrow"))
        low, high = self.interval(query, level)
        tables = {
            "value": self.marginal(query),
            "estimate": self._post.marginal(self.estimate, query),
            **dict(zip(INTERVAL, (low, high), strict=True)),
        }
        columns: dict[str, np.ndarray] = {}
        for cell in np.ndindex(*low.shape[1:]):
            for name, table in tables.items():
                columns["_".join([name, *map(str, cell)])] = table[(slice(None), *cell)]
        columns["estimate_std_error"] = self.std_error(query)
        return self.tree.to_frame(kind=kind, **columns)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a ``.npz`` file, from which :meth:`load` makes it again.

        It holds the noisy tables, the tree with its labels, the ledger, the options and the
        provenance: what is public already.
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
    def load(cls, path: str | PathLike[str]) -> TableRelease:
        """Read a release that :meth:`save` wrote; any other file is a ValueError.

        The ledger is checked against the tree, as in :meth:`gmtree.Release.load`.

        Examples
        --------
        >>> import gmtree as gm, tempfile, os
        >>> r = gm.release_tables(
        ...     gm.shapes.star(3), [[30, 20], [10, 40]], axes={"sex": 2}, queries=[("sex",)], rho=1
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     r.save(os.path.join(folder, "tables.npz"))
        ...     again = gm.TableRelease.load(os.path.join(folder, "tables.npz"))
        >>> bool((again.values == r.values).all()), again.ledger == r.ledger
        (True, True)
        """
        from gmtree.privacy import storage

        tree, noisy, ledger, exact, nonnegative, integer, origin = storage.load_tables(path)
        options = whole_options(tree, ledger, nonnegative, integer)
        return cls(tree, noisy, ledger, exact, *options, origin=origin)


def _refuse_rounded_totals(post: TableConsistency, integer: bool) -> None:
    """Refuse whole cells where totals are published exactly, which their sums would not be."""
    if integer and exact_marginal(post) is not None:
        check.fail(
            "integer",
            "must be False with invariants: cells are rounded one by one, and their sums would "
            "differ from the totals that are published exactly. Leave out `integer` and round the "
            "tables yourself, or leave out the invariants.",
        )


def _again(parts: tuple[Any, ...], origin: dict[str, Any] | None) -> TableRelease:
    return TableRelease(*parts, origin=origin)
