"""Trees as matrices: recursions over a rooted tree in single sweeps over flat arrays.

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> G = gm.GenerationMatrix(tree)
>>> G.T.solve(np.ones(tree.n))  # number of nodes in the subtree of each node
array([5., 3., 1., 1., 1.])
>>> G.solve(np.ones(tree.n))  # depth of each node
array([1., 2., 2., 3., 3.])

``help(gm.guide)`` lists the pages of the guide. This is a map of all public names, by purpose:

For everything:

    guide                   the pages of the guide, one for each subject
    Tree                    a rooted tree: from_parents, from_levels, from_newick, to_newick, ...
    shapes                  trees of a given shape: complete, chain, star, calendars, random
    plot                    pictures of trees, errors and releases (needs matplotlib)
    DataWarning             the warning about data that look wrong, such as a missing label
    InputError              an argument has an invalid value: argument, rule and first node
    InputTypeError          an argument has an invalid type, with the same attributes
    IntegerOverflowError    a sum of integers does not fit into 64 bits
    __version__             the version of gmtree, as text

For matrices and recursions:

    GenerationMatrix        G: node weights, minus edge weights; products and solves are sweeps
    ConstraintMatrix        M: M.T @ v is zero if each parent is the sum of its children
    MappingMatrix           H: selects entries of a vector; H.T puts them back
    adjacency               the adjacency matrix of a tree
    laplacian               the Laplacian matrix of a tree
    distance_matrix         distances of all pairs of nodes
    ancestral_matrix        common ancestors of all pairs of leaves
    householder             one step of the LO-QR decomposition
    lo_qr                   the LO-QR decomposition

For values that should add up:

    reconcile               find the closest values that add up
    Consistency             reconcile in two stages, with bounds, whole numbers and exact errors
    consistency_bias        distance of parents from the sums of their children
    TableConsistency        tables at each node, from several measured marginals
    CrossedConsistency      values along several hierarchies, such as regions and products

For DataFrames:

    rollup_frame            sum the rows of a DataFrame at every level
    reconcile_frame         make the values of a DataFrame add up
    diagnose_frame          compare each value with its estimate from all other values
    release_frame           publish the counts of a DataFrame with differential privacy
    frames                  the module of these functions

For neural networks:

    torch                   Reconcile, Accumulate and Propagate as layers of torch
    jax                     reconcile, accumulate and propagate as functions of jax

For forecasts and large data:

    forecast                coherent forecasts, also temporal and crossed
    dask                    reconcile and release on a Dask cluster

For privacy:

    release                 publish counts with differential privacy, consistent, with a ledger
    Release                 a release: values, intervals, plan (errors by level), save, ...
    release_tables          publish a table at each leaf, and its marginals
    TableRelease            a release of tables, as release_tables returns it
    plan                    the errors of a release, computed without data
    privacy                 accounts, ledgers, optimal shares, exact noise; noise for tests

For the paper and its experiments:

    gmc                     the published algorithm, and a table from its notation to gmtree
    baselines               other algorithms: Boosting, PrivTrie, dense algebra
    queries                 node and range queries, and their errors
    datasets                Census2010, NYCTaxi and SynData, or look-alikes of the same shape

On the command line: ``gmtree demo``, ``gmtree release``, ``gmtree account``, ``gmtree verify``,
``gmtree reconcile``, ``gmtree info``, ``gmtree warm``, ``gmtree bench``.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING

# Public names by the module that defines them; an empty tuple stands for the module itself. Names
# are loaded on first use, so that `import gmtree` is fast. The imports for type checkers below
# repeat this list, and a test compares the two.
_PUBLIC = {
    "_validate": ("DataWarning", "InputError", "InputTypeError", "IntegerOverflowError"),
    "_version": ("__version__",),
    "baselines": (),
    "consistency": ("Consistency", "consistency_bias", "reconcile"),
    "consistency.crossed": ("CrossedConsistency",),
    "consistency.tables": ("TableConsistency",),
    "convert": (
        "adjacency",
        "ancestral_matrix",
        "distance_matrix",
        "laplacian",
    ),
    "dask": (),
    "datasets": (),
    "forecast": (),
    "frames": (),
    "frames.diagnostics": ("diagnose_frame",),
    "frames.reconcile": ("reconcile_frame",),
    "frames.release": ("release_frame",),
    "frames.rollup": ("rollup_frame",),
    "gmc": (),
    "guide": (),
    "jax": (),
    "matrix": ("ConstraintMatrix", "GenerationMatrix", "MappingMatrix"),
    "plot": (),
    "privacy": (),
    "privacy.planning.plan": ("plan",),
    "privacy.publishing.release": ("Release", "release"),
    "privacy.publishing.tables": ("TableRelease", "release_tables"),
    "qr": ("householder", "lo_qr"),
    "queries": (),
    "shapes": (),
    "torch": (),
    "tree": ("Tree",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names or (module,)}
# `help` and `import *` load everything listed here, so modules without their package are left out.
__all__ = sorted(
    name for name in _MODULE_OF if name not in ("jax", "torch") or _find_spec(name) is not None
)

if _TYPE_CHECKING:
    from gmtree import baselines as baselines
    from gmtree import dask as dask
    from gmtree import datasets as datasets
    from gmtree import forecast as forecast
    from gmtree import frames as frames
    from gmtree import gmc as gmc
    from gmtree import guide as guide
    from gmtree import jax as jax
    from gmtree import plot as plot
    from gmtree import privacy as privacy
    from gmtree import queries as queries
    from gmtree import shapes as shapes
    from gmtree import torch as torch
    from gmtree._validate import DataWarning as DataWarning
    from gmtree._validate import InputError as InputError
    from gmtree._validate import InputTypeError as InputTypeError
    from gmtree._validate import IntegerOverflowError as IntegerOverflowError
    from gmtree._version import __version__ as __version__
    from gmtree.consistency import Consistency as Consistency
    from gmtree.consistency import consistency_bias as consistency_bias
    from gmtree.consistency import reconcile as reconcile
    from gmtree.consistency.crossed import CrossedConsistency as CrossedConsistency
    from gmtree.consistency.tables import TableConsistency as TableConsistency
    from gmtree.convert import adjacency as adjacency
    from gmtree.convert import ancestral_matrix as ancestral_matrix
    from gmtree.convert import distance_matrix as distance_matrix
    from gmtree.convert import laplacian as laplacian
    from gmtree.frames.diagnostics import diagnose_frame as diagnose_frame
    from gmtree.frames.reconcile import reconcile_frame as reconcile_frame
    from gmtree.frames.release import release_frame as release_frame
    from gmtree.frames.rollup import rollup_frame as rollup_frame
    from gmtree.matrix import ConstraintMatrix as ConstraintMatrix
    from gmtree.matrix import GenerationMatrix as GenerationMatrix
    from gmtree.matrix import MappingMatrix as MappingMatrix
    from gmtree.privacy.planning.plan import plan as plan
    from gmtree.privacy.publishing.release import Release as Release
    from gmtree.privacy.publishing.release import release as release
    from gmtree.privacy.publishing.tables import TableRelease as TableRelease
    from gmtree.privacy.publishing.tables import release_tables as release_tables
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
