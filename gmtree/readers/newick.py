"""Trees in Newick text, ``((cat:1,lion:2)feline:3,dog:7);``, read and written without recursion."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import newick as kernels

_WRONG = {
    kernels.UNBALANCED: "every ')' and ',' must follow a '(' that is still open",
    kernels.UNCLOSED: "every '(' must be closed",
    kernels.NO_END: "a tree must end with ';'",
    kernels.COMMENT: "every comment '[' must be closed",
    kernels.QUOTED: "every quote must be closed",
    kernels.TWO_NAMES: "a node has at most one name, after its children and before its length",
    kernels.NO_LENGTH: "a node has at most one length, a number after ':'",
    kernels.MORE: "the text must hold one tree, with nothing after its ';'",
}
# Names with one of these characters need quotes. The byte order mark is one of them, because
# readers drop it at the beginning of a text, where the name of a single node would begin.
_NEEDS_QUOTES = re.compile(r"[\s()\[\]:;,'\ufeff]")


class NamesInText:
    """Names of nodes, stored as slices of the Newick text and converted to an array on demand.

    The entry of a node without a name is None. `underscores` states whether underscores stand for
    blanks, and `quoted` whether any name has quotes.
    """

    __slots__ = ("_quoted", "_start", "_stop", "_text", "_underscores")

    def __init__(
        self, text: bytes, start: np.ndarray, stop: np.ndarray, underscores: bool, quoted: bool
    ) -> None:
        self._text, self._start, self._stop = text, start, stop
        self._underscores, self._quoted = underscores, quoted

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (self.tolist(), object)

    def __len__(self) -> int:
        return self._start.size

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self._start.size

    def __getitem__(self, nodes: Any) -> Any:
        if isinstance(nodes, (int, np.integer)):
            return self[[nodes]].tolist()[0]
        return NamesInText(
            self._text, self._start[nodes], self._stop[nodes], self._underscores, self._quoted
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        out = np.array(self.tolist(), dtype=object)
        return out if dtype is None else out.astype(dtype)

    def tolist(self) -> list[str | None]:
        """The names."""
        text = self._text
        pairs = zip(self._start.tolist(), self._stop.tolist(), strict=True)
        raw = [text[a:b].decode("utf-8") if b > a else None for a, b in pairs]
        if not (self._underscores or self._quoted):
            return raw
        return [None if name is None else self._clean(name) for name in raw]

    def _clean(self, name: str) -> str:
        if name[0] == "'":
            return name[1:-1].replace("''", "'")
        return name.replace("_", " ") if self._underscores else name


def parse(
    text: Any, convert_underscores: bool
) -> tuple[np.ndarray, NamesInText | None, np.ndarray | None]:
    """Parents, names and lengths of a tree; names or lengths are None if no node has one."""
    check.flag("convert_underscores", convert_underscores)
    raw = _bytes(text)
    data = np.frombuffer(raw, np.uint8)
    most = int(kernels.count_nodes(data))
    index = check.index_dtype(max(most, data.size))
    parent = np.full(most, -1, index)
    start, stop, place = (np.zeros(k * most, index) for k in (1, 1, 2))
    number = np.full(most, np.nan)
    n, where = kernels.parse(data, parent, start, stop, place, number)
    if n < 0:
        seen = raw[max(0, where - 20) : where + 20].decode("utf-8", "replace")
        check.fail("text", f"must be Newick text: {_WRONG[n]}; see byte {where}, in {seen!r}.")
    parent, start, stop, number = parent[:n], start[:n], stop[:n], number[:n]
    lengths = _lengths(raw, place[: 2 * n].reshape(n, 2), number)
    labels = None
    if stop.any():
        _check_text(raw)
        quoted = bool((data[start[stop > start]] == kernels.QUOTE).any())
        labels = NamesInText(raw, start.copy(), stop.copy(), convert_underscores, quoted)
    return parent.astype(check.index_dtype(n)), labels, lengths


def _check_text(raw: bytes) -> None:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        check.fail("text", f"must be encoded as UTF-8: {error}.")


def _lengths(raw: bytes, place: np.ndarray, number: np.ndarray) -> np.ndarray | None:
    given = place[:, 1] > 0
    if not given.any():
        return None
    for i in np.flatnonzero(given & np.isnan(number)).tolist():
        written = raw[place[i, 0] : place[i, 1]].decode("utf-8", "replace")
        try:
            if "_" in written:
                raise ValueError
            number[i] = float(written)
        except ValueError:
            check.fail(
                "text", f"must have numbers as lengths; the length of node {i} is {written!r}."
            )
    if not given[0]:
        number[0] = 0
    return number.copy()


def _bytes(text: Any) -> bytes:
    if hasattr(text, "read"):
        text = text.read()
    elif isinstance(text, os.PathLike):
        text = Path(text).read_bytes()
    elif isinstance(text, str) and not set("();") & set(text):
        path = Path(text)
        if not path.is_file():
            check.fail(
                "text", f"must be Newick text or the path of a file; there is no file {text!r}."
            )
        text = path.read_bytes()
    if isinstance(text, str):
        text = text.encode()
    if not isinstance(text, (bytes, bytearray)):
        check.fail_type("text", f"must be text or the path of a file, not {type(text).__name__}.")
    if text[:2] == b"\x1f\x8b":
        try:
            text = gzip.decompress(text)
        except (OSError, EOFError, zlib.error):
            check.fail("text", "must be Newick text; it begins like a gzip file, but is damaged.")
    return bytes(text).removeprefix(b"\xef\xbb\xbf")


# --------------------------------------------------------------------------- writing


def write(tree: Any, length: Any, names: bool) -> str:
    """Newick text of a tree."""
    label = [""] * tree.n
    if check.flag("names", names) and tree.labels is not None:
        label = ["" if x is None else _quoted(str(x)) for x in tree.labels.tolist()]
    lengths = tree.edge_length if length is None else None
    if length is not None and length is not False:
        lengths = check.values("length", length, tree.n, columns=False)
    if lengths is not None:
        finite = np.isfinite(lengths)
        finite[tree.root] &= lengths[tree.root] != 0
        for i in np.flatnonzero(finite).tolist():
            label[i] += f":{lengths[i].item()!r}"
    start, child = (a.tolist() for a in tree._children)
    pieces: list[str] = []
    # Stack of nodes to write; ~i stands for the text that follows the children of i.
    waiting = [tree.root]
    while waiting:
        i = waiting.pop()
        if i < 0:
            pieces.append(f"){label[~i]}")
        elif start[i] == start[i + 1]:
            pieces.append(label[i])
        else:
            pieces.append("(")
            waiting.append(~i)
            waiting += reversed(child[start[i] : start[i + 1]])
            continue
        if waiting and waiting[-1] >= 0:
            pieces.append(",")
    return "".join(pieces) + ";"


def _quoted(name: str) -> str:
    if name and not _NEEDS_QUOTES.search(name):
        return name
    return "'" + name.replace("'", "''") + "'"
