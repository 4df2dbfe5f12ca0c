"""From zero-concentrated differential privacy to epsilon and delta, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from gmtree import _validate as check
from gmtree.privacy.accounting.rational import LARGEST, positive, rational

# The `decimal` module rounds logarithms and exponentials correctly to this many digits, so that the
# relative error of a handful of operations is far below the margin.
_DIGITS = 60
_MARGIN = Decimal("1e-40")
_MOST_STEPS = 200


def zcdp_epsilon(rho: Any, delta: Any) -> float:
    """The epsilon of (epsilon, delta)-differential privacy that rho-zCDP implies.

    Every order alpha > 1 gives a valid epsilon,
    ``alpha rho + log(1 / (alpha delta)) / (alpha - 1) + log(1 - 1 / alpha)``
    (Canonne, Kamath and Steinke 2020, section 2.3). The result is the smallest of these, rounded
    up.

    Parameters
    ----------
    rho : number
        Not negative. If it is 0, so is the result.
    delta : number
        Above 0 and below 1.

    Examples
    --------
    >>> from gmtree import privacy
    >>> round(privacy.zcdp_epsilon(0.1, 1e-6), 4)
    2.1419
    """
    r, d = _not_negative("rho", rho), proper_delta(delta)
    if r == 0:
        return 0.0
    log_delta = math.log(d.numerator) - math.log(d.denominator)
    order = _bisect(lambda b: float(r) * b * b + math.log1p(b) + log_delta)
    with localcontext(Context(prec=_DIGITS)):
        b = _short(order)
        a = b + 1
        terms = (a * _decimal(r), -a.ln() / b, -_decimal(d).ln() / b, b.ln(), -a.ln())
        return max(0.0, _float_above(_sum_above(terms)))


def zcdp_delta(rho: Any, epsilon: Any) -> float:
    """The delta of (epsilon, delta)-differential privacy that rho-zCDP implies.

    Every order alpha > 1 gives a valid delta,
    ``exp((alpha - 1) (alpha rho - epsilon)) (1 - 1 / alpha)^alpha / (alpha - 1)``
    (Canonne, Kamath and Steinke 2020, section 2.3). The result is the smallest of these, rounded
    up. It is above 0 unless `rho` is 0.

    Parameters
    ----------
    rho, epsilon : number
        Not negative.

    Raises
    ------
    ValueError
        If no delta below 1 is valid, because a delta of 1 promises nothing.

    Examples
    --------
    >>> from gmtree import privacy
    >>> privacy.zcdp_delta(0.1, 2.2) < 1e-6
    True
    """
    r, e = _not_negative("rho", rho), _not_negative("epsilon", epsilon)
    if r == 0:
        return 0.0
    order = _bisect(lambda b: float(r) * (2 * b + 1) - float(e) + math.log(b) - math.log1p(b))
    with localcontext(Context(prec=_DIGITS)):
        b = _short(order)
        a = b + 1
        terms = (b * a * _decimal(r), -b * _decimal(e), b * b.ln(), -a * a.ln())
        logarithm = _sum_above(terms)
        # A large exponential would leave the range of decimal numbers.
        delta = _float_above(logarithm.exp()) if logarithm < 0 else 1.0
    if delta >= 1:
        check.fail("epsilon", f"must be larger for a delta below 1 at rho = {rho}, not {epsilon}.")
    return delta


def zcdp_rho(epsilon: Any, delta: Any) -> Fraction:
    """The largest rho whose rho-zCDP implies (epsilon, delta)-differential privacy.

    It is found by bisection of :func:`zcdp_epsilon`, which is never below the truth, and rounded
    down. So ``zcdp_epsilon(zcdp_rho(epsilon, delta), delta) <= epsilon`` holds exactly for the
    returned numbers. A relative increase of rho by about 1e-15 would already violate it.

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
    >>> rho = privacy.zcdp_rho(1, 1e-9)
    >>> round(float(rho), 6), privacy.zcdp_epsilon(rho, 1e-9) <= 1
    (0.014973, True)
    """
    e, d = positive("epsilon", epsilon), proper_delta(delta)

    def is_safe(rho: float) -> bool:
        return Fraction(zcdp_epsilon(rho, d)) <= e

    found = largest_safe(is_safe, 1e-300, 1e300)
    if found is None:
        check.fail("epsilon", f"must be larger: no rho implies {epsilon} with delta = {delta}.")
    return Fraction(found)


def largest_safe(is_safe: Callable[[float], bool], low: float, high: float) -> float | None:
    """The largest number below `high` that is safe, or None if `low` is not."""
    if not is_safe(low):
        return None
    for _ in range(_MOST_STEPS):
        # Bisect the exponent first, and the number itself once both ends have about the same size.
        middle = math.sqrt(low) * math.sqrt(high) if high > 2 * low else (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if is_safe(middle) else (low, middle)
    return low


def needed_delta(measure: str, delta: Any, what: str) -> Fraction | None:
    """Check the argument `delta`, which amounts in rho need; return None for amounts in epsilon."""
    if delta is None and measure == "rho":
        check.fail("delta", f"must be given for {what} in rho.")
    value = None if delta is None else proper_delta(delta)
    return value if measure == "rho" else None


def proper_delta(delta: Any) -> Fraction:
    """`delta` as a fraction above 0 and below 1."""
    value = rational("delta", delta)
    if not 0 < value < 1:
        check.fail("delta", f"must be above 0 and below 1, not {delta}.")
    return value


def _bisect(increasing: Callable[[float], float]) -> float:
    """The point at which an increasing function changes its sign.

    The function is the derivative of a bound that holds for every order. An inaccurate answer
    makes the bound larger than necessary, but never wrong.
    """
    low, high = 1e-12, 1e15
    for _ in range(_MOST_STEPS):
        middle = math.sqrt(low * high)
        if increasing(middle) > 0:
            high = middle
        else:
            low = middle
    return high


def _short(x: float) -> Decimal:
    """`x` with so few digits that 1 + x is exact."""
    return Context(prec=17).create_decimal(x)


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / x.denominator


def _sum_above(terms: tuple[Decimal, ...]) -> Decimal:
    """An upper bound of the sum: it is increased by more than all rounding errors of its terms."""
    return sum(terms, Decimal(0)) + _MARGIN * (1 + sum(map(abs, terms), Decimal(0)))


def _float_above(x: Decimal) -> float:
    return math.nextafter(float(x), math.inf)


def _not_negative(argument: str, x: Any) -> Fraction:
    value = rational(argument, x)
    if value < 0:
        check.fail(argument, f"must not be negative, not {x}.")
    if value > LARGEST:
        check.fail(argument, "must be below 2**1000.")
    return value
