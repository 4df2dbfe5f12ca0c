"""Others who solve the same problems: one table for the tests and for the benchmark.

Each entry prepares two functions for a canonically numbered tree: ours and theirs. Bringing the
tree into the form that each side wants is done beforehand and not timed. Everything that depends
on the values is done inside and timed; for solvers, everything they do with the tree is, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from gmtree import baselines
from gmtree.bench.levelwise import LevelByLevel
from gmtree.bench.trees import EXTREMES, LARGE
from gmtree.consistency import Consistency
from gmtree.matrix import ConstraintMatrix, GenerationMatrix
from gmtree.tree import Tree


class Pair(NamedTuple):
    """Two functions without arguments that give the same numbers."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]

    def difference(self) -> float:
        """Largest difference of the results, relative to the largest number."""
        # Either side may reuse its memory.
        ours, theirs = np.array(self.ours()), np.asarray(self.theirs())
        scale = max(1.0, float(abs(theirs).max()))
        return float(abs(ours - theirs).max()) / scale


@dataclass(frozen=True)
class Comparison:
    """One problem, and someone else who solves it.

    Attributes
    ----------
    task, peer : str
        What is computed, and by whom.
    module : str
        What must be installed.
    prepare : function from a tree to a `Pair`
    shapes : tuple of str
        Trees of :mod:`gmtree.bench.trees` it makes sense on.
    most_nodes : mapping
        By shape, the size beyond which the peer takes minutes or more memory than there is.
    tolerance : float
        How well the results must agree. For a peer that iterates, its own tolerance.
    least : mapping
        By shape, how many times faster we promise to be.
    """

    task: str
    peer: str
    module: str
    prepare: Callable[[Tree], Pair]
    shapes: tuple[str, ...] = LARGE
    most_nodes: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = 1e-9
    least: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_installed(self) -> bool:
        """Whether the peer can be called here."""
        return find_spec(self.module) is not None


def measurements(tree: Tree) -> np.ndarray:
    """Counts with noise, some of them negative."""
    rng = np.random.default_rng(3)
    truth = tree.aggregate(rng.poisson(5.0, tree.n_leaves)).astype(np.float64)
    return truth + rng.laplace(0.0, tree.height if tree.height < 64 else 8, tree.n)


# --------------------------------------------------------------------------- sums along edges


def _triangular_down(tree: Tree) -> Pair:
    from scipy.sparse.linalg import spsolve_triangular

    v, out = measurements(tree), np.empty(tree.n)
    G = GenerationMatrix(tree)
    A = G.tocsr().tocsc()
    return Pair(
        lambda: G.solve(v, out=out),
        lambda: spsolve_triangular(A, v, lower=True, unit_diagonal=True),
    )


def _triangular_up(tree: Tree) -> Pair:
    from scipy.sparse.linalg import spsolve_triangular

    v, out = measurements(tree), np.empty(tree.n)
    G = GenerationMatrix(tree)
    A = G.tocsr().T.tocsr()
    return Pair(
        lambda: G.T.solve(v, out=out),
        lambda: spsolve_triangular(A, v, lower=False, unit_diagonal=True),
    )


def _higra_tree(tree: Tree) -> Any:
    """Higra wants children before parents and leaves first; the root is its own parent."""
    import higra

    parent = tree.n - 1 - tree.parent[::-1].astype(np.int64)
    parent[-1] = tree.n - 1
    return higra.Tree(parent)


def _higra_down(tree: Tree) -> Pair:
    import higra

    v, out, theirs = measurements(tree), np.empty(tree.n), _higra_tree(tree)
    G, values = GenerationMatrix(tree), v[::-1].copy()

    def propagate() -> np.ndarray:
        add = higra.Accumulators.sum
        return higra.propagate_sequential_and_accumulate(theirs, values, add)[::-1]

    return Pair(lambda: G.solve(v, out=out), propagate)


def _higra_up(tree: Tree) -> Pair:
    import higra

    v, out, theirs = measurements(tree), np.empty(tree.n), _higra_tree(tree)
    G, values = GenerationMatrix(tree), v[::-1].copy()
    leaf_values = values[: tree.n_leaves].copy()

    def accumulate() -> np.ndarray:
        add = higra.Accumulators.sum
        return higra.accumulate_and_add_sequential(theirs, values, leaf_values, add)[::-1]

    return Pair(lambda: G.T.solve(v, out=out), accumulate)


