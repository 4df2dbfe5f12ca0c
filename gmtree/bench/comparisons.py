"""Other packages that solve the same problems: one table for the tests and for the benchmark.

Each entry prepares two functions for a canonically numbered tree: ours and theirs. Converting the
tree to the form that each function needs happens before and is not timed. All work that depends on
the values happens in the functions and is timed. For solvers, all work on the tree is timed, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from gmtree.bench.levelwise import LevelByLevel
from gmtree.bench.trees import EXTREMES, LARGE
from gmtree.consistency import Consistency
from gmtree.matrix import ConstraintMatrix, GenerationMatrix
from gmtree.tree import Tree


class Pair(NamedTuple):
    """Two functions without arguments that return the same numbers."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]

    def difference(self) -> float:
        """Largest difference of the results, relative to the largest number."""
        # Either function may reuse the memory of its result.
        ours, theirs = np.array(self.ours()), np.asarray(self.theirs())
        scale = max(1.0, float(abs(theirs).max()))
        return float(abs(ours - theirs).max()) / scale


@dataclass(frozen=True)
class Comparison:
    """One problem, and another package or function that solves it.

    Attributes
    ----------
    task, peer : str
        The problem, and the name of the peer.
    module : str
        Module that must be installed.
    prepare : function from a tree to a `Pair`
    shapes : tuple of str
        Shapes of :mod:`gmtree.bench.trees` for which the comparison makes sense.
    most_nodes : mapping
        By shape, the size beyond which the peer takes minutes or too much memory.
    tolerance : float
        Largest allowed difference of the results. For an iterative peer, the peer's tolerance.
    least : mapping
        By shape, the speed-up over the peer that gmtree promises.
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


def _ours(tree: Tree, v: np.ndarray, up: bool) -> Callable[[], np.ndarray]:
    G, out = GenerationMatrix(tree), np.empty(tree.n)
    solve = G.T.solve if up else G.solve
    return lambda: solve(v, out=out)


def _triangular(up: bool) -> Callable[[Tree], Pair]:
    """Solve with the sparse matrix in the format that suits scipy best."""

    def prepare(tree: Tree) -> Pair:
        from scipy.sparse.linalg import spsolve_triangular

        v, A = measurements(tree), GenerationMatrix(tree).tocsr()
        A = A.T.tocsr() if up else A.tocsc()
        return Pair(
            _ours(tree, v, up), lambda: spsolve_triangular(A, v, lower=not up, unit_diagonal=True)
        )

    return prepare


def _higra(up: bool) -> Callable[[Tree], Pair]:
    """Higra needs children before parents and leaves first; the root is its own parent."""

    def prepare(tree: Tree) -> Pair:
        import higra

        v, add = measurements(tree), higra.Accumulators.sum
        parent = tree.n - 1 - tree.parent[::-1].astype(np.int64)
        parent[-1] = tree.n - 1
        theirs, values = higra.Tree(parent), v[::-1].copy()
        leaf_values = values[: tree.n_leaves].copy()

        def accumulate() -> np.ndarray:
            return higra.accumulate_and_add_sequential(theirs, values, leaf_values, add)[::-1]

        def propagate() -> np.ndarray:
            return higra.propagate_sequential_and_accumulate(theirs, values, add)[::-1]

        return Pair(_ours(tree, v, up), accumulate if up else propagate)

    return prepare


# --------------------------------------------------------------------------- consistency


def _both_stages(tree: Tree, v: np.ndarray) -> Callable[[], np.ndarray]:
    return lambda: Consistency(tree).project(v)


def _numpy_levels(tree: Tree) -> Pair:
    v, out, other = measurements(tree), np.empty(tree.n), np.empty(tree.n)
    post, peer = Consistency(tree), LevelByLevel(tree)
    return Pair(lambda: post.project(v, out=out), lambda: peer.project(v, out=other))


def _normal_equations(
    solve: Callable[[Any, np.ndarray, bool], np.ndarray], children_first: bool = False
) -> Callable[[Tree], Pair]:
    """The closed form ``v - M (M^T M)^-1 M^T v`` with a solver for sparse matrices.

    By default the solver chooses the order of the rows. With `children_first` it keeps the given
    order, which makes factors with no more entries than the matrix. Only a user who knows that the
    matrix comes from a tree can choose this order.
    """

    def prepare(tree: Tree) -> Pair:
        v = measurements(tree)

        def closed_form() -> np.ndarray:
            M = ConstraintMatrix(tree).tocsr()
            if children_first:
                M = M[:, ::-1]
            return v - M @ solve((M.T @ M).tocsc(), M.T @ v, children_first)

        return Pair(_both_stages(tree, v), closed_form)

    return prepare


def _splu(A: Any, b: np.ndarray, in_order: bool) -> np.ndarray:
    from scipy.sparse.linalg import splu

    symmetric = {"SymmetricMode": True}
    order: Any = {"permc_spec": "NATURAL", "diag_pivot_thresh": 0.0, "options": symmetric}
    return splu(A, **(order if in_order else {})).solve(b)


def _cholmod(A: Any, b: np.ndarray, in_order: bool) -> np.ndarray:
    from sksparse import cholmod

    return cholmod.cho_factor(A, **({"order": "natural"} if in_order else {})).solve(b)


def _opendp(tree: Tree) -> Pair:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    v = np.rint(measurements(tree)).astype(np.int64)
    peer = dp.t.make_consistent_b_ary_tree(2, TIA="i64", TOA="f64")
    return Pair(lambda: Consistency(tree).project(v)[tree.n_internal :], lambda: peer(v))


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


# --------------------------------------------------------------------------- layers

COLUMNS = 32  # values per node, as in a batch of training


def _forward_and_backward(tree: Tree, theirs: Callable[[Any], Any]) -> Pair:
    """Reconciled values, and the gradient of their inner product with random numbers."""
    import torch

    from gmtree.torch import Reconcile

    rng = np.random.default_rng(3)
    v, g = (torch.from_numpy(rng.normal(size=(tree.n, COLUMNS))) for _ in range(2))
    v.requires_grad_()

    def step(layer: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
        x = layer(v)
        (gradient,) = torch.autograd.grad(x, v, g)
        return x.detach().numpy(), gradient.numpy()

    ours = Reconcile(tree)
    return Pair(lambda: step(ours), lambda: step(theirs))


def _torch_sparse(tree: Tree) -> Pair:
    """Leaves plus ``A.T (I + A A.T)^-1`` times the differences between inner nodes and their sums.

    A is the matrix of sums of leaves. The inverse is a dense matrix over the inner nodes, which is
    computed beforehand.
    """
    import torch

    A = _leaf_sums(tree)[tree.internal]
    inverse = torch.from_numpy(np.linalg.inv((A @ A.T).toarray() + np.eye(tree.n_internal)))
    with warnings.catch_warnings():  # this format is experimental, and the fastest one
        warnings.simplefilter("ignore", UserWarning)
        sums, parts = (
            torch.sparse_csr_tensor(each.indptr, each.indices, each.data, each.shape)
            for each in (A, A.T.tocsr())
        )
    inner, leaves = (torch.from_numpy(x.astype(np.int64)) for x in (tree.internal, tree.leaves))

    class Multiply(torch.autograd.Function):
        """A product whose backward pass has the transposed matrix at hand."""

        @staticmethod
        def forward(ctx: Any, x: Any, matrix: Any, transposed: Any) -> Any:
            ctx.transposed = transposed
            return matrix @ x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.transposed @ g, None, None

    def chain(v: Any) -> Any:
        y = v[leaves]
        gaps = v[inner] - Multiply.apply(y, sums, parts)
        x = y + Multiply.apply(inverse @ gaps, parts, sums)
        out = torch.empty_like(v).index_copy(0, leaves, x)
        return out.index_copy(0, inner, Multiply.apply(x, sums, parts))

    return _forward_and_backward(tree, chain)


def _torch_dense(tree: Tree) -> Pair:
    """The projection as one dense matrix, computed beforehand."""
    import torch

    M = ConstraintMatrix(tree).tocsr().toarray()
    P = torch.from_numpy(np.eye(tree.n) - M @ np.linalg.solve(M.T @ M, M.T))
    return _forward_and_backward(tree, lambda v: P @ v)


# --------------------------------------------------------------------------- the table

DOWN, UP = "sums from the root", "sums of subtrees"
CONSISTENT, NONNEGATIVE, LAYER = "consistency", "non-negative", "layer, 32 columns"

ANY_SHAPE = (*LARGE, *EXTREMES)
FIRST = ", children first"
FACTORED = {"census": 5.0, "binary": 20.0}

# Calling numpy once per level takes microseconds.
DEEP = {"chain": 100_000, "caterpillar": 200_000}


def _times(factor: float, shapes: tuple[str, ...] = LARGE) -> dict[str, float]:
    return dict.fromkeys(shapes, factor)


COMPARISONS = (
    Comparison(DOWN, "scipy spsolve_triangular", "scipy", _triangular(up=False), least=_times(25)),
    Comparison(UP, "scipy spsolve_triangular", "scipy", _triangular(up=True), least=_times(25)),
    Comparison(DOWN, "Higra propagate", "higra", _higra(up=False), least=_times(3)),
    Comparison(UP, "Higra accumulate", "higra", _higra(up=True), least=_times(3)),
    Comparison(
        CONSISTENT,
        "numpy, level by level",
        "numpy",
        _numpy_levels,
        shapes=ANY_SHAPE,
        most_nodes=DEEP,
        least=_times(1, ANY_SHAPE),
    ),
    Comparison(CONSISTENT, "scipy splu", "scipy", _normal_equations(_splu), least=FACTORED),
    Comparison(CONSISTENT, f"scipy splu{FIRST}", "scipy", _normal_equations(_splu, True)),
    Comparison(CONSISTENT, "CHOLMOD", "sksparse", _normal_equations(_cholmod), least=FACTORED),
    Comparison(CONSISTENT, f"CHOLMOD{FIRST}", "sksparse", _normal_equations(_cholmod, True)),
    Comparison(
        CONSISTENT,
        "OpenDP make_consistent_b_ary_tree",
        "opendp",
        _opendp,
        shapes=("binary",),
        least=_times(8, ("binary",)),
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
    Comparison(
        LAYER,
        "torch, sparse summing matrix",
        "torch",
        _torch_sparse,
        shapes=("series",),
        most_nodes={"series": 105_100},
        least=_times(20, ("series",)),
    ),
    Comparison(
        LAYER,
        "torch, dense projection",
        "torch",
        _torch_dense,
        shapes=("series",),
        most_nodes={"series": 5_000},
    ),
)
