"""A soak on one time axis: throughput under its running roof, clocks, power, temperature, what held the clocks back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, style
from roofexp.figures.canvas.frame import records
from roofexp.figures.canvas.page import BELOW, Page
from roofexp.figures.kinds.soak_course import (
    REASONS,
    Course,
    Row,
    course_of,
    ends,
    is_unsettled,
    notes,
    recorded_rate,
    title,
    under,
)
from roofexp.records.machine import Machine, RoofSet
from roofexp.records.point import Point
from roofexp.text.numbers import engineering, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from roofexp.figures.canvas.page import Drawing

BANDS = ("#fbf1dc", "#f9e2df", "#e9e9f5", "#e4f1ea")
HIGH, LOW, GAP, HEADING = 15.0, 7.5, 1.1, 1.7  # panels, in font sizes


class Line(NamedTuple):
    """A column of the table in a panel."""

    column: str
    name: str
    look: dict[str, Any]


class Strip(NamedTuple):
    """A panel: its lines, unit and scale."""

    heading: str
    lines: list[Line]
    unit: str
    high: bool = False
    mark: tuple[float, str] | None = None  # a level drawn across, and its name


def draw_soak(
    point: Point,
    samples: Sequence[Row],
    clocks: Sequence[Row],
    machine: Machine | None,
    roofs: RoofSet | None,
    settings: FiguresConfig,
) -> Drawing | None:
    """The soak of one point; None for a point that was none. ``samples`` and ``clocks``: the rows of its own files."""
    if point.clock is None or point.timing is None or not point.clock.readings.soak_s:
        return None
    course = course_of(point, samples, clocks, roofs)
    if course is None or not course.has(course.rate):
        return None
    with style.themed(settings):
        return _draw(point, course, machine or (roofs.machine if roofs else None), roofs, settings)


def _draw(
    point: Point, course: Course, machine: Machine | None, roofs: RoofSet | None, settings: FiguresConfig
) -> Drawing:
    font = settings.font_pt
    strips = _strips(point, course, machine, font)
    footnotes, key = notes(point, course, roofs), _key(strips, course, font)
    page = Page(settings, title(point, course), under(point, machine), footnotes, key)
    heights = [(HIGH if strip.high else LOW) * font for strip in strips]
    bottom = sum(heights) + (len(strips) * HEADING + (len(strips) - 1) * GAP) * font
    drawing = page.make(bottom, BELOW * font)
    for strip, height in zip(strips, heights, strict=True):
        bottom -= height + HEADING * font
        axes = page.axes(page.left, bottom, page.room(0.8), height, label=f"strip {strip.heading}")
        _draw_strip(axes, strip, point, course, font)
        axes.set_xlabel("Time (s)" if strip is strips[-1] else "")
        axes.tick_params(labelbottom=strip is strips[-1])
        bottom -= GAP * font
    drawing.rows = records(course.table)
    return drawing


def _strips(point: Point, course: Course, machine: Machine | None, font: float) -> list[Strip]:
    colours = list(style.kernel_colours("abcd").values())
    thick, thin = 0.18 * font, 0.11 * font
    sm = "SM" if point.device == "cuda" else "Core"
    rate = [Line("attainable_per_s", "roof at the clock of the moment", {"color": style.ROOF, "linewidth": thin})]
    rate += [Line(course.rate, "throughput", {"color": colours[0], "linewidth": thick})]
    clock = [Line("compute_hz", f"{sm.lower() if sm == 'Core' else sm} clock that was held", _solid(colours[2], thick))]
    clock += [Line("nvml_sm_hz", "clock by NVML", _dashed(colours[2], thin))]
    power = [Line("power_by_energy_w", "power by the energy counter (over 1 s)", _solid(colours[1], thick))]
    power += [Line("power_w", "power by NVML (a mean over time)", _dashed(colours[1], thin))]
    limit_w = machine.details.get("power_limit_w") if machine else None
    limit = (float(limit_w), f"limit {limit_w:.0f} W") if limit_w else None
    warm = [Line("temperature_c", "temperature", _solid(colours[3], thick))]
    strips = [
        Strip("Throughput, and the roof above it", rate, course.unit, high=True),
        Strip(f"{sm} clock", clock, "Hz"),
        Strip("Power", power, "W", mark=limit),
        Strip("Temperature", warm, "°C"),
    ]
    kept = [strip._replace(lines=[line for line in strip.lines if course.has(line.column)]) for strip in strips]
    return [strip for strip in kept if strip.lines]


def _solid(colour: str, width: float) -> dict[str, Any]:
    return {"color": colour, "linewidth": width}


def _dashed(colour: str, width: float) -> dict[str, Any]:
    return {"color": colour, "linewidth": width, "linestyle": (0, (4, 1.5))}


def _draw_strip(axes: Axes, strip: Strip, point: Point, course: Course, font: float) -> None:
    from matplotlib.ticker import MaxNLocator

    style.open_sides(axes)
    limits.grid(axes)
    axes.set_title(strip.heading, loc="left", fontsize=0.95 * font, weight="bold", pad=0.45 * font)
    highest = max(float(course.table[line.column].max()) for line in strip.lines)
    top = max(highest, strip.mark[0] if strip.mark else 0.0)
    scale, prefix = _scale(top) if strip.unit != "°C" else (1.0, "")
    axes.set_ylabel(f"{prefix}{strip.unit}")
    low = _floor(course, strip, scale) if strip.unit == "Hz" else 0
    axes.set_ylim(low, (1.17 if strip.mark else 1.08) * top / scale)
    axes.set_xlim(0, float(course.table["at_s"].iloc[-1]) + float(course.table["at_s"].iloc[0]))
    axes.yaxis.set_major_locator(MaxNLocator(5 if strip.high else 4))
    for colour, spans in zip(BANDS, course.held_back.values(), strict=False):
        for start, end in spans:
            axes.axvspan(start, end, color=colour, linewidth=0, zorder=0)
    for line in strip.lines:
        rows = course.table[course.table[line.column].notna()]
        look = {"zorder": 3, "solid_joinstyle": "round", **line.look}
        axes.plot(rows["at_s"], rows[line.column] / scale, label=line.name, **look)
    if strip.high:
        _write_end(axes, point, course, scale, font)
    if strip.mark:
        _draw_mark(axes, strip.mark[0] / scale, strip.mark[1], font)
    settled = point.clock.readings.settled_from_s if point.clock else None
    if isinstance(settled, float):
        word = "last third" if is_unsettled(point) else "settled"
        _draw_settled(axes, settled, font, word if strip.high else "")


def _write_end(axes: Axes, point: Point, course: Course, scale: float, font: float) -> None:
    """What is left once settled, as the record has it, below the end of the line."""
    late = recorded_rate(point, course)
    words = engineering(late, course.unit)
    if course.has("attainable_per_s"):
        words += f", {percent(late / ends(course, 'attainable_per_s')[1])} of the roof"
    look: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 0.9 * font}
    low = float(course.table[course.rate].iloc[-len(course.table) // 3 :].min())
    height = axes.get_ylim()[1]
    axes.text(0.998, low / scale - 0.03 * height, words, transform=axes.get_yaxis_transform(), **look)


def _draw_settled(axes: Axes, at_s: float, font: float, word: str) -> None:
    axes.axvline(at_s, color=style.INK, linewidth=0.09 * font, linestyle=(0, (1, 1.5)), zorder=2)
    if word:
        side = "left" if at_s < sum(axes.get_xlim()) / 2 else "right"
        place: dict[str, Any] = {"ha": side, "va": "bottom", "transform": axes.get_xaxis_transform()}
        axes.text(at_s, 0.02, f" {word} ", fontsize=0.85 * font, color=style.FADED, **place)


def _draw_mark(axes: Axes, level: float, name: str, font: float) -> None:
    axes.axhline(level, color=style.INK, linewidth=0.1 * font, linestyle=(0, (5, 2)), zorder=2)
    look: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 0.85 * font, "color": style.INK}
    axes.text(0.998, level, name, transform=axes.get_yaxis_transform(), **look)


def _floor(course: Course, strip: Strip, scale: float) -> float:
    """A clock's axis begins near the lowest value at work: idling would hide how it moves."""
    at_work = course.table[course.table[course.rate] > 0]
    lowest = min(float(at_work[line.column].min()) for line in strip.lines)
    highest = max(float(at_work[line.column].max()) for line in strip.lines)
    return max(0.0, lowest - max(0.15 * lowest, highest - lowest)) / scale


