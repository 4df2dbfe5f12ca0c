"""Plots of errors by level, and of measurements against consistent values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree.plot.canvas import axes, marked, plain, vector
from gmtree.tree import Tree
from gmtree.tree.outline import level_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Largest number of points; more would hide each other and take long to draw.
_MOST_POINTS = 20_000


def error_by_level(source: Any, *, unit: str = "records", ax: Any = None) -> Axes:
    """Plot the standard error of each level: that of one noisy count, and after reconciliation.

    Parameters
    ----------
    source : Plan, Release or TableRelease
        For tables, each query has its own line, which shows the errors of its cells.
    unit : str
        Unit of the counts, for the axis.
    ax : matplotlib Axes, optional
        Axes to draw on. By default new axes are made.

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
    ax = axes(ax, (6.4, 4.2))
    top, queries = 0.0, list(dict.fromkeys(x.query for x in plan.levels))
    for k, query in enumerate(queries):
        lines = [x for x in plan.levels if x.query == query]
        # The points of the queries are side by side, since queries with equal shares have equal
        # noise.
        place = np.arange(len(lines)) + 0.09 * (k - (len(queries) - 1) / 2)
        noise = np.array([np.nan if x.noise is None else x.noise for x in lines])
        error = np.array([x.std_error if np.isfinite(x.std_error) else np.nan for x in lines])
        own = "consistent estimate" if query is None else " x ".join(query) or "total"
        colour = f"C{k}"
        single = query is None
        first = "noise of one measurement" if single else f"{own}: noise"
        dashes, noise_colour = ("o--", "0.6") if single else ("o", colour)
        ax.plot(place, noise, dashes, color=noise_colour, mfc="w", label=first)
        ax.plot(place, error, "o-", color=colour, label=own)
        top = max(top, np.nanmax([*noise, *error, 0.0]))
    names = [f"{x.name or f'level {x.level}'}\n{x.nodes:,}" for x in lines]
    ax.set_xticks(np.arange(len(lines)), names, parse_math=False)
    ax.set_xlabel("level and number of nodes, from the root down")
    ax.set_ylabel(f"standard error ({unit})", parse_math=False)
    # The added space is for the legend.
    ax.set_ylim(0, (1.25 + 0.1 * len(queries)) * top if top > 0 else 1)
    ax.margins(x=0.08)
    ax.grid(axis="y", alpha=0.3)
    ledger = plan.ledger
    ax.set_title(f"Expected error by level, {ledger.measure} = {float(ledger.total):.4g}")
    plain(ax.legend(frameon=False, loc="upper left", ncols=2))
    return ax


