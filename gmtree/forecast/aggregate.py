"""Sums of bottom series over all levels of a specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.panel import holds_numbers, read_axis, require_columns
from gmtree.forecast.rows import read_levels, rows_of_levels
from gmtree.forecast.structure import Structure
from gmtree.labels.columns import Codes, encode, refuse_no_names, take_column
from gmtree.labels.measurements import numbers
from gmtree.labels.table import assemble, kind_of, label_column, narwhals


def aggregate(
    df: Any,
    spec: Sequence[Sequence[str]],
    *,
    target_cols: Sequence[str] = ("y",),
    id_col: str = "unique_id",
    time_col: str = "ds",
) -> tuple[Any, Structure, dict[str, np.ndarray]]:
    """Sum up bottom series over all levels, as hierarchicalforecast's function of that name does.

    Parameters
    ----------
    df : frame of pandas, polars or pyarrow
        Columns of labels, `time_col` and `target_cols`; a row for each bottom series and time, or
        several, which are added up.
    spec : list of lists of str
        Columns of each level; the last has all of them.
    target_cols : list of str
        Columns to be summed.
    id_col, time_col : str
        Names of columns.

    Returns
    -------
    Y_df : frame of the same kind
        Columns `id_col`, `time_col` and `target_cols`, level by level; a row for each series and
        time of which `df` has any.
    structure : Structure
        For :func:`reconcile`, in place of `S_df`.
    tags : dict
        For each level the names of its series.

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
    refuse_no_names(id_col=id_col, time_col=time_col)
    if isinstance(target_cols, str) or not isinstance(target_cols, Sequence):
        check.fail_type("target_cols", f"must be a list of columns, not {target_cols!r}.")
    levels, leaf_of_row = read_levels(df, spec)
    require_columns("df", df, time_col=time_col)
    step, steps = read_axis(time_col, encode(time_col, take_column("df", df, time_col)))
    columns = {}
    for name in target_cols:
        require_columns("df", df, target_cols=name)
        given = take_column("df", df, name)
        if not holds_numbers(given, kind):
            check.fail_type(name, "must hold real numbers to be summed, not dates, truth values, "
                            "text or others.")  # fmt: skip
        x = numbers(name, given)
        if not np.isfinite(x).all():
            row = int(np.argmax(~np.isfinite(x)))
            check.fail(name, f"must be finite; row {row} is {x[row]}.")
        whole = np.asarray(given).dtype.kind in "iu"
        columns[name] = (x, np.int64 if whole else np.float64)
    structure = Structure._of_rows(rows_of_levels(levels))
    series, times, sums = [], [], {name: [] for name in columns}  # type: ignore[var-annotated]
    offset = 0
    for level in levels:
        place = level.of_leaf[leaf_of_row] * steps.size + step
        size = level.labels.size * steps.size
        there = np.flatnonzero(np.bincount(place, minlength=size))
        series.append(there // steps.size + offset)
        times.append(there % steps.size)
        for name, (x, dtype) in columns.items():
            total = np.bincount(place, x, size)[there]
            sums[name].append(total.astype(dtype))
        offset += level.labels.size
    ids = label_column(Codes(np.concatenate(series), structure.labels), kind)
    at = narwhals().from_native(df, eager_only=True)[time_col][steps.first].to_native()
    when = at.take(np.concatenate(times)) if kind != "polars" else at.gather(np.concatenate(times))
    if kind == "pandas":
        when = when.reset_index(drop=True)
    made = {id_col: ids, time_col: when, **{n: np.concatenate(x) for n, x in sums.items()}}
    return assemble(made, kind), structure, structure.tags
