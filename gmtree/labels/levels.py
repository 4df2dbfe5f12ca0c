"""Trees from columns of labels, one column per level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gmtree._kernels import tries as kernels
from gmtree._validate import fail, index_dtype, one_of, shown
from gmtree.labels.codes import Codes
from gmtree.labels.columns import (
    column_names,
    encode,
    encode_index,
    is_frame,
    listed_names,
    row_index,
    take_column,
)
from gmtree.labels.distinct import KEY, as_objects
from gmtree.labels.distinct import refuse_missing as refuse_missing_codes
from gmtree.labels.libraries import library

ROOT_LABEL = "total"
_SMALLEST_TABLE = 1 << 10


@dataclass(frozen=True, eq=False)
class LevelLabels:
    """Labels of the nodes of a tree made from levels, stored as codes and the labels of each level.

    The object behaves like an array of labels, and numpy functions convert it to one.

    Attributes
    ----------
    codes : array of int, one per node
        Code of each node's label within its level; integer labels stand for themselves.
    level : array of uint8 or uint32, one per node
        Level of each node, 0 for a root above all levels.
    categories : tuple
        For each level, the labels that its codes denote; None if the codes are the labels.
    kind : str or None
        The DataFrame library of the columns.
    """

    codes: np.ndarray
    level: np.ndarray
    categories: tuple[np.ndarray | None, ...]
    kind: str | None = None

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.codes.size

    @property
    def nbytes(self) -> int:
        """Bytes held, not counting the strings themselves."""
        held = [a.nbytes for a in self.categories if a is not None]
        return self.codes.nbytes + self.level.nbytes + sum(held)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, nodes: Any) -> Any:
        """The label of one node, or the labels of several nodes as `LevelLabels`."""
        if isinstance(nodes, (int, np.integer)):
            return self[[nodes]].tolist()[0]
        return replace(self, codes=self.codes[nodes], level=self.level[nodes])

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        out = np.empty(self.size, dtype=object)
        for k, categories in enumerate(self.categories):
            here = np.flatnonzero(self.level == k)
            codes = self.codes[here]
            out[here] = as_objects(codes if categories is None else categories[codes])
        return out if dtype is None else out.astype(dtype)

    def tolist(self) -> list[Any]:
        """All labels as Python objects."""
        return np.asarray(self).tolist()


class LevelTree(NamedTuple):
    """Parents, labels and level names, from which a `Tree` is made."""

    parent: np.ndarray
    labels: LevelLabels
    names: tuple[str, ...]
    node: np.ndarray  # the node at which each row ends
    from_records: bool = False  # whether the leaves are those that occur in records


def from_levels(
    columns: tuple[Any, ...], levels: Sequence[str] | None, missing: str, *, records: bool = False
) -> LevelTree:
    """A tree with one leaf per row, or per distinct row if `records` is true."""
    one_of("missing", missing, ("error", "stop"))
    coded, names, kind = read_levels(columns, levels)
    if missing == "error":
        refuse_missing(coded, names)
    made = build(coded, names, kind)._replace(from_records=records)
    inner = np.zeros(made.parent.size, bool)
    inner[made.parent[1:]] = True
    if missing == "stop" and (ends_inside := inner[made.node]).any():
        row = int(np.flatnonzero(ends_inside)[0])
        fail(
            "levels",
            f"must end every row at a leaf; row {row} ends at {path_of_row(coded, row)}, and "
            "other rows end below it.",
        )
    if not records and made.parent.size - np.count_nonzero(inner) < made.node.size:
        _refuse_repeated(made, coded)
    # If rows are not records, row k is leaf k: `node` is not needed, and sorting needs its memory.
    return made if records else made._replace(node=made.node[:0].copy())


def read_levels(
    columns: tuple[Any, ...], levels: Sequence[str] | None, *, may_be_empty: bool = False
) -> tuple[list[Codes], list[str], str | None]:
    """The columns as codes, the names of the levels, and the library of the columns."""
    names = None if levels is None else listed_names("levels", levels)
    kind = library(columns[0]) if columns else None
    if len(columns) == 1 and kind == "pandas" and hasattr(columns[0], "levels"):
        found = encode_index(columns[0])
        columns = tuple(codes for _, codes in found)
        if names is None:
            names = [f"level {k}" if name is None else name for k, (name, _) in enumerate(found)]
    elif len(columns) == 1 and is_frame(columns[0]):
        frame = columns[0]
        if names is None:
            names = column_names(frame)
        columns = tuple(take_column("levels", frame, name) for name in names)
    else:
        same_index([f"columns[{k}]" for k in range(len(columns))], columns)
    if not columns:
        fail("levels", "must give at least one level.")
    if names is None:
        names = [f"level {k}" for k in range(len(columns))]
    if len(names) != len(columns):
        fail("levels", f"must have one name per column ({len(columns)}), not {len(names)}.")
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        repeated = next(name for k, name in enumerate(texts) if name in texts[:k])
        fail("levels", f"must have distinct names; {repeated!r} occurs twice.")
    coded = [encode(name, c) for name, c in zip(texts, columns, strict=True)]
    for name, c in zip(texts, coded, strict=True):
        rows = coded[0].codes.size
        if c.codes.size != rows:
            fail(name, f"must have as many rows as {texts[0]!r} ({rows}), not {c.codes.size}.")
    if coded[0].codes.size == 0 and not may_be_empty:
        fail(texts[0], "must not be empty: a tree has at least one node.")
    return coded, texts, kind


def same_index(names: Sequence[str], columns: Sequence[Any]) -> None:
    """Refuse pandas columns with different indexes, since rows are matched by position."""
    indexes = [(name, row_index(c)) for name, c in zip(names, columns, strict=True)]
    indexes = [(name, index) for name, index in indexes if index is not None]
    for name, index in indexes[1:]:
        first, other = indexes[0]
        if len(index) == len(other) and not index.equals(other):
            fail(
                name, f"must have the same index as {first!r}, since rows are matched by position."
            )


def refuse_missing(coded: Sequence[Codes], names: Sequence[str]) -> None:
    """Refuse a row without a label, naming the row and the column."""
    for name, c in zip(names, coded, strict=True):
        if c.categories is not None:
            more = ". With missing='stop' a row may end above the last level."
            refuse_missing_codes(name, c.codes, "row", more)


def refuse_empty(coded: Sequence[Codes], names: Sequence[str]) -> None:
    """Refuse empty texts as labels, since in many tables they stand for missing labels."""
    for name, c in zip(names, coded, strict=True):
        if c.categories is None or c.categories.dtype.kind not in "OUT":
            continue
        empty = [k for k, x in enumerate(c.categories.tolist()) if isinstance(x, str) and not x]
        rows = np.flatnonzero(np.isin(c.codes, empty)) if empty else np.empty(0)
        if rows.size:
            fail(
                name,
                f"must have no empty texts; row {rows[0]} has ''. Use None for a missing label.",
            )


def refuse_total(made: LevelTree, coded: Sequence[Codes], names: Sequence[str]) -> None:
    """Refuse the label of the added root as one of several labels of the first level."""
    if made.labels.level[0] != 0:
        return
    first = coded[0]
    if first.categories is None or ROOT_LABEL not in first.categories.tolist():
        return
    rows = np.flatnonzero(first.codes == first.categories.tolist().index(ROOT_LABEL))
    if rows.size:
        fail(
            names[0],
            f"must not have {ROOT_LABEL!r} as one of several labels, because the root above them "
            f"has this label; row {rows[0]} has it. In the row of the total, leave the labels of "
            "all levels missing.",
        )


def path_of_row(coded: Sequence[Codes], row: int) -> str:
    """The labels of a row that are not missing, for an error message."""
    labels = [shown(x) for c in coded if (x := c.label(row)) is not None]
    return f"({', '.join(labels)})" if labels else "the total"


def _refuse_repeated(made: LevelTree, coded: Sequence[Codes]) -> None:
    """Raise an error that names the first row that ends at the leaf of an earlier row."""
    order = np.argsort(made.node, kind="stable")
    again = order[1:][np.diff(made.node[order]) == 0]
    row = int(again.min())
    earlier = int(np.flatnonzero(made.node == made.node[row])[0])
    fail(
        "levels",
        f"must have one row per leaf; row {row} repeats row {earlier}: {path_of_row(coded, row)}. "
        "Tree.from_records accepts repeated rows.",
    )


# --------------------------------------------------------------------------- paths


def build(coded: Sequence[Codes], names: Sequence[str], kind: str | None) -> LevelTree:
    """The tree of the paths of all rows, and the node at which each row ends.

    Rows may end at any level, but may not have a label below a missing one. Internal nodes are
    numbered level by level in order of appearance, and the leaves follow in order of appearance.
    """
    rows = coded[0].codes.size
    dtype = index_dtype(rows * (len(coded) + 1))
    above = np.zeros(rows, dtype)
    active: np.ndarray | None = None  # rows that have not ended yet; None means all rows
    parents = [np.full(1, -1, dtype)]
    codes, levels = [np.zeros(1, np.int32)], [0]
    categories: list[np.ndarray | None] = [np.array([ROOT_LABEL], dtype=object)]
    node = None
    offset = 0
    for depth, (name, c) in enumerate(zip(names, coded, strict=True)):
        categories.append(c.categories)
        stopped = c.missing
        if depth == 0 and stopped is None and (c.codes == c.codes[0]).all():
            codes, levels = [c.codes[:1].copy()], [1]
            continue
        code = c.codes
        if stopped is not None or active is not None:
            if node is None or active is None:
                node = np.zeros(rows, dtype)
                active = np.arange(rows, dtype=dtype)
            go_on, above, node = _stop(name, coded, depth, active, above, node, offset)
            active = active[go_on]
            code = code[active]
            if not active.size:
                fail(name, "must have at least one label; all labels of this column are missing.")
        parent, label = number_pairs(above, code)
        parent += dtype.type(offset)
        parents.append(parent)
        offset += parents[-2].size
        codes.append(label)
        levels.append(depth + 1)
    if node is None:
        above += dtype.type(offset)
        node = above
    else:
        node[active] = above + dtype.type(offset)
    sizes = [p.size for p in parents]
    level_dtype = np.uint8 if len(categories) < 256 else np.uint32
    parent = np.concatenate(parents)
    labels = LevelLabels(
        np.concatenate(codes),
        np.repeat(np.array(levels, level_dtype), sizes),
        tuple(categories),
        kind,
    )
    if active is not None:
        parent, labels, node = _leaves_last(parent, labels, node)
    return LevelTree(
        parent.astype(index_dtype(parent.size), copy=False), labels, tuple(names), node
    )


def _stop(
    name: str,
    coded: Sequence[Codes],
    depth: int,
    active: np.ndarray,
    above: np.ndarray,
    node: np.ndarray,
    offset: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask of the active rows that have a label at this level, their parents, and `node`.

    All other active rows end above this level, which is entered in `node`.
    """
    missing = coded[depth].missing
    if missing is None:
        missing = np.zeros(node.size, bool)
    gap = ~missing
    gap[active] = False
    if gap.any():
        row = int(np.flatnonzero(gap)[0])
        fail(
            name,
            f"must have no label below a missing one; row {row} has a gap. Levels go "
            "from coarse to fine.",
        )
    go_on = ~missing[active]
    ended = active[~go_on]
    node[ended] = above[~go_on] + node.dtype.type(offset)
    return go_on, above[go_on], node


