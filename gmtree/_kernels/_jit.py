"""The decorators for compiled functions."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit


class CacheWarning(RuntimeWarning):
    """Machine code cannot be kept on disk, so every process compiles it again."""


def _stamp_of_shared() -> tuple[int, int]:
    """Time and size of the file of shared functions: they change when the file does."""
    try:
        stat = Path(__file__).with_name("_shared.py").stat()
    except OSError:  # the package is not in files of its own
        return 0, 0
    return stat.st_mtime_ns, stat.st_size


_SHARED = _stamp_of_shared()
_has_warned = False

# A kernel allocates nothing, so it need not count references to arrays, and nobody calls it from C.
# Both would be compiled along, which takes a third of the time of compiling.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use, release the GIL, and keep the machine code on disk where possible.

    Where neither the installation nor a cache directory can be written, the kernels are compiled
    again in each process, after one warning. Setting ``NUMBA_CACHE_DIR`` to a directory that can
    be written avoids that.
    """
    compiler: Any = njit
    try:
        compiled = compiler(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba's way of saying that it found no directory to write to
        _warn_once()
    else:
        # With NUMBA_DISABLE_JIT nothing is compiled, and nothing is kept on disk.
        if compiled is function or _is_renewed_with_shared(compiled):
            return compiled
    return compiler(**_OPTIONS)(function)


def _is_renewed_with_shared(compiled: Any) -> bool:
    """Make the cache of a kernel depend on the file of shared functions; False if that failed.

    Numba renews machine code when the file in which a kernel stands has changed, and does not
    look at functions that the kernel calls. We extend the stamp by which it tells. The attributes
    are private to numba: a version without them must not keep our kernels at all, since it could
    run old machine code after an upgrade of gmtree.
    """
    try:
        kept = compiled._cache._cache_file
        kept._source_stamp = (kept._source_stamp, _SHARED)
    except AttributeError:
        return False
    return True


def _warn_once() -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            "gmtree cannot keep compiled code on disk, so each process spends seconds compiling "
            "it again. Set the environment variable NUMBA_CACHE_DIR to a directory that can be "
            "written.",
            CacheWarning,
            stacklevel=3,
        )


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that only kernels call, never Python: it has no way in from there.

    It is not kept on disk by itself, since it is part of what is kept of the kernels.
    """
    compiler: Any = njit
    return compiler(no_cpython_wrapper=True, **_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A helper that becomes part of the kernels that call it.

    Left to itself the compiler may call a function of a few operations, which costs many times
    what it does.
    """
    compiler: Any = njit
    return compiler(no_cpython_wrapper=True, forceinline=True, **_OPTIONS)(function)
