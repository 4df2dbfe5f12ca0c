"""Measuring time and memory on a machine that does other things as well.

A time is the best of several, because other programs can only add to it. Two times that are to be
compared are measured in turns, so that both suffer from the same disturbances.
"""

from __future__ import annotations

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

from gmtree._sweep import usable_threads

Action = Callable[[], object]

# Packages whose version may explain a number in a report.
PACKAGES = (
    "gmtree",
    "numpy",
    "numba",
    "scipy",
    "higra",
    "opendp",
    "hierarchicalforecast",
    "clarabel",
    "scikit-sparse",
    "matplotlib",
)


def time_of(action: Action) -> float:
    """Seconds that one call takes."""
    start = perf_counter()
    action()
    return perf_counter() - start


def best_time(action: Action, times: int = 5) -> float:
    """Seconds that the fastest of several calls takes.

    One more call comes first and is not timed: it may compile, or touch memory for the first time.

    Examples
    --------
    >>> from gmtree.bench.timing import best_time
    >>> best_time(lambda: sum(range(100))) < 1
    True
    """
    return best_times((action,), times)[0]


def best_times(actions: Sequence[Action], times: int = 5) -> list[float]:
    """Best time of each action, called in turns, after one call of each that is not timed."""
    for action in actions:
        action()
    rounds = [[time_of(action) for action in actions] for _ in repeat(None, times)]
    return [min(column) for column in zip(*rounds, strict=True)]


def copying(n: int) -> Action:
    """Copy a vector of n floats into memory in use: the least that any result costs."""
    source, target = np.ones(n), np.zeros(n)
    return lambda: np.copyto(target, source)


def copy_ratio(action: Action, n: int, times: int = 5) -> float:
    """Time of an action in units of copying a vector of n floats.

    Examples
    --------
    >>> import numpy as np
    >>> from gmtree.bench.timing import copy_ratio
    >>> copy_ratio(lambda: np.sort(np.arange(10_000)[::-1]), 10_000) > 0
    True
    """
    return ratio(action, copying(n), times)


def ratio(action: Action, other: Action, times: int = 5) -> float:
    """Time of an action in units of another one."""
    ours, theirs = best_times((action, other), times)
    return ours / theirs


def peak_bytes(action: Action) -> int:
    """Largest number of bytes that Python and numpy hold during a call, beyond those before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def peak_memory() -> int | None:
    """Most memory this process has had, in bytes; None if the platform does not report it."""
    try:
        # Unlike the other figure, this one does not begin with that of the parent process.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:  # not Linux
        pass
    try:
        import resource
    except ImportError:  # not on this operating system
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def machine() -> dict[str, Any]:
    """The machine and the Python that times were measured on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": usable_threads(None),
        "memory": _memory(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str | None]:
    """Versions of what is measured; None for packages that are not installed."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        if name != "gmtree":
            return None
        from gmtree._version import __version__

        return __version__


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not on this operating system
        pass
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on this operating system
        return None
