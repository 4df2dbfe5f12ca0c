"""`gmtree warm`: compile everything ahead, so that no later call has to wait for the compiler.

Functions are compiled when they first get a large enough input, separately for each type of
numbers, and kept on disk. This command compiles all of them for the usual types. Run it once after
an installation, or while a container image is built. If the folder of the package cannot be
written, set the environment variable NUMBA_CACHE_DIR to a folder for the machine code.

Until a function is compiled, calls on small trees run it as plain Python, with identical results.
GMTREE_ALWAYS_COMPILE=1 in the environment compiles every function on its first call instead.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from time import perf_counter
from typing import Any

import numpy as np

from gmtree._progress import Progress


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "warm",
        help="compile everything ahead, for container images",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compile everything, print a summary and return the exit status."""
    from gmtree._kernels._jit import always_compile

    started = perf_counter()
    always_compile()
    _check_cache()
    with Progress(len(STOPS) * len(NUMBERINGS), "compiling") as progress:
        for make in NUMBERINGS:
            for stop in STOPS:
                progress.advance(0, f"compiling {stop.__name__}")
                stop(make())
                progress.advance(1)
    found = list(dispatchers())
    total = sum(len(each.signatures) for each in found)
    compiled = sum(sum(each.stats.cache_misses.values()) for each in found)
    print(f"{total} variants of {len(found)} functions are ready; {compiled} were compiled now.")
    print(f"It took {perf_counter() - started:.1f} s. The machine code is kept in")
    for folder in sorted({each.stats.cache_path for each in found}):
        print(f"  {folder}")
    return 0


def dispatchers() -> Iterator[Any]:
    """All compiled functions of the package that Python calls."""
    from gmtree import _kernels

    for module in iter_modules(_kernels.__path__, "gmtree._kernels."):
        loaded = import_module(module.name)
        for value in vars(loaded).values():
            # Skip functions that a module only imports, and helpers: these are compiled into the
            # kernels that call them and are not kept on their own.
            is_own = hasattr(value, "signatures") and value.py_func.__module__ == module.name
            if is_own and not value.targetoptions.get("no_cpython_wrapper"):
                yield value


def _check_cache() -> None:
    """Refuse to compile if the machine code could not be kept."""
    for each in dispatchers():
        folder = each.stats.cache_path
        if folder is None or not _is_writable(Path(folder)):
            raise OSError(
                "machine code cannot be kept"
                + ("" if folder is None else f" in {folder!r}")
                + "; set NUMBA_CACHE_DIR to a folder that may be written to."
            )


def _is_writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


# --------------------------------------------------------------------------- trees and values

DTYPES = (np.float64, np.float32, np.int64)
COLUMNS = ((), (2,))


def _canonical() -> Any:
    from gmtree import shapes

    return shapes.grouped(40, rng=1).canonical()


def _shuffled(tree: Any = None) -> Any:
    from gmtree.tree import Tree

    tree = _canonical() if tree is None else tree
    number = np.random.default_rng(2).permutation(tree.n)
    parent = np.empty(tree.n, dtype=np.int64)
    parent[number] = np.where(tree.parent < 0, -1, number[tree.parent])
    return Tree.from_parents(parent)


NUMBERINGS: tuple[Callable[[], Any], ...] = (_canonical, _shuffled)


def _values(rows: int) -> Iterator[np.ndarray]:
    """Arrays of values of all types and shapes that kernels are compiled for."""
    rng = np.random.default_rng(3)
    for dtype in DTYPES:
        for columns in COLUMNS:
            yield rng.integers(1, 9, (rows, *columns)).astype(dtype)


def _ranges(tree: Any) -> np.ndarray:
    return np.array([[0, tree.n_leaves], [1, tree.n_leaves - 1]])


# --------------------------------------------------------------------------- stops of the tour


def trees(tree: Any) -> None:
    """Constructors, properties of nodes, and pairs of nodes."""
    from gmtree import shapes
    from gmtree.tree import Tree

    for dtype in (np.int32, np.int64):
        Tree.from_parents(tree.parent.astype(dtype))
    Tree.from_edges(np.array(["b", "c", "d"]), np.array(["a", "a", "b"]))
    Tree.from_edges(np.array([7, 8, 9]), np.array([1, 1, 7]))
    Tree.from_levels(["x", "x", "y"], [1, 2, 2]).node(("x", 1))
    for mixed in (["x", "y", "x"], [1, 2, 1]):
        Tree.from_levels(mixed, [2, 2, 1])  # not sorted
    Tree.from_linkage(np.array([[0.0, 1.0, 0.5, 2.0], [2.0, 3.0, 1.0, 3.0]]))
    Tree.from_newick("((a:1,b:2)c:3,d:7);")
    Tree.from_summing_matrix([[1, 1], [1, 0], [0, 1]])
    shapes.random_recursive(9, rng=1), shapes.complete(2, 3), shapes.caterpillar(7)
    tree.canonical(), tree.k_order_subtree(1), tree.subtree(tree.root), tree.path(0)
    tree.children(tree.root), tree.descendants(tree.root), tree.ancestors(0), tree.siblings(0)
    _ = tree.leaves, tree.leaves_left_to_right, tree.depth, tree.subtree_size, tree.child_count
    i = np.arange(tree.n)
    for a, b in ((i, i[::-1]), (0, 1)):
        tree.lca(a, b), tree.is_ancestor(a, b), tree.common_ancestors(a, b)
        tree.distance(a, b), tree.distance(a, b, edge=np.ones(tree.n))


