"""The arch line of energy: joules per FLOP as a part for the arithmetic and a part for each byte.

After Choi, Bedard, Fowler, Vuduc: "A Roofline Model of Energy" (IPDPS 2013): J/FLOP = a + b / intensity. Its constants
are not looked up here: they are read from the best points measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import Labels, highest, lowest, measured, precisions, prepared, records
from roofexp.figures.canvas.geometry import Segment
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import BELOW, SIDE, STRIP, Decades, Place, Plane, equal_plane, finish, log_axes
from roofexp.figures.canvas.marks import worth_naming
from roofexp.figures.canvas.page import Page, VertexTable
from roofexp.figures.canvas.roof_lines import roof_lines
from roofexp.figures.kinds.fills import draw_fills, fill_groups
from roofexp.records.machine import RoofSet
from roofexp.text.numbers import engineering, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame, Series

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
    known = sorted({(1 / x, 1 / y) for x, y in zip(intensities, flop_per_j, strict=True) if x > 0 and y > 0})
    if len(known) < LEAST_POINTS or known[-1][0] < LEAST_SPAN * known[0][0]:
        return None
    lines = [Arch(min(e for _, e in known), 0.0), Arch(0.0, min(e / u for u, e in known))]
    for (u0, e0), (u1, e1) in itertools.pairwise(_lower_hull(known)):
        b = (e1 - e0) / (u1 - u0)
        if b >= 0 and e0 >= b * u0:
            lines.append(Arch(e0 - b * u0, b))
    return max(lines, key=lambda line: sum((line.a + line.b * u) / e for u, e in known))


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
    known = frame[measured(frame) & ((frame["flop_per_j"] > 0) | (frame["byte_per_j"] > 0))]
    if known.empty:
        return None
    groups = fill_groups(known[known["energy_per_launch_j"] > 0])
    with style.themed(settings):
        if groups:
            return draw_fills(groups, len(known) - sum(len(group.rows) for group in groups), roofs, settings)
        return _Energy(known, roofs, settings).draw()


class _Energy:
    def __init__(self, known: DataFrame, roofs: RoofSet | None, settings: FiguresConfig) -> None:
        self.settings, self.font, self.known, self.roofs = settings, settings.font_pt, known, roofs
        self.on_plane = known[(known["flop_per_j"] > 0) & (known["intensity_flop_per_byte"] > 0)]
        self.in_strip = known[~(known["flops"] > 0) & (known["byte_per_j"] > 0)]
        self.limit_w = _power_limit(roofs)
        self.lines = roof_lines(roofs, known, precisions(known))
        self.arches = _arches(self.on_plane)
        self.colours = style.kernel_colours(marks.kernels_by_count(known))
        self.mark_pt = marks.size_pt(len(known), settings)
        self.labels = Labels(known)

    def draw(self) -> Drawing:
        page, table = self._page(), VertexTable()
        plane = self._plane(page)
        power = POWER_HEIGHT * plane.decade * plane.x.extent if (self.known["power_w"] > 0).any() else 0.0
        lift = power + 0.9 * self.font if power else 0.0
        drawing = page.make(plane.height + lift, BELOW * self.font)
        left = page.edge + SIDE * self.font + self._strip_pt(page)
        axes = equal_plane(page, drawing, left, lift, plane, ylabel="FLOP/J")
        finish(axes, "right" if len(self.in_strip) else "left")
        if power:
            axes.tick_params(labelbottom=False)
            self._draw_power(page, drawing, Place(left, 0, plane.decade * plane.x.extent, power), plane.x, table)
        else:
            axes.set_xlabel("Arithmetic intensity (FLOP/B)")
        self._draw_plane(axes, plane, table)
        if len(self.in_strip):
            self._draw_strip(page, drawing, plane, lift, table)
        marks.add_hover(drawing, self.known)
        drawing.table = table.frame()
        return drawing

    def _page(self) -> Page:
        power = f"Dashed: the roofs at the power limit of {engineering(self.limit_w, 'W')}." if self.limit_w else ""
        parts = style.joined([_arch_words(precision, arch)[0] for precision, arch in self.arches.items()])
        arch = f"Curve: a + b / intensity, the lowest that no point lies above: {parts}." if parts else ""
        notes = [
            "Energy of a launch over all the time that it took, pauses and what the device takes when idle included.",
            arch,
            power,
            words.traffic_note(self.known),
            words.flags_note(self.known),
        ]
        page = Page(self.settings, energy_title(self.known), words.machine_line(self.known, self.roofs), notes)
        page.add_key(marks.key(self.known, self.colours, self.mark_pt))
        return page

    def _strip_pt(self, page: Page) -> float:
        return min(STRIP * self.font, 0.22 * page.width) if len(self.in_strip) else 0.0

    def _plane(self, page: Page) -> Plane:
        x = limits.decades_of(self.on_plane["intensity_flop_per_byte"], 0.5, 0.6) or Decades(-2, 2)
        x = limits.at_least(x, 2.0)
        heights = [*self.on_plane["flop_per_j"], *(rate * 10**x.low for rate in self.in_strip["byte_per_j"])]
        heights += [high for arch in self.arches.values() for high in [arch.flop_per_j(10**x.high)]]
        y = limits.decades_of(heights, 0.35, 0.35) or Decades(9, 12)
        side = SIDE if len(self.in_strip) else 0.9
        width = page.width - 2 * page.edge - self._strip_pt(page) - (SIDE + side) * self.font
        wide = self.settings.width_mm >= style.NARROW_MM
        left = 0.0 if len(self.in_strip) else 0.4
        return limits.equal_decades(x, y, width, (0.4 if wide else 0.8) * width, (0.6 if wide else 0.8) * width, left)

    def _draw_plane(self, axes: Axes, plane: Plane, table: VertexTable) -> None:
        places = self._draw_points(axes, self.on_plane, "intensity_flop_per_byte", "flop_per_j", table)
        canvas = LabelCanvas(axes, places, self.mark_pt, spread=len(self.known) <= marks.CROWD)
        for each in self._iso_power(plane):
            words_there = [f"{each.precision} roofs at {engineering(each.watts, 'W')}", f"{each.precision} at limit"]
            self._curve(canvas, each.path, "iso-power", words_there, (0, (4, 2.5)), table)
        for precision, arch in self.arches.items():
            steps = [10 ** (plane.x.low + i / 40 * plane.x.extent) for i in range(41)]
            path = [(x, arch.flop_per_j(x)) for x in steps]
            self._curve(canvas, path, f"arch {precision}", _arch_words(precision, arch), "-", table)
        self._name(canvas, self.on_plane, places)

    def _iso_power(self, plane: Plane) -> list[IsoPower]:
        """min(compute roof, bandwidth x intensity) / power limit, for each precision among the points."""
        main, found = self.lines.main_bandwidth, []
        for line in self.lines.plateaus if self.limit_w and main else []:
            assert main
            corner = line.rate / main.rate
            ends = [x for x in (10**plane.x.low, corner, 10**plane.x.high) if x >= 10**plane.x.low]
            path = [(x, min(line.rate, main.rate * x) / (self.limit_w or 1.0)) for x in sorted(ends)]
            found.append(IsoPower(line.roof.precision or "", self.limit_w or 0.0, path))
        return found

    def _curve(
        self,
        canvas: LabelCanvas,
        path: Path,
        kind: str,
        texts: list[str],
        dashes: str | tuple[int, tuple[float, ...]],
        table: VertexTable,
    ) -> None:
        """A line with its words on its longest straight part, or near its end."""
        x, y = zip(*path, strict=True)
        heavy = dashes == "-"
        look: dict[str, Any] = {
            "color": style.ROOF if heavy else style.CEILING,
            "linewidth": (0.18 if heavy else 0.12) * self.font,
        }
        canvas.axes.plot(x, y, linestyle=dashes, zorder=2, **look)
        table.line(kind, texts[0], [{"intensity_flop_per_byte": a, "flop_per_j": b} for a, b in path])
        parts = [canvas.segment((a[0], b[0]), (a[1], b[1])) for a, b in itertools.pairwise(path)]
        parts = _straight([part for part in parts if part.length > 0])
        canvas.lines += [(part, 2.0) for part in parts]
        small = {"fontsize": 0.85 * self.font, "color": style.FADED, "label": "curve-label", "zorder": 3}
        any(canvas.write_along(each, texts, 1.0, **small) for each in parts[:4])

    def _draw_points(self, axes: Axes, rows: DataFrame, x: str | list[float], y: str, table: VertexTable) -> Path:
        across = rows[x].tolist() if isinstance(x, str) else x
        places = list(zip(across, rows[y].tolist(), strict=True))
        crowded = len(self.known) > marks.CROWD
        for row, place in zip(records(rows), places, strict=True):
            marks.draw_mark(axes, *place, row, self.colours[row["kernel"]], self.mark_pt, crowded)
            vertex = {"intensity_flop_per_byte": row["intensity_flop_per_byte"], y: row[y], "power_w": row["power_w"]}
            table.point(row, vertex, fill=row["fill"], held_by=row["held_by"])
        return places

    def _name(self, canvas: LabelCanvas, rows: DataFrame, places: Path) -> None:
        at = dict(zip(rows.index, places, strict=True))
        wanted = []
        for index in worth_naming(self.known, self.settings.labels):
            if index in at:
                told = self.labels.words(rows.loc[index])
                wanted.append((*at[index], [" ".join(told), " ".join(told[1:]) or told[0]]))
        canvas.write_beside(wanted, fontsize=0.9 * self.font, label="point-label", zorder=6)

    def _draw_strip(self, page: Page, drawing: Drawing, plane: Plane, lift: float, table: VertexTable) -> None:
        left, span = page.edge + SIDE * self.font, Decades(plane.y.low - plane.x.low, plane.y.high - plane.x.low)
        axes = page.axes(drawing, left, lift, self._strip_pt(page), plane.height, yscale="log", label="strip")
        axes.set(xlim=(0, 1), ylim=span.values(), xticks=[], ylabel="B/J", facecolor="#f6f6f6")
        axes.set_xlabel("no FLOPs")
        limits.tick_decades(axes.yaxis, span, plane.decade, self.font, upright=True)
        finish(axes)
        order = self.in_strip.sort_values(["kernel", "size"], kind="stable")
        slots = [(i + 0.5) / len(order) for i in range(len(order))]
        places = self._draw_points(axes, order, slots, "byte_per_j", table)
        self._name(LabelCanvas(axes, places, self.mark_pt, spread=len(self.known) <= marks.CROWD), order, places)

    def _draw_power(self, page: Page, drawing: Drawing, place: Place, x: Decades, table: VertexTable) -> None:
        """Watts below the plane, from zero; the power limit as a line."""
        rows = self.on_plane[self.on_plane["power_w"] > 0]
        axes = log_axes(page, drawing, place, x, Decades(0, 3), label="power", xlabel="Arithmetic intensity (FLOP/B)")
        top = 1.18 * max([*rows["power_w"], self.limit_w or 0.0], default=1.0)
        axes.set(yscale="linear", ylim=(0, top), ylabel="W")
        finish(axes, "right" if len(self.in_strip) else "left")
        crowded = len(self.known) > marks.CROWD
        for row in records(rows):
            unflagged = {**row, "gid": f"power-{row['gid']}", "flags": ""}
            at = (row["intensity_flop_per_byte"], row["power_w"])
            marks.draw_mark(axes, *at, unflagged, self.colours[row["kernel"]], 0.8 * self.mark_pt, crowded)
        if self.limit_w:
            axes.axhline(self.limit_w, color=style.CEILING, linestyle=(0, (4, 2.5)), linewidth=0.12 * self.font)
            canvas = LabelCanvas(axes, [], self.mark_pt, spread=False)
            limit = canvas.segment(axes.get_xlim(), (self.limit_w, self.limit_w))
            small = {"fontsize": 0.85 * self.font, "color": style.FADED, "label": "limit-label"}
            canvas.write_along(limit, [f"power limit {engineering(self.limit_w, 'W')}"], 0.0, **small)
            table.line("power limit", "power limit", [{"power_w": self.limit_w}])


def _arches(rows: DataFrame) -> dict[str, Arch]:
    found = {}
    for precision, each in rows.groupby("precision", sort=False):
        arch = arch_line(each["intensity_flop_per_byte"].tolist(), each["flop_per_j"].tolist())
        if arch is not None:
            found[str(precision)] = arch
    return found


def _arch_words(precision: str, arch: Arch) -> list[str]:
    parts = [engineering(arch.a, "J/FLOP") if arch.a else "", engineering(arch.b, "J/B") if arch.b else ""]
    full = f"{precision} {' + '.join(part for part in parts if part)}"
    return [full, precision]


def _straight(parts: list[Segment]) -> list[Segment]:
    """The parts worth writing on: neighbours of about the same direction as one, the longest first."""
    joined: list[Segment] = []
    for part in parts:
        if joined and abs(joined[-1].angle - part.angle) < 4.0:
            joined[-1] = joined[-1]._replace(x1=part.x1, y1=part.y1)
        else:
            joined.append(part)
    return sorted(joined, key=lambda part: -part.length)


def _power_limit(roofs: RoofSet | None) -> float | None:
    found = roofs.machine.details.get("power_limit_w") if roofs else None
    return float(found) if isinstance(found, int | float) and found > 0 else None


def energy_title(known: DataFrame) -> str:
    """The most and the least that a joule buys."""
    rows = known[known["flop_per_j"] > 0]
    labels = Labels(known)
    if rows.empty:
        best = highest(known, "byte_per_j")
        return f"{' '.join(labels.words(best))} moves {engineering(best['byte_per_j'], 'B')} per joule"
    best, least = highest(rows, "flop_per_j"), lowest(rows, "flop_per_j")
    most = f"{' '.join(labels.words(best))}: {engineering(best['flop_per_j'], 'FLOP')} per joule"
    return most if len(rows) == 1 else f"{most}, {_times(best, least)} of {' '.join(labels.words(least))}"


def _times(best: Series[Any], least: Series[Any]) -> str:
    return f"{plain(best['flop_per_j'] / least['flop_per_j'], 2)} times that"
