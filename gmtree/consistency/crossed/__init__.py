"""Values along several trees at once, such as sales by region and by product.

The files of this package:

    core            gmtree.CrossedConsistency: one tree for each axis
    separable       variances that are products: one projection along each axis
    axis_sweeps     the sweeps of a tree along any axis of an array
    pairs           pairs of nodes as series: which exist, and which leaves they are sums of
"""

from gmtree.consistency.crossed.core import CrossedConsistency, CrossedInfo

__all__ = ["CrossedConsistency", "CrossedInfo"]
