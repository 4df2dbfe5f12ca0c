"""The (epsilon, delta) of ledgers and accounts in rho, the rho for a target, and the best guess."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree.privacy.accounting.conversion import zcdp_epsilon, zcdp_rho
from gmtree.privacy.accounting.gaussian import (
    TO_SPARE,
    delta_above,
    gaussian_epsilon,
    largest_rho,
)
from gmtree.privacy.accounting.path_losses import path_epsilon
from gmtree.privacy.accounting.workload import lengths_of
from gmtree.privacy.noise.registry import MECHANISMS

# The rho for a target may be smaller than the largest possible one by at most this fraction.
_PRECISION = 1e-4
_MOST_STEPS = 40
# Larger than the rounding errors of a few operations.
_ROUNDED_UP = 1 + 1e-14


def tight_epsilon(ledger: Any, delta: Fraction) -> float:
    """The smallest of all bounds of epsilon that hold for a ledger in rho.

    - The bound that rho-zero-concentrated differential privacy implies for any noise.
    - For Gaussian noise: the losses of any neighbours add up to at most `total`. Replacing the
      noise by continuous noise (:mod:`gmtree.privacy.accounting.gaussian`) increases them by a
      factor of at most the largest ratio of the two losses over all lines.
    - For Gaussian noise and one record per person: the law of the loss itself, for the largest
      number of counts of each line in which neighbours can differ.
    """
    general = zcdp_epsilon(ledger.total, delta)
    measured = [line for line in ledger.levels if line.scale is not None and line.nodes]
    if not MECHANISMS[ledger.mechanism].has_loss_law or not measured or not ledger.total:
        return general
    bounds = [general]
    if (factor := _gaussian_factor(ledger)) is not None:
        bounds.append(gaussian_epsilon(ledger.total * factor, delta))
    if ledger.max_contributions == 1:
        counts = Counter[Fraction]()
        for line in measured:
            counts[line.scale] += _most_changed(ledger, line)
        bounds.append(path_epsilon(tuple(sorted((+counts).items())), delta))
    return min(bounds)


def account_epsilon(
    spent: Fraction,
    budget: Fraction,
    target: tuple[Fraction, Fraction] | None,
    delta: Fraction,
) -> float:
    """The epsilon of all releases of an account in rho together, rounded up.

    In an account for an (epsilon, delta), a release that meets this target may have been charged
    the whole budget, although its loss is larger as a loss of Gaussian noise. So if the whole
    budget is spent, only the target itself and the bound for any noise are known to hold.
    """
    general = zcdp_epsilon(spent, delta)
    if target is None or spent == 0:
        return general
    if spent < budget:
        return min(general, gaussian_epsilon(spent, delta))
    epsilon, target_delta = target
    if delta < target_delta:
        return general
    nearest = float(epsilon)
    return min(general, nearest if nearest >= epsilon else math.nextafter(nearest, math.inf))


def best_guess(ledger: Any) -> float:
    """The largest chance of a right guess between two neighbouring data sets, rounded up.

    It is 1/2 plus half of the total variation distance. For a loss in epsilon, this distance is at
    most (e^epsilon - 1) / (e^epsilon + 1). For a loss in rho, which bounds the Kullback-Leibler
    divergence, it is at most sqrt(rho / 2) (Pinsker) and sqrt(1 - exp(-rho)) (Bretagnolle and
    Huber). For Gaussian noise it is at most the delta of continuous noise at an epsilon of 0.
    """
    total = max(ledger.total, ledger.total_given_invariants or Fraction(0))
    loss = float(total)
    if loss == 0:
        return 0.5
    if ledger.measure == "epsilon":
        return min(1.0, (1 + math.tanh(loss / 2)) / 2 * _ROUNDED_UP)
    bounds = [math.sqrt(loss / 2), math.sqrt(-math.expm1(-loss))]
    if (factor := _gaussian_factor(ledger)) is not None:
        bounds.append(delta_above(0.0, np.zeros(1), np.ones(1), 0.0, total * factor))
    return min(1.0, (1 + min(bounds)) / 2 * _ROUNDED_UP)


def _gaussian_factor(ledger: Any) -> Fraction | None:
    """The factor by which the losses of Gaussian noise grow if continuous noise replaces it.

    It is the largest ratio of the two losses over all lines. Returns None if no such noise is known
    to reveal as much.
    """
    noise = MECHANISMS[ledger.mechanism]
    sigmas = {line.scale for line in ledger.levels if line.scale is not None and line.nodes}
    ones = {sigma: noise.gaussian_loss(sigma) for sigma in sigmas}
    if not noise.has_loss_law or None in ones.values():
        return None
    return max((2 * sigma**2 * (one or 0) for sigma, one in ones.items()), default=Fraction(1))


def _most_changed(ledger: Any, line: Any) -> int:
    """A bound of the number of counts of one line that change if one record does."""
    if ledger.neighbors == "add_remove":
        return 1
    lengths = lengths_of(ledger.axes or ())
    cells = math.prod(lengths[axis] for axis in line.query or ())
    # The total at the root does not change if a record moves.
    return 0 if line.level == 1 and cells == 1 else min(2, line.nodes)


def rho_for(target: tuple[Fraction, Fraction], ledger_of: Callable[[Fraction], Any]) -> Fraction:
    """The largest rho, up to a small fraction of it, whose ledger meets an (epsilon, delta)."""
    epsilon, delta = target
    low = zcdp_rho(epsilon, delta)
    goal = epsilon * (1 - Fraction(TO_SPARE))
    if not MECHANISMS[ledger_of(low).mechanism].has_loss_law:
        return low
    trial = high = max(low, largest_rho(epsilon, delta) or low)
    for step in range(_MOST_STEPS):
        found = Fraction(ledger_of(trial).epsilon(delta))
        if found <= goal:
            low = trial
        else:
            high = trial
        if high <= low * (1 + Fraction(_PRECISION)):
            break
        middle = (low + high) / 2
        if step == 0:
            # Epsilon is roughly proportional to the square root of rho.
            middle = max(low, trial * (goal / found) ** 2)
        trial = Fraction(float(middle))
    return low
