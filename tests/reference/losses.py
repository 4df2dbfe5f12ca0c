"""Delta of integer noise, by listing all outcomes of all counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Outcomes this many sigma away are left out, with a probability below 1e-32.
_REACH = 12.5


def outcomes(sigma: float, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses and probabilities of all outcomes of one noisy count that changes by `shift`."""
    most = math.ceil(_REACH * sigma) + abs(shift)
    y = np.arange(-most, most + 1)
    weight = np.exp(-(y**2) / (2 * sigma**2))
    return ((y - shift) ** 2 - y**2) / (2 * sigma**2), weight / math.fsum(weight)


def exact_delta(counts: Sequence[tuple[float, int]], epsilon: float) -> float:
    """The sum of max(0, p - exp(epsilon) q) over all outcomes of counts (sigma, shift)."""
    losses, p = np.zeros(1), np.ones(1)
    for sigma, shift in counts:
        more, q = outcomes(float(sigma), shift)
        losses, p = (losses[:, None] + more).ravel(), (p[:, None] * q).ravel()
    return math.fsum(p * -np.expm1(np.minimum(epsilon - losses, 0)))