# --------------------------------------------------------------------------- consistency


def _both_stages(tree: Tree, v: np.ndarray) -> Callable[[], np.ndarray]:
    return lambda: Consistency(tree).project(v)


def _numpy_levels(tree: Tree) -> Pair:
    v, out, other = measurements(tree), np.empty(tree.n), np.empty(tree.n)
    post, peer = Consistency(tree), LevelByLevel(tree)
    return Pair(lambda: post.project(v, out=out), lambda: peer.project(v, out=other))


Solve = Callable[[Any, np.ndarray], np.ndarray]


def _normal_equations(solve: Solve, children_first: bool) -> Callable[[Tree], Pair]:
    """The closed form ``v - M (M^T M)^-1 M^T v`` with a solver for sparse matrices.

    Canonical order has parents first. A user who knows that the matrix comes from a tree may put
    children first, so that factors have no more entries than the matrix (`children_first`);
    otherwise the solver chooses the order.
    """

    def prepare(tree: Tree) -> Pair:
        v = measurements(tree)

        def closed_form() -> np.ndarray:
            M = ConstraintMatrix(tree).tocsr()
            if children_first:
                M = M[:, ::-1]
            return v - M @ solve((M.T @ M).tocsc(), M.T @ v)

        return Pair(_both_stages(tree, v), closed_form)

    return prepare


def _splu(A: Any, b: np.ndarray) -> np.ndarray:
    from scipy.sparse.linalg import splu

    return splu(A).solve(b)


def _splu_in_order(A: Any, b: np.ndarray) -> np.ndarray:
    from scipy.sparse.linalg import splu

    options = {"SymmetricMode": True}
    return splu(A, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options).solve(b)


def _cholmod(A: Any, b: np.ndarray) -> np.ndarray:
    from sksparse import cholmod

    if hasattr(cholmod, "cho_factor"):  # from version 0.5 on
        return cholmod.cho_factor(A).solve(b)
    return cholmod.cholesky(A)(b)


def _cholmod_in_order(A: Any, b: np.ndarray) -> np.ndarray:
    from sksparse import cholmod

    if hasattr(cholmod, "cho_factor"):  # from version 0.5 on
        return cholmod.cho_factor(A, order="natural").solve(b)
    return cholmod.cholesky(A, ordering_method="natural", mode="simplicial")(b)


def _opendp(tree: Tree) -> Pair:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    v = np.rint(measurements(tree)).astype(np.int64)
    peer = dp.t.make_consistent_b_ary_tree(2, TIA="i64", TOA="f64")
    return Pair(lambda: Consistency(tree).project(v)[tree.n_internal :], lambda: peer(v))


def _recursive(peer: Callable[[Tree, Any], np.ndarray]) -> Callable[[Tree], Pair]:
    def prepare(tree: Tree) -> Pair:
        v = measurements(tree)
        return Pair(_both_stages(tree, v), lambda: peer(tree, v))

    return prepare


# --------------------------------------------------------------------------- non-negative


def _nonnegative(tree: Tree, v: np.ndarray) -> Callable[[], np.ndarray]:
    return lambda: Consistency(tree).project(v, nonnegative=True)


def _leaf_sums(tree: Tree) -> Any:
    """The matrix that adds up leaves: an entry for each leaf and each node above it."""
    from scipy.sparse import csr_matrix

    leaf = np.arange(tree.n_leaves)
    node = tree.leaves.astype(np.int64)
    nodes, leaves = [], []
    while node.size:
        nodes.append(node)
        leaves.append(leaf)
        above = tree.parent[node]
        leaf, node = leaf[above >= 0], above[above >= 0].astype(np.int64)
    i, j = np.concatenate(nodes), np.concatenate(leaves)
    return csr_matrix((np.ones(i.size), (i, j)), shape=(tree.n, tree.n_leaves))


def _mintrace(tree: Tree) -> Pair:
    from hierarchicalforecast.methods import MinTraceSparse

    # The peer raises negative forecasts to zero before it begins.
    v = np.maximum(measurements(tree), 0.0)
    S = _leaf_sums(tree)

    def reconcile() -> np.ndarray:
        peer = MinTraceSparse("ols", nonnegative=True)
        return peer.fit_predict(S=S, y_hat=v[:, None])["mean"][:, 0]

    return Pair(_nonnegative(tree, v), reconcile)


