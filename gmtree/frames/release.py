"""Private counts from frames of counts or of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.columns import Codes, library, take_column
from gmtree.labels.distinct import by_sorted_label, factorize
from gmtree.labels.levels import from_levels, read_levels
from gmtree.labels.locate import locate
from gmtree.labels.table import kind_of
from gmtree.privacy.release import Release, release
from gmtree.tree import Tree


def release_frame(
    frame: Any,
    levels: Sequence[str],
    *,
    count: str | None = None,
    tree: Any = None,
    leaves_are_public: bool = False,
    ignore_unknown: bool = False,
    **options: Any,
) -> Release:
    """Publish the counts of a frame with differential privacy.

    Parameters
    ----------
    frame : frame of pandas, polars or pyarrow
        Records, one row each, or one row per leaf with a column of counts. Rows may come in any
        order.
    levels : list of str
        Columns of labels, coarse to fine.
    count : str, optional
        Column of counts, whole numbers; by default every row is a record and counts one.
    tree : frame or Tree
        All leaves that could have a count, chosen without looking at the data: a frame with a row
        for each, or a tree with these levels. Leaves that `frame` does not have count 0.
    leaves_are_public : bool
        Make the tree of the leaves in `frame` instead: say so only if everyone may know which
        leaves have a row. The ledger names that as outside the guarantee.
    ignore_unknown : bool
        Leave out rows whose leaf is not in `tree`, rather than to refuse them.
    **options
        Of :func:`gmtree.release`: `epsilon` or `rho`, `nonnegative`, `integer` and so on.

    Returns
    -------
    Release
        ``.to_frame()`` gives a frame of the kind that came in (for a `Tree`, the kind that it was
        made from); ``.ledger`` tells what was spent.

    Notes
    -----
    No message of an error tells a label or a count of `frame`.

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> people = pd.DataFrame({"state": ["NY", "VT", "NY"], "county": ["Kings", "Orange", "Kings"]})
    >>> public = pd.DataFrame({
    ...     "state": ["NY", "NY", "VT"], "county": ["Kings", "Orange", "Orange"]
    ... })
    >>> r = gm.release_frame(people, ["state", "county"], tree=public, epsilon=1)
    >>> r.to_frame()[["state", "county"]].iloc[-1].tolist()
    ['VT', 'Orange']
    """
    kind = kind_of("frame", frame)
    check.flag("leaves_are_public", leaves_are_public)
    check.flag("ignore_unknown", ignore_unknown)
    coded, names, _ = read_levels((frame,), levels)
    counts = None if count is None else _counts(frame, count)
    if tree is None:
        if not leaves_are_public:
            check.fail(
                "tree",
                "must list the leaves, in a frame or a Tree: those in the data may tell who is "
                "in it. If everyone may know which leaves have a row, say leaves_are_public=True.",
            )
        tree, leaf = _tree_of_rows(coded, names, kind)
    else:
        if leaves_are_public:
            check.fail("leaves_are_public", "must be False where 'tree' lists the leaves.")
        if not isinstance(tree, Tree):
            tree = Tree.from_levels(tree, levels=levels, missing="stop")
        if tree.level_names != tuple(names):
            check.fail("tree", f"must have the levels {names}, not {tree.level_names}.")
        if ignore_unknown and options.get("neighbors") == "change_one":
            check.fail(
                "ignore_unknown",
                "must be False with neighbors='change_one': there the number of records is "
                "public, and would tell how many were left out.",
            )
        columns = list(zip(names, coded, strict=True))
        node = locate(tree, "frame", columns, tell=False, ignore=ignore_unknown)
        counts = None if counts is None else counts[node >= 0]
        node = node[node >= 0]
        if tree.child_count[node].any():
            row = int(np.flatnonzero(tree.child_count[node])[0])
            check.fail("frame", f"must have a leaf in each row; row {row} stops above one.")
        leaf = np.searchsorted(tree.leaves, node)
    if counts is None:
        total: Any = np.bincount(leaf, minlength=tree.n_leaves)
    else:
        seen = np.bincount(leaf, minlength=tree.n_leaves)
        if seen.max() > 1:
            check.fail("frame", "must have each leaf once where 'count' is given; some come twice.")
        total = np.zeros(tree.n_leaves, counts.dtype)
        total[leaf] = counts
    return release(tree, total, **options)


def _counts(frame: Any, count: str) -> np.ndarray:
    column = take_column("count", frame, count)
    a = np.asarray(column.to_numpy() if library(column) else column)
    if a.dtype == object or a.dtype.kind not in "iu":
        check.fail_type("count", "must name a column of whole numbers, none of them missing.")
    return a


def _tree_of_rows(coded: list[Codes], names: list[str], kind: str) -> tuple[Tree, np.ndarray]:
    """A tree of the leaves that occur, by sorted label, and the leaf of each row.

    The order of rows, which may depend on who is in the data, must not be seen in the tree.
    """
    ranks = []
    for c in coded:
        codes, first = factorize("levels", c.codes)
        distinct = c.codes[first] if c.categories is None else c.categories[c.codes[first]]
        ranks.append(by_sorted_label(distinct, np.arange(first.size))[codes])
    order = np.lexsort(ranks[::-1])
    made = from_levels(
        tuple(Codes(c.codes[order], c.categories) for c in coded), names, "error", records=True
    )
    made = made._replace(labels=replace(made.labels, kind=kind))
    tree = Tree._from_level_tree(made)
    leaf = np.empty(order.size, np.int64)
    leaf[order] = made.node - tree.n_internal
    return tree, leaf
