"""Tables on a tree and trees across trees: in units of copying them, and beside sparse solvers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gmtree._progress import Progress
from gmtree.bench.report import Cell, Check, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, best_times, peak_bytes, time_of
from gmtree.consistency.crossed import CrossedConsistency
from gmtree.consistency.tables import TableConsistency
from gmtree.datasets import census2010
from gmtree.matrix import GenerationMatrix
from gmtree.privacy.tables import release_tables
from gmtree.shapes import calendar
from gmtree.tree import Tree

AXES = {"sex": 2, "hispanic": 2, "race": 63}
QUERIES = [(), *((name,) for name in AXES), tuple(AXES)]
# Nodes whose tables have 75 million cells, and a million.
CENSUS_NODES, PEER_NODES, CROSSED_NODES = 300_000, 4_000, 100_000
PRIVATE_NODES = 100_000
# The factor of a million cells would take terabytes.
FACTORED_NODES = 12
# To what the residual of lsqr is reduced.
LSQR_TOLERANCE = 1e-8


def run(settings: Settings) -> Report:
    """Measure projections of census-like tables, and of places across a calendar."""
    report = Report("tables", "Tables on a tree, and trees across trees", settings.as_dict())
    full = settings.size is None
    nodes = settings.size or CENSUS_NODES
    with Progress(4, "tables") as progress:
        _census(report, nodes if full else max(10, nodes // 10), settings, full)
        progress.advance(1, "private tables")
        _private(report, PRIVATE_NODES if full else max(10, nodes // 10), settings, full)
        progress.advance(1, "sparse solvers")
        _peers(report, PEER_NODES if full else min(PEER_NODES, nodes // 1000), settings, full)
        progress.advance(1, "crossed")
        _crossed(report, min(CROSSED_NODES, nodes), settings, full)
        progress.advance(1)
    report.notes.append(
        "Tables are 2 x 2 x 63 cells; measured are the total, each axis and the whole table. "
        "Projections are into\nmemory in use, without construction; the unit is np.copyto of the "
        "result. lsqr and the sparse factorisation\nsolve the same least squares problem; its "
        "normal equations are full, so that only a few thousand cells\ncan be factored."
    )
    return report


def _measurements(tree: Tree) -> dict[tuple[str, ...], np.ndarray]:
    rng = np.random.default_rng(0)
    return {q: rng.normal(5, 2, (tree.n, *(AXES[name] for name in q))) for q in QUERIES}


def _census(report: Report, nodes: int, settings: Settings, full: bool) -> None:
    tree = census2010(nodes=nodes).tree
    y, variance = _measurements(tree), {query: 1.0 + len(query) for query in QUERIES}
    out = np.zeros((tree.n, *AXES.values()))
    source = np.ones(out.shape)
    solvers = [TableConsistency(tree, AXES, variance, threads) for threads in (1, None)]
    repeat = settings.times(usual=3, quick=2)
    one, many, copy = best_times(
        [*(partial(solver.project, y, out=out) for solver in solvers),
         lambda: np.copyto(out, source)], repeat,
    )  # fmt: skip
    memory = peak_bytes(partial(solvers[1].project, y, out=out)) / out.nbytes
    table = Table(
        f"Tables of {out[0].size} cells at {tree.n:,} nodes",
        [Column("what"), Column("ms", ",.1f"), Column("times np.copyto", ".1f")],
        [
            ["np.copyto", 1e3 * copy, 1.0],
            ["project, one thread", 1e3 * one, one / copy],
            ["project, all cores", 1e3 * many, many / copy],
        ],
    )
    report.tables.append(table)
    claims = (
        "tables, project: times np.copyto",
        "tables, memory beyond input and output: times cells",
    )
    report.checks.append(Check(claims[0], many / copy, 25, applies=full))
    report.checks.append(Check(claims[1], memory, 1.5))


def _private(report: Report, nodes: int, settings: Settings, full: bool) -> None:
    tree = census2010(nodes=nodes).tree
    counts = np.random.default_rng(0).poisson(0.3, (tree.n_leaves, *AXES.values()))
    source = [np.ones((tree.n, *(AXES[name] for name in query)), np.int64) for query in QUERIES]
    target = [np.zeros_like(table) for table in source]

    def copy() -> None:
        for a, b in zip(target, source, strict=True):
            np.copyto(a, b)

    release = partial(release_tables, tree, counts, axes=AXES, queries=QUERIES, rho=1)
    ours, copied = best_times([release, copy], settings.times(usual=3, quick=2))
    numbers = sum(table.size for table in source)
    report.tables.append(
        Table(
            f"Private tables at {tree.n:,} nodes, {numbers:,} noisy numbers",
            [Column("what"), Column("ms", ",.1f"), Column("times np.copyto", ".1f")],
            [["np.copyto of the noisy numbers", 1e3 * copied, 1.0],
             ["release_tables", 1e3 * ours, ours / copied]],
        )
    )  # fmt: skip
    claim = "private tables, 5 queries: times np.copyto of all noisy numbers"
    report.checks.append(Check(claim, ours / copied, 60, applies=full))


def _peers(report: Report, nodes: int, settings: Settings, full: bool) -> None:
    from scipy.sparse.linalg import lsqr, splu

    tree = census2010(nodes=max(10, nodes)).tree
    y, variance = _measurements(tree), {query: 1.0 + len(query) for query in QUERIES}
    solver = TableConsistency(tree, AXES, variance)
    out = np.zeros((tree.n, *AXES.values()))
    ours = best_time(partial(solver.project, y, out=out), settings.times(usual=3, quick=2))
    A, right = least_squares(tree, y, variance)
    found: list[Any] = []
    options: dict[str, Any] = {"atol": LSQR_TOLERANCE, "btol": LSQR_TOLERANCE, "iter_lim": 100_000}
    theirs = time_of(lambda: found.append(lsqr(A, right, **options)[0]))
    scale = float(abs(out).max())
    leaves = out.reshape(tree.n, -1)[tree.leaves].ravel()
    rows: list[list[Cell]] = [
        ["lsqr", 1e3 * theirs, theirs / ours, float(abs(found[0] - leaves).max()) / scale]
    ]
    # The total of the root couples all cells, so that the normal equations have no zero entry.
    small = census2010(nodes=FACTORED_NODES).tree
    y = _measurements(small)
    solver, out = TableConsistency(small, AXES, variance), np.zeros((small.n, *AXES.values()))
    ours_small = best_time(partial(solver.project, y, out=out), settings.times(usual=3, quick=2))
    A, right = least_squares(small, y, variance)
    normal = (A.T @ A).tocsc()
    factor: list[Any] = []
    factored = time_of(lambda: factor.append(splu(normal, permc_spec="NATURAL")))
    solved = time_of(lambda: factor.append(factor[0].solve(A.T @ right)))
    leaves = out.reshape(small.n, -1)[small.leaves].ravel()
    off = float(abs(factor[1] - leaves).max()) / float(abs(out).max())
    whole = (factored + solved) / ours_small
    name = f"sparse factor, {small.n * leaves.size // small.n_leaves:,} cells only"
    rows.append([name, 1e3 * (factored + solved), whole, off])
    rows.append(["  kept factor", 1e3 * solved, solved / ours_small, off])
    columns = [Column("peer"), Column("ms", ",.1f"), Column("times slower", ",.1f"),
               Column("difference", ".0e")]  # fmt: skip
    report.tables.append(Table(f"Beside sparse solvers, {tree.n * 252:,} cells", columns, rows))
    report.checks += [
        Check("tables: times faster than lsqr", theirs / ours, 50, at_least=True, applies=full),
        Check("tables: times faster than a sparse factorisation", whole, 50, at_least=True,
              applies=full),
        Check("tables: difference from a sparse factorisation", off, 1e-9, about_results=True),
    ]  # fmt: skip


def least_squares(
    tree: Tree, y: dict[tuple[str, ...], np.ndarray], variance: dict[tuple[str, ...], float]
) -> tuple[Any, np.ndarray]:
    """The problem as others take it: a sparse matrix with one column per cell of a leaf."""
    from scipy import sparse

    # Column j of the inverse of the structure matrix, transposed, has the ancestors of node j.
    inverse = sparse.csr_matrix(sparse.eye(tree.n))
    step = inverse - GenerationMatrix(tree).tocsr().T
    total = inverse
    for _ in range(tree.height - 1):
        inverse = inverse @ step
        total = total + inverse
    sums = total.tocsc()[:, tree.leaves]
    blocks, right = [], []
    for query, values in y.items():
        cells = sparse.csr_matrix(np.ones((1, 1)))
        for name, length in AXES.items():
            cells = sparse.kron(
                cells, sparse.eye(length) if name in query else np.ones((1, length))
            )
        weight = 1 / np.sqrt(variance[query])
        blocks.append(weight * sparse.kron(sums, cells))
        right.append(weight * values.ravel())
    return sparse.vstack(blocks).tocsr(), np.concatenate(right)


def _crossed(report: Report, nodes: int, settings: Settings, full: bool) -> None:
    trees = [census2010(nodes=nodes).tree, calendar("2024-01-01", "2025-01-01")]
    rng = np.random.default_rng(0)
    y = rng.normal(5, 2, (trees[0].n, trees[1].n))
    out, target = np.zeros(y.shape), np.zeros(y.shape)
    repeat = settings.times(usual=10, quick=3)
    products = CrossedConsistency(trees)
    ours, copy = best_times(
        [partial(products.project, y, out=out), lambda: np.copyto(target, y)], repeat
    )
    spread = CrossedConsistency(trees, np.exp(rng.uniform(-0.3, 0.3, y.shape)))
    found: list[Any] = []
    iterated = time_of(lambda: found.append(spread.project(y, return_info=True)[1]))
    report.tables.append(
        Table(
            f"{trees[0].n:,} places x {trees[1].n} periods",
            [Column("what"), Column("ms", ",.1f"), Column("times np.copyto", ".1f")],
            [["np.copyto", 1e3 * copy, 1.0], ["project, products", 1e3 * ours, ours / copy],
             [f"project, any variances ({found[0].iterations} iterations)", 1e3 * iterated,
              iterated / copy]],
        )
    )  # fmt: skip
    report.checks.append(Check("crossed, project: times np.copyto", ours / copy, 6, applies=full))
