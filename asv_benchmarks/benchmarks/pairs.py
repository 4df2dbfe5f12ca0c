"""Pairs of nodes, and sparse matrices of a tree beside scipy's own conversion.

Numbers named ``track_`` are ratios, measured in one process: to copying a vector as long as the
tree (``np.copyto``), or to scipy's conversion of the same matrix from COO to CSR. Run as a script
this file prints all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from time import perf_counter

import numpy as np
from scipy.sparse import coo_array, csr_array

import gmtree as gm

CENSUS_LEVELS = (1, 51, 3143, 35_632, 62_851, 171_000, 373_998, 11_155_486)


def census_shaped(rng: np.random.Generator) -> gm.Tree:
    """Eight levels as large as those of the 2010 census, with skewed numbers of children."""
    fanouts = []
    for above, below in pairwise(CENSUS_LEVELS):
        share = rng.gamma(0.7, size=above)
        fanouts.append(1 + rng.multinomial(below - above, share / share.sum()))
    return gm.shapes.from_fanouts(fanouts)


def best_time(action: Callable[[], object], repeat: int = 5) -> float:
    times = []
    for _ in range(repeat):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return min(times)


def copy_time(n: int) -> float:
    source, target = np.ones(n), np.empty(n)
    return best_time(lambda: np.copyto(target, source), repeat=9)


SHAPES: dict[str, Callable[[], gm.Tree]] = {
    "census": lambda: census_shaped(np.random.default_rng(0)),
    "binary": lambda: gm.shapes.complete(2, 23),
    "random": lambda: gm.shapes.random_recursive(10_000_000, 0),
    "chain": lambda: gm.shapes.chain(10_000_000),
}


def shuffled(tree: gm.Tree) -> gm.Tree:
    """The same tree, nodes renumbered at random."""
    number = np.random.default_rng(2).permutation(tree.n)
    parent = np.empty(tree.n, dtype=np.int64)
    parent[number] = np.where(tree.parent < 0, -1, number[tree.parent])
    return gm.Tree.from_parents(parent)


class Pairs:
    """A million random pairs."""

    params = tuple(SHAPES)
    param_names = ("shape",)
    timeout = 600

    def setup(self, shape: str) -> None:
        self.tree = SHAPES[shape]()
        rng = np.random.default_rng(1)
        self.i, self.j = rng.integers(0, self.tree.n, (2, 1_000_000))
        # Builds the index and compiles.
        self.tree.distance(self.i, self.j)
        self.tree.is_ancestor(self.i, self.j)

    def prepare(self) -> None:
        self.tree._cache.pop("paths", None)
        self.tree.lca(0, 0)

    def time_prepare(self, shape: str) -> None:
        self.prepare()

    def time_lca(self, shape: str) -> None:
        self.tree.lca(self.i, self.j)

    def time_distance(self, shape: str) -> None:
        self.tree.distance(self.i, self.j)

    def time_is_ancestor(self, shape: str) -> None:
        self.tree.is_ancestor(self.i, self.j)

    def _ratio(self, action: Callable[[], object]) -> float:
        return best_time(action) / copy_time(self.tree.n)

    def track_prepare(self, shape: str) -> float:
        return self._ratio(self.prepare)

    def track_lca(self, shape: str) -> float:
        return self._ratio(lambda: self.tree.lca(self.i, self.j))

    def track_distance(self, shape: str) -> float:
        return self._ratio(lambda: self.tree.distance(self.i, self.j))

    def track_is_ancestor(self, shape: str) -> float:
        return self._ratio(lambda: self.tree.is_ancestor(self.i, self.j))


class SparseMatrices:
    """Matrices built from nothing but the tree, beside scipy's conversion of their entries.

    The entries are listed as the edges come, all upward, all downward, then the diagonal; or
    row by row, which spares scipy all scattered access.
    """

    params = (("binary", "random", "random, shuffled"), ("by edge", "by row"))
    param_names = ("shape", "entries")
    timeout = 600

    def setup(self, shape: str, entries: str) -> None:
        tree = SHAPES[shape.split(",")[0]]()
        self.tree = shuffled(tree) if shape.endswith("shuffled") else tree
        for build in (laplacian, undirected, directed, generation_matrix):
            build(gm.shapes.star(3))

    def time_laplacian(self, shape: str, entries: str) -> None:
        laplacian(self.tree)

    def time_undirected(self, shape: str, entries: str) -> None:
        undirected(self.tree)

    def time_directed(self, shape: str, entries: str) -> None:
        directed(self.tree)

    def time_generation_matrix(self, shape: str, entries: str) -> None:
        generation_matrix(self.tree)

    def _ratio(self, build: Callable[[gm.Tree], csr_array], entries: str) -> float:
        def anew() -> None:
            self.tree._cache.clear()
            build(self.tree)

        coo = build(self.tree).tocoo()
        if entries == "by edge":
            coo = by_edge(coo, self.tree)
        return best_time(anew, repeat=3) / best_time(coo.tocsr, repeat=3)

    def track_laplacian(self, shape: str, entries: str) -> float:
        return self._ratio(laplacian, entries)

    def track_undirected(self, shape: str, entries: str) -> float:
        return self._ratio(undirected, entries)

    def track_directed(self, shape: str, entries: str) -> float:
        return self._ratio(directed, entries)

    def track_generation_matrix(self, shape: str, entries: str) -> float:
        return self._ratio(generation_matrix, entries)


def by_edge(coo: coo_array, tree: gm.Tree) -> coo_array:
    """The same entries: those from child to parent, from parent to child, on the diagonal."""
    row, column = coo.row, coo.col
    up, own = tree.parent[row] == column, row == column
    slot = np.where(up, row, column) + tree.n * np.where(own, 2, ~up)
    entry = np.full(3 * tree.n, -1)
    entry[slot] = np.arange(coo.nnz)
    place = entry[entry >= 0]
    return coo_array((coo.data[place], (row[place], column[place])), shape=coo.shape)


def laplacian(tree: gm.Tree) -> csr_array:
    return gm.laplacian(tree)


def directed(tree: gm.Tree) -> csr_array:
    return gm.adjacency(tree)


def undirected(tree: gm.Tree) -> csr_array:
    return gm.adjacency(tree, directed=False)


def generation_matrix(tree: gm.Tree) -> csr_array:
    return gm.GenerationMatrix(tree).tocsr()


for _case, _unit in ((Pairs, "times np.copyto"), (SparseMatrices, "times scipy COO to CSR")):
    for _name in dir(_case):
        if _name.startswith("track_"):
            getattr(_case, _name).unit = _unit


def main() -> None:
    cases = [(Pairs, (shape,)) for shape in Pairs.params]
    cases += [(SparseMatrices, params) for params in product(*SparseMatrices.params)]
    for case, params in cases:
        benchmark = case()
        benchmark.setup(*params)
        for name in dir(case):
            if name.startswith("track_"):
                track = getattr(benchmark, name)
                where = ", ".join(params)
                print(f"{where:26} {name[6:]:18} {track(*params):8.2f} {track.unit}", flush=True)


if __name__ == "__main__":
    main()
