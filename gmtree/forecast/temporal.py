"""Forecasts that are coherent across series and along time.

The summing matrix of pairs of a series and a period is the Kronecker product of the summing matrix
of the series and that of the periods. Weights that are products, such as equal ones and numbers of
leaves, need one projection along the series and one along the periods.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from gmtree import _validate as check
from gmtree.forecast.columns import require_columns
from gmtree.forecast.forecasts import Request, method_list
from gmtree.forecast.frequency import past_by_frequency, read_periods
from gmtree.forecast.panel import Panel
from gmtree.forecast.registry import Options
from gmtree.forecast.structure import Structure, structure_of
from gmtree.frames.reconcile import Frame
from gmtree.labels.libraries import kind_of

# Names of methods in the R package FoReco.
NAMES = {"struc": "wls_struct", "str": "wls_struct", "wlsv": "wls_var", "bu": "bottom_up"}


def reconcile_cross_temporal(
    Y_hat_df: Frame,
    S_df: Any = None,
    tags: Any = None,
    temporal: Any = None,
    method: str | Sequence[str] = "wls_struct",
    Y_df: Any = None,
    nonnegative: bool = False,
    level: Any = None,
    *,
    variance: Any = None,
    residual_variance: str = "mean_square",
    num_samples: int = 0,
    seed: int | None = 0,
    spec: Any = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    id_time_col: str = "temporal_id",
    threads: int | None = None,
) -> Frame:
    """Make forecasts of several frequencies coherent across series and along time together.

    Parameters
    ----------
    Y_hat_df : pandas or polars DataFrame, or pyarrow Table
        Base forecasts of all frequencies: a row for each series and period, with the columns
        `id_col` and `id_time_col`, and one column per model.
    S_df, tags, spec
        The structure of the series; see :class:`Structure`.
    temporal : dict, Structure, Tree or summing matrix
        The structure of the periods: ``{"year": 12, "quarter": 3, "month": 1}`` with periods named
        ``month-1`` and so on, a tree such as :func:`gmtree.shapes.calendar` makes, or any
        description that :class:`Structure` accepts. A dict stands for whole periods of the longest
        frequency, as many as are needed to cover all periods of `Y_hat_df`, even if it has no row
        for some of the shorter periods. If the last year ends early, or if lengths do not divide
        the largest length, give ``temporal_structure(spec, periods)``.
    method : str or list
        ``"ols"``, ``"wls_struct"``, ``"wls_var"`` or ``"bottom_up"``; or ``"ols"``, ``"struc"`` and
        ``"wlsv"``, as the R package FoReco calls them. ``"wls_var"`` has one variance for each
        series and frequency.
    Y_df : DataFrame or Table, optional
        Past values and fitted values of all frequencies. The frequency of a row is in a column
        ``frequency``, or before the last dash of its period (``quarter`` in ``quarter-17``).
    variance : dict or str, optional
        Variances for ``"wls_var"``: one for each frequency, or the name of a column.
    nonnegative, level, residual_variance, num_samples, seed
        See :func:`reconcile`. The mean square of a frequency is taken over its own residuals.
    id_col, target_col, id_time_col : str
        Names of columns.
    time_col : str
        Column of times, which is ignored.
    threads : int, optional
        See :class:`gmtree.Consistency`.

    Returns
    -------
    DataFrame or Table of the same library
        `Y_hat_df` with a column for each model and method, as :func:`reconcile` returns it.

    Notes
    -----
    Covariances between series or between frequencies (FoReco's ``shr``, ``acov``, ``sam`` and
    similar methods) are not offered. They are full matrices over all pairs, for which gmtree has no
    fast algorithm. For one frequency, :func:`reconcile` has ``"mint_shrink"``.

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> base = pd.DataFrame(
    ...     [(i, t, y) for i, ys in (("all", (24, 10, 11)), ("a", (9, 5, 4)), ("b", (12, 6, 6)))
    ...      for t, y in zip(("year-1", "half-1", "half-2"), ys)],
    ...     columns=["unique_id", "temporal_id", "naive"])
    >>> found = gm.forecast.reconcile_cross_temporal(
    ...     base, {"a": "all", "b": "all"}, temporal={"year": 2, "half": 1}, method="ols")
    >>> found["naive/MinTrace_method-ols"].round(2).tolist()
    [22.33, 11.0, 11.33, 9.67, 5.0, 4.67, 12.67, 6.0, 6.67]
    """
    request = Request(
        method_list(method, NAMES),
        (id_col, time_col, target_col, id_time_col),
        Options(nonnegative, residual_variance=residual_variance, threads=threads),
        level,
        num_samples=num_samples,
        seed=seed,
        variance=variance,
    )
    kind_of("Y_hat_df", Y_hat_df)
    require_columns("Y_hat_df", Y_hat_df, id_col=id_col, id_time_col=id_time_col)
    series = structure_of(S_df, tags, spec, id_col)
    if temporal is None:
        check.fail("temporal", "must describe the structure of the periods.")
    periods = read_periods("temporal", temporal, None, None, Y_hat_df, id_time_col)
    panel = Panel.read("Y_hat_df", Y_hat_df, series, (id_col, id_time_col), periods=periods)
    past = None
    if Y_df is not None:
        kind_of("Y_df", Y_df)
        find = partial(series._locate, "Y_df", column=id_col)
        names = (id_col, id_time_col, target_col)
        past = past_by_frequency(Y_df, find, series.n, periods, names)
    return request.written(panel, _Pairs(series, periods), past)


class _Pairs(Structure):
    """The structure of pairs of a series and a period; its levels are frequencies."""

    def __init__(self, series: Structure, periods: Structure) -> None:
        self._axes = series, periods
        self.matrix = sparse.csr_array(sparse.kron(series.matrix, periods.matrix))
        self.leaf = (series.leaf[:, None] * periods.n + periods.leaf).ravel()
        start = np.arange(series.n)[:, None] * periods.n
        self.levels = {name: (start + rows).ravel() for name, rows in periods.levels.items()}
        self._row_of: dict[Any, int] = {}  # pairs have no names of their own

    def name(self, k: int) -> str:
        """Name a pair in an error message."""
        assert self._axes is not None
        series, periods = self._axes
        i, j = divmod(k, periods.n)
        return f"{series.name(i)} in period {check.shown(periods.labels[j])}"

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.matrix.shape[0]
