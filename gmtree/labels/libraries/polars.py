"""The adapter of polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes, from_numpy
from gmtree.labels.distinct import column
from gmtree.labels.libraries.base import Library
from gmtree.labels.numbers import as_numbers, refuse_kind


class _Polars(Library):
    name, title = "polars", "A polars DataFrame"

    def encode(self, argument: str, x: Any) -> Codes:
        polars = self.package
        if not isinstance(x, polars.Series):
            check.fail_type(argument, f"must be one column, not a polars {type(x).__name__}.")
        if str(x.dtype).endswith("Int128"):  # Numpy has no integers of 128 bits.
            return from_numpy(argument, np.array(x.to_list(), dtype=object))
        if x.dtype.is_integer() and x.null_count() == 0:
            return from_numpy(argument, x.to_numpy())
        if x.dtype in (polars.String, polars.Categorical, polars.Enum):
            text = x.cast(polars.String)
            distinct = text.drop_nulls().unique(maintain_order=True)
            coded = text.cast(polars.Enum(distinct)).to_physical().cast(polars.Int64).fill_null(-1)
            codes = coded.to_numpy().astype(check.index_dtype(len(x)))
            return Codes(codes, np.array(distinct.to_list(), dtype=object))
        present = from_numpy(argument, column(argument, x.drop_nulls().to_numpy()))
        present = present.with_categories()
        codes = np.full(len(x), -1, check.index_dtype(len(x)))
        codes[x.is_not_null().to_numpy()] = present.codes
        return Codes(codes, present.categories)

    def numbers(self, argument: str, x: Any) -> np.ndarray:
        polars = self.package
        if x.dtype == polars.Object:
            return as_numbers(argument, np.array([*x.to_list(), None], dtype=object)[:-1])
        if not x.dtype.is_numeric() and x.dtype != polars.Null:
            refuse_kind(argument, x.dtype)
        return x.cast(polars.Float64).to_numpy().astype(np.float64)

    def column(self, x: Any) -> Any:
        if not isinstance(x, np.ma.MaskedArray):
            return x
        return self.package.Series(x.data).set(self.package.Series(np.ma.getmaskarray(x)), None)

    def label_column(self, c: Codes) -> Any:
        assert c.categories is not None
        listed = np.asarray(self.plain_labels(c.categories), dtype=object).tolist()
        last = len(listed)  # This entry serves missing labels.
        return self.package.Series([*listed, None]).gather(np.where(c.codes < 0, last, c.codes))

    def take(self, column: Any, rows: np.ndarray) -> Any:
        return column.gather(rows)

    def with_columns(self, frame: Any, columns: Mapping[str, Any]) -> Any:
        return frame.with_columns(self.package.Series(name, x) for name, x in columns.items())

    def _with_categories(self, wanted: Any, new: Any) -> Any:
        if isinstance(wanted, self.package.Enum):
            texts = new.cast(self.package.String).drop_nulls()
            known = self.package.concat([wanted.categories, texts])
            return self.package.Enum(known.unique(maintain_order=True))
        return wanted

    def _errors(self) -> tuple[type[Exception], ...]:
        return (self.package.exceptions.PolarsError,)

    def _convert(self, x: Any, wanted: Any) -> Any:
        out = x.cast(wanted)
        return out if out.cast(x.dtype).equals(x) else None

    def _join(self, frame: Any, more: Any) -> Any:
        return self.package.concat([frame, more], how="diagonal")


POLARS = _Polars()
