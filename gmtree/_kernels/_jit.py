"""The decorators for compiled functions.

Compiling takes much longer than the work on a small tree: a kernel takes some 0.3 s, and one call
of the package may need ten of them. So a kernel has two tiers. Calls on small arrays run its
*twin*, which is the function as plain Python, until these calls have taken a certain fraction of
the time that compiling takes. After that, and for any call on a large array, numba compiles the
kernel or loads its machine code from disk.

Both tiers give bitwise identical results. The twin gets its numbers as numpy scalars, which
overflow and divide by zero like machine numbers. They also have numba's types: numbers with a
decimal point in the source are ``np.float64``, and `range` over unsigned bounds gives unsigned
numbers. `tests/house/test_tiers.py` compares the tiers of all kernels.

If a dispatcher has no machine code yet for the types of the arguments, numba calls its
``_compile_for_args``, and then the function that this returns. We replace ``_compile_for_args`` by
`_Tiers`, so that calls with existing machine code are as fast as without tiers.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import njit

# The type is Any, since numba has no types for the options below.
_njit: Any = njit


class CacheWarning(RuntimeWarning):
    """Machine code cannot be kept on disk, so every process compiles it again."""


def _stamp_of_shared() -> tuple[int, int]:
    """Modification time and size of the file of shared functions, which identify its version."""
    try:
        stat = Path(__file__).with_name("_shared.py").stat()
    except OSError:  # the package is not in files of its own, but for example in an archive
        return 0, 0
    return stat.st_mtime_ns, stat.st_size


_SHARED = _stamp_of_shared()
_has_warned = False

# Leave out code for counting references, because kernels allocate nothing, and the entry point for
# C, because nobody calls kernels from C. Compiling both would take a third of the time.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Interpret small calls, compile when that pays, and keep the machine code on disk if possible.

    Compiled kernels release the GIL.

    If neither the installation nor a cache directory can be written, the kernels are compiled
    again in each process, after one warning. Setting ``NUMBA_CACHE_DIR`` to a directory that can
    be written avoids that.
    """
    compiled = _compiled(function)
    # With NUMBA_DISABLE_JIT numba compiles nothing and returns the function itself.
    if compiled is not function:
        compiled._compile_for_args = _Tiers(compiled)
    return compiled


def _compiled(function: Callable[..., Any]) -> Any:
    try:
        compiled = _njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba raises this if it finds no writable directory
        _warn_once()
    else:
        if compiled is function or _is_renewed_with_shared(compiled):
            return compiled
    return _njit(**_OPTIONS)(function)


def _is_renewed_with_shared(compiled: Any) -> bool:
    """Make the cache of a kernel depend on the file of shared functions; False if that failed.

    Numba renews machine code if the file of the kernel itself has changed, but ignores changes to
    functions that the kernel calls. So we extend the stamp that numba compares. The attributes are
    private to numba. If a version of numba lacks them, our kernels must not be cached at all, since
    it could run old machine code after an upgrade of gmtree.
    """
    try:
        kept = compiled._cache._cache_file
        kept._source_stamp = (kept._source_stamp, _SHARED)
        _name_machine_code(kept)
    except AttributeError:
        return False
    return True


