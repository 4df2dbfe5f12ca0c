"""Parametric bootstrap: errors of values for which no formula is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree._text import table
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.privacy.testing import SeededWords

# This many runs give the errors to a quarter of a percent, enough for an approximate method.
MOST_RUNS = 100_000


class BootstrapErrors(NamedTuple):
    """Approximate errors of the values of a release; see :meth:`Release.bootstrap`.

    Attributes
    ----------
    bias, rmse : array by node, for tables of shape (n, *lengths of the query's axes)
        Mean error and root mean square error.
    level_bias, level_rmse : array by level, the root's first
        Mean of the bias over the nodes and cells of a level, and root of their mean square error.
    """

    bias: np.ndarray
    rmse: np.ndarray
    level_bias: np.ndarray
    level_rmse: np.ndarray

    def __repr__(self) -> str:
        rows = [("level", "bias", "rmse")]
        levels = zip(self.level_bias, self.level_rmse, strict=True)
        rows += [(str(d), f"{b:.4g}", f"{e:.4g}") for d, (b, e) in enumerate(levels, start=1)]
        return "\n".join(["Approximate error of the values by level", *table(rows)])


def bootstrap(release: Any, runs: int, rng: Any) -> dict[Any, BootstrapErrors]:
    """Errors of `runs` simulated releases that treat the published values as the truth, by query.

    A release of counts has one query, None.
    """
    runs = check.count("runs", runs, least=1)
    if runs > MOST_RUNS:
        check.fail("runs", f"must be at most {MOST_RUNS}, not {runs}.")
    words, truth = SeededWords(rng), release.values.astype(np.float64)
    views = release._views(truth)
    sums = {query: np.zeros((2, *view.shape)) for query, view in views.items()}
    for _ in range(runs):
        noisy = {query: view + _noise(release, query, words) for query, view in views.items()}
        x = release._project(noisy.get(None, noisy))
        for query, error in release._views(x - truth).items():
            sums[query] += error, error**2
    return {query: _summary(release, query, *(x / runs)) for query, x in sums.items()}


def _summary(release: Any, query: Any, bias: np.ndarray, square: np.ndarray) -> BootstrapErrors:
    """The errors of a query by node and by level, without cells that cannot occur."""
    depth = release.tree.depth
    possible = release.ledger._workload.possible_cells(query).ravel()
    nodes = np.bincount(depth)[1:]
    by_level = [
        np.bincount(depth, x.reshape(depth.size, -1)[:, possible].mean(axis=1))[1:] / nodes
        for x in (bias, square)
    ]
    return BootstrapErrors(bias, np.sqrt(square), by_level[0], np.sqrt(by_level[1]))


def _noise(release: Any, query: Any, words: SeededWords) -> np.ndarray:
    """Noise of every count of a query as in the release; 0 if a count is exact or not measured."""
    tree, workload = release.tree, release.ledger._workload
    possible = workload.possible_cells(query).ravel()
    out = np.zeros((tree.n, possible.size), np.int64)
    noise = MECHANISMS[release.ledger.mechanism]
    for line in release.ledger.levels:
        if line.scale is not None and line.query == query:
            chosen = tree.depth == line.level
            if release._exact is not None and possible.size == 1:
                chosen &= ~release._exact
            out[chosen] = noise.draw(
                line.scale, (int(np.count_nonzero(chosen)), possible.size), words
            )
    out[:, ~possible] = 0
    return out.reshape(tree.n, *workload.query_shape(query))
