"""The columns of a release, with one row per node, for DataFrames and for published files."""

from __future__ import annotations

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
    results = _results(release, confidence)
    # Some of these names are columns of files only.
    taken = [*place, *results, *INTERVAL, "exact", "stored_label"]
    taken += ["note"] if release.ledger.enforced else []
    return place | label_columns(tree, taken, None) | results


def to_frame(release: Any, confidence: float, backend: str | None) -> Any:
    """The columns as a frame."""
    return release.tree.to_frame(backend=backend, **_results(release, confidence))


def _results(release: Any, confidence: float | None) -> dict[str, np.ndarray]:
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
