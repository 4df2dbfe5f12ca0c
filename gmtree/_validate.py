"""Conversion and validation of arguments, with error messages.

Messages name the argument, the rule, and the first node that breaks the rule. No function here
changes the caller's objects.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from gmtree._text import printable

# The type of a single node or count, for overloads that then return a single number.
Integer: TypeAlias = "int | np.integer[Any]"
INT64_MAX = int(np.iinfo(np.int64).max)


class Node(NamedTuple):
    """A node in an error message; a caller that knows a better name can replace it."""

    number: int
    kind: str = "node"
    path: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.number}{f', {self.path}' if self.path else ''}"


class DataWarning(UserWarning):
    """The data look wrong, but were used unchanged."""


class ArgumentError(Exception):
    """Base class of errors about an argument, which stores the parts of the message.

    Parameters
    ----------
    argument : str
    *rule : str or Node
        Parts of the sentence that follow the name of the argument.
    """

    def __init__(self, argument: str, *rule: str | Node) -> None:
        super().__init__(argument, *rule)

    @property
    def argument(self) -> str:
        """Name of the argument."""
        return self.args[0]

    @property
    def rule(self) -> str:
        """The rule that the argument breaks, as the rest of the message."""
        return "".join(map(str, self.args[1:]))

    @property
    def node(self) -> int | None:
        """Number of the first node that breaks the rule; None if the message names no node."""
        return next((part.number for part in self.args[1:] if isinstance(part, Node)), None)

    def __str__(self) -> str:
        return f"Argument '{self.argument}' {self.rule}"


class InputError(ArgumentError, ValueError):
    """An argument has an invalid value.

    Examples
    --------
    >>> import gmtree as gm
    >>> try:
    ...     gm.reconcile(gm.shapes.star(3), [9.0, float("nan"), 4.0])
    ... except gm.InputError as error:
    ...     print(error.argument, error.node, error.rule, sep="; ")
    noisy; 1; must be finite; node 1 is nan; a node that was not measured has variance inf.
    """


class InputTypeError(ArgumentError, TypeError):
    """An argument has an invalid type; the attributes are those of `InputError`."""


class IntegerOverflowError(ArgumentError, ValueError, OverflowError):
    """A sum of integers does not fit into 64 bits; the attributes are those of `InputError`."""


# Tracebacks print these names, by which users know the classes.
InputError.__module__ = InputTypeError.__module__ = IntegerOverflowError.__module__ = "gmtree"


def reworded(
    error: ArgumentError,
    *,
    argument: Mapping[str, str] | None = None,
    name: Callable[[Node], str] = str,
    note: str = "",
) -> ArgumentError:
    """A copy of the error with the caller's names for arguments and nodes, followed by a note.

    `argument` also renames parts of an argument, such as ``variance['state']``.
    """
    parts = [name(part) if isinstance(part, Node) else part for part in error.args[1:]]
    first, bracket, rest = error.argument.partition("[")
    return type(error)((argument or {}).get(first, first) + bracket + rest, *parts, note)


def fail(argument: str, *rule: str | Node) -> NoReturn:
    raise InputError(argument, *rule)


def fail_type(argument: str, *rule: str | Node) -> NoReturn:
    raise InputTypeError(argument, *rule)


def instance(argument: str, x: Any, kind: type) -> None:
    """Refuse an object that is not an instance of `kind`."""
    if not isinstance(x, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        fail_type(argument, f"must be {article} {kind.__name__}, not {type(x).__name__}.")


def optional(module: str, extra: str, purpose: str) -> Any:
    """The imported optional package. If it is missing, an error explains how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {package}: pip install 'gmtree[{extra}]'.") from error


def some(items: Iterable[Any]) -> str:
    """The first five items, for an error message."""
    listed = list(items)
    text = ", ".join(printable(str(x)) for x in listed[:5])
    return f"{text}, ..." if len(listed) > 5 else text


def shown(label: Any) -> str:
    """A label as users write it: 'a' rather than np.str_('a'), and dates as text."""
    if isinstance(label, np.datetime64):
        return str(np.datetime_as_string(label, unit="auto"))
    if isinstance(label, np.timedelta64):
        return str(label)
    return repr(label.item() if isinstance(label, (np.number, np.character)) else label)


