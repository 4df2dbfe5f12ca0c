"""The (epsilon, delta) of a ledger in rho, and the rho for an (epsilon, delta)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from gmtree.privacy.accounting.conversion import zcdp_epsilon, zcdp_rho
from gmtree.privacy.accounting.gaussian import TO_SPARE, gaussian_epsilon, largest_rho
from gmtree.privacy.accounting.path_losses import path_epsilon
from gmtree.privacy.accounting.workload import lengths_of
from gmtree.privacy.noise.registry import MECHANISMS

# The rho for a target may be smaller than the largest possible one by at most this fraction.
_PRECISION = 1e-4
_MOST_STEPS = 40


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
    noise = MECHANISMS[ledger.mechanism]
    if not noise.has_loss_law or not measured or not ledger.total:
        return general
    bounds = [general]
    sigmas = {line.scale for line in measured}
    ones = {sigma: noise.gaussian_loss(sigma) for sigma in sigmas}
    ratios = [math.inf if one is None else one * 2 * sigma**2 for sigma, one in ones.items()]
    if max(ratios) < math.inf:
        bounds.append(gaussian_epsilon(ledger.total * max(ratios), delta))
    if ledger.max_contributions == 1:
        counts = Counter[Fraction]()
        for line in measured:
            counts[line.scale] += _most_changed(ledger, line)
        bounds.append(path_epsilon(tuple(sorted((+counts).items())), delta))
    return min(bounds)


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
