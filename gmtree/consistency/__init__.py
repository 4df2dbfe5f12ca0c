"""Turn measurements at the nodes of a tree into consistent values with the least error.

Values are consistent if each parent equals the sum of its children.

The files of this package:

    factor          stage 1: from the variances to the weights of the two sweeps
    sweeps          stage 2: the plain projection
    projection      Consistency and its method project
    functions       reconcile and consistency_bias
    exact           values known exactly, which must not contradict each other
    bounded         the optimum with leaves bounded from below, and why it is exact
    rounding        whole numbers with exact sums
    messages        estimates that subtrees pass upward, for trees that are held in several parts
    errors          variances and covariances of the result
    diagnostics     Diagnostics: measurements checked against each other
    certificate     a check of optimality that does not depend on how the values were found
    tracking        Tracker: measurements that change one at a time
    block_sweeps    several problems with one tree, solved together in one pair of sweeps
    tables/         gmtree.TableConsistency: tables of which marginals are measured
    crossed/        gmtree.CrossedConsistency: one tree for each axis
    sparse/         optimal values and their variances, for any sparse aggregation matrix
"""

from gmtree.consistency.certificate import ProjectionInfo
from gmtree.consistency.diagnostics import Diagnostics, LevelCheck, Suspect
from gmtree.consistency.functions import consistency_bias, reconcile
from gmtree.consistency.messages import Messages
from gmtree.consistency.projection import Consistency
from gmtree.consistency.rounding import round_values
from gmtree.consistency.tracking import Tracker

__all__ = [
    "Consistency",
    "Diagnostics",
    "LevelCheck",
    "Messages",
    "ProjectionInfo",
    "Suspect",
    "Tracker",
    "consistency_bias",
    "reconcile",
    "round_values",
]
