"""Coercion of input, and the words of every error about it.

Messages name the argument, the rule, and the first node that breaks it. Nothing here changes
what the caller passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

INT64_MAX = int(np.iinfo(np.int64).max)


class IntegerOverflowError(ValueError, OverflowError):
    """A sum of integers does not fit into 64 bits."""


def fail(argument: str, rule: str) -> NoReturn:
    raise ValueError(f"Argument '{argument}' {rule}")


def fail_type(argument: str, rule: str) -> NoReturn:
    raise TypeError(f"Argument '{argument}' {rule}")


def optional(module: str, extra: str, purpose: str) -> Any:
    """Import a package that is not needed otherwise, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {package}: pip install 'gmtree[{extra}]'.") from error


def some(items: Iterable[Any], most: int = 5) -> str:
    """The first few items, for an error message."""
    shown = list(items)
    text = ", ".join(str(x) for x in shown[:most])
    return f"{text}, ..." if len(shown) > most else text


def shown(label: Any) -> str:
    """A label as its owner would write it: 'a' rather than np.str_('a')."""
    return repr(label.item() if isinstance(label, (np.number, np.character)) else label)


def array(argument: str, x: Any) -> np.ndarray:
    """Whatever numpy makes of `x`; its complaint about ragged lists names no argument."""
    try:
        return np.asarray(x)
    except (TypeError, ValueError) as error:
        fail(argument, f"must be an array, or what numpy can turn into one: {error}")


# --------------------------------------------------------------------------- integers


def integer_vector(argument: str, x: Any, *, what: str = "integers") -> np.ndarray:
    """A one-dimensional array of native integers; floats and booleans are refused."""
    a = array(argument, x)
    if a.ndim != 1:
        fail(argument, f"must be one-dimensional, not have shape {a.shape}.")
    if a.size == 0:
        fail(argument, "must not be empty.")
    if a.dtype.kind not in "iu":
        fail_type(argument, f"must hold {what}, not dtype {a.dtype}.")
    return a.astype(a.dtype.newbyteorder("="), copy=False)


def index_dtype(n: int) -> np.dtype[Any]:
    """int32 while node numbers fit, which halves the memory a sweep reads for them."""
    return np.dtype(np.int32 if n <= np.iinfo(np.int32).max else np.int64)


def parent_vector(argument: str, parent: Any) -> np.ndarray:
    """Own copy of a parent array with entries in -1..n-1; roots and cycles are checked later."""
    a = integer_vector(argument, parent, what="integers (node numbers, -1 for the root)")
    n = a.size
    low, high = int(a.min()), int(a.max())
    if low < -1 or high >= n:
        i = int(np.flatnonzero((a < -1) | (a >= n))[0])
        fail(argument, f"must hold -1 or node numbers below {n}; node {i} has parent {a[i]}.")
    return np.array(a, dtype=index_dtype(n), order="C", copy=True)


def node_numbers(argument: str, nodes: Any, n: int) -> np.ndarray:
    """Node numbers, scalar or array of any shape, each in 0..n-1."""
    a = array(argument, nodes)
    if a.dtype.kind not in "iu":
        if a.size == 0:
            return a.astype(np.int64)
        fail_type(argument, f"must hold node numbers (integers), not dtype {a.dtype}.")
    bad = (a < 0) | (a >= n)
    if np.any(bad):
        first = a[bad].flat[0] if a.ndim else a
        fail(argument, f"must hold node numbers from 0 to {n - 1}, not {first}.")
    return a


def node_number(argument: str, node: Any, n: int) -> int:
    """One node number in 0..n-1."""
    a = node_numbers(argument, node, n)
    if a.ndim:
        fail_type(argument, f"must be one node number, not have shape {a.shape}.")
    return int(a)


def count(argument: str, x: Any, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, np.integer)):
        fail_type(argument, f"must be a whole number, not {x!r}.")
    if x < least:
        fail(argument, f"must be at least {least}, not {x}.")
    return int(x)


def real(argument: str, x: Any) -> float:
    """A finite real number."""
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, float, np.number)):
        fail_type(argument, f"must be a number, not {x!r}.")
    if not np.isfinite(x):
        fail(argument, f"must be finite, not {x!r}.")
    return float(x)


def threads(argument: str, x: Any) -> int | None:
    return None if x is None else count(argument, x, least=1)


# --------------------------------------------------------------------------- values


def values(argument: str, v: Any, n: int, *, per: str = "node") -> np.ndarray:
    """Native, C-contiguous float64, float32 or int64 of shape (n,) or (n, k).

    Other real floats become float64; integers and booleans become int64.
    """
    a = array(argument, v)
    if a.ndim not in (1, 2) or a.shape[0] != n:
        fail(argument, f"must have shape ({n},) or ({n}, k), one row per {per}, not {a.shape}.")
    if a.dtype.kind in "iub":
        if a.dtype == np.uint64 and a.size and int(a.max()) > INT64_MAX:
            i = int(np.flatnonzero((a > INT64_MAX).reshape(n, -1).any(axis=1))[0])
            raise IntegerOverflowError(
                f"Argument '{argument}' must fit into 64-bit signed integers; {per} {i} does not."
            )
        dtype: Any = np.int64
    elif a.dtype.kind == "f":
        dtype = np.float32 if a.dtype.itemsize <= 4 else np.float64
    else:
        fail_type(argument, f"must hold real numbers, not dtype {a.dtype}.")
    return np.ascontiguousarray(a, dtype=dtype)


def finite(argument: str, a: np.ndarray, *, per: str = "node") -> None:
    """Refuse NaN and infinity. The sum is finite if all are, and cheaper than a mask."""
    if a.dtype.kind != "f":
        return
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(a)
    if not np.isfinite(total):
        bad = np.flatnonzero(~np.isfinite(a.reshape(a.shape[0], -1)).all(axis=1))
        if bad.size:
            x = a.reshape(a.shape[0], -1)[bad[0]]
            x = x[~np.isfinite(x)][0]
            fail(argument, f"must be finite; {per} {bad[0]} is {x}.")


def weights(argument: str, w: Any, n: int, *, root: int | None = None) -> np.ndarray | None:
    """Own copy of finite non-zero weights, one per node; a scalar stands for all.

    The entry at `root` is ignored (an edge weight there belongs to no edge) and stored as one.
    """
    if w is None:
        return None
    a = array(argument, w)
    if a.dtype.kind not in "iuf":
        fail_type(argument, f"must hold real numbers, not dtype {a.dtype}.")
    if a.shape not in ((), (n,)):
        fail(argument, f"must be one number or have shape ({n},), not {a.shape}.")
    dtype = np.float32 if a.dtype.kind == "f" and a.dtype.itemsize <= 4 else np.float64
    own = np.empty(n, dtype)
    own[:] = a
    if root is not None:
        own[root] = 1
    bad = np.flatnonzero(~np.isfinite(own) | (own == 0))
    if bad.size:
        i = bad[0]
        fail(argument, f"must be finite and not zero; node {i} has weight {own[i]}.")
    return own


def output(argument: str, out: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A writable array of exactly this shape and type."""
    if not isinstance(out, np.ndarray):
        fail_type(argument, f"must be a numpy array, not {type(out).__name__}.")
    if out.shape != shape or out.dtype != dtype:
        fail(
            argument,
            f"must have shape {shape} and dtype {np.dtype(dtype)}, "
            f"not {out.shape} and {out.dtype}.",
        )
    if not out.flags.writeable:
        fail(argument, "must be writable.")
    return out
