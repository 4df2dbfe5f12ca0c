"""Run every call of a kernel in both tiers, and fail if they differ in a single bit.

A plugin of pytest: ``PYTHONPATH=tests pytest -p both_tiers tests/tree/test_tree.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree._kernels import _jit

# For each kernel, a second dispatcher that holds the machine code. The first never has any, so
# that numba asks `_Tiers` for a function at each call.
compiled: dict[Any, Any] = {}


def is_same(a: Any, b: Any) -> bool:
    """Whether two results agree in type and bits; all NaN count as equal."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    a, b = np.array(a), np.array(b)
    if a.dtype.kind == "f" == b.dtype.kind:
        a[np.isnan(a)] = b[np.isnan(b)] = np.nan  # all with one sign
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def run_both(function: Any, *args: Any) -> Any:
    """Run the twin, put the arrays back, run the kernel, and compare results and arrays."""
    if function not in compiled:
        compiled[function] = _jit._compiled(function)
    arrays = list(_jit._arrays(args))
    # Other threads may write to shared arrays, so that they are not compared.
    if _jit._running.is_sharing or any(a.size > _jit._SMALL for a in arrays):
        return compiled[function](*args)
    before = [a.copy() for a in arrays]
    _jit._running.deadline = np.inf
    interpreted = _jit.call_twin(_jit._twin(function), args)
    after = [a.copy() for a in arrays]
    for array, old in zip(arrays, before, strict=True):
        if array.flags.writeable:
            array[...] = old
    result = compiled[function](*args)
    name = f"{function.__module__}.{function.__name__}"
    assert is_same(result, interpreted), f"{name}: {result!r} is not {interpreted!r}"
    for k, (a, b) in enumerate(zip(arrays, after, strict=True)):
        assert is_same(a, b), f"array {k} of {name}: {a} is not {b}"
    return result


def choose(self: _jit._Tiers, *_: Any) -> Any:
    """Have numba call `run_both`."""
    return lambda *args: run_both(self.compiled.py_func, *args)


def pytest_configure() -> None:
    """Take the place of `_Tiers` in all kernels of this process."""
    _jit._Tiers.__call__ = choose  # type: ignore[method-assign]
