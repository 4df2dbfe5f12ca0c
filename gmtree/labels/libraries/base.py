"""Operations on columns and DataFrames, under one name for all libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes


class Library(ABC):
    """Adapter of one library: reads its columns, and makes and extends its DataFrames."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One of its frames, for messages."""

    @property
    def package(self) -> Any:
        """The imported library; if it is missing, an error explains how to install it."""
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
        """A column from an array, a list or a column of this library; masked entries are null."""

    @abstractmethod
    def label_column(self, c: Codes) -> Any:
        """A column with the labels that codes stand for; the code -1 becomes a missing entry."""

    def plain_labels(self, labels: np.ndarray) -> Any:
        """Labels in a form that the library can hold; labels of mixed types become text."""
        if labels.dtype != object:
            return labels
        listed = labels.tolist()
        if all(x is None or isinstance(x, str) for x in listed):
            return listed
        return [None if x is None else str(x) for x in listed]

    def frame(self, columns: Mapping[str, Any]) -> Any:
        """A frame of columns as :meth:`column` takes them."""
        return self.package.DataFrame({name: self.column(x) for name, x in columns.items()})

    # ------------------------------------------------------------------ changing

    @abstractmethod
    def take(self, column: Any, rows: np.ndarray) -> Any:
        """Some rows of a column."""

    @abstractmethod
    def with_columns(self, frame: Any, columns: Mapping[str, Any]) -> Any:
        """A DataFrame in which columns are replaced, or added at its end."""

    def append(self, frame: Any, added: Mapping[str, Any]) -> Any:
        """A DataFrame followed by rows that have some of its columns; other entries are missing.

        A column keeps its type if that can hold the added entries unchanged. Otherwise it gets the
        type of the added entries, and a type with a list of categories gets further categories.
        """
        own, longer, more = {}, {}, self.frame(added)
        for name in added:
            own[name], longer[name] = self._in_one_type(name, frame[name], more[name])
        return self._join(self.with_columns(frame, own), self.frame(longer))

    def _in_one_type(self, name: str, own: Any, new: Any) -> list[Any]:
        """Two columns in a type that can hold all entries: the type of `own` if possible."""
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
        """A type, with more categories if it has a list of them."""
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
