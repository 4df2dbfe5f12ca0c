"""What a release will be worth, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._text import preformatted, short, table
from gmtree.consistency import Consistency
from gmtree.consistency.tables import TableConsistency
from gmtree.privacy.allocation import divide
from gmtree.privacy.budget import Budget
from gmtree.privacy.cumulants import measurement_cumulants, noise_moments
from gmtree.privacy.ledger import Ledger, query_name
from gmtree.tree import Tree

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

    def plot(self, *, unit: str = "records", ax: Any = None) -> Any:
        """Draw the errors by level; returns matplotlib Axes."""
        from gmtree import plot

        return plot.error_by_level(self, unit=unit, ax=ax)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def plan(
    tree: Tree,
    *,
    epsilon: Any = None,
    rho: Any = None,
    level_shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
    mechanism: str | None = None,
    max_count: int | None = None,
    outside: Sequence[str] = (),
    threads: int | None = None,
) -> Plan:
    """The error a release will have at every level, without any data.

    Takes the same arguments as :func:`release`. The errors are exact and do not depend on the
    counts. They are those of the unbiased estimate (``release.estimate``): values that are kept
    from being negative (`nonnegative`) have other errors, which depend on the counts and can be
    smaller or larger; :meth:`Release.bootstrap` estimates them.

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
    """
    budget = Budget.of(
        epsilon=epsilon,
        rho=rho,
        level_shares=level_shares,
        neighbors=neighbors,
        max_contributions=max_contributions,
        invariants=invariants,
        mechanism=mechanism,
        max_count=max_count,
        outside=outside,
    )
    _, exact, ledger = divide(tree, budget)
    post = Consistency(tree, {"node": measurement_cumulants(tree, ledger, exact)[0]}, threads)
    return Plan.of(tree, ledger, post.node_variance())


def optimal_shares(
    tree: Tree,
    *,
    epsilon: Any = None,
    rho: Any = None,
    objective: Any = "nodes",
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
    mechanism: str | None = None,
) -> tuple[float, ...]:
    """Level shares with the least expected squared error, for :func:`release` and :func:`plan`.

    The error of the consistent values is computed exactly for this very tree. No data are used,
    so that choosing shares costs no privacy.

    Parameters
    ----------
    tree : Tree
        With at most 100 levels.
    epsilon, rho : optional
        The budget. With neither, shares for `epsilon` where the noise is large; then they do
        not depend on the budget.
    objective : {'nodes', 'leaves'} or sequence of numbers
        What to minimise: the mean squared error of all nodes, of the leaves, or the weighted sum
        of the mean squared errors of the levels, with one weight per level, the root's first.
    neighbors, max_contributions, invariants, mechanism
        As in :func:`gmtree.privacy.allocate`.

    Returns
    -------
    tuple of float
        Shares of the levels, the root's first, to four digits. A level with share 0 is better
        not measured: what it would tell is worth less than its part of the budget elsewhere.

    Notes
    -----
    For Gaussian noise the problem is convex and the result its minimum. For Laplace noise it is
    not: levels are left out, and others added, one by one as long as that lowers the error.

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
    """
    from gmtree.privacy import optimal

    check.instance("tree", tree, Tree)
    if tree.height > _MOST_LEVELS:
        check.fail("tree", f"must have at most {_MOST_LEVELS} levels, not {tree.height}.")
    is_large = epsilon is None and rho is None
    budget = Budget.of(
        epsilon=1 if is_large else epsilon,
        rho=rho,
        neighbors=neighbors,
        max_contributions=max_contributions,
        invariants=invariants,
        mechanism=mechanism,
    )
    exact = divide(tree, budget).exact
    if budget.measure == "epsilon":
        variances = optimal.laplace_variances(exact=not is_large)
    elif budget.mechanism == "discrete_laplace":
        variances = optimal.laplace_variances_zcdp
    else:
        variances = optimal.gaussian_variances
    classes = optimal.Classes.of(tree, exact)
    problem = optimal.Problem(
        classes,
        _class_weights(tree, classes.level, classes.leaf, objective),
        variances,
        budget.neighbors,
        float(budget.amount / budget.times),
        convex=budget.mechanism == "discrete_gaussian",
    )
    losses = problem.best_losses()
    return tuple(float(f"{x:.3e}") for x in losses / losses.sum())


def _class_weights(tree: Tree, level: np.ndarray, leaf: np.ndarray, objective: Any) -> np.ndarray:
    """What the squared error of a node counts, by class; the mean is as good as the sum."""
    if isinstance(objective, str):
        if objective not in ("nodes", "leaves"):
            check.fail("objective", f"must be 'nodes', 'leaves' or weights, not {objective!r}.")
        return (leaf if objective == "leaves" else np.ones(level.size)) / tree.n
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
    return (a / a.sum() / np.bincount(tree.depth, minlength=tree.height + 1)[1:])[level]
