"""From zero-concentrated differential privacy to epsilon and delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from typing import Any

from gmtree import _validate as check
from gmtree.privacy._rational import positive, rational

# Logarithms and exponentials of `decimal` are correctly rounded to this many digits ...
_DIGITS = 60
# ... so that a handful of operations errs by far less than this, relative to their size.
_MARGIN = Decimal("1e-40")
_MOST_STEPS = 200


def zcdp_epsilon(rho: Any, delta: Any) -> float:
    """The epsilon of (epsilon, delta)-differential privacy that rho-zCDP implies.

    Every order alpha > 1 gives a valid epsilon,
    ``alpha rho + log(1 / (alpha delta)) / (alpha - 1) + log(1 - 1 / alpha)``
    (Canonne, Kamath and Steinke 2020, section 2.3); the smallest is found and rounded up.

    Examples
    --------
    >>> from gmtree import privacy
    >>> round(privacy.zcdp_epsilon(0.1, 1e-6), 4)
    2.1419
    """
    r, d = _not_negative("rho", rho), positive("delta", delta)
    if d >= 1 or r == 0:
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
    (Canonne, Kamath and Steinke 2020, section 2.3); the smallest is found and rounded up.

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
        return min(1.0, _float_above(_sum_above(terms).exp()))


def _bisect(increasing: Callable[[float], float]) -> float:
    """Where the derivative changes its sign; any answer is safe, the right one is best."""
    low, high = 1e-12, 1e15
    for _ in range(_MOST_STEPS):
        middle = math.sqrt(low * high)
        if increasing(middle) > 0:
            high = middle
        else:
            low = middle
    return high


def _short(x: float) -> Decimal:
    """Few enough digits of `x` for sums with 1 to be exact."""
    return Context(prec=17).create_decimal(x)


def _decimal(x: Any) -> Decimal:
    return Decimal(x.numerator) / x.denominator


def _sum_above(terms: tuple[Decimal, ...]) -> Decimal:
    """The sum, with room for the rounding of what it was made of."""
    return sum(terms, Decimal(0)) + _MARGIN * (1 + sum(map(abs, terms), Decimal(0)))


def _float_above(x: Decimal) -> float:
    return math.nextafter(float(x), math.inf)


def _not_negative(argument: str, x: Any) -> Any:
    value = rational(argument, x)
    if value < 0:
        check.fail(argument, f"must not be negative, not {x}.")
    return value
