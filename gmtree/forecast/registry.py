"""The choice of the class for the name of a method, and the options that all methods share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.bounds import Bounds
from gmtree.forecast.methods import ClippedFirst, Closest, Method, Sums
from gmtree.forecast.shrinkage import RIDGE, Shrunk
from gmtree.forecast.solver import Weights, numbered_step
from gmtree.forecast.structure import Structure
from gmtree.forecast.topdown import PROPORTIONS, ForecastParts, HistoricalParts, divided_series
from gmtree.forecast.variances import DEFINITIONS, Past

METHODS = ("ols", "wls_struct", "wls_var", "mint_shrink")
# Replaces True in names of columns, because True denotes hierarchicalforecast's own values.
OPTIMAL = "optimal"


@dataclass(frozen=True)
class Options:
    """Options that all methods share; see :func:`gmtree.forecast.reconcile`."""

    nonnegative: bool = False
    clip_base: bool = False
    residual_variance: str = "mean_square"
    immutable: Sequence[Any] = ()
    middle_level: Any = None
    ridge: float = RIDGE
    threads: int | None = None
    lower: Any = None
    upper: Any = None

    def __post_init__(self) -> None:
        check.flag("nonnegative", self.nonnegative)
        check.flag("clip_base", self.clip_base)
        if self.clip_base and not self.nonnegative:
            check.fail("clip_base", "must be False without nonnegative=True.")
        if self.clip_base and self.is_bounded:
            check.fail("clip_base", "must be False with 'lower' or 'upper'.")
        check.one_of("residual_variance", self.residual_variance, DEFINITIONS)
        listed = isinstance(self.immutable, Sequence) or np.ndim(self.immutable) == 1
        if isinstance(self.immutable, str) or not listed:
            check.fail_type("immutable", f"must be a list of series, not {self.immutable!r}.")
        check.threads("threads", self.threads)

    @property
    def is_bounded(self) -> bool:
        """Whether forecasts have bounds besides `nonnegative`."""
        return self.lower is not None or self.upper is not None

    def title(self, method: str) -> str:
        """Return the name of a column of results, in the style of hierarchicalforecast."""
        end = ""
        if self.nonnegative:
            end = f"_nonnegative-{True if self.clip_base else OPTIMAL}"
        if self.is_bounded:
            end += "_bounded"
        if method == "bottom_up":
            return f"BottomUp{end}"
        if method not in PROPORTIONS:
            return f"MinTrace_method-{method}{end}"
        if self.middle_level is None:
            return f"TopDown_method-{method}"
        return f"MiddleOut_middle_level-{self.middle_level}_top_down_method-{method}"


def check_method(method: Any, offered: Sequence[str] = METHODS) -> None:
    """Refuse methods that are not offered, and explain why."""
    if not isinstance(method, str):
        check.fail_type("method", f"must be one of {offered}, not {method!r}.")
    if method in ("mint_cov", "emint"):
        check.fail(
            "method",
            f"must be one of {offered}; {method!r} is not offered, because its weights are a dense "
            "matrix of all pairs of series, which is often singular.",
        )
    if method not in offered:
        check.fail("method", f"must be one of {offered}, not {method!r}.")


def method_for(
    structure: Structure,
    method: str,
    options: Options,
    past: Past,
    variance: Callable[[], np.ndarray] | None = None,
    step: Callable[[int], str] = numbered_step,
) -> Method:
    """Make a method for a structure.

    Parameters
    ----------
    structure : Structure
    method : str
        One of `METHODS` or `PROPORTIONS`, or ``"bottom_up"``.
    options : Options
    past : Past
        Past values for historical proportions; residuals for ``"mint_shrink"`` and, without
        `variance`, for ``"wls_var"``.
    variance : function, optional
        Returns the variances for ``"wls_var"``.
    step : function
        Name of a step in error messages.
    """
    bounds = Bounds.read(structure, method, options.lower, options.upper)
    if method == "bottom_up":
        return Sums(structure, options.nonnegative)
    if method in PROPORTIONS:
        return _top_down(structure, method, options, past)
    found: Method
    if method == "mint_shrink":
        found = _shrunk(structure, options, past)
    else:
        s = _variances(structure, method, options, past, variance)
        found = Closest(Weights(structure, s, options.threads, step), options.nonnegative, bounds)
    return ClippedFirst(found, structure) if options.clip_base else found


def _top_down(structure: Structure, method: str, options: Options, past: Past) -> Method:
    if options.nonnegative:
        check.fail("nonnegative", f"must be False for {method!r}.")
    tops = divided_series(structure, options.middle_level)
    if method == "forecast_proportions":
        return ForecastParts(structure, tops)
    if past.values is None:
        check.fail("Y_df", f"must hold past values for the method {method!r}.")
    return HistoricalParts(structure, tops, past.values, method)


def _shrunk(structure: Structure, options: Options, past: Past) -> Shrunk:
    if len(options.immutable):
        check.fail("immutable", "must be empty for 'mint_shrink'.")
    if past.residuals is None or not past.residuals.is_aligned:
        check.fail("Y_df", "must hold values and fitted values of each period, at one frequency, "
                   "for method 'mint_shrink'.")  # fmt: skip
    return Shrunk(
        structure, past.residuals.values, options.ridge, options.nonnegative, options.threads
    )


def _variances(
    structure: Structure,
    method: str,
    options: Options,
    past: Past,
    variance: Callable[[], np.ndarray] | None,
) -> np.ndarray | None:
    """Return the variances that weighted least squares uses; None if they are equal."""
    s: np.ndarray | None = None
    if method == "wls_struct":
        s = structure.size.astype(np.float64)
    elif method == "wls_var" and variance is not None:
        s = variance()
    elif method == "wls_var":
        if past.residuals is None:
            check.fail("Y_df", "must hold values and fitted values of the model in each period for "
                       "method 'wls_var', unless 'variance' is given.")  # fmt: skip
        s = past.residuals.variance(options.residual_variance)
    if len(options.immutable):
        s = np.ones(structure.n) if s is None else s.copy()
        s[structure._find("immutable", options.immutable)] = 0
    return s
