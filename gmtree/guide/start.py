"""Start here: how to make values add up, in three calls.

You have numbers at several levels of a hierarchy, such as a country, its states and their counties.
Because the numbers have errors, the states do not add up to the country. gmtree finds the closest
numbers that do add up, and their standard errors.

From a DataFrame
----------------

Each row is a place, identified by its labels. The row of a state has no county, and the row of the
country has no labels.

>>> import pandas as pd, gmtree as gm
>>> frame = pd.DataFrame({
...     "state": [None, "NY", "VT", "NY", "NY", "VT"],
...     "county": [None, None, None, "Albany", "Kings", "Orange"],
...     "people": [9.0, 6.0, 4.0, 3.0, 2.0, 5.0],
... })
>>> frame = gm.reconcile_frame(frame, levels=["state", "county"], value="people")
>>> frame.people.round(2).tolist()
[9.54, 5.31, 4.23, 3.15, 2.15, 4.23]

`gmtree.guide.dataframes` continues from here.

From arrays
-----------

A tree is an array of parents, in any numbering, with -1 for the root. `gmtree.Consistency`
prepares the tree once; `project` then makes any number of measurements consistent.

>>> import numpy as np
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> post = gm.Consistency(tree)
>>> post.project([11.0, 7.0, 5.0, 4.0, 2.0])
array([11.25,  6.5 ,  4.75,  4.25,  2.25])
>>> np.sqrt(post.node_variance()).round(3)
array([0.791, 0.707, 0.791, 0.791, 0.791])

The second result is the standard error of each consistent value, if each measurement has the
standard error 1. `gmtree.guide.variances` explains how to state other errors.

Private counts
--------------

`gmtree.release` turns true counts of the leaves into noisy, consistent counts with a differential
privacy guarantee. The noise differs in each run, but its standard errors are known in advance:

>>> gm.plan(tree, epsilon=1).std_error.round(2)
array([3.34, 3.17, 3.34])

`gmtree.guide.privacy` explains what the guarantee covers.

Forecasts
---------

Base forecasts are made series by series, so that totals differ from the sums of their parts.
Reconciliation makes them coherent:

>>> base = pd.DataFrame({"unique_id": ["all", "a", "b"], "ds": 1, "ets": [10.0, 3.0, 4.0]})
>>> found = gm.forecast.reconcile(base, {"a": "all", "b": "all"}, method="ols")
>>> found["ets/MinTrace_method-ols"].tolist()
[9.0, 4.0, 5.0]

`gmtree.guide.forecasting` lists the methods.

Recursions over trees
---------------------

With the Generation Matrix G of a tree, recursions become products and solves. A solve with G is one
sweep from the root to the leaves. A solve with its transpose is one sweep from the leaves to the
root. Here such a sweep counts the nodes in the subtree of each node:

>>> G = gm.GenerationMatrix(tree)
>>> G.T.solve(np.ones(tree.n)).astype(int).tolist()
[5, 3, 1, 1, 1]
"""
