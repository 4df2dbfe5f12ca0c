"""Trees as nested boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree.plot.canvas import (
    axes,
    font_size,
    name,
    number,
    points,
    refuse_large,
    refuse_negative,
    short_number,
    spans,
    title,
    vector,
)
from gmtree.tree import Tree
from gmtree.tree.outline import level_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def icicle(tree: Tree, values: Any = None, *, unit: str = "", ax: Any = None) -> Axes:
    """Draw a small tree as nested boxes, with a row for each level and widths by leaf values.

    Parameters
    ----------
    tree : Tree
        A tree of at most 3000 nodes.
    values : array by node, optional
        Non-negative values, written into boxes that have room for them. Only the values of leaves
        determine widths. The box of an internal node is as wide as its leaves together, even if its
        own value is not their sum (:func:`sums` marks such nodes). By default all leaves have equal
        widths.
    unit : str
        Unit of the values, for the axis.
    ax : matplotlib Axes, optional
        Axes to draw on. By default new axes are made.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    >>> ax = gm.plot.icicle(tree, tree.aggregate([304, 372, 29]), unit="people")
    >>> ax.get_xlabel()
    'people'
    """
    refuse_large(tree)
    check.instance("unit", unit, str)
    width = np.ones(tree.n_leaves)
    if values is not None:
        v = vector(tree, "values", values)
        refuse_negative(v, "widths")
        width = v[tree.leaves]
        if not 0 < width.sum() < np.inf:
            check.fail("values", "must have a positive and finite sum at the leaves.")
    ax = axes(ax, (8, 0.7 + 0.62 * tree.height))
    left, right = spans(tree, width)
    total = right[tree.root]
    patches = check.optional("matplotlib.patches", "plot", "A picture")
    family = _families(tree)
    colours = check.optional("matplotlib", "plot", "A picture").colormaps["tab20"]
    ax.set_xlim(0, total)
    _levels_down(tree, ax)
    ax.xaxis.set_major_formatter(lambda x, _: short_number(x))
    shown = unit or ("leaves" if values is None else "sum of the leaves")
    ax.set_xlabel(shown, parse_math=False)
    ax.set_title(title(tree))
    across, down = points(ax)
    for i in range(tree.n):
        span = right[i] - left[i]
        if span <= 0:
            continue
        depth = int(tree.depth[i])
        paler = 0.35 + 0.4 * (depth - 1) / max(1, tree.height - 1)
        base = np.array(colours(family[i] % 20)[:3]) if depth > 1 else np.full(3, 0.8)
        colour = base + (1 - base) * paler if depth > 1 else base
        box = (left[i], depth - 1), span, 1
        ax.add_patch(patches.Rectangle(*box, facecolor=colour, edgecolor="w", lw=0.8))
        forms: list[Sequence[str]] = [(name(tree, i),)]
        if values is not None:
            form = (lambda x: f"{x:,.4g}") if abs(v[i]) < 1000 and v[i] % 1 else number
            forms = [(name(tree, i), form(v[i])), (name(tree, i), short_number(v[i])), *forms]
        _write(ax, forms, box, across / total, down / tree.height, 8, len(forms) - 1)
    return ax


def sums(tree: Tree, values: Any, std_error: Any = None, *, unit: str = "", ax: Any = None) -> Axes:
    r"""Draw a small tree as nested boxes with numbers; those whose children do not add up are red.

    Every box is as wide as its children together, so that each number stands above the numbers that
    should add up to it. In small boxes, text is shortened, rotated, shrunk or left out.

    Parameters
    ----------
    tree : Tree
        A tree of at most 3000 nodes.
    values : array by node
        Values to write into the boxes.
    std_error : array by node, optional
        Standard errors, written after the values.
    unit : str
        Unit of the values, for the axis.
    ax : matplotlib Axes, optional
        Axes to draw on. By default new axes are made.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    >>> ax = gm.plot.sums(tree, [705, 676, 29, 305, 372, 29])
    >>> [text.get_text() for text in ax.texts if "children" in text.get_text()]
    ['NY\n676\nchildren: 677']
    """
    refuse_large(tree)
    check.instance("unit", unit, str)
    v = vector(tree, "values", values)
    error = None if std_error is None else vector(tree, "std_error", std_error)
    below = np.zeros(tree.n)
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(below, tree.parent[tree.parent >= 0], v[tree.parent >= 0])
        apart = np.abs(v - below)
    if not np.isfinite(below).all():
        i = int(np.flatnonzero(~np.isfinite(below))[0])
        check.fail(
            "values", f"must have finite sums; the sum of the children of node {i} is not finite."
        )
    size = min(max(4.0, 0.75 * tree.n_leaves + 1.6), 16), min(0.9 * tree.height + 0.8, 12)
    ax = axes(ax, size)
    patches = check.optional("matplotlib.patches", "plot", "A picture")
    left, right = spans(tree, np.ones(tree.n_leaves))
    # Floating-point sums that agree mathematically may differ in the last bits.
    off = (tree.child_count > 0) & (apart > 1e-9 * max(1.0, float(np.abs(v).max())))
    ax.set_xlim(0, tree.n_leaves)
    _levels_down(tree, ax)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])
    shown = f"values in {unit}" if unit else "values"
    ax.set_xlabel(shown if error is None else f"{shown} ± standard error", parse_math=False)
    ax.set_title(title(tree))
    across, down = points(ax)
    for i in range(tree.n):
        depth = int(tree.depth[i])
        face, edge = ("#f6d5d0", "#b5301f") if off[i] else ("#d4e4f4", "#2f6ca8")
        if not tree.child_count[i]:
            face, edge = "#f1f1ee", "#a3a39c"
        gap = 0.05
        box = (left[i] + gap, depth - 1 + gap), right[i] - left[i] - 2 * gap, 1 - 2 * gap
        ax.add_patch(patches.Rectangle(*box, facecolor=face, edgecolor=edge, lw=1))
        nameless = "total" if i == tree.root else ""
        label, brief = name(tree, i) or nameless, name(tree, i, 9) or nameless
        forms: list[Sequence[str]] = []
        ways: list[Callable[[float], str]] = [number, short_number]
        if off[i] and number(v[i]) == number(below[i]):
            ways.insert(0, _telling_apart(v[i], below[i]))
        for form in ways:
            note = [] if error is None else [f"± {form(error[i])}"]
            if off[i]:
                forms.append((label, " ".join([form(v[i]), *note]), f"children: {form(below[i])}"))
            forms += [(label, " ".join([form(v[i]), *note])), (label, form(v[i]), *note)]
        short = short_number(v[i])
        forms += [(label, short), (brief, short), (short,)]
        _write(ax, forms, box, across / tree.n_leaves, down / tree.height, 9, 3)
    return ax


def _telling_apart(x: float, y: float) -> Callable[[float], str]:
    """A way to write numbers, with as few digits as show that two of them differ."""
    digits = next(d for d in range(3, 18) if f"{x:.{d}g}" != f"{y:.{d}g}")
    return lambda number: f"{number:,.{digits}g}"


def _write(
    ax: Any,
    forms: Sequence[Sequence[str]],
    box: tuple[tuple[float, float], float, float],
    per_leaf: float,
    per_level: float,
    largest: float,
    reduced: int,
) -> None:
    """Write a text into a box, in the first of several forms that fits, rotated if necessary.

    The last `reduced` forms are abbreviated. They are used only if no other form is legible.
    """
    (x, y), wide, tall = box
    room = 0.94 * wide * per_leaf, 0.96 * tall * per_level
    whole, rest = forms[: len(forms) - reduced], forms[len(forms) - reduced :]
    ways = [(w, t, least) for w in (whole, rest) for t, least in ((0, 7.0), (90, 6.0))]
    for group, turned, least in [*ways, (forms, 0, 0.0), (forms, 90, 0.0)]:
        for lines in group:
            size = font_size(lines, *(room[::-1] if turned else room), largest)
            if size and size >= least:
                ax.text(
                    x + wide / 2, y + tall / 2, "\n".join(lines), ha="center", va="center",
                    fontsize=size, rotation=turned, color="0.1", parse_math=False,
                    linespacing=1.1,
                )  # fmt: skip
                return


def _levels_down(tree: Tree, ax: Any) -> None:
    """Write the names of the levels on the y axis, with the root on top."""
    ax.set_ylim(tree.height, 0)
    ax.set_yticks(np.arange(tree.height) + 0.5)
    ax.set_yticklabels([level_title(tree, d) for d in range(1, tree.height + 1)], parse_math=False)
    ax.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _families(tree: Tree) -> np.ndarray:
    """For each node, the index of the root's child that it belongs to; 0 for the root itself."""
    family = np.zeros(tree.n, np.int64)
    family[tree.children(tree.root)] = np.arange(tree.child_count[tree.root])
    for d in range(3, tree.height + 1):
        nodes = np.flatnonzero(tree.depth == d)
        family[nodes] = family[tree.parent[nodes]]
    return family
