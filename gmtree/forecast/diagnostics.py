"""Base forecasts checked against each other, the most suspicious first."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.consistency.diagnostics import COLUMNS, worst_first
from gmtree.forecast.columns import CUTOFF
from gmtree.forecast.forecasts import Base, Request
from gmtree.forecast.methods import Closest
from gmtree.forecast.panel import Panel
from gmtree.forecast.reconcile import read_forecasts, read_past
from gmtree.forecast.registry import Options
from gmtree.forecast.solver import Weights
from gmtree.frames.diagnostics import taken
from gmtree.frames.reconcile import Frame
from gmtree.frames.rows import alike
from gmtree.labels.codes import Codes
from gmtree.labels.columns import column_names
from gmtree.labels.libraries import adapter

# In structures that are not trees, the residual of a series must have at least this fraction of its
# forecast's variance. A smaller fraction is a rounding error: the other forecasts then imply
# nothing about the series.
LEAST_PART = 1e-9


def diagnose(
    Y_hat_df: Frame,
    S_df: Any = None,
    tags: Any = None,
    Y_df: Any = None,
    *,
    variance: Any = None,
    residual_variance: str = "mean_square",
    spec: Any = None,
    temporal: bool = False,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    id_time_col: str = "temporal_id",
    threads: int | None = None,
) -> Frame:
    """Compare each base forecast with the value that all other forecasts of its step imply.

    Parameters
    ----------
    Y_hat_df, S_df, tags, Y_df, spec, temporal, threads
        See :func:`reconcile`.
    variance, residual_variance
        Variances of the errors of base forecasts, as :func:`reconcile` takes them for
        ``"wls_var"``. By default they are those of the residuals in `Y_df`.
    id_col, time_col, target_col, id_time_col : str
        Names of columns.

    Returns
    -------
    DataFrame or Table of the same library
        One row for each row of `Y_hat_df` and model, by descending size of ``standardized``, so
        that the most suspicious forecast comes first. The columns are `id_col` and `time_col` (with
        `temporal`, `id_time_col` and `id_col`), ``cutoff`` if there are windows of a
        cross-validation, ``model``, ``measured`` for the base forecast, ``reconciled``,
        ``residual``, ``standardized``, ``leave_one_out``, ``leave_one_out_std_error`` and
        ``leverage``: see :meth:`gmtree.Consistency.diagnose`.
        Missing forecasts come last.

    Notes
    -----
    Errors of base forecasts are usually correlated and grow with the horizon, but the default
    variances come from residuals of one step. So standardised residuals rank the forecasts, but a
    value of 4 does not prove a mistake. The leaves of one family in a tree have the same
    standardised residual, because the other forecasts only check their sum.

    In structures that are not trees, ``standardized`` is NaN for forecasts with variance 0.

    Examples
    --------
    The forecast of b has lost a digit:

    >>> import pandas as pd, gmtree as gm
    >>> base = pd.DataFrame({
    ...     "unique_id": ["total", "a", "b", "a1", "a2", "b1", "b2"], "ds": 1,
    ...     "ets": [98.0, 41.0, 6.0, 20.0, 22.0, 31.0, 27.0],
    ... })
    >>> part_of = {"a": "total", "b": "total", "a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    >>> found = gm.forecast.diagnose(base, part_of, variance=dict.fromkeys(base.unique_id, 4.0))
    >>> found[["unique_id", "model", "measured", "leave_one_out", "standardized"]].round(1).head(2)
      unique_id model  measured  leave_one_out  standardized
    0         b   ets       6.0           57.3         -18.6
    1     total   ets      98.0           64.7          10.9
    """
    names = (id_col, time_col, target_col, id_time_col)
    options = Options(residual_variance=residual_variance, threads=threads)
    request = Request(("wls_var",), names, options, variance=variance)
    panel = read_forecasts(Y_hat_df, S_df, tags, spec, temporal, names)
    if Y_df is None and variance is None:
        check.fail("Y_df", "must hold past and fitted values, unless 'variance' is given.")
    past = read_past(Y_df, panel, temporal, names)
    models = request.models(panel)
    bases = [Base(request, panel, panel.structure, model, past) for model in models]
    wide = (_compared(base).reshape(len(COLUMNS), -1) for base in bases)
    found = np.concatenate([x[:, panel.place] for x in wide], axis=1)
    figures = dict(zip(COLUMNS, found, strict=True))
    order = worst_first(figures["standardized"])
    rows = found.shape[1] // len(models)
    listed = np.array([model.name for model in models], dtype=object)
    made = {"model": Codes(np.arange(len(models)).repeat(rows), listed), **figures}
    columns = taken(panel.kind, _labels(panel), order % rows) | taken(panel.kind, made, order)
    return adapter(panel.kind).frame(columns)


def _labels(panel: Panel) -> dict[str, Any]:
    """Return the columns that identify the rows of a panel."""
    node, step = np.divmod(panel.place, panel.steps.size)
    series, periods = panel.columns
    labels = {series: Codes(node, panel.structure.labels), periods: Codes(step, panel.steps.labels)}
    if panel.steps.cutoffs is not None:
        labels[CUTOFF] = Codes(step, panel.steps.cutoffs)
    there = column_names(panel.frame)
    return {name: panel.frame[name] if name in there else x for name, x in labels.items()}


def _compared(base: Base) -> np.ndarray:
    """Return the report for one model, as an array of shape (columns, series, steps)."""
    method, y = base.method("wls_var"), base.y
    assert isinstance(method, Closest)
    assert method.weights.variance is not None
    s = np.broadcast_to(method.weights.variance.T, y.T.shape).T
    s = np.where(np.isnan(y), np.inf, s)
    compare = _by_rest if base.structure.tree is None else _by_tree
    found = np.empty((len(COLUMNS), *y.shape))
    for same in alike(s):
        own = s[:, same][:, 0]
        found[:, :, same] = compare(base, own, y[:, same])
    return found


def _by_tree(base: Base, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the columns of the report on a tree, for several steps that have equal variances."""
    tree, n = base.structure.tree, base.structure.n
    assert tree is not None
    # A root above all series has no forecast.
    wide = np.full((tree.n, y.shape[1]), np.nan)
    wide[:n] = y
    post = Consistency(tree, {"node": np.append(s, np.full(tree.n - n, np.inf))},
                       base.request.options.threads)  # fmt: skip
    found = [list(post.diagnose(v)._columns.values()) for v in wide.T]
    return np.stack(found, axis=2)[:, :n]


def _by_rest(base: Base, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Like `_by_tree`, for structures that are not trees: from coherent values and variances."""
    weights = Weights(base.structure, s, base.request.options.threads, base.panel.steps.name)
    x = weights.project(y)
    error = weights.noise_variance(np.where(np.isinf(s), np.nan, s)[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        leverage = np.where(s > 0, error[:, 0] / s, 1)[:, None]
        part = np.where(1 - leverage > LEAST_PART, 1 - leverage, np.nan)
        residual, deviation = y - x, np.sqrt(error / part)
        standardized = residual / np.sqrt(s[:, None] * part)
        rest = np.where(np.isnan(y), x, y - residual / part)
        deviation[np.isnan(part) & (s > 0)[:, None]] = np.inf
    wide = [y, x, residual, standardized, rest, deviation, leverage]
    return np.stack(np.broadcast_arrays(*wide))
