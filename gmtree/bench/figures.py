"""Figures of benchmark reports, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

INCHES_PER_PANEL = (4.2, 3.4)
MARKERS = "osD^vPX"


class Line(NamedTuple):
    """One line of a figure."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


class Panel(NamedTuple):
    """One part of a figure, with logarithmic axes; `from_zero` makes the y axis linear."""

    title: str
    y_label: str
    lines: Sequence[Line]
    from_zero: bool = False


class Figure(NamedTuple):
    """Panels side by side with sizes of trees on the x axes, for ``name``.png and ``name``.svg."""

    name: str
    title: str
    panels: Sequence[Panel]


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure into files in a folder, and return their paths."""
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
    from matplotlib.ticker import NullFormatter

    axis.set(title=panel.title, xlabel="nodes", ylabel=panel.y_label, xscale="log")
    for line, marker in zip(panel.lines, MARKERS, strict=False):
        axis.plot(line.x, line.y, marker=marker, markersize=4, label=line.label)
    if panel.from_zero:
        axis.set_ylim(bottom=0)
    else:
        axis.set_yscale("log")
    # Tick labels between the powers of ten would overlap.
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.3)
