"""The decorators for compiled functions."""

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile on first use, release the GIL, keep the machine code on disk where possible.

    Where neither the installation nor a cache directory can be written, numba refuses
    ``cache=True``; the kernels are then compiled anew in each process. Setting
    ``NUMBA_CACHE_DIR`` to a writable directory avoids that.
    """
    compiler: Any = njit
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return compiler(cache=True, **options)(function)
    except RuntimeError:
        return compiler(**options)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that becomes part of those that call it.

    Left to itself the compiler may call a function of a few operations, which costs many times
    what it does: each array handed over is counted as a reference.
    """
    return kernel(function, forceinline=True)
