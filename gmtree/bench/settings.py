"""What the user of a benchmark asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

# Large enough that sweeps outweigh calls, small enough for the whole run to take seconds.
QUICK_NODES = 100_000


@dataclass(frozen=True)
class Settings:
    """Options of a benchmark; None leaves a number to the benchmark.

    Attributes
    ----------
    datasets : tuple of str
        Names of data sets, as in :mod:`gmtree.datasets`.
    nodes : int or None
        Size of trees, about; None for the sizes of the paper.
    repeat : int or None
        Runs to average over, or to take the best time of.
    quick : bool
        Whether to leave out what takes long.
    files : mapping from str to str
        For data sets to be read from published files: where these are.
    """

    datasets: tuple[str, ...] = ("census2010", "nyctaxi", "syndata")
    nodes: int | None = None
    repeat: int | None = None
    quick: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """Number of nodes asked for, or that of a quick run."""
        return QUICK_NODES if self.nodes is None and self.quick else self.nodes

    @property
    def is_full_size(self) -> bool:
        """Whether trees have the sizes that claims are about."""
        return self.size is None

    def times(self, usual: int, quick: int) -> int:
        """How often to repeat where the benchmark usually does so `usual` times."""
        if self.repeat is not None:
            return self.repeat
        return quick if self.quick else usual

    def as_dict(self) -> dict[str, Any]:
        """For reports."""
        return asdict(self)
