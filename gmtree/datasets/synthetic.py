"""The data set SynData: a complete binary tree with Poisson counts."""

from __future__ import annotations

import numpy as np

from gmtree import _validate as check
from gmtree import shapes
from gmtree.datasets.dataset import Dataset, RandomSource

MEAN = 100


def syndata(height: int = 24, *, rng: RandomSource = 2022) -> Dataset:
    """The synthetic data set of the paper: a complete binary tree with Poisson(100) counts.

    Parameters
    ----------
    height : int
        Number of levels. The text of the paper states 24 levels, but its table has results for 25.
    rng : numpy Generator or seed, optional
        Source of randomness for the counts, which by default are the same in every call.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.datasets.syndata(height=10).tree
    Tree(n=1023, internal=511, leaves=512, height=10)
    """
    tree = shapes.complete(2, height)
    counts = check.generator("rng", rng).poisson(MEAN, tree.n_leaves)
    counts = counts.astype(np.int64, copy=False)
    return Dataset(
        tree, counts, "syndata", False, f"synthetic, Poisson({MEAN}) at each leaf", "records"
    )
