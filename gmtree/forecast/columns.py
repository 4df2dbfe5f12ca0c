"""Columns of a frame of forecasts: models, their bounds and their sample paths."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes
from gmtree.labels.columns import all_names, check_names, column_names
from gmtree.labels.libraries import narwhals

BOUND = re.compile(r"(.+)-(lo|hi)-(\d+(?:\.\d+)?)")
PATH = re.compile(r"(.+)-(sample)-(\d+)")
# Column that numbers the windows of a cross-validation.
CUTOFF = "cutoff"


@dataclass
class Model:
    """A column of base forecasts, its lower and upper bounds by level, and its sample paths."""

    name: str
    bounds: dict[float, dict[str, str]] = field(default_factory=dict)
    paths: dict[int, str] = field(default_factory=dict)


def read_models(frame: Any, kind: str, others: Sequence[str]) -> list[Model]:
    """Find the columns of base forecasts, except the columns `others`.

    Columns without numbers are not models, nor is a column ``cutoff``, nor a column ``index`` of
    integers.
    """
    names = column_names(frame)
    models: dict[str, Model] = {}
    for name in names:
        if name in (*others, CUTOFF) or not isinstance(name, str):
            continue
        if any(part in name for part in ("-lo-", "-hi-", "-median", "-sample-")):
            continue
        if names.count(name) > 1 or _holds_forecasts(name, frame[name], kind):
            models[name] = Model(name)
    for name in names:
        match = BOUND.fullmatch(str(name)) or PATH.fullmatch(str(name))
        if match is None or match[1] in others:
            continue
        if match[1] not in models:
            _refuse_lone(name, match[1], names)
        elif match[2] == "sample":
            models[match[1]].paths[int(match[3])] = name
        elif float(match[3]) > 0:
            models[match[1]].bounds.setdefault(float(match[3]), {})[match[2]] = name
    if not models:
        check.fail("Y_hat_df", "must have a column of base forecasts, which holds numbers; it has "
                   f"{check.some(map(repr, names))}.")  # fmt: skip
    return list(models.values())


def bound_names(name: str, level: Sequence[float]) -> list[str]:
    """Return the columns of bounds in the order of their quantiles."""
    return [f"{name}-lo-{x}" for x in reversed(level)] + [f"{name}-hi-{x}" for x in level]


def _refuse_lone(name: str, model: str, names: Sequence[str]) -> None:
    """Refuse bounds and paths of a model whose own column is missing or holds no numbers."""
    if model in names:
        how = f"column {model!r} holds none. Convert it, in pandas with .astype(float)"
    else:
        how = f"there is no column {model!r}. Add it"
    check.fail("Y_hat_df", f"must have the base forecasts of {name!r} in a column of numbers; "
               f"{how}, or drop {name!r} and similar columns.")  # fmt: skip


def _holds_forecasts(name: str, column: Any, kind: str) -> bool:
    if not holds_numbers(column, kind):
        return False
    whole = narwhals().from_native(column, series_only=True).dtype.is_integer()
    return not (whole and name == "index")


def holds_numbers(column: Any, kind: str) -> bool:
    """Whether a column holds real numbers, not dates, truth values, text, categories or None.

    A column of Python objects counts as numbers if at least one of them is a number. When the
    column is read, an error names the first object that is not a number.
    """
    if isinstance(column, Codes):
        return False
    if kind != "pandas":
        return narwhals().from_native(column, series_only=True).dtype.is_numeric()
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    found = sys.modules["pandas"].api.types.infer_dtype(column, skipna=True)
    if found.startswith("mixed"):
        return any(isinstance(x, Real) and not isinstance(x, (bool, np.bool_)) for x in column)
    return found in ("integer", "floating", "decimal")


def require_columns(argument: str, frame: Any, **names: Any) -> None:
    """Refuse a frame without the columns that options name; `names` maps options to columns.

    In pandas, a level of the index may take the place of a column.
    """
    check_names(**names)
    there = all_names(frame)
    for option, name in names.items():
        if name not in there:
            check.fail(argument, f"must have a column {name!r} (pass {option} if it has another "
                       f"name); it has {check.some(column_names(frame))}.")  # fmt: skip


def require_fitted(frame: Any, model: str) -> None:
    """Refuse past values without the fitted values of a model."""
    if model not in column_names(frame):
        check.fail("Y_df", f"must have a column {model!r} of fitted values, because each column of "
                   "numbers in 'Y_hat_df' is a model.")  # fmt: skip
