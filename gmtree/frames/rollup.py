"""Sums of the rows of a frame at every level."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from gmtree import _validate as check
from gmtree.frames.doubts import doubts_about_levels, marked_labels, question_sums
from gmtree.frames.rows import listed
from gmtree.labels.codes import Codes
from gmtree.labels.columns import listed_names, numbers, take_column
from gmtree.labels.distinct import as_objects
from gmtree.labels.levels import from_levels, read_levels
from gmtree.labels.libraries import adapter, kind_of
from gmtree.matrix import MappingMatrix
from gmtree.tree import Tree
from gmtree.tree.table import label_columns

Frame = TypeVar("Frame")


def rollup_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str | Sequence[str],
    *,
    missing: str = "(missing)",
) -> Frame:
    """Sum the rows of a frame at every level of a hierarchy and return all sums in one frame.

    Parameters
    ----------
    frame : pandas or polars DataFrame, or pyarrow Table
        Records or leaves, in any order. Rows with the same labels are added up, so leave out
        rows that are sums already, such as totals.
    levels : list of str
        Columns of labels, coarse to fine.
    value : str or list of str
        One or more columns of numbers. Missing numbers count as 0.
    missing : str
        Label that replaces a missing label (None, NaN), so that no row is lost.

    Returns
    -------
    DataFrame or Table of the same library
        The columns `levels` and `value`, one row per node: the total, then each level. The columns
        of finer levels are missing in the row of a coarser node, as in :func:`reconcile_frame`. If
        the first column has a single label, the row of that label is the total. Sums of whole
        numbers are exact.

    Warns
    -----
    DataWarning
        If the levels seem to be given from fine to coarse, if a label, such as "All", looks like
        that of a sum, or if rows without a label seem to hold the sums of other rows.

    See Also
    --------
    reconcile_frame : for values that were measured at several levels and do not add up.

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> sold = pd.DataFrame({
    ...     "region": ["north", "north", "north", "south"],
    ...     "shop": ["a", "b", "a", None],
    ...     "sales": [5, 3, 2, 4],
    ... })
    >>> print(gm.rollup_frame(sold, levels=["region", "shop"], value="sales").to_string(na_rep=""))
      region       shop  sales
    0                       14
    1  north                10
    2  south                 4
    3  north          a      7
    4  north          b      3
    5  south  (missing)      4
    """
    kind = kind_of("frame", frame)
    names = listed_names("levels", levels)
    values = listed("value", value)
    if overlap := [name for name in values if name in names]:
        check.fail("value", f"must not name a level; {overlap[0]!r} is one.")
    coded, _, _ = read_levels((frame,), names)
    labelled = tuple(_with_label(c, missing) for c in coded)
    made = from_levels(labelled, names, "error", records=True)
    tree = Tree._from_level_tree(made)
    for doubt in doubts_about_levels(tree):
        warnings.warn(doubt, check.DataWarning, stacklevel=2)
    to_leaves = MappingMatrix(made.node - tree.n_internal, tree.n_leaves).T
    sums = {}
    for name in values:
        x = take_column("value", frame, name)
        try:
            sums[name] = tree.aggregate(to_leaves @ _numbers(name, x))
        except check.IntegerOverflowError:
            rule = "must have sums that fit into 64-bit integers."
            raise check.IntegerOverflowError(name, rule) from None
    if any(c.missing is not None for c in coded) and sums:
        nodes = marked_labels(tree, lambda label, _: label == missing)
        remedy = "Leave out rows that are sums already."
        doubt = question_sums(tree, np.column_stack([*sums.values()]).astype(float), nodes, remedy)
        if doubt:
            warnings.warn(doubt, check.DataWarning, stacklevel=2)
    return adapter(kind).frame({**label_columns(tree, (), kind), **sums})


def _with_label(c: Codes, label: str) -> Codes:
    """Replace missing labels by the given label."""
    if c.missing is None:
        return c
    assert c.categories is not None
    known = as_objects(c.categories).tolist()
    own = known.index(label) if label in known else len(known)
    categories = np.empty(max(len(known), own + 1), object)
    categories[: len(known)], categories[own] = known, label
    return Codes(np.where(c.codes < 0, own, c.codes), categories)


def _numbers(name: str, column: Any) -> np.ndarray:
    """A column as int64 if it holds whole numbers only, else as float64 with 0 for missing."""
    x = numbers(name, column)
    if (a := np.asarray(column)).dtype.kind in "iu":
        return a
    return np.where(np.isnan(x), 0, x)
