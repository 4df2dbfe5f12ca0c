"""The data sets of the benchmarks, at full size or smaller."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree import datasets, shapes
from gmtree.bench import trees
from gmtree.bench.settings import Settings
from gmtree.datasets import Dataset
from gmtree.datasets.taxi import DAYS, FANOUTS, SECONDS_PER_DAY, SHARES
from gmtree.tree import Tree

TITLES = {"census2010": "Census2010", "nyctaxi": "NYCTaxi", "syndata": "SynData"}

# The paper's text states 24 levels, but the numbers in its table are those of 25 levels.
LEVELS, LEVELS_OF_TABLE = 24, 25

HEIGHTS = (8, 12, 16, 20, 24)
# Seconds from the beginning of the year to the end of each month.
MONTH_ENDS = np.cumsum(DAYS) * SECONDS_PER_DAY


def load(name: str, settings: Settings, *, levels: int = LEVELS) -> Dataset:
    """A data set at full size, or with about ``settings.size`` nodes.

    Parameters
    ----------
    name : {'census2010', 'nyctaxi', 'syndata'}
    settings : Settings
    levels : int
        Height of the complete binary tree of 'syndata'.

    Examples
    --------
    >>> from gmtree.bench import data
    >>> from gmtree.bench.settings import Settings
    >>> data.load("syndata", Settings(nodes=1000)).tree.height
    10
    """
    path, nodes = settings.files.get(name), settings.size
    if name == "census2010":
        return datasets.census2010(path, nodes=nodes)
    if name == "nyctaxi":
        return _taxi(path, nodes)
    return datasets.syndata(levels if nodes is None else trees.binary_height(nodes))


def _taxi(path: str | None, nodes: int | None) -> Dataset:
    if nodes is None:
        return datasets.nyctaxi(path)
    seconds = round(nodes / trees.GROUPED_NODES_PER_LEAF)
    if seconds > MONTH_ENDS[-1]:
        most = round(MONTH_ENDS[-1] * trees.GROUPED_NODES_PER_LEAF)
        check.fail("nodes", f"must be at most {most} for nyctaxi, not {nodes}.")
    months = int(np.searchsorted(MONTH_ENDS, seconds)) + 1
    data = datasets.nyctaxi(path, months=months)
    return data._replace(
        tree=_grouped(seconds),
        counts=data.counts[:seconds],
        description=f"{data.description}, first {seconds:,} seconds",
    )


def _grouped(seconds: int) -> Tree:
    return shapes.grouped(seconds, FANOUTS, SHARES, rng=2013)


class Part(NamedTuple):
    """A part of a data set, and a function that makes its tree."""

    label: str
    make: Callable[[], Tree]


def parts(name: str, settings: Settings) -> list[Part]:
    """Trees of growing size, as in the paper.

    These are trees of the census without its lowest levels, trees of the first months of the taxi
    data, or complete binary trees of several heights.
    """
    if name == "census2010":
        whole = cache(lambda: load(name, settings).tree)

        def without_lowest(k: int) -> Tree:
            return whole().k_order_subtree(k)

        orders = reversed(range(len(datasets.CENSUS_LEVELS) - 1))
        return [Part(f"{k}-order subtree", partial(without_lowest, k)) for k in orders]
    if name == "nyctaxi":
        months = enumerate(_first_seconds(settings), start=1)
        return [Part(f"{k} of 12 months", partial(_grouped, seconds)) for k, seconds in months]
    return [Part(f"height {h}", partial(shapes.complete, 2, h)) for h in _heights(settings)]


def _first_seconds(settings: Settings) -> list[int]:
    """Numbers of leaves in the first 1 to 12 months, scaled to a smaller size if requested."""
    ends = MONTH_ENDS
    if settings.size is not None:
        ends = np.rint(ends / ends[-1] * settings.size / trees.GROUPED_NODES_PER_LEAF)
    return [max(2, int(end)) for end in ends]


def _heights(settings: Settings) -> tuple[int, ...]:
    if settings.size is None:
        return HEIGHTS
    highest = trees.binary_height(settings.size)
    return (*(height for height in HEIGHTS if height < highest), highest)
