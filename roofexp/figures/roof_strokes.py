"""Roofs, ceilings and ridges as lines on the plane and in the strip, each with its words on the line itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofexp.figures import style
from roofexp.figures.labels import Ground
from roofexp.figures.limits import Plane
from roofexp.figures.roof_lines import RoofLine, RoofLines
from roofexp.figures.table import Table
from roofexp.units import engineering, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ends = tuple[tuple[float, float], tuple[float, float]]  # x from and to, y from and to


def draw_roofs(axes: Axes, lines: RoofLines, plane: Plane, font_pt: float, table: Table, hover: dict[str, str]) -> None:
    """Bandwidths as diagonals up to the highest plateau, compute roofs as plateaus to the right edge.

    ``table`` takes every vertex, ``hover`` the words of each line by its id.
    """
    for line in lines.bandwidth:
        _stroke(axes, diagonal(line, lines, plane), line, font_pt, table, hover)
    for line in lines.compute:
        if line.has_band:
            axes.fill_between(
                [plateau(line, lines, plane)[0][0], 10**plane.x.high],
                line.low,
                line.high,
                color=style.ROOF,
                alpha=0.1,
                linewidth=0,
                zorder=1,
                label=f"band {line.roof.name}",
            )
        _stroke(axes, plateau(line, lines, plane), line, font_pt, table, hover)
        eaves = _eaves(line, lines, plane)
        if eaves:
            axes.plot(*eaves, **{**_look(line, font_pt), "color": style.CEILING, "linewidth": 0.11 * font_pt})
            table.line("roof", line.roof.name, _vertices(eaves), precision=line.roof.precision)
    for line, at in ridges(lines):
        bottom = 10**plane.y.low
        axes.plot([at, at], [bottom, line.rate], ":", color=style.CEILING, linewidth=0.09 * font_pt, zorder=1.5)
        table.line("ridge", f"ridge {line.roof.precision}", _vertices(((at, at), (bottom, line.rate))))


def draw_strip_roofs(axes: Axes, lines: RoofLines, font_pt: float, table: Table) -> None:
    """The same bandwidths as level lines: they meet their diagonals at the edge of the plane."""
    for line in lines.bandwidth:
        axes.axhline(line.rate, **_look(line, font_pt))
        table.line("strip ceiling" if line.ceiling else "strip roof", line.roof.name, [{"bytes_per_s": line.rate}])


def write_roofs(ground: Ground, lines: RoofLines, plane: Plane, font_pt: float) -> list[str]:
    """The words on each line; returns those that found no room, for the footnote."""
    small = 0.85 * font_pt
    drawn = [(line, diagonal(line, lines, plane), 0.0) for line in lines.bandwidth]
    drawn += [(line, plateau(line, lines, plane), 1.0) for line in lines.compute]
    segments = [(line, ground.segment(*ends), start) for line, ends, start in drawn]
    verticals = [(line, at, ground.segment((at, at), (10**plane.y.low, line.rate))) for line, at in ridges(lines)]
    ground.lines += [(segment, 3.0 if line.main else 1.0) for line, segment, _ in segments]
    ground.lines += [(segment, 0.5) for _, _, segment in verticals]
    lost = []
    for line, segment, start in sorted(segments, key=lambda item: not item[0].main):
        colour = style.INK if line.main else style.FADED
        if not ground.write_along(
            segment, line.texts, start, fontsize=small, color=colour, label="roof-label", zorder=3
        ):
            lost.append(line.texts[-1])
    for line, at, segment in verticals:
        ridge = f"{line.roof.precision} ridge {plain(at)}"
        faded = {"fontsize": small, "color": style.FADED, "label": "ridge-label", "zorder": 3}
        if not ground.write_along(segment, [f"{ridge} FLOP/B", ridge, plain(at)], 0.0, **faded):
            lost.append(ridge)
    return lost


def ridges(lines: RoofLines) -> list[tuple[RoofLine, float]]:
    """The intensity (FLOP/B) at which each precision's highest roof meets the main bandwidth."""
    main = lines.main_bandwidth
    return [(line, line.rate / main.rate) for line in lines.plateaus] if main else []


def first_knees(lines: RoofLines) -> list[float]:
    """The intensities (FLOP/B) at which every bandwidth meets the highest compute roof."""
    full = [line for line in lines.bandwidth if not line.ceiling]
    return [lines.highest.rate / line.rate for line in full] if lines.highest else []


def diagonal(line: RoofLine, lines: RoofLines, plane: Plane) -> Ends:
    low, high = plane.x.values()
    if lines.highest is not None:
        high = max(low, min(high, lines.highest.rate / line.rate))
    return (low, high), (low * line.rate, high * line.rate)


def plateau(line: RoofLine, lines: RoofLines, plane: Plane) -> Ends:
    """From the main diagonal to the right edge."""
    return _level(line, lines.main_bandwidth.rate if lines.main_bandwidth else None, 10**plane.x.high, plane)


def _eaves(line: RoofLine, lines: RoofLines, plane: Plane) -> Ends | None:
    """What a cache can add: from the fastest diagonal to the main one; None for ceilings."""
    main, full = lines.main_bandwidth, [other.rate for other in lines.bandwidth if not other.ceiling]
    if line.ceiling or main is None or max(full) <= main.rate:
        return None
    return _level(line, max(full), line.rate / main.rate, plane)


def _level(line: RoofLine, bandwidth: float | None, end: float, plane: Plane) -> Ends:
    low, high = plane.x.values()
    start = line.rate / bandwidth if bandwidth else low
    return (min(max(low, start), high), min(max(low, end), high)), (line.rate, line.rate)


def _stroke(axes: Axes, ends: Ends, line: RoofLine, font_pt: float, table: Table, hover: dict[str, str]) -> None:
    gid = f"roof-{len(hover)}"
    hover[gid] = _hover(line)
    axes.plot(*ends, **_look(line, font_pt), gid=gid, solid_capstyle="round")
    facts: dict[str, Any] = {
        "precision": line.roof.precision,
        "traffic_level": line.roof.level,
        "compute_hz": line.clock_hz,
        "cause": line.roof.cause,
    }
    if line.has_band:
        facts |= {"flops_per_s_low": line.low, "flops_per_s_high": line.high}
    table.line("ceiling" if line.ceiling else "roof", line.roof.name, _vertices(ends), **facts)


def _hover(line: RoofLine) -> str:
    """What a line is, for those whose words found no room."""
    clock = f"at {engineering(line.clock_hz, 'Hz')}" if line.clock_hz else ""
    measured = "" if line.rate == line.roof.rate else "redrawn at the clock held"
    lines = [line.texts[0], line.roof.cause, line.roof.incomplete, clock, measured]
    return "\n".join(text for text in lines if text)


def _vertices(ends: Ends) -> list[dict[str, float]]:
    return [{"intensity_flop_per_byte": x, "flops_per_s": y} for x, y in zip(*ends, strict=True)]


def _look(line: RoofLine, font_pt: float) -> dict[str, Any]:
    width = (0.2 if line.main else 0.11) * font_pt
    colour = style.ROOF if line.main else style.CEILING
    return {
        "color": colour,
        "linewidth": width,
        "linestyle": (0, (4, 2.5)) if line.ceiling else "-",
        "zorder": 2 if line.main else 1.8,
    }
