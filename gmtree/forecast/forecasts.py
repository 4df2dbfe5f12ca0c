"""Coherent forecasts for all models of a frame, by one or several methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from gmtree import _validate as check
from gmtree._progress import Progress
from gmtree.forecast.columns import Model, bound_names, read_models
from gmtree.forecast.intervals import (
    Bootstrap,
    Conformal,
    Normal,
    Paths,
    check_levels,
    quantiles_of,
)
from gmtree.forecast.methods import Method
from gmtree.forecast.panel import Panel
from gmtree.forecast.registry import METHODS, Options, check_method, method_for
from gmtree.forecast.structure import Structure
from gmtree.forecast.topdown import PROPORTIONS
from gmtree.forecast.variances import Past, checked, from_mapping
from gmtree.labels.columns import check_names

INTERVALS = ("normality", "bootstrap", "conformal", "samples")


@dataclass(frozen=True)
class Request:
    """The arguments of :func:`reconcile` or :func:`reconcile_cross_temporal`, which describe them.

    `columns` are the columns of names, times, past values and periods.
    """

    methods: Sequence[str]
    columns: tuple[str, str, str, str]
    options: Options
    level: Any = None
    intervals_method: str = "normality"
    num_samples: int = 0
    seed: int | None = 0
    variance: Any = None

    def __post_init__(self) -> None:
        check.one_of("intervals_method", self.intervals_method, INTERVALS)
        check.count("num_samples", self.num_samples, least=0)
        options = ("id_col", "time_col", "target_col", "id_time_col")
        check_names(**dict(zip(options, self.columns, strict=True)))
        if self.variance is not None and "wls_var" not in self.methods:
            check.fail("variance", f"must be None unless a method is 'wls_var', not "
                       f"{self.methods}.")  # fmt: skip
        if self.level is not None:
            object.__setattr__(self, "level", check_levels(self.level))

    def models(self, panel: Panel) -> list[Model]:
        """Find the columns of base forecasts."""
        others = [*self.columns, *([self.variance] if isinstance(self.variance, str) else [])]
        return read_models(panel.frame, panel.kind, others)

    def written(
        self,
        panel: Panel,
        structure: Structure,
        past: Callable[[str], Past] | None,
    ) -> Any:
        """Return the frame of a panel with a column for each model and method.

        Each column of the panel becomes an array by series and step. If `structure` consists of
        pairs of a series and a period, it becomes a single column. `past` returns the past values
        and residuals of a model.
        """
        models = self.models(panel)
        found = {}
        with Progress(len(models) * len(self.methods), "reconciling") as progress:
            for model in models:
                base = Base(self, panel, structure, model, past)
                for method in self.methods:
                    found[method, model.name] = base.reconciled(method)
                    progress.advance(1)
        results: dict[str, np.ndarray] = {}
        # Columns come method by method, as in hierarchicalforecast.
        for method in dict.fromkeys(self.methods):
            for model in models:
                results.update(found.pop((method, model.name)))
        return panel.written(results)


@dataclass(frozen=True)
class Base:
    """The base forecasts of one model; its columns are read once."""

    request: Request
    panel: Panel
    structure: Structure
    model: Model
    read_past: Callable[[str], Past] | None

    @cached_property
    def past(self) -> Past:
        """Past values and residuals of the model."""
        return Past() if self.read_past is None else self.read_past(self.model.name)

    def values(self, name: str, infinite: bool = False) -> np.ndarray:
        """Read a column as an array by series and step."""
        return self.panel.values(name, infinite).reshape(self.structure.n, -1)

    @cached_property
    def y(self) -> np.ndarray:
        """Base forecasts, NaN if missing."""
        return self.values(self.model.name)

    @cached_property
    def sigma(self) -> np.ndarray:
        """Standard deviations, from bounds or else from residuals; NaN without a forecast."""
        panel, by_level = self.panel, sorted(self.model.bounds.items())
        bounds = {level: columns for level, columns in by_level if len(columns) == 2}
        if bounds:
            sigma = np.zeros(self.y.shape)
            for level, columns in bounds.items():
                width = self.values(columns["hi"]) - self.values(columns["lo"])
                if (width < 0).any():
                    check.fail(columns["lo"], f"must not be above {columns['hi']!r}; it is in "
                               f"{panel.first_row(width < 0)}.")  # fmt: skip
                width /= 2 * float(ndtri(0.5 + level / 200)) * len(bounds)
                sigma += width
        elif self.past.residuals is None:
            name = self.model.name
            check.fail("Y_hat_df", f"must have columns such as {name}-lo-90 and {name}-hi-90 for "
                       "intervals, unless Y_df has residuals.")  # fmt: skip
        else:
            s = self.past.residuals.variance(self.request.options.residual_variance)
            sigma = np.sqrt(s if s.ndim == 2 else s[:, None]) * np.ones(self.y.shape)
        if (lost := np.isnan(sigma) & ~np.isnan(self.y)).any():
            check.fail("Y_hat_df", "must have bounds for each forecast; those of "
                       f"{panel.first_row(lost)} are missing.")  # fmt: skip
        sigma[np.isnan(self.y)] = np.nan
        return sigma

    def variance(self) -> np.ndarray:
        """Variances that the caller gave for ``"wls_var"``."""
        given = self.request.variance
        if isinstance(given, Mapping):
            definition = self.request.options.residual_variance
            return from_mapping(self.structure, given, self.past, definition)
        if not isinstance(given, str):
            check.fail_type("variance", "must be a dict, the name of a column, or 'intervals', not "
                            f"a {type(given).__name__}.")  # fmt: skip
        s = np.square(self.sigma) if given == "intervals" else self.values(given, True)
        s = np.where(np.isnan(self.y) & np.isnan(s), np.inf, s)
        return checked(self.structure, s)

    def method(self, name: str) -> Method:
        """Make the method of a given name."""
        r = self.request
        return method_for(
            self.structure,
            name,
            r.options,
            self.past,
            None if r.variance is None else self.variance,
            self.panel.steps.name,
        )

    def reconciled(self, name: str) -> dict[str, np.ndarray]:
        """Return the columns of results for one method."""
        r, method = self.request, self.method(name)
        mean = method.project(self.y)
        title = f"{self.model.name}/{r.options.title(name)}"
        results = {title: mean}
        if r.level is None and not r.num_samples and not self.model.paths:
            return results
        free = method if self._takes_paths else method.unbounded
        centre = mean if free is method else free.project(self.y)
        made = self._distribution(free, centre)
        if r.level is not None:
            bounds = made.quantiles(quantiles_of(r.level), centre)
            results.update(zip(bound_names(title, r.level), bounds, strict=True))
        if self.model.paths and not isinstance(made, Paths):
            made = self._paths(method)
        if self.model.paths or r.num_samples:
            samples = made.get_samples(r.num_samples)
            for k in range(samples.shape[2]):
                results[f"{title}-sample-{k}"] = samples[..., k]
        return results

    @property
    def _takes_paths(self) -> bool:
        """Whether distributions are those of sample paths of the base forecasts."""
        r = self.request
        return r.intervals_method == "samples" or (r.level is None and bool(self.model.paths))

    def _paths(self, method: Method) -> Paths:
        columns = [self.model.paths[k] for k in sorted(self.model.paths)]
        return Paths(np.stack([method.project(self.values(name)) for name in columns], axis=2))

    def _distribution(self, method: Method, mean: np.ndarray) -> Normal | Bootstrap | Paths:
        r = self.request
        if self._takes_paths:
            if not self.model.paths:
                check.fail("Y_hat_df", "must have sample paths in columns "
                           f"{self.model.name}-sample-0, ... for intervals_method='samples'."
                           )  # fmt: skip
            return self._paths(method)
        if r.intervals_method == "bootstrap":
            ahead = self.panel.steps.ahead
            return Bootstrap(method, self.y, mean, self.past.residuals, r.seed, ahead=ahead)
        if r.intervals_method == "conformal":
            return Conformal(method, self.y, mean, self.past.residuals, r.seed)
        return Normal(method, self.y, mean, self.sigma, r.seed)


def method_list(method: Any, others: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of methods; `others` translates the names that other packages use."""
    several = [method] if isinstance(method, str) else method
    if not isinstance(several, Sequence) or not len(several):
        check.fail_type(
            "method", f"must be the name of a method or a list of them, not {method!r}."
        )
    names = [(others or {}).get(each, each) if isinstance(each, str) else each for each in several]
    for each in names:
        check_method(each, (*METHODS, "bottom_up", *PROPORTIONS))
    return names
