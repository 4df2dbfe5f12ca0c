"""Figures of reports, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

INCHES_PER_PANEL = (4.2, 3.4)
MARKERS = "osD^vPX"


@dataclass(frozen=True)
class Line:
    """Points of a figure that belong together."""

    label: str
    x: Sequence[float | str]
    y: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One part of a figure: lines, or stacked bars if x holds names.

    Axes of numbers are logarithmic, but with `from_zero` the y axis is linear and starts at 0.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    from_zero: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels side by side, drawn into ``name``.png and ``name``.svg."""

    name: str
    title: str
    panels: Sequence[Panel]


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure into a folder; return the files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    width, height = INCHES_PER_PANEL
    canvas = Canvas(figsize=(width * len(figure.panels), height), layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(figure.title)
    axes = canvas.subplots(1, len(figure.panels), squeeze=False)[0]
    for axis, panel in zip(axes, figure.panels, strict=True):
        _draw_panel(axis, panel)
    # All panels show the same lines.
    handles, labels = axes[0].get_legend_handles_labels()
    columns = min(len(labels), 3 * len(figure.panels))
    canvas.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small")
    files = [folder / f"{figure.name}.{kind}" for kind in ("png", "svg")]
    for file in files:
        canvas.savefig(file, dpi=150)
    return files


def _draw_panel(axis: Any, panel: Panel) -> None:
    axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if any(isinstance(x, str) for line in panel.lines for x in line.x):
        _stack_bars(axis, panel)
    else:
        _draw_lines(axis, panel)


def _draw_lines(axis: Any, panel: Panel) -> None:
    from matplotlib.ticker import NullFormatter

    for k, line in enumerate(panel.lines):
        axis.plot(line.x, line.y, marker=MARKERS[k % len(MARKERS)], markersize=4, label=line.label)
    axis.set_xscale("log")
    if panel.from_zero:
        axis.set_ylim(bottom=0)
    else:
        axis.set_yscale("log")
    # Between powers of ten, numbers would run into each other.
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.3)


def _stack_bars(axis: Any, panel: Panel) -> None:
    bottom = np.zeros(len(panel.lines[0].x))
    for line in panel.lines:
        axis.bar(line.x, line.y, bottom=bottom, width=0.6, label=line.label)
        bottom += np.asarray(line.y)