def matrices(tree: Any) -> None:
    """Products and solves, with and without weights."""
    from gmtree.matrix import ConstraintMatrix, GenerationMatrix, MappingMatrix

    weights = np.random.default_rng(4).uniform(1, 2, tree.n)
    unit, both = GenerationMatrix(tree), GenerationMatrix(tree, weights, weights)
    single = GenerationMatrix(tree, *2 * [weights.astype(np.float32)])
    for v in _values(tree.n):
        for G in (unit, single if v.dtype == np.float32 else both):
            G.solve(v), G.T.solve(v), G @ v, G.T @ v
        tree.leaf_values(v), ConstraintMatrix(tree).T @ v
    for v in _values(tree.n_leaves):
        tree.aggregate(v)
    for v in _values(tree.n_internal):
        ConstraintMatrix(tree) @ v
    MappingMatrix([0, 1], tree.n) @ np.ones(tree.n)
    for G in (unit, both):
        G.tocsr(), G.inverse(), G.siblings(), G.submatrix(1), G.is_similar(G)
        G.diagonal_decomposition(), G.eigenvalues()
    distinct = GenerationMatrix(tree, 1.0 + np.arange(tree.n), weights)
    distinct.right_eigenvector(tree.root), distinct.left_eigenvector(tree.root)


def conversions(tree: Any) -> None:
    """Other matrices of a tree, and trees made from such matrices."""
    from gmtree import convert
    from gmtree.tree import Tree

    for edge in (None, np.ones(tree.n)):
        convert.adjacency(tree, edge=edge), convert.adjacency(tree, directed=False, edge=edge)
        convert.laplacian(tree, edge=edge), convert.ancestral_matrix(tree, edge=edge)
        convert.distance_matrix(tree, edge=edge), convert.distance_matrix(tree, edge, nodes=[2, 1])
        convert.distance_matrix(tree, edge, nodes=[1, 2])
    Tree.from_adjacency(convert.adjacency(tree))
    Tree.from_laplacian(convert.laplacian(tree), tree.root)
    Tree.from_distances(convert.distance_matrix(tree), tree.root)


def consistency(tree: Any) -> None:
    """Both stages for all kinds of variances, bounds, whole numbers, exact errors."""
    from gmtree.consistency import Consistency, between, consistency_bias

    some = np.random.default_rng(5).uniform(1, 2, tree.n)
    inner, outer = np.where(tree.depth == 2, np.inf, some), some.copy()
    inner[tree.root] = outer[tree.root] = 0.0
    outer[tree.leaves[:2]] = np.inf
    for variance in (None, 2.0, some, inner, outer):
        post = Consistency(tree, variance)
        for v in _values(tree.n):
            v[tree.root] = 1000  # room for the bounds below it, if it is known exactly
            post.project(v), consistency_bias(tree, v)
            post.project(v, nonnegative=True), post.project(v, lower=0.5)
            post.project(v, integer=True), post.project(v, nonnegative=True, integer=True)
            post.project(v, nonnegative=True, return_info=True)
        high = np.full(tree.n, 2000.0)
        for bounds in ({"upper": 2000.0}, {"nonnegative": True, "upper": {"node": high}}):
            post.project(np.full(tree.n, 1000.0), return_info=True, **bounds)
        for low in (None, np.zeros(tree.n)):
            problem = between.Problem(np.full(tree.n, 1000.0), low, high)
            between.by_polylines(post._factor, None, problem, 0, 1e-11)
        post.project(np.ones(tree.n), nonnegative=True, integer="random", rng=1)
        live = post.track(np.full(tree.n, 1000.0))
        live.update(0, 2.0)
        live.update([0, 1], [2.0, 3.0])
        live.value(0), live.values()
        _ = post.theta, post.node_variance(), post.covariance(0, np.arange(tree.n))
        post.node_variance(noise=1.0), post.diagnose(np.full(tree.n, 1000.0))
        post.messages(np.full(tree.n, 1000.0), nonnegative=True)
        post.leaf_sum_variance(np.ones(tree.n_leaves, bool)), post.range_variance(_ranges(tree))


