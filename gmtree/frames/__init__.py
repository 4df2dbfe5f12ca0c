"""Trees and values in frames of pandas, polars and pyarrow.

Every function reads any of the three and gives back the kind that came in. Labels decide which
row belongs to which node, never positions: rows may come in any order, and labels that are
unknown, missing or there twice are errors that name them.

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

from gmtree.frames.reconcile import reconcile_frame
from gmtree.frames.release import release_frame
from gmtree.labels.measurements import Measurements

__all__ = ["Measurements", "reconcile_frame", "release_frame"]
