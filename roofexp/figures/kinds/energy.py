"""The roofline of energy: work per joule against intensity, the arch over the points, and power below.

The arch is after Choi, Bedard, Fowler, Vuduc: "A Roofline Model of Energy" (IPDPS 2013): J/FLOP = a + b / intensity, a
part for the arithmetic and a part for each byte. Both constants are read from the best points measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import Labels, highest, lowest, measured, precisions, prepared, records
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import Decades, Place, Plane, equal_plane, finish, log_axes
from roofexp.figures.canvas.marks import worth_naming
from roofexp.figures.canvas.page import BELOW, RIGHT, SIDE, Page, drawing_of
from roofexp.figures.canvas.roof_lines import roof_lines
from roofexp.figures.kinds.fills import draw_fills, fill_groups
from roofexp.records.machine import RoofSet
from roofexp.text.numbers import engineering, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from roofexp.figures.canvas.page import Drawing

LEAST_POINTS = 3
LEAST_SPAN = 10.0  # largest over smallest intensity: less does not tell arithmetic from bytes


class Arch(NamedTuple):
    """``a`` in J/FLOP and ``b`` in J/B, both with their share of what the device takes when idle."""

    a: float
    b: float

    def flop_per_j(self, intensity: float) -> float:
        return 1.0 / (self.a + self.b / intensity)


def arch_line(intensities: Sequence[float], flop_per_j: Sequence[float]) -> Arch | None:
    """The lowest arch that no point lies above; None for fewer than three points or less than a decade of intensity.

    Over u = 1 / intensity the points are e = J/FLOP, and the arch is a straight line below all of them: an edge of
    their lower hull, or a line of one part alone. Taken is the one nearest to the points on the whole.
    """
    points = sorted({(1 / x, 1 / y) for x, y in zip(intensities, flop_per_j, strict=True) if x > 0 and y > 0})
    if len(points) < LEAST_POINTS or points[-1][0] < LEAST_SPAN * points[0][0]:
        return None
    lines = [Arch(min(e for _, e in points), 0.0), Arch(0.0, min(e / u for u, e in points))]
    for (u0, e0), (u1, e1) in itertools.pairwise(_lower_hull(points)):
        b = (e1 - e0) / (u1 - u0)
        if b >= 0 and e0 >= b * u0:
            lines.append(Arch(e0 - b * u0, b))
    return max(lines, key=lambda line: sum((line.a + line.b * u) / e for u, e in points))


def _lower_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Andrew's monotone chain, the lower half; ``points`` ascend."""
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            continue  # of points above each other the lowest came first
        hull.append(point)
    return hull


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


POWER_HEIGHT = 0.22  # of the power panel over the width
Path = list[tuple[float, float]]


class IsoPower(NamedTuple):
    """What the roofs of a precision give per joule at the power limit."""

    precision: str
    watts: float
    path: Path  # intensity and FLOP/J


def draw_energy(points: DataFrame, roofs: RoofSet | None, settings: FiguresConfig) -> Drawing | None:
    """The points of one machine and clock mode whose energy is known; None where none is.

    ``points``: the columns of points.csv; energies in J per launch, what the device takes when idle included. Where
    the same work was measured with several fills, these are compared instead.
    """
    frame = prepared(points)
    frame = frame[measured(frame) & ((frame["flop_per_j"] > 0) | (frame["byte_per_j"] > 0))]
    if frame.empty:
        return None
    groups = fill_groups(frame[frame["energy_per_launch_j"] > 0])
    with style.themed(settings):
        if groups:
            return draw_fills(groups, len(frame) - sum(len(group.rows) for group in groups), roofs, settings)
        return _Energy(frame, roofs, settings).draw()


