"""Coercion of input, and the words of every error about it.

Messages name the argument, the rule, and the first node that breaks it. Nothing here changes
what the caller passed in.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

# One node or one count, for overloads: with it the answer is a single number, too.
Integer: TypeAlias = "int | np.integer[Any]"
INT64_MAX = int(np.iinfo(np.int64).max)


class IntegerOverflowError(ValueError, OverflowError):
    """A sum of integers does not fit into 64 bits."""


def fail(argument: str, rule: str) -> NoReturn:
    raise ValueError(f"Argument '{argument}' {rule}")


def fail_type(argument: str, rule: str) -> NoReturn:
    raise TypeError(f"Argument '{argument}' {rule}")


def instance(argument: str, x: Any, kind: type) -> None:
    """Refuse what is not of one of our own classes."""
    if not isinstance(x, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        fail_type(argument, f"must be {article} {kind.__name__}, not {type(x).__name__}.")


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
    """A label as its owner would write it: 'a' rather than np.str_('a'), and dates as text."""
    if isinstance(label, (np.datetime64, np.timedelta64)):
        return str(label)
    return repr(label.item() if isinstance(label, (np.number, np.character)) else label)


def array(argument: str, x: Any) -> np.ndarray:
    """`x` as an array; what numpy refuses (such as ragged lists) is refused by argument name."""
    for part in x if isinstance(x, (list, tuple)) else (x,):
        if isinstance(part, np.ma.MaskedArray):
            _refuse_mask(argument, part)
    try:
        return np.asarray(x)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        fail(argument, f"must be an array, or what numpy can turn into one: {error}")


_UNMEASURED = {"noisy": "; a node that was not measured has variance inf"}


def _refuse_mask(argument: str, x: np.ma.MaskedArray) -> None:
    """Refuse masked entries: numpy would drop the mask and hand over what it hides."""
    masked = np.argwhere(np.ma.getmaskarray(x))
    if len(masked):
        where = ", ".join(map(str, masked[0]))
        fail(
            argument,
            f"must have no masked entries{f'; entry {where} is masked' if where else ''}. "
            f"Fill them first{_UNMEASURED.get(argument, '')}.",
        )


def reals(argument: str, x: Any, *, booleans: bool = False) -> np.ndarray:
    """An array of real numbers of any shape."""
    return of_kind(argument, array(argument, x), "iufb" if booleans else "iuf", "real numbers")


def of_kind(argument: str, a: np.ndarray, kinds: str, what: str) -> np.ndarray:
    """Refuse an array of another kind of entries, naming the first that is to blame."""
    if a.dtype.kind in kinds:
        return a
    if a.dtype == object and a.size:
        for where, x in np.ndenumerate(a):
            if not _is_number(x, int, float, np.integer, np.floating):
                fail_type(argument, f"must hold {what}{_entry(where)} is {x!r}.")
            if isinstance(x, int) and not -INT64_MAX - 1 <= x <= INT64_MAX:
                fail_type(argument, f"must hold {what} of at most 64 bits{_entry(where)} is {x}.")
    fail_type(argument, f"must hold {what}, not dtype {a.dtype}.")


def _is_number(x: Any, *kinds: type) -> bool:
    """Whether `x` is of one of these kinds; to numpy a duration is an integer, to Python a bool."""
    return isinstance(x, kinds) and not isinstance(x, (bool, np.bool_, np.timedelta64))


def _entry(where: tuple[int, ...]) -> str:
    return f"; entry {', '.join(map(str, where))}" if where else "; it"


def counts_rows(index: Any) -> bool:
    """Whether an index of pandas only counts rows from 0 on, so that it labels nothing."""
    named = any(name is not None for name in index.names)
    if named or index.dtype.kind not in "iu":
        return False
    return np.array_equal(index.to_numpy(), np.arange(len(index)))


def refuse_labels(argument: str, x: Any) -> None:
    """Refuse a Series or frame of pandas with labels, which must not be read by position."""
    if hasattr(x, "iloc") and not counts_rows(x.index):
        fail(
            argument,
            "must not have an index of labels, which cannot be brought into order here: pass "
            "its .to_numpy() if it is in the order of the tree.",
        )


def refuse_all_labels(argument: str, x: Any) -> None:
    """Refuse a Series or frame with labels of rows or columns, where both stand for nodes."""
    if hasattr(x, "iloc"):
        labelled = not all(counts_rows(axis) for axis in x.axes)
    else:
        # Columns of polars and pyarrow always have names.
        labelled = hasattr(x, "columns")
    if labelled:
        fail(
            argument,
            "must have no labels of rows or columns, which are not matched with nodes here: pass "
            "an array in the order of the nodes of each tree, such as the .to_numpy() of a frame "
            "that is in that order; tree.values(...) brings a column into it.",
        )


# --------------------------------------------------------------------------- integers


def integer_vector(argument: str, x: Any, *, what: str = "integers") -> np.ndarray:
    """A one-dimensional array of native integers; floats and booleans are refused."""
    a = array(argument, x)
    if a.ndim != 1:
        fail(argument, f"must be one-dimensional, not have shape {a.shape}.")
    if a.size == 0:
        fail(argument, "must not be empty.")
    of_kind(argument, a, "iu", what)
    return a.astype(a.dtype.newbyteorder("="), copy=False)


def index_dtype(n: int) -> np.dtype[Any]:
    """int32 while node numbers fit, which halves the memory a sweep reads for them."""
    return np.dtype(np.int32 if n <= np.iinfo(np.int32).max else np.int64)


def parent_vector(argument: str, parent: Any) -> np.ndarray:
    """Own copy of a parent array with entries in -1..n-1; roots and cycles are checked later."""
    refuse_labels(argument, parent)
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
    if a.size == 0 and a.dtype.kind == "f":
        return a.astype(np.int64)  # numpy takes an empty list for floats
    of_kind(argument, a, "iu", "node numbers (integers)")
    if a.ndim == 0 and 0 <= int(a) < n:
        return a  # the usual case, without the cost of several numpy calls
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
    if not _is_number(x, int, np.integer):
        fail_type(argument, f"must be a whole number, not {x!r}.")
    if x < least:
        fail(argument, f"must be at least {least}, not {x}.")
    return int(x)


def real(argument: str, x: Any) -> float:
    """A finite real number."""
    if not _is_number(x, int, float, np.integer, np.floating):
        fail_type(argument, f"must be a real number, not {x!r}.")
    try:
        number = float(x)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        fail(argument, f"must be finite, not {x!r}.")
    return number


def flag(argument: str, x: Any) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(x, (bool, np.bool_)):
        fail_type(argument, f"must be True or False, not {x!r}.")
    return bool(x)


def one_of(argument: str, x: Any, known: Iterable[str]) -> None:
    """One of several words."""
    if not isinstance(x, str) or x not in known:
        fail(argument, f"must be {' or '.join(map(repr, known))}, not {x!r}.")


def generator(argument: str, rng: Any) -> np.random.Generator:
    """What numpy makes of a generator, a seed or None."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        fail_type(argument, f"must be a numpy Generator, a seed or None: {error}.")