def array(argument: str, x: Any) -> np.ndarray:
    """`x` as an array; an error names the argument if numpy cannot convert it (ragged lists)."""
    for part in x if isinstance(x, (list, tuple)) else (x,):
        if isinstance(part, np.ma.MaskedArray):
            _refuse_mask(argument, part)
    try:
        return np.asarray(x)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        fail(argument, f"must be an array, or an object that numpy can convert to one: {error}")


_UNMEASURED = {"noisy": "; a node that was not measured has variance inf"}


def _refuse_mask(argument: str, x: np.ma.MaskedArray) -> None:
    """Refuse masked entries, since numpy would drop the mask and expose the hidden values."""
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
    """Return an array of an allowed kind, or name the first entry of another kind in an error."""
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
    """Whether `x` is of one of these types, but not a boolean or a duration."""
    return isinstance(x, kinds) and not isinstance(x, (bool, np.bool_, np.timedelta64))


def _entry(where: tuple[int, ...]) -> str:
    return f"; entry {', '.join(map(str, where))}" if where else "; it"


def counts_rows(index: Any) -> bool:
    """Whether a pandas index is 0, 1, 2, ..., so that it holds no labels."""
    named = any(name is not None for name in index.names)
    if named or index.dtype.kind not in "iu":
        return False
    return np.array_equal(index.to_numpy(), np.arange(len(index)))


def refuse_labels(argument: str, x: Any) -> None:
    """Refuse a pandas Series or DataFrame with labels, which must not be read by position."""
    if hasattr(x, "iloc") and not counts_rows(x.index):
        fail(
            argument,
            "must not have an index of labels, because they are not matched with nodes here. "
            "If its rows are in the order of the tree, pass its .to_numpy().",
        )


def refuse_all_labels(argument: str, x: Any) -> None:
    """Refuse a Series or DataFrame with labels if its rows and columns both stand for nodes."""
    if hasattr(x, "iloc"):
        labelled = not all(counts_rows(axis) for axis in x.axes)
    else:
        # Columns of polars and pyarrow always have names.
        labelled = hasattr(x, "columns")
    if labelled:
        fail(
            argument,
            "must have no labels of rows or columns, because they are not matched with nodes here. "
            "Pass an array in the order of the nodes of each tree, such as the .to_numpy() of a "
            "DataFrame in this order. For a single column, tree.align(...) produces this order.",
        )


# --------------------------------------------------------------------------- integers


def integer_vector(argument: str, x: Any, *, what: str = "integers") -> np.ndarray:
    """A one-dimensional array of integers in native byte order; floats and booleans are refused."""
    a = array(argument, x)
    if a.ndim != 1:
        fail(argument, f"must be one-dimensional, not have shape {a.shape}.")
    if a.size == 0:
        fail(argument, "must not be empty.")
    of_kind(argument, a, "iu", what)
    return a.astype(a.dtype.newbyteorder("="), copy=False)


def index_dtype(n: int) -> np.dtype[Any]:
    """Type for node numbers: int32 if they fit, since a sweep then reads half the memory."""
    return np.dtype(np.int32 if n <= np.iinfo(np.int32).max else np.int64)


def parent_vector(argument: str, parent: Any) -> np.ndarray:
    """Copy of a parent array with entries from -1 to n - 1; roots and cycles are checked later."""
    refuse_labels(argument, parent)
    a = integer_vector(argument, parent, what="integers (node numbers, -1 for the root)")
    n = a.size
    low, high = int(a.min()), int(a.max())
    if low < -1 or high >= n:
        i = int(np.flatnonzero((a < -1) | (a >= n))[0])
        fail(argument, f"must hold -1 or node numbers below {n}; ", Node(i), f" has parent {a[i]}.")
    return np.array(a, dtype=index_dtype(n), order="C", copy=True)


def node_numbers(argument: str, nodes: Any, n: int) -> np.ndarray:
    """Node numbers from 0 to n - 1, as a scalar or an array of any shape."""
    a = array(argument, nodes)
    if a.size == 0 and a.dtype.kind == "f":
        return a.astype(np.int64)  # Numpy reads an empty list as floats.
    of_kind(argument, a, "iu", "node numbers (integers)")
    if a.ndim == 0 and 0 <= int(a) < n:
        return a  # A shortcut: the numpy calls below would take longer than most callers.
    bad = (a < 0) | (a >= n)
    if np.any(bad):
        first = a[bad].flat[0] if a.ndim else a
        fail(argument, f"must hold node numbers from 0 to {n - 1}, not {first}.")
    return a