class _Energy:
    def __init__(self, frame: DataFrame, roofs: RoofSet | None, settings: FiguresConfig) -> None:
        self.settings, self.font, self.frame, self.roofs = settings, settings.font_pt, frame, roofs
        self.on_plane = frame[(frame["flop_per_j"] > 0) & (frame["intensity_flop_per_byte"] > 0)]
        self.in_strip = frame[~(frame["flops"] > 0) & (frame["byte_per_j"] > 0)]
        self.limit_w = _power_limit(roofs)
        self.lines = roof_lines(roofs, frame, precisions(frame))
        self.arches = _arches(self.on_plane)
        self.colours = style.kernel_colours(frame["kernel"])
        self.mark_pt = marks.size_pt(len(frame), settings)
        self.crowded = len(frame) > marks.CROWD
        self.labels = Labels(frame)
        self.page = self._page()
        self.strip_pt = limits.strip_width(self.page, len(self.in_strip))

    def draw(self) -> Drawing:
        page, plane = self.page, self._plane()
        power = POWER_HEIGHT * plane.decade * plane.x.extent if (self.frame["power_w"] > 0).any() else 0.0
        lift = power + 0.9 * self.font if power else 0.0
        drawing = page.make(plane.height + lift, BELOW * self.font)
        left = page.left + self.strip_pt
        axes = equal_plane(page, left, lift, plane, xlabel="", ylabel="FLOP/J")
        finish(axes, "right" if len(self.in_strip) else "left")
        if power:
            axes.tick_params(labelbottom=False)
            self._draw_power(Place(left, 0, plane.decade * plane.x.extent, power), plane.x)
        else:
            axes.set_xlabel(limits.INTENSITY)
        self._draw_plane(axes, plane)
        if len(self.in_strip):
            order, across = limits.strip_order(self.in_strip)
            strip = limits.strip_axes(page, lift, self.strip_pt, plane, "B/J")
            places = self._draw_points(strip, order, across, "byte_per_j")
            self._name(LabelCanvas(strip, places, self.mark_pt), order, places)
        marks.add_hover(drawing, self.frame)
        return drawing

    def _page(self) -> Page:
        power = f"Dashed: the roofs at the power limit of {engineering(self.limit_w, 'W')}." if self.limit_w else ""
        parts = style.joined([_arch_words(precision, arch)[0] for precision, arch in self.arches.items()])
        arch = f"Curve: a + b / intensity, the lowest that no point lies above: {parts}." if parts else ""
        notes = [
            "Energy of a launch over all the time that it took, with pauses and with what the device takes when idle.",
            arch,
            power,
            words.traffic_note(self.frame),
            words.flags_note(self.frame),
        ]
        under, key = words.machine_line(self.frame, self.roofs), marks.key(self.frame, self.colours, self.mark_pt)
        return Page(self.settings, energy_title(self.frame), under, notes, key)

    def _plane(self) -> Plane:
        x = limits.decades_of(self.on_plane["intensity_flop_per_byte"], 0.5, 0.6) or Decades(-2, 2)
        x = limits.at_least(x, 2.0)
        heights = [*self.on_plane["flop_per_j"], *(rate * 10**x.low for rate in self.in_strip["byte_per_j"])]
        heights += [arch.flop_per_j(10**x.high) for arch in self.arches.values()]
        y = limits.decades_of(heights, 0.35, 0.35) or Decades(9, 12)
        width = self.page.room(SIDE if len(self.in_strip) else RIGHT, self.strip_pt)
        lowest, highest = (0.4, 0.6) if style.is_wide(self.settings) else (0.8, 0.8)
        left = 0.0 if len(self.in_strip) else 0.4
        return limits.equal_decades(x, y, width, lowest * width, highest * width, left)

    def _draw_plane(self, axes: Axes, plane: Plane) -> None:
        places = self._draw_points(axes, self.on_plane, self.on_plane["intensity_flop_per_byte"], "flop_per_j")
        canvas = LabelCanvas(axes, places, self.mark_pt)
        for iso in self._iso_power(plane):
            texts = [f"{iso.precision} roofs at {engineering(iso.watts, 'W')}", f"{iso.precision} at limit"]
            self._curve(canvas, iso.path, "iso-power", texts)
        for precision, arch in self.arches.items():
            steps = [10 ** (plane.x.low + i / 40 * plane.x.extent) for i in range(41)]
            path = [(x, arch.flop_per_j(x)) for x in steps]
            self._curve(canvas, path, f"arch {precision}", _arch_words(precision, arch), heavy=True)
        self._name(canvas, self.on_plane, places)

    def _iso_power(self, plane: Plane) -> list[IsoPower]:
        """min(compute roof, bandwidth x intensity) / power limit, for each precision among the points."""
        main, isos = self.lines.main_bandwidth, []
        for line in self.lines.plateaus if self.limit_w and main else []:
            assert main
            corner = line.rate / main.rate
            ends = [x for x in (10**plane.x.low, corner, 10**plane.x.high) if x >= 10**plane.x.low]
            path = [(x, min(line.rate, main.rate * x) / (self.limit_w or 1.0)) for x in sorted(ends)]
            isos.append(IsoPower(line.roof.precision or "", self.limit_w or 0.0, path))
        return isos

    def _curve(self, canvas: LabelCanvas, path: Path, kind: str, texts: list[str], heavy: bool = False) -> None:
        """A line (thin ones are dashed) with its words on its longest straight part, or near its end."""
        look: dict[str, Any] = {"color": style.CEILING, "linewidth": 0.12 * self.font, "linestyle": (0, (4, 2.5))}
        if heavy:
            look = {"color": style.ROOF, "linewidth": 0.18 * self.font}
        canvas.axes.plot(*zip(*path, strict=True), zorder=2, **look)
        vertices = [{"intensity_flop_per_byte": x, "flop_per_j": y} for x, y in path]
        canvas.drawing.add_line(kind, texts[0], vertices)
        parts = canvas.pieces(path, 4.0)
        canvas.lines += [(part, 2.0) for part in parts]
        canvas.write_on_longest(parts, texts, 1.0, "curve-label")

    def _draw_points(self, axes: Axes, rows: DataFrame, across: Iterable[float], y: str) -> Path:
        places = list(zip(across, rows[y].tolist(), strict=True))
        for row, place in zip(records(rows), places, strict=True):
            marks.draw_mark(axes, *place, row, self.colours[row["kernel"]], self.mark_pt, self.crowded)
            vertex = {name: row[name] for name in ("intensity_flop_per_byte", y, "power_w")}
            drawing_of(axes).add_point(row, vertex, fill=row["fill"], held_by=row["held_by"])
        return places

    def _name(self, canvas: LabelCanvas, rows: DataFrame, places: Path) -> None:
        at, names = dict(zip(rows.index, places, strict=True)), []
        for index in worth_naming(self.frame, self.settings.labels):
            if index in at:
                parts = self.labels.words(rows.loc[index])
                names.append((*at[index], [" ".join(parts), " ".join(parts[1:]) or parts[0]]))
        canvas.write_beside(names)

    def _draw_power(self, place: Place, x: Decades) -> None:
        """Watts below the plane, from zero; the power limit as a line."""
        rows = self.on_plane[self.on_plane["power_w"] > 0]
        axes = log_axes(self.page, place, x, Decades(0, 3), label="power", xlabel=limits.INTENSITY)
        top = 1.18 * max([*rows["power_w"], self.limit_w or 0.0], default=1.0)
        axes.set(yscale="linear", ylim=(0, top), ylabel="W")
        finish(axes, "right" if len(self.in_strip) else "left")
        for row in records(rows):
            unflagged = {**row, "gid": f"power-{row['gid']}", "flags": ""}
            at = (row["intensity_flop_per_byte"], row["power_w"])
            marks.draw_mark(axes, *at, unflagged, self.colours[row["kernel"]], 0.8 * self.mark_pt, self.crowded)
        if self.limit_w:
            axes.axhline(self.limit_w, color=style.CEILING, linestyle=(0, (4, 2.5)), linewidth=0.12 * self.font)
            canvas = LabelCanvas(axes, [], self.mark_pt)
            limit = canvas.segment(axes.get_xlim(), (self.limit_w, self.limit_w))
            canvas.write_along(limit, [f"power limit {engineering(self.limit_w, 'W')}"], 0.0, "limit-label")
            canvas.drawing.add_line("power limit", "power limit", [{"power_w": self.limit_w}])


