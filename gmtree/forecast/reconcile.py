"""Coherent forecasts from a frame of base forecasts, as a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from gmtree import _validate as check
from gmtree.forecast.frequency import FrequencyPast, is_spec, structure_of_periods
from gmtree.forecast.intervals import Bootstrap, Normal
from gmtree.forecast.methods import SAMPLES, bottom_up_missing
from gmtree.forecast.panel import Panel, model_names, require_columns, sample_names
from gmtree.forecast.rows import from_multiindex, parents_of
from gmtree.forecast.shrinkage import Shrunk, refuse_bounds
from gmtree.forecast.solver import Weights
from gmtree.forecast.structure import Structure, structure_of
from gmtree.forecast.variances import (
    METHODS,
    bound_names,
    check_by_series,
    check_immutable,
    check_levels,
    check_method,
    from_mapping,
    half_width,
    interval_columns,
    model_of,
    quantiles_of,
    residual_variance,
    weights_of,
    with_immutable,
)
from gmtree.frames.reconcile import Frame
from gmtree.labels.columns import (
    Codes,
    column_names,
    encode,
    encode_index,
    library,
    refuse_no_names,
    take_column,
)
from gmtree.labels.table import kind_of

INTERVALS = ("normality", "bootstrap", "samples")


def reconcile(
    Y_hat_df: Frame,
    S_df: Any = None,
    tags: Any = None,
    method: str | Sequence[str] = "wls_struct",
    Y_df: Any = None,
    nonnegative: bool = False,
    level: Any = None,
    *,
    intervals_method: str = "normality",
    num_samples: int = 0,
    seed: int | None = 0,
    variance: Any = None,
    residual_variance: str = "mean_square",
    immutable: Sequence[Any] = (),
    clip_base: bool = False,
    spec: Any = None,
    temporal: bool = False,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    id_time_col: str = "temporal_id",
    threads: int | None = None,
) -> Frame:
    """Make base forecasts coherent: every series the sum of its leaves, with the least change.

    Parameters
    ----------
    Y_hat_df : frame of pandas, polars or pyarrow
        Base forecasts: a row for each series and step, columns `id_col` and `time_col`, and one
        column of numbers per model; columns of dates, text, categories, truth values or complex
        numbers, such as a ``cutoff``, are no models and stay as they are. Bounds are in columns
        such as ``ets-lo-90`` and ``ets-hi-90``, sample paths in ``ets-sample-0`` and so on, which
        need the column ``ets`` of numbers beside them. Rows may come in any order. Missing values
        and rows are forecasts that do not exist; the others determine them. A frame of sktime, with
        levels and times in its index, needs no structure: ``__total`` in the index tells it.
    S_df, tags, spec
        The structure; see :class:`Structure`, which may be given as `S_df` itself.
    method : {"ols", "wls_struct", "wls_var", "mint_shrink", "bottom_up"}, or a list of them
        Weights: equal variances, numbers of leaves, variances of residuals, or their shrunk
        covariance, which needs residuals of all series in the same periods. ``"mint_shrink"`` takes
        neither missing forecasts nor `nonnegative` nor `immutable`; ``"bottom_up"`` needs a
        forecast of each leaf, and looks at nothing else.
    Y_df : frame, optional
        Past values in the column `target_col` and fitted values in columns named after models,
        for ``"wls_var"``, ``"mint_shrink"`` and for bootstrapped intervals.
    nonnegative : bool
        Among forecasts that are nowhere negative. Exact on a tree. With ``"bottom_up"`` leaves
        below zero are set to zero and summed, which is the optimum if only leaves count. Not for
        ``"mint_shrink"``.
    level : list of numbers, optional
        Intervals to add, in percent.
    intervals_method : {"normality", "bootstrap", "samples"}
        Normal intervals need bounds in `Y_hat_df`, or `Y_df`; a bootstrap needs `Y_df`; with
        ``"samples"`` they are quantiles of the coherent sample paths.
    num_samples : int
        Coherent sample paths to add, in columns ``<model>/<method>-sample-0`` and so on; they are
        drawn for `intervals_method`. Paths in `Y_hat_df` are made coherent in any case.
    seed : int or None
        For paths that are drawn.
    variance : optional
        Variances that take the place of those of residuals, for ``"wls_var"``: a dict by name of
        series or level, the name of a column of `Y_hat_df` (one for each step), or ``"intervals"``
        for those that its bounds tell. 0 keeps a forecast as it is.
    residual_variance : {"mean_square", "variance"}
        See :class:`MinTrace`.
    immutable : list of names
        Series whose forecasts must not change. Not for ``"mint_shrink"``; ``"bottom_up"`` keeps the
        leaves and nothing else.
    clip_base : bool
        See :class:`MinTrace`.
    temporal : bool
        Make the periods of `id_time_col` coherent for each series of `id_col`, instead of the
        series at each time. `S_df` is then the structure of the periods, or a dict of frequencies
        such as ``{"year": 4, "quarter": 1}``: see :func:`temporal_structure`. With
        ``"wls_var"``, variances are by frequency: see :func:`reconcile_cross_temporal`.
    id_col, time_col, target_col, id_time_col : str
        Names of columns.
    threads : int, optional
        See :class:`gmtree.Consistency`.

    Returns
    -------
    frame of the same kind
        All rows and columns of `Y_hat_df`, and columns ``<model>/<method>`` with the names that
        hierarchicalforecast gives them: ``ets/MinTrace_method-ols``, with `nonnegative`
        ``ets/MinTrace_method-ols_nonnegative-True``, and ``ets/BottomUp``, followed by ``-lo-80``,
        ``-hi-80`` for intervals. Pairs of a series and a step without a row in
        `Y_hat_df` get one, at the end; other columns are missing there. The index of a pandas frame
        stays as it is if no row is added, and counts from 0 otherwise.

    Notes
    -----
    Bounds tell a standard deviation: half the distance from the lower to the upper one, divided by
    the normal quantile of their level (1.645 for 90), and the mean of these over all levels that
    have both bounds. Without bounds it is the root of the variance of residuals in `Y_df`.

    Standard errors of intervals are exact for independent base forecasts with the deviations that
    their bounds tell, also where the weights are others, as with ``"ols"``. Where weights are
    not products on crossed trees they take dense algebra, for at most 2,000 leaves.

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> base = pd.DataFrame({
    ...     "unique_id": ["total", "a", "b"], "ds": 1, "ets": [10.0, 4.0, 3.0],
    ...     "ets-lo-90": [8.0, 2.0, 1.0], "ets-hi-90": [12.0, 6.0, 5.0],
    ... })
    >>> S = pd.DataFrame({"unique_id": ["total", "a", "b"], "a": [1, 1, 0], "b": [1, 0, 1]})
    >>> found = gm.forecast.reconcile(base, S, method="ols", level=[90])
    >>> for name in found.columns[5:]:
    ...     print(name, found[name].round(2).tolist())
    ets/MinTrace_method-ols [9.0, 5.0, 4.0]
    ets/MinTrace_method-ols-lo-90 [7.37, 3.37, 2.37]
    ets/MinTrace_method-ols-hi-90 [10.63, 6.63, 5.63]
    """
    check.flag("nonnegative", nonnegative)
    if isinstance(temporal, Mapping):
        check.fail_type("temporal", "must be True or False; a dict of frequencies goes to S_df, "
                        "with temporal=True, or to temporal_structure.")  # fmt: skip
    check.flag("temporal", temporal)
    check.flag("clip_base", clip_base)
    if clip_base and not nonnegative:
        check.fail("clip_base", "must be False without nonnegative=True.")
    check.one_of("intervals_method", intervals_method, INTERVALS)
    check.count("num_samples", num_samples, least=0)
    refuse_no_names(
        id_col=id_col, time_col=time_col, target_col=target_col, id_time_col=id_time_col
    )
    methods = method_list(method)
    columns = (id_col, time_col, target_col, id_time_col)
    refuse_unused(variance, methods)
    panel = _read_forecasts(Y_hat_df, S_df, tags, spec, temporal, columns)
    job = Job(
        panel,
        _read_past(Y_df, panel, temporal, columns),
        levels=None if level is None else check_levels(level),
        nonnegative=nonnegative,
        clip_base=clip_base,
        intervals_method=intervals_method,
        num_samples=num_samples,
        seed=seed,
        variance=variance,
        residual_variance=residual_variance,
        immutable=check_immutable(immutable),
        columns=columns,
        threads=check.threads("threads", threads),
    )
    return job.written(methods)


def method_list(method: Any, others: Mapping[str, str] | None = None) -> list[str]:
    """Names of methods; `others` translates those of other packages."""
    several = [method] if isinstance(method, str) else method
    if not isinstance(several, Sequence) or not len(several):
        check.fail_type(
            "method", f"must be the name of a method or a list of them, not {method!r}."
        )
    names = [(others or {}).get(each, each) if isinstance(each, str) else each for each in several]
    for each in names:
        check_method(each, (*METHODS, "bottom_up"))
    return names


def refuse_unused(variance: Any, methods: Sequence[str]) -> None:
    """Refuse variances that no method weighs with."""
    if variance is not None and "wls_var" not in methods:
        check.fail("variance", f"must be None unless a method is 'wls_var', not {methods}.")


def _read_forecasts(
    frame: Any, S_df: Any, tags: Any, spec: Any, temporal: bool, columns: tuple[str, ...]
) -> Panel:
    id_col, time_col, _, id_time_col = columns
    kind_of("Y_hat_df", frame)
    index = getattr(frame, "index", None)
    in_index = library(frame) == "pandas" and getattr(index, "nlevels", 1) > 1
    if S_df is None and not tags and spec is None and in_index:
        rows, node = from_multiindex(index)
        step = encode_index(index)[-1][1]
        made = Structure._of_rows(rows)
        return Panel.read("Y_hat_df", frame, made, id_col, time_col, node=node, step=step)
    if not temporal:
        require_columns("Y_hat_df", frame, id_col=id_col)
        structure = structure_of(S_df, tags, spec, id_col)
        _refuse_periods(structure, frame, id_col, id_time_col)
        require_columns("Y_hat_df", frame, time_col=time_col)
        panel = Panel.read("Y_hat_df", frame, structure, id_col, time_col)
        if isinstance(S_df, Mapping) and not tags and spec is None:
            _refuse_unknown_tops(S_df, panel)
        return panel
    require_columns("Y_hat_df", frame, id_time_col=id_time_col, id_col=id_col)
    if is_spec(S_df):
        codes = encode(id_time_col, take_column("Y_hat_df", frame, id_time_col))
        structure = structure_of_periods("S_df", S_df, id_time_col, codes)
    else:
        structure = structure_of(S_df, tags, spec, id_time_col)
    return Panel.read("Y_hat_df", frame, structure, id_time_col, id_col)


def _refuse_periods(structure: Structure, frame: Any, id_col: str, id_time_col: str) -> None:
    """Refuse a structure of periods where one of series belongs: `temporal` was left out.

    A dict of frequencies, taken for one of parents, has 'month' for the period 'month-3'.
    """
    if id_time_col not in column_names(frame) or not len(frame):
        return
    start = frame.head(1) if hasattr(frame, "head") else frame.slice(0, 1)
    series, period = (
        encode(name, take_column("Y_hat_df", start, name)).label(0)
        for name in (id_col, id_time_col)
    )
    known = structure._row_of
    if series not in known and (period in known or str(period).rpartition("-")[0] in known):
        check.fail("temporal", "must be True if 'S_df' is a structure of periods or a dict of "
                   f"frequencies; row 0 of 'Y_hat_df' has the series {series!r}, which is not in "
                   f"'S_df', and the period {period!r}, which is.")  # fmt: skip


def _refuse_unknown_tops(part_of: Mapping[Any, Any], panel: Panel) -> None:
    """Of several series that are part of nothing, one without forecasts is likely misspelt."""
    above, labels = parents_of(part_of), panel.structure.labels.tolist()
    tops = [k for k, name in enumerate(labels) if not above.get(name)]
    if len(tops) < 2 or panel.place is None:
        return
    there = np.zeros(len(labels), bool)
    there[panel.place // panel.steps.size] = True
    for k in tops:
        if not there[k]:
            check.fail("S_df", f"must lead to series of 'Y_hat_df'; {labels[k]!r} is part of "
                       "nothing, as others are, and has no forecasts. Is it misspelt?")  # fmt: skip


def _read_past(Y_df: Any, panel: Panel, temporal: bool, columns: tuple[str, ...]) -> Any:
    if Y_df is None:
        return None
    kind_of("Y_df", Y_df)
    id_col, time_col, target_col, id_time_col = columns
    if temporal:
        series = {label: k for k, label in enumerate(panel.steps.labels.tolist())}
        find = partial(_step_of, panel.steps.argument, series)
        names = (id_col, id_time_col, target_col)
        return FrequencyPast(Y_df, find, len(series), panel.structure, names, transpose=True)
    require_columns("Y_df", Y_df, id_col=id_col, time_col=time_col)
    return Past(Panel.read("Y_df", Y_df, panel.structure, id_col, time_col), target_col)


def _step_of(argument: str, number: dict[Any, int], codes: Codes) -> np.ndarray:
    """Numbers of the steps that a column names, for series whose periods are made coherent."""
    places = np.array([number.get(codes.label(k), -1) for k in range(codes.codes.size)])
    if (places < 0).any():
        row = int(np.argmax(places < 0))
        check.fail(argument, f"must name series of Y_hat_df; row {row} has {codes.label(row)!r}.")
    return places


class Past:
    """Residuals of all series in each period."""

    def __init__(self, panel: Panel, target_col: str) -> None:
        self._panel, self._target = panel, target_col

    def residuals(self, model: str) -> np.ndarray:
        """By series and period."""
        if model not in column_names(self._panel.frame):
            check.fail("Y_df", f"must have a column {model!r} of fitted values.")
        require_columns("Y_df", self._panel.frame, target_col=self._target)
        return self._panel.values(self._target) - self._panel.values(model)

    def variance(self, model: str, definition: str) -> np.ndarray:
        """By series."""
        return residual_variance(self.residuals(model), definition, self._panel.structure.name)


class Job:
    """Everything but the method and the model."""

    def __init__(self, panel: Panel, past: Any, **options: Any) -> None:
        self.panel, self.past = panel, past
        self.structure = panel.structure
        self.levels = options["levels"]
        self.options = options
        others = [*options["columns"]]
        if isinstance(options["variance"], str):
            others.append(options["variance"])
        self.models = model_names(panel.frame, panel.kind, others)
        _refuse_lone_bounds(column_names(panel.frame), [*self.models, *others])
        if not self.models:
            listed = check.some(map(repr, column_names(panel.frame)))
            check.fail("Y_hat_df", "must have a column of base forecasts, which holds numbers; it "
                       f"has {listed}.")  # fmt: skip
        self._values: dict[str, np.ndarray] = {}

    def written(self, methods: Sequence[str]) -> Any:
        """The frame with results; columns come method by method, as in hierarchicalforecast."""
        results: dict[str, np.ndarray] = {}
        for method in methods:
            for model in self.models:
                results.update(self.run(model, method))
        return self.panel.written(results)

    def run(self, model: str, method: str) -> dict[str, np.ndarray]:
        """Columns of results for one model and method."""
        o = self.options
        y = self.panel.values(model)
        solver = self._solver(method, model, y)
        given = np.maximum(y, 0) if o["clip_base"] else y
        mean = solver.project(given)
        name = f"{model}/{self._method_name(method)}"
        results = {name: mean}
        paths = sample_names(self.panel.frame, model)
        samples = None
        if paths:
            samples = np.stack([solver.project(self.panel.values(p)) for p in paths], axis=2)
        drawn: Any = None
        if self.levels is not None:
            names = bound_names(name, self.levels)
            q = quantiles_of(self.levels)
            if o["intervals_method"] == "normality":
                deviation = solver.noise_variance(self._noise(model, y))
                np.sqrt(deviation, out=deviation)
                cut = o["nonnegative"] and not o["clip_base"]
                for bound, z in zip(names, ndtri(q), strict=True):
                    x = z * deviation
                    x += mean
                    results[bound] = np.maximum(x, 0, out=x) if cut else x
            else:
                if o["intervals_method"] == "bootstrap":
                    drawn = self._bootstrap(solver, y, model)
                    bounds = drawn.quantiles(q)
                elif samples is None:
                    check.fail("Y_hat_df", f"must have sample paths in columns {model}-sample-0, "
                               "... for intervals_method='samples'.")  # fmt: skip
                else:
                    bounds = np.moveaxis(np.quantile(samples, q, axis=2), 0, -1)
                results.update({bound: bounds[..., k] for k, bound in enumerate(names)})
        if samples is None and o["num_samples"]:
            if drawn is None and o["intervals_method"] == "bootstrap":
                drawn = self._bootstrap(solver, y, model)
            elif drawn is None:
                sigma = np.sqrt(self._noise(model, y))
                drawn = Normal(y, sigma, solver.project, o["seed"])
            samples = drawn.get_samples(o["num_samples"])
        if samples is not None:
            for k in range(samples.shape[2]):
                results[f"{name}-sample-{k}"] = samples[..., k]
        return results

    def _method_name(self, method: str) -> str:
        if method == "bottom_up":
            return "BottomUp"
        name = f"MinTrace_method-{method}"
        return name + ("_nonnegative-True" if self.options["nonnegative"] else "")

    def _solver(self, method: str, model: str, y: np.ndarray) -> Any:
        o = self.options
        if method == "bottom_up":
            bottom_up_missing(self.structure, y)
            return _Sums(self.structure, o["nonnegative"])
        if method == "mint_shrink":
            return self._shrunk(model)
        s: np.ndarray | None
        if method == "wls_var" and o["variance"] is not None:
            s = self._variance(model)
        elif method == "wls_var":
            if self.past is None:
                check.fail("Y_df", "must hold values and fitted values of the model in each period "
                           "for method 'wls_var', unless 'variance' is given.")  # fmt: skip
            s = self.past.variance(model, o["residual_variance"])
        else:
            s = weights_of(self.structure, method, None, "mean_square")
        if len(o["immutable"]) and s is not None and s.ndim == 2:
            s = s.copy()
            s[self.structure.find("immutable", o["immutable"])] = 0
        else:
            s = with_immutable(self.structure, s, o["immutable"])
        there = None if not np.isnan(y).any() else ~np.isnan(y)
        steps = self.panel.steps
        weights = Weights(self.structure, s, there, o["threads"], steps.name)
        return _Weighted(weights, o["nonnegative"], o["clip_base"])

    def _shrunk(self, model: str) -> Shrunk:
        o = self.options
        refuse_bounds(o["nonnegative"])
        if len(o["immutable"]):
            check.fail("immutable", "must be empty for 'mint_shrink'.")
        if not isinstance(self.past, Past):
            check.fail("Y_df", "must hold values and fitted values of each period, at one "
                       "frequency, for method 'mint_shrink'.")  # fmt: skip
        residuals = self.past.residuals(model)
        residuals = residuals[:, ~np.isnan(residuals).all(axis=0)]
        return Shrunk(self.structure, residuals, o["threads"])

    def _variance(self, model: str) -> np.ndarray:
        given = self.options["variance"]
        if isinstance(given, np.ndarray):
            return given
        if isinstance(given, Mapping):
            return from_mapping(self.structure, given)
        if isinstance(given, str) and given == "intervals":
            return self._noise(model, self.panel.values(model))
        if isinstance(given, str):
            s = self.panel.values(given)
            s = np.where(np.isnan(self.panel.values(model)) & np.isnan(s), np.inf, s)
            return check_by_series("variance", s, self.structure.name)
        check.fail_type("variance", "must be a dict, the name of a column, or 'intervals', not "
                        f"a {type(given).__name__}.")  # fmt: skip

    def _noise(self, model: str, y: np.ndarray) -> np.ndarray:
        """Variances of the base forecasts: from their bounds, else from residuals."""
        found = interval_columns(column_names(self.panel.frame), model)
        if found:
            sigma = np.zeros(self.panel.shape)
            for level, (low, high) in found.items():
                width = self.panel.values(high) - self.panel.values(low)
                if (width < 0).any():
                    where = self.panel.first_row(width < 0)
                    check.fail(low, f"must not be above {high!r}; {where} has it so.")
                width /= 2 * half_width(level) * len(found)
                sigma += width
        else:
            if self.past is None:
                check.fail(
                    "Y_hat_df",
                    f"must have columns such as {model}-lo-90 and {model}-hi-90 for intervals, "
                    "unless Y_df has residuals.",
                )
            s = self.past.variance(model, self.options["residual_variance"])
            sigma = np.broadcast_to(np.sqrt(s if s.ndim == 2 else s[:, None]), self.panel.shape)
        lost = np.isnan(sigma) & ~np.isnan(y)
        if lost.any():
            k, step = (int(i) for i in np.argwhere(lost)[0])
            where = f"{self.structure.name(k)} has none at {self.panel.steps.name(step)}"
            check.fail("Y_hat_df", f"must have bounds where it has forecasts; {where}.")
        noise = np.square(sigma, out=sigma if sigma.flags.writeable else None)
        noise[np.isnan(y)] = 0
        return noise

    def _bootstrap(self, solver: Any, y: np.ndarray, model: str) -> Bootstrap:
        o = self.options
        if self.past is None:
            check.fail("Y_df", "must hold values and fitted values of the model in each period for "
                       "intervals_method='bootstrap'.")  # fmt: skip
        if not isinstance(self.past, Past):
            check.fail("intervals_method", "must not be 'bootstrap' with temporal=True: residuals "
                       "of several frequencies are not of the same periods.")  # fmt: skip
        past = self.past.residuals(model)
        if o["nonnegative"]:
            check.fail("intervals_method", "must not be 'bootstrap' with nonnegative=True.")
        if np.isnan(y).any():
            check.fail("Y_hat_df", "must have no missing forecasts for bootstrapped paths.")
        count = SAMPLES if self.levels is not None else max(1, o["num_samples"])
        return Bootstrap(y, past, solver.linear, count, o["seed"])


def _refuse_lone_bounds(names: Sequence[Any], known: Sequence[str]) -> None:
    """Refuse bounds and sample paths of a model whose own column is missing or holds no numbers."""
    for name in names:
        model = model_of(name)
        if model is None or model in known:
            continue
        if model in names:
            how = f"its column {model!r} does not. Convert it, in pandas with .astype(float)"
        else:
            how = f"there is no column {model!r}. Add it"
        check.fail("Y_hat_df", "must have a column of base forecasts, which holds numbers, for "
                   f"{name!r}; {how}, or drop {name!r} and its like.")  # fmt: skip


class _Weighted:
    """Weighted least squares, with or without bounds."""

    def __init__(self, weights: Weights, nonnegative: bool, clip_base: bool) -> None:
        self._weights, self._nonnegative, self._clip_base = weights, nonnegative, clip_base

    def project(self, y: np.ndarray) -> np.ndarray:
        return self._weights.project(y, self._nonnegative)

    def linear(self, y: np.ndarray) -> np.ndarray:
        return self._weights.project(y)

    def noise_variance(self, noise: np.ndarray) -> np.ndarray:
        if self._clip_base:
            return _Sums(self._weights.structure).noise_variance(noise)
        return self._weights.noise_variance(noise)


class _Sums:
    """Sums of the leaves, or of their positive parts.

    Where only leaves count, and each for itself, the closest leaves that are not negative are their
    positive parts.
    """

    def __init__(self, structure: Structure, nonnegative: bool = False) -> None:
        self._structure, self._nonnegative = structure, nonnegative

    def project(self, y: np.ndarray) -> np.ndarray:
        return self.linear(np.maximum(y, 0) if self._nonnegative else y)

    def linear(self, y: np.ndarray) -> np.ndarray:
        return self._structure.aggregate(np.ascontiguousarray(y[self._structure.leaf]))

    noise_variance = linear