def node_number(argument: str, node: Any, n: int) -> int:
    """A single node number from 0 to n - 1."""
    a = node_numbers(argument, node, n)
    if a.ndim:
        fail_type(argument, f"must be one node number, not have shape {a.shape}.")
    return int(a)


def is_whole(x: Any) -> bool:
    """Whether `x` is an integer of Python or numpy, and not a boolean."""
    return _is_number(x, int, np.integer)


def count(argument: str, x: Any, *, least: int) -> int:
    """A whole number of at least `least`."""
    if not is_whole(x):
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


def positive(argument: str, x: Any) -> float:
    """A finite positive number."""
    number = real(argument, x)
    if number <= 0:
        fail(argument, f"must be positive, not {number}.")
    return number


def flag(argument: str, x: Any) -> bool:
    """True or False; other objects are refused, even if they have a truth value."""
    if not isinstance(x, (bool, np.bool_)):
        fail_type(argument, f"must be True or False, not {x!r}.")
    return bool(x)


def one_of(argument: str, x: Any, known: Iterable[str]) -> str:
    """`x`, which must be one of the known words."""
    if not isinstance(x, str) or x not in known:
        fail(argument, f"must be {' or '.join(map(repr, known))}, not {x!r}.")
    return x


def generator(argument: str, rng: Any) -> np.random.Generator:
    """A numpy generator, made from a generator, a seed or None."""
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


def values(argument: str, v: Any, n: int, *, per: str = "node", columns: bool = True) -> np.ndarray:
    """Values as a C-contiguous array of float64, float32 or int64 and of shape (n,) or (n, k).

    If `columns` is false, the shape must be (n,). Other real floats become float64; integers and
    booleans become int64.
    """
    if type(v) is not np.ndarray:
        refuse_labels(argument, v)
    a = array(argument, v)
    if a.ndim not in ((1, 2) if columns else (1,)) or a.shape[0] != n:
        shapes = f"({n},) or ({n}, k), one row" if columns else f"({n},), one value"
        fail(argument, f"must have shape {shapes} per {per}, not {a.shape}.")
    if a.dtype.kind in "iub":
        if a.dtype == np.uint64 and a.size and int(a.max()) > INT64_MAX:
            i = int(np.flatnonzero((a > INT64_MAX).reshape(n, -1).any(axis=1))[0])
            raise IntegerOverflowError(
                argument, "must fit into 64-bit signed integers; ", Node(i, per), " does not."
            )
        dtype: Any = np.int64
    else:
        of_kind(argument, a, "f", "real numbers")
        dtype = np.float32 if a.dtype.itemsize <= 4 else np.float64
    return np.ascontiguousarray(a, dtype=dtype)


def all_finite(a: np.ndarray) -> bool:
    """Whether all numbers are finite.

    A finite sum proves it quickly. If the sum is not finite, the entries are checked, since finite
    entries may also have a sum that overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.sum(a))) or bool(np.isfinite(a).all())


def finite(argument: str, a: np.ndarray, *, per: str = "node") -> None:
    """Refuse NaN and infinity."""
    if a.dtype.kind == "f" and not all_finite(a):
        rows = a.reshape(a.shape[0], -1)
        i = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        x = rows[i][~np.isfinite(rows[i])][0]
        hint = _UNMEASURED.get(argument, "")
        fail(argument, "must be finite; ", Node(i, per), f" is {x}{hint}.")


def weights(argument: str, w: Any, n: int, *, root: int | None = None) -> np.ndarray | None:
    """Copy of finite non-zero weights, one per node; a single number is used for all nodes.

    The entry at `root` is ignored and replaced by one, since the root has no edge to a parent.
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
        fail(argument, "must be finite and not zero; ", Node(i), f" has weight {own[i]}.")
    return own


def output(argument: str, out: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A plain view of a writable array, which must have exactly this shape and type."""
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
    """A contiguous int64 array of pairs [a, b) with 0 <= a <= b <= m."""
    a = array(argument, ranges)
    if a.ndim != 2 or a.shape[1] != 2:
        fail(argument, f"must have shape (q, 2), with one row [a, b) per range, not {a.shape}.")
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
    """Refuse a path at which no file can be written, before any work is done for it."""
    if path.is_dir():
        fail(argument, f"must be a file; {str(path)!r} is a folder.")
    if not path.parent.is_dir():
        fail(argument, f"must be in a folder that exists; there is no {str(path.parent)!r}.")
    if not os.access(path.parent, os.W_OK):
        fail(argument, f"must be in a writable folder, not {str(path.parent)!r}.")
