"""Releases on disk: ``.npz`` and ``.parquet``, and ledgers beside other files.

Both kinds of file hold the arrays ``parent`` and ``noisy``, and ``exact``, ``labels`` and the
bounds ``lower`` and ``upper`` if the release has them. A JSON text states the kind of file, the
ledger, the options, and a SHA-256 checksum of everything. A Parquet file has further columns for
other programs, which are not read back. Nothing is pickled, so that reading a file never runs code
from it. The ledger of a file is checked against its tree: a file that understates its loss is
refused like a damaged one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from gmtree import _validate as check
from gmtree._files import checksum, file_digest, replacing, sync_folder, write_durably
from gmtree._version import __version__
from gmtree.privacy.accounting.allocation import LEAVES_FROM_RECORDS, check_account
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.files.packing import fit_int64, pack_labels, portable, unpack_labels
from gmtree.privacy.files.provenance import check_form, checked
from gmtree.privacy.publishing.columns import columns, measured_only
from gmtree.privacy.publishing.public_bounds import check_bounds
from gmtree.tree import Tree
from gmtree.tree.core import _rebuild

FORMAT = "gmtree release 1"
TABLES_FORMAT = "gmtree table release 1"
LEDGER_FORMAT = "gmtree release ledger 1"
# For each format, the class of releases that saves it.
_CLASSES = {FORMAT: "Release", TABLES_FORMAT: "TableRelease"}
_COPY_FORMAT = "gmtree stored copy 1"
# Names of the arrays among the columns of a Parquet file.
_COLUMNS = {
    "parent": "parent", "noisy": "noisy", "exact": "exact", "labels": "stored_label",
    "lower": "lower_bound", "upper": "upper_bound",
}  # fmt: skip
_STORED = "stored_"


class _DamagedError(ValueError):
    """A description of the damage to a file."""


Arrays = dict[str, np.ndarray]
Parts = tuple[Tree, Any, Ledger, np.ndarray | None, bool, bool, dict[str, Any] | None, Arrays]


def save(release: Any, path: str | os.PathLike[str]) -> None:
    """Write a file that :func:`load` can read."""
    target = check.path("path", path)
    write = _for_suffix(target, _write_npz, _write_parquet)
    arrays, header = _pack(release)
    header["checksum"] = checksum(header, arrays)
    with replacing(target) as stream:
        write(stream, arrays, header, release)


def save_copy(release: Any, path: Path, key: str) -> None:
    """Write the copy of an unfinished release to a new folder, for the owner only.

    The noisy counts can be read with `key` alone, which is random.
    """
    arrays, header = _pack(release)
    arrays, header["format"] = _masked(arrays, key), _COPY_FORMAT
    header["checksum"] = checksum(header, arrays)
    path.parent.mkdir(mode=0o700)
    with replacing(path, mode=0o600) as stream:
        _write_npz(stream, arrays, header, release)
    sync_folder(path.parent.parent)


def load_copy(path: Path, key: str) -> Parts:
    """Read the parts of a release from its copy; raise ValueError for a damaged one."""
    return _load(path, "a release that is charged to an account", (_COPY_FORMAT,), key)


def _masked(arrays: Arrays, key: str) -> Arrays:
    """Combine noisy counts with random bits from `key`; done twice, this returns the counts."""
    found = dict(arrays)
    for name, array in arrays.items():
        if name.startswith("noisy"):
            bits = hashlib.shake_256(f"{key} {name}".encode()).digest(array.nbytes)
            found[name] = array ^ np.frombuffer(bits, "<i8").reshape(array.shape)
    return found


def _form(ledger: Ledger) -> str:
    return FORMAT if ledger.axes is None else TABLES_FORMAT


def save_ledger(release: Any, path: str | os.PathLike[str], table: Path | None = None) -> None:
    """Write the ledger and the provenance of a release as JSON, for a file beside its table.

    With `table`, the name and the SHA-256 of that file are also written.
    """
    target = check.path("path", path)
    check.new_file("path", target)
    data: dict[str, Any] = {
        "format": LEDGER_FORMAT,
        "ledger": release.ledger.to_dict(),
        "provenance": release.provenance,
        "table": None,
    }
    if table is not None:
        data["table"] = {"file": table.name, "sha256": file_digest(table)}
    data["checksum"] = checksum(data)
    write_durably(target, json.dumps(data, indent=1).encode())


def ledger_path(table: Path) -> Path:
    """The path of the ledger that belongs to a CSV file, in the same folder."""
    return table.with_name(f"{table.name}.ledger.json")


def load_ledger(path: str | os.PathLike[str]) -> Ledger:
    """Read the ledger from the JSON file beside the table of a release.

    :meth:`gmtree.Release.save_ledger` writes it, and so does ``gmtree release`` beside a CSV file.
    Raises ValueError for any other file.

    Examples
    --------
    >>> import gmtree as gm, tempfile, os
    >>> from gmtree import privacy
    >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.csv.ledger.json")
    ...     r.save_ledger(path)
    ...     privacy.load_ledger(path) == r.ledger
    True
    """
    return read_ledger(path)[0]


def read_ledger(path: str | os.PathLike[str]) -> tuple[Ledger, dict[str, Any]]:
    """Return the ledger that :func:`save_ledger` wrote, and the whole contents of the file."""
    target = check.path("path", path)
    with target.open("rb") as stream:
        text = stream.read()
    try:
        data = _mapping(text)
        known = data.get("format") == LEDGER_FORMAT and data.get("checksum") == checksum(data)
        if not known:
            raise ValueError("it has another format, or is damaged")
        if data["provenance"] is not None:
            check_form(data["provenance"])
        if not isinstance(data["table"], (dict, type(None))):
            raise ValueError("its 'table' is not a mapping")
        return Ledger.from_dict(data["ledger"]), data
    except Exception as error:
        why = str(error).rstrip(".")
        raise ValueError(f"Argument 'path' must be the ledger of a release; {why}.") from None


def load(path: str | os.PathLike[str], *forms: str) -> Parts:
    """Read the parts of a release; raise ValueError for a file that :func:`save` did not write.

    With `forms`, the file must have one of these formats.
    """
    allowed = forms or tuple(_CLASSES)
    writer = " or ".join(f"{_CLASSES[form]}.save" for form in allowed)
    return _load(check.path("path", path), writer, allowed)


def _load(path: Path, writer: str, forms: Sequence[str], key: str = "") -> Parts:
    """Read the parts of a release, whose noisy counts are masked if there is a `key`."""
    read = _read_npz if key else _for_suffix(path, _read_npz, _read_parquet)
    try:
        with path.open("rb") as stream:
            arrays, header = read(stream)
        if header.get("format") not in forms:
            listed = " or ".join(map(repr, forms))
            kind = _CLASSES.get(str(header.get("format")))
            other = f": {kind}.load reads it" if kind else ""
            raise _DamagedError(f"its format is {header.get('format')!r}, not {listed}{other}")
        if any(array.dtype == object for array in arrays.values()):
            raise _DamagedError("it has missing entries: it is damaged")
        if header.get("checksum") != checksum(header, arrays):
            raise _DamagedError("its checksum is wrong: it is damaged")
        with _unreadable("its parts do not fit together"):
            return _unpack(_masked(arrays, key) if key else arrays, header)
    except _DamagedError as error:
        raise ValueError(f"Argument 'path' must be a file written by {writer}; {error}.") from None


@contextmanager
def _unreadable(why: str) -> Iterator[None]:
    """Turn the errors that damaged bytes cause into one that states the damage."""
    try:
        yield
    except _DamagedError:
        raise
    except MemoryError:
        why = "memory is too short to read it, or a length in it is damaged"
        raise _DamagedError(why) from None
    except Exception as error:
        # For damaged bytes, readers of archives, tables and JSON raise errors of a dozen types.
        raise _DamagedError(f"{why} ({error})") from None


def _for_suffix(path: Path, *kinds: Callable) -> Callable:
    """Choose by the ending of a file: the first function for .npz, the second for .parquet."""
    known = dict(zip((".npz", ".parquet"), kinds, strict=False))
    suffix = path.suffix.lower()
    if suffix not in known:
        check.fail("path", f"must end in {' or '.join(known)}, not {path.name!r}.")
    return known[suffix]


# --------------------------------------------------------------------------- parts


def _pack(release: Any) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and header; the table of query k is the array ``noisy_k``."""
    tree = release.tree
    arrays = {"parent": portable(tree.parent)}
    arrays |= {name: portable(bound) for name, bound in release.bounds.items()}
    if release.ledger.axes is None:
        arrays["noisy"] = portable(release.noisy)
    else:
        tables = release.noisy.values()
        arrays |= {f"noisy_{k}": portable(table) for k, table in enumerate(tables)}
    header: dict[str, Any] = {
        "format": _form(release.ledger),
        "gmtree": __version__,
        "ledger": release.ledger.to_dict(),
        "nonnegative": release.nonnegative,
        "integer": release.integer,
        "provenance": release.provenance,
        "level_names": None if tree.level_names is None else list(tree.level_names),
    }
    if release._exact is not None:
        arrays["exact"] = release._exact
    if tree.labels is not None:
        arrays["labels"], header["labels"] = pack_labels(tree.labels)
    return arrays, header


