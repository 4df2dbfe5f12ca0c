"""Measurements at the nodes of a tree into consistent values with the least error.

Values are consistent where each parent equals the sum of its children.

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
