"""Variances and fourth cumulants of the noise of a release, and the solvers that use them."""

from __future__ import annotations

import numpy as np

from gmtree.consistency import Consistency
from gmtree.consistency.tables import TableConsistency
from gmtree.consistency.tables.possible import PossibleCells
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.tree import Tree

# Smallest variance of a measured cell. It is larger than the smallest variance of noise, so that
# the variance of a mean of many cells is still above the latter.
_SMALLEST_OF_CELLS = 1e-90


def measurement_cumulants(
    tree: Tree, ledger: Ledger, exact: np.ndarray | None
) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Variance and fourth cumulant of each measurement; one number if all are equal.

    The variance is 0 for exact counts and inf for nodes that were not measured.
    """
    noise = MECHANISMS[ledger.mechanism]
    moments = [(np.inf, 0.0) if scale is None else noise.moments(scale) for scale in ledger.scales]
    if exact is None and len(set(moments)) == 1:
        return moments[0]
    variance, fourth = (np.array(x)[tree.depth - 1] for x in zip(*moments, strict=True))
    if exact is not None:
        variance[exact] = fourth[exact] = 0
    return variance, fourth


def solver_of_counts(
    tree: Tree, ledger: Ledger, exact: np.ndarray | None, threads: int | None = None
) -> Consistency:
    """The projection of noisy counts; ValueError if the noisy counts leave a value undetermined."""
    return Consistency(tree, {"node": measurement_cumulants(tree, ledger, exact)[0]}, threads)


def solver_of_tables(
    tree: Tree, ledger: Ledger, exact: np.ndarray | None, threads: int | None = None
) -> TableConsistency:
    """:func:`solver_of_counts` for tables, whose structural zeros stay 0."""
    variances = _query_variances(tree, ledger, exact)
    made = TableConsistency(tree, dict(ledger.axes or ()), variances, threads)
    possible = ledger._workload.possible
    if possible is not None:
        made._possible = PossibleCells(made._problem, possible)
    return made


def _query_variances(
    tree: Tree, ledger: Ledger, exact: np.ndarray | None
) -> dict[tuple[str, ...], dict[str, np.ndarray]]:
    """Variances of the measured queries of tables, by query and node, as in `TableConsistency`."""
    noise, workload, found = MECHANISMS[ledger.mechanism], ledger._workload, {}
    for k, query in enumerate(workload.queries):
        scales = ledger.scales[k :: len(workload.queries)]
        by_level = [
            np.inf if scale is None else max(noise.moments(scale)[0], _SMALLEST_OF_CELLS)
            for scale in scales
        ]
        variance = np.array(by_level)[tree.depth - 1]
        if exact is not None and workload.cells[k] == 1:
            variance[exact] = 0
        found[query or ()] = {"node": variance}
    return found
