"""Trees as matrices: recursions over a rooted tree in single sweeps over flat arrays.

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> G = gm.GenerationMatrix(tree)
>>> G.T.solve(np.ones(tree.n))  # number of nodes below and including each node
array([5., 3., 1., 1., 1.])
>>> G.solve(np.ones(tree.n))  # depth of each node
array([1., 2., 2., 3., 3.])
"""

from gmtree import shapes
from gmtree._validate import IntegerOverflowError
from gmtree._version import __version__
from gmtree.matrix import ConstraintMatrix, GenerationMatrix, MappingMatrix
from gmtree.tree import Tree

__all__ = [
    "ConstraintMatrix",
    "GenerationMatrix",
    "IntegerOverflowError",
    "MappingMatrix",
    "Tree",
    "__version__",
    "shapes",
]
