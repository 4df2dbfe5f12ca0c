"""Coherent forecasts from a frame of base forecasts, as a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.columns import require_columns, require_fitted
from gmtree.forecast.forecasts import Request, method_list
from gmtree.forecast.frequency import is_spec, past_by_frequency, read_periods
from gmtree.forecast.panel import Panel
from gmtree.forecast.registry import Options
from gmtree.forecast.structure import Structure, structure_of
from gmtree.forecast.summing import from_multiindex, parents_of
from gmtree.forecast.variances import Past, Residuals
from gmtree.frames.reconcile import Frame
from gmtree.labels.codes import Codes
from gmtree.labels.columns import encode_index
from gmtree.labels.libraries import kind_of, library


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
    middle_level: Any = None,
    clip_base: bool = False,
    lower: Any = None,
    upper: Any = None,
    spec: Any = None,
    temporal: bool = False,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    id_time_col: str = "temporal_id",
    threads: int | None = None,
) -> Frame:
    """Make base forecasts coherent, so that every series is the sum of its leaves.

    Parameters
    ----------
    Y_hat_df : pandas or polars DataFrame, or pyarrow Table
        Base forecasts: a row for each series and step, columns `id_col` and `time_col`, and a
        column of numbers for each model. Columns of dates, text, categories, truth values, complex
        numbers or None are not models and stay as they are. A column ``cutoff`` and a column
        ``index`` of integers are not models either. Bounds are in columns such as ``ets-lo-90`` and
        ``ets-hi-90`` and sample paths in columns ``ets-sample-0`` and so on, both beside a column
        ``ets``. Rows may come in any order. A missing value or row means that a forecast does not
        exist; its coherent value is computed from the existing forecasts. If ``cutoff`` numbers
        the windows of a cross-validation, each window is made coherent separately. A DataFrame of
        sktime, with levels and times in its index, needs no structure, because its index has the
        label ``__total`` for sums.
    S_df, tags, spec
        The structure; see :class:`Structure`, which may be given as `S_df` itself.
    method : str, or a list of them
        ``"ols"``, ``"wls_struct"``, ``"wls_var"`` and ``"mint_shrink"`` change the forecasts as
        little as possible. They weight with equal variances, numbers of leaves, variances of
        residuals, and the shrunk covariance of residuals, respectively. ``"mint_shrink"`` leaves
        out periods in which some series have no residual. It supports neither missing forecasts nor
        `immutable`. ``"bottom_up"`` sums the forecasts of the leaves. ``"forecast_proportions"``,
        ``"average_proportions"`` and ``"proportion_averages"`` divide the forecasts at the top, or
        those of `middle_level`: see :class:`TopDown`.
    Y_df : DataFrame or Table, optional
        Past values in the column `target_col` and fitted values in columns named after models,
        for ``"wls_var"``, ``"mint_shrink"`` and bootstrapped intervals. Historical proportions
        need the values only. All windows of a cross-validation share it, so it may hold values
        later than a window's ``cutoff``; to prevent this, reconcile the windows one by one.
    nonnegative : bool
        Require non-negative forecasts. The optimum is exact on a tree. ``"bottom_up"`` sets
        negative leaves to zero and sums them, which is the optimum if only leaves have weights.
        Methods that divide forecasts do not support this option.
    level : list of numbers, optional
        Levels of the intervals to add, in percent.
    intervals_method : {"normality", "bootstrap", "conformal", "samples"}
        Normal intervals need bounds in `Y_hat_df`, or `Y_df`. The next two methods need `Y_df`. A
        bootstrap adds stretches of residuals of all series to the forecasts. Conformal intervals
        add the quantiles of the coherent residuals of a series, which are equal for all steps. With
        ``"samples"`` the bounds are quantiles of the coherent sample paths.
    num_samples : int
        Number of coherent sample paths to draw and add, in columns ``<model>/<method>-sample-0``
        and so on. Their distribution is that of `intervals_method`. Sample paths in `Y_hat_df` are
        always made coherent, and no further paths are drawn for their model.
    seed : int or None
        Seed of drawn paths and of bootstrapped intervals. With None, each call draws new ones.
    variance : optional
        Variances that replace those of residuals, for ``"wls_var"``: a dict by name of the series
        or level, the name of a column of `Y_hat_df` (one variance for each step), or
        ``"intervals"`` for variances computed from the bounds in `Y_hat_df`. Series that a dict
        does not name have the variances of their residuals in `Y_df`, so that only a new series
        without residuals needs a number. A forecast with variance 0 is not changed, and a
        forecast with variance inf is ignored.
    residual_variance : {"mean_square", "variance"}
        See :class:`MinTrace`.
    immutable : list of names
        Series, or levels, whose forecasts must not change. ``"mint_shrink"`` does not support this
        option, and ``"bottom_up"`` ignores it.
    middle_level : optional
        For methods that divide forecasts, the level whose forecasts are divided; see
        :class:`MiddleOut`.
    clip_base : bool
        See :class:`MinTrace`.
    lower, upper : optional
        Bounds of the forecasts at all steps: one number for all series, or a dict or pandas Series
        of numbers by name of the series or level. If a series and its level both have a bound,
        both hold. The optimum within them is exact. Bounds that no coherent forecasts can meet
        are refused with an error that names the series. Only for a tree, with ``"ols"``,
        ``"wls_struct"`` or ``"wls_var"``. Intervals and drawn paths are those of a call without
        `lower` and `upper`, so a bounded forecast may lie outside its interval. Sample paths in
        `Y_hat_df` keep the bounds.
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
    DataFrame or Table of the same library
        All rows and columns of `Y_hat_df`, and columns ``<model>/<method>`` with the names of
        hierarchicalforecast: ``ets/MinTrace_method-ols`` and ``ets/BottomUp``, followed by
        ``-lo-80``, ``-hi-80`` for intervals. With `nonnegative` they end with
        ``_nonnegative-optimal`` or, if they hold hierarchicalforecast's values because of
        `clip_base`, with its ``_nonnegative-True``. With `lower` or `upper` they then end
        with ``_bounded``. For each pair of a series and a step without a row in `Y_hat_df`, a row
        is added at the end, in which other columns are missing. A pandas index of whole numbers is
        kept, and added rows get the next numbers. If rows are added to a frame with another index,
        the rows of the result are numbered from 0.

    Notes
    -----
    Standard deviations of base forecasts are computed from their bounds: half the distance from the
    lower to the upper bound, divided by the normal quantile of the level (1.645 for 90), averaged
    over all levels that have both bounds. Without bounds they are the square roots of the variances
    of residuals in `Y_df`.

    Normal intervals are exact if the errors of base forecasts are normal with these deviations, and
    independent or, for ``"mint_shrink"``, correlated as in its covariance. They are exact even if a
    method uses other weights, as ``"ols"`` does. If the structure is not a tree, their computing
    time grows with the square of the number of series: a few seconds for 15,000.

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
    >>> found = gm.forecast.reconcile(base, S, method="ols", upper={"a": 4.5})
    >>> found["ets/MinTrace_method-ols_bounded"].tolist()
    [8.75, 4.5, 4.25]
    """
    columns = (id_col, time_col, target_col, id_time_col)
    request = Request(
        method_list(method),
        columns,
        Options(
            nonnegative,
            clip_base,
            residual_variance,
            immutable,
            middle_level,
            threads=threads,
            lower=lower,
            upper=upper,
        ),
        level,
        intervals_method,
        num_samples,
        seed,
        variance,
    )
    panel = read_forecasts(Y_hat_df, S_df, tags, spec, temporal, columns)
    past = read_past(Y_df, panel, temporal, columns)
    return request.written(panel, panel.structure, past)


def read_forecasts(
    frame: Any, S_df: Any, tags: Any, spec: Any, temporal: bool, columns: tuple[str, ...]
) -> Panel:
    """Read base forecasts and their structure; `columns` are those of :class:`Request`."""
    if isinstance(temporal, Mapping):
        check.fail_type("temporal", "must be True or False; a dict of frequencies goes to S_df, "
                        "with temporal=True, or to temporal_structure.")  # fmt: skip
    check.flag("temporal", temporal)
    id_col, time_col, _, id_time_col = columns
    kind_of("Y_hat_df", frame)
    index = getattr(frame, "index", None)
    in_index = library(frame) == "pandas" and getattr(index, "nlevels", 1) > 1
    if S_df is None and not tags and spec is None and in_index:
        rows, node = from_multiindex(index)
        step = encode_index(index)[-1][1]
        made = Structure._from_summing(rows)
        return Panel.read("Y_hat_df", frame, made, (id_col, time_col), node=node, step=step)
    if not temporal:
        if is_spec(S_df):
            check.fail("temporal", "must be True if 'S_df' is a dict of frequencies.")
        require_columns("Y_hat_df", frame, id_col=id_col)
        structure = structure_of(S_df, tags, spec, id_col)
        require_columns("Y_hat_df", frame, time_col=time_col)
        panel = Panel.read("Y_hat_df", frame, structure, (id_col, time_col), windows=True)
        if isinstance(S_df, Mapping) and not tags and spec is None:
            _refuse_unknown_tops(S_df, panel)
        return panel
    require_columns("Y_hat_df", frame, id_time_col=id_time_col, id_col=id_col)
    structure = read_periods("S_df", S_df, tags, spec, frame, id_time_col)
    return Panel.read("Y_hat_df", frame, structure, (id_time_col, id_col))


def _refuse_unknown_tops(part_of: Mapping[Any, Any], panel: Panel) -> None:
    """Refuse a top series without forecasts if there are several tops: it is likely misspelt."""
    above, labels = parents_of(part_of), panel.structure.labels.tolist()
    tops = [k for k, name in enumerate(labels) if not above.get(name)]
    if len(tops) < 2:
        return
    there = np.zeros(len(labels), bool)
    there[panel.place // panel.steps.size] = True
    for k in tops:
        if not there[k]:
            check.fail("S_df", "must have tops with forecasts in 'Y_hat_df'; "
                       f"{labels[k]!r} is one of {len(tops)} series that are not part of another "
                       "one, and has no forecasts. Is it misspelt?")  # fmt: skip


def read_past(
    Y_df: Any, panel: Panel, temporal: bool, columns: tuple[str, ...]
) -> Callable[[str], Past] | None:
    """Return a function that reads the past values and residuals of a model."""
    if Y_df is None:
        return None
    kind_of("Y_df", Y_df)
    id_col, time_col, target_col, id_time_col = columns
    if temporal:
        series = {label: k for k, label in enumerate(panel.steps.labels.tolist())}
        find = partial(_series_of_rows, panel.steps.argument, series)
        names = (id_col, id_time_col, target_col)
        return past_by_frequency(Y_df, find, len(series), panel.structure, names, transpose=True)
    require_columns("Y_df", Y_df, id_col=id_col, time_col=time_col)
    past = Panel.read("Y_df", Y_df, panel.structure, (id_col, time_col))

    @cache
    def values() -> np.ndarray:
        require_columns("Y_df", Y_df, target_col=target_col)
        return past.values(target_col)

    def residuals(model: str) -> Residuals:
        known = values()
        require_fitted(Y_df, model)
        return Residuals(known - past.values(model), panel.structure.name)

    return lambda model: Past(values, partial(residuals, model))


def _series_of_rows(argument: str, number: dict[Any, int], codes: Codes) -> np.ndarray:
    """Return the number of the series of each row, for series whose periods are made coherent."""
    own = codes.with_categories()
    assert own.categories is not None
    known = [number.get(label, -1) for label in own.categories.tolist()]
    series = np.array([*known, -1])[own.codes]  # The code -1 selects the last entry.
    if (series < 0).any():
        row = int(np.argmax(series < 0))
        check.fail(argument, f"must name series of Y_hat_df; row {row} has {codes.label(row)!r}.")
    return series