def _name_machine_code(kept: Any) -> None:
    """Store the types and the stamp with the machine code, and load no other machine code.

    Numba first writes to its index which file has the code for some types, and then that file. If a
    process is killed between the two, or several processes compile a kernel at the same time, the
    file may hold code for other types or of an older gmtree, which would return wrong numbers.
    """
    save, load = kept.save, kept.load

    def save_named(key: Any, code: Any) -> None:
        save(key, (kept._source_stamp, key, code))

    def load_named(key: Any) -> Any:
        found = load(key)
        return found[2] if found and found[:2] == (kept._source_stamp, key) else None

    kept.save, kept.load = save_named, load_named


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
    """A function that only kernels can call, since it has no entry point for Python.

    It has no cache of its own on disk, because the machine code of the kernels contains it.
    """
    return _njit(no_cpython_wrapper=True, **_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A helper that becomes part of the kernels that call it.

    Otherwise the compiler may emit a call for a function of a few operations, and the call takes
    many times as long as the operations.
    """
    return _njit(no_cpython_wrapper=True, forceinline=True, **_OPTIONS)(function)


# --------------------------------------------------------------------------- tiers

# A call is small if none of its arrays has more entries.
_SMALL = 4096
# Seconds that a kernel is interpreted before it is compiled or before its machine code is loaded
# from disk. Compiling takes several times as long, and loading about as long.
_BEFORE_COMPILING, _BEFORE_LOADING = 0.05, 0.01

_always_compile = os.environ.get("GMTREE_ALWAYS_COMPILE", "") not in ("", "0")


class _Running(threading.local):
    """The time at which the twin of this thread must end, and whether its arrays are shared."""

    deadline = 0.0
    is_sharing = False


_running = _Running()


def always_compile() -> None:
    """Interpret no kernel from now on, as with ``GMTREE_ALWAYS_COMPILE=1`` in the environment."""
    global _always_compile
    _always_compile = True


@contextmanager
def sharing_arrays() -> Iterator[None]:
    """Interpret nothing in this thread for now, since other threads write to the same arrays.

    A twin that takes too long restores the arrays, which would undo the work of other threads.
    """
    before, _running.is_sharing = _running.is_sharing, True
    try:
        yield
    finally:
        _running.is_sharing = before


class _TimeoutError(Exception):
    """The time allowed for interpreting a kernel is used up."""


class _Tiers:
    """Decide how a kernel runs a call if it has no machine code for its types yet."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.twin: Any = None
        self.seconds_left = 0.0

    def __call__(self, *args: Any) -> Callable[..., Any]:
        """Return the function that numba should call with these arguments."""
        may_interpret = not (_always_compile or _running.is_sharing)
        if may_interpret and all(a.size <= _SMALL for a in _arrays(args)):
            if self.twin is None:
                self.seconds_left = _BEFORE_LOADING if self._is_on_disk() else _BEFORE_COMPILING
                self.twin = _twin(self.compiled.py_func)
            if self.seconds_left > 0.0:
                return self.interpret
        return type(self.compiled)._compile_for_args(self.compiled, *args)

    def interpret(self, *args: Any) -> Any:
        """Run the twin. If it fails, or takes too long, put all arrays back and run the kernel.

        The twin fails if Python raises an exception where a kernel would not, for example when NaN
        is converted to an integer.
        """
        started = perf_counter()
        arrays = [array for array in _arrays(args) if array.flags.writeable]
        before = [array.copy() for array in arrays]
        _running.deadline = started + self.seconds_left
        try:
            result = call_twin(self.twin, args)
            self.seconds_left -= perf_counter() - started
            return result
        except Exception:
            self.seconds_left = 0.0
            for array, old in zip(arrays, before, strict=True):
                array[...] = old
        return self.compiled(*args)

    def _is_on_disk(self) -> bool:
        """Whether machine code of the kernel is on disk, perhaps for other types."""
        try:
            return os.path.exists(self.compiled._cache._cache_file._index_path)
        except AttributeError:
            return False


def _arrays(args: tuple) -> Iterator[np.ndarray]:
    for value in args:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)


def call_twin(twin: Callable[..., Any], args: tuple) -> Any:
    """Call a twin as numba calls a kernel, with Python's numbers as machine numbers."""
    with np.errstate(all="ignore"):
        result = twin(*(np.float64(a) if isinstance(a, float) else a for a in args))
    if isinstance(result, tuple):
        return tuple(each.item() if isinstance(each, np.generic) else each for each in result)
    return result.item() if isinstance(result, np.generic) else result


# The globals of the twins of a module, by the module's name. No thread may use them before all
# helpers in them are replaced.
_twin_globals: dict[str, dict[str, Any]] = {}
_replacing = threading.RLock()


def _twin(function: Any) -> Callable[..., Any]:
    """A copy of the function that calls twins of helpers and has constants of numba's types."""
    name, known = function.__module__, function.__globals__
    with _replacing:
        if name not in _twin_globals:
            _twin_globals[name] = {**known, "range": _range}
            for key, value in known.items():
                if hasattr(value, "py_func"):
                    _twin_globals[name][key] = _twin(value.py_func)
    code: CodeType = function.__code__
    code = code.replace(co_consts=_with_machine_numbers(code.co_consts))
    return FunctionType(code, _twin_globals[name], function.__name__)


def _with_machine_numbers(constant: Any) -> Any:
    if isinstance(constant, tuple):
        return tuple(_with_machine_numbers(each) for each in constant)
    return np.float64(constant) if isinstance(constant, float) else constant


def _range(*bounds: Any) -> Iterator[Any]:
    """`range` with the types that numba gives it, which also ends a twin that takes too long."""
    numbers: Any = range(*bounds)
    if isinstance(bounds[-1], np.unsignedinteger):
        numbers = np.arange(*map(int, bounds), dtype=np.uint64)
    for number in numbers:
        if perf_counter() > _running.deadline:
            raise _TimeoutError
        yield number
