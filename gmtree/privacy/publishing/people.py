"""People instead of records: bounds on the records of one person, enforced by a public rule.

A release protects a person, with all of their records. If nobody has more records than
`max_contributions`, this only requires more noise
(:class:`gmtree.privacy.accounting.worst_case.Person`). This module enforces the bound by leaving
out further records of a person. The rule that chooses them reads the records of that person alone.
Otherwise the records of one person could decide which records of another person count, and
neighbouring data would differ in the records of several people.

For this reason a person is identified by a text that depends on the single label alone
(:func:`person_text`), never on the type of the column or on the labels in other rows. The hash of
that text is part of the public rule: it has no random key, and must not change between versions.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from gmtree import _validate as check
from gmtree.labels.codes import Codes
from gmtree.labels.distinct import as_objects, factorize, is_missing
from gmtree.privacy.files.packing import splitmix

# A whole number in the form in which programs write floats, such as "7.0".
_WHOLE_FLOAT = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0", re.ASCII)
_LARGEST_WHOLE_FLOAT = 2**53
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
# Any text that a program may read as a number.
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)


class Bounds(NamedTuple):
    """A person's largest number of records, of leaves, and of records in one leaf."""

    records: int
    leaves: int
    per_leaf: int


def bounds_of(
    enforced: bool, max_contributions: Any, max_leaves: Any, max_per_leaf: Any, neighbors: Any
) -> Bounds:
    """Make bounds from the arguments of a public function."""
    given = {
        "max_contributions": max_contributions,
        "max_leaves": max_leaves,
        "max_per_leaf": max_per_leaf,
    }
    for name, value in given.items():
        if value is not None:
            check.count(name, value, least=1)
    if not enforced and max_leaves is not None:
        check.fail(
            "max_leaves", "must be None without 'person', the column by which it is enforced."
        )
    if enforced and neighbors == "change_one" and (max_leaves or max_per_leaf):
        check.fail(
            "max_leaves" if max_leaves else "max_per_leaf",
            "must be None with neighbors='change_one': the number of counted records is then "
            "public, and would depend on the leaves of a person's records.",
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
    leaf: np.ndarray,
    leaf_key: np.ndarray,
    whose: np.ndarray,
    person_key: np.ndarray,
    bounds: Bounds,
    cells: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Positions of the counted records, given the leaf and the person of each record.

    A person's leaves are sorted by a hash of the person and the leaf, and the person's records are
    counted leaf by leaf until a bound is reached. `leaf_key` has a hash of each leaf
    (:func:`leaf_keys`), and `person_key` a hash of each person (:func:`number_people`). If leaves
    have tables, `cells` are the cell of each record and a hash of each cell. Within a leaf, a
    person's records are then sorted by a hash of the person, the leaf and the cell.
    """
    mixed = splitmix(person_key[whose] ^ splitmix(leaf_key[leaf]))
    keys: tuple[np.ndarray, ...] = (leaf, mixed, whose)
    if cells is not None:
        cell, cell_key = cells
        keys = (cell, splitmix(mixed ^ splitmix(cell_key[cell])), *keys)
    order = np.lexsort(keys)
    person, place, rows = whose[order], leaf[order], np.arange(order.size)
    new_person = np.diff(person, prepend=-1) != 0
    new_leaf = new_person | (np.diff(place, prepend=-1) != 0)
    number_of_leaf = np.cumsum(new_leaf)
    stays = _since(new_leaf, rows) < bounds.per_leaf
    stays &= _since(new_person, number_of_leaf) < bounds.leaves
    stays &= _since(new_person, np.cumsum(stays) - stays) < bounds.records
    return order[stays]


def _since(is_start: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How much x, which never decreases, has grown since the last entry that `is_start` marks."""
    return x - np.maximum.accumulate(np.where(is_start, x, 0))


# --------------------------------------------------------------------------- who is who


def number_people(argument: str, column: Codes) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row's person, and a hash of each person's text.

    Labels with the same text are one person. A row without a person is refused.
    """
    code, texts, forms = distinct_texts(argument, column)
    refuse_two_forms(argument, [forms])
    missing = np.array([text is None for text in texts], bool)[code]
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        check.fail(argument, f"must be known in each row; row {row} has none.")
    numbers = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    number = np.array([numbers[text] for text in texts], np.int64)
    return number[code], public_hash(text or "" for text in numbers)


class Forms(NamedTuple):
    """Whether some labels are numbers, and whether some are texts of numbers such as "007"."""

    numbers: bool
    other_texts: bool


def refuse_two_forms(argument: str, found: Sequence[Forms]) -> None:
    """Refuse labels of which some are numbers, and some are texts of numbers such as "007".

    A program that reads a file in parts makes numbers of one part and texts of another if only one
    of them has a label such as "guest". The same person is then 7 in one part and "007" in another.
    """
    if any(forms.numbers for forms in found) and any(forms.other_texts for forms in found):
        check.fail(
            argument,
            "must not hold both numbers and texts of numbers in another form, such as 7 and '007': "
            "they may be one person. Read this column as text.",
        )


def distinct_texts(argument: str, column: Codes) -> tuple[np.ndarray, list[str | None], Forms]:
    """Codes of the rows, and for each code the text of its label; several codes may have one text.

    :func:`person_text` describes the texts. The last result states the forms of the labels.
    """
    if column.categories is None:
        codes, first = factorize(argument, column.codes)
        column = Codes(codes, column.codes[first])
    assert column.categories is not None
    # Labels that no row has must not be read, because they may be of any type.
    used, code = np.unique(column.codes, return_inverse=True)
    labels = as_objects(column.categories)[used[used >= 0]]
    texts = [person_text(argument, label) for label in labels]
    forms = Forms(
        any(isinstance(label, (int, float, np.number, Decimal)) for label in labels),
        any(
            isinstance(label, (str, bytes)) and _is_other_form(text)
            for label, text in zip(labels, texts, strict=True)
        ),
    )
    return code, [None] * (used.size - labels.size) + texts, forms


def _is_other_form(text: str | None) -> bool:
    """Whether a program may read a person's text as a number and write it as another text."""
    if text is None or _WHOLE.fullmatch(text) or not _NUMBER.fullmatch(text):
        return False
    x = float(text)
    return abs(x) >= _LARGEST_WHOLE_FLOAT or _float_text("person", x) != text


def person_text(argument: str, label: Any) -> str | None:
    """The text that identifies a person, from one label; None if the label is missing.

    Labels with the same text are the same person:

    - A whole number becomes its digits, whatever its type: 7, 7.0, ``Decimal("7.00")``, "7" and
      "7.0" are one person. True and False are 1 and 0, as in Python.
    - Any other text stays as it is: "007", " 7" and "7.50" differ from the numbers 7 and 7.5.
    - Other numbers become their shortest decimal digits, as Python writes them.
    - Dates and times are written like ``2024-05-31 12:30:00.5``, times with a zone in UTC. A date
      has the same text as its midnight.
    - Bytes become the text that they encode in UTF-8, and a UUID its usual text.

    None, NaN, NaT, NA and the empty text are missing. Labels of other types are refused, and so are
    floats of 2^53 and more, since different whole numbers become the same float.
    """
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":
        label = label.item()
    if isinstance(label, bytes):
        label = label.decode(errors="surrogateescape")
    if isinstance(label, str):
        whole = _WHOLE_FLOAT.fullmatch(label)
        return _without_sign_of_zero(whole[1]) if whole else str.__str__(label) or None
    if isinstance(label, int):
        return str(int(label))
    if is_missing(label):
        return None
    if isinstance(label, (float, np.longdouble)):
        return _float_text(argument, float(label))
    if isinstance(label, Decimal) and label.is_finite():
        text = f"{label:f}"
        return _without_sign_of_zero(text.rstrip("0").rstrip(".") if "." in text else text)
    if isinstance(label, UUID):
        return str(label)
    if isinstance(label, (dt.date, np.datetime64)):
        return _time_text(label)
    check.fail_type(argument, "must hold text, numbers, dates or UUIDs, and nothing else.")


def _without_sign_of_zero(digits: str) -> str:
    return "0" if digits == "-0" else digits


def _float_text(argument: str, x: float) -> str:
    if abs(x) >= _LARGEST_WHOLE_FLOAT:
        check.fail(
            argument,
            "must not hold floats of 2^53 or more: different whole numbers become the same float. "
            "Read this column as whole numbers or as text.",
        )
    return str(int(x)) if x.is_integer() else repr(x)


def _time_text(x: Any) -> str:
    if getattr(x, "tzinfo", None) is not None:
        x = x.astimezone(dt.timezone.utc).replace(tzinfo=None)
    moment = x.to_datetime64() if hasattr(x, "to_datetime64") else np.datetime64(x)
    if np.datetime_data(moment.dtype)[0] in "YM":
        moment = moment.astype("M8[D]")
    day, _, time = str(moment).partition("T")
    time = time + ":00" * (2 - time.count(":")) if time else ""
    time = time.rstrip("0").rstrip(".") if "." in time else time
    return day if time in ("", "00:00:00") else f"{day} {time}"


def leaf_keys(columns: Sequence[Codes]) -> np.ndarray:
    """A hash of the labels of each leaf, from one column per level, coarse to fine.

    The hash depends on the labels alone, not on the number of the leaf, because in a tree made from
    the records the numbers change with every leaf that another person adds.
    """
    keys = np.zeros(columns[0].codes.size, np.uint64)
    for c in columns:
        labels = c.codes if c.categories is None else c.categories
        hashed = public_hash(map(_label_text, as_objects(labels).tolist()))
        own = hashed if c.categories is None else np.append(hashed, np.uint64(0))[c.codes]
        keys = splitmix(keys ^ own)
    return keys


def _label_text(label: Any) -> str:
    """The text of a label of a leaf, which may be of any type."""
    try:
        return person_text("levels", label) or ""
    except (TypeError, ValueError):
        return repr(label)


def public_hash(texts: Iterable[str]) -> np.ndarray:
    """64 bits of BLAKE2b for each text, the same on every machine."""
    found = [
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        for text in texts
    ]
    return np.frombuffer(b"".join(found), "<u8").astype(np.uint64)
