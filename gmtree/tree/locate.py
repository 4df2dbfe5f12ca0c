"""Find the nodes that belong to labels in the columns of a DataFrame or in a pandas index.

Rows are matched by label, never by position. A label is refused if the tree does not have it, if
several nodes share it, or if it occurs twice. The error names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmtree._validate import Node, counts_rows, fail, shown
from gmtree.labels.codes import Codes
from gmtree.labels.columns import (
    column_names,
    encode,
    encode_index,
    is_frame,
    row_index,
    take_column,
)
from gmtree.labels.distinct import concatenate, factorize
from gmtree.labels.levels import ROOT_LABEL, LevelLabels, number_pairs, path_of_row
from gmtree.labels.libraries import library
from gmtree.tree.kinship import TreeKinship

# Columns that `to_frame` writes in addition to labels and values.
STRUCTURE = ("node", "parent", "depth")


def label_names(tree: TreeKinship) -> tuple[str, ...]:
    """Names of the columns that hold the labels of a tree."""
    if tree.level_names is not None:
        return tree.level_names
    return () if tree.labels is None else ("label",)


def level_names(tree: TreeKinship) -> list[str | None]:
    """Names of the levels from the root down: "total" for an added root, None if unnamed."""
    names = tree.level_names or ()
    root = ROOT_LABEL if names and ROOT_LABEL not in names else None
    return [root] * (tree.height - len(names)) + list(names)


def level_codes(tree: TreeKinship, k: int) -> Codes:
    """Label of the ancestor of each node at level k, counted from 0; -1 for nodes above this level.

    A node counts as its own ancestor.
    """
    assert tree.level_names is not None
    depth = tree.height - len(tree.level_names) + k + 1
    nodes = np.flatnonzero(tree.depth == depth)
    own = tree._labels[nodes]
    if isinstance(own, LevelLabels):
        # The number of a level is that of the column from which its nodes came.
        here = Codes(own.codes, own.categories[int(own.level[0])])
    else:
        here = encode("labels", np.asarray(own))
    here = here.with_categories()
    found = np.full(tree.n, -1, here.codes.dtype)
    found[nodes] = here.codes
    for deeper in range(depth + 1, tree.height + 1):
        nodes = np.flatnonzero(tree.depth == deeper)
        found[nodes] = found[tree.parent[nodes]]
    return Codes(found, here.categories)


def locate(
    tree: TreeKinship,
    argument: str,
    columns: Sequence[tuple[str, Codes]],
    *,
    tell: bool = True,
    ignore: bool = False,
) -> np.ndarray:
    """The node of each row, given columns with names from :func:`label_names`.

    A row belongs to the node of the last level for which it has a label. Columns of levels above
    may be left out if only one node has the label. If `tell` is false, error messages contain no
    labels. If `ignore` is true, rows with unknown labels get -1.
    """
    names = label_names(tree)
    order = sorted(columns, key=lambda item: names.index(item[0]))
    coded = [c for _, c in order]
    rows = coded[0].codes.size
    if tree.level_names is None:
        nodes = np.arange(tree.n)
        theirs = [encode("labels", tree.labels)]
        return _find(argument, theirs, nodes, coded, np.arange(rows), tell, ignore)
    level = _deepest(argument, coded, tell)
    out = np.full(rows, tree.root, np.int64)
    unnamed = tree.height - len(names)
    sides: dict[int, Codes] = {}
    for j in np.unique(level[level >= 0]).tolist():
        used = [names.index(name) for name, _ in order[: j + 1]]
        for k in used:
            if k not in sides:
                sides[k] = level_codes(tree, k)
        nodes = np.flatnonzero(tree.depth == unnamed + used[-1] + 1)
        here = np.flatnonzero(level == j)
        theirs = [Codes(sides[k].codes[nodes], sides[k].categories) for k in used]
        out[here] = _find(argument, theirs, nodes, coded[: j + 1], here, tell, ignore)
    return out


def _deepest(argument: str, coded: Sequence[Codes], tell: bool) -> np.ndarray:
    """The last column in which each row has a label, or -1; gaps before it are refused."""
    level = np.full(coded[0].codes.size, len(coded) - 1)
    for j in range(len(coded) - 1, -1, -1):
        missing = coded[j].missing
        if missing is None:
            continue
        gap = missing & (level > j)
        if gap.any():
            row = int(np.flatnonzero(gap)[0])
            what = f": {path_of_row(coded, row)}" if tell else ""
            fail(
                argument,
                f"must have no label below a missing one; row {row} has{what}. Levels go from "
                "coarse to fine.",
            )
        level[missing] = j - 1
    return level


def _find(
    argument: str,
    theirs: Sequence[Codes],
    nodes: np.ndarray,
    coded: Sequence[Codes],
    rows: np.ndarray,
    tell: bool,
    ignore: bool,
) -> np.ndarray:
    """Find for each of the given rows the node that has its labels.

    `theirs` holds the labels of `nodes`, and `coded` those of all rows, one column per level.
    """
    m = nodes.size
    number = np.zeros(m + rows.size, np.int64)
    unknown = np.zeros(rows.size, bool)
    for a, b in zip(theirs, coded, strict=True):
        a = a.with_categories()
        known = _translate(a, Codes(b.codes[rows], b.categories))
        unknown |= known < 0
        number_pairs(number, np.concatenate([a.codes.astype(np.int64), known]))
    mine, wanted = number[:m], number[m:]
    where = np.full(int(number.max()) + 1, -1, np.int64)
    where[mine] = nodes
    found = where[wanted]
    found[unknown] = -1
    if (found < 0).any():
        hint = different_kinds(theirs, coded)
        if hint or not ignore:
            row = int(rows[np.flatnonzero(found < 0)[0]])
            what = f": {path_of_row(coded, row)}" if tell else ""
            fail(
                argument,
                f"must have labels of the tree; row {row} has unknown labels{what}.{hint}",
            )
    several = (np.bincount(mine, minlength=where.size) > 1)[wanted] & (found >= 0)
    if several.any():
        row = int(rows[np.flatnonzero(several)[0]])
        what = f"row {row}" + (f", {path_of_row(coded, row)}," if tell else "")
        fail(
            argument,
            f"must identify one node in each row; {what} matches several nodes. Add the columns of "
            "the levels above.",
        )
    return found


def different_kinds(theirs: Sequence[Codes], coded: Sequence[Codes], owner: str = "tree") -> str:
    """A hint for an error message if either side has texts such as '35' and the other has numbers.

    The hint may be shown even if labels are secret, since it reveals only the type of a column.
    """
    for a, b in zip(theirs, coded, strict=True):
        owner_has, column_has = _texts_or_numbers(a), _texts_or_numbers(b)
        if {owner_has, column_has} == {"texts", "numbers"}:
            return f" The labels of the {owner} are {owner_has}, those of the column {column_has}."
    return ""


def _texts_or_numbers(c: Codes) -> str:
    """The word "texts" or "numbers" if all labels are of this kind; else an empty text."""
    labels = c.codes if c.categories is None else c.categories
    if labels.dtype.kind in "iuf":
        return "numbers"
    texts = labels.dtype.kind in "UT" or all(isinstance(x, str) for x in labels.tolist())
    return "texts" if texts else ""


def _translate(a: Codes, b: Codes) -> np.ndarray:
    """The labels `b` in the codes of `a`; -1 for labels that `a` does not have."""
    b = b.with_categories()
    assert a.categories is not None
    assert b.categories is not None
    codes, _ = factorize("labels", concatenate(a.categories, b.categories))
    m = a.categories.size
    table = np.full(max(codes.size, 1), -1, np.int64)
    table[codes[:m][::-1]] = np.arange(m)[::-1]
    # Missing labels have the code -1, which selects the last entry.
    to = np.append(table[codes[m:]], -1)
    return to[b.codes]


# --------------------------------------------------------------------------- vectors


def align(tree: TreeKinship, argument: str, x: Any, per: str, *, tell: bool = True) -> Any:
    """Values in the order of the tree's nodes or leaves, matched by their own labels.

    In a DataFrame with columns of labels, the other columns are values. Values without labels are
    returned unchanged: arrays, lists, columns of polars and pyarrow, and pandas objects whose index
    is 0, 1, 2, ...
    """
    found = None if isinstance(x, (np.ndarray, list, tuple)) else _labels_of(tree, argument, x)
    return x if found is None else _arrange(tree, argument, *found, per, tell)


def nodes_of_labels(
    tree: TreeKinship, argument: str, x: Any
) -> tuple[np.ndarray, np.ndarray] | None:
    """Nodes and values of the rows of a Series or DataFrame; None if it has no labels."""
    found = _labels_of(tree, argument, x)
    if found is None:
        return None
    columns, values = found
    node = locate(tree, argument, columns)
    rows_of_nodes(tree, argument, node, [c for _, c in columns])
    return node, values


def _labels_of(
    tree: TreeKinship, argument: str, x: Any
) -> tuple[list[tuple[str, Codes]], np.ndarray] | None:
    """Columns of labels and an array of values; None if the Series or DataFrame has no labels."""
    if library(x) is None:
        return None
    names = label_names(tree)
    if is_frame(x):
        present = [name for name in column_names(x) if name in names]
        if present:
            others = [n for n in column_names(x) if n not in names and n not in STRUCTURE]
            if not others:
                fail(argument, "must have a column of values, besides the columns of labels.")
            columns = [(name, encode(name, take_column(argument, x, name))) for name in present]
            values = np.column_stack([np.asarray(x[name]) for name in others])
            return columns, values[:, 0] if len(others) == 1 else values
    index = row_index(x)
    if index is None or counts_rows(index):
        return None
    return index_columns(tree, argument, index), x.to_numpy()


def index_columns(tree: TreeKinship, argument: str, index: Any) -> list[tuple[str, Codes]]:
    """Columns of labels from a pandas index, whose names must be names of levels."""
    names = label_names(tree)
    found = encode_index(index)
    how = "; pass its .to_numpy() if its rows are in the order of the tree"
    if not names:
        fail(argument, f"must have no labels, because the tree has no labels{how}.")
    if all(name is None for name, _ in found) and len(found) <= len(names):
        if len(found) == 1 and found[0][1].categories is None:
            # Unnamed whole numbers may be labels, or row numbers of a DataFrame that lost some
            # rows.
            fail(
                argument,
                "must have a named index if the whole numbers in it are labels; "
                f"its name must be {names[0]!r}{how}.",
            )
        if len(found) == 1 and tree.level_names is not None:
            codes = _root_as_missing(tree, found[0][1])
            _refuse_deeper(tree, argument, codes)
            return [(names[0], codes)]
        return [(name, codes) for name, (_, codes) in zip(names, found, strict=False)]
    for name, _ in found:
        if name not in names and not (names == ("label",) and len(found) == 1):
            listed = ", ".join(map(repr, names))
            fail(argument, f"must have an index named after {listed}, not {name!r}{how}.")
    if names == ("label",):
        return [("label", found[0][1])]
    if len(found) == 1 and found[0][0] == names[0]:
        return [(names[0], _root_as_missing(tree, found[0][1]))]
    return [(str(name), codes) for name, codes in found]


def _root_as_missing(tree: TreeKinship, c: Codes) -> Codes:
    """Labels of the first level, with the label of an added root replaced by a missing label."""
    if c.categories is None or tree.height == len(label_names(tree)):
        return c
    known = _translate(level_codes(tree, 0), Codes(np.arange(c.categories.size), c.categories))
    label = tree._labels[tree.root]
    place = [k for k, x in enumerate(c.categories.tolist()) if type(x) is str and x == label]
    if not place or known[place[0]] >= 0:
        return c
    return Codes(np.where(c.codes == place[0], -1, c.codes), c.categories)


def _refuse_deeper(tree: TreeKinship, argument: str, c: Codes) -> None:
    """Refuse an index of one unnamed level if its labels belong to finer levels of the tree."""
    names = label_names(tree)
    unknown = _translate(level_codes(tree, 0), c) < 0
    unknown[c.codes < 0] = False
    for k in range(1, len(names)) if unknown.any() else ():
        deeper = np.flatnonzero(unknown & (_translate(level_codes(tree, k), c) >= 0))
        if deeper.size:
            listed = ", ".join(map(repr, names))
            fail(
                argument,
                f"must have a MultiIndex with the levels {listed}, with missing labels below the "
                f"level of a node; row {deeper[0]} has only a label of level "
                f"{names[k]!r}. An index of one level must have the name of the level.",
            )


def _arrange(
    tree: TreeKinship,
    argument: str,
    columns: list[tuple[str, Codes]],
    values: np.ndarray,
    per: str,
    tell: bool,
) -> np.ndarray:
    """Values in the order of the nodes or leaves, each of which must occur exactly once."""
    node = locate(tree, argument, columns, tell=tell)
    coded = [c for _, c in columns]
    row_of = rows_of_nodes(tree, argument, node, coded, tell)
    if per == "leaf":
        inner = tree.child_count[node] > 0
        if inner.any():
            row = int(np.flatnonzero(inner)[0])
            what = f" ({path_of_row(coded, row)})" if tell else ""
            fail(argument, f"must have one row per leaf; row {row}{what} is not a leaf.")
        row_of = row_of[tree.leaves]
    if (row_of < 0).any():
        place = int(np.flatnonzero(row_of < 0)[0])
        i = int(tree.leaves[place]) if per == "leaf" else place
        which = _named(tree, i) if tell else f"at least one {per}"
        fail(argument, f"must have a row for every {per}; {which} has none.")
    return values[row_of]


def rows_of_nodes(
    tree: TreeKinship, argument: str, node: np.ndarray, coded: Sequence[Codes], tell: bool = True
) -> np.ndarray:
    """The row of each node, or -1 if it has none; a second row for a node is refused."""
    row_of = np.full(tree.n, -1, np.int64)
    row_of[node] = np.arange(node.size)
    again = row_of[node] != np.arange(node.size)
    if again.any():
        row = int(np.flatnonzero(again)[0])
        what = f"node {path_of_row(coded, row)}" if tell else "the same node"
        rows = f"rows {row} and {row_of[node[row]]}"
        fail(argument, f"must have each label once; {rows} belong to {what}.")
    return row_of


def path_names(tree: TreeKinship, i: int) -> list[str]:
    """Names of the nodes from the root down to node i; a node without a label has its number."""
    nodes = [*tree.ancestors(i)[::-1].tolist(), i]
    return [f"({k})" if x is None else str(x) for k, x in zip(nodes, tree.path(i), strict=True)]


def _named(tree: TreeKinship, i: int) -> str:
    return " / ".join(path_names(tree, i))


def node_in_error(tree: TreeKinship, i: int) -> Node:
    """A node for an error message: its number, and its path if it has labels."""
    return Node(i, path="" if tree.labels is None else shown(_named(tree, i)))
