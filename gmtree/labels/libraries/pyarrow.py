"""The adapter of pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes, from_numpy
from gmtree.labels.distinct import column
from gmtree.labels.libraries.base import Library
from gmtree.labels.numbers import as_numbers, refuse_kind


class _PyArrow(Library):
    name, title = "pyarrow", "A pyarrow Table"

    def encode(self, argument: str, x: Any) -> Codes:
        arrow = self.package
        if not isinstance(x, (arrow.Array, arrow.ChunkedArray)):
            check.fail_type(argument, f"must be one column, not a pyarrow {type(x).__name__}.")
        if arrow.types.is_dictionary(x.type):
            chunks = x.chunks if isinstance(x, arrow.ChunkedArray) else [x]
            if not all(_is_distinct(chunk.dictionary) for chunk in chunks):
                x = x.cast(x.type.value_type)
        if isinstance(x, arrow.ChunkedArray):
            x = x.combine_chunks()
            if isinstance(x, arrow.ChunkedArray):  # The labels are too long for a single chunk.
                x = arrow.concat_arrays(x.chunks)
        if arrow.types.is_integer(x.type) and x.null_count == 0:
            return from_numpy(argument, x.to_numpy(zero_copy_only=False))
        if not arrow.types.is_dictionary(x.type):
            try:
                x = x.dictionary_encode()
            except arrow.ArrowNotImplementedError:
                check.fail_type(argument, f"must hold labels, not values of type {x.type}.")
        codes = x.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        distinct = x.dictionary.to_numpy(zero_copy_only=False)
        return Codes(codes, column(argument, distinct))

    def numbers(self, argument: str, x: Any) -> np.ndarray:
        types, kind = self.package.types, x.type
        if types.is_dictionary(kind):
            x, kind = x.cast(kind.value_type), kind.value_type
        if types.is_null(kind):
            return np.full(len(x), np.nan)
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
            refuse_kind(argument, kind)
        whole = isinstance(x, self.package.ChunkedArray)
        # Decimals, and whole numbers with missing entries, may arrive as objects.
        return as_numbers(argument, x.to_numpy() if whole else x.to_numpy(zero_copy_only=False))

    def column(self, x: Any) -> Any:
        if isinstance(x, np.ma.MaskedArray):
            return self.package.array(x.data, mask=np.ma.getmaskarray(x))
        return self.package.array(x) if isinstance(x, (np.ndarray, list)) else x

    def label_column(self, c: Codes) -> Any:
        assert c.categories is not None
        own = self.package.array(self.plain_labels(c.categories))
        return own.take(self.package.array(c.codes, mask=c.codes < 0))

    def frame(self, columns: Mapping[str, Any]) -> Any:
        return self.package.table({name: self.column(x) for name, x in columns.items()})

    def take(self, column: Any, rows: np.ndarray) -> Any:
        return column.take(rows)

    def with_columns(self, frame: Any, columns: Mapping[str, Any]) -> Any:
        for name, x in columns.items():
            if name in frame.column_names:
                frame = frame.set_column(frame.column_names.index(name), name, self.column(x))
            else:
                frame = frame.append_column(name, self.column(x))
        return frame

    def _type(self, column: Any) -> Any:
        return column.type

    def _convert(self, x: Any, wanted: Any) -> Any:
        out = x
        if self.package.types.is_dictionary(wanted):
            out = x.cast(wanted.value_type).dictionary_encode()
        out = out.cast(wanted)
        same = x.null_count == len(x) or out.cast(x.type).equals(x)
        return out if same else None

    def _join(self, frame: Any, more: Any) -> Any:
        return self.package.concat_tables([frame, more], promote_options="default")


def _is_distinct(dictionary: Any) -> bool:
    """Whether the entries of a pyarrow dictionary are distinct and none is missing."""
    return dictionary.null_count == 0 and len(dictionary.unique()) == len(dictionary)


PYARROW = _PyArrow()
