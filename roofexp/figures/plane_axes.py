"""Log axes of final size on a page, with ticks that suit their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from roofexp.figures import limits, style
from roofexp.figures.limits import Decades, Plane
from roofexp.figures.page import Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from roofexp.figures.drawing import Drawing

SIDE = 5.0  # room for tick labels and the axis label, in font sizes
BELOW = 3.3
STRIP = 11.0  # width of the strip beside a plane


class Place(NamedTuple):
    """A rectangle on the page, in points from the lower left corner of the axes' area."""

    left: float
    bottom: float
    width: float
    height: float


def equal_plane(page: Page, drawing: Drawing, left: float, bottom: float, plane: Plane, **words: Any) -> Axes:
    """Axes on which decades are equally long; ``words`` are ``xlabel`` and ``ylabel``."""
    place = Place(left, bottom, plane.decade * plane.x.extent, plane.height)
    axes = log_axes(page, drawing, place, plane.x, plane.y, label="plane", **words)
    axes.set_aspect("equal", adjustable="box")
    return axes


def log_axes(
    page: Page, drawing: Drawing, place: Place, x: Decades, y: Decades, x_prefixes: bool = False, **look: Any
) -> Axes:
    """``x_prefixes``: ticks along x as ``10 M``, as for bytes, instead of plain numbers below 5000."""
    axes = page.axes(drawing, *place, xscale="log", yscale="log", xlim=x.values(), ylim=y.values(), **look)
    limits.tick_decades(axes.xaxis, x, place.width / x.extent, page.font, upright=x_prefixes)
    limits.tick_decades(axes.yaxis, y, place.height / y.extent, page.font, upright=True)
    finish(axes)
    return axes


def finish(axes: Axes, side: Literal["left", "right"] = "left") -> None:
    """Ticks of the upright axis on one side, no frame on the others, a grid of decades."""
    style.open_sides(axes, side)
    axes.yaxis.set_label_position(side)
    axes.yaxis.set_ticks_position(side)
    limits.grid(axes)
