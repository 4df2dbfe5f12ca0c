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

`gmtree.forecast.aggregate` returns the same ``Y_df, S_df, tags``. You can pass them to
`gmtree.forecast.reconcile`, or keep ``HierarchicalReconciliation`` with the reconcilers of gmtree:

    from hierarchicalforecast.core import HierarchicalReconciliation
    rec = HierarchicalReconciliation([gm.forecast.MinTrace("ols"), gm.forecast.BottomUp()])
    rec.reconcile(Y_hat_df=base, S_df=S_df, tags=tags)

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

Which method should you use? Without historical data, ``wls_struct`` is hard to beat. If you have
residuals, compare ``wls_var`` and ``mint_shrink`` on held-out data.

How fast is it? ``gmtree bench forecast`` compares gmtree with hierarchicalforecast, from DataFrame
to DataFrame. On an Intel Xeon with 2 cores, gmtree took 0.35 s to aggregate and reconcile 100,051
series for 12 steps, and hierarchicalforecast 7.1 s.

The base forecast of b is negative, and ``bottom_up`` keeps it. With ``nonnegative=True`` it becomes
0, and the total grows:

>>> for nonnegative in (False, True):
...     found = gm.forecast.reconcile(base, part_of, method="bottom_up", nonnegative=nonnegative)
...     print(found.iloc[:, -1].tolist())
[1.0, 3.0, -2.0]
[3.0, 3.0, 0.0]
"""
