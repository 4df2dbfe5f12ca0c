"""Trees and values in pandas and polars DataFrames and pyarrow Tables.

Every function accepts any of the three and returns the kind that it was given. Rows are matched to
nodes by their labels, never by position, so rows may come in any order. An unknown, missing or
repeated label raises an error that names it.

>>> import pandas as pd, gmtree as gm
>>> noisy = pd.DataFrame({
...     "state": [None, "NY", "VT", "NY", "NY", "VT"],
...     "county": [None, None, None, "Albany", "Orange", "Orange"],
...     "people": [700.0, 690.0, 31.0, 300.0, 375.0, 28.0],
... })
>>> consistent = gm.reconcile_frame(noisy, levels=["state", "county"], value="people")
>>> consistent.people.round(2).tolist()
[706.69, 680.54, 26.15, 302.77, 377.77, 26.15]
"""

from gmtree.frames.changes import Change, ReconcileInfo
from gmtree.frames.diagnostics import diagnose_frame
from gmtree.frames.reconcile import reconcile_frame
from gmtree.frames.release import release_frame
from gmtree.frames.rollup import rollup_frame
from gmtree.tree.measurements import Measurements

__all__ = [
    "Change",
    "Measurements",
    "ReconcileInfo",
    "diagnose_frame",
    "reconcile_frame",
    "release_frame",
    "rollup_frame",
]
