"""Long frames, one row for each series and step, as arrays; and results back into such frames."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.structure import Structure
from gmtree.frames.reconcile import as_in, series_of
from gmtree.labels.columns import (
    Codes,
    column_names,
    encode,
    library,
    refuse_no_names,
    take_column,
)
from gmtree.labels.measurements import numbers
from gmtree.labels.table import assemble, kind_of, label_column, narwhals

# Frames with fewer rows are read row by row.
SMALLEST_IN_ORDER = 1000


def require_columns(argument: str, frame: Any, **names: Any) -> None:
    """Refuse a frame without the columns that options name; each is given by its own name.

    For pandas, a level of the index may stand for a column.
    """
    refuse_no_names(**names)
    there = column_names(frame)
    in_index = list(frame.index.names) if library(frame) == "pandas" else []
    for option, name in names.items():
        if name not in there and name not in in_index:
            check.fail(argument, f"must have a column {name!r} (pass {option} if it has another "
                       f"name); it has {check.some(there)}.")  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """The steps of a frame: what stands in a column, sorted, and the first row of each."""

    argument: str
    labels: np.ndarray
    first: np.ndarray

    @property
    def size(self) -> int:
        """Number of steps."""
        return self.labels.size

    def name(self, k: int) -> str:
        """A step for an error message."""
        return f"{self.argument} {check.shown(self.labels[k])}"


def read_axis(argument: str, codes: Codes) -> tuple[np.ndarray, Axis]:
    """The number of the step of each row, in the order of the labels; and the steps."""
    if (missing := codes.missing) is not None:
        row = int(np.argmax(missing))
        check.fail(argument, f"must have no missing entries; row {row} has none.")
    if codes.categories is None:
        labels, of_row = np.unique(codes.codes, return_inverse=True)
    else:
        used = np.zeros(codes.categories.size, bool)
        used[codes.codes] = True
        labels = codes.categories[used]
        try:
            order = np.argsort(labels, kind="stable")
        except TypeError:  # labels of several types keep the order in which they come
            order = np.arange(labels.size)
        rank = np.full(used.size, -1, np.int64)
        rank[np.flatnonzero(used)[order]] = np.arange(labels.size)
        labels, of_row = labels[order], rank[codes.codes]
    first = np.empty(labels.size, np.int64)
    first[of_row[::-1]] = np.arange(of_row.size - 1, -1, -1)
    return of_row, Axis(argument, labels, first)


@dataclass(frozen=True)
class Panel:
    """A frame whose rows are pairs of a series and a step.

    Attributes
    ----------
    place : array of int or None
        For each row, the number of its pair: series times number of steps, plus step. None where
        each pair has a row, and these come in order.
    """

    frame: Any
    argument: str
    kind: str
    structure: Structure
    place: np.ndarray | None
    steps: Axis
    columns: tuple[str, str]

    @classmethod
    def read(
        cls,
        argument: str,
        frame: Any,
        structure: Structure,
        id_col: str,
        step_col: str,
        *,
        node: np.ndarray | None = None,
        step: Codes | None = None,
    ) -> Panel:
        """Find the pair of each row; a pair that comes twice is refused.

        `node` and `step` tell series and steps where the frame has them in its index.
        """
        kind = kind_of(argument, frame)
        if node is None and step is None:
            times = _in_order(argument, frame, kind, structure, id_col, step_col)
            if times is not None:
                _, steps = read_axis(step_col, times)
                return cls(frame, argument, kind, structure, None, steps, (id_col, step_col))
        if node is None:
            ids = encode(id_col, take_column(argument, frame, id_col))
            node = structure._locate(argument, ids, id_col)
        if step is None:
            step = encode(step_col, take_column(argument, frame, step_col))
        of_row, steps = read_axis(step_col, step)
        return cls.of(argument, frame, kind, structure, (node, of_row), steps, (id_col, step_col))

    @classmethod
    def of(
        cls,
        argument: str,
        frame: Any,
        kind: str,
        structure: Structure,
        rows: tuple[np.ndarray, np.ndarray],
        steps: Axis,
        columns: tuple[str, str],
    ) -> Panel:
        """From the series and the step of each row."""
        (node, of_row), step_col = rows, columns[1]
        if not of_row.size:
            check.fail(argument, "must have rows.")
        place = node * steps.size
        place += of_row
        count = np.zeros(structure.n * steps.size, bool)
        count[place] = True
        if np.count_nonzero(count) < place.size:
            order = np.argsort(place, kind="stable")
            again = int(order[1:][np.diff(place[order]) == 0].min())
            before = int(np.flatnonzero(place == place[again])[0])
            check.fail(
                argument,
                f"must have each series once at each {step_col}; rows {before} and {again} are "
                f"both {structure.name(int(node[again]))} at {steps.name(int(of_row[again]))}.",
            )
        return cls(frame, argument, kind, structure, place, steps, columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of series and of steps."""
        return self.structure.n, self.steps.size

    @property
    def is_complete(self) -> bool:
        """Whether each pair has a row."""
        return self.place is None or self.place.size == self.structure.n * self.steps.size

    def values(self, name: str) -> np.ndarray:
        """A column as an array by series and step, NaN where there is none."""
        x = numbers(name, take_column(self.argument, self.frame, name))
        if self.place is None:
            out = x.reshape(self.shape)
        else:
            out = np.empty(self.shape) if self.is_complete else np.full(self.shape, np.nan)
            out.reshape(-1)[self.place] = x
        if np.isinf(out).any():
            k, step = (int(i) for i in np.argwhere(np.isinf(out))[0])
            check.fail(name, f"must be finite; {self.structure.name(k)} at {self.steps.name(step)} "
                       f"is {out[k, step]}.")  # fmt: skip
        return out

    def first_row(self, mask: np.ndarray) -> str:
        """The first row of the frame whose pair is in a mask, for an error message."""
        of_row = mask.reshape(-1) if self.place is None else mask.reshape(-1)[self.place]
        row = int(np.argmax(of_row))
        k, step = divmod(row if self.place is None else int(self.place[row]), self.steps.size)
        return f"row {row} ({self.structure.name(k)} at {self.steps.name(step)})"

    # ------------------------------------------------------------------ writing

    def written(self, results: dict[str, np.ndarray]) -> Any:
        """The frame with more columns, and rows for pairs that had none; uses `results` up."""
        nw = narwhals()
        frame = self.frame
        index = frame.index if self.kind == "pandas" else None
        columns = {}
        for name in list(results):
            # Each is let go as it is rewritten: together they may be most of the memory.
            x = (results.pop(name) if self.is_complete else results[name]).reshape(-1)
            columns[name] = x if self.place is None else x[self.place]
        if self.kind == "pandas":
            pandas = sys.modules["pandas"]
            kept = frame.drop(columns=[name for name in columns if name in frame.columns])
            added = pandas.DataFrame(columns, index=index, copy=False)
            made = pandas.concat([kept, added], axis=1)
        else:
            wrapped = nw.from_native(frame, eager_only=True)
            made = wrapped.with_columns(
                *(series_of(nw, name, x, self.kind, None) for name, x in columns.items())
            ).to_native()
        if self.is_complete:
            return made
        return self._with_rows(nw, made, results)

    def _with_rows(self, nw: Any, made: Any, results: dict[str, np.ndarray]) -> Any:
        """Rows for pairs that had none, at the end; other columns are missing there."""
        if any(name not in column_names(made) for name in self.columns):
            check.fail(
                self.argument,
                "must have a row for each series and step if these are in its index; "
                "write missing values as NaN.",
            )
        there = np.zeros(self.structure.n * self.steps.size, bool)
        there[self.place] = True
        lost = np.flatnonzero(~there)
        wrapped = nw.from_native(made, eager_only=True)
        native: dict[str, Any] = dict(self._named_pairs(wrapped, lost))
        native.update({name: x.reshape(-1)[lost] for name, x in results.items()})
        if self.kind == "pandas":
            native = {
                name: c.reset_index(drop=True) if hasattr(c, "reset_index") else c
                for name, c in native.items()
            }
            wrapped = nw.from_native(made.reset_index(drop=True), eager_only=True)
        added = nw.from_native(assemble(native, self.kind), eager_only=True)
        joined = nw.concat([wrapped, added], how="diagonal").to_native()
        return joined.reset_index(drop=True) if self.kind == "pandas" else joined

    def _named_pairs(self, wrapped: Any, lost: np.ndarray) -> Iterator[tuple[str, Any]]:
        """The columns of names and steps for some pairs, as in the frame."""
        node, step = np.divmod(lost, self.steps.size)
        id_col, step_col = self.columns
        yield id_col, labels_as_in(wrapped, id_col, self.structure.labels, node, self.kind)
        yield step_col, wrapped[step_col][self.steps.first[step].tolist()].to_native()


