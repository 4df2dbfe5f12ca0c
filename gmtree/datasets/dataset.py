"""The class of all data sets, and a function that divides the total of a look-alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmtree.tree import Tree

RandomSource = np.random.Generator | int | None


class Dataset(NamedTuple):
    """A tree with counts at its leaves.

    Attributes
    ----------
    tree : Tree
    counts : array of int64
        One count per leaf, in the order of ``tree.leaves``.
    name : str
        Name of the data set, such as 'census2010'.
    is_real : bool
        Whether the counts come from published files.
    description : str
        Source of the data: the files, or 'look-alike, not census data'.
    unit : str
        Unit of the counts: 'people', 'rides' or 'records'.
    """

    tree: Tree
    counts: np.ndarray
    name: str
    is_real: bool
    description: str
    unit: str

    def __repr__(self) -> str:
        return (
            f"{self.name} ({self.description}): {self.tree}, {int(self.counts.sum()):,} {self.unit}"
        )


def share_out(total: int, weights: np.ndarray) -> np.ndarray:
    """Whole numbers that add up to `total`, in proportion to `weights`.

    The running sum is rounded, so that each number is off by less than one and the numbers add up.
    """
    upto = np.cumsum(weights, dtype=np.float64)
    upto *= total / upto[-1]
    edges = np.rint(upto, out=upto).astype(np.int64)
    edges[-1] = total
    edges[1:] -= edges[:-1].copy()
    return edges