def _unpack(arrays: Arrays, header: Mapping[str, Any]) -> Parts:
    names, labels = header["level_names"], None
    listed = names is None or isinstance(names, list)
    if not (listed and all(isinstance(x, str) for x in names or ())):
        raise ValueError("the names of levels are not a list of text")
    if "labels" in arrays:
        labels = unpack_labels(arrays["labels"], header["labels"])
    ledger = Ledger.from_dict(header["ledger"])
    # The flag is kept so that new releases of this tree also state that it came from records.
    from_records = LEAVES_FROM_RECORDS in ledger.disclosures
    named = None if names is None else tuple(names)
    tree = _rebuild(arrays["parent"], labels, named, from_records=from_records)
    exact = arrays.get("exact")
    if exact is not None:
        _of_shape(exact, (tree.n,), np.bool_)
    if labels is not None and labels.shape != (tree.n,):
        raise ValueError("there are more or fewer labels than nodes")
    if names is not None and len(names) > tree.height:
        raise ValueError("there are more names of levels than levels")
    if header["format"] not in (_form(ledger), _COPY_FORMAT):
        raise ValueError("the ledger is of another kind of release")
    counts = _noisy(arrays, tree, ledger)
    check_account(tree, ledger, exact)
    options = header["nonnegative"], header["integer"]
    if not all(isinstance(x, bool) for x in options):
        raise ValueError("an option is neither true nor false")
    bounds = {name: a for name, a in arrays.items() if name in ("lower", "upper")}
    for bound in bounds.values():
        _of_shape(bound, (tree.n,), np.float64)
    check_bounds(tree, ledger, options[0], bounds)
    if bool(bounds) != bool(ledger.public_knowledge):
        raise ValueError("the ledger does not state the bounds")
    origin = checked(header.get("provenance"), tree)
    return tree, counts, ledger, exact, *options, origin, bounds


