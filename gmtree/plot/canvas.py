"""Axes to draw on, arrays to draw, and text that fits into boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.tree import Tree

# More nodes than this cannot be distinguished in a picture.
MOST_NODES = 3000
# Mean width of a letter in units of the font size, and height of a line.
_LETTER, _LINE = 0.58, 1.25
_SMALLEST_FONT = 5.0


def axes(ax: Any, size: tuple[float, float]) -> Any:
    """The given axes, after validation, or new axes."""
    if ax is not None:
        axes = check.optional("matplotlib.axes", "plot", "A picture")
        check.instance("ax", ax, axes.Axes)
        return ax
    pyplot = check.optional("matplotlib.pyplot", "plot", "A picture")
    _, ax = pyplot.subplots(figsize=size, layout="constrained")
    return ax


def refuse_large(tree: Tree) -> None:
    """Refuse a tree with more nodes than a picture can show."""
    check.instance("tree", tree, Tree)
    if tree.n > MOST_NODES:
        check.fail(
            "tree",
            f"must have at most {MOST_NODES} nodes to be drawn, not {tree.n}. Draw a part of it, "
            "or print its top with tree.show().",
        )


def vector(tree: Tree, argument: str, x: Any) -> np.ndarray:
    """One finite float64 number per node."""
    v = tree._values(argument, x, columns=False)
    check.finite(argument, v)
    return v.astype(np.float64)


def refuse_negative(v: np.ndarray, what: str) -> None:
    """Refuse negative values, which cannot be areas or widths."""
    if (v < 0).any():
        i = int(np.flatnonzero(v < 0)[0])
        check.fail("values", f"must not be negative to be {what}; node {i} has {v[i]}.")


def marked(tree: Tree, argument: str, x: Any) -> np.ndarray:
    """The nodes that a mask selects, which must be at least one node."""
    a = check.array(argument, tree._aligned(argument, x))
    if a.shape != (tree.n,) or a.dtype != bool:
        check.fail(argument, f"must have {tree.n} entries, True or False for each node.")
    if not a.any():
        check.fail(argument, "must be True for at least one node.")
    return np.flatnonzero(a)


def name(tree: Tree, i: int, longest: int = 24) -> str:
    """The label of a node, or its number if the tree has no labels.

    A long label is shortened before its last three characters, since labels often end in a number.
    """
    label = i if tree._labels is None else tree._labels[i]
    text = "" if label is None else str(label)
    return text if len(text) <= longest else f"{text[: longest - 4]}…{text[-3:]}"


def title(tree: Tree) -> str:
    """The size of the tree in words."""
    return f"{tree.n:,} nodes, {tree.n_leaves:,} leaves"


def plain(legend: Any) -> None:
    """Keep matplotlib from reading the text between dollar signs in a legend as a formula."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def points(ax: Any) -> tuple[float, float]:
    """Width and height of axes in points, the unit of font sizes."""
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    return box.width * 72 / ax.figure.dpi, box.height * 72 / ax.figure.dpi


def font_size(lines: Sequence[str], wide: float, tall: float, largest: float) -> float:
    """The largest font size at which lines of text fit into a box; 0 if none is legible."""
    longest = max(map(len, lines), default=0)
    if not longest:
        return largest
    size = min(largest, wide / (_LETTER * longest), tall / (_LINE * len(lines)))
    return size if size >= _SMALLEST_FONT else 0.0


def number(x: float) -> str:
    """The text of a number, with one decimal unless it is an integer or large."""
    return f"{x:,.0f}" if x == round(x) or abs(x) >= 1e6 else f"{x:,.1f}"


def short_number(x: float) -> str:
    """A number as three digits and a unit: k, M, bn or tn for thousands, millions and so on."""
    for power, letter in ((12, "tn"), (9, "bn"), (6, "M"), (3, "k")):
        if abs(x) >= 0.9995 * 10**power:
            return f"{x / 10**power:.3g} {letter}"
    return f"{x:.3g}"


def spans(tree: Tree, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left and right end of each node if the leaves stand side by side."""
    order = tree.leaves_left_to_right
    in_order = width[np.searchsorted(tree.leaves, order)]
    end = np.cumsum(in_order)
    left, right = np.full(tree.n, np.inf), np.full(tree.n, -np.inf)
    left[order], right[order] = end - in_order, end
    for d in range(tree.height, 1, -1):
        nodes = np.flatnonzero(tree.depth == d)
        np.minimum.at(left, tree.parent[nodes], left[nodes])
        np.maximum.at(right, tree.parent[nodes], right[nodes])
    return left, right
