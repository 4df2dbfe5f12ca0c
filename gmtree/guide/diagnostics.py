"""Diagnostics: find measurements that contradict each other, and test variances.

`gmtree.Consistency.diagnose` compares each measurement with the value that all other measurements
imply.

>>> import numpy as np, gmtree as gm
>>> rng = np.random.default_rng(1)
>>> tree = gm.shapes.complete(3, 5)
>>> truth = tree.aggregate(rng.integers(0, 100, tree.n_leaves))
>>> noisy = truth + rng.normal(size=tree.n)
>>> noisy[7] += 12                       # a mistake
>>> d = gm.Consistency(tree).diagnose(noisy)
>>> int(np.nanargmax(np.abs(d.standardized)))
7

How to read the results
-----------------------

- reconciled: the consistent value.
- residual: the measurement minus the consistent value.
- standardized: the residual divided by its own standard deviation. A size above 4 is suspicious:
  correct measurements exceed it at one node in 16,000.
- leave_one_out: the value that all other measurements imply for the node.
- leverage: the share of the consistent value that comes from the node's own measurement. With a
  leverage of 1, no other measurement contributes to it.
- chi2, dof, p_value: the overall test. ``chi2 / dof`` near 1 means that the variances are right
  on average; 4 means that the standard errors should have been twice as large.

>>> d.dof
40
>>> fixed = gm.Consistency(tree).diagnose(np.where(np.arange(tree.n) == 7, truth, noisy))
>>> bool(fixed.chi2 < d.chi2), bool(fixed.p_value > 0.01)
(True, True)

The residual at node 7, in standard deviations, is:

>>> float(np.abs(d.standardized[7]).round(1))
8.7

One wrong measurement also makes its neighbours suspicious, but less so. The leaves of one family
are an exception: the measurements only show that their sum is wrong, so all of these leaves have
the same standardised residual. Without variances the order of the residuals still has a meaning,
but not their size.

From files, DataFrames and forecasts
------------------------------------

The same columns exist for files, DataFrames and forecasts, with the most suspicious value first. On
the command line, ``--report`` writes them to a second file:

    gmtree reconcile meters.csv --levels feeder,building --value kwh --variance 4
        -o consistent.csv --report suspicious.csv

`gmtree.diagnose_frame` takes a pandas or polars DataFrame or a pyarrow Table:

>>> import pandas as pd
>>> meters = pd.DataFrame({
...     "feeder": [None, "north", "north", "north", "south", "south", "south"],
...     "building": [None, None, "a", "b", None, "c", "d"],
...     "kwh": [200.0, 91.0, 70.0, 51.0, 80.0, 39.0, 42.0],
... })
>>> found = gm.diagnose_frame(meters, ["feeder", "building"], "kwh", variance=4)
>>> found[["feeder", "measured", "leave_one_out"]].round(1).head(1)
  feeder  measured  leave_one_out
0  north      91.0          120.3

`gmtree.forecast.diagnose` compares base forecasts at each step, for hierarchies and groups, with
the variances of their residuals. `Release.diagnose` tests the noisy counts of a private release,
which costs no privacy because it reads published numbers only.
"""
