"""Operations on columns and DataFrames, with the same names for all libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes


class Library(ABC):
    """The adapter of one library, which reads its columns, and makes and extends its DataFrames."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One of its frames, for messages."""

    @property
    def package(self) -> Any:
        """The imported library. If it is not installed, an error explains how to install it."""
        return check.optional(self.name, "frames", self.title)

    # ------------------------------------------------------------------ reading

    @abstractmethod
    def encode(self, argument: str, x: Any) -> Codes:
        """Encode a column of labels."""

    @abstractmethod
    def numbers(self, argument: str, x: Any) -> np.ndarray:
        """A column of real numbers as float64; missing entries become NaN."""

    # ------------------------------------------------------------------ writing

    @abstractmethod
    def column(self, x: Any) -> Any:
        """A column from an array, list or column of this library; masked entries become null."""

    @abstractmethod
    def label_column(self, c: Codes) -> Any:
        """A column with the labels that codes denote; the code -1 becomes a missing entry."""

    def plain_labels(self, labels: np.ndarray) -> Any:
        """Labels in a form that the library can store; labels of mixed types become text."""
        if labels.dtype != object:
            return labels
        listed = labels.tolist()
        if all(x is None or isinstance(x, str) for x in listed):
            return listed
        return [None if x is None else str(x) for x in listed]

    def frame(self, columns: Mapping[str, Any]) -> Any:
        """A DataFrame of columns, each anything that :meth:`column` accepts."""
        return self.package.DataFrame({name: self.column(x) for name, x in columns.items()})

    # ------------------------------------------------------------------ changing

    @abstractmethod
    def take(self, column: Any, rows: np.ndarray) -> Any:
        """Some rows of a column."""

    @abstractmethod
    def with_columns(self, frame: Any, columns: Mapping[str, Any]) -> Any:
        """A DataFrame in which columns are replaced, or added at its end."""

    def append(self, frame: Any, added: Mapping[str, Any]) -> Any:
        """A DataFrame with added rows, whose entries are missing in columns that `added` lacks.

        A column keeps its type if this type can hold the added entries unchanged. A categorical
        type gets further categories. Otherwise the column gets the type of the added entries.
        """
        own, longer, more = {}, {}, self.frame(added)
        for name in added:
            own[name], longer[name] = self._in_one_type(name, frame[name], more[name])
        return self._join(self.with_columns(frame, own), self.frame(longer))

    def _in_one_type(self, name: str, own: Any, new: Any) -> list[Any]:
        """Return `own` and `new` in one type: that of `own` if it can hold all entries."""
        a, b = self._type(own), self._type(new)
        for wanted in (self._with_categories(a, new), b):
            cast = [self._cast(x, wanted) for x in (own, new)]
            if all(x is not None for x in cast):
                return cast
        check.fail_type(name, f"must have a type that can hold the added labels ({b}), not {a}.")

    def _cast(self, x: Any, wanted: Any) -> Any:
        """A column converted to another type; None if an entry would change."""
        if self._type(x) == wanted:
            return x
        try:
            return self._convert(x, wanted)
        except self._errors():
            return None

    def _type(self, column: Any) -> Any:
        return column.dtype

    def _with_categories(self, wanted: Any, new: Any) -> Any:
        """The type `wanted`; if it is categorical, it gets the categories of `new`, too."""
        return wanted

    def _errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that the library raises for impossible conversions."""
        return (TypeError, ValueError, NotImplementedError)

    @abstractmethod
    def _convert(self, x: Any, wanted: Any) -> Any:
        """A column converted to another type; returns None or raises if an entry would change."""

    @abstractmethod
    def _join(self, frame: Any, more: Any) -> Any:
        """The rows of two DataFrames; columns that `more` lacks are missing in its rows."""
