"""Options of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# All data sets that benchmarks use.
DATASETS = ("census2010", "nyctaxi", "syndata")
# Number of nodes in quick runs: enough for sweeps to take longer than function calls, and few
# enough for a run to take seconds.
QUICK_NODES = 100_000


@dataclass(frozen=True)
class Settings:
    """Options of a benchmark. Each benchmark has its own default for a number that is None.

    Attributes
    ----------
    datasets : tuple of str
        Names of data sets, as in :mod:`gmtree.datasets`.
    nodes : int or None
        Approximate size of trees; None for the sizes of the paper.
    repeat : int or None
        Number of runs, for an average or for the best time; None for the default of the benchmark.
    quick : bool
        Whether to leave out slow measurements.
    files : mapping from str to str
        Paths of published files, by name of the data set to read from them.
    """

    datasets: tuple[str, ...] = DATASETS
    nodes: int | None = None
    repeat: int | None = None
    quick: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """The requested number of nodes, or that of a quick run; None for full size."""
        return QUICK_NODES if self.nodes is None and self.quick else self.nodes

    @property
    def is_full_size(self) -> bool:
        """Whether trees have their full size, for which claims about speed are made."""
        return self.size is None

    def times(self, usual: int, quick: int) -> int:
        """Number of repetitions: as requested, or else the default of usual or quick runs."""
        if self.repeat is not None:
            return self.repeat
        return quick if self.quick else usual
