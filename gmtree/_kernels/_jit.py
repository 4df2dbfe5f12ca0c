"""The decorators for compiled functions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit


def _stamp_of_shared() -> tuple[int, int]:
    """What changes when the file of shared functions does."""
    try:
        stat = Path(__file__).with_name("_shared.py").stat()
    except OSError:  # not in a file of its own
        return 0, 0
    return stat.st_mtime_ns, stat.st_size


_SHARED = _stamp_of_shared()


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile on first use, release the GIL, keep the machine code on disk where possible.

    Where neither the installation nor a cache directory can be written, numba refuses
    ``cache=True``; the kernels are then compiled anew in each process. Setting
    ``NUMBA_CACHE_DIR`` to a writable directory avoids that.
    """
    compiler: Any = njit
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        compiled = compiler(cache=True, **options)(function)
    except RuntimeError:
        return compiler(**options)(function)
    # By itself numba looks only at the file of a kernel to tell whether its machine code is old.
    kept = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if kept is not None:
        kept._source_stamp = (kept._source_stamp, _SHARED)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that becomes part of those that call it.

    Left to itself the compiler may call a function of a few operations, which costs many times
    what it does: each array handed over is counted as a reference.
    """
    return kernel(function, forceinline=True)