def _clarabel(tree: Tree) -> Pair:
    import clarabel
    from scipy import sparse

    v = measurements(tree)

    def quadratic_program() -> np.ndarray:
        n, m = tree.n, tree.n_leaves
        M = ConstraintMatrix(tree).tocsr()
        leaf = sparse.csc_matrix((-np.ones(m), (np.arange(m), tree.leaves)), shape=(m, n))
        cones = [clarabel.ZeroConeT(tree.n_internal), clarabel.NonnegativeConeT(m)]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        rows = sparse.csc_matrix(sparse.vstack((M.T, leaf)))
        P, b = sparse.csc_matrix(sparse.identity(n)), np.zeros(tree.n_internal + m)
        return np.array(clarabel.DefaultSolver(P, -v, rows, b, cones, settings).solve().x)

    return Pair(_nonnegative(tree, v), quadratic_program)


# --------------------------------------------------------------------------- the table

DOWN, UP = "sums from the root", "sums of subtrees"
CONSISTENT, NONNEGATIVE = "consistency", "non-negative"

ANY_SHAPE = (*LARGE, *EXTREMES)
CHILDREN_FIRST = ", children first"
FACTORED = {"census": 5.0, "binary": 20.0}

# The plain Python of the recursive functions takes some 300 bytes a node.
RECURSIVE_NODES = 2**24
# A visit to numpy per level takes microseconds.
DEEP = {"chain": 100_000, "caterpillar": 200_000}


def _times(factor: float, shapes: tuple[str, ...] = LARGE) -> dict[str, float]:
    return dict.fromkeys(shapes, factor)


COMPARISONS = (
    Comparison(DOWN, "scipy spsolve_triangular", "scipy", _triangular_down, least=_times(25)),
    Comparison(UP, "scipy spsolve_triangular", "scipy", _triangular_up, least=_times(25)),
    Comparison(DOWN, "Higra propagate", "higra", _higra_down, least=_times(3)),
    Comparison(UP, "Higra accumulate", "higra", _higra_up, least=_times(3)),
    Comparison(
        CONSISTENT,
        "numpy, level by level",
        "numpy",
        _numpy_levels,
        shapes=ANY_SHAPE,
        most_nodes=DEEP,
        least=_times(1, ANY_SHAPE),
    ),
    Comparison(CONSISTENT, "scipy splu", "scipy", _normal_equations(_splu, False), least=FACTORED),
    Comparison(
        CONSISTENT,
        "scipy splu" + CHILDREN_FIRST,
        "scipy",
        _normal_equations(_splu_in_order, True),
    ),
    Comparison(
        CONSISTENT, "CHOLMOD", "sksparse", _normal_equations(_cholmod, False), least=FACTORED
    ),
    Comparison(
        CONSISTENT,
        "CHOLMOD" + CHILDREN_FIRST,
        "sksparse",
        _normal_equations(_cholmod_in_order, True),
    ),
    Comparison(
        CONSISTENT,
        "OpenDP make_consistent_b_ary_tree",
        "opendp",
        _opendp,
        shapes=("binary",),
        least=_times(8, ("binary",)),
    ),
    Comparison(
        CONSISTENT,
        "recursive PrivTrie",
        "gmtree",
        _recursive(baselines.privtrie_recursive),
        most_nodes=dict.fromkeys(LARGE, RECURSIVE_NODES),
        least=_times(100),
    ),
    Comparison(
        CONSISTENT,
        "recursive Boosting",
        "gmtree",
        _recursive(baselines.boosting_recursive),
        shapes=("binary",),
        most_nodes=dict.fromkeys(LARGE, RECURSIVE_NODES),
        least=_times(100, ("binary",)),
    ),
    Comparison(
        NONNEGATIVE,
        "hierarchicalforecast MinTraceSparse",
        "hierarchicalforecast",
        _mintrace,
        shapes=("census",),
        most_nodes={"census": 1_000_000},
        tolerance=1e-5,
        least=_times(100, ("census",)),
    ),
    Comparison(
        NONNEGATIVE,
        "Clarabel",
        "clarabel",
        _clarabel,
        shapes=("census",),
        most_nodes={"census": 100_000},
        tolerance=1e-5,
    ),
)
