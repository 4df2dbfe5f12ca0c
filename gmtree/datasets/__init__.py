"""The three data sets of the Generation Matrix paper: a tree and a count for each leaf.

From the published files where you have them; otherwise a *look-alike*, made by a fixed recipe
to have the same size and a similar shape, and labelled as such.

>>> import gmtree as gm
>>> data = gm.datasets.census2010(nodes=10_000)
>>> data.name, data.description, data.is_real
('census2010', 'look-alike, not census data', False)
>>> tree, counts, *_ = data
>>> tree
Tree(n=10000, internal=559, leaves=9441, height=8)
>>> int(counts.sum())  # people
264447
"""

from gmtree.datasets.census import LEVELS as CENSUS_LEVELS
from gmtree.datasets.census import census2010
from gmtree.datasets.dataset import Dataset
from gmtree.datasets.synthetic import syndata
from gmtree.datasets.taxi import nyctaxi

__all__ = ["CENSUS_LEVELS", "Dataset", "census2010", "nyctaxi", "syndata"]
