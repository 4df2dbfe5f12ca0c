"""DataFrames: gmtree accepts pandas, polars and pyarrow, and returns results in the same library.

Rows are matched with nodes by their labels, so the order of rows never matters. You name the
columns of labels, one per level, from coarse to fine. In the row of a coarser node, the labels of
finer levels are missing (None, NaN).

All levels of complete data
---------------------------

`gmtree.rollup_frame` sums records at every level. It adds up rows with equal labels, and replaces
missing labels by "(missing)", so that no row is lost:

>>> import pandas as pd, gmtree as gm
>>> sold = pd.DataFrame({
...     "region": ["north", "north", "north", "south"],
...     "shop": ["a", "b", "a", None],
...     "sales": [5, 3, 2, 4],
... })
>>> all_levels = gm.rollup_frame(sold, levels=["region", "shop"], value="sales")
>>> all_levels.sales.tolist()
[14, 10, 4, 7, 3, 4]

Values that do not add up
-------------------------

`gmtree.reconcile_frame` changes values as little as possible to make them add up. With ``by=`` each
group, such as a date or a product, is reconciled separately. ``variance=`` is the name of a column,
or a dict with a number per level:

>>> sales = pd.DataFrame({
...     "shop": ["a", "b", None] * 2,
...     "month": [1, 1, 1, 2, 2, 2],
...     "sales": [5.0, 3.0, 11.0, 4.0, 4.0, 8.0],
... })
>>> gm.reconcile_frame(sales, ["shop"], "sales", by="month").sales.tolist()
[6.0, 4.0, 10.0, 4.0, 4.0, 8.0]
>>> gm.reconcile_frame(sales, ["shop"], "sales", by="month", variance={"total": 0}).sales.tolist()
[6.5, 4.5, 11.0, 4.0, 4.0, 8.0]

In the last call the total was known exactly, so its variance is 0.

If a node has no row, but its value follows from the other values, a row is added. With
``return_info=True`` you also get the largest changes. A `gmtree.DataWarning` points out rows that
look wrong, for example if the label "NA" was read as a missing label.

Standard errors, and other results of array functions
-----------------------------------------------------

Array functions take and return one value per node. `gmtree.Tree.align` makes such arrays from
DataFrames that have values for some of the nodes. `gmtree.Tree.to_frame` returns a DataFrame with
one row per node. In this way you get the standard errors of consistent values. The tree is made
from the rows of the leaves:

>>> import numpy as np
>>> survey = pd.DataFrame({
...     "state": [None, "NY", "VT", "NY", "NY", "VT"],
...     "county": [None, None, None, "Albany", "Kings", "Orange"],
...     "people": [9.0, 6.0, 4.0, 3.0, 2.0, 5.0],
...     "variance": [1.0, 1.0, 1.0, 4.0, 4.0, 4.0],
... })
>>> tree = gm.Tree.from_levels(survey[survey.county.notna()], levels=["state", "county"])
>>> m = tree.align(survey, value="people", variance="variance")
>>> post = gm.Consistency(tree, m.variance)
>>> error = np.sqrt(post.node_variance())
>>> found = tree.to_frame(people=post.project(m.values), error=error)
>>> found[["state", "county", "people", "error"]].round(2).head(4)
  state  county  people  error
0   NaN     NaN    9.40   0.79
1    NY     NaN    5.53   0.77
2    VT     NaN    3.88   0.75
3    NY  Albany    3.26   1.47

If each level has a DataFrame of its own, pass a dict:

>>> states = pd.DataFrame({"state": ["VT", "NY"], "people": [30.0, 700.0]})
>>> m = tree.align({"state": states, "total": 720.0})
>>> gm.reconcile(tree, m.values, m.variance).round(2).tolist()
[723.33, 696.67, 26.67, 348.33, 348.33, 26.67]

Private counts
--------------

`gmtree.release_frame` counts the rows of a DataFrame, or takes a column of counts, and publishes
the counts with differential privacy. The leaves must come from a public list, as
`gmtree.guide.privacy` explains. With ``person=``, records of a person beyond the stated bounds are
dropped.

>>> people = pd.DataFrame({"state": ["NY", "VT"], "county": ["Kings", "Orange"]})
>>> r = gm.release_frame(people, ["state", "county"], tree=tree, epsilon=1)
>>> len(r.to_frame())
6
"""
