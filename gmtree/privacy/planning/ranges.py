"""Shares for small errors of sums over ranges of leaves, or of quantiles of ordered leaves."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from gmtree.consistency import Consistency
from gmtree.privacy.accounting.allocation import divide
from gmtree.privacy.accounting.budget import Budget
from gmtree.privacy.publishing.cumulants import solver_of_counts
from gmtree.queries import cover_probability, random_ranges
from gmtree.tree import Tree

_RANGES = 1000
_MOST_TRIALS = 300
# The error has several local minima, so that the search starts from this many of the best guesses.
_STARTS = 2
# In larger trees the first guess is used, because trials would take minutes.
_LARGEST_SEARCH = 100_000


def level_weights(tree: Tree) -> np.ndarray:
    """The average number of nodes of each level that make up a random range.

    These numbers are good first weights for the squared errors of the levels, because the errors of
    the nodes that make up a range are nearly independent.
    """
    return np.bincount(tree.depth, cover_probability(tree), tree.height + 1)[1:]


def refined(
    tree: Tree, budget: Budget, objective: str, guess: tuple[float, ...]
) -> tuple[float, ...]:
    """Shares near a guess with a smaller mean squared error of ranges or quantiles.

    The error of each range is exact. Nothing here depends on data.
    """
    if tree.n > _LARGEST_SEARCH or tree.height == 1:
        return guess
    from scipy.optimize import minimize

    mean_error = _of_quantiles if objective == "quantiles" else _of_ranges
    # Shares are relative, so the target is not needed; with it, each trial would take much longer.
    terms = replace(budget, target=None)

    def error(shares: np.ndarray) -> float:
        allocation = divide(tree, replace(terms, shares=tuple(map(Fraction, shares.tolist()))))
        return mean_error(solver_of_counts(tree, allocation.ledger, allocation.exact))

    def from_logs(logs: np.ndarray) -> np.ndarray:
        shares = np.exp(np.clip(logs, -12, 12))
        return np.round(shares / shares.sum(), 5) + 1e-5

    level = np.eye(tree.height)
    guesses = [np.array(guess), np.ones(tree.height), 1 - level[0]]
    # With Laplace noise, the best shares are often those of leaves and of a single other level.
    guesses += [x * level[-1] + (1 - x) * one for one in level[:-1] for x in (0.45, 0.65)]
    starts = [np.log(shares / shares.sum() + 1e-3) for shares in guesses]
    starts.sort(key=lambda logs: error(from_logs(logs)))
    tried = [
        minimize(
            lambda x: error(from_logs(x)), logs, method="Powell", options={"maxfev": _MOST_TRIALS}
        )
        for logs in starts[:_STARTS]
    ]
    found = min(tried, key=lambda each: each.fun)
    if found.fun >= error(np.array(guess)):
        return guess
    best = from_logs(found.x)
    return tuple(float(f"{x:.3e}") for x in best / best.sum())


def _of_ranges(post: Consistency) -> float:
    """The mean variance of sums over many random ranges."""
    leaves = post.tree.n_leaves
    ranges = random_ranges(leaves, min(_RANGES, leaves * (leaves + 1) // 2), 0)
    return float(np.mean(post.range_variance(ranges)))


def _of_quantiles(post: Consistency) -> float:
    """The mean variance of (1 - q) A - q B, for sums A of the first leaves and B of the rest.

    The error of a quantile is this difference, divided by the number of records per leaf. Here q is
    the fraction of leaves in A, as if all leaves had equal counts.
    """
    leaves = post.tree.n_leaves
    stop = np.unique(np.linspace(1, leaves, _RANGES).astype(np.int64))
    start = np.zeros_like(stop)
    first = post.range_variance(np.column_stack([start, stop]))
    rest = post.range_variance(np.column_stack([stop, start + leaves]))
    q = stop / leaves
    twice_covariance = first[-1] - first - rest
    return float(np.mean((1 - q) ** 2 * first + q**2 * rest - q * (1 - q) * twice_covariance))