def number_pairs(above: np.ndarray, code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parent and label code of each distinct pair; `above` becomes the number of each row's pair.

    Rows that are sorted by parent and code need no hash table.
    """
    rows = code.size
    # The kernels are compiled for signed codes only.
    code = np.ascontiguousarray(code, np.promote_types(code.dtype, np.int8))
    parent, label = np.empty(rows, above.dtype), np.empty(rows, code.dtype)
    distinct = int(kernels.descend_sorted(above, code, parent, label))
    if distinct >= 0:
        if distinct:
            kernels.number_sorted(above, code)
        return _kept(parent, label, distinct)
    # At most three quarters of the hash table are filled.
    largest = 1 << (rows + rows // 3 + 1).bit_length()
    size, row, distinct = min(_SMALLEST_TABLE, largest), 0, 0
    while row < rows:
        table = np.full(size, -1, above.dtype)
        with np.errstate(over="ignore"):  # as in `_factorize_texts`
            kernels.enter(table, parent, label, distinct, KEY)
            row, distinct = kernels.descend(row, above, code, table, parent, label, distinct, KEY)
        size = min(8 * size, largest)
    return _kept(parent, label, distinct)


def number_rows(coded: Sequence[Codes], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row of some columns, equal for equal rows, and the first row of each.

    Numbers are in order of appearance. Without columns, all `rows` rows are equal.
    """
    number = np.zeros(rows, np.int64)
    for c in coded:
        number_pairs(number, c.codes.astype(np.int64))
    first = np.empty(int(number.max(initial=-1)) + 1, np.int64)
    first[number[::-1]] = np.arange(rows - 1, -1, -1)
    return number, first


def _kept(parent: np.ndarray, label: np.ndarray, distinct: int) -> tuple[np.ndarray, np.ndarray]:
    """The entries in use, as a copy if a view would hold much unused memory."""
    if distinct < parent.size // 2:
        return parent[:distinct].copy(), label[:distinct].copy()
    return parent[:distinct], label[:distinct]


def _leaves_last(
    parent: np.ndarray, labels: LevelLabels, node: np.ndarray
) -> tuple[np.ndarray, LevelLabels, np.ndarray]:
    """Renumber the nodes so that leaves at different depths come in the order of the rows."""
    n = parent.size
    first = np.full(n, node.size, np.int64)
    first[node[::-1]] = np.arange(node.size - 1, -1, -1)
    inner = np.zeros(n, bool)
    inner[parent[1:]] = True
    # Internal nodes keep their order, and come before all leaves.
    first[inner] = -1
    order = np.argsort(first, kind="stable")
    rank = np.empty(n, parent.dtype)
    rank[order] = np.arange(n, dtype=parent.dtype)
    above = parent[order]
    return np.where(above < 0, above, rank[above]), labels[order], rank[node]
