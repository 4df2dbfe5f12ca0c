"""The adapter of pandas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes, from_numpy
from gmtree.labels.distinct import column
from gmtree.labels.libraries.base import Library
from gmtree.labels.libraries.pyarrow import PYARROW
from gmtree.labels.numbers import as_numbers


class _Pandas(Library):
    name, title = "pandas", "A pandas DataFrame"

    def encode(self, argument: str, x: Any) -> Codes:
        pandas = self.package
        if not hasattr(x, "dtype"):  # a single label such as NA
            return from_numpy(argument, column(argument, x))
        if getattr(x, "ndim", 1) != 1 or hasattr(x, "levels"):
            check.fail(argument, f"must be a single column or level, not a {type(x).__name__}.")
        if isinstance(x.dtype, np.dtype) and x.dtype != object:
            return from_numpy(argument, column(argument, x.to_numpy()))
        values = x.array if hasattr(x, "array") else x
        if isinstance(x.dtype, pandas.CategoricalDtype):
            categories = column(argument, np.asarray(values.categories))
            return Codes(np.asarray(values.codes), categories)
        if isinstance(x.dtype, pandas.ArrowDtype):
            return PYARROW.encode(argument, values.__arrow_array__())
        try:
            codes, distinct = pandas.factorize(x)
        except TypeError:
            # This error names the row.
            return from_numpy(argument, np.asarray(x, dtype=object))
        if codes.size < 2**31:
            codes = codes.astype(np.int32)
        return Codes(codes, column(argument, np.asarray(distinct)))

    def numbers(self, argument: str, x: Any) -> np.ndarray:
        if not hasattr(x, "dtype"):
            return as_numbers(argument, check.array(argument, x))
        if x.dtype.kind in "iuf":
            return x.to_numpy(dtype=np.float64, na_value=np.nan)
        as_objects = not isinstance(x.dtype, np.dtype)
        return as_numbers(argument, np.asarray(x.astype(object) if as_objects else x))

    def column(self, x: Any) -> Any:
        if not isinstance(x, np.ma.MaskedArray):
            return x
        out = self.package.array(x.data, dtype="Int64" if x.dtype.kind in "iu" else "Float64")
        out[np.ma.getmaskarray(x)] = self.package.NA
        return out

    def label_column(self, c: Codes) -> Any:
        categories = c.categories
        assert categories is not None
        if categories.dtype.kind in "iub":
            dtype = "boolean" if categories.dtype == bool else None
            own = self.package.array(categories, dtype=dtype)
        else:
            own = self.package.Series(categories).array
        return own.take(c.codes, allow_fill=True)

    def plain_labels(self, labels: np.ndarray) -> Any:
        return labels

    def take(self, column: Any, rows: np.ndarray) -> Any:
        return column.take(rows).reset_index(drop=True)

    def with_columns(self, frame: Any, columns: Mapping[str, Any]) -> Any:
        out = frame.copy(deep=False)
        for name in [name for name in columns if name in frame.columns]:
            out[name] = columns[name]
        added = {name: x for name, x in columns.items() if name not in frame.columns}
        if not added:
            return out
        more = self.package.DataFrame(added, index=frame.index, copy=False)
        return self.package.concat([out, more], axis=1)

    def _with_categories(self, wanted: Any, new: Any) -> Any:
        if isinstance(wanted, self.package.CategoricalDtype):
            known = wanted.categories
            further = [x for x in new.dropna().unique().tolist() if x not in known]
            if further:
                index = known.append(self.package.Index(further))
                return self.package.CategoricalDtype(index, wanted.ordered)
        return wanted

    def _convert(self, x: Any, wanted: Any) -> Any:
        out = x.astype(wanted)
        back, present = out.astype(x.dtype), x.notna()
        same = out.notna().equals(present) and bool((back == x)[present].all())
        return out if same else None

    def _join(self, frame: Any, more: Any) -> Any:
        """Join rows; an index of integers is continued, and any other is replaced by 0, 1, ..."""
        pandas, index, rows = self.package, frame.index, len(frame) + len(more)
        joined = pandas.concat([frame, more], ignore_index=True)
        if index.nlevels == 1 and pandas.api.types.is_integer_dtype(index.dtype) and len(index):
            start, stop = int(index.max()) + 1, int(index.max()) + 1 + rows - len(frame)
            if stop < 2**63:
                index = index.append(pandas.RangeIndex(start, stop)).rename(index.name)
                return joined.set_axis(index, axis=0)
        return joined


PANDAS = _Pandas()
