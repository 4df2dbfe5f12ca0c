"""Integer noise as Gaussian noise: the epsilon and delta that follow from a sum of losses.

Gaussian noise of variance v, added to a number that changes by s, has a privacy loss with the law
N(m^2 / 2, m^2), m = s / sqrt(v). We write G(m) for this pair of laws. Counts get integer noise,
whose loss has steps and is sometimes larger. The method ``gaussian_loss`` of each mechanism bounds
it as follows, with the two functions at the end of this file.

**One count that changes by 1.** For an integer t, let x(t) be the number with P(Z > x(t)) = P(noise
>= t) for a standard normal variable Z. Let m be the largest step x(t + 1) - x(t). A test of whether
a record is present can do no better than to compare the noisy count with a threshold, possibly at
random between two neighbouring ones, because the likelihood ratio grows with the count. At the
thresholds themselves the errors of the test are at least those of a test for G(m), because their
normal quantiles differ by at most m. Between two thresholds the curve of errors is a straight line,
while the curve of G(m) is convex and therefore below it. So G(m) reveals at least as much [1]_. A
change by s is a chain of s changes by 1, whose steps of x add up to at most s m. So it reveals at
most as much as G(s m).

Laplace noise of scale b has its largest step from x(0) to x(1), like any noise with likelihood
ratios of at most exp(1 / b). For Gaussian noise with sigma below 64, all steps are computed up to
the point that the noise exceeds with a probability of 1e-250, and increased by more than the
numerical error. The remaining probability is added to delta.

**Large sigma.** Let V = sigma^2 and T = 3/2. Draw X from N(c, V - T), then an integer Y with
probability proportional to exp(-(Y - X)^2 / 2T). For an integer c, Y - c has a law that does not
depend on c: X is the noisy value of a Gaussian mechanism, and Y is computed from X. The normalising
sum is a constant times 1 + u(X), where u has period 1 and Fourier coefficients exp(-2 pi^2 T k^2),
k != 0 (Poisson), which add up to a < 2.8e-13. Given Y, X is normal with variance
w = T (1 - T / V), so that the mean of 1 / (1 + u(X)) given Y differs from a constant by at most
a / (1 - a) exp(-2 pi^2 w). The law of Y is therefore that of the discrete Gaussian with sigma, up
to a factor between 1 - 1e-25 and 1 + 1e-25. So this noise reveals at most as much as Gaussian
noise of variance V - 3/2, if epsilon and delta are enlarged by 4e-25 for each count.
:func:`gaussian_epsilon` allows for 2^40 counts that one person changes.

**Many counts, many releases.** If the squares m^2 of all counts that a person changes add up to at
most 2 rho, all noisy counts together reveal at most as much as G(sqrt(2 rho)). This also holds if
each release is chosen after the earlier ones were seen: a noisy count with m is a function of the
increment of a Brownian motion with drift 0 or 1 over a time of m^2. All of them are therefore a
function of the motion up to the time 2 rho, and the end point of the motion is a sufficient
statistic for its drift.

References
----------
.. [1] J. Dong, A. Roth, W. Su. Gaussian Differential Privacy. JRSS B, 2022.
.. [2] B. Balle, Y.-X. Wang. Improving the Gaussian Mechanism for Differential Privacy. ICML 2018.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from gmtree import _validate as check
from gmtree.privacy.accounting.conversion import largest_safe, proper_delta
from gmtree.privacy.accounting.rational import positive, round_up

# From this sigma on, we use the bound that the docstring above proves for large sigma.
_LARGE = 64
_SMOOTHING = Fraction(3, 2)
_LARGE_LAPLACE = 1000
_QUARTER_PI = Fraction(7_853_981_634, 10**10)
# Below this scale, the probability of any noise other than 0 is too small for floating point.
_SMALLEST = Fraction(1, 30)
# Steps between normal quantiles are increased by this fraction, which is far more than their
# rounding errors of about 1e-11.
_STEP_MARGIN = 1e-9
# A margin that is far larger than the errors of scipy's `erfcx` (1e-13) and of `exp` at -750.
_MARGIN = 1e-12
# Added to epsilon, and relatively to delta, for the 2^40 counts that the docstring above allows.
_PER_COUNT = 1e-12
_SMALLEST_DELTA = 1e-200
_LARGEST_RHO = 1e5
# When we choose a budget for a target, we reduce its epsilon by this fraction, so that other
# versions of scipy also find that the budget meets the target.
TO_SPARE = 1e-9


def gaussian_epsilon(rho: Any, delta: Any) -> float:
    """The epsilon of (epsilon, delta)-differential privacy of Gaussian noise with this loss.

    It is smaller than :func:`zcdp_epsilon`, which holds for any noise with this rho. Integer noise
    has a slightly larger `rho` here than in zero-concentrated differential privacy: its variance
    counts as sigma^2 - 3/2 or more instead of sigma^2. The result is rounded up.

    Parameters
    ----------
    rho : number
        The sum of s^2 / (2 v) over all counts, where s is the change of a count and v the variance
        of its noise.
    delta : number
        Above 0 and below 1. If it is below 1e-200, the result is infinite.

    Examples
    --------
    >>> from gmtree import privacy
    >>> round(privacy.gaussian_epsilon(0.1, 1e-6), 4), round(privacy.zcdp_epsilon(0.1, 1e-6), 4)
    (1.9945, 2.1419)
    """
    amount, bound = positive("rho", rho), proper_delta(delta)
    return smallest_epsilon(np.zeros(1), np.ones(1), 0.0, amount, bound)


def gaussian_rho(epsilon: Any, delta: Any) -> Fraction:
    """The largest rho with :func:`gaussian_epsilon` at most `epsilon`, rounded down.

    This is the budget of an account in (epsilon, delta).

    Parameters
    ----------
    epsilon : number
        Above 0.
    delta : number
        Above 0 and below 1.

    Returns
    -------
    Fraction

    Examples
    --------
    >>> from gmtree import privacy
    >>> round(float(privacy.gaussian_rho(1, 1e-9)), 6), round(float(privacy.zcdp_rho(1, 1e-9)), 6)
    (0.016557, 0.014973)
    """
    found = largest_rho(positive("epsilon", epsilon), proper_delta(delta))
    if found is None:
        check.fail("epsilon", "and argument 'delta' must be larger: no rho is known to imply them.")
    return found


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Like :func:`gaussian_rho`, but None if `epsilon` or `delta` is extremely small."""
    goal = epsilon * (1 - Fraction(TO_SPARE))
    found = largest_safe(lambda rho: meets(Fraction(rho), goal, delta), 1e-40, _LARGEST_RHO)
    return None if found is None else Fraction(found)


