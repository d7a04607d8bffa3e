"""The plane on which ridges move, and maps of the ridge of one precision against what moves it (clock or threads)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofexp.figures.canvas import limits, marks, style
from roofexp.figures.canvas.frame import records
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import Decades, Plane, finish
from roofexp.figures.canvas.marks import draw_badges
from roofexp.figures.kinds.ridges import Crossing, Ridge, moved
from roofexp.text.numbers import engineering, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 0.14  # decades beside the ridges
LEAST = 0.42  # decades shown


def map_range(ridges: Sequence[Ridge]) -> Decades:
    span = limits.decades_of([ridge.intensity for ridge in ridges], ROOM, ROOM)
    assert span
    missing = max(0.0, LEAST - span.extent)
    return Decades(span.low - missing / 2, span.high + missing / 2)


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
    shown = [kernel for kernel in kernels if low < kernel.intensity < high]
    places = _draw_kernels(axes, shown, colours, font, unit)
    _draw_path(axes, path, font)
    canvas = LabelCanvas(axes, [*places, *path], 0.6 * font)
    canvas.avoid(path, 3.0)
    filled = [ridge.what == "held" for ridge in ridges]
    draw_badges(canvas, path, [ridge.number for ridge in ridges], (0.0, 1.0), (1.7, 0.0), filled)
    for kernel in shown:
        upright = canvas.segment((kernel.intensity, kernel.intensity), axes.get_ylim())
        texts = [kernel.name, style.shortened(kernel.name, 14)]
        canvas.write_along(upright, texts, 0.0, "kernel-label", style.INK, fontsize=0.8 * font)
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
    for kernel in kernels:
        turn = kernel.turns_at * unit if kernel.turns_at is not None else (top if kernel.side == "compute" else bottom)
        look: dict[str, Any] = {"color": colours[kernel.kernel], "linewidth": 0.15 * font, "zorder": 2}
        axes.plot([kernel.intensity] * 2, [bottom, turn], **look)
        axes.plot([kernel.intensity] * 2, [turn, top], linestyle=(0, (2, 1.5)), **look)
        if unit == 1.0:
            continue
        crowded = len(kernel.rows) > marks.CROWD
        for row in records(kernel.rows):
            if row["compute_hz"] > 0:
                at = (row["intensity_flop_per_byte"], row["compute_hz"] * unit)
                unnamed = {**row, "gid": f"map-{row['gid']}"}
                marks.draw_mark(axes, *at, unnamed, colours[kernel.kernel], 0.55 * font, crowded)
                places.append(at)
    return places


def _name_sides(axes: Axes, font: float) -> None:
    """Left of the path bandwidth binds, right of it compute."""
    width, _ = limits.flat_size(axes)
    texts = ("← bandwidth-bound    FLOP/B    compute-bound →", "← bandwidth    FLOP/B    compute →", "FLOP/B")
    axes.set_xlabel(next((text for text in texts if style.text_width(text, 0.85 * font) < width), texts[-1]))
    axes.xaxis.label.set_fontsize(0.85 * font)


def _heading(ridges: Sequence[Ridge]) -> str:
    low, high = min(r.intensity for r in ridges), max(r.intensity for r in ridges)
    ends = plain(low) if plain(low) == plain(high) else f"{plain(low)} – {plain(high)}"
    return f"{ridges[0].precision}: {ends}"


NEAR = 8.0  # kernels within this factor of a ridge are in sight
ROOT = 1 / math.sqrt(2)
BESIDE = 1.3
NUMBERED = 3  # precisions whose ridges are numbered on the plane; the panels below number all
SAME = 1.01  # bandwidths nearer to each other than this are one line


def in_sight(kernels: Sequence[Crossing], ridges: Sequence[Ridge]) -> list[Crossing]:
    """The kernels that are near enough to any ridge of their precision."""
    low, high = min(r.intensity for r in ridges), max(r.intensity for r in ridges)
    return [kernel for kernel in kernels if low / NEAR <= kernel.intensity <= high * NEAR]


def ridge_plane(ridges: Sequence[Ridge], kernels: Sequence[Crossing], width: float, flattest: float) -> Plane:
    """Limits that hold all ridges and the kernels in sight."""
    shown = in_sight(kernels, ridges)
    x = limits.decades_of([*(r.intensity for r in ridges), *(kernel.intensity for kernel in shown)], 0.3, 0.45)
    assert x
    x = limits.at_least(x, 1.3)
    least = 0.03 * min(r.compute for r in ridges)
    rates = [rate for kernel in shown for rate in kernel.rows["flops_per_s"] if rate > least]
    y = limits.decades_of([*(r.compute for r in ridges), *rates], 0.4, 0.25)
    assert y
    return limits.equal_decades(x, limits.at_least(y, 0.6), width, flattest * width, max(0.55, flattest) * width)


def draw_ridge_plane(
    axes: Axes,
    ridges: Sequence[Ridge],
    kernels: Sequence[Crossing],
    colours: dict[str, str],
    font: float,
    mark_pt: float,
    by_threads: bool,
) -> None:
    """Bandwidths, plateaus and the paths of the ridges between them, with the kernels in sight."""
    shown = in_sight(kernels, ridges)
    places = _draw_kernels_on_plane(axes, shown, colours, font, mark_pt)
    canvas = LabelCanvas(axes, [*places, *((r.intensity, r.compute) for r in ridges)], mark_pt)
    _draw_bandwidths(canvas, ridges, font, by_threads)
    _draw_plateaus(canvas, ridges, font, by_threads)
    for precision in dict.fromkeys(ridge.precision for ridge in ridges):
        _draw_path(axes, [(r.intensity, r.compute) for r in ridges if r.precision == precision], font)
    numbered = _numbered(ridges)
    badges = [ridge for ridge in ridges if ridge.precision in numbered]
    if badges:
        at = [(ridge.intensity, ridge.compute) for ridge in badges]
        filled = [ridge.what == "held" for ridge in badges]
        draw_badges(canvas, at, [ridge.number for ridge in badges], (ROOT, ROOT), (-1.5, 1.5), filled)
    _name_kernels(canvas, shown)
    columns = ("intensity_flop_per_byte", "flops_per_s", "compute_hz", "nvml_sm_hz", "duty")
    for kernel in shown:
        for row in records(kernel.rows):
            facts = {"what": kernel.name, "side": kernel.side, "clock_asked": row["held_by"]}
            canvas.drawing.add_point(row, {name: row[name] for name in columns}, **facts)


def _numbered(ridges: Sequence[Ridge]) -> list[str]:
    """The precisions whose ridge moved farthest, of those side by side one."""

    def shift(precision: str) -> float:
        own = [ridge.intensity for ridge in ridges if ridge.precision == precision]
        return max(own) / min(own)

    taken: list[str] = []
    for precision in sorted(moved(ridges), key=shift, reverse=True):
        if not any(_overlap(ridges, precision, other) for other in taken):
            taken.append(precision)
    return taken[:NUMBERED]


def _overlap(ridges: Sequence[Ridge], first: str, second: str) -> bool:
    """Whether the paths of two precisions lie side by side, so that numbers could belong to either."""
    a, b = ([r.intensity for r in ridges if r.precision == name] for name in (first, second))
    return min(a) < BESIDE * max(b) and min(b) < BESIDE * max(a)


def stage_words(ridge: Ridge, by_threads: bool) -> str:
    if by_threads:
        return f"{ridge.stage:.0f} thread{'' if ridge.stage == 1 else 's'}"
    return engineering(ridge.stage, "Hz")


def _draw_bandwidths(canvas: LabelCanvas, ridges: Sequence[Ridge], font: float, by_threads: bool) -> None:
    """Each distinct bandwidth up to the farthest ridge on it."""
    left = canvas.axes.get_xlim()[0]
    ordered, drawn = sorted(ridges, key=lambda ridge: ridge.bandwidth, reverse=True), 0.0
    for ridge in ordered:
        if drawn and drawn / ridge.bandwidth < SAME:
            continue
        drawn = ridge.bandwidth
        end = max(r.intensity for r in ridges if max(r.bandwidth, drawn) / min(r.bandwidth, drawn) < SAME)
        ends = (left, end), (left * drawn, end * drawn)
        canvas.axes.plot(*ends, color=style.ROOF, linewidth=0.2 * font, zorder=2, solid_capstyle="round")
        segment = canvas.segment(*ends)
        canvas.lines.append((segment, 3.0))
        stage = f", {stage_words(ridge, True)}" if by_threads else ""
        text = f"{ridge.level.upper()} {engineering(drawn, 'B/s')}{stage}"
        canvas.write_along(segment, [text], 0.1, "roof-label", style.INK)


def _draw_plateaus(canvas: LabelCanvas, ridges: Sequence[Ridge], font: float, by_threads: bool) -> None:
    """A compute roof from each ridge to the right; the words on the highest and the lowest of a precision."""
    right = canvas.axes.get_xlim()[1]
    for precision in dict.fromkeys(ridge.precision for ridge in ridges):
        own = sorted((r for r in ridges if r.precision == precision), key=lambda ridge: ridge.compute)
        segments = []
        for ridge in own:
            heavy = ridge is own[-1]
            look: dict[str, Any] = {"color": style.ROOF if heavy else style.CEILING, "zorder": 2 if heavy else 1.8}
            look |= {"linewidth": (0.2 if heavy else 0.1) * font}
            ends = (ridge.intensity, right), (ridge.compute, ridge.compute)
            canvas.axes.plot(*ends, linestyle="-" if ridge.what == "held" else (0, (4, 2)), **look)
            segments.append(canvas.segment(*ends))
            canvas.lines.append((segments[-1], 2.0))
        for ridge, segment in dict(zip((own[-1], own[0]), (segments[-1], segments[0]), strict=True)).items():
            rate = f"{precision} {engineering(ridge.compute, 'FLOP/s')}"
            texts = [f"{rate} at {stage_words(ridge, by_threads)}", rate, precision]
            canvas.write_along(segment, texts, 1.0, "roof-label", style.INK)


def _draw_path(axes: Axes, path: Sequence[tuple[float, float]], font: float) -> None:
    x, y = zip(*path, strict=True)
    axes.plot(x, y, color=style.INK, linewidth=0.16 * font, zorder=5)
    axes.plot(x, y, "o", color=style.INK, markersize=0.42 * font, zorder=5.2)


def _draw_kernels_on_plane(
    axes: Axes, kernels: Sequence[Crossing], colours: dict[str, str], font: float, mark_pt: float
) -> list[tuple[float, float]]:
    """An upright line at each kernel's intensity, and its points on it where they were measured."""
    places = []
    crowded = sum(len(kernel.rows) for kernel in kernels) > marks.CROWD
    low, high = axes.get_ylim()
    for kernel in kernels:
        colour = colours[kernel.kernel]
        width = (0.16 if kernel.side == "both" else 0.08) * font
        axes.axvline(kernel.intensity, color=colour, linewidth=width, linestyle=(0, (1, 1.5)), zorder=1.6)
        for row in records(kernel.rows):
            if low < row["flops_per_s"] < high:
                at = (row["intensity_flop_per_byte"], row["flops_per_s"])
                marks.draw_mark(axes, *at, row, colour, 0.8 * mark_pt, crowded)
                places.append(at)
    return places


def _name_kernels(canvas: LabelCanvas, kernels: Sequence[Crossing]) -> None:
    several = len({kernel.precision for kernel in kernels}) > 1
    for kernel in kernels:
        upright = canvas.segment((kernel.intensity, kernel.intensity), canvas.axes.get_ylim())
        turning = {"weight": "bold"} if kernel.side == "both" else {}
        full = f"{kernel.name} {kernel.precision}" if several else kernel.name
        texts = [f"{full} {plain(kernel.intensity)} FLOP/B", full]
        canvas.write_along(upright, texts, 0.0, "kernel-label", style.INK, **turning)
