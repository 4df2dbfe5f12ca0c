"""The three data sets of the Generation Matrix paper: a tree and a count for each leaf.

The data are read from the published files if you have them. Otherwise a fixed recipe generates a
*look-alike* of the same size and a similar shape, which is labelled as a look-alike.

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
