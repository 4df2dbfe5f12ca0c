"""Pictures of trees, errors and releases; needs matplotlib (extra ``plot``).

Every function draws on the given axes, or on new ones, and returns the axes, so that you can change
titles and scales.

>>> import gmtree as gm
>>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
>>> ax = gm.plot.icicle(tree, tree.aggregate([304, 372, 29]))
>>> ax.get_title()
'6 nodes, 3 leaves'
"""

from gmtree.plot.boxes import icicle, sums
from gmtree.plot.errors import error_by_level, noisy_against_consistent, residuals_by_level
from gmtree.plot.links import node_link

__all__ = [
    "error_by_level",
    "icicle",
    "node_link",
    "noisy_against_consistent",
    "residuals_by_level",
    "sums",
]
