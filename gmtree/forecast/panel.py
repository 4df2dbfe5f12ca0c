"""Conversion between arrays and long frames, which have a row for each series and step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.columns import CUTOFF
from gmtree.forecast.structure import Structure
from gmtree.labels.codes import Codes
from gmtree.labels.columns import column_names, encode, numbers, take_column
from gmtree.labels.libraries import adapter, kind_of


@dataclass(frozen=True)
class Axis:
    """The steps of a frame: the labels in a column, sorted, and the first row of each.

    The steps of several windows of a cross-validation are pairs of a cutoff and a time.
    """

    argument: str
    labels: np.ndarray
    first: np.ndarray
    cutoffs: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Number of steps."""
        return self.labels.size

    @property
    def ahead(self) -> np.ndarray:
        """For each step, the number of earlier steps of its window."""
        if self.cutoffs is None:
            return np.arange(self.size)
        begins = np.append(True, self.cutoffs[1:] != self.cutoffs[:-1])
        return np.arange(self.size) - np.flatnonzero(begins)[np.cumsum(begins) - 1]

    def name(self, k: int) -> str:
        """Name a step in an error message."""
        window = "" if self.cutoffs is None else f" of {CUTOFF} {check.shown(self.cutoffs[k])}"
        return f"{self.argument} {check.shown(self.labels[k])}{window}"


def read_axis(argument: str, codes: Codes) -> tuple[np.ndarray, Axis]:
    """Return the number of the step of each row, in the order of the labels, and the steps."""
    if (missing := codes.missing) is not None:
        row = int(np.argmax(missing))
        check.fail(argument, f"must have no missing entries; row {row} has one.")
    if codes.categories is None:
        labels, of_row = np.unique(codes.codes, return_inverse=True)
    else:
        used = np.zeros(codes.categories.size, bool)
        used[codes.codes] = True
        labels = codes.categories[used]
        try:
            order = np.argsort(labels, kind="stable")
        except TypeError:  # labels of several types keep the order in which they occur
            order = np.arange(labels.size)
        rank = np.full(used.size, -1, np.int64)
        rank[np.flatnonzero(used)[order]] = np.arange(labels.size)
        labels, of_row = labels[order], rank[codes.codes]
    return of_row, Axis(argument, labels, _first_rows(of_row, labels.size))


def _first_rows(of_row: np.ndarray, size: int) -> np.ndarray:
    """Return the first row of each number, or -1 if no row has it."""
    first = np.full(size, -1, np.int64)
    first[of_row[::-1]] = np.arange(of_row.size - 1, -1, -1)
    return first


