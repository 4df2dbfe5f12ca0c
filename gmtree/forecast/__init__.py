"""Coherent forecasts: hierarchies, groups and periods whose forecasts add up.

Functions and arguments have the names of Nixtla's hierarchicalforecast, which need not be
installed. If it is, :class:`BottomUp`, :class:`MinTrace`, :class:`TopDown` and :class:`MiddleOut`
can replace its own reconcilers.

    reconcile                   from a DataFrame of base forecasts to one of coherent forecasts
    reconcile_cross_temporal    like reconcile, for forecasts of several frequencies
    diagnose                    base forecasts compared with each other, the worst first
    aggregate                   sums of bottom series over all levels
    Structure                   which series are sums of which, from any usual description
    temporal_structure          periods within periods
    BottomUp, MinTrace, TopDown, MiddleOut
                                reconcilers for HierarchicalReconciliation(reconcilers=[...])

The table shows the computing time of each method, for a structure with n series and T periods of
residuals.

    method                      tree            any other summing matrix       limits
    bottom_up                   O(n)            one sparse product             a forecast of each
                                                                               leaf
    ols, wls_struct, wls_var    O(n)            a sparse factor; for cross-    iterations if the
                                                temporal weights that are      factor needs too much
                                                products, one projection per   memory
                                                axis
    mint_shrink                 T + 1 times     T + 1 solves with the factor   complete forecasts;
                                as long                                        at least 3 periods
                                                                               with all residuals
    nonnegative=True            exact, a few    an active set, with a          not for proportions
                                passes          certified distance
    lower, upper                exact           not offered                    ols, wls_struct and
                                                                               wls_var
    forecast_proportions        O(n)            not offered                    no intervals
    average_proportions,        one sparse      one sparse product, if each    complete histories
    proportion_averages         product         leaf is in one divided series

    normal intervals            O(n) a step     about n^2: 15,000 series in    exact for any weights
                                                seconds
    bootstrap, conformal        a projection of each period of residuals       linear methods only

Windows of a cross-validation, which a column ``cutoff`` numbers, are reconciled separately. Long
runs draw a progress bar if standard error is a terminal. Use hierarchicalforecast itself for
``mint_cov`` and ``emint``, which need dense matrices of all pairs of series, and for PERMBU
samples, ERM, evaluation and plots. gmtree does not offer covariances between frequencies (FoReco's
``shr``, ``acov``) either.
"""

from gmtree.forecast.aggregate import aggregate
from gmtree.forecast.diagnostics import diagnose
from gmtree.forecast.frequency import temporal_structure
from gmtree.forecast.reconcile import reconcile
from gmtree.forecast.reconcilers import BottomUp, MiddleOut, MinTrace, TopDown
from gmtree.forecast.structure import Structure
from gmtree.forecast.temporal import reconcile_cross_temporal

__all__ = [
    "BottomUp",
    "MiddleOut",
    "MinTrace",
    "Structure",
    "TopDown",
    "aggregate",
    "diagnose",
    "reconcile",
    "reconcile_cross_temporal",
    "temporal_structure",
]