def large_families(tree: Any) -> None:
    """Sums over many siblings, which have kernels of their own."""
    from gmtree import shapes
    from gmtree.consistency import Consistency
    from gmtree.matrix import GenerationMatrix

    wide = shapes.complete(7, 3) if tree._layout.order is None else _shuffled(shapes.complete(7, 3))
    some = np.random.default_rng(7).uniform(1, 2, wide.n)
    for v in _values(wide.n):
        weights = some.astype(np.float32 if v.dtype == np.float32 else np.float64)
        GenerationMatrix(wide).T.solve(v), GenerationMatrix(wide, weights, weights).T.solve(v)
        Consistency(wide).project(v), Consistency(wide, some).project(v)


def mistakes(tree: Any) -> None:
    """Cause errors whose messages name the first offending node or row, which kernels search."""
    from gmtree.consistency import Consistency
    from gmtree.tree import Tree

    with suppress(ValueError):
        Tree.from_parents([-1, 2, 1])
    with suppress(ValueError):
        Tree.from_edges(["a", "a"], ["b", "c"])
    for v in _values(tree.n):
        with suppress(ValueError):
            Consistency(tree, np.zeros(tree.n)).project(v)


def tables(tree: Any) -> None:
    """Tables at the nodes of a tree, and crossed trees."""
    from gmtree import shapes
    from gmtree.consistency.crossed import CrossedConsistency
    from gmtree.consistency.tables import TableConsistency
    from gmtree.consistency.tables.nonnegative import Splitting

    some = np.random.default_rng(6).uniform(1, 2, tree.n)
    for variance in (1.0, some):
        post = TableConsistency(tree, {"a": 2, "b": 2}, {(): variance, ("a", "b"): variance})
        cells = {(): np.ones(tree.n), ("a", "b"): np.ones((tree.n, 2, 2))}
        x = post.project(cells)
        post.marginal(x, ("a",)), post.node_variance(("a",))
        post.project(cells, nonnegative=True), post.project(cells, nonnegative=True, integer=True)
        # For tables of this size, `project` does not use the splitting method, so call it directly.
        ys = post._problem.measurements(cells)
        Splitting(post._solver, ys).run(x.reshape(tree.n, -1), 1e-3, 1000, None)
    crossed = CrossedConsistency([tree, tree])
    values = np.ones((tree.n, tree.n))
    crossed.project(values), crossed.project(values, nonnegative=True), crossed.node_variance()
    small = shapes.star(3)
    CrossedConsistency([small, tree, small]).project(np.ones((small.n, tree.n, small.n)))
    CrossedConsistency([tree], some).project(some)


def privacy(tree: Any) -> None:
    """Noise, releases, plans and intervals."""
    from gmtree import privacy

    for draw in (privacy.discrete_laplace, privacy.discrete_gaussian):
        for scale in (1, 1000, 10**7):
            draw(scale, 5)
    counts = np.arange(tree.n_leaves)
    for budget in ({"epsilon": 1}, {"rho": 1, "mechanism": "discrete_laplace"}, {"rho": 1}):
        for options in ({}, {"invariants": [tree.root]}, {"neighbors": "change_one"}):
            made = privacy.release(
                tree, counts, nonnegative=True, integer=True, **budget, **options
            )
            _ = made.values, made.std_error, made.interval(), made.plan, made.bootstrap(2)
            made.range_sum(_ranges(tree)), made.range_interval(_ranges(tree))
        for objective in ("nodes", "leaves"):
            privacy.optimal_shares(tree, objective=objective, **budget)
    tables: dict[str, Any] = {"axes": {"a": 2, "b": 2}, "queries": [(), ("a", "b")]}
    cells = np.ones((tree.n_leaves, 2, 2), np.int64)
    for options in ({}, {"invariants": [tree.root]}, {"neighbors": "change_one"}):
        whole = "invariants" not in options
        drawn = privacy.release_tables(tree, cells, rho=1, integer=whole, **tables, **options)
        _ = drawn.values, drawn.interval(("a",)), drawn.plan
    privacy.optimal_shares(tree, rho=1, **tables)


def published(tree: Any) -> None:
    """The published algorithm, its competitors, and error measures."""
    from gmtree import baselines, gmc, queries

    v = np.ones(tree.n)
    for algorithm in (baselines.boosting, baselines.privtrie, baselines.dense):
        algorithm(tree, v)
    gmc.with_square_roots(tree, v), gmc.without_square_roots(tree, v)
    queries.cover_probability(tree), queries.random_ranges(tree.n_leaves, 5, rng=1)
    for values in _values(tree.n):
        queries.range_sum(tree, values, _ranges(tree))


STOPS: tuple[Callable[[Any], None], ...] = (
    trees,
    matrices,
    conversions,
    consistency,
    large_families,
    mistakes,
    tables,
    privacy,
    published,
)
