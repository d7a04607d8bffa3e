"""Which roofs a figure draws, at which clock, their lines on the plane and the words on these lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from roofexp.figures.canvas import style
from roofexp.figures.canvas.frame import Held, held_clocks
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import Plane
from roofexp.figures.canvas.page import drawing_of
from roofexp.figures.canvas.style import shortened
from roofexp.records.machine import LEVELS, Roof, RoofSet
from roofexp.text.numbers import engineering, percent, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

CEILINGS = 4  # compute ceilings that fit without a crowd
BAND = 1.02  # clocks further apart than this are drawn as a band


class RoofLine(msgspec.Struct, frozen=True, kw_only=True):
    """A roof to be drawn: FLOP/s of a plateau or B/s of a diagonal, at the clock held and at both ends of its range."""

    roof: Roof
    rate: float
    low: float
    high: float
    clock_hz: float | None
    main: bool  # what the points are compared with; the others stand by in grey
    texts: list[str]  # the words on the line, and shorter ones where room is short

    @property
    def ceiling(self) -> bool:
        return self.roof.ceiling_of is not None

    @property
    def has_band(self) -> bool:
        """Whether the points held clocks far enough apart; shown for what they are compared with alone."""
        return self.main and self.high > BAND * self.low


class RoofLines(msgspec.Struct, frozen=True):
    bandwidth: list[RoofLine]
    compute: list[RoofLine]
    left_out: int = 0  # ceilings measured and not drawn

    @property
    def main_bandwidth(self) -> RoofLine | None:
        return next((line for line in self.bandwidth if line.main and not line.ceiling), None)

    @property
    def plateaus(self) -> list[RoofLine]:
        """The highest compute roof of each precision."""
        return [line for line in self.compute if line.main and not line.ceiling]

    @property
    def highest(self) -> RoofLine | None:
        """The compute roof that all diagonals end at."""
        return max((line for line in self.compute if not line.ceiling), key=lambda line: line.rate, default=None)


def main_level(frame: DataFrame) -> str:
    """The memory level that most points are counted at."""
    levels = [level for level in frame["traffic_level"] if level]
    return max(dict.fromkeys(levels), key=levels.count, default="dram")


def roof_lines(roofs: RoofSet | None, frame: DataFrame, precisions: list[str]) -> RoofLines:
    """Every measured bandwidth; the compute roofs of the precisions present; the ceilings of the highest of them."""
    if roofs is None:
        return RoofLines([], [])
    bandwidth = _bandwidth(roofs, frame)
    compute = []
    for precision in precisions or _measured_precisions(roofs):
        best = roofs.compute(precision)
        held = _held_under(best, bandwidth[0] if bandwidth else None, frame, precision)
        for roof in roofs.roofs:
            if roof.kind == "compute" and roof.precision == precision:
                compute.append(_line(roof, held, main=roof is best))
    return _thinned(bandwidth, compute, frame)


def _bandwidth(roofs: RoofSet, frame: DataFrame) -> list[RoofLine]:
    """The main level's roof first. Ceilings of other levels would crowd the figure; the table of roofs has them."""
    level = main_level(frame)
    used = {*frame["traffic_level"], level}
    shown = [r for r in roofs.roofs if r.kind == "bandwidth" and (r.ceiling_of is None or r.level == level)]
    shown.sort(key=lambda roof: (roof.level != level, roof.ceiling_of is not None, _depth(roof)))
    held = held_clocks(frame)
    return [_line(roof, held, main=roof.level in used) for roof in shown]


def _held_under(best: Roof | None, bandwidth: RoofLine | None, frame: DataFrame, precision: str) -> Held | None:
    """The clocks of the points that the compute roof is there for: past the ridge. Where none is: of the precision,
    and else of all. (A power-limited chip holds quite another clock while it waits for memory.)"""
    rows = frame[frame["precision"] == precision]
    if best is not None and bandwidth is not None:
        past = rows[rows["intensity_flop_per_byte"] * bandwidth.rate >= best.rate]
        rows = past if len(past) else rows
    return held_clocks(rows) or held_clocks(frame)


def _measured_precisions(roofs: RoofSet) -> list[str]:
    return list(dict.fromkeys(r.precision for r in roofs.roofs if r.kind == "compute" and r.precision))


def _thinned(bandwidth: list[RoofLine], compute: list[RoofLine], frame: DataFrame) -> RoofLines:
    """Leaves out ceilings that would crowd the figure: those of lower roofs, and where still too many are left, of all
    but the most frequent precision."""
    highest = {line.roof.name for line in compute if line.main}
    kept = [line for line in compute if not line.ceiling or line.roof.ceiling_of in highest]
    if sum(line.ceiling for line in kept) > CEILINGS:
        often = frame["precision"].value_counts().index[0]
        kept = [line for line in kept if not line.ceiling or line.roof.precision == often]
    return RoofLines(bandwidth, kept, left_out=len(compute) - len(kept))


def roof_texts(roof: Roof, rate: float) -> list[str]:
    """The words on the line, for instance ``fp32 fma 65.1 TFLOP/s, 98 % of limit``, and shorter ones."""
    value = engineering(rate, "FLOP/s" if roof.kind == "compute" else "B/s")
    if roof.ceiling_of is not None:
        name = _ceiling_name(roof)
        return [f"{name} {value}", name]
    name = level_name(roof.name) if roof.kind == "bandwidth" else shortened(roof.name, 28)
    short = f"{name} {'at least ' if roof.incomplete else ''}{value}"
    return [*([f"{short}, {percent(roof.rate / roof.limit)} of limit"] if roof.limit else []), short, name]


