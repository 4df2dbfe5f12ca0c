"""The errors of a release, computed before any budget is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree._text import preformatted, short, table
from gmtree.privacy.accounting.allocation import divide
from gmtree.privacy.accounting.budget import Budget, Terms
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.accounting.ledger_text import left_out, query_name
from gmtree.privacy.accounting.workload import PLAIN, TableQuery, Workload, workload_of
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.privacy.planning.shares import optimal_shares
from gmtree.privacy.publishing.cumulants import solver_of_counts, solver_of_tables
from gmtree.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Picture
    from typing_extensions import Unpack


@dataclass(frozen=True)
class LevelError:
    """One line of a plan.

    Attributes
    ----------
    level : int
        Depth in the tree, 1 at the root.
    name : str or None
        Name of the level, for a tree made from named levels.
    nodes : int
        Number of nodes of the level.
    share : Fraction
        Share of the budget.
    scale : Fraction or None
        Scale (or sigma) of the noise; None if the level is not measured, or exact.
    noise : float or None
        Standard deviation of that noise.
    std_error : float
        Root mean square of the standard errors of the level's nodes after all levels were made
        consistent, without `nonnegative`. It is 0 if all nodes are exact, and inf if only a sum of
        some nodes is known.
    query : tuple of str, or None
        The measured marginal, if nodes have tables; the errors are then those of its cells.
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
    """The expected error of every level, and the ledger of its privacy loss.

    Attributes
    ----------
    ledger : Ledger
    levels : tuple of LevelError
        One per level, the root's first; for tables one per level and query.
    """

    ledger: Ledger
    levels: tuple[LevelError, ...]

    @classmethod
    def _of(cls, tree: Tree, ledger: Ledger, variances: list[np.ndarray]) -> Plan:
        """The errors by level, from the variances of each query's cells by node."""
        depth = tree.depth
        nodes = np.bincount(depth, minlength=tree.height + 1)[1:].tolist()
        squares = [np.bincount(depth, weights=x, minlength=tree.height + 1)[1:] for x in variances]
        lines = []
        for k, line in enumerate(ledger.levels):
            level, query = divmod(k, len(variances))
            scale, noise = line.scale, None
            if scale is not None:
                noise = math.sqrt(MECHANISMS[ledger.mechanism].moments(scale)[0])
            error = math.sqrt(squares[query][level] / nodes[level])
            lines.append(
                LevelError(line.level, line.name, nodes[level], line.share, scale, noise, error,
                           line.query)
            )  # fmt: skip
        return cls(ledger, tuple(lines))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Share of the budget of each line, the root's first."""
        return tuple(line.share for line in self.levels)

    @property
    def std_error(self) -> np.ndarray:
        """The `std_error` of each line, the root's first."""
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
        note = [left_out(self.ledger)] if self.ledger.enforced else []
        return "\n".join([f"Expected error {by}, {spent}", *table(rows, right=right), *note])

    __repr__ = __str__

    def plot(self, *, unit: str = "records", ax: Any = None) -> Picture:
        """Draw the errors by level; returns matplotlib Axes.

        Parameters
        ----------
        unit : str
            Unit of the counts, for the axis.
        ax : matplotlib Axes, optional
            Axes to draw on. By default new axes are made.
        """
        from gmtree import plot

        return plot.error_by_level(self, unit=unit, ax=ax)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def plan(
    tree: Tree,
    *,
    axes: Mapping[str, Any] | None = None,
    queries: Sequence[TableQuery] | None = None,
    workload: str | None = None,
    threads: int | None = None,
    **terms: Unpack[Terms],
) -> Plan:
    """Compute the error of a release at every level, without any data.

    The errors are exact and do not depend on the counts. They belong to the unbiased estimate
    (``release.estimate``). Non-negative values have different errors, which depend on the counts
    and can be smaller or larger; :meth:`Release.bootstrap` estimates them.

    Parameters
    ----------
    tree : Tree
    axes, queries : optional
        As in :func:`release_tables`, for the errors of tables.
    workload : {'nodes', 'leaves', 'ranges', 'quantiles'}, optional
        Choose the shares with :func:`gmtree.privacy.optimal_shares` for this objective. 'ranges'
        means sums over ranges of ordered leaves, 'quantiles' means quantiles and cumulative shares.
        Pass ``plan.shares`` on to the release.
    threads : int, optional
        As in :class:`Consistency`.
    **terms
        The budget and its terms, as in :func:`release`: `epsilon` or `rho`, `delta`, `shares`,
        `neighbors`, `max_contributions`, `max_per_leaf`, `invariants`, `mechanism`, `max_count`
        and `disclosures`.

    Returns
    -------
    Plan

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
    if workload is not None:
        if terms.get("shares") is not None or axes is not None:
            check.fail("workload", "must be None with 'shares' or 'axes'.")
        terms["shares"] = optimal_shares(tree, objective=workload, **terms)
    budget = Budget.of(**terms)
    return plan_for(tree, budget, workload_of(budget, axes, queries), threads)


def plan_for(
    tree: Tree, budget: Budget, workload: Workload = PLAIN, threads: int | None = None
) -> Plan:
    """Do the work of :func:`plan`, for a budget that was checked already."""
    _, exact, ledger = divide(tree, budget, workload)
    if workload is PLAIN:
        post = solver_of_counts(tree, ledger, exact, threads)
        return Plan._of(tree, ledger, [post.node_variance()])
    tables = solver_of_tables(tree, ledger, exact, threads)
    variances = [tables.node_variance(query or ()) for query in workload.queries]
    return Plan._of(tree, ledger, variances)
