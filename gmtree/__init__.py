"""Trees as matrices: recursions over a rooted tree in single sweeps over flat arrays.

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> G = gm.GenerationMatrix(tree)
>>> G.T.solve(np.ones(tree.n))  # number of nodes below and including each node
array([5., 3., 1., 1., 1.])
>>> G.solve(np.ones(tree.n))  # depth of each node
array([1., 2., 2., 3., 3.])
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

# What users see, by the module it is defined in; none where the module itself is meant. All of it
# is loaded when first used, so that `import gmtree` stays quick. The imports for type checkers
# below say the same once more, which a test compares.
_PUBLIC = {
    "_validate": ("IntegerOverflowError",),
    "_version": ("__version__",),
    "baselines": (),
    "consistency": ("Consistency", "consistency_bias", "consistent"),
    "consistency.crossed": ("CrossedConsistency",),
    "consistency.tables": ("TableConsistency",),
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
    "dask": (),
    "datasets": (),
    "frames": (),
    "frames.reconcile": ("reconcile_frame",),
    "frames.release": ("release_frame",),
    "gmc": (),
    "matrix": ("ConstraintMatrix", "GenerationMatrix", "MappingMatrix"),
    "plot": (),
    "privacy": (),
    "privacy.planning": ("optimal_shares", "plan"),
    "privacy.release": ("Release", "release"),
    "qr": ("householder", "lo_qr"),
    "queries": (),
    "shapes": (),
    "tree": ("Tree",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names or (module,)}
__all__ = sorted(_MODULE_OF)

if _TYPE_CHECKING:
    from gmtree import baselines as baselines
    from gmtree import dask as dask
    from gmtree import datasets as datasets
    from gmtree import frames as frames
    from gmtree import gmc as gmc
    from gmtree import plot as plot
    from gmtree import privacy as privacy
    from gmtree import queries as queries
    from gmtree import shapes as shapes
    from gmtree._validate import IntegerOverflowError as IntegerOverflowError
    from gmtree._version import __version__ as __version__
    from gmtree.consistency import Consistency as Consistency
    from gmtree.consistency import consistency_bias as consistency_bias
    from gmtree.consistency import consistent as consistent
    from gmtree.consistency.crossed import CrossedConsistency as CrossedConsistency
    from gmtree.consistency.tables import TableConsistency as TableConsistency
    from gmtree.convert import adjacency as adjacency
    from gmtree.convert import ancestral_matrix as ancestral_matrix
    from gmtree.convert import distance_matrix as distance_matrix
    from gmtree.convert import generation_matrix_from as generation_matrix_from
    from gmtree.convert import laplacian as laplacian
    from gmtree.convert import to_networkx as to_networkx
    from gmtree.convert import tree_from_adjacency as tree_from_adjacency
    from gmtree.convert import tree_from_distances as tree_from_distances
    from gmtree.convert import tree_from_laplacian as tree_from_laplacian
    from gmtree.convert import tree_from_structure as tree_from_structure
    from gmtree.frames.reconcile import reconcile_frame as reconcile_frame
    from gmtree.frames.release import release_frame as release_frame
    from gmtree.matrix import ConstraintMatrix as ConstraintMatrix
    from gmtree.matrix import GenerationMatrix as GenerationMatrix
    from gmtree.matrix import MappingMatrix as MappingMatrix
    from gmtree.privacy.planning import optimal_shares as optimal_shares
    from gmtree.privacy.planning import plan as plan
    from gmtree.privacy.release import Release as Release
    from gmtree.privacy.release import release as release
    from gmtree.qr import householder as householder
    from gmtree.qr import lo_qr as lo_qr
    from gmtree.tree import Tree as Tree


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gmtree' has no attribute {name!r}")
    module = _import_module(f"gmtree.{_MODULE_OF[name]}")
    value = module if name == _MODULE_OF[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
