"""The values of a frame checked against each other, the most suspicious first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.consistency.diagnostics import COLUMNS, worst_first
from gmtree.frames.reconcile import Frame
from gmtree.frames.rows import alike, measured_rows
from gmtree.labels.codes import Codes
from gmtree.labels.columns import take_column
from gmtree.labels.libraries import adapter, kind_of


def diagnose_frame(
    frame: Frame,
    levels: Sequence[str],
    value: str,
    *,
    variance: Any = None,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
) -> Frame:
    """Compare each value of a frame with the value that all other values imply, worst first.

    Parameters
    ----------
    frame, levels, value, variance, by, tree, threads
        See :func:`reconcile_frame`; `value` is one column. Without `variance` only the order of the
        standardised residuals is meaningful, with `variance` also their size.

    Returns
    -------
    DataFrame or Table of the same library
        One row for each row of `frame`, by descending size of ``standardized``. The columns are
        `by` and `levels`, followed by ``measured``, ``reconciled``, ``residual``,
        ``standardized``, ``leave_one_out``, ``leave_one_out_std_error`` and ``leverage``: see
        :meth:`Consistency.diagnose`. Rows without a value, and those that no other value can
        check, come last.

    Examples
    --------
    One shop has reported 57 instead of 75. Its sibling has the same standardised residual, because
    the other values only check the sum of the two:

    >>> import pandas as pd, gmtree as gm
    >>> sold = pd.DataFrame({
    ...     "region": [None, "north", "north", "north", "south", "south", "south"],
    ...     "shop": [None, None, "a", "b", None, "c", "d"],
    ...     "sales": [180.0, 116.0, 57.0, 40.0, 66.0, 33.0, 32.0],
    ... })
    >>> found = gm.diagnose_frame(sold, levels=["region", "shop"], value="sales", variance=1)
    >>> found[["region", "shop", "measured", "leave_one_out", "standardized"]].round(1).head(2)
      region shop  measured  leave_one_out  standardized
    0  north    a      57.0           75.4         -11.3
    1  north    b      40.0           58.4         -11.3
    """
    kind = kind_of("frame", frame)
    order, found = suspects(frame, levels, value, variance, by=by, tree=tree, threads=threads)
    return adapter(kind).frame(taken(kind, found, order))


def taken(kind: str, columns: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Return some rows of columns; a column may be of any library, an array, or codes of labels."""
    library, made = adapter(kind), {}
    for name, x in columns.items():
        if isinstance(x, Codes):
            made[name] = library.label_column(x.take(rows).with_categories())
        else:
            made[name] = x[rows] if isinstance(x, np.ndarray) else library.take(x, rows)
    return made


def suspects(
    frame: Any,
    levels: Sequence[str],
    value: str,
    variance: Any,
    *,
    by: str | Sequence[str] = (),
    tree: Any = None,
    threads: int | None = None,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Do the work of :func:`diagnose_frame` for any object that has columns by name.

    Returns the rows by descending size of their standardised residuals, and the columns of the
    report in the order of the rows of `frame`.
    """
    if not isinstance(value, str):
        check.fail_type("value", f"must be the name of one column, not {value!r}.")
    rows = measured_rows(frame, levels, value, variance, by, tree, "'by'")
    for argument, names in (("by", rows.by), ("levels", rows.levels)):
        if same := [name for name in names if name in COLUMNS]:
            check.fail(argument, f"must not have the name of a column of the report: {same[0]!r}.")
    found = np.empty((len(COLUMNS), *rows.noisy.shape))
    s = rows.variance
    for same in alike(*([] if s is None else [s])):
        sides = np.arange(rows.noisy.shape[1])[same]
        own = None if s is None else {"node": s[:, 0 if s.shape[1] == 1 else sides[0]]}
        post = Consistency(rows.tree, own, threads)
        for side in sides.tolist():
            found[:, :, side] = [*post.diagnose(rows.noisy[:, side])._columns.values()]
    figures = dict(zip(COLUMNS, found[:, rows.node, rows.side[0]], strict=True))
    labels = {name: take_column("levels", frame, name) for name in (*rows.by, *rows.levels)}
    return worst_first(figures["standardized"]), labels | figures
