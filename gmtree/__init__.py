"""Trees as matrices: recursions over a rooted tree in single sweeps over flat arrays.

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> G = gm.GenerationMatrix(tree)
>>> G.T.solve(np.ones(tree.n))  # number of nodes below and including each node
array([5., 3., 1., 1., 1.])
>>> G.solve(np.ones(tree.n))  # depth of each node
array([1., 2., 2., 3., 3.])

A map of everything, by who needs it; ``help(gm.Tree)`` and so on say more.

Everyone:

    Tree                    a rooted tree: from_parents, from_levels, from_newick, to_newick, ...
    shapes                  trees of a given shape: complete, chain, star, calendars, random
    plot                    pictures of trees, errors and releases (needs matplotlib)
    IntegerOverflowError    what is raised where a sum does not fit into 64 bits
    __version__             the version of gmtree, as text

For matrices and recursions:

    GenerationMatrix        G: node weights, minus edge weights; products and solves are sweeps
    ConstraintMatrix        M: M.T @ v is zero where each parent is the sum of its children
    MappingMatrix           H: picks entries, puts them back, adds up those that fall together
    adjacency               the adjacency matrix of a tree
    laplacian               its Laplacian
    distance_matrix         distances of all pairs of nodes
    ancestral_matrix        common ancestors of all pairs of leaves
    generation_matrix_from  the Generation Matrix that a given matrix is
    tree_from_structure     the tree of a structure matrix
    tree_from_adjacency     the tree of an adjacency matrix
    tree_from_laplacian     the tree of a Laplacian
    tree_from_distances     the tree of a distance matrix
    to_networkx             a tree as a graph of networkx; Tree.from_networkx leads back
    householder             one step of the "LO" QR decomposition
    lo_qr                   the whole of it

For values that should add up:

    consistent              measurements of all nodes into the closest values that add up
    Consistency             the same in two stages, with bounds, whole numbers and exact errors
    consistency_bias        how far parents are from the sums of their children
    TableConsistency        a table at each node, of which several marginals are measured
    CrossedConsistency      several hierarchies at once, such as regions and products

For frames of pandas, polars and pyarrow:

    reconcile_frame         make the values of a frame add up
    release_frame           publish the counts of a frame with differential privacy
    frames                  the module of both; Tree.values reads measurements at any nodes

For forecasters, and past one machine:

    forecast                forecasts that add up, temporal and crossed ones too, frame to frame
    dask                    consistent values and releases past one machine, on Dask

For privacy:

    release                 counts into consistent values with differential privacy, and a ledger
    Release                 what it returns: values, plan (errors by level), bootstrap, save, ...
    release_tables          the same for a table at each leaf, of which marginals are measured
    TableRelease            what it returns
    plan                    the errors of a release before any data are looked at
    optimal_shares          how to divide the budget among the levels
    privacy                 exact noise, load_ledger, accounts, conversions; noise for tests

For the paper and its experiments:

    gmc                     from the paper to the code: a table of names; the published algorithm
    baselines               what it is compared with: Boosting, PrivTrie, dense algebra
    queries                 node and range queries, and their errors
    datasets                Census2010, NYCTaxi and SynData, or look-alikes of the same shape

On the command line: ``gmtree demo``, ``gmtree release``, ``gmtree account``,
``gmtree consistent``, ``gmtree info``, ``gmtree warm``, ``gmtree bench``.
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
    "forecast": (),
    "frames": (),
    "frames.reconcile": ("reconcile_frame",),
    "frames.release": ("release_frame",),
    "gmc": (),
    "matrix": ("ConstraintMatrix", "GenerationMatrix", "MappingMatrix"),
    "plot": (),
    "privacy": (),
    "privacy.planning": ("optimal_shares", "plan"),
    "privacy.release": ("Release", "release"),
    "privacy.tables": ("TableRelease", "release_tables"),
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
    from gmtree import forecast as forecast
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
    from gmtree.privacy.tables import TableRelease as TableRelease
    from gmtree.privacy.tables import release_tables as release_tables
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