def path(argument: str, x: Any) -> Path:
    """The path of a file."""
    try:
        return Path(x)
    except TypeError:
        fail_type(argument, f"must be a path, not {x!r}.")


def threads(argument: str, x: Any) -> int | None:
    return None if x is None else count(argument, x, least=1)


# --------------------------------------------------------------------------- values


def values(argument: str, v: Any, n: int, *, per: str = "node") -> np.ndarray:
    """Native, C-contiguous float64, float32 or int64 of shape (n,) or (n, k).

    Other real floats become float64; integers and booleans become int64.
    """
    if type(v) is not np.ndarray:
        refuse_labels(argument, v)
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
    else:
        of_kind(argument, a, "f", "real numbers")
        dtype = np.float32 if a.dtype.itemsize <= 4 else np.float64
    return np.ascontiguousarray(a, dtype=dtype)


def finite(argument: str, a: np.ndarray, *, per: str = "node") -> None:
    """Refuse NaN and infinity.

    Only if the sum of all entries is not finite, which is quick to find out, can an entry be to
    blame; it may also have overflowed.
    """
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
    refuse_labels(argument, w)
    a = reals(argument, w)
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
    """The memory of a writable array of exactly this shape and type."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        fail_type(argument, f"must be a numpy array, not {type(out).__name__}.")
    if out.shape != shape or out.dtype != dtype:
        fail(
            argument,
            f"must have shape {shape} and dtype {np.dtype(dtype)}, "
            f"not {out.shape} and {out.dtype}.",
        )
    if not out.flags.writeable:
        fail(argument, "must be writable.")
    return np.asarray(out)


def ranges(argument: str, ranges: Any, m: int) -> np.ndarray:
    """Native, contiguous int64 pairs with 0 <= a <= b <= m."""
    a = array(argument, ranges)
    if a.ndim != 2 or a.shape[1] != 2:
        fail(argument, f"must have shape (q, 2), one row [a, b) per range, not {a.shape}.")
    of_kind(argument, a, "iu", "positions of leaves (integers)")
    bad = (a[:, 0] < 0) | (a[:, 0] > a[:, 1]) | (a[:, 1] > m)
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        fail(
            argument,
            f"must satisfy 0 <= a <= b <= {m}, the number of leaves; row {k} is {a[k].tolist()}.",
        )
    return np.ascontiguousarray(a, dtype=np.int64)


# --------------------------------------------------------------------------- files


def new_file(argument: str, path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    if path.is_dir():
        fail(argument, f"must be a file; {str(path)!r} is a folder.")
    if not path.parent.is_dir():
        fail(argument, f"must be in a folder that exists; there is no {str(path.parent)!r}.")
    if not os.access(path.parent, os.W_OK):
        fail(argument, f"must be in a folder that may be written to, not {str(path.parent)!r}.")
