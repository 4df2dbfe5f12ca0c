"""The columns of a release, with one row per node, for DataFrames and for published files."""

from __future__ import annotations

from itertools import chain, count
from typing import Any

import numpy as np

from gmtree.tree.table import label_columns

# Standard errors and intervals belong to `estimate`, not to `value`, and their names say so.
INTERVAL = ("estimate_low", "estimate_high")


def columns(release: Any, confidence: float | None) -> dict[str, np.ndarray]:
    """Return columns by name, with the ends of intervals if there is a `confidence`."""
    tree = release.tree
    place = {
        "node": np.arange(tree.n, dtype=tree.parent.dtype),
        "parent": tree.parent,
        "depth": tree.depth,
    }
    results = columns_of_results(release, confidence)
    # A column of labels must not have the name of any other column, even of one that only some
    # files have.
    taken = [*place, *results, *INTERVAL, "exact", "stored_label", "lower_bound", "upper_bound"]
    taken += ["note"] if release.ledger.enforced else []
    return place | label_columns(tree, taken, None) | results


def of_query(release: Any, query: tuple[str, ...], confidence: float | None) -> dict[str, Any]:
    """The columns of the cells of a query, named by their labels, and their standard error."""
    ends = () if confidence is None else release.interval(query, confidence)
    estimate = release._post.marginal(release.estimate, query)
    tables = {
        "value": release.marginal(query),
        "estimate": estimate,
        **dict(zip(INTERVAL, ends, strict=False)),
    }
    found: dict[str, Any] = {}
    cells = release._post._axes.cells(query)
    for cell, label in zip(np.ndindex(*estimate.shape[1:]), cells, strict=True):
        for name, table in tables.items():
            found[f"{name}_{label}" if cell else name] = table[(slice(None), *cell)]
    return found | {"estimate_std_error": release.std_error(query)}


def _of_tables(release: Any, confidence: float | None) -> dict[str, Any]:
    """The columns of all measured queries.

    The name of a standard error ends with the axes of its query. If two columns would get the same
    name, the second one gets a number.
    """
    found: dict[str, Any] = {}
    for query in release.queries:
        for name, column in of_query(release, query, confidence).items():
            name = "_".join((name, *query)) if name == "estimate_std_error" else name
            names = chain([name], (f"{name}_{k}" for k in count(2)))
            found[next(x for x in names if x not in found)] = column
    return found


def columns_of_results(release: Any, confidence: float | None) -> dict[str, Any]:
    """The columns that are computed from noisy counts."""
    if release.ledger.axes is not None:
        return _of_tables(release, confidence)
    low_high = () if confidence is None else release.interval(confidence)
    return {
        "value": release.values,
        "noisy": measured_only(release, release.noisy),
        "estimate": release.estimate,
        "estimate_std_error": release.std_error,
        **dict(zip(INTERVAL, low_high, strict=False)),
    }


def measured_only(release: Any, noisy: np.ndarray) -> np.ndarray:
    """Noisy counts, masked at the nodes that were not measured."""
    return noisy if release.measured.all() else np.ma.masked_array(noisy, ~release.measured)