def _scale(value: float) -> tuple[float, str]:
    """A power of 1000 and its prefix."""
    prefix = engineering(value, "|").split(" ")[-1].removesuffix("|")
    return 1000.0 ** {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5}.get(prefix, 0), prefix


def _key(strips: list[Strip], course: Course, font: float) -> list[Line2D]:
    from matplotlib.lines import Line2D

    lines = [line for strip in strips for line in strip.lines]
    handles = [_short(line.name, line.look, font) for line in lines]
    for colour, reason in zip(BANDS, course.held_back, strict=False):
        look = {"marker": "s", "markersize": 0.9 * font, "markeredgewidth": 0, "linestyle": "none"}
        handles.append(Line2D([], [], color=colour, label=f"clocks held back: {REASONS.get(reason, reason)}", **look))  # type: ignore[arg-type]
    return handles


def _short(name: str, look: dict[str, Any], font: float) -> Line2D:
    """A mark for the key, which has room for a mark and not for a line."""
    from matplotlib.lines import Line2D
    from matplotlib.path import Path as Outline

    dashes = Outline([(-1, 0), (-0.3, 0), (0.3, 0), (1, 0)], [1, 2, 1, 2])
    mark = {"markersize": 0.95 * font, "markeredgewidth": 2.2 * look["linewidth"], "linestyle": "none"}
    return Line2D([], [], color=look["color"], marker=(dashes if "linestyle" in look else "_"), label=name, **mark)
