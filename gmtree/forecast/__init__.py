"""Coherent forecasts: hierarchies, groups and periods whose forecasts add up.

For everyone who forecasts series that are sums of others. The names are those of Nixtla's
hierarchicalforecast, which need not be installed; where it is, :class:`BottomUp` and
:class:`MinTrace` take the place of its own reconcilers. Results are exact for hierarchies of any
size: single sweeps over a tree, or along each of several crossed trees.

    reconcile                 from a frame of base forecasts to a frame of coherent ones
    reconcile_cross_temporal  the same for forecasts of several frequencies
    aggregate                 sums of bottom series over all levels
    Structure                 which series are sums of which, from all that people have
    temporal_structure        periods within periods
    BottomUp, MinTrace        reconcilers for HierarchicalReconciliation(reconcilers=[...])

Weights are variances: equal ones, numbers of leaves, those of residuals. A shrunk covariance of
residuals (``mint_shrink``) is a diagonal and as many columns as there are periods, which takes as
many sweeps more. Not offered: other covariances of all pairs of series (``mint_cov``) or of several
frequencies (FoReco's ``shr``, ``acov``), for which there are no sweeps; and what
hierarchicalforecast already does well: top-down methods, evaluation, plots.
"""

from gmtree.forecast.aggregate import aggregate
from gmtree.forecast.frequency import temporal_structure
from gmtree.forecast.methods import BottomUp, MinTrace
from gmtree.forecast.reconcile import reconcile
from gmtree.forecast.structure import Structure
from gmtree.forecast.temporal import reconcile_cross_temporal

__all__ = [
    "BottomUp",
    "MinTrace",
    "Structure",
    "aggregate",
    "reconcile",
    "reconcile_cross_temporal",
    "temporal_structure",
]
