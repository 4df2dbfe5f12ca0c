"""Measurement of time and memory on a machine that also runs other programs.

A time is the best of several, because other programs can only increase it. To compare two times,
the calls alternate, so that both times suffer from the same disturbances.
"""

from __future__ import annotations

import math
import os
import platform
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from importlib import metadata
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from gmtree import _memory
from gmtree._sweep import usable_threads
from gmtree._version import __version__

Action = Callable[[], object]

# Packages whose versions are stated in reports.
PACKAGES = (
    *("numpy", "numba", "scipy", "higra", "opendp", "hierarchicalforecast"),
    *("clarabel", "scikit-sparse", "matplotlib", "torch"),
)


def time_of(action: Action) -> float:
    """Time of one call in seconds."""
    start = perf_counter()
    action()
    return perf_counter() - start


def best_times(
    actions: Sequence[Action], times: int = 5, patience: float = math.inf
) -> list[float]:
    """Time in seconds of the fastest of several calls of each action.

    The actions are called in turn. The first call of each action does not count, because it may
    compile or touch new memory. An action whose first call takes longer than `patience` seconds is
    not called again, and the time of that call is returned.

    Examples
    --------
    >>> from gmtree.bench.timing import best_times
    >>> ours, theirs = best_times([lambda: sum(range(9)), lambda: sum(range(9999))])
    >>> ours < theirs
    True
    """
    best = [time_of(action) for action in actions]
    quick = [k for k, seconds in enumerate(best) if seconds <= patience]
    rounds = [[time_of(actions[k]) for k in quick] for _ in repeat(None, times)]
    for k, seconds in zip(quick, zip(*rounds, strict=True), strict=True):
        best[k] = min(seconds)
    return best


def best_time(action: Action, times: int = 5, patience: float = math.inf) -> float:
    """Time in seconds of the fastest of several calls, as in `best_times`."""
    return best_times((action,), times, patience)[0]


def copying(n: int) -> Action:
    """An action that copies a vector of n floats, the least work that produces such a result."""
    source, target = np.ones(n), np.zeros(n)
    return lambda: np.copyto(target, source)


def peak_bytes(action: Action) -> int:
    """Peak number of bytes that Python and numpy allocate during a call."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def peak_memory() -> int | None:
    """Peak memory of this process, in bytes; None if the platform does not report it."""
    try:
        # We do not use `ru_maxrss`, because it may include the peak of the parent process.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:  # This is not Linux.
        pass
    try:
        import resource
    except ImportError:  # not on this operating system
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def machine() -> dict[str, Any]:
    """Description of the machine and of the Python version."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": usable_threads(None),
        "memory": _memory.of_machine(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str | None]:
    """Versions of the packages that are measured; None for those that are not installed."""
    found: dict[str, str | None] = {"gmtree": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not on this operating system
        pass
    return platform.processor() or platform.machine()
