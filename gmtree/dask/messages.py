"""The data that the driver and the tasks of a run send each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gmtree.dask.joint_tree import Ends, Where
from gmtree.dask.node_measurements import NodeMeasurements
from gmtree.dask.result import ROOT, folder_of
from gmtree.dask.storage import Location


@dataclass(frozen=True)
class Problem:
    """The arguments of a run, which every task gets.

    Attributes
    ----------
    levels : tuple of str
        Columns of labels, coarse to fine.
    value : str
        Column of values in leaves and measurements, and of results.
    variance : str or tuple of float
        A column, or one number for each level, beginning with the total.
    measured : tuple of NodeMeasurements or None
        For each level above the leaves, its measurements.
    nonnegative, integer, std_error : bool
    out, scratch : Path or UPath
        Folders for results, and for files that tasks leave for later tasks.
    memory : float
        Bytes that one task may use.
    noise : dict, optional
        For a release: files with noisy counts by partition.
    """

    levels: tuple[str, ...]
    value: str
    variance: str | tuple[float, ...]
    measured: tuple[NodeMeasurements | None, ...]
    nonnegative: bool
    integer: bool
    std_error: bool
    out: Location
    scratch: Location
    memory: float
    noise: dict[int, str] | None = None

    @property
    def height(self) -> int:
        """Number of levels below the total."""
        return len(self.levels)

    @property
    def keeps(self) -> bool:
        """Whether later tasks use values that the first task kept, instead of reading the rows."""
        return self.nonnegative or self.integer

    @property
    def has_estimate(self) -> bool:
        """Whether results have a column of estimates without bounds and rounding."""
        return self.noise is not None and self.keeps

    @property
    def columns(self) -> list[str]:
        """Columns of the leaves that are read."""
        if self.noise is not None:
            return list(self.levels)
        more = [self.variance] if isinstance(self.variance, str) else []
        return [*self.levels, self.value, *more]

    def result_columns(self, level: int) -> list[str]:
        """Columns of the results of a level."""
        kinds = {
            "noisy": self.noise is not None,
            "estimate": self.has_estimate,
            "std_error": self.std_error,
        }
        more = [result_column(self.value, kind) for kind, wanted in kinds.items() if wanted]
        return [*self.levels[:level], self.value, *more]

    def result_folder(self, level: int) -> Location:
        """Folder of the results of a level."""
        return self.out / folder_of((ROOT, *self.levels)[level])

    def file(self, name: str, p: int) -> Location:
        """A file of partition `p` for later tasks."""
        return self.scratch / f"{name}-{p}.npz"


def result_column(value: str, kind: str) -> str:
    """Name the column of results beside `value`: 'noisy', 'estimate' or 'std_error'."""
    return f"{value}_{kind}"


class Report(NamedTuple):
    """The result of the first task about its partition.

    Attributes
    ----------
    ends : Ends
    value, variance : arrays
        Measurements of the boundary nodes, by level and side.
    matched : tuple of int
        By level, the number of nodes with a row of measurements, without the boundary nodes.
    matched_boundary : array of bool
        By level and side, whether the boundary node has a row of measurements.
    messages : dict of arrays
        By group: sums of estimates and of variances, and the least sum.
    """

    ends: Ends
    value: np.ndarray
    variance: np.ndarray
    matched: tuple[int, ...]
    matched_boundary: np.ndarray
    messages: dict[Where, np.ndarray]


class Instructions(NamedTuple):
    """The numbers from which a partition computes its final values.

    Attributes
    ----------
    outside : array
        By level and side: estimate and variance of all rows elsewhere, then the measurement of the
        boundary node and its variance.
    plain : array
        Like `outside`, but for the solution without bounds, to which estimates and standard errors
        refer.
    boundary : array
        Values of the boundary nodes.
    plain_boundary : array
        Values of the boundary nodes without bounds.
    boundary_error : array
        Standard errors of the boundary nodes.
    held : Path, UPath or None
        File with the rows that are held at zero.
    skips_first : array of bool
        By level, whether another partition writes the first node.
    levels : tuple of int
        Levels to write.
    """

    outside: np.ndarray
    plain: np.ndarray
    boundary: np.ndarray
    plain_boundary: np.ndarray
    boundary_error: np.ndarray
    held: Location | None
    skips_first: np.ndarray
    levels: tuple[int, ...]