@dataclass(frozen=True)
class Panel:
    """A frame whose rows are pairs of a series and a step.

    Attributes
    ----------
    place : array of int
        For each row, the number of its pair: series times number of steps, plus step.
    """

    frame: Any
    argument: str
    kind: str
    structure: Structure
    place: np.ndarray
    steps: Axis
    columns: tuple[str, str]

    @classmethod
    def read(
        cls,
        argument: str,
        frame: Any,
        structure: Structure,
        columns: tuple[str, str],
        *,
        node: np.ndarray | None = None,
        step: Codes | None = None,
        periods: Structure | None = None,
        windows: bool = False,
    ) -> Panel:
        """Find the pair of each row, and refuse a pair that has two rows.

        Parameters
        ----------
        argument : str
        frame : DataFrame or Table
        structure : Structure
        columns : tuple of str
            Columns of the series and of the steps.
        node, step : optional
            Series and steps of the rows, if the frame has them in its index.
        periods : Structure, optional
            The steps are the periods of this structure.
        windows : bool
            Whether a column ``cutoff`` numbers the windows of a cross-validation.
        """
        kind, (id_col, step_col) = kind_of(argument, frame), columns
        windows = windows and CUTOFF in column_names(frame)
        if node is None:
            ids = encode(id_col, take_column(argument, frame, id_col))
            node = structure._locate(argument, ids, id_col)
        if step is None:
            step = encode(step_col, take_column(argument, frame, step_col))
        if periods is not None:
            of_row = periods._locate(argument, step, step_col, "periods")
            steps = Axis(step_col, periods.labels, _first_rows(of_row, periods.n))
        else:
            of_row, steps = read_axis(step_col, step)
        if not of_row.size:
            check.fail(argument, "must have rows.")
        if windows:
            of_row, steps = _by_window(frame, node, of_row, steps)
        place = node * steps.size
        place += of_row
        again = _again(place, structure.n * steps.size)
        if again >= 0:
            before = int(np.flatnonzero(place == place[again])[0])
            hint = (
                f"Windows of a cross-validation need a column {CUTOFF!r}."
                if argument == "Y_hat_df"
                else "All windows of a cross-validation share one past; reconcile them one by one "
                "if each has its own."
            )
            check.fail(
                argument,
                f"must have each series once at each {step_col}; rows {before} and {again} are "
                f"both {structure.name(int(node[again]))} at {steps.name(int(of_row[again]))}. "
                + hint,
            )
        return cls(frame, argument, kind, structure, place, steps, columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of series and of steps."""
        return self.structure.n, self.steps.size

    @property
    def is_complete(self) -> bool:
        """Whether each pair has a row."""
        return self.place.size == self.structure.n * self.steps.size

    def values(self, name: str, infinite: bool = False) -> np.ndarray:
        """Return a column as an array by series and step, NaN for missing values and rows.

        Infinite values are refused unless `infinite` is True.
        """
        x = numbers(name, take_column(self.argument, self.frame, name))
        out = np.full(self.shape, np.nan)
        out.reshape(-1)[self.place] = x
        if not infinite and np.isinf(out).any():
            k, step = (int(i) for i in np.argwhere(np.isinf(out))[0])
            check.fail(name, f"must be finite; {self.structure.name(k)} at {self.steps.name(step)} "
                       f"is {out[k, step]}.")  # fmt: skip
        return out

    def first_row(self, mask: np.ndarray) -> str:
        """Describe the first row of the frame whose pair is in a mask, for an error message."""
        row = int(np.argmax(mask.reshape(-1)[self.place]))
        k, step = divmod(int(self.place[row]), self.steps.size)
        return f"row {row} ({self.structure.name(k)} at {self.steps.name(step)})"

    # ------------------------------------------------------------------ writing

    def written(self, results: dict[str, np.ndarray]) -> Any:
        """Return the frame with the columns `results`, and with rows for all pairs.

        To save memory, `results` is emptied if each pair already has a row.
        """
        columns = {}
        for name in list(results):
            x = results.pop(name) if self.is_complete else results[name]
            columns[name] = x.reshape(-1)[self.place]
        made = adapter(self.kind).with_columns(self.frame, columns)
        return made if self.is_complete else self._with_rows(made, results)

    def _with_rows(self, made: Any, results: dict[str, np.ndarray]) -> Any:
        """Append rows for pairs that had no row; other columns are missing there."""
        if any(name not in column_names(made) for name in self.columns):
            check.fail(
                self.argument,
                "must have a row for each series and step if these are in its index; "
                "write missing values as NaN.",
            )
        frames = adapter(self.kind)
        there = np.zeros(self.structure.n * self.steps.size, bool)
        there[self.place] = True
        lost = np.flatnonzero(~there)
        node, step = np.divmod(lost, self.steps.size)
        series = Codes(node, self.structure.labels)
        added: dict[str, Any] = {self.columns[0]: frames.label_column(series)}
        like = self.steps.first[step]
        if (like < 0).any():  # a period that the frame never names
            added[self.columns[1]] = frames.label_column(Codes(step, self.steps.labels))
        else:
            names = [self.columns[1], *([] if self.steps.cutoffs is None else [CUTOFF])]
            added.update({name: frames.take(made[name], like) for name in names})
        added.update({name: x.reshape(-1)[lost] for name, x in results.items()})
        return frames.append(made, added)


def _again(place: np.ndarray, size: int) -> int:
    """Return the first row that has the same place as an earlier row, or -1."""
    there = np.zeros(size, bool)
    there[place] = True
    if np.count_nonzero(there) == place.size:
        return -1
    order = np.argsort(place, kind="stable")
    return int(order[1:][np.diff(place[order]) == 0].min())


def _by_window(
    frame: Any, node: np.ndarray, of_row: np.ndarray, steps: Axis
) -> tuple[np.ndarray, Axis]:
    """Return the steps of rows as pairs of a cutoff and a time.

    If each series has each time only once, although series have different cutoffs, a cutoff is the
    end of a series and not the name of a window. The steps are then returned unchanged.
    """
    codes = encode(CUTOFF, take_column("Y_hat_df", frame, CUTOFF))
    repeated = _again(node * steps.size + of_row, int(node.max() + 1) * steps.size) >= 0
    if codes.missing is not None and not repeated:
        return of_row, steps
    window, cuts = read_axis(CUTOFF, codes)
    pairs, of_pair = np.unique(window * steps.size + of_row, return_inverse=True)
    if pairs.size > steps.size and not repeated:
        return of_row, steps
    window, step = np.divmod(pairs, steps.size)
    first = _first_rows(of_pair, pairs.size)
    return of_pair, Axis(steps.argument, steps.labels[step], first, cuts.labels[window])
