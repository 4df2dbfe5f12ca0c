"""Bounds of forecasts by the name of the series or level."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.structure import Structure

BOUNDED_METHODS = ("ols", "wls_struct", "wls_var")


class Bounds(NamedTuple):
    """Lower and upper bounds of series; None if no series is bounded on that side."""

    lower: np.ndarray | None
    upper: np.ndarray | None

    @classmethod
    def read(cls, structure: Structure, method: str, lower: Any, upper: Any) -> Bounds | None:
        """Read bounds as :func:`gmtree.forecast.reconcile` takes them; None without bounds."""
        given = {name: x for name, x in (("lower", lower), ("upper", upper)) if x is not None}
        for argument in given:
            if method not in BOUNDED_METHODS:
                check.fail(argument, f"must be None for {method!r}; only the methods "
                           f"{check.some(map(repr, BOUNDED_METHODS))} keep bounds.")  # fmt: skip
            if structure.tree is None:
                check.fail(argument, "must be None unless the structure is a tree; here, some "
                           "series overlap although neither is a part of the other. For a "
                           "lower bound of 0, nonnegative=True works for any structure."
                           )  # fmt: skip
        if not given:
            return None
        found = {name: _by_series(structure, name, x) for name, x in given.items()}
        return cls(found.get("lower"), found.get("upper"))


def _by_series(structure: Structure, argument: str, given: Any) -> np.ndarray:
    """One bound for each series: the tightest bound given for the series or its level."""
    if not hasattr(given, "items"):
        return np.full(structure.n, _number(argument, given))
    none, tighter = (-np.inf, np.maximum) if argument == "lower" else (np.inf, np.minimum)
    bound = np.full(structure.n, none)
    for name, x in given.items():
        series = structure._find(argument, [name])
        bound[series] = tighter(bound[series], _number(f"{argument}[{name!r}]", x))
    return bound


def _number(argument: str, given: Any) -> float:
    a = check.reals(argument, given)
    if a.ndim:
        check.fail_type(argument, "must be one number, or a dict or Series of numbers by series or "
                        f"level, not a {type(given).__name__}.")  # fmt: skip
    return float(a)