def _noisy(arrays: Arrays, tree: Tree, ledger: Ledger) -> Any:
    """Return the noisy counts: an array, or for tables a dict of arrays by query."""
    if ledger.axes is None:
        return _of_shape(arrays["noisy"], (tree.n,), np.int64)
    workload = ledger._workload
    if any(f"noisy_{k}" not in arrays for k in range(len(workload.queries))):
        raise ValueError("the ledger has other queries than the file")
    return {
        query or (): _of_shape(
            arrays[f"noisy_{k}"], (tree.n, *workload.query_shape(query)), np.int64
        )
        for k, query in enumerate(workload.queries)
    }


def _of_shape(array: np.ndarray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if array.shape != shape or array.dtype != dtype:
        raise ValueError("an array has another size or type than the tree needs")
    return array


# --------------------------------------------------------------------------- npz


def _write_npz(stream: IO[bytes], arrays: Arrays, header: Mapping[str, Any], release: Any) -> None:
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(stream, header=text, **arrays)  # type: ignore[arg-type]


def _read_npz(stream: IO[bytes]) -> tuple[Arrays, dict[str, Any]]:
    with _unreadable("it cannot be read"), np.load(stream, allow_pickle=False) as file:
        # We never compress arrays, so that they cannot be larger than the file.
        if sum(part.file_size for part in file.zip.infolist()) > stream.seek(0, os.SEEK_END):
            raise ValueError("it unpacks to more than the file holds")
        header = _mapping(file["header"].tobytes())
        return {name: file[name] for name in file.files if name != "header"}, header


def _mapping(text: bytes) -> dict[str, Any]:
    header = json.loads(text)
    if not isinstance(header, dict):
        raise _DamagedError("it has no header")
    return header


# --------------------------------------------------------------------------- parquet


def _write_parquet(
    stream: IO[bytes], arrays: Arrays, header: Mapping[str, Any], release: Any
) -> None:
    pa, parquet = need_pyarrow()
    table = columns(release, None) | {_column(name): array for name, array in arrays.items()}
    if release.ledger.axes is None:
        table["noisy"] = measured_only(release, arrays["noisy"])
    fields = {name: _arrow_array(pa, column) for name, column in table.items()}
    metadata = {"gmtree": json.dumps(header)}
    parquet.write_table(pa.table(fields).replace_schema_metadata(metadata), stream)


def _column(name: str) -> str:
    """The name of the column that holds an array in a Parquet file."""
    return _COLUMNS.get(name, f"{_STORED}{name}")


def _arrow_array(pa: Any, column: np.ndarray) -> Any:
    """A column; the tables of a query become lists of the same length."""
    if column.ndim == 1:
        return pa.array(_for_arrow(column))
    flat = column.reshape(len(column), -1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1])