def _in_order(
    argument: str, frame: Any, kind: str, structure: Structure, id_col: str, step_col: str
) -> Codes | None:
    """The steps of a frame that has all series of a structure in order, each with all steps.

    Most frames of forecasts are like that, and hashing each row would take most of the time.
    """
    if kind != "pandas" or len(frame) < SMALLEST_IN_ORDER or len(frame) % structure.n:
        return None
    ids, times = (take_column(argument, frame, name) for name in (id_col, step_col))
    if isinstance(ids, Codes) or isinstance(times, Codes) or times.dtype.kind not in "iuM":
        return None
    length = len(frame) // structure.n
    wide = times.to_numpy().reshape(-1, length)
    ascending = bool((np.diff(wide[0].view(np.int64) if length else wide[0]) > 0).all())
    if wide.dtype.itemsize != 8 or not ascending or not (wide == wide[0]).all():
        return None
    if ids.iloc[::length].tolist() != structure._listed:
        return None
    try:
        again = np.asarray(ids.array[1:] == ids.array[:-1], dtype=bool)
    except (TypeError, ValueError):  # missing names cannot be compared
        return None
    if np.count_nonzero(again) != len(frame) - structure.n or again[length - 1 :: length].any():
        return None
    return encode(step_col, times.iloc[:length])