def level_name(name: str) -> str:
    """``DRAM``, ``L2``, but ``shared``; other names as they are, shortened."""
    return name.upper() if name in LEVELS and name != "shared" else shortened(name, 28)


def _ceiling_name(roof: Roof) -> str:
    of = (roof.precision if roof.kind == "compute" else (roof.level or "").upper()) or ""
    cause = shortened(roof.cause or roof.name, 32)
    return cause if of and of.lower() in cause.lower() else f"{of} {cause}".strip()


def _line(roof: Roof, held: Held | None, main: bool) -> RoofLine:
    clocks = held or Held(roof.compute_hz or 0.0, roof.compute_hz or 0.0, roof.compute_hz or 0.0)
    moves = roof.clock_domain == "compute" and roof.compute_hz
    rate = roof.at(clocks.median)
    return RoofLine(
        roof=roof,
        rate=rate,
        low=roof.at(clocks.low),
        high=roof.at(clocks.high),
        clock_hz=(clocks.median or None) if moves else roof.compute_hz,
        main=main and roof.ceiling_of is None,
        texts=roof_texts(roof, rate),
    )


def _depth(roof: Roof) -> int:
    return LEVELS.index(roof.level) if roof.level in LEVELS else len(LEVELS)


Ends = tuple[tuple[float, float], tuple[float, float]]  # x from and to, y from and to


def draw_roofs(axes: Axes, lines: RoofLines, plane: Plane) -> None:
    """Bandwidths as diagonals up to the highest plateau, compute roofs as plateaus to the right edge."""
    drawing = drawing_of(axes)
    font_pt = drawing.settings.font_pt
    for line in lines.bandwidth:
        _stroke(axes, diagonal(line, lines, plane), line)
    for line in lines.compute:
        if line.has_band:
            x = [plateau(line, lines, plane)[0][0], 10**plane.x.high]
            look: dict[str, Any] = {"color": style.ROOF, "alpha": 0.1, "linewidth": 0, "zorder": 1}
            axes.fill_between(x, line.low, line.high, label=f"band {line.roof.name}", **look)
        _stroke(axes, plateau(line, lines, plane), line)
        eaves = _eaves(line, lines, plane)
        if eaves:
            axes.plot(*eaves, **{**_look(line, font_pt), "color": style.CEILING, "linewidth": 0.11 * font_pt})
            drawing.add_line("roof", line.roof.name, _vertices(eaves), precision=line.roof.precision)
    for line, at in ridges(lines):
        bottom = 10**plane.y.low
        axes.plot([at, at], [bottom, line.rate], ":", color=style.CEILING, linewidth=0.09 * font_pt, zorder=1.5)
        drawing.add_line("ridge", f"ridge {line.roof.precision}", _vertices(((at, at), (bottom, line.rate))))


def draw_strip_roofs(axes: Axes, lines: RoofLines) -> None:
    """The same bandwidths as level lines: they meet their diagonals at the edge of the plane."""
    drawing = drawing_of(axes)
    for line in lines.bandwidth:
        axes.axhline(line.rate, **_look(line, drawing.settings.font_pt))
        kind = "strip ceiling" if line.ceiling else "strip roof"
        drawing.add_line(kind, line.roof.name, [{"bytes_per_s": line.rate}])


def write_roofs(canvas: LabelCanvas, lines: RoofLines, plane: Plane) -> list[str]:
    """The words on each line; returns those that found no room, for the footnote."""
    drawn = [(line, diagonal(line, lines, plane), 0.0) for line in lines.bandwidth]
    drawn += [(line, plateau(line, lines, plane), 1.0) for line in lines.compute]
    segments = [(line, canvas.segment(*ends), start) for line, ends, start in drawn]
    verticals = [(line, at, canvas.segment((at, at), (10**plane.y.low, line.rate))) for line, at in ridges(lines)]
    canvas.lines += [(segment, 3.0 if line.main else 1.0) for line, segment, _ in segments]
    canvas.lines += [(segment, 0.5) for _, _, segment in verticals]
    lost = []
    for line, segment, start in sorted(segments, key=lambda item: not item[0].main):
        colour = style.INK if line.main else style.FADED
        if not canvas.write_along(segment, line.texts, start, "roof-label", colour):
            lost.append(line.texts[-1])
    for line, at, segment in verticals:
        ridge = f"{line.roof.precision} ridge {plain(at)}"
        if not canvas.write_along(segment, [f"{ridge} FLOP/B", ridge, plain(at)], 0.0, "ridge-label"):
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


def _stroke(axes: Axes, ends: Ends, line: RoofLine) -> None:
    drawing = drawing_of(axes)
    gid = f"roof-{len(drawing.hover)}"
    drawing.hover[gid] = _hover(line)
    axes.plot(*ends, **_look(line, drawing.settings.font_pt), gid=gid, solid_capstyle="round")
    roof = line.roof
    facts = {"precision": roof.precision, "traffic_level": roof.level, "compute_hz": line.clock_hz, "cause": roof.cause}
    if line.has_band:
        facts |= {"flops_per_s_low": line.low, "flops_per_s_high": line.high}
    drawing.add_line("ceiling" if line.ceiling else "roof", roof.name, _vertices(ends), **facts)


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
