"""Measurements at the nodes of a tree into consistent values with the least error.

Values are consistent where each parent equals the sum of its children.

The files of this package:

    factor          stage 1: from the variances to the weights of the two sweeps
    projection      stage 2: Consistency and its method project
    exact           values known exactly, which must not contradict each other
    bounded         the optimum with leaves bounded from below, and why it is exact
    rounding        whole numbers with exact sums
    messages        what a subtree tells the rest, for trees that are held in several parts
    errors          variances and covariances of the result
    certificate     a check of optimality that does not depend on how the values were found
    tracking        Tracker: measurements that change one at a time
    stacked         several problems on one tree in one sweep over rows of numbers
    contrasts       axes of tables, queries, and the spaces of contrasts they measure
    tables          gmtree.TableConsistency: tables of which marginals are measured
    tables_exact    marginals known exactly, which must agree and bar whole cells
    splitting       tables without negative cells, with a certificate
    along           the sweeps of a tree along any axis of an array
    products        variances of pairs that are products, or nearly
    crossed         gmtree.CrossedConsistency: one tree for each axis
    crossed_solvers those optima of it that take iterations
    crossed_errors  variances of such values
"""

from gmtree.consistency.messages import Messages
from gmtree.consistency.projection import (
    Consistency,
    ProjectionInfo,
    consistency_bias,
    consistent,
)
from gmtree.consistency.rounding import round_values
from gmtree.consistency.tracking import Tracker

__all__ = [
    "Consistency",
    "Messages",
    "ProjectionInfo",
    "Tracker",
    "consistency_bias",
    "consistent",
    "round_values",
]
