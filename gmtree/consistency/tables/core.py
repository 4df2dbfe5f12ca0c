"""Optimal consistent tables at the nodes of a tree, from any set of measured marginals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.rounding import check_how, round_consistent
from gmtree.consistency.tables.exact import refuse_exact_marginals
from gmtree.consistency.tables.problem import TableProblem
from gmtree.consistency.tables.queries import Query, one_cell
from gmtree.consistency.tables.solver import TableSolver
from gmtree.tree import Tree
from gmtree.tree.families import Families

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gmtree.consistency.sparse import NonnegativeInfo
    from gmtree.consistency.tables.possible import PossibleCells

# Number of columns rounded to whole numbers at a time, which fill one or two cache lines.
ROUNDED_TOGETHER = 16


class ProjectOptions(TypedDict, total=False):
    """The keywords of :meth:`TableConsistency.project` besides `return_info`."""

    nonnegative: bool
    integer: bool | str
    out: np.ndarray | None
    rng: np.random.Generator | int | None
    tolerance: float
    iterations: int
    start: NonnegativeInfo | None


class TableConsistency:
    """Optimal consistent tables at the nodes of a tree, from any set of measured marginals.

    The constructor does all work that depends only on the tree and the variances. After that, call
    :meth:`project` for any number of measurements.

    Parameters
    ----------
    tree : Tree
    axes : mapping from name to labels or length
        The axes of the table that each node has, such as ``{"sex": ["f", "m"], "age": 4}``. Labels
        name the columns of :meth:`to_frame`; they do not change any result.
    variance : mapping from query to variance
        A query is a tuple of names of axes, in any order: ``()`` is the total of a node,
        ``("sex",)`` is the marginal by sex, and the query with all axes is the whole table. All
        cells of a query have the same variance at a node: one number for all nodes, one per node,
        or one per level from the root down. 0 marks a query that is known exactly, inf one that was
        not measured at that node. Queries that are not named are not measured.
    threads : int, optional
        Threads that share a sweep over large tables; by default one for each available core.
        Results do not depend on this number, to the last bit.

    Notes
    -----
    The result is the best linear unbiased estimate (generalised least squares) of all cells of all
    nodes from all measurements, exact to rounding, in time proportional to the number of cells.
    Besides the measurements and the result, the computation needs memory for one float64 table per
    internal node, and for a few numbers per node and set of axes.

    If the measurements determine only the sum of several cells, it is split evenly among them, and
    the variance of these cells is infinite. More exactly, a contrast between cells is zero at a
    leaf if no query measures it at this leaf or above it. A leaf whose total is not measured, by
    any query, anywhere on its path to the root could have any value and is refused.

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
        axes: Mapping[Any, Any],
        variance: Mapping[Any, Any],
        threads: int | None = None,
    ) -> None:
        self._problem = TableProblem.of(tree, axes, variance, threads)
        self._solver = TableSolver(self._problem)
        self.tree, self._axes = tree, self._problem.axes
        self.axes, self.shape = self._axes.names, self._axes.shape
        # Set by releases with structural zeros. Variances are then upper bounds.
        self._possible: PossibleCells | None = None

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}: {length}" for name, length in self.axes.items())
        queries = ", ".join(str(query.name) for query in self._problem.queries)
        return f"TableConsistency({self.tree!r}, {{{axes}}}, {queries})"

    # ------------------------------------------------------------------ projection

    @overload
    def project(
        self,
        measurements: Mapping[Any, Any],
        *,
        return_info: Literal[False] = False,
        **options: Unpack[ProjectOptions],
    ) -> np.ndarray: ...

    @overload
    def project(
        self,
        measurements: Mapping[Any, Any],
        *,
        return_info: Literal[True],
        **options: Unpack[ProjectOptions],
    ) -> tuple[np.ndarray, NonnegativeInfo]: ...

    @overload
    def project(
        self,
        measurements: Mapping[Any, Any],
        *,
        return_info: bool,
        **options: Unpack[ProjectOptions],
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
            For each query of `variance` one table per node: shape ``(n,)`` for ``()``, and ``(n,
            length of its first axis, ...)`` for other queries, with axes in the order in which the
            query names them. Entries of nodes at which the query was not measured are ignored. If
            all are float32, so is the result. Totals ``()`` with labels of their own, such as a
            Series of pandas, are reordered to the nodes; other tables with an index of labels are
            refused.
        nonnegative : bool
            Require that no cell is negative; see Notes.
        integer : bool or "random"
            Round to whole numbers (int64): every cell of every node becomes the floor or the
            ceiling of its optimum, and sums up the tree are exact, cell by cell, as in
            :meth:`gmtree.Consistency.project`. The marginals of a node are sums of its rounded
            cells: a sum of m cells moves by less than m, and by about ``sqrt(m / 12)`` as a rule.
            So rounding is refused if a marginal is known exactly (variance 0) and its cells are
            not. In this case round the tables yourself, or give the marginal a small variance.
        out : array of shape (n, *shape), optional
            Array that receives the result. By default a new array is made.
        return_info : bool
            With `nonnegative`: also return a :class:`NonnegativeInfo`, which bounds how far the
            result can be from the optimum.
        rng : optional
            Random generator or seed for ``integer="random"``.
        tolerance : float
            With `nonnegative`: the largest `distance` of the result from the optimum, which is
            a bound for all measured values in units of their standard deviations. An error is
            raised if it is not reached.
        iterations : int
            With `nonnegative`: the largest number of steps before an error is raised.
        start : NonnegativeInfo, optional
            With `nonnegative`: the info of an earlier call with similar measurements. The search
            starts from its result.

        Returns
        -------
        array of shape (n, *shape), or (array, info)

        Examples
        --------
        >>> import gmtree as gm
        >>> tables = gm.TableConsistency(gm.shapes.star(3), {"sex": 2}, {("sex",): 1.0})
        >>> by_sex = [[4.0, 6.0], [2.0, -3.0], [2.0, 6.0]]
        >>> tables.project({("sex",): by_sex}, nonnegative=True)
        array([[4., 6.],
               [2., 0.],
               [2., 6.]])

        Notes
        -----
        Without negative cells the problem no longer splits up by contrasts. Small problems are
        solved exactly, with an active set on a sparse solver. Large ones are solved by the
        alternating direction method of multipliers on the exact solver: see
        ``gmtree/consistency/tables/nonnegative.py``. The result has no negative cell, its
        sums are consistent to rounding, and values known exactly are kept to within `violation`.
        It comes with a certificate, which does not depend on how it was found: no measured value
        is farther than `distance` from its optimum.
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
            refuse_exact_marginals(self._problem)
        ys = self._problem.measurements(measurements)
        shape, flat = (self.tree.n, *self.shape), (self.tree.n, self._problem.cells)
        single = all(y.dtype == np.float32 for y in ys) and not integer
        dtype = np.dtype(np.float32 if single else np.float64)
        direct = info = None
        if out is not None:
            check.output("out", out, shape, np.int64 if integer else dtype)
            # Contradictions between exact values are found after some results were written.
            may_fail = nonnegative or integer or self._solver.can_contradict
            overlaps = any(np.may_share_memory(out, y) for y in ys)
            if out.flags.c_contiguous and not may_fail and not overlaps:
                direct = out.reshape(flat)
        x = np.empty(flat, np.float64 if nonnegative else dtype) if direct is None else direct
        if self._possible is not None:
            x, info = self._possible.solve(ys, nonnegative, tolerance, iterations)
        else:
            self._solver.solve(ys, x)
            if nonnegative:
                info = self._nonnegative(ys, x, tolerance, iterations, start)
        with np.errstate(over="ignore"):
            x = x.astype(dtype, copy=False)
        _refuse_overflow(x)
        if integer:
            x = self._round(x, integer, rng)
        result = x.reshape(shape)
        if out is not None:
            if x is not direct:
                np.copyto(out, result)
            result = out
        return (result, info) if return_info and info is not None else result

    def _nonnegative(
        self,
        ys: list[np.ndarray],
        x: np.ndarray,
        tolerance: float,
        iterations: int,
        start: NonnegativeInfo | None,
    ) -> NonnegativeInfo:
        """Replace `x`, the optimum without bounds, by the optimum without negative cells."""
        from gmtree.consistency.sparse import NonnegativeInfo
        from gmtree.consistency.tables.nonnegative import State, nonnegative

        tolerance = check.positive("tolerance", tolerance)
        most = check.count("iterations", iterations, least=1)
        state = start.state if isinstance(start, NonnegativeInfo) else None
        is_ours = isinstance(state, State) and state.w.shape == (self.tree.n_leaves, x.shape[1])
        if start is not None and not is_ours:
            check.fail("start", "must be the info of an earlier call for the same tables.")
        return nonnegative(self._solver, ys, x, tolerance, most, state)

    # ------------------------------------------------------------------ whole numbers

    def _round(
        self, x: np.ndarray, how: bool | str, rng: np.random.Generator | int | None
    ) -> np.ndarray:
        """Round cells to floor or ceiling, column by column, with exact sums up the tree."""
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

    def to_frame(self, x: Any, query: Query = (), *, backend: str | None = None) -> Any:
        """Return a DataFrame with one row per node and one column per cell of a query.

        Parameters
        ----------
        x : array of shape (n, *shape)
            Tables of all nodes, such as the result of :meth:`project`.
        query : tuple
            The axes to keep; by default none, which gives the totals.
        backend : {"pandas", "polars", "pyarrow"}, optional
            As in :meth:`gmtree.Tree.to_frame`.

        Examples
        --------
        >>> import numpy as np, gmtree as gm
        >>> tree = gm.shapes.star(3)
        >>> tables = gm.TableConsistency(tree, {"sex": ["f", "m"]}, {("sex",): 1})
        >>> tables.to_frame(np.ones((3, 2)), ("sex",)).columns.tolist()
        ['node', 'parent', 'depth', 'value_f', 'value_m']
        """
        x = check.array("x", x)
        if x.shape != (self.tree.n, *self.shape):
            check.fail("x", f"must have shape {(self.tree.n, *self.shape)}, not {x.shape}.")
        table = self.marginal(x, query).reshape(self.tree.n, -1)
        names = ["_".join(filter(None, ["value", cell])) for cell in self._axes.cells(query)]
        return self.tree.to_frame(backend=backend, **dict(zip(names, table.T, strict=True)))

    def node_variance(self, query: Query) -> np.ndarray:
        """Variance of each cell of a query, at every node; it is equal for all cells.

        The query need not be one that was measured. The variance is infinite if only sums of cells
        are determined.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.shapes.star(3)
        >>> tables = gm.TableConsistency(tree, {"sex": 2}, {(): [1.0, 1.0], ("sex",): [1.0, 9.0]})
        >>> tables.node_variance(("sex",)).round(3)
        array([0.597, 2.518, 2.518])
        """
        kept = self._axes.ascending("query", query)
        return self._solver.sum_variance(kept, one_cell([self.shape[a] for a in kept]))

    def sum_variance(self, query: Query, weight: Any) -> np.ndarray:
        """Variance of a weighted sum over cells of a query, at every node.

        Parameters
        ----------
        query : tuple
        weight : array of the shape of one table of the query
            Weight of each cell in the sum, or a mask of the cells in the sum.

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
        return self._solver.sum_variance(tuple(sorted(in_order)), w)

    def covariance(self, query: Query, i: int, j: int | None = None) -> np.ndarray:
        """Covariances of the cells of a query at node i with those at node j, by default i.

        Returns an array with the axes of the query twice. It is NaN if a variance is infinite.

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
        return self._solver.covariance(self._axes.in_order("query", query), i, j)


def _refuse_overflow(x: np.ndarray) -> None:
    """Refuse tables with cells that are too large, and set all cells to NaN."""
    if not check.all_finite(x):
        first = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        x.fill(np.nan)
        check.fail(
            "measurements",
            f"must lead to consistent tables that {x.dtype} can hold; a cell of node {first} is "
            "too large.",
        )
