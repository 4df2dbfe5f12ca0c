"""Variances of base forecasts: from structure, from residuals, from intervals, or by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from gmtree import _validate as check
from gmtree.forecast.structure import Structure

# Added to mean squares, as hierarchicalforecast's dense MinTrace does.
JITTER = 2e-8
METHODS = ("ols", "wls_struct", "wls_var", "mint_shrink")
DEFINITIONS = ("mean_square", "variance")


def check_method(method: Any, offered: Sequence[str] = METHODS) -> None:
    """Refuse methods that are not offered, saying why."""
    if not isinstance(method, str):
        check.fail_type("method", f"must be one of {offered}, not {method!r}.")
    if method in ("mint_cov", "emint"):
        check.fail(
            "method",
            f"must be one of {offered}; {method!r} weighs with a covariance of all pairs of series "
            "that is not invertible, or not a covariance at all, and is not offered.",
        )
    if method not in offered:
        check.fail("method", f"must be one of {offered}, not {method!r}.")


def residual_variance(
    residuals: np.ndarray, definition: str, name: Callable[[int], str]
) -> np.ndarray:
    """The variance of each row of residuals, of which some may be missing (NaN).

    ``"mean_square"`` is the sum of squares, divided by the number of all periods, plus 2e-8:
    hierarchicalforecast's dense MinTrace. ``"variance"`` is the variance about the mean with one
    degree of freedom less than observed residuals: its sparse one.
    """
    check.one_of("residual_variance", definition, DEFINITIONS)
    there = ~np.isnan(residuals)
    count = there.sum(axis=1)
    least = 1 if definition == "mean_square" else 2
    if (count < least).any():
        k = int(np.argmax(count < least))
        check.fail("Y_df", f"must have residuals for each series; {name(k)} has {count[k]}.")
    if np.isinf(residuals).any():
        k = int(np.argmax(np.isinf(residuals).any(axis=1)))
        check.fail("Y_df", f"must have finite values; {name(k)} has others.")
    if definition == "mean_square":
        return np.nansum(residuals**2, axis=1) / residuals.shape[1] + JITTER
    mean = np.nansum(residuals, axis=1) / count
    found = np.nansum((residuals - mean[:, None]) ** 2, axis=1) / (count - 1)
    if (found <= 0).any():
        k = int(np.argmax(found <= 0))
        check.fail("Y_df", f"must have residuals that vary; those of {name(k)} do not.")
    return found


def weights_of(
    structure: Structure, method: str, residuals: np.ndarray | None, definition: str
) -> np.ndarray | None:
    """The variances that a method weighs with; None for equal ones."""
    if method == "ols":
        return None
    if method == "wls_struct":
        return structure.size.astype(np.float64)
    if residuals is None:
        check.fail(
            "Y_df",
            "must hold values and fitted values of the model in each period for method 'wls_var', "
            "unless 'variance' is given.",
        )
    return residual_variance(residuals, definition, structure.name)


def check_immutable(immutable: Any) -> Any:
    """A list of names, not the name of one."""
    if isinstance(immutable, str) or not isinstance(immutable, (Sequence, np.ndarray)):
        check.fail_type("immutable", f"must be a list of series, not {immutable!r}.")
    return np.atleast_1d(immutable) if isinstance(immutable, np.ndarray) else immutable


def with_immutable(structure: Structure, s: np.ndarray | None, immutable: Any) -> np.ndarray | None:
    """The same variances with 0 for series that must not change."""
    if not len(immutable):
        return s
    rows = structure.find("immutable", immutable)
    s = np.ones(structure.n) if s is None else s.copy()
    s[rows] = 0
    return s


def check_by_series(argument: str, s: np.ndarray, name: Callable[[int], str]) -> np.ndarray:
    """Refuse what cannot be a variance, naming the series."""
    bad = ~(s >= 0)
    if bad.any():
        k = int(np.argmax(bad.reshape(s.shape[0], -1).any(axis=1)))
        check.fail(argument, f"must have a variance, not negative, for each series; {name(k)} has "
                   f"{s[k]}.")  # fmt: skip
    return s


def from_mapping(structure: Structure, variance: Mapping[Any, Any]) -> np.ndarray:
    """Variances by name of the series, or by name of its level."""
    s = np.full(structure.n, np.nan)
    for key, x in variance.items():
        number = check.real(f"variance[{key!r}]", x)
        if key in structure.levels:
            s[structure.levels[key]] = number
        else:
            s[structure.find("variance", [key])] = number
    return check_by_series("variance", s, structure.name)


# --------------------------------------------------------------------------- levels of intervals


def check_levels(level: Any) -> list[float]:
    """Levels in percent, ascending, as they were written."""
    if isinstance(level, (str, Mapping)) or not isinstance(level, (Sequence, np.ndarray)):
        level = [level]
    level = np.atleast_1d(level) if isinstance(level, np.ndarray) else level
    found = []
    for x in level:
        number = check.real("level", x)
        if not 0 <= number < 100:
            check.fail("level", f"must hold percentages from 0 to below 100, not {x}.")
        if 0 < number < 1:
            check.fail("level", f"must hold percentages such as 90, not fractions such as {x}.")
        found.append(x.item() if isinstance(x, np.generic) else x)
    if not found:
        check.fail("level", "must hold at least one percentage.")
    return sorted(found)


def quantiles_of(level: Sequence[float]) -> np.ndarray:
    """Lower and upper quantiles of all levels, ascending."""
    low = [(100 - x) / 200 for x in level]
    return np.sort(np.array([*low, *(1 - x for x in low)]))


def bound_names(name: str, level: Sequence[float]) -> list[str]:
    """Columns of bounds in the order of their quantiles."""
    return [f"{name}-lo-{x}" for x in reversed(level)] + [f"{name}-hi-{x}" for x in level]


def interval_columns(names: Sequence[str], model: str) -> dict[float, tuple[str, str]]:
    """By level, the columns of a model's lower and upper bounds, where there are both."""
    found: dict[str, dict[float, str]] = {"lo": {}, "hi": {}}
    for name in names:
        match = re.fullmatch(re.escape(model) + r"-(lo|hi)-(\d+(?:\.\d+)?)", str(name))
        if match:
            found[match[1]][float(match[2])] = name
    both = sorted(set(found["lo"]) & set(found["hi"]))
    return {x: (found["lo"][x], found["hi"][x]) for x in both if x > 0}


def model_of(name: Any) -> str | None:
    """The model whose bound or sample path a column holds; None for other columns."""
    match = re.fullmatch(r"(.+)-(?:(?:lo|hi)-\d+(?:\.\d+)?|sample-\d+)", str(name))
    return match[1] if match else None


def half_width(level: float) -> float:
    """Half the width of an interval, in standard deviations."""
    return float(ndtri(0.5 + level / 200))