def _for_arrow(column: np.ndarray) -> Any:
    """Convert labels to text if they have several types, or a type that Parquet lacks."""
    if column.dtype != object:
        return column
    listed = column.tolist()
    types = {type(x) for x in listed if x is not None}
    if types in ({str}, {float}, {bool}) or (types == {int} and fit_int64(listed)):
        return listed
    return [None if x is None else str(x) for x in listed]


def _read_parquet(stream: IO[bytes]) -> tuple[Arrays, dict[str, Any]]:
    _, parquet = need_pyarrow()
    with _unreadable("it cannot be read"):
        file = parquet.ParquetFile(stream)
        # Even when compressed, the column of node numbers takes several bytes per row.
        if file.metadata.num_rows > stream.seek(0, os.SEEK_END):
            raise ValueError("it has more rows than bytes")
        header = _mapping((file.schema_arrow.metadata or {})[b"gmtree"])
        names = file.schema_arrow.names
        stored = {a: b for a, b in _COLUMNS.items() if b in names}
        shapes: dict[str, tuple[int, ...]] = {}
        if header.get("format") == TABLES_FORMAT:
            stored.pop("noisy", None)
            workload = Ledger.from_dict(header["ledger"])._workload
            for k, query in enumerate(workload.queries):
                stored[f"noisy_{k}"], shapes[f"noisy_{k}"] = (
                    _column(f"noisy_{k}"), workload.query_shape(query),
                )  # fmt: skip
        table = file.read(columns=list(stored.values()))
        whole = {a: table[b] for a, b in stored.items()}
        if "noisy" in whole:
            # A node that was not measured has a missing entry in the file, and 0 in memory.
            whole["noisy"] = whole["noisy"].fill_null(0)
        arrays = {}
        for name, column in whole.items():
            shape = shapes.get(name, ())
            flat = column.combine_chunks().flatten() if shape else column
            arrays[name] = flat.to_numpy().reshape(-1, *shape)
        if "labels" in arrays and header["labels"]["dtype"][1] == "U":
            arrays["labels"] = portable(arrays["labels"].astype(str))
    return arrays, header


def need_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet; an error explains how to install them."""
    pyarrow = check.optional("pyarrow", "frames", "A Parquet file")
    return pyarrow, check.optional("pyarrow.parquet", "frames", "A Parquet file")
