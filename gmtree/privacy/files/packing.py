"""Labels of nodes as arrays of plain types, for files; fingerprints of trees and other hashes."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.distinct import as_objects
from gmtree.labels.levels import LevelLabels
from gmtree.tree import Tree


def fingerprint(tree: Tree) -> str:
    """The SHA-256 of a tree's parents, labels and names of levels, as 64 hexadecimal digits.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.privacy.files.packing import fingerprint
    >>> fingerprint(gm.shapes.star(3))[:16]
    '2e1b06c4e43986c3'
    >>> fingerprint(gm.shapes.star(3)) == fingerprint(gm.Tree.from_parents([-1, 0, 0]))
    True
    """
    digest = hashlib.sha256(b"gmtree tree 1")
    names = None if tree.level_names is None else [str(name) for name in tree.level_names]
    digest.update(json.dumps([tree.n, names]).encode())
    digest.update(tree.parent.astype("<i8").data)
    if tree.labels is not None:
        try:
            plain, how = pack_labels(tree.labels)
        except TypeError:
            # Labels that no file can hold, such as intervals.
            plain, how = np.array([repr(x) for x in tree.labels.tolist()]), {"kind": "text"}
        digest.update(json.dumps([how, plain.shape], sort_keys=True).encode())
        digest.update(np.ascontiguousarray(plain).view(np.uint8).data)
    return digest.hexdigest()


def portable(a: np.ndarray) -> np.ndarray:
    """Return the array in little-endian order, so that checksums are the same on every machine."""
    return a.astype(a.dtype.newbyteorder("<"), copy=False)


def pack_labels(labels: np.ndarray) -> tuple[np.ndarray, dict[str, str]]:
    """Convert labels to an array of a plain type; also return how to restore them."""
    if labels.dtype.kind in "biufU":
        # The array is as wide as the longest text, so that readers need not trust a stated width.
        narrow = np.array(labels.tolist(), str) if labels.dtype.kind == "U" else labels
        plain = portable(narrow)
        return plain, {"dtype": plain.dtype.str, "kind": "plain"}
    listed = as_objects(labels).tolist()
    types = set(map(type, listed))
    # Arrays of text drop null characters at the end.
    if types == {str} and not any(x.endswith("\0") for x in listed):
        plain, kind = np.array(listed, dtype=str), "object"
    elif types == {int} and fit_int64(listed):
        plain, kind = np.array(listed, dtype=np.int64), "object"
    else:
        plain, kind = np.array([json.dumps(_to_json(x)) for x in listed], dtype=str), "json"
    plain = portable(plain)
    return plain, {"dtype": plain.dtype.str, "kind": kind}


def unpack_labels(plain: np.ndarray, how: Mapping[str, str]) -> np.ndarray:
    """The labels that :func:`pack_labels` packed."""
    if how["kind"] == "plain":
        return plain.astype(plain.dtype.newbyteorder("="), copy=False)
    labels = np.empty(plain.shape, dtype=object)
    listed = plain.tolist()
    if how["kind"] == "json":
        listed = [_from_json(json.loads(x)) for x in listed]
    for i, label in enumerate(listed):
        labels[i] = label
    return labels


def check_labels(tree: Tree) -> None:
    """Refuse labels that no file can hold; called before a release is charged."""
    labels = tree._labels
    parts = labels.categories if isinstance(labels, LevelLabels) else (tree.labels,)
    for part in parts:
        if part is not None and part.dtype.kind not in "biufU":
            listed = as_objects(part).tolist()
            if not set(map(type, listed)) <= {str, int, float, bool, type(None)}:
                for label in listed:
                    _to_json(label)


_TIMES = {"date": dt.date, "datetime": dt.datetime}


def _to_json(label: Any) -> Any:
    if isinstance(label, np.generic) and label.dtype.kind in "biufU":
        label = label.item()
    if isinstance(label, tuple):
        return [_to_json(x) for x in label]
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    kind = type(label)
    if kind in _TIMES.values() and getattr(label, "tzinfo", None) is None:
        return {kind.__name__: label.isoformat()}
    # The label itself is not shown: it may come from private records.
    check.fail_type(
        "tree",
        "must have labels that a file can hold: numbers, text, dates, times without a zone, or "
        f"tuples of these, not labels of type {kind.__name__}. Convert them to text first.",
    )


def _from_json(x: Any) -> Any:
    if isinstance(x, dict):
        ((kind, text),) = x.items()
        return _TIMES[kind].fromisoformat(text)
    return tuple(map(_from_json, x)) if isinstance(x, list) else x


def fit_int64(listed: list[Any]) -> bool:
    """Whether all whole numbers of a list have at most 64 bits."""
    return all(x is None or -(2**63) <= x < 2**63 for x in listed)


def splitmix(x: np.ndarray) -> np.ndarray:
    """Scramble 64-bit numbers with the finaliser of splitmix64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
