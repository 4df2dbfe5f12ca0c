"""Trees as points and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree.matrix import GenerationMatrix
from gmtree.plot.canvas import (
    axes,
    font_size,
    name,
    points,
    refuse_large,
    refuse_negative,
    spans,
    title,
    vector,
)
from gmtree.tree import Tree
from gmtree.tree.outline import level_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def node_link(tree: Tree, values: Any = None, *, unit: str = "", ax: Any = None) -> Axes:
    """Draw a small tree as points and lines, with the root on the left.

    Parameters
    ----------
    tree : Tree
        If the tree has an `edge_length`, horizontal positions are distances from the root.
    values : array by node, optional
        Areas of the points, which must not be negative. By default all points are equal.
    unit : str
        Unit of lengths, for the axis.
    ax : matplotlib Axes, optional
        Axes to draw on. By default new axes are made.

    Examples
    --------
    >>> import gmtree as gm
    >>> ax = gm.plot.node_link(gm.Tree.from_newick("((cat:1,lion:2):3,dog:7);"))
    >>> ax.get_xlabel()
    'distance from the root'
    """
    refuse_large(tree)
    check.instance("unit", unit, str)
    size = np.full(tree.n, 14.0)
    if values is not None:
        v = vector(tree, "values", values)
        refuse_negative(v, "areas")
        size = 8 + 220 * v / max(float(v.max()), 1e-300)
    size_of = max(7.0, min(0.9 * tree.height + 2, 18)), max(2.5, min(0.22 * tree.n_leaves + 1, 14))
    ax = axes(ax, size_of)
    left, right = spans(tree, np.ones(tree.n_leaves))
    y = (left + right) / 2
    lengths = tree.edge_length
    x, label = tree.depth.astype(np.float64), "level"
    if lengths is not None and np.isfinite(lengths).all():
        own = lengths.copy()
        own[tree.root] = 0
        x = GenerationMatrix(tree).solve(own)
        label = "distance from the root"
    for i in range(tree.n):
        above = int(tree.parent[i])
        if above >= 0:
            ax.plot([x[above], x[above], x[i]], [y[above], y[i], y[i]], "-", color="0.6", lw=1)
    inner = tree.child_count > 0
    ax.margins(x=0.14, y=0.04)
    ax.invert_yaxis()
    ax.set_yticks([])
    if label == "level":
        levels = range(1, tree.height + 1)
        names = [level_title(tree, d) for d in levels]
        ax.set_xticks(levels, names, parse_math=False, rotation=45 * (sum(map(len, names)) > 60))
    ax.set_xlabel(f"{label} ({unit})" if unit else label, parse_math=False)
    ax.set_ylabel("area: values" if values is not None else "")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.set_title(title(tree))
    across, down = points(ax)
    per_leaf = down / (1.1 * tree.n_leaves)
    if values is not None:
        size *= min(1, (1.5 * per_leaf) ** 2 / 228)
    ax.scatter(x, y, s=size, c=np.where(inner, 0.0, 1.0), cmap="coolwarm_r", zorder=3, lw=0)
    per_x = across / (1.28 * max(float(np.ptp(x)), 1e-300))
    _write_names(tree, ax, x, y, per_x, per_leaf, np.sqrt(size) / 2)
    return ax


def _write_names(
    tree: Tree, ax: Any, x: Any, y: Any, per_x: float, per_leaf: float, radius: np.ndarray
) -> None:
    """Write names of leaves on the right and of internal nodes above their lines, if they fit."""
    for i in range(tree.n):
        leaf, text = not tree.child_count[i], name(tree, i)
        if leaf:
            size = font_size([text], np.inf, 1.15 * per_leaf, 8)
            place = {"xytext": (radius[i] + 2, 0), "ha": "left", "va": "center"}
        else:
            above = int(tree.parent[i])
            room = np.inf if above < 0 else (x[i] - x[above]) * per_x - 4
            letters = int(min(room / 4.6, 99))
            if len(text) > letters:
                text = text[: letters - 1] + "…" if letters > 3 else ""
            siblings = y[tree.children(above)] if above >= 0 else y[:1]
            apart = np.diff(np.sort(siblings)).min() * per_leaf if siblings.size > 1 else np.inf
            size = font_size([text], np.inf, apart, 8)
            place = {"xytext": (-radius[i], 1.5), "ha": "right", "va": "bottom"}
        if size and text:
            ax.annotate(
                text, (x[i], y[i]), textcoords="offset points", fontsize=size, parse_math=False,
                **place,
            )  # fmt: skip
