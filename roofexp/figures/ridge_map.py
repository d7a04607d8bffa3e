"""The ridge of one precision against what moves it (clock or threads), with kernels standing across its path."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofexp.figures import limits, marks, style
from roofexp.figures.badges import draw_badges
from roofexp.figures.frame import records
from roofexp.figures.labels import Ground
from roofexp.figures.limits import Decades
from roofexp.figures.plane_axes import finish
from roofexp.figures.ridges import Crossing, Ridge
from roofexp.units import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 0.14  # decades beside the ridges
LEAST = 0.42  # decades shown


def map_range(ridges: Sequence[Ridge]) -> Decades:
    found = limits.decades_of([ridge.intensity for ridge in ridges], ROOM, ROOM)
    assert found
    missing = max(0.0, LEAST - found.extent)
    return Decades(found.low - missing / 2, found.high + missing / 2)


def draw_ridge_map(
    axes: Axes,
    ridges: Sequence[Ridge],
    kernels: Sequence[Crossing],
    colours: dict[str, str],
    font: float,
    by_threads: bool,
) -> None:
    """``axes`` have their final limits: intensity along, clock (GHz) or threads up."""
    unit = 1.0 if by_threads else 1e-9
    path = [(ridge.intensity, ridge.stage * unit) for ridge in ridges]
    low, high = axes.get_xlim()
    shown = [each for each in kernels if low < each.intensity < high]
    places = _draw_kernels(axes, shown, colours, font, unit)
    x, y = zip(*path, strict=True)
    axes.plot(x, y, color=style.INK, linewidth=0.16 * font, zorder=5)
    axes.plot(x, y, "o", color=style.INK, markersize=0.42 * font, zorder=5.2)
    ground = Ground(axes, [*places, *path], 0.6 * font, spread=False)
    pairs = itertools.pairwise(path)
    ground.lines += [(ground.segment((a[0], b[0]), (a[1], b[1])), 3.0) for a, b in pairs]
    filled = [ridge.what == "held" for ridge in ridges]
    draw_badges(ground, path, [ridge.number for ridge in ridges], font, (0.0, 1.0), (1.7, 0.0), filled)
    for each in shown:
        upright = ground.segment((each.intensity, each.intensity), axes.get_ylim())
        look = {"fontsize": 0.8 * font, "color": style.INK, "label": "kernel-label", "zorder": 3.4}
        ground.write_along(upright, [each.name, style.shortened(each.name, 14)], 0.0, **look)
    _name_sides(axes, font)
    axes.set_title(_heading(ridges), loc="left", fontsize=0.95 * font, weight="bold", pad=0.5 * font)


def set_map_limits(axes: Axes, ridges: Sequence[Ridge], y: tuple[float, float], width_pt: float, font: float) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    x = map_range(ridges)
    axes.set(xscale="log", xlim=x.values(), ylim=y)
    ticks = _ticks(x, width_pt, font)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([plain(tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    finish(axes)


def _ticks(x: Decades, width_pt: float, font: float) -> list[float]:
    """Round intensities that have room for their numbers."""
    low, high = x.values()
    step = 10.0 ** (len(f"{low:.0f}") - 1)
    for factor in (0.1, 0.2, 0.5, 1, 2, 5):
        size = factor * step
        ticks = [i * size for i in range(1, int(high / size) + 1) if low <= i * size <= high]
        if ticks and len(ticks) * 3.2 * font <= width_pt:
            return ticks
    return [float(f"{(low * high) ** 0.5:.1g}")]


def _draw_kernels(
    axes: Axes, kernels: Sequence[Crossing], colours: dict[str, str], font: float, unit: float
) -> list[tuple[float, float]]:
    """Full where the kernel is compute-bound, broken where it is bandwidth-bound; marks at the clocks that it held."""
    places = []
    bottom, top = axes.get_ylim()
    for each in kernels:
        turn = each.turns_at * unit if each.turns_at is not None else (top if each.side == "compute" else bottom)
        look: dict[str, Any] = {"color": colours[each.kernel], "linewidth": 0.15 * font, "zorder": 2}
        axes.plot([each.intensity] * 2, [bottom, turn], **look)
        axes.plot([each.intensity] * 2, [turn, top], linestyle=(0, (2, 1.5)), **look)
        if unit == 1.0:
            continue
        for row in records(each.rows):
            if row["compute_hz"] > 0:
                at = (row["intensity_flop_per_byte"], row["compute_hz"] * unit)
                unnamed = {**row, "gid": f"map-{row['gid']}"}
                marks.draw_mark(axes, *at, unnamed, colours[each.kernel], 0.55 * font, len(each.rows) > marks.CROWD)
                places.append(at)
    return places


def _name_sides(axes: Axes, font: float) -> None:
    """Left of the path bandwidth binds, right of it compute."""
    width = axes.get_window_extent().width * 72 / axes.figure.dpi
    texts = ("← bandwidth-bound    FLOP/B    compute-bound →", "← bandwidth    FLOP/B    compute →", "FLOP/B")
    axes.set_xlabel(next((text for text in texts if style.text_width(text, 0.85 * font) < width), texts[-1]))
    axes.xaxis.label.set_fontsize(0.85 * font)


def _heading(ridges: Sequence[Ridge]) -> str:
    low, high = min(r.intensity for r in ridges), max(r.intensity for r in ridges)
    ends = plain(low) if plain(low) == plain(high) else f"{plain(low)} – {plain(high)}"
    return f"{ridges[0].precision}: {ends}"
