"""Trees as matrices: recursions over a rooted tree in single sweeps over flat arrays.

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> G = gm.GenerationMatrix(tree)
>>> G.T.solve(np.ones(tree.n))  # number of nodes below and including each node
array([5., 3., 1., 1., 1.])
>>> G.solve(np.ones(tree.n))  # depth of each node
array([1., 2., 2., 3., 3.])
"""

from importlib import import_module
from typing import Any

from gmtree import shapes
from gmtree._validate import IntegerOverflowError
from gmtree._version import __version__
from gmtree.consistency import Consistency, consistency_bias, consistent
from gmtree.convert import (
    adjacency,
    ancestral_matrix,
    distance_matrix,
    generation_matrix_from,
    laplacian,
    to_networkx,
    tree_from_adjacency,
    tree_from_distances,
    tree_from_laplacian,
    tree_from_structure,
)
from gmtree.matrix import ConstraintMatrix, GenerationMatrix, MappingMatrix
from gmtree.qr import householder, lo_qr
from gmtree.tree import Tree

__all__ = [
    "Consistency",
    "ConstraintMatrix",
    "GenerationMatrix",
    "IntegerOverflowError",
    "MappingMatrix",
    "Tree",
    "__version__",
    "adjacency",
    "ancestral_matrix",
    "baselines",
    "consistency_bias",
    "consistent",
    "datasets",
    "distance_matrix",
    "generation_matrix_from",
    "gmc",
    "householder",
    "laplacian",
    "lo_qr",
    "privacy",
    "queries",
    "shapes",
    "to_networkx",
    "tree_from_adjacency",
    "tree_from_distances",
    "tree_from_laplacian",
    "tree_from_structure",
]

# Loaded when first used, so that `import gmtree` stays quick.
_LAZY_MODULES = frozenset({"baselines", "datasets", "gmc", "privacy", "queries"})


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return import_module(f"gmtree.{name}")
    raise AttributeError(f"module 'gmtree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
