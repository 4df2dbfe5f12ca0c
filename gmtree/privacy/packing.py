"""Labels of nodes as arrays of plain types, for files; fingerprints of trees and other hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.tree import Tree


def fingerprint(tree: Tree) -> str:
    """A SHA-256 of the parents, the labels and the names of levels of a tree, as 64 digits.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree.privacy.packing import fingerprint
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
            # Labels that no file could hold, such as dates.
            plain, how = np.array([repr(x) for x in tree.labels.tolist()]), {"kind": "text"}
        digest.update(json.dumps([how, plain.shape], sort_keys=True).encode())
        digest.update(np.ascontiguousarray(plain).view(np.uint8).data)
    return digest.hexdigest()


def portable(a: np.ndarray) -> np.ndarray:
    """Little-endian, so that the checksum is the same on every machine."""
    return a.astype(a.dtype.newbyteorder("<"), copy=False)


def pack_labels(labels: np.ndarray) -> tuple[np.ndarray, dict[str, str]]:
    """Labels as an array of plain type, and what is needed to make them again."""
    if labels.dtype.kind in "biufU":
        plain = portable(labels)
        return plain, {"dtype": plain.dtype.str, "kind": "plain"}
    if labels.dtype != object:
        check.fail_type("labels", f"must be numbers or text to be saved, not {labels.dtype}.")
    listed = labels.tolist()
    types = set(map(type, listed))
    # Arrays of text drop zeros at the end.
    if types == {str} and not any(x.endswith("\0") for x in listed):
        plain, kind = np.array(listed, dtype=str), "object"
    elif types == {int} and fit_int64(listed):
        plain, kind = np.array(listed, dtype=np.int64), "object"
    else:
        texts = [json.dumps(_to_json(i, x)) for i, x in enumerate(listed)]
        plain, kind = np.array(texts, dtype=str), "json"
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


def _to_json(node: int, label: Any) -> Any:
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, tuple):
        return [_to_json(node, x) for x in label]
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    check.fail_type(
        "labels", f"must be numbers, text or tuples to be saved; that of node {node} is "
        f"{check.shown(label)}.",
    )  # fmt: skip


def _from_json(x: Any) -> Any:
    return tuple(map(_from_json, x)) if isinstance(x, list) else x


def fit_int64(listed: list[Any]) -> bool:
    """Whether all whole numbers of a list have at most 64 bits."""
    return all(x is None or -(2**63) <= x < 2**63 for x in listed)


def splitmix(x: np.ndarray) -> np.ndarray:
    """64-bit numbers scattered (the finaliser of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