def meets(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether a sum of Gaussian losses implies (epsilon, delta)-differential privacy."""
    if delta < _SMALLEST_DELTA or rho > _LARGEST_RHO:
        return False
    found = delta_above(_float_below(epsilon), np.zeros(1), np.ones(1), 0.0, rho)
    return Fraction(found) <= delta


def smallest_epsilon(
    losses: np.ndarray, weights: np.ndarray, infinite: float, rho: Fraction, delta: Fraction
) -> float:
    """The smallest epsilon for which :func:`delta_above` is at most `delta`, rounded up."""
    if delta < _SMALLEST_DELTA or rho > _LARGEST_RHO:
        return math.inf
    bound = _float_below(delta)

    def is_safe(epsilon: float) -> bool:
        return delta_above(epsilon, losses, weights, infinite, rho) <= bound

    low, high = 0.0, 1.0
    if is_safe(low):
        return low
    while not is_safe(high):
        low, high = high, 2 * high
        if high > 1e9:
            return math.inf
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_safe(middle) else (middle, high)
    return high


def delta_above(
    epsilon: float, losses: np.ndarray, weights: np.ndarray, infinite: float, rho: Fraction
) -> float:
    """An upper bound of delta at `epsilon`, for noise that has two independent parts.

    One part is Gaussian, with a sum of losses of `rho`. The other has a loss of ``losses[k]`` with
    probability ``weights[k]``, and an infinite loss with probability `infinite`. Given the loss of
    this part, the rest of epsilon is left for the Gaussian part. So delta is the mean of the
    Gaussian part's delta at that rest.
    """
    x = (epsilon - _PER_COUNT) - losses
    # All quantities below decrease in x.
    x -= 1e-14 * (abs(epsilon) + np.abs(losses))
    if rho == 0:
        parts = -np.expm1(np.minimum(x, 0))
    else:
        parts = _gaussian_deltas(x, math.sqrt(2 * float(rho)) * (1 + 1e-14))
    total = float(weights @ parts) * (1 + 1e-12 + 1e-15 * len(losses))
    return (total + infinite) * (1 + _PER_COUNT) + 1e-230


def _gaussian_deltas(x: np.ndarray, m: float) -> np.ndarray:
    """Upper bounds of Phi(-z) - exp(x) Phi(-z - m) with z = x / m - m / 2, at most 1.

    Phi(-z) = exp(-z^2 / 2) erfcx(z / sqrt 2) / 2, and exp(x) = exp(((z + m)^2 - z^2) / 2). So the
    two terms have the same exponential if z is not negative.
    """
    z = x / m - m / 2
    z -= 1e-15 * (np.abs(x / m) + m)
    upper = np.minimum(z + m, 1e150)
    root = math.sqrt(0.5)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        density = np.exp(-0.5 * z * z)
        scaled = special.erfcx(root * np.maximum(z, 0))
        tail = 0.5 * density * ((1 + _MARGIN) * scaled - special.erfcx(root * upper))
        first = special.ndtr(-z)
        second = np.where(
            upper < 0,
            np.exp(np.minimum(x, 0)) * special.ndtr(-upper),
            0.5 * density * special.erfcx(root * np.maximum(upper, 0)),
        )
        body = first - second * (1 - _MARGIN) + _MARGIN
    return np.clip(np.where(z >= 0, tail, body), 0, 1)


# --------------------------------------------------------------------------- one count


@lru_cache(maxsize=4096)
def loss_of_laplace(scale: Fraction) -> Fraction | None:
    """An upper bound of m^2 / 2 for discrete Laplace noise on a count that changes by 1.

    Returns None if the noise is so small that no useful bound is known.
    """
    if scale < _SMALLEST:
        return None
    if scale >= _LARGE_LAPLACE:
        # The normal quantile of 1 / (1 + exp(-r)) is at most r sqrt(2 pi) / 4 for 0 <= r <= 1,
        # because the normal distribution function at this bound is at least 1 / (1 + exp(-r)):
        # both expansions agree up to r, and its term in r^3 is larger.
        return round_up(_QUARTER_PI / scale**2)
    # P(noise >= 1) is 1 / (1 + exp(1 / scale)).
    step = -2 * float(special.ndtri(special.expit(-1 / float(scale))))
    return round_up(Fraction(step * (1 + _STEP_MARGIN)) ** 2 / 2)


@lru_cache(maxsize=4096)
def loss_of_gaussian(sigma: Fraction) -> Fraction | None:
    """An upper bound of m^2 / 2 for discrete Gaussian noise on a count that changes by 1.

    Returns None if the noise is so small that no useful bound is known.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from gmtree.privacy.accounting.gaussian import loss_of_gaussian
    >>> [round(float(1 / (2 * loss_of_gaussian(Fraction(s)))), 3) for s in (1, 3, 100)]
    [0.914, 8.916, 9998.5]
    """
    if sigma < _SMALLEST:
        return None
    if sigma >= _LARGE:
        return round_up(1 / (2 * (sigma**2 - _SMOOTHING)))
    step = _largest_step(float(sigma)) * (1 + _STEP_MARGIN)
    return round_up(Fraction(step) ** 2 / 2)


def _largest_step(sigma: float) -> float:
    """The largest step of the normal quantiles of the discrete Gaussian's tails.

    By symmetry x(1 - t) = -x(t), so that only the steps from t = 0 on are needed.
    """
    y = np.arange(math.floor(37.5 * sigma) + 1.0)
    weight = np.exp(-0.5 * (y / sigma) ** 2)
    # Adding from the smallest on keeps the relative errors of all sums small.
    tails = np.cumsum(weight[::-1])[::-1]
    known = tails[1:][weight[1:] > 1e-250] / (2 * tails[0] - 1)
    x = -special.ndtri(known)
    return max(2 * float(x[0]), float(np.diff(x).max(initial=0.0)))


def _float_below(x: Fraction) -> float:
    return math.nextafter(float(x), -math.inf)