def _arches(rows: DataFrame) -> dict[str, Arch]:
    arches = {
        str(precision): arch_line(points["intensity_flop_per_byte"].tolist(), points["flop_per_j"].tolist())
        for precision, points in rows.groupby("precision", sort=False)
    }
    return {precision: arch for precision, arch in arches.items() if arch is not None}


def _arch_words(precision: str, arch: Arch) -> list[str]:
    parts = [engineering(arch.a, "J/FLOP") if arch.a else "", engineering(arch.b, "J/B") if arch.b else ""]
    full = f"{precision} {' + '.join(part for part in parts if part)}"
    return [full, precision]


def _power_limit(roofs: RoofSet | None) -> float | None:
    limit_w = roofs.machine.details.get("power_limit_w") if roofs else None
    return float(limit_w) if isinstance(limit_w, int | float) and limit_w > 0 else None


def energy_title(frame: DataFrame) -> str:
    """The most and the least that a joule buys."""
    rows, labels = frame[frame["flop_per_j"] > 0], Labels(frame)
    if rows.empty:
        best = highest(frame, "byte_per_j")
        return f"{' '.join(labels.words(best))} moves {engineering(best['byte_per_j'], 'B')} per joule"
    best, least = highest(rows, "flop_per_j"), lowest(rows, "flop_per_j")
    most = f"{' '.join(labels.words(best))}: {engineering(best['flop_per_j'], 'FLOP')} per joule"
    times = plain(best["flop_per_j"] / least["flop_per_j"], 2)
    return most if len(rows) == 1 else f"{most}, {times} times that of {' '.join(labels.words(least))}"
