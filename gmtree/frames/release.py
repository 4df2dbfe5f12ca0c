"""Private counts from frames of counts or of records."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.frames.leaves import tree_of_levels, turned_round
from gmtree.labels.columns import Codes, encode, library, take_column
from gmtree.labels.distinct import by_sorted_label, factorize
from gmtree.labels.levels import from_levels, read_levels
from gmtree.labels.locate import locate
from gmtree.labels.table import kind_of
from gmtree.privacy.budget import Enforced
from gmtree.privacy.people import bounds_of, hash_labels, kept_records
from gmtree.privacy.release import Release, release
from gmtree.tree import Tree


def release_frame(
    frame: Any,
    levels: Sequence[str],
    *,
    count: str | None = None,
    person: str | None = None,
    max_contributions: int | None = None,
    max_leaves: int | None = None,
    max_per_leaf: int | None = None,
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
        Column of counts, whole numbers; negative ones become 0, or are refused with
        ``neighbors="change_one"``. By default every row is a record and counts one.
    person : str, optional
        Column that tells whose record a row is, by labels of any kind. Then the bounds below are
        enforced, not only promised, by leaving out further records: see Notes.
    max_contributions : int, optional
        Most records of one person that count; 1 by default, or `max_leaves` times `max_per_leaf`.
    max_leaves : int, optional
        With `person`: most leaves in which records of one person count.
    max_per_leaf : int, optional
        Most records of one person that count in one leaf. For budgets in rho this costs less than
        `max_contributions` alone.
    tree : frame or Tree
        All leaves that could have a count, chosen without looking at the data: a frame with a row
        for each, or a tree with these levels. Leaves that `frame` does not have count 0.
    leaves_are_public : bool
        Make the tree of the leaves in `frame` instead: say so only if everyone may know which
        leaves have a row. The ledger names that as outside the guarantee.
    ignore_unknown : bool
        Leave out rows whose leaf is not in `tree`, rather than to refuse them. Labels are compared
        exactly, with blanks and leading zeros. Nothing tells how many rows were left out.
    **options
        Of :func:`gmtree.release`: `epsilon` or `rho`, `account`, `nonnegative`, `integer` and so
        on. The values are fractions, and may be negative, unless you ask for others.

    Returns
    -------
    Release
        ``.to_frame()`` gives a frame of the kind that came in (for a `Tree`, the kind that it was
        made from); ``.ledger`` tells what was spent.

    Warns
    -----
    UserWarning
        If the levels seem to come from fine to coarse, before anything is drawn.

    Notes
    -----
    No message of an error tells a label or a count of `frame`.

    *Whose records stay* is decided by a fixed public rule that looks at one person at a time: the
    leaves of a person are put in the order of a hash (BLAKE2b, splitmix64) of the person's label
    and the number of the leaf, and records are taken leaf by leaf until a bound is reached. The
    order of rows and the records of others do not matter, and no leaf is favoured. If a bound is
    promised only (no `person`), that is on whoever calls this, and the ledger says so.

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
    # That nobody has a record must not be seen from an error.
    coded, names, _ = read_levels((frame,), levels, may_be_empty=tree is not None)
    counts = None if count is None else _counts(frame, count)
    if person is not None and count is not None:
        check.fail("person", "must be None where 'count' is given: a row must be one record.")
    bounds = bounds_of(
        person is not None, max_contributions, max_leaves, max_per_leaf, options.get("neighbors")
    )
    whose = None if person is None else _whose(frame, person)
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
        tree = tree_of_levels(tree, names)
        if ignore_unknown and options.get("neighbors") == "change_one":
            check.fail(
                "ignore_unknown",
                "must be False with neighbors='change_one': there the number of records is "
                "public, and would tell how many were left out.",
            )
        columns = list(zip(names, coded, strict=True))
        node = locate(tree, "frame", columns, tell=False, ignore=ignore_unknown)
        counts = None if counts is None else counts[node >= 0]
        whose = None if whose is None else (whose[0][node >= 0], whose[1])
        node = node[node >= 0]
        if tree.child_count[node].any():
            row = int(np.flatnonzero(tree.child_count[node])[0])
            check.fail("frame", f"must have a leaf in each row; row {row} stops above one.")
        leaf = np.searchsorted(tree.leaves, node)
    if doubt := turned_round(tree):
        warnings.warn(doubt, UserWarning, stacklevel=2)
    if whose is not None:
        leaf = leaf[kept_records(leaf, *whose, bounds)]
    if counts is None:
        total: Any = np.bincount(leaf, minlength=tree.n_leaves)
    else:
        seen = np.bincount(leaf, minlength=tree.n_leaves)
        if seen.max() > 1:
            check.fail("frame", "must have each leaf once where 'count' is given; some come twice.")
        total = np.zeros(tree.n_leaves, counts.dtype)
        total[leaf] = counts
    most = bounds.records
    options["max_contributions"] = most if person is None else Enforced(most)
    options["max_per_leaf"] = None if max_per_leaf is None else min(bounds.per_leaf, most)
    return release(tree, total, **options)


def _whose(frame: Any, person: str) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row's person, and a hash of each person's label."""
    coded = encode("person", take_column("person", frame, person))
    if coded.missing is not None:
        row = int(np.flatnonzero(coded.missing)[0])
        check.fail("person", f"must be known in each row; row {row} has none.")
    number, first = factorize("person", coded.codes)
    labels = coded.codes if coded.categories is None else coded.categories
    rows = first if coded.categories is None else coded.codes[first]
    return number.astype(np.int64), hash_labels(labels[rows])


def _counts(frame: Any, count: str) -> np.ndarray:
    column = take_column("count", frame, count)
    a = np.asarray(column.to_numpy() if library(column) else column)
    if a.dtype == object or a.dtype.kind not in "iu":
        check.fail_type(
            "count",
            "must name a column of whole numbers, none of them missing. Whole floats become "
            "integers with .astype(int).",
        )
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
