"""Limits and ticks of log-log axes on which a decade is as long along x as along y. Lengths in inches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from roofexp.figures.canvas import style
from roofexp.figures.canvas.page import Page
from roofexp.text.numbers import engineering, plain, size_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from pandas import DataFrame


class Decades(NamedTuple):
    """A range on a log axis, as powers of ten."""

    low: float
    high: float

    @property
    def extent(self) -> float:
        return self.high - self.low

    def values(self) -> tuple[float, float]:
        return 10.0**self.low, 10.0**self.high


class Plane(NamedTuple):
    """Both ranges and the height that makes decades equal at a given width."""

    x: Decades
    y: Decades
    height: float

    @property
    def decade(self) -> float:
        """Length of one decade, on either axis."""
        return self.height / self.y.extent


def decades_of(values: Iterable[float], below: float, above: float) -> Decades | None:
    """The range of the positive, finite values, with so many decades of room below and above; None without any."""
    logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)]
    return Decades(min(logs) - below, max(logs) + above) if logs else None


def at_least(span: Decades, count: float) -> Decades:
    """A range of so many decades or more, widened a little more at the high end."""
    missing = max(0.0, count - span.extent)
    return Decades(span.low - 0.4 * missing, span.high + 0.6 * missing)


def equal_decades(x: Decades, y: Decades, width: float, lowest: float, highest: float, left: float = 0.4) -> Plane:
    """The plane that holds both ranges; one of them grows where the height would leave lowest to highest.

    ``left`` is the share of its growth that x takes at its low end.
    """
    height = width * y.extent / x.extent
    if height < lowest:
        more = x.extent * lowest / width - y.extent
        return Plane(x, Decades(y.low - 0.8 * more, y.high + 0.2 * more), lowest)
    if height > highest:
        more = y.extent * width / highest - x.extent
        return Plane(Decades(x.low - left * more, x.high + (1 - left) * more), y, highest)
    return Plane(x, y, height)


def tick_decades(axis: Axis, span: Decades, decade_pt: float, font_pt: float, upright: bool) -> None:
    """Ticks at decades, or at 1, 2 and 5 where there are few, as dense as the font allows; with engineering prefixes
    on an upright axis (rates), and with plain numbers below 5000 on the other (intensities)."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, NullFormatter

    room = (2.2 if upright else 4.0) * font_pt
    step = next((n for n in (1, 2, 3, 6, 9) if n * decade_pt >= room), 12)
    parts = (1, 2, 5) if span.extent < 2 and 0.3 * decade_pt >= room else (1,)
    powers = [p for p in range(math.floor(span.low), math.floor(span.high) + 1) if p % step == 0]
    low, high = span.values()
    ticks = [tick for p in powers for tick in (part * 10.0**p for part in parts) if low <= tick <= high]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([_tick_text(tick, prefixes=upright) for tick in ticks]))
    fine = step == 1 and decade_pt >= 3 * font_pt
    axis.set_minor_locator(LogLocator(subs=range(2, 10) if fine else [1.0], numticks=200))
    axis.set_minor_formatter(NullFormatter())


def tick_sizes(axis: Axis, sizes: list[float], width_pt: float, font_pt: float) -> None:
    """Ticks at the sizes that were measured (many: at 1, 2 and 5 between them), as many as have room for their name."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

    low, high = min(sizes), max(sizes)
    candidates = sorted(sizes)
    if len(candidates) > 24:
        powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
        candidates = [part * 10.0**p for p in powers for part in (1, 2, 5) if low <= part * 10.0**p <= high]
    scale = width_pt / max(math.log10(high / low), 1e-9)
    steps = (candidates[::-step] for step in range(1, len(candidates)))
    ticks = next((step for step in steps if _have_room(step, scale, font_pt)), [high])
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([size_name(size) for size in ticks]))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _have_room(sizes: list[float], scale: float, font_pt: float) -> bool:
    """Whether the names of descending sizes stay apart; ``scale`` is the length of a decade."""
    return all(
        scale * math.log10(upper / lower) >= 0.32 * font_pt * (len(size_name(upper)) + len(size_name(lower)) + 1.5)
        for upper, lower in itertools.pairwise(sizes)
    )


def grid(axes: Axes) -> None:
    axes.grid(True, which="major", zorder=0)
    axes.set_axisbelow(True)


def _tick_text(value: float, prefixes: bool) -> str:
    return plain(value) if not prefixes and value < 5e3 else engineering(value)


INTENSITY = "Arithmetic intensity (FLOP/B)"
STRIP = 11.0  # width of the strip beside a plane


class Place(NamedTuple):
    """A rectangle on the page, in points from the lower left corner of the axes' area."""

    left: float
    bottom: float
    width: float
    height: float


def equal_plane(page: Page, left: float, bottom: float, plane: Plane, **look: Any) -> Axes:
    """Axes on which decades are equally long, of FLOP/s against intensity unless ``look`` says otherwise."""
    place = Place(left, bottom, plane.decade * plane.x.extent, plane.height)
    look = {"xlabel": INTENSITY, "ylabel": "FLOP/s", "label": "plane", **look}
    axes = log_axes(page, place, plane.x, plane.y, **look)
    axes.set_aspect("equal", adjustable="box")
    return axes


def log_axes(page: Page, place: Place, x: Decades, y: Decades, x_prefixes: bool = False, **look: Any) -> Axes:
    """``x_prefixes``: ticks along x as ``10 M``, as for bytes, instead of plain numbers below 5000."""
    axes = page.axes(*place, xscale="log", yscale="log", xlim=x.values(), ylim=y.values(), **look)
    tick_decades(axes.xaxis, x, place.width / x.extent, page.font, upright=x_prefixes)
    tick_decades(axes.yaxis, y, place.height / y.extent, page.font, upright=True)
    finish(axes)
    return axes


def strip_width(page: Page, count: int) -> float:
    """Of the strip for ``count`` points; nothing where there are none."""
    return min(STRIP * page.font, 0.22 * page.width) if count else 0.0


def strip_axes(page: Page, bottom: float, width: float, plane: Plane, unit: str) -> Axes:
    """The strip at the left of a plane for points without FLOPs: on its axis a bandwidth meets its diagonal at the edge
    of the plane."""
    span = Decades(plane.y.low - plane.x.low, plane.y.high - plane.x.low)
    axes = page.axes(page.left, bottom, width, plane.height, yscale="log", label="strip", facecolor="#f6f6f6")
    axes.set(xlim=(0, 1), ylim=span.values(), xticks=[], ylabel=unit, xlabel="no FLOPs")
    tick_decades(axes.yaxis, span, plane.decade, page.font, upright=True)
    finish(axes)
    return axes


def strip_order(rows: DataFrame) -> tuple[DataFrame, list[float]]:
    """The points of a strip in the order in which they stand there, and their places across it (0 to 1)."""
    order = rows.sort_values(["kernel", "size"], kind="stable")
    return order, [(i + 0.5) / len(order) for i in range(len(order))]


def flat_size(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in points."""
    box, points = axes.get_window_extent(), 72 / axes.figure.dpi
    return box.width * points, box.height * points


def finish(axes: Axes, side: Literal["left", "right"] = "left") -> None:
    """Ticks of the upright axis on one side, no frame on the others, a grid of decades."""
    style.open_sides(axes, side)
    axes.yaxis.set_label_position(side)
    axes.yaxis.set_ticks_position(side)
    grid(axes)
