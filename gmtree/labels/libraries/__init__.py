"""DataFrame libraries, with one adapter for each.

No library is imported before a user passes or requests one of its columns or DataFrames.
"""

from __future__ import annotations

from typing import Any

from gmtree import _validate as check
from gmtree.labels.libraries.base import Library
from gmtree.labels.libraries.pandas import PANDAS
from gmtree.labels.libraries.polars import POLARS
from gmtree.labels.libraries.pyarrow import PYARROW

_ADAPTERS: dict[str, Library] = {x.name: x for x in (PANDAS, POLARS, PYARROW)}

LIBRARIES = tuple(_ADAPTERS)


def library(x: Any) -> str | None:
    """Name of the DataFrame library that `x` belongs to, or None."""
    name = type(x).__module__.partition(".")[0]
    return name if name in _ADAPTERS else None


def adapter(name: str) -> Library:
    """The adapter of a library."""
    return _ADAPTERS[name]


def kind_of(argument: str, frame: Any) -> str:
    """Name of the library of a DataFrame; lazy DataFrames and other objects are refused."""
    kind, what = library(frame), type(frame).__name__
    if what == "LazyFrame":
        check.fail_type(argument, "must be a DataFrame in memory; call .collect() on a LazyFrame.")
    if kind is None or what not in ("DataFrame", "Table"):
        check.fail_type(
            argument, f"must be a pandas or polars DataFrame or a pyarrow Table, not {what}."
        )
    return kind


def narwhals() -> Any:
    """The narwhals package, for operations that the adapters do not offer."""
    return check.optional("narwhals", "frames", "A frame")
