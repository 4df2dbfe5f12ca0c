"""People instead of records: bounds on what one person contributes, enforced by a public rule.

What a release protects is a person, with all records of theirs. If nobody has more than
`max_contributions`, that is a matter of noise (:class:`gmtree.privacy.worst_case.Person`). Here
it is made true: further records of a person are left out. Which ones is decided by a fixed rule
that sees the records of this person alone. Otherwise one person's records could decide whether
those of another count, and neighbours would differ by more than one person's.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.privacy.packing import splitmix


class Bounds(NamedTuple):
    """Most records of a person, most leaves they are in, and most records in one leaf."""

    records: int
    leaves: int
    per_leaf: int


def bounds_of(
    enforced: bool, max_contributions: Any, max_leaves: Any, max_per_leaf: Any, neighbors: Any
) -> Bounds:
    """The bounds that these arguments of a public function ask for."""
    given = {
        "max_contributions": max_contributions,
        "max_leaves": max_leaves,
        "max_per_leaf": max_per_leaf,
    }
    for name, value in given.items():
        if value is not None:
            check.count(name, value, least=1)
    if not enforced and max_leaves is not None:
        check.fail("max_leaves", "must be None without 'person': it can only be enforced.")
    if enforced and neighbors == "change_one" and (max_leaves or max_per_leaf):
        check.fail(
            "max_leaves" if max_leaves else "max_per_leaf",
            "must be None with neighbors='change_one': how many records stay would depend on where "
            "they are, and their number is public.",
        )
    product = max_leaves * max_per_leaf if max_leaves and max_per_leaf else None
    if max_contributions is None and product is None and (max_leaves or max_per_leaf):
        one, other = "max_leaves", "max_per_leaf"
        if max_per_leaf:
            one, other = other, one
        check.fail(one, f"must come with {other!r} or 'max_contributions'.")
    known = [x for x in (product, max_contributions) if x is not None]
    most = min(known, default=1)
    return Bounds(most, max_leaves or most, max_per_leaf or most)


def kept_records(
    leaf: np.ndarray, whose: np.ndarray, key: np.ndarray, bounds: Bounds
) -> np.ndarray:
    """Which records count, as positions: of each person those that come first by the rule.

    `whose` numbers the people, and `key` is a hash of each one's label. The leaves of a person
    come in the order of a hash of both, and their records are taken leaf by leaf.
    """
    mixed = splitmix(key[whose] ^ splitmix(leaf.astype(np.uint64)))
    order = np.lexsort((leaf, mixed, whose))
    person, place, rows = whose[order], leaf[order], np.arange(order.size)
    new_person = np.diff(person, prepend=-1) != 0
    new_leaf = new_person | (np.diff(place, prepend=-1) != 0)
    number_of_leaf = np.cumsum(new_leaf)
    stays = _since(new_leaf, rows) < bounds.per_leaf
    stays &= _since(new_person, number_of_leaf) < bounds.leaves
    stays &= _since(new_person, np.cumsum(stays) - stays) < bounds.records
    return order[stays]


def _since(is_start: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How much an array that never falls has grown since the last start."""
    return x - np.maximum.accumulate(np.where(is_start, x, 0))


def hash_labels(labels: np.ndarray) -> np.ndarray:
    """64 bits of BLAKE2b for each label, the same on every machine."""
    out = np.empty(labels.size, np.uint64)
    for k, label in enumerate(np.asarray(labels, dtype=object).tolist()):
        text = f"{type(label).__name__} {label!r}".encode(errors="surrogatepass")
        out[k] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return out
