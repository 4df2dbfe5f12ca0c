"""Forecasts: coherent totals and parts, also for users of hierarchicalforecast.

`gmtree.forecast.reconcile` takes a DataFrame of base forecasts, with one row per series and time,
and a structure, which defines each total as the sum of other series. It returns the same rows with
one more column per method.

>>> import pandas as pd, gmtree as gm
>>> base = pd.DataFrame({
...     "unique_id": ["all", "a", "b"], "ds": 1, "ets": [10.0, 3.0, -2.0],
...     "ets-lo-90": [8.0, 1.0, -4.0], "ets-hi-90": [12.0, 5.0, 0.0],
... })
>>> part_of = {"a": "all", "b": "all"}
>>> found = gm.forecast.reconcile(base, part_of, method="ols", level=[90])
>>> found.columns.tolist()[-3:]
['ets/MinTrace_method-ols', 'ets/MinTrace_method-ols-lo-90', 'ets/MinTrace_method-ols-hi-90']
>>> found["ets/MinTrace_method-ols"].tolist()
[7.0, 6.0, 1.0]

The structure is a dict from each series to its total, a `gmtree.Tree`, a summing matrix with names,
or a DataFrame with the columns of levels that ``spec=`` names. Series may be crossed, such as
regions by products. Months may add up to quarters and years (``temporal=True``), for many series
together with `gmtree.forecast.reconcile_cross_temporal`.

Coming from hierarchicalforecast
--------------------------------

Keep your code, and replace the reconcilers:

    from hierarchicalforecast.core import HierarchicalReconciliation
    rec = HierarchicalReconciliation([gm.forecast.MinTrace("ols"), gm.forecast.BottomUp()])
    rec.reconcile(Y_hat_df=base, S_df=S_df, tags=tags)

Or call gmtree alone, with the same frames. The columns of results have the same names:

    gm.forecast.reconcile(base, S_df, tags, method=["ols", "bottom_up"])

For each name of hierarchicalforecast, this table shows what to use in gmtree:

    hierarchicalforecast             gmtree.forecast
    BottomUp, BottomUpSparse         BottomUp
    MinTrace(method)                 MinTrace(method), without mint_cov and emint
    MinTraceSparse("wls_var")        MinTrace("wls_var", residual_variance="variance")
    MinTrace(m, nonnegative=True)    MinTrace(m, nonnegative=True, clip_base=True) has the same
                                     values; without clip_base, the optimum is closer to the
                                     base forecasts, and its column has another name
    TopDown, MiddleOut               the same names; hierarchicalforecast 1.5.3 may return 0 for a
                                     series that it divides by forecast proportions, if this
                                     series has a single child
    aggregate                        aggregate; it returns a structure in place of S_df, which
                                     HierarchicalReconciliation accepts as structure.to_frame()
    aggregate_temporal               not replaced: pass its S_df and tags to
                                     reconcile(temporal=True)

PERMBU samples, ERM, evaluation and plots stay with hierarchicalforecast.

The methods
-----------

    bottom_up      sums of the forecasts of the bottom series
    ols            all base forecasts have equal variances
    wls_struct     variance = number of bottom series below; the default
    wls_var        variance = mean square of the residuals of each series (needs Y_df)
    mint_shrink    covariances of the residuals, shrunk towards a diagonal (needs Y_df)
    forecast_proportions, average_proportions, proportion_averages
                   the forecast of the top level, or of `middle_level`, divided among its parts

``variance=`` accepts your own variances, by series or by level. ``immutable=`` names forecasts that
must not change. ``nonnegative=True`` finds the exact optimum without negative values. On a tree,
``lower=`` and ``upper=`` set bounds by series or by level, such as capacities. Prediction intervals
(``level=``) are exact for normal errors. ``intervals_method`` also offers bootstrap and conformal
intervals, and ``num_samples`` draws coherent sample paths.

In the example above, the base forecast of b is negative, and ``bottom_up`` keeps it. With
``nonnegative=True`` it becomes 0, and the total grows:

>>> for nonnegative in (False, True):
...     found = gm.forecast.reconcile(base, part_of, method="bottom_up", nonnegative=nonnegative)
...     print(found.iloc[:, -1].tolist())
[1.0, 3.0, -2.0]
[3.0, 3.0, 0.0]

Which method should you use? Without historical data, ``wls_struct`` is hard to beat. If you have
residuals, compare ``wls_var`` and ``mint_shrink`` on held-out data.

How fast is it? ``gmtree bench forecast`` compares gmtree with the fastest solver of
hierarchicalforecast. These are some of its rows, favourable and unfavourable ones, for 12 steps on
an AMD EPYC with 2 cores and hierarchicalforecast 1.5.3:

    seconds                                               series   gmtree   theirs
    tree, from DataFrame to DataFrame, wls_struct        100,051     0.23      3.8
    104 x 8 groups, wls_var, with intervals                  945    0.007     0.43
    110 x 50 groups, wls_var, with intervals, one step     5,661      1.2     16.1
    28 x 3,213 groups with gaps, wls_var                  14,614    0.011    0.068
    104 x 8 groups, wls_struct                               945   0.0010   0.0015
    28 x 3,213 groups with gaps, wls_struct               14,614   0.0099   0.0092

Without intervals, hierarchicalforecast's sparse solver iterates, and needs few iterations if the
weights are nearly proportional to the numbers of leaves. It also stops before it reaches the
optimum: on the groups with gaps, its bottom series differ from the optimum by 9 % for ``ols`` and
by 0.002 % for ``wls_struct``.
"""
