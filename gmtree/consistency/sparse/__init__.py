"""Consistent values for any sparse aggregation matrix; nothing here knows about trees.

The files of this package:

    basis           series that determine all other series, chosen for good conditioning
    solver          SparseSolver: optimal values and their variances
    nonnegative     the optimum without negative values, with a certificate
"""

from gmtree.consistency.sparse.nonnegative import NonnegativeInfo, nonnegative_optimum
from gmtree.consistency.sparse.solver import (
    ContradictionError,
    ConvergenceError,
    Solution,
    SparseSolver,
)

__all__ = [
    "ContradictionError",
    "ConvergenceError",
    "NonnegativeInfo",
    "Solution",
    "SparseSolver",
    "nonnegative_optimum",
]
