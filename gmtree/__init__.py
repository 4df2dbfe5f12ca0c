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
from typing import TYPE_CHECKING, Any

from gmtree import shapes
from gmtree._validate import IntegerOverflowError
from gmtree._version import __version__
from gmtree.matrix import ConstraintMatrix, GenerationMatrix, MappingMatrix
from gmtree.tree import Tree

if TYPE_CHECKING:
    from gmtree import baselines, datasets, gmc, privacy, queries
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
    from gmtree.privacy.planning import optimal_shares, plan
    from gmtree.privacy.release import Release, release
    from gmtree.qr import householder, lo_qr

__all__ = [
    "Consistency",
    "ConstraintMatrix",
    "GenerationMatrix",
    "IntegerOverflowError",
    "MappingMatrix",
    "Release",
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
    "optimal_shares",
    "plan",
    "privacy",
    "queries",
    "release",
    "shapes",
    "to_networkx",
    "tree_from_adjacency",
    "tree_from_distances",
    "tree_from_laplacian",
    "tree_from_structure",
]

# What is loaded when first used, so that `import gmtree` stays quick: the names of each module,
# none where the module itself is meant.
_LAZY = {
    "baselines": (),
    "consistency": ("Consistency", "consistency_bias", "consistent"),
    "convert": (
        "adjacency",
        "ancestral_matrix",
        "distance_matrix",
        "generation_matrix_from",
        "laplacian",
        "to_networkx",
        "tree_from_adjacency",
        "tree_from_distances",
        "tree_from_laplacian",
        "tree_from_structure",
    ),
    "datasets": (),
    "gmc": (),
    "privacy": (),
    "privacy.planning": ("optimal_shares", "plan"),
    "privacy.release": ("Release", "release"),
    "qr": ("householder", "lo_qr"),
    "queries": (),
}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names or (module,)}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gmtree' has no attribute {name!r}")
    module = import_module(f"gmtree.{_MODULE_OF[name]}")
    value = getattr(module, name, module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
