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
    bias, rmse : array by node
        Mean error and root mean square error.
    level_bias, level_rmse : array by level, the root's first
        Mean of the bias over the nodes of a level, and root of their mean square error.
    """

    bias: np.ndarray
    rmse: np.ndarray
    level_bias: np.ndarray
    level_rmse: np.ndarray

    def __str__(self) -> str:
        rows = [("level", "bias", "rmse")]
        levels = zip(self.level_bias, self.level_rmse, strict=True)
        rows += [(str(d), f"{b:.4g}", f"{e:.4g}") for d, (b, e) in enumerate(levels, start=1)]
        return "\n".join(["Approximate error of the values by level", *table(rows)])


def bootstrap(release: Any, runs: int, rng: Any) -> BootstrapErrors:
    """Errors of `runs` simulated releases that treat the published values as the truth."""
    runs = check.count("runs", runs, least=1)
    if runs > MOST_RUNS:
        check.fail("runs", f"must be at most {MOST_RUNS}, not {runs}.")
    tree, words = release.tree, SeededWords(rng)
    truth = release.values.astype(np.float64)
    total, squares = np.zeros((2, tree.n))
    for _ in range(runs):
        noisy = truth + _noise(release, words)
        x = release._post.project(noisy, nonnegative=release.nonnegative, integer=release.integer)
        error = x - truth
        total += error
        squares += error**2
    bias, mean_square = total / runs, squares / runs
    nodes = np.bincount(tree.depth)[1:]
    return BootstrapErrors(
        bias,
        np.sqrt(mean_square),
        np.bincount(tree.depth, bias)[1:] / nodes,
        np.sqrt(np.bincount(tree.depth, mean_square)[1:] / nodes),
    )


def _noise(release: Any, words: SeededWords) -> np.ndarray:
    """Noise of every node as in the release; 0 for nodes that are exact or not measured."""
    out = np.zeros(release.tree.n, np.int64)
    noise = MECHANISMS[release.ledger.mechanism]
    for level, scale in enumerate(release.ledger.scales, start=1):
        if scale is not None:
            chosen = release.tree.depth == level
            if release._exact is not None:
                chosen &= ~release._exact
            out[chosen] = noise.draw(scale, int(np.count_nonzero(chosen)), words)
    return out
