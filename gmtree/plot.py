"""Pictures of trees and of what was released; needs matplotlib (extra ``plot``).

Every function draws on the axes it is given, or on new ones, and returns them, so that titles
and scales can still be changed.

>>> import gmtree as gm
>>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
>>> ax = gm.plot.icicle(tree, tree.aggregate([304, 372, 29]))
>>> ax.get_title()
'6 nodes, 3 leaves'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree.tree import Tree
from gmtree.tree.outline import level_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["error_by_level", "icicle", "node_link", "noisy_against_consistent", "sums"]

# More nodes than this cannot be told apart in a picture.
MOST_NODES = 3000
# More points than this hide each other, and take long to draw.
_MOST_POINTS = 20_000
_LONGEST_NAME = 24


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        axes = check.optional("matplotlib.axes", "plot", "A picture")
        check.instance("ax", ax, axes.Axes)
        return ax
    pyplot = check.optional("matplotlib.pyplot", "plot", "A picture")
    _, ax = pyplot.subplots(figsize=size, layout="constrained")
    return ax


def _refuse_large(tree: Tree) -> None:
    check.instance("tree", tree, Tree)
    if tree.n > MOST_NODES:
        check.fail(
            "tree",
            f"must have at most {MOST_NODES} nodes to be drawn, not {tree.n}; draw a part of it, "
            "or print the top with tree.show().",
        )


def _vector(tree: Tree, argument: str, x: Any) -> np.ndarray:
    v = check.values(argument, tree._aligned(argument, x), tree.n)
    if v.ndim != 1:
        check.fail(argument, f"must have shape ({tree.n},), not {v.shape}.")
    check.finite(argument, v)
    return v.astype(np.float64)


def _refuse_negative(v: np.ndarray, what: str) -> None:
    if (v < 0).any():
        i = int(np.flatnonzero(v < 0)[0])
        check.fail("values", f"must not be negative to be {what}; node {i} has {v[i]}.")


def _marked(tree: Tree, argument: str, x: Any) -> np.ndarray:
    """The nodes that a mask marks, of which there must be one."""
    a = check.array(argument, tree._aligned(argument, x))
    if a.shape != (tree.n,) or a.dtype != bool:
        check.fail(argument, f"must hold {tree.n} times True or False, one per node.")
    if not a.any():
        check.fail(argument, "must mark at least one node.")
    return np.flatnonzero(a)


def _name(tree: Tree, i: int) -> str:
    label = i if tree._labels is None else tree._labels[i]
    text = "" if label is None else str(label)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 3] + "..."


def _title(tree: Tree) -> str:
    return f"{tree.n:,} nodes, {tree.n_leaves:,} leaves"


# --------------------------------------------------------------------------- errors


def error_by_level(source: Any, *, unit: str = "records", ax: Any = None) -> Axes:
    """Standard error of every level: of the noise alone, and after all levels were combined.

    Parameters
    ----------
    source : Plan, Release or TableRelease
        For tables, a line for each query: the errors of its cells.
    unit : str
        What is counted.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import gmtree as gm
    >>> ax = gm.plot.error_by_level(gm.plan(gm.shapes.complete(2, 4), epsilon=1))
    >>> ax.get_ylabel()
    'standard error (records)'
    """
    check.instance("unit", unit, str)
    plan: Any = getattr(source, "plan", source)
    if not hasattr(plan, "levels") or not hasattr(plan, "std_error"):
        check.fail_type("source", f"must be a Plan or a Release, not {type(source).__name__}.")
    ax = _axes(ax, (6.4, 4.2))
    top, queries = 0.0, list(dict.fromkeys(x.query for x in plan.levels))
    for k, query in enumerate(queries):
        lines = [x for x in plan.levels if x.query == query]
        place = np.arange(len(lines))
        noise = np.array([np.nan if x.noise is None else x.noise for x in lines])
        error = np.array([x.std_error if np.isfinite(x.std_error) else np.nan for x in lines])
        first = "noise of one measurement" if k == 0 else None
        own = "consistent estimate" if query is None else " x ".join(query) or "total"
        ax.plot(place, noise, "o--", color="0.6", label=first)
        ax.plot(place, error, "o-", label=own)
        top = max(top, np.nanmax([*noise, *error, 0.0]))
    names = [f"{x.name or ('root' if x.level == 1 else x.level)}\n{x.nodes:,}" for x in lines]
    ax.set_xticks(place, names)
    ax.set_xlabel("level and number of nodes, from the root down")
    ax.set_ylabel(f"standard error ({unit})")
    ax.set_ylim(0, 1.3 * top if top > 0 else 1)  # room for the legend
    ax.margins(x=0.08)
    ax.grid(axis="y", alpha=0.3)
    ledger = plan.ledger
    ax.set_title(f"Expected error by level, {ledger.measure} = {float(ledger.total):.4g}")
    ax.legend(frameon=False, loc="upper left", ncols=2)
    return ax


def noisy_against_consistent(
    tree: Tree,
    noisy: Any,
    values: Any,
    *,
    measured: Any = None,
    unit: str = "records",
    ax: Any = None,
) -> Axes:
    """Each measurement against the consistent value of its node, coloured by level.

    Points on the diagonal were not changed. Of very many nodes a sample is shown.

    Parameters
    ----------
    tree : Tree
    noisy, values : arrays by node
    measured : array of bool by node, optional
        Nodes to show; all by default.
    unit : str
        What is counted.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.star(4)
    >>> noisy = [9.0, 4.0, 2.0, 1.0]
    >>> ax = gm.plot.noisy_against_consistent(tree, noisy, gm.consistent(tree, noisy))
    >>> ax.get_xlabel()
    'noisy (records)'
    """
    check.instance("tree", tree, Tree)
    check.instance("unit", unit, str)
    v, x = _vector(tree, "noisy", noisy), _vector(tree, "values", values)
    shown = np.arange(tree.n) if measured is None else _marked(tree, "measured", measured)
    sampled = shown.size > _MOST_POINTS
    if sampled:
        # The top of the tree is few nodes, and all of them count; so every level gets its part.
        rank = np.argsort(np.random.default_rng(0).random(shown.size))
        by_level = np.lexsort((rank, tree.depth[shown]))
        place = np.empty(shown.size, np.int64)
        start = np.searchsorted(tree.depth[shown][by_level], tree.depth[shown][by_level])
        place[by_level] = np.arange(shown.size) - start
        shown = shown[place < _MOST_POINTS // tree.height]
    ax = _axes(ax, (6.8, 5.2))
    depth = tree.depth[shown]
    colours = check.optional("matplotlib", "plot", "A picture").colormaps["viridis"]
    for d in np.unique(depth)[::-1].tolist():
        here = shown[depth == d]
        name = f"{level_title(tree, d)} ({here.size:,})"
        colour = colours((d - 1) / max(1, tree.height - 1) * 0.9)
        ax.plot(v[here], x[here], "o", ms=4, alpha=0.6, mew=0, color=colour, label=name)
    both = np.concatenate([v[shown], x[shown]])
    low, high = float(both.min()), float(both.max())
    ax.plot([low, high], [low, high], "-", color="0.5", lw=0.8, zorder=0)
    if max(-low, high) > 1000:
        small = max(10.0, float(np.quantile(np.abs(both), 0.25)))
        for axis in (ax.set_xscale, ax.set_yscale):
            axis("symlog", linthresh=small)
    ax.set_xlabel(f"noisy ({unit})")
    ax.set_ylabel(f"consistent ({unit})")
    ax.set_title("Measurements and consistent values" + (", a sample" if sampled else ""))
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), title="level (nodes)")
    return ax


# --------------------------------------------------------------------------- trees


def icicle(tree: Tree, values: Any = None, *, unit: str = "", ax: Any = None) -> Axes:
    """A small tree as nested boxes: a row for each level, as wide as what is below.

    Parameters
    ----------
    tree : Tree
    values : array by node, optional
        Not negative. The number is written into a box with room for it. Widths follow the leaves
        alone: the box of an inner node is as wide as its leaves together, also where its own
        value is not their sum (:func:`sums` shows where). By default every leaf is equally wide.
    unit : str
        What the values count, for the axis.
    ax : matplotlib Axes, optional
    """
    _refuse_large(tree)
    check.instance("unit", unit, str)
    width = np.ones(tree.n_leaves)
    if values is not None:
        v = _vector(tree, "values", values)
        _refuse_negative(v, "widths")
        width = v[tree.leaves]
        if not 0 < width.sum() < np.inf:
            check.fail("values", "must not all be 0 at the leaves, and have a finite sum there.")
    ax = _axes(ax, (8, 0.7 + 0.62 * tree.height))
    left, right = _spans(tree, width)
    total = right[tree.root]
    patches = check.optional("matplotlib.patches", "plot", "A picture")
    family = _families(tree)
    colours = check.optional("matplotlib", "plot", "A picture").colormaps["tab20"]
    for i in range(tree.n):
        span = right[i] - left[i]
        if span <= 0:
            continue
        depth = int(tree.depth[i])
        paler = 0.35 + 0.4 * (depth - 1) / max(1, tree.height - 1)
        base = np.array(colours(family[i] % 20)[:3]) if depth > 1 else np.full(3, 0.8)
        colour = base + (1 - base) * paler if depth > 1 else base
        ax.add_patch(
            patches.Rectangle(
                (left[i], depth - 1), span, 1, facecolor=colour, edgecolor="w", lw=0.8
            )
        )
        text = _name(tree, i)
        number = "" if values is None else f"{v[i]:,.4g}" if v[i] % 1 else f"{v[i]:,.0f}"
        # A letter of this size is about one hundred and tenth as wide as the picture.
        room = 105 * span / total
        both = f"{text}\n{number}" if number else text
        written = both if max(len(text), len(number)) < room else text if len(text) < room else ""
        ax.text(
            (left[i] + right[i]) / 2, depth - 0.5, written, ha="center", va="center", fontsize=8
        )
    ax.set_xlim(0, total)
    ax.set_ylim(tree.height, 0)
    ax.set_yticks(np.arange(tree.height) + 0.5)
    ax.set_yticklabels([level_title(tree, d) for d in range(1, tree.height + 1)])
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter("{x:,.0f}" if total >= 10 else "{x:g}")
    ax.set_xlabel(unit or ("leaves" if values is None else "sum of the leaves"))
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.set_title(_title(tree))
    return ax


def sums(tree: Tree, values: Any, std_error: Any = None, *, ax: Any = None) -> Axes:
    """A small tree as nested boxes with a number in each, red where children add up to another.

    Every box is as wide as its children together, so that each number stands above those that
    should add up to it.

    Parameters
    ----------
    tree : Tree
    values : array by node
    std_error : array by node, optional
        Written behind the values.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    >>> ax = gm.plot.sums(tree, [705, 676, 29, 305, 372, 29])
    >>> [text.get_text() for text in ax.texts if "children" in text.get_text()]
    ['children: 677']
    """
    _refuse_large(tree)
    v = _vector(tree, "values", values)
    error = None if std_error is None else _vector(tree, "std_error", std_error)
    below = np.zeros(tree.n)
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(below, tree.parent[tree.parent >= 0], v[tree.parent >= 0])
        apart = np.abs(v - below)
    if not np.isfinite(below).all():
        i = int(np.flatnonzero(~np.isfinite(below))[0])
        check.fail("values", f"must have finite sums; the children of node {i} have none.")
    ax = _axes(ax, (0.6 * tree.n_leaves + 1.2, 1.1 * tree.height))
    patches = check.optional("matplotlib.patches", "plot", "A picture")
    left, right = _spans(tree, np.ones(tree.n_leaves))
    # Sums of floating-point numbers that agree are not always equal to the last bit.
    off = (tree.child_count > 0) & (apart > 1e-9 * max(1.0, float(np.abs(v).max())))
    for i in range(tree.n):
        depth, inner = int(tree.depth[i]), bool(tree.child_count[i])
        face, edge = ("#f6d5d0", "#b5301f") if off[i] else ("#d4e4f4", "#2f6ca8")
        if not inner:
            face, edge = "#f1f1ee", "#a3a39c"
        gap = 0.05
        ax.add_patch(
            patches.Rectangle(
                (left[i] + gap, depth - 1 + gap),
                right[i] - left[i] - 2 * gap,
                1 - 2 * gap,
                facecolor=face,
                edgecolor=edge,
                lw=1,
            )
        )
        name = "total" if i == tree.root and not _name(tree, i) else _name(tree, i)
        middle, wide = (left[i] + right[i]) / 2, right[i] - left[i] > 1
        number = _number(v[i])
        note = "" if error is None else f"± {_number(error[i])}"
        if wide and note:
            number, note = f"{number} {note}", ""
        if off[i]:
            note = f"children: {_number(below[i])}"
        ax.text(middle, depth - 0.76, name, ha="center", va="center", fontsize=8, color="0.35")
        ax.text(middle, depth - 0.5, number, ha="center", va="center", fontsize=9.5, weight="bold")
        ax.text(
            middle, depth - 0.22, note, ha="center", va="center", fontsize=8,
            color="#b5301f" if off[i] else "0.35",
        )  # fmt: skip
    ax.set_xlim(0, tree.n_leaves)
    ax.set_ylim(tree.height, 0)
    ax.set_axis_off()
    ax.set_title(_title(tree))
    return ax


def _number(x: float) -> str:
    """A whole number as it is, others with one digit after the point."""
    return f"{x:,.0f}" if x == round(x) else f"{x:,.1f}"


def node_link(tree: Tree, values: Any = None, *, unit: str = "", ax: Any = None) -> Axes:
    """A small tree as points and lines, the root on the left.

    Parameters
    ----------
    tree : Tree
        With an `edge_length`, nodes stand as far to the right as they are from the root.
    values : array by node, optional
        The area of a point; not negative.
    unit : str
        What lengths are measured in, for the axis.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import gmtree as gm
    >>> ax = gm.plot.node_link(gm.Tree.from_newick("((cat:1,lion:2):3,dog:7);"))
    >>> ax.get_xlabel()
    'distance from the root'
    """
    _refuse_large(tree)
    check.instance("unit", unit, str)
    size = np.full(tree.n, 14.0)
    if values is not None:
        v = _vector(tree, "values", values)
        _refuse_negative(v, "areas")
        size = 8 + 220 * v / max(float(v.max()), 1e-300)
    ax = _axes(ax, (7, max(2.5, 0.22 * tree.n_leaves + 1)))
    left, right = _spans(tree, np.ones(tree.n_leaves))
    y = (left + right) / 2
    lengths = tree.edge_length
    x, label = tree.depth.astype(np.float64), "level"
    if lengths is not None and np.isfinite(lengths).all():
        from gmtree.matrix import GenerationMatrix

        own = lengths.copy()
        own[tree.root] = 0
        x = GenerationMatrix(tree).solve(own)
        label = "distance from the root"
    for i in range(tree.n):
        above = int(tree.parent[i])
        if above >= 0:
            ax.plot([x[above], x[above], x[i]], [y[above], y[i], y[i]], "-", color="0.6", lw=1)
    inner = tree.child_count > 0
    ax.scatter(x, y, s=size, c=np.where(inner, 0.0, 1.0), cmap="coolwarm_r", zorder=3, lw=0)
    step = 0.015 * max(float(np.ptp(x)), 1e-300)
    if tree.labels is not None:
        for i in range(tree.n):
            leaf = not inner[i]
            ax.text(
                x[i] + (step if leaf else -step), y[i] if leaf else y[i] - 0.08, _name(tree, i),
                ha="left" if leaf else "right", va="center" if leaf else "bottom", fontsize=8,
            )  # fmt: skip
    ax.margins(x=0.14, y=0.04)
    ax.invert_yaxis()
    ax.set_yticks([])
    if label == "level":
        ax.set_xticks(np.arange(1, tree.height + 1))
        ax.set_xticklabels([level_title(tree, d) for d in range(1, tree.height + 1)])
    ax.set_xlabel(f"{label} ({unit})" if unit else label)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.set_title(_title(tree))
    return ax


def _spans(tree: Tree, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each node begins and ends when the leaves stand side by side from left to right."""
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


def _families(tree: Tree) -> np.ndarray:
    """Which child of the root each node is under, counted from 0; 0 at the root itself."""
    family = np.zeros(tree.n, np.int64)
    family[tree.children(tree.root)] = np.arange(tree.child_count[tree.root])
    for d in range(3, tree.height + 1):
        nodes = np.flatnonzero(tree.depth == d)
        family[nodes] = family[tree.parent[nodes]]
    return family
