"""Tables at the nodes of a tree, of which several marginals are measured.

Each node has a table of cells with the same axes, each parent's table is the sum of its
children's, and at each node some *queries* are measured: a query keeps some axes and sums over the
others. The best linear unbiased estimate of all cells splits into plain tree problems:

Along each axis a table is the sum of its mean and its contrasts. So the space of tables is the
orthogonal sum of spaces E_T, one for each set T of axes: contrasts along the axes in T, means along
the others. A query that contains T measures E_T evenly in all directions, and any other query does
not measure it at all. So in E_T each node has one effective measurement, the mean of those queries
weighted by their precisions, and the columns of E_T are right-hand sides of one problem of
:class:`gmtree.Consistency`, with variances that depend on T alone. Written as sums and contrasts,
all these problems together have as many numbers per node as the table has cells, and one sweep up
and one down solves them all.

In units of the sum over all axes that are not in T, a query q with variance s measures E_T with
variance ``s * product of the lengths of the axes in q but not in T``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import tables as kernels
from gmtree.consistency import tables_exact
from gmtree.consistency.contrasts import Axes, Query, contrast, one_cell
from gmtree.consistency.factor import Factor, checked_variances
from gmtree.consistency.projection import Consistency
from gmtree.consistency.rounding import check_how, round_consistent
from gmtree.consistency.splitting import NonnegativeInfo, Splitting
from gmtree.consistency.stacked import Stacked, with_work
from gmtree.tree import Tree
from gmtree.tree.families import Families

# Columns that are rounded to whole numbers at a time: what one or two cache lines hold.
ROUNDED_TOGETHER = 16


class TableConsistency:
    """Optimal consistent tables at the nodes of a tree, from any set of measured marginals.

    The constructor does what depends on the tree and the variances only; :meth:`project` may
    then be called for any number of measurements.

    Parameters
    ----------
    tree : Tree
    axes : mapping from name to length
        The axes of the table that each node has, such as ``{"sex": 2, "age": 4}``.
    variance : mapping from query to variance
        A query is a tuple of names of axes, in any order: ``()`` is the total of a node,
        ``("sex",)`` the marginal by sex, that of all axes the whole table. All cells of a query
        have the same variance at a node: one number for all nodes, one per node, or one per level
        from the root down. 0 marks a query that is known exactly, inf one that was not measured
        at that node. Queries that are not named are not measured.
    threads : int, optional
        Threads that share a sweep over large tables; by default the cores at hand. Results do not
        depend on it, to the last bit.

    Notes
    -----
    The result is the best linear unbiased estimate (generalised least squares) of all cells of all
    nodes from all measurements, exact to rounding, in time proportional to the number of cells.
    Beyond measurements and result it takes a table in float64 for each internal node, and a few
    numbers per node for each set of axes.

    Where the measurements determine the sum of several cells only, it is split evenly: a
    set of contrasts that no query measures at a leaf or anywhere above it is zero there, and
    the variance of cells that depend on it is infinite. A leaf whose total is not measured, by any
    query, anywhere on its path to the root could have any value and is refused.

    *Hierarchies of attributes* are nested axes. Ages from 0 to 99, measured by decade and by single
    year, are two axes ``{"decade": 10, "year": 10}`` of which the second is the year within the
    decade; the queries are ``("decade",)`` and ``("decade", "year")``, and a table by single year
    of shape (n, 100) is reshaped to (n, 10, 10). Each level must divide the one above evenly.

    Examples
    --------
    >>> import numpy as np, gmtree as gm
    >>> tree = gm.Tree.from_parents([-1, 0, 0])
    >>> tables = gm.TableConsistency(tree, {"sex": 2}, {(): 1.0, ("sex",): 1.0})
    >>> total = np.array([10.0, 4.0, 5.0])
    >>> by_sex = np.array([[5.0, 6.0], [2.0, 3.0], [3.0, 2.0]])
    >>> x = tables.project({(): total, ("sex",): by_sex})
    >>> x.round(3)
    array([[4.667, 5.333],
           [1.667, 3.   ],
           [3.   , 2.333]])
    >>> tables.marginal(x, ()).round(3)
    array([10.   ,  4.667,  5.333])
    >>> tables.node_variance(()).round(3)
    array([0.444, 0.444, 0.444])
    """

    def __init__(
        self,
        tree: Tree,
        axes: Mapping[Any, int],
        variance: Mapping[Any, Any],
        threads: int | None = None,
    ) -> None:
        check.instance("tree", tree, Tree)
        self.tree = tree
        self._threads = check.threads("threads", threads)
        self._axes = Axes(axes)
        self.axes, self.shape, self._spaces = self._axes.names, self._axes.shape, self._axes.spaces
        # A query that measures every space of a smaller one comes first and writes first.
        named = sorted(self._named(variance).items(), key=lambda item: -len(item[0]))
        self._queries = [self._axes.measured(name, kept) for kept, (name, _) in named]
        self._precision = np.empty((tree.n, len(named)))
        for q, (_, (name, given)) in enumerate(named):
            with np.errstate(divide="ignore"):
                self._precision[:, q] = 1 / checked_variances(tree, given, f"query {name!r}")
        self._s = np.empty((tree.n, len(self._spaces)))
        self._unknown: list[np.ndarray | None] = []
        factors = [self._factor(k) for k in range(len(self._spaces))]
        first = [space.start for space in self._spaces] + [self._spaces[-1].stop]
        self._stacked = Stacked.of(tree, factors, first)
        self._space_variances: dict[int, np.ndarray] = {}

    # ------------------------------------------------------------------ stage 1

    def _named(self, variance: Mapping[Any, Any]) -> dict[tuple[int, ...], tuple[Query, Any]]:
        """The given variances by the axes of their queries."""
        found: dict[tuple[int, ...], tuple[Query, Any]] = {}
        for kept, name, given in self._axes.by_query("variance", variance):
            found[kept] = (name, given)
        if not found:
            check.fail("variance", "must have at least one query.")
        return found

    def _factor(self, k: int) -> Factor | None:
        """Stage 1 of one space; None where nothing measures it."""
        tree, s = self.tree, self._s[:, k]
        precision = np.zeros(tree.n)
        for q, query in enumerate(self._queries):
            for place in np.flatnonzero(query.blocks == k):
                precision += query.factor[place] * self._precision[:, q]
        with np.errstate(divide="ignore"):
            np.divide(1, precision, out=s)
        self._unknown.append(None)
        if self._spaces[k].axes and np.isinf(s[tree.root]):
            unmeasured = np.isinf(s).astype(np.int64)
            _sweep.propagate(tree._layout, unmeasured, unmeasured)
            never = (unmeasured == tree.depth) & (tree.child_count == 0)
            if never.any():
                # Held at zero; what depends on it has an infinite variance.
                s[never] = 0
                self._unknown[k] = tree.aggregate(never[tree.leaves].astype(np.int64)) > 0
                if never.sum() == tree.n_leaves:
                    return None
        return Factor.of(tree, {"node": s}, self._threads)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}: {length}" for name, length in self.axes.items())
        queries = ", ".join(str(query.name) for query in self._queries)
        return f"TableConsistency({self.tree!r}, {{{axes}}}, {queries})"

    # ------------------------------------------------------------------ projection

    @overload
    def project(
        self,
        measurements: Mapping[Any, Any],
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        out: np.ndarray | None = None,
        return_info: Literal[False] = False,
        rng: np.random.Generator | int | None = None,
        tolerance: float = 1e-6,
        iterations: int = 5000,
        start: NonnegativeInfo | None = None,
    ) -> np.ndarray: ...

    @overload
    def project(
        self,
        measurements: Mapping[Any, Any],
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        out: np.ndarray | None = None,
        return_info: Literal[True],
        rng: np.random.Generator | int | None = None,
        tolerance: float = 1e-6,
        iterations: int = 5000,
        start: NonnegativeInfo | None = None,
    ) -> tuple[np.ndarray, NonnegativeInfo]: ...

    @overload
    def project(
        self,
        measurements: Mapping[Any, Any],
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        out: np.ndarray | None = None,
        return_info: bool,
        rng: np.random.Generator | int | None = None,
        tolerance: float = 1e-6,
        iterations: int = 5000,
        start: NonnegativeInfo | None = None,
    ) -> np.ndarray | tuple[np.ndarray, NonnegativeInfo]: ...

    def project(
        self,
        measurements: Mapping[Any, Any],
        *,
        nonnegative: bool = False,
        integer: bool | str = False,
        out: np.ndarray | None = None,
        return_info: bool = False,
        rng: np.random.Generator | int | None = None,
        tolerance: float = 1e-6,
        iterations: int = 5000,
        start: NonnegativeInfo | None = None,
    ) -> np.ndarray | tuple[np.ndarray, NonnegativeInfo]:
        """The consistent tables closest to the measurements.

        Parameters
        ----------
        measurements : mapping from query to array
            For each query of `variance` one table per node: shape ``(n,)`` for ``()``, and
            ``(n, length of its first axis, ...)`` for others, axes in the order in which the query
            names them. Entries where the query was not measured are ignored. If all are float32,
            so is the result. Totals ``()`` with labels of their own, such as a Series of pandas,
            are brought into the order of the nodes; other tables with an index of labels are
            refused.
        nonnegative : bool
            Among the tables without negative cells. Found by a splitting method; see Notes.
        integer : bool or "random"
            Round to whole numbers (int64): every cell of every node becomes the floor or the
            ceiling of its optimum, and sums up the tree are exact, cell by cell, as in
            :meth:`gmtree.Consistency.project`. The marginals of a node are sums of its rounded
            cells: a sum of m cells moves by less than m, and by about ``sqrt(m / 12)`` as a rule.
            So it is refused where a marginal is known exactly (variance 0) and the cells it sums
            are not: round the tables yourself, or give that marginal a small variance.
        out : array of shape (n, *shape), optional
            Where to put the result.
        return_info : bool
            With `nonnegative`: also return a :class:`NonnegativeInfo`, which bounds how far the
            result can be from the optimum.
        rng : optional
            Random generator or seed for ``integer="random"``.
        tolerance : float
            With `nonnegative`: the largest `distance` of the result from the optimum, in
            standard deviations of any measured value.
        iterations : int
            With `nonnegative`: how many steps to take at most before giving up with an error.
        start : NonnegativeInfo, optional
            With `nonnegative`: the info of an earlier call with similar measurements, from whose
            result to begin.

        Returns
        -------
        array of shape (n, *shape), or (array, info)

        Notes
        -----
        Without negative cells the problem no longer splits up by contrasts. It is solved by the
        alternating direction method of multipliers on the exact solver: see
        ``gmtree/consistency/splitting.py``. The result has no negative cell, and its sums are
        consistent to rounding; values known exactly are kept to within `violation`. It comes with a
        certificate: the objective is at most `gap` above that of the optimum. If the
        tolerance is not reached there is an error rather than a result.
        """
        check_how(integer)
        check.flag("nonnegative", nonnegative)
        check.flag("return_info", return_info)
        if not nonnegative and (return_info or start is not None):
            name = "return_info" if return_info else "start"
            check.fail(
                name, "belongs to nonnegative=True; without bounds there is one exact solve."
            )
        if integer:
            tables_exact.refuse_exact_marginals(self)
        ys = self._measurements(measurements)
        shape, size = (self.tree.n, *self.shape), int(np.prod(self.shape))
        single = all(y.dtype == np.float32 for y in ys) and not integer
        dtype = np.dtype(np.float32 if single else np.float64)
        direct = False
        if out is not None:
            check.output("out", out, shape, np.int64 if integer else dtype)
            # The result is written before it can be told whether exact values contradict.
            direct = (
                out.flags.c_contiguous and not (nonnegative or integer or self._can_contradict)
                and not any(np.may_share_memory(out, y) for y in ys)
            )  # fmt: skip
        flat = (self.tree.n, size)
        if direct and out is not None:
            x = out.reshape(flat)
        else:
            x = np.empty(flat, np.float64 if nonnegative else dtype)
        self._solve(ys, x)
        info = None
        if nonnegative:
            x, info = self._nonnegative(ys, x, tolerance, iterations, start)
        if integer:
            x = self._round(x, integer, rng)
        result = x.reshape(shape).astype(np.int64 if integer else dtype, copy=False)
        if out is not None and not direct:
            np.copyto(out, result)
        result = result if out is None else out
        return (result, info) if return_info and info is not None else result

    # ------------------------------------------------------------------ cells not below zero

    def _nonnegative(
        self,
        ys: list[np.ndarray],
        x: np.ndarray,
        tolerance: float,
        iterations: int,
        start: NonnegativeInfo | None,
    ) -> tuple[np.ndarray, NonnegativeInfo]:
        tolerance = check.real("tolerance", tolerance)
        if tolerance <= 0:
            check.fail("tolerance", f"must be positive, not {tolerance}.")
        most = check.count("iterations", iterations, least=1)
        for q, (query, y) in enumerate(zip(self._queries, ys, strict=True)):
            bad = np.flatnonzero(np.isinf(self._precision[:, q]) & (y < 0).any(axis=1))
            if bad.size:
                check.fail(
                    "measurements",
                    "must not be negative where known exactly (variance 0), with nonnegative=True; "
                    f"query {query.name!r} at node {bad[0]} has {y[bad[0]].min()}.",
                )
        if start is not None:
            shape = (self.tree.n_leaves, x.shape[1])
            if not isinstance(start, NonnegativeInfo) or start.state[0].shape != shape:
                check.fail("start", "must be the info of an earlier call for the same tables.")
        info = Splitting(self, ys).run(x, tolerance, most, start)
        return x, info

    @property
    def _whole_query(self) -> int | None:
        """Which query is the whole table."""
        return 0 if len(self._queries[0].axes) == len(self.shape) else None

    def _with_leaf_precision(self, more: np.ndarray) -> TableConsistency:
        """The same problem with a further measurement of the whole table at the leaves."""
        variance: dict[Query, Any] = {tuple(self.axes): np.full(self.tree.n, np.inf)}
        with np.errstate(divide="ignore"):
            for q, query in enumerate(self._queries):
                name = tuple(self.axes) if q == self._whole_query else query.name
                variance[name] = 1 / self._precision[:, q]
            whole = variance[tuple(self.axes)]
            whole[self.tree.leaves] = 1 / (1 / whole[self.tree.leaves] + more)
        by_node = {query: {"node": s} for query, s in variance.items()}
        return TableConsistency(self.tree, self.axes, by_node, self._threads)

    def _measurements(self, measurements: Mapping[Any, Any]) -> list[np.ndarray]:
        """The table of each query as (n, cells), in the order of `_queries`."""
        given: dict[tuple[int, ...], np.ndarray] = {}
        known = {query.axes: q for q, query in enumerate(self._queries)}
        for kept, name, value in self._axes.by_query("measurements", measurements):
            if kept not in known:
                check.fail("measurements", f"must have a variance; query {name!r} has none.")
            if kept:
                check.refuse_labels("measurements", value)
            else:
                value = self.tree._aligned("measurements", value)
            a = check.array("measurements", value)
            in_order = self._axes.in_order("measurements", name)
            shape = (self.tree.n, *(self.shape[axis] for axis in in_order))
            if a.shape != shape:
                check.fail(
                    "measurements",
                    f"must have one table per node; query {name!r} must have shape {shape}, "
                    f"not {a.shape}.",
                )
            # Back to ascending axes, if the query names them in another order.
            a = a.transpose(0, *(1 + np.argsort(in_order))).reshape(self.tree.n, -1)
            a = check.values("measurements", a, self.tree.n)
            self._refuse_not_finite(known[kept], name, a)
            given[kept] = a
        for query in self._queries:
            if query.axes not in given:
                check.fail("measurements", f"must have every query; {query.name!r} is missing.")
        return [given[query.axes] for query in self._queries]

    def _refuse_not_finite(self, q: int, name: Query, y: np.ndarray) -> None:
        if y.dtype.kind != "f":
            return
        with np.errstate(over="ignore", invalid="ignore"):
            # Finite if all are, and cheaper than a mask; where a query was not measured, its
            # entries do not matter.
            if np.isfinite(np.sum(y)):
                return
        bad = ~np.isfinite(y).all(axis=1) & (self._precision[:, q] > 0)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            value = y[i][~np.isfinite(y[i])][0]
            check.fail(
                "measurements",
                f"must be finite where the variance is; query {name!r} at node {i} has {value}.",
            )

    def _solve(self, ys: list[np.ndarray], x: np.ndarray, run: _sweep.Run | None = None) -> None:
        """The optimum into `x` of shape (n, cells)."""
        if run is None:
            with _sweep.team(self._stacked.layout, self._threads) as run:
                return self._solve(ys, x, run)
        b = self._stacked.workspace(x.shape[1])
        self._load(run, ys, x)
        self._stacked.up(run, x, b)
        tables_exact.refuse_contradictions(self, ys, x, b)
        lengths = np.array(self.shape, np.int64)
        self._stacked.down_to_cells(run, lengths, self._axes.columns, x, b)

    def _load(self, run: _sweep.Run, ys: list[np.ndarray], x: np.ndarray) -> None:
        """The effective measurement of each node in each space, as columns of `x`."""
        written = np.zeros(len(self._spaces), bool)
        for q, (query, y) in enumerate(zip(self._queries, ys, strict=True)):
            earlier = [np.isin(query.blocks, other.blocks) for other in self._queries[:q]]
            before = np.array(earlier, bool).reshape(q, query.blocks.size)
            kernel = with_work(
                kernels.take,
                (
                    _sweep.readonly(y), query.lengths, self._precision, q, query.blocks,
                    query.source, query.factor, ~written[query.blocks], before, self._s,
                    self._stacked.first, x,
                ),
                y.shape[1],
            )  # fmt: skip
            run(kernel, (), (0, self.tree.n, True), True)
            written[query.blocks] = True
        for k in np.flatnonzero(~written):
            x[:, self._spaces[k].start : self._spaces[k].stop] = 0

    # ------------------------------------------------------------------ exactly known values

    @cached_property
    def _exact_twice(self) -> np.ndarray:
        """Nodes of which several queries are known exactly."""
        return np.flatnonzero(np.isinf(self._precision).sum(axis=1) > 1)

    @property
    def _can_contradict(self) -> bool:
        return self._exact_twice.size > 0 or any(e.size for e in self._stacked.exact)

    # ------------------------------------------------------------------ whole numbers

    def _round(
        self, x: np.ndarray, how: bool | str, rng: np.random.Generator | int | None
    ) -> np.ndarray:
        """Every cell its floor or ceiling, column by column, with exact sums up the tree."""
        families = Families.of(self.tree)
        generator = check.generator("rng", rng)
        out = np.empty(x.shape, np.int64)
        for start in range(0, x.shape[1], ROUNDED_TOGETHER):
            columns = slice(start, start + ROUNDED_TOGETHER)
            out[:, columns] = round_consistent(self.tree, families, x[:, columns], how, generator)
        return out

    # ------------------------------------------------------------------ errors of the result

    def marginal(self, x: Any, query: Query) -> np.ndarray:
        """Sum tables over the axes that a query does not keep.

        Parameters
        ----------
        x : array of shape (..., *shape)
            Tables, such as those of all nodes.
        query : tuple
            The axes to keep, in the order wanted.

        Examples
        --------
        >>> import numpy as np, gmtree as gm
        >>> tables = gm.TableConsistency(gm.shapes.star(3), {"a": 2, "b": 3}, {("a", "b"): 1})
        >>> tables.marginal(np.ones((3, 2, 3)), ("b",))
        array([[2., 2., 2.],
               [2., 2., 2.],
               [2., 2., 2.]])
        """
        a = check.array("x", x)
        lead = a.ndim - len(self.shape)
        if lead < 0 or a.shape[lead:] != self.shape:
            check.fail("x", f"must have tables of shape {self.shape}, not shape {a.shape}.")
        kept = self._axes.in_order("query", query)
        dropped = tuple(lead + k for k in range(len(self.shape)) if k not in kept)
        a = a.sum(axis=dropped) if dropped else a
        return a.transpose(*range(lead), *(lead + np.argsort(np.argsort(kept))))

    def node_variance(self, query: Query) -> np.ndarray:
        """Variance of each cell of a query, at every node; all cells have the same.

        The query need not be one that was measured. Infinite where cells are not determined, but
        only split evenly.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.star(3)
        >>> tables = gm.TableConsistency(tree, {"sex": 2}, {(): [1.0, 1.0], ("sex",): [1.0, 9.0]})
        >>> tables.node_variance(("sex",)).round(3)
        array([0.597, 2.518, 2.518])
        """
        kept = self._axes.ascending("query", query)
        return self._sum_variance(kept, one_cell([self.shape[a] for a in kept]))

    def sum_variance(self, query: Query, weight: Any) -> np.ndarray:
        """Variance of a weighted sum over cells of a query, at every node.

        Parameters
        ----------
        query : tuple
        weight : array of the shape of one table of the query
            Weight of each cell in the sum; true and false for the cells in it and the others.

        Returns
        -------
        array of shape (n,); its square root is the standard error of the sum at each node

        Examples
        --------
        >>> import gmtree as gm
        >>> tables = gm.TableConsistency(gm.shapes.star(3), {"age": 4}, {(): 1.0, ("age",): 1.0})
        >>> tables.sum_variance(("age",), [True, True, False, False]).round(3)
        array([0.8, 0.8, 0.8])
        >>> tables.sum_variance(("age",), [1, 0, 0, -1]).round(3)  # a difference of two cells
        array([1.333, 1.333, 1.333])
        """
        in_order = self._axes.in_order("query", query)
        shape = tuple(self.shape[a] for a in in_order)
        w = check.reals("weight", weight, booleans=True)
        if w.shape != shape:
            check.fail("weight", f"must have the shape {shape} of query {query!r}, not {w.shape}.")
        if not np.isfinite(w).all():
            check.fail("weight", "must be finite.")
        w = w.astype(np.float64).transpose(np.argsort(in_order))
        return self._sum_variance(tuple(sorted(in_order)), w)

    def covariance(self, query: Query, i: int, j: int | None = None) -> np.ndarray:
        """Covariances of the cells of a query at node i with those at node j, by default i.

        Returns an array with the axes of the query twice. NaN where a variance is infinite.

        Examples
        --------
        >>> import gmtree as gm
        >>> tables = gm.TableConsistency(gm.shapes.star(3), {"sex": 2}, {(): 1.0, ("sex",): 1.0})
        >>> tables.covariance(("sex",), 0).round(3)
        array([[ 0.444, -0.222],
               [-0.222,  0.444]])
        """
        i = check.node_number("i", i, self.tree.n)
        j = i if j is None else check.node_number("j", j, self.tree.n)
        in_order = self._axes.in_order("query", query)
        shape = [self.shape[a] for a in in_order]
        out = np.zeros(shape + shape)
        for k, space in enumerate(self._spaces):
            if not space.axes <= set(in_order):
                continue
            unknown = np.isinf(self._space_variance(k)[[i, j]]).any()
            factor = np.nan if unknown else self._solver(k).covariance(i, j)
            product = np.array(factor)
            for axis in in_order:
                n = self.shape[axis]
                matrix = np.eye(n) - 1 / n if axis in space.axes else np.full((n, n), 1 / n**2)
                product = np.multiply.outer(product, matrix)
            # From pairs of axes to those of i first, then those of j.
            d = len(shape)
            out += product.transpose(*range(0, 2 * d, 2), *range(1, 2 * d, 2))
        return out

    def _known_cell_variance(self) -> np.ndarray:
        """Variance of a cell at each node, without what is not known of it at all; not 0."""
        every = tuple(range(len(self.shape)))
        variance = self._sum_variance(every, one_cell(self.shape), only_known=True)
        usual = variance[variance > 0]
        return np.where(variance > 0, variance, usual.mean() if usual.size else 1.0)

    def _sum_variance(
        self, kept: tuple[int, ...], weight: np.ndarray, only_known: bool = False
    ) -> np.ndarray:
        """Variance of a weighted sum of cells of a query, at every node."""
        out = np.zeros(self.tree.n)
        size = float(np.sum(weight**2))
        for k, space in enumerate(self._spaces):
            if not space.axes <= set(kept):
                continue
            square = float(np.sum(contrast(weight, [a in space.axes for a in kept]) ** 2))
            # Below this it is rounding: the sum does not depend on the space.
            if square > 1e-24 * size:
                own = self._space_variance(k)
                out += square * (np.where(np.isinf(own), 0, own) if only_known else own)
        return out

    def _space_variance(self, k: int) -> np.ndarray:
        """Variance of the measure of a space at each node, in one direction; inf if unknown."""
        if k not in self._space_variances:
            unknown = self._unknown[k]
            if unknown is not None and unknown[self.tree.leaves].all():
                variance = np.full(self.tree.n, np.inf)
            else:
                variance = self._solver(k).node_variance()
                if unknown is not None:
                    variance[unknown] = np.inf
            self._space_variances[k] = variance
        return self._space_variances[k]

    def _solver(self, k: int) -> Consistency:
        return Consistency(self.tree, {"node": self._s[:, k]}, self._threads)