def noisy_against_consistent(
    tree: Tree,
    noisy: Any,
    values: Any,
    *,
    measured: Any = None,
    interval: tuple[Any, Any] | None = None,
    unit: str = "",
    ax: Any = None,
) -> Axes:
    """Plot each measurement against the consistent value of its node, coloured by level.

    Points on the diagonal are values that did not change. If there are too many nodes, a random
    sample is shown.

    Parameters
    ----------
    tree : Tree
    noisy, values : arrays by node
        Measurements and consistent values.
    measured : array of bool by node, optional
        Nodes to show; all by default.
    interval : tuple of two arrays by node, optional
        Lower and upper ends of intervals, drawn as vertical lines.
    unit : str
        Unit of the values, for the axes.
    ax : matplotlib Axes, optional
        Axes to draw on. By default new axes are made.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.star(4)
    >>> noisy = [9.0, 4.0, 2.0, 1.0]
    >>> ax = gm.plot.noisy_against_consistent(tree, noisy, gm.reconcile(tree, noisy))
    >>> ax.get_xlabel()
    'noisy'
    """
    check.instance("tree", tree, Tree)
    check.instance("unit", unit, str)
    v, x = vector(tree, "noisy", noisy), vector(tree, "values", values)
    shown = np.arange(tree.n) if measured is None else marked(tree, "measured", measured)
    ends = None
    if interval is not None:
        if not isinstance(interval, (tuple, list)) or len(interval) != 2:
            check.fail_type("interval", "must be a tuple of two arrays by node.")
        ends = [vector(tree, "interval", end) for end in interval]
    sampled = shown.size > _MOST_POINTS
    if sampled:
        # The sample contains nodes of every level, since the few nodes at the top are important.
        rank = np.argsort(np.random.default_rng(0).random(shown.size))
        by_level = np.lexsort((rank, tree.depth[shown]))
        place = np.empty(shown.size, np.int64)
        start = np.searchsorted(tree.depth[shown][by_level], tree.depth[shown][by_level])
        place[by_level] = np.arange(shown.size) - start
        shown = shown[place < _MOST_POINTS // tree.height]
    ax = axes(ax, (6.8, 5.2))
    depth = tree.depth[shown]
    colours = check.optional("matplotlib", "plot", "A picture").colormaps["viridis"]
    for d in np.unique(depth)[::-1].tolist():
        here = shown[depth == d]
        name = f"{level_title(tree, d)} ({here.size:,})"
        colour = colours(0.8 * (d - 1) / max(1, tree.height - 1))
        if ends is not None:
            ax.vlines(v[here], ends[0][here], ends[1][here], color=colour, alpha=0.35, lw=1)
        ax.plot(v[here], x[here], "o", ms=4, alpha=0.6, mew=0, color=colour, label=name)
    both = np.concatenate([v[shown], x[shown]])
    low, high = float(both.min()), float(both.max())
    ax.plot([low, high], [low, high], "-", color="0.5", lw=0.8, zorder=0)
    if max(-low, high) > 1000:
        small = max(10.0, float(np.quantile(np.abs(both), 0.25)))
        for axis in (ax.set_xscale, ax.set_yscale):
            axis("symlog", linthresh=small)
    note = f" ({unit})" if unit else ""
    ax.set_xlabel(f"noisy{note}", parse_math=False)
    ax.set_ylabel(f"consistent{note}", parse_math=False)
    ax.set_title("Measurements and consistent values" + (", a sample" if sampled else ""))
    legend = ax.legend(
        loc="upper left", bbox_to_anchor=(1, 1), title="level (nodes)", frameon=False
    )
    plain(legend)
    return ax


def residuals_by_level(tree: Tree, standardized: Any, *, ax: Any = None) -> Axes:
    """Draw standardised residuals, one column of points per level.

    Dashed lines are two standard deviations from zero; about 95 of 100 normal residuals lie between
    them. If there are too many nodes, the largest residuals and a random sample of all other
    residuals are shown.

    Parameters
    ----------
    tree : Tree
    standardized : array by node
        Residuals as in :class:`gmtree.consistency.Diagnostics`. Nodes with NaN are left out.
    ax : matplotlib Axes, optional
        Axes to draw on. By default new axes are made.

    Examples
    --------
    >>> import gmtree as gm
    >>> ax = gm.plot.residuals_by_level(gm.shapes.star(3), [0.4, -1.2, 2.1])
    >>> ax.get_ylabel()
    'standardised residual'
    """
    check.instance("tree", tree, Tree)
    z = check.values("standardized", standardized, tree.n, columns=False)
    shown = np.flatnonzero(~np.isnan(z))
    rng = np.random.default_rng(0)
    if shown.size > _MOST_POINTS:
        by_size = shown[np.argsort(-np.abs(z[shown]))]
        rest = rng.choice(by_size[_MOST_POINTS // 2 :], _MOST_POINTS // 2, replace=False)
        shown = np.concatenate([by_size[: _MOST_POINTS // 2], rest])
    ax = axes(ax, (6.4, 4.2))
    place = tree.depth[shown] - 1 + rng.uniform(-0.25, 0.25, shown.size)
    size = np.clip(40 / np.sqrt(max(1, shown.size)), 3.5, 7)
    ax.plot(place, z[shown], "o", ms=size, alpha=0.5, mew=0, color="#2f6ca8")
    for height in (-2, 0, 2):
        ax.axhline(height, color="0.6", lw=0.8, ls="--" if height else "-", zorder=0)
    names = [level_title(tree, d) for d in range(1, tree.height + 1)]
    ax.set_xticks(np.arange(tree.height), names, parse_math=False)
    ax.set_xlim(-0.5, tree.height - 0.5)
    ax.set_xlabel("level, from the root down")
    ax.set_ylabel("standardised residual")
    ax.set_title("Measurements against all other measurements")
    return ax
