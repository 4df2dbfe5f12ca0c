"""The libraries of DataFrames with which tests run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

MAKE = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(
        {k: x.tolist() if isinstance(x, np.ndarray) else x for k, x in columns.items()},
        strict=False,
    ),
    "pyarrow": lambda columns: pa.table({k: pa.array(list(x)) for k, x in columns.items()}),
}
KINDS = list(MAKE)


def listed(frame, name):
    """One column as a list, with None for missing entries."""
    column = frame[name]
    if isinstance(frame, pd.DataFrame):
        return [None if pd.isna(x) else x for x in column.tolist()]
    return column.to_pylist() if isinstance(frame, pa.Table) else column.to_list()


def names(frame):
    return frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)


def kind_of(frame):
    return type(frame).__module__.partition(".")[0]


def shuffled(columns, seed):
    """The same rows in another order."""
    order = np.random.default_rng(seed).permutation(len(next(iter(columns.values()))))
    return {name: [list(x)[k] for k in order] for name, x in columns.items()}


def by_path(frame, levels, value):
    """Values by the labels of their row."""
    keys = zip(*(listed(frame, name) for name in levels), strict=True)
    return dict(zip(keys, listed(frame, value), strict=True))