def labels_as_in(wrapped: Any, name: str, labels: Any, rows: np.ndarray, kind: str) -> Any:
    """Some labels as a column of the type that the frame's own has."""
    made = label_column(Codes(rows, np.asarray(labels)), kind)
    return as_in(narwhals(), name, made, wrapped[name].to_native(), kind).to_native()


def holds_numbers(column: Any, kind: str) -> bool:
    """Whether a column is of real numbers; dates, truth values, text and categories are not.

    One of Python objects is, if it has numbers among others, so that these are refused by name.
    """
    if isinstance(column, Codes):
        return False
    if kind != "pandas":
        empty = str(getattr(column, "dtype", getattr(column, "type", ""))).lower() == "null"
        return empty or narwhals().from_native(column, series_only=True).dtype.is_numeric()
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    found = sys.modules["pandas"].api.types.infer_dtype(column, skipna=True)
    if found.startswith("mixed"):
        return any(isinstance(x, Real) and not isinstance(x, (bool, np.bool_)) for x in column)
    is_empty = found == "empty" and column.dtype == object
    return is_empty or found in ("integer", "floating", "decimal")


def model_names(frame: Any, kind: str, others: Sequence[str]) -> list[str]:
    """Columns of numbers that are neither names, times, bounds nor sample paths."""
    found = []
    names = column_names(frame)
    for name in names:
        if name in others or not isinstance(name, str):
            continue
        other = any(part in name for part in ("-lo-", "-hi-", "-median", "-sample-"))
        if not other and (names.count(name) > 1 or holds_numbers(frame[name], kind)):
            found.append(name)
    return found


def sample_names(frame: Any, model: str) -> list[str]:
    """Columns ``<model>-sample-<number>`` by number."""
    start = f"{model}-sample-"
    found = [n for n in column_names(frame) if isinstance(n, str) and n.startswith(start)]
    numbered = [(int(n[len(start) :]), n) for n in found if n[len(start) :].isdigit()]
    return [name for _, name in sorted(numbered)]
