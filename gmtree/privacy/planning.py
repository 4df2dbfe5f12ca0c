"""What a release will be worth, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gmtree import _validate as check
from gmtree._text import preformatted, short, table
from gmtree.consistency import Consistency
from gmtree.consistency.contrasts import Axes
from gmtree.consistency.tables import TableConsistency
from gmtree.privacy.allocation import divide
from gmtree.privacy.budget import Budget
from gmtree.privacy.cumulants import measurement_cumulants, noise_moments, query_variances
from gmtree.privacy.ledger import Ledger, query_name
from gmtree.privacy.workload import PLAIN, TableQuery, Workload
from gmtree.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Picture

    from gmtree.privacy.optimal import Classes

# More levels than this have shares too small to tell apart.
_MOST_LEVELS = 100


@dataclass(frozen=True)
class LevelError:
    """One line of a plan.

    Attributes
    ----------
    level : int
        Depth in the tree, 1 at the root.
    name : str or None
    nodes : int
        Number of nodes of the level.
    share : Fraction
        Share of the budget.
    scale : Fraction or None
        Scale (or sigma) of the noise; None if the level is not measured, or exact.
    noise : float or None
        Standard deviation of that noise.
    std_error : float
        Root mean square of the standard errors of the level's nodes, after all levels were made
        consistent (and before any is kept from being negative): 0 if all are exact, inf if some
        are only known together with others.
    query : tuple of str, or None
        The measured marginal, where nodes have tables; the errors are then those of its cells.
    """

    level: int
    name: str | None
    nodes: int
    share: Fraction
    scale: Fraction | None
    noise: float | None
    std_error: float
    query: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Plan:
    """The expected error of every level, and the account of what it costs.

    Attributes
    ----------
    ledger : Ledger
    levels : tuple of LevelError
        One per level, the root's first; for tables one per level and query.
    """

    ledger: Ledger
    levels: tuple[LevelError, ...]

    @classmethod
    def of(cls, tree: Tree, ledger: Ledger, node_variance: np.ndarray) -> Plan:
        """The errors of consistent values by level."""
        return cls._by_query(tree, ledger, [node_variance])

    @classmethod
    def of_tables(cls, tree: Tree, ledger: Ledger, post: TableConsistency) -> Plan:
        """The errors of the cells of each measured query, by level."""
        queries = ledger.workload.queries
        return cls._by_query(tree, ledger, [post.node_variance(query or ()) for query in queries])

    @classmethod
    def _by_query(cls, tree: Tree, ledger: Ledger, variances: list[np.ndarray]) -> Plan:
        depth = tree.depth
        nodes = np.bincount(depth, minlength=tree.height + 1)[1:].tolist()
        squares = [np.bincount(depth, weights=x, minlength=tree.height + 1)[1:] for x in variances]
        lines = []
        for k, line in enumerate(ledger.levels):
            level, query = divmod(k, len(variances))
            scale, noise = line.scale, None
            if scale is not None:
                noise = math.sqrt(noise_moments(ledger.mechanism, scale)[0])
            error = math.sqrt(squares[query][level] / nodes[level])
            lines.append(
                LevelError(line.level, line.name, nodes[level], line.share, scale, noise, error,
                           line.query)
            )  # fmt: skip
        return cls(ledger, tuple(lines))

    @property
    def std_error(self) -> np.ndarray:
        """Root mean square error of each line, the root's first."""
        return np.array([line.std_error for line in self.levels])

    def __str__(self) -> str:
        named = () if self.ledger.axes is None else ("query",)
        rows = [("level", *named, "nodes", "share", "noise", "std error")]
        rows += [
            (
                str(x.level) if x.name is None else f"{x.level} {x.name}",
                *(() if x.query is None else (query_name(x.query),)),
                f"{x.nodes:,}",
                short(x.share),
                "-" if x.noise is None else f"{x.noise:.4g}",
                f"{x.std_error:.4g}",
            )
            for x in self.levels
        ]
        spent = f"{self.ledger.measure} = {short(self.ledger.total, up=True)}"
        by = "by level and query" if named else "by level"
        right = [k > len(named) for k in range(len(rows[0]))]
        return "\n".join([f"Expected error {by}, {spent}", *table(rows, right=right)])

    __repr__ = __str__

    def plot(self, *, unit: str = "records", ax: Any = None) -> Picture:
        """Draw the errors by level; returns matplotlib Axes."""
        from gmtree import plot

        return plot.error_by_level(self, unit=unit, ax=ax)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def plan(
    tree: Tree,
    *,
    axes: Mapping[str, int] | None = None,
    queries: Sequence[TableQuery] | None = None,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = None,
    level_shares: Sequence[Any] | None = None,
    shares: Mapping[TableQuery, Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    max_per_leaf: int | None = None,
    invariants: Any = (),
    mechanism: str | None = None,
    max_count: int | None = None,
    outside: Sequence[str] = (),
    threads: int | None = None,
) -> Plan:
    """The error a release will have at every level, without any data.

    Takes the same arguments as :func:`release`, or with `axes` and `queries` those of
    :func:`release_tables`. The errors are exact and do not depend on the counts. They are those of
    the unbiased estimate (``release.estimate``): values that are kept from being negative
    (`nonnegative`) have other errors, which depend on the counts and can be smaller or larger;
    :meth:`Release.bootstrap` estimates them.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.plan(gm.shapes.complete(10, 4), epsilon=1)
    Expected error by level, epsilon = 1
      level  nodes  share  noise  std error
      1          1    1/4  5.642      5.353
      2         10    1/4  5.642      5.109
      3        100    1/4  5.642      5.129
      4      1,000    1/4  5.642      5.377
    >>> gm.plan(gm.shapes.star(11), axes={"sex": 2}, queries=[(), ("sex",)], rho="1/2")
    Expected error by level and query, rho = 1/2
      level  query  nodes  share  noise  std error
      1      total      1    1/4      2      1.557
      1      sex        1    1/4      2      1.557
      2      total     10    1/4      2      1.557
      2      sex       10    1/4      2      1.557
    """
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
    workload = workload_of(budget, axes, queries)
    if workload is PLAIN:
        if shares is not None:
            check.fail("shares", "must be None without 'axes': give 'level_shares'.")
        _, exact, ledger = divide(tree, budget)
        post = Consistency(tree, {"node": measurement_cumulants(tree, ledger, exact)[0]}, threads)
        return Plan.of(tree, ledger, post.node_variance())
    _, exact, ledger = divide(tree, budget, workload, shares)
    variances = query_variances(tree, ledger, exact)
    return Plan.of_tables(
        tree, ledger, TableConsistency(tree, dict(workload.axes or ()), variances, threads)
    )


def workload_of(budget: Budget, axes: Any, queries: Any) -> Workload:
    """What is measured at a node; for tables with the total, if invariants need a place for it."""
    if axes is None:
        if queries is not None:
            check.fail("queries", "must be None without 'axes'.")
        return PLAIN
    if queries is None:
        check.fail("queries", "must be given with 'axes'.")
    if budget.level_shares is not None:
        check.fail("level_shares", "must be None with 'axes': give 'shares' by query.")
    workload = Workload.of(axes, queries)
    return workload.with_total() if budget.invariants else workload


@overload
def optimal_shares(
    tree: Tree,
    *,
    axes: None = ...,
    queries: None = ...,
    epsilon: Any = ...,
    rho: Any = ...,
    delta: Any = ...,
    objective: Any = ...,
    neighbors: str = ...,
    max_contributions: int = ...,
    invariants: Any = ...,
    mechanism: str | None = ...,
) -> tuple[float, ...]: ...


@overload
def optimal_shares(
    tree: Tree,
    *,
    axes: Mapping[str, int],
    queries: Sequence[TableQuery],
    epsilon: Any = ...,
    rho: Any = ...,
    delta: Any = ...,
    objective: Any = ...,
    neighbors: str = ...,
    max_contributions: int = ...,
    invariants: Any = ...,
    mechanism: str | None = ...,
) -> dict[TableQuery, tuple[float, ...]]: ...


def optimal_shares(
    tree: Tree,
    *,
    axes: Mapping[str, int] | None = None,
    queries: Sequence[TableQuery] | None = None,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = None,
    objective: Any = "nodes",
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
    mechanism: str | None = None,
) -> tuple[float, ...] | dict[TableQuery, tuple[float, ...]]:
    """Shares with the least expected squared error, for :func:`release` and :func:`plan`.

    The error of the consistent values is computed exactly for this very tree. No data are used,
    so that choosing shares costs no privacy.

    Parameters
    ----------
    tree : Tree
        With at most 100 levels.
    axes, queries : optional
        As in :func:`release_tables`: shares of levels and queries of tables.
    epsilon, rho, delta : optional
        The budget. With none, shares for `epsilon` where the noise is large; then they do
        not depend on the budget.
    objective : {'nodes', 'leaves'} or sequence of numbers, or mapping from query
        What to minimise: the mean squared error of all nodes, of the leaves, or the weighted sum
        of the mean squared errors of the levels, with one weight per level, the root's first.
        For tables a mapping from queries to one of these or to a number, the weight of that
        query's mean squared error of a cell over all nodes. The queries need not be measured, but
        must be parts of such. Without a mapping all measured queries count alike.
    neighbors, max_contributions, invariants, mechanism
        As in :func:`gmtree.privacy.allocate`.

    Returns
    -------
    tuple of float, or dict from query to tuple of float
        Shares of the levels, the root's first, to four digits. A level with share 0 is better
        not measured: what it would tell is worth less than its part of the budget elsewhere.
        For tables the same for each query, as :func:`release_tables` takes them.

    Notes
    -----
    For Gaussian noise the problem is convex and the result its minimum. For Laplace noise it is
    not: levels are left out, and others added, one by one as long as that lowers the error; for
    tables, shares are left out, smallest first.

    Where records move (``neighbors="change_one"``), the root's share is free and is made large.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.complete(10, 4)
    >>> shares = gm.optimal_shares(tree, epsilon=1, objective="nodes")
    >>> [round(share, 2) for share in shares]
    [0.0, 0.15, 0.0, 0.85]
    >>> gm.plan(tree, epsilon=1).std_error.round(1)
    array([5.4, 5.1, 5.1, 5.4])
    >>> gm.plan(tree, epsilon=1, level_shares=shares).std_error.round(1)
    array([25.3,  8. ,  4.9,  1.6])
    >>> weights = {(): [1, 1, 1, 1], ("sex",): "leaves"}
    >>> tables = {"axes": {"sex": 2}, "queries": [(), ("sex",)], "rho": 1}
    >>> shares = gm.optimal_shares(tree, objective=weights, **tables)
    >>> {query: [round(x, 2) for x in by_level] for query, by_level in shares.items()}
    {(): [0.21, 0.21, 0.21, 0.14], ('sex',): [0.0, 0.0, 0.0, 0.23]}
    """
    from gmtree.privacy import optimal

    check.instance("tree", tree, Tree)
    if tree.height > _MOST_LEVELS:
        check.fail("tree", f"must have at most {_MOST_LEVELS} levels, not {tree.height}.")
    is_large = epsilon is None and rho is None
    budget = Budget.of(
        epsilon=1 if is_large else epsilon,
        rho=rho,
        delta=delta,
        neighbors=neighbors,
        max_contributions=max_contributions,
        invariants=invariants,
        mechanism=mechanism,
    )
    workload = workload_of(budget, axes, queries)
    exact = divide(tree, budget, workload).exact
    if budget.measure == "epsilon":
        variances = optimal.laplace_variances(exact=not is_large)
    elif budget.mechanism == "discrete_laplace":
        variances = optimal.laplace_variances_zcdp
    else:
        variances = optimal.gaussian_variances
    classes = optimal.Classes.of(tree, exact)
    amount, convex = float(budget.amount / budget.times), budget.mechanism == "discrete_gaussian"
    if workload is PLAIN:
        weight = _class_weights(tree, classes, objective)
        problem = optimal.Problem(classes, weight, variances, budget.neighbors, amount, convex)
        return _as_shares(problem.best_losses())
    weights = _query_weights(tree, classes, workload, objective)
    from gmtree.privacy.optimal_tables import TableProblem, spaces_of

    names = [query or () for query in workload.queries]
    sets = [set(query) for query in names]
    tables = TableProblem(
        classes,
        np.zeros(classes.size),
        variances,
        budget.neighbors,
        amount,
        convex,
        np.array(workload.cells),
        spaces_of(Axes(dict(workload.axes or ())), names, weights),
        np.array([not any(own < other for other in sets) for own in sets]),
    )
    shares = np.array(_as_shares(tables.best_losses())).reshape(tree.height, len(names))
    return {query: tuple(shares[:, k].tolist()) for k, query in enumerate(names)}


def _as_shares(losses: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{x:.3e}") for x in losses / losses.sum())


def _query_weights(
    tree: Tree, classes: Classes, workload: Workload, objective: Any
) -> list[tuple[TableQuery, np.ndarray]]:
    """What the squared error of a cell counts, by class, for each query in the objective."""
    if not isinstance(objective, Mapping):
        every = _class_weights(tree, classes, objective)
        return [(query or (), every) for query in workload.queries]
    measured = [set(query or ()) for query in workload.queries]
    found = []
    for query, value in objective.items():
        if not isinstance(query, tuple) or not any(set(query) <= own for own in measured):
            check.fail(
                "objective",
                f"must have queries that are measured, or parts of such, not {query!r}.",
            )
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if not (math.isfinite(value) and value >= 0):
                check.fail("objective", f"must have finite weights, none negative; {query!r} has "
                           f"{value}.")  # fmt: skip
            found.append((query, value * _class_weights(tree, classes, "nodes")))
        else:
            found.append((query, _class_weights(tree, classes, value)))
    if not any(weight.any() for _, weight in found):
        check.fail("objective", "must have a weight above 0.")
    return found


def _class_weights(tree: Tree, classes: Classes, objective: Any) -> np.ndarray:
    """What the squared error of a node counts, by class; the mean is as good as the sum."""
    if isinstance(objective, str):
        if objective not in ("nodes", "leaves"):
            check.fail("objective", f"must be 'nodes', 'leaves' or weights, not {objective!r}.")
        some = classes.leaf if objective == "leaves" else np.ones(classes.size)
        return some / (tree.n_leaves if objective == "leaves" else tree.n)
    check.refuse_labels("objective", objective)
    a = check.array("objective", objective)
    if a.dtype.kind not in "iuf":
        check.fail_type("objective", f"must be a name or hold numbers, not dtype {a.dtype}.")
    if a.shape != (tree.height,):
        check.fail(
            "objective", f"must have one weight per level ({tree.height}), not shape {a.shape}."
        )
    if not np.all(np.isfinite(a) & (a >= 0)) or not a.any():
        check.fail("objective", "must have finite weights, none negative and not all 0.")
    by_level = a / np.bincount(tree.depth, minlength=tree.height + 1)[1:]
    return by_level[classes.level]
