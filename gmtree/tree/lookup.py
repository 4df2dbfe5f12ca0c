"""From labels and paths to nodes, in trees where siblings may share a label."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.distinct import LabelIndex, as_objects


class PathIndex(LabelIndex):
    """A `LabelIndex` that refuses a path which several nodes have."""

    def __init__(self, labels: np.ndarray, parent: np.ndarray) -> None:
        super().__init__(labels, parent)
        # Children that share their label with a sibling; `_child` has one of each such group.
        self._others: dict[tuple[int, Any], list[int]] = {}
        if len(self._child) < parent.size:
            pairs = zip(parent.tolist(), as_objects(labels), strict=True)
            for i, pair in enumerate(pairs):
                if self._child[pair] != i:
                    self._others.setdefault(pair, []).append(i)

    def _down(self, i: int | None, steps: list[Any]) -> int | None:
        found = [] if i is None else [i]
        for step in steps:
            found = [child for above in found for child in self._called(above, step)]
        if len(found) > 1:
            check.fail(
                "label",
                f"must name one node; nodes {check.some(found)} have the same path, since siblings "
                "share a label or have none: use the number of the node you mean.",
            )
        return found[0] if found else None

    def _called(self, above: int, label: Any) -> list[int]:
        """The children of a node that have this label."""
        if (above, label) not in self._child:
            return []
        return [*self._others.get((above, label), ()), self._child[above, label]]
