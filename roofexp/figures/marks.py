"""Marks of points: colour is the kernel, shape the precision, hollow means modelled traffic, a ring means flagged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofexp.figures import style
from roofexp.figures.frame import Row, hover, precisions, records
from roofexp.schema import FiguresConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from pandas import DataFrame

    from roofexp.figures.drawing import Drawing

MOST_KERNELS = 24  # in the key; hover text names all
CROWD = 150  # points from which marks are drawn small and translucent


def kernels_by_count(frame: DataFrame) -> list[str]:
    """In order of first appearance: the order in which the sweep names them."""
    return list(dict.fromkeys(frame["kernel"]))


def size_pt(count: int, settings: FiguresConfig) -> float:
    """Diameter of a mark: smaller the more there are, and in narrow figures."""
    part = 0.85 if count <= 30 else 0.65 if count <= CROWD else 0.45
    return settings.font_pt * part * (1.0 if settings.width_mm >= style.NARROW_MM else 0.75)


def draw_mark(axes: Axes, x: float, y: float, row: Row, colour: str, size: float, crowded: bool) -> None:
    """One artist for each point, so that its group in the SVG can carry the hover text."""
    inside = colour if row["traffic_source"] == "counted" else "none" if crowded else "white"
    edge, alpha = (0.14 * size, 0.55) if crowded else (0.2 * size, 1.0)
    look = {"markerfacecolor": inside, "markeredgecolor": colour, "markeredgewidth": edge, "alpha": alpha}
    put(axes, x, y, style.marker(row["precision"]), markersize=size, gid=row["gid"], zorder=5, **look)
    if row["flags"]:
        ring = {"markerfacecolor": "none", "markeredgecolor": style.INK, "markeredgewidth": 0.11 * size}
        put(axes, x, y, "o", markersize=1.75 * size, gid=f"ring-{row['gid']}", zorder=4, **ring)


def put(axes: Axes, x: float, y: float, marker: str, **look: Any) -> None:
    """Cheaper than ``plot``, which would look at the limits again for each point."""
    from matplotlib.lines import Line2D

    mark = Line2D([x], [y], linestyle="none", marker=marker, **look)
    axes.add_artist(mark)
    mark.set_clip_on(False)


def add_hover(drawing: Drawing, frame: DataFrame) -> None:
    for row in records(frame):
        drawing.hover[row["gid"]] = hover(row)


def key(frame: DataFrame, colours: dict[str, str], size: float) -> list[Line2D]:
    """Handles for what differs between the points: nothing where one kernel in one precision says it in the title."""
    kernels = kernels_by_count(frame)
    handles = []
    if len(kernels) > 1:
        handles = [handle(style.shortened(k, 28), "o", colours[k], size) for k in kernels[:MOST_KERNELS]]
        if len(kernels) > MOST_KERNELS:
            handles.append(handle(f"and {len(kernels) - MOST_KERNELS} more kernels", "", "none", size))
    names = precisions(frame)
    if len(names) > 1:
        handles += [handle(name, style.marker(name), style.FADED, size, filled=False) for name in names]
    if {"modelled", "counted"} <= set(frame["traffic_source"]):
        handles += [handle("counted", "o", style.FADED, size), handle("modelled", "o", style.FADED, size, False)]
    if frame["flags"].any() and handles:
        handles.append(handle("flagged", "o", style.INK, 1.5 * size, filled=False, thin=True))
    return handles


def handle(label: str, marker: str, colour: str, size: float, filled: bool = True, thin: bool = False) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        label=label,
        linestyle="none",
        marker=marker,
        markersize=size,
        markerfacecolor=colour if filled else "none",
        markeredgecolor=colour,
        markeredgewidth=size * (0.08 if thin else 0.2),
    )
