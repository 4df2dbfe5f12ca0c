"""What the benchmarks share: sizes, and numbers that are ratios.

The environment variable ``GMTREE_BENCH_NODES`` sets the sizes of trees, such as ``10000`` or
``10000000``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import gmtree as gm
from gmtree.bench.trees import LARGE

NODES = tuple(int(x) for x in os.environ.get("GMTREE_BENCH_NODES", "100000,1000000").split(","))
LARGEST = NODES[-1:]
SHAPES = (*LARGE, "chain", "star")

# Each benchmark runs in a fork of the process that imports this: let that one start the compiler.
gm.consistent(gm.shapes.star(3), [1.0, 2.0, 3.0])

Track = TypeVar("Track", bound=Callable)

COPIES = "times np.copyto"


def unit(text: str) -> Callable[[Track], Track]:
    """Say what a tracked number is measured in."""

    def mark(function: Track) -> Track:
        function.unit = text
        return function

    return mark
