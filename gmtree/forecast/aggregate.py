"""Sums of bottom series over all levels of a specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.columns import holds_numbers, require_columns
from gmtree.forecast.panel import read_axis
from gmtree.forecast.structure import Structure
from gmtree.forecast.summing import from_levels, read_levels
from gmtree.labels.codes import Codes
from gmtree.labels.columns import check_names, encode, numbers, take_column
from gmtree.labels.libraries import adapter, kind_of, narwhals

# Functions for columns that are summarized instead of summed, under narwhals' names.
SUMMARIES = ("sum", "mean", "median", "min", "max", "std", "var", "count", "n_unique")


def aggregate(
    df: Any,
    spec: Sequence[Sequence[str]],
    exog_vars: Mapping[str, str | Sequence[str]] | None = None,
    *,
    target_cols: Sequence[str] = ("y",),
    id_col: str = "unique_id",
    time_col: str = "ds",
) -> tuple[Any, Structure, dict[str, np.ndarray]]:
    """Sum bottom series over all levels, like hierarchicalforecast's function `aggregate`.

    Parameters
    ----------
    df : pandas or polars DataFrame, or pyarrow Table
        Columns of labels, `time_col` and `target_cols`. Several rows of one bottom series at one
        time are added up.
    spec : list of lists of str
        Columns of each level. The last level must have all columns that other levels have.
    exog_vars : dict, optional
        Further columns, and the function or the list of functions that summarizes each of them:
        ``"sum"``, ``"mean"``, ``"median"``, ``"min"``, ``"max"``, ``"std"``, ``"var"``,
        ``"count"`` or ``"n_unique"``. The results are in columns such as ``price_mean``.
    target_cols : list of str
        Columns to sum, by default ``"y"``. Sums of integers are exact.
    id_col : str
        Column of the result for the names of series.
    time_col : str
        Column of times.

    Returns
    -------
    Y_df : DataFrame or Table of the same library
        Columns `id_col`, `time_col`, `target_cols` and those of `exog_vars`, level by level. There
        is a row for each series and each time at which `df` has a row for one of its leaves.
    structure : Structure
        For :func:`reconcile`, in place of `S_df`. Use ``structure.to_frame()`` for
        hierarchicalforecast.
    tags : dict
        Names of the series of each level.

    Raises
    ------
    OverflowError
        If a sum of integers does not fit into 64 bits. The error is also a ValueError.

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> sold = pd.DataFrame({"all": "all", "shop": ["a", "b"], "ds": 1, "y": [5, 3]})
    >>> Y, structure, tags = gm.forecast.aggregate(sold, [["all"], ["all", "shop"]])
    >>> Y
      unique_id  ds  y
    0       all   1  8
    1     all/a   1  5
    2     all/b   1  3
    """
    kind = kind_of("df", df)
    check_names(id_col=id_col, time_col=time_col)
    if isinstance(target_cols, str) or not isinstance(target_cols, Sequence):
        check.fail_type("target_cols", f"must be a list of columns, not {target_cols!r}.")
    levels, leaf_of_row = read_levels(df, spec)
    require_columns("df", df, time_col=time_col)
    step, steps = read_axis(time_col, encode(time_col, take_column("df", df, time_col)))
    columns = {name: (_numbers(df, "target_cols", name, kind), "sum") for name in target_cols}
    columns.update(_summaries(df, exog_vars, kind))
    structure = Structure._from_summing(from_levels(levels))
    series, times = [], []
    parts: dict[str, list[Any]] = {name: [] for name in columns}
    offset = 0
    for level in levels:
        place = level.of_leaf[leaf_of_row] * steps.size + step
        size = level.labels.size * steps.size
        there = np.flatnonzero(np.bincount(place, minlength=size))
        series.append(there // steps.size + offset)
        times.append(there % steps.size)
        for name, (x, how) in columns.items():
            if how != "sum":
                parts[name].append(_summarized(x, how, place, kind))
                continue
            total, lost = _sums(x, place, size)
            if lost >= 0:
                who = structure.name(lost // steps.size + offset)
                raise check.IntegerOverflowError(
                    name,
                    "must have sums that fit into 64-bit integers; that of "
                    f"{who} at {steps.name(lost % steps.size)} does not.",
                )
            parts[name].append(total[there])
        offset += level.labels.size
    frames = adapter(kind)
    ids = frames.label_column(Codes(np.concatenate(series), structure.labels))
    when = frames.take(df[time_col], steps.first[np.concatenate(times)])
    made = {id_col: ids, time_col: when, **{n: np.concatenate(x) for n, x in parts.items()}}
    return frames.frame(made), structure, structure.tags


def _numbers(df: Any, option: str, name: str, kind: str) -> np.ndarray:
    """Read a column of numbers: int64 if all of them are integers, else float64."""
    require_columns("df", df, **{option: name})
    given = take_column("df", df, name)
    if not holds_numbers(given, kind):
        check.fail_type(name, "must hold real numbers to be summed, not dates, truth values, "
                        "text or other objects.")  # fmt: skip
    x = numbers(name, given)
    if not np.isfinite(x).all():
        row = int(np.argmax(~np.isfinite(x)))
        check.fail(name, f"must be finite; row {row} is {x[row]}.")
    column = narwhals().from_native(given, series_only=True)
    if column.dtype.is_integer() and "128" not in str(column.dtype):
        return check.values(name, column.to_numpy(), x.size, per="row")
    if not column.dtype.is_float() and all(isinstance(v, Integral) for v in column.to_list()):
        try:
            return np.array(column.to_list(), np.int64)
        except OverflowError:
            raise check.IntegerOverflowError(
                name, "must fit into 64-bit signed integers."
            ) from None
    return x


def _sums(x: np.ndarray, place: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """Sums by place, and the first place whose sum does not fit into 64 bits, or -1.

    Sums of integers are exact modulo 2^64. So a sum that fits differs from the floating-point sum
    by rounding errors only, and a sum that does not fit differs by about 2^64 or more.
    """
    rounded = np.bincount(place, x, size)
    if x.dtype.kind == "f":
        return rounded, -1
    exact = np.zeros(size, np.int64)
    np.add.at(exact, place, x)
    lost = np.flatnonzero(abs(exact - rounded) > 2.0**63)
    return exact, int(lost[0]) if lost.size else -1


def _summaries(df: Any, exog_vars: Any, kind: str) -> dict[str, tuple[np.ndarray, str]]:
    """For each column of summaries, the numbers to summarize and the name of the function."""
    if exog_vars is not None and not isinstance(exog_vars, Mapping):
        check.fail_type("exog_vars", f"must be a dict of columns, not {exog_vars!r}.")
    found = {}
    for name, how in (exog_vars or {}).items():
        x = _numbers(df, "exog_vars", name, kind)
        for each in [how] if isinstance(how, str) else how:
            check.one_of(f"exog_vars[{name!r}]", each, SUMMARIES)
            found[f"{name}_{each}"] = x, each
    return found


def _summarized(x: np.ndarray, how: str, place: np.ndarray, kind: str) -> np.ndarray:
    """For each place that occurs, in ascending order: the function `how` of its entries."""
    nw = narwhals()
    # We use pandas for pyarrow Tables, because pyarrow computes medians approximately.
    backend = "pandas" if kind == "pyarrow" else kind
    grouped = nw.from_dict({"place": place, "x": x}, backend=backend).group_by("place")
    return grouped.agg(getattr(nw.col("x"), how)()).sort("place")["x"].to_numpy()
