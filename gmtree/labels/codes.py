"""A column of labels as integer codes, a form in which labels of all libraries can be compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmtree.labels.distinct import as_objects, factorize


class Codes(NamedTuple):
    """A column of labels: row k has the label ``categories[codes[k]]``, or none if the code is -1.

    If `categories` is None, the labels are integers, all present, and `codes` holds them directly.
    """

    codes: np.ndarray
    categories: np.ndarray | None

    @property
    def missing(self) -> np.ndarray | None:
        """Mask of the rows without a label; None if every row has one."""
        if self.categories is None:
            return None
        missing = self.codes < 0
        return missing if missing.any() else None

    def label(self, row: int) -> Any:
        """The label of one row."""
        code = self.codes[row]
        if self.categories is None:
            return code.item()
        return None if code < 0 else self.categories[code : code + 1].tolist()[0]

    def to_objects(self) -> np.ndarray:
        """All labels as Python objects, with None for missing labels."""
        own = self.with_categories()
        assert own.categories is not None
        labels = np.full(own.categories.size + 1, None, dtype=object)
        labels[:-1] = as_objects(own.categories)
        return labels[own.codes]  # The code -1 selects the last entry.

    def take(self, rows: Any) -> Codes:
        """The labels of the given rows."""
        return Codes(self.codes[rows], self.categories)

    def with_categories(self) -> Codes:
        """These labels with `categories`, even if they are integers."""
        if self.categories is not None:
            return self
        codes, first = factorize("labels", self.codes)
        return Codes(codes, self.codes[first])


def from_numpy(argument: str, a: np.ndarray) -> Codes:
    """Encode an array of labels."""
    if a.dtype.kind in "iu" and a.dtype != np.uint64:
        return Codes(a, None)
    codes, first = factorize(argument, a)
    categories = a[first]
    # pandas stores integers as floats if some of them are missing.
    some_missing = a.dtype.kind == "f" and first.size > 0 and (codes < 0).any()
    whole = some_missing and (np.floor(categories) == categories).all()
    if whole and np.abs(categories).max() <= 2**53:
        categories = categories.astype(np.int64)
    return Codes(codes, categories)
