"""Two sweeps compared: arrows from A to B under the roofs, and below a row for each point with its change of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from roofexp.compare.comparison import Comparison
from roofexp.compare.difference import Difference
from roofexp.compare.matching import Side
from roofexp.compare.table import importance, verdict_line
from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, style, words
from roofexp.figures.canvas.frame import precisions, prepared
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import Decades, Plane, decades_of, equal_plane
from roofexp.figures.canvas.page import BELOW, Page, drawing_of
from roofexp.figures.canvas.roof_lines import draw_roofs, first_knees, ridges, roof_lines, write_roofs
from roofexp.records.machine import RoofSet
from roofexp.records.points_table import point_row
from roofexp.text.numbers import engineering, percent, plain, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from roofexp.figures.canvas.page import Drawing

Places: TypeAlias = "tuple[tuple[float, float], tuple[float, float]]"  # of A and of B
ROW = 1.75  # height of a row, in font sizes
NEAR, FAR = 1.35, 3.0  # the axis reaches so many times the largest change, or the floor
RED, BLUE, ORANGE, GREY, PALE = "#d55e00", "#0173b2", "#de8f05", "#8a8a8a", "#bdbdbd"


def _filled(colour: str, marker: str, inside: str | None = None) -> dict[str, Any]:
    return {"marker": marker, "markeredgecolor": colour, "markerfacecolor": inside or colour, "markeredgewidth": 1.0}


CHANGE_LOOKS: dict[tuple[str, ...], dict[str, Any]] = {  # apart in grey print too
    ("slower",): _filled(RED, "v"),
    ("faster",): _filled(BLUE, "^"),
    ("slower in cycles",): _filled(RED, "v", "white"),
    ("faster in cycles",): _filled(BLUE, "^", "white"),
    ("slower by the clock", "faster by the clock"): _filled(ORANGE, "D"),
    ("unresolved",): _filled(GREY, "o", "white"),
    ("unchanged",): _filled(PALE, "o"),
}

SLOWER = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 9.0, 29.0, 99.0)
FASTER = (-0.001, -0.002, -0.005, -0.01, -0.02, -0.05, -0.1, -0.2, -0.3, -0.5, -0.8, -0.9, -0.98, -0.99)


def rows_height(count: int, font_pt: float) -> float:
    """In points."""
    return (count * ROW + 0.6) * font_pt


def draw_changes(
    axes: Axes,
    rows: Sequence[Difference],
    names: Sequence[str],
    changes: Sequence[str],
    width_pt: float,
    font_pt: float,
) -> None:
    """The first row on top; ``changes`` stand at the right. The axis is the logarithm of the ratio of times."""
    reach = _reach(rows)
    axes.set(xlim=(-reach, reach), ylim=(len(rows) - 0.4, -0.7))
    look: dict[str, Any] = {"va": "center", "fontsize": 0.85 * font_pt, "clip_on": False}
    look["transform"] = axes.get_yaxis_transform()
    for place, row in enumerate(rows):
        _draw_row(axes, row, place, reach, font_pt)
        ends = {"time_ratio": row.time_ratio, "time_ratio_low": row.low, "time_ratio_high": row.high}
        facts = {"verdict": row.verdict, "floor": row.floor, "p_value": row.p_value}
        drawing_of(axes).add_line("change", row.label, [ends], **facts)
        axes.text(-0.012, place, names[place], ha="right", label="row", **look)
        axes.text(1.012, place, changes[place], ha="left", label="change", **look)
    axes.axvline(0, color=style.INK, linewidth=0.08 * font_pt, zorder=1.5)
    _ticks(axes, reach, width_pt, font_pt)
    axes.set(yticks=[], xlabel="Change of time from A to B (to the right: slower)")
    style.open_sides(axes)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x", zorder=0)
    axes.set_axisbelow(True)


def _draw_row(axes: Axes, row: Difference, place: int, reach: float, font_pt: float) -> None:
    look = _look(row)
    floor = math.log1p(row.floor)
    axes.barh(place, 2 * floor, left=-floor, height=0.72, color="#ececec", linewidth=0, zorder=1)
    low, high = (max(min(math.log(end), reach), -reach) for end in (row.low, row.high))
    axes.plot([low, high], [place, place], color=look["markeredgecolor"], linewidth=0.14 * font_pt, zorder=3)
    inside = [end for end, value in ((low, row.low), (high, row.high)) if abs(math.log(value)) <= reach]
    axes.plot(inside, [place] * len(inside), "|", color=look["markeredgecolor"], markersize=0.5 * font_pt, zorder=3)
    at = max(min(math.log(row.time_ratio), reach), -reach)
    axes.plot([at], [place], linestyle="none", markersize=0.6 * font_pt, zorder=4, clip_on=False, **look)


def _reach(rows: Sequence[Difference]) -> float:
    """Half the axis: every change, and intervals unless they are so wide that they would flatten all else."""
    changes = max(abs(math.log(row.time_ratio)) for row in rows)
    ends = max(max(abs(math.log(row.low)), abs(math.log(row.high))) for row in rows)
    floors = min(math.log1p(row.floor) for row in rows)
    return max(NEAR * changes, min(1.08 * ends, FAR * max(changes, floors)), 1.6 * floors)


def _ticks(axes: Axes, reach: float, width_pt: float, font_pt: float) -> None:
    """Zero and round changes on both sides, as many as have room; from +100 % on as factors."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    chosen: list[tuple[float, str]] = [(0.0, "0")]
    for changes in (SLOWER, FASTER):
        last = 0.0
        for change in changes:
            place = math.log1p(change)
            if abs(place) <= reach and abs(place - last) / (2 * reach) * width_pt >= 4.2 * font_pt:
                chosen.append((place, f"×{1 + change:.0f}" if change >= 1 else f"{100 * change:+g} %"))
                last = place
    axes.xaxis.set_major_locator(FixedLocator([place for place, _ in chosen]))
    axes.xaxis.set_major_formatter(FixedFormatter([text for _, text in chosen]))


HEADING = 2.2  # above the lower panel, in font sizes
SHORT = 2.0  # arrows shorter than so many marks are drawn as a mark alone
FLATTEST, TALLEST = 0.42, 0.7
ARROWS = "Arrows lead from A to B; where none is seen, a point moved by less than its mark."
ARROW_COST = 6.0  # of writing across an arrow, in line heights
MOST = 30  # rows of the lower panel


def draw_comparison(comparison: Comparison, a: Side, b: Side, settings: FiguresConfig) -> list[tuple[Drawing, str]]:
    """One drawing for each machine of B, with the stem of its files."""
    of_b = {point.job: point for point in b.points}
    machines: dict[str, list[Difference]] = {}
    for difference in sorted(comparison.differences, key=importance):
        machines.setdefault(of_b[difference.b.job].machine_id or "", []).append(difference)
    drawings = []
    for number, rows in enumerate(machines.values()):
        with style.themed(settings):
            stem = "comparison_roofline" if number == 0 else f"comparison_roofline_{number + 1}"
            drawings.append((_Comparison(comparison, rows, a, b, settings).draw(), stem))
    return drawings


class _Comparison:
    """``rows``: the differences on one machine, the most telling first."""

    def __init__(
        self, comparison: Comparison, rows: Sequence[Difference], a: Side, b: Side, settings: FiguresConfig
    ) -> None:
        import pandas

        self.comparison, self.rows, self.settings, self.font = comparison, rows, settings, settings.font_pt
        points = {point.job: point for point in b.points}
        self.frame = prepared(pandas.DataFrame([point_row(points[row.b.job]) for row in rows]))
        self.roofs: RoofSet | None = b.roofs_of(points[rows[0].b.job])
        self.machine = b.machine_name(points[rows[0].b.job])
        self.lines = roof_lines(self.roofs, self.frame, precisions(self.frame))
        self.on_plane = [row for row in rows if _places(row) is not None]
        self.mark_pt = 0.55 * self.font

    def draw(self) -> Drawing:
        page = self._page()
        lower = rows_height(min(len(self.rows), MOST), self.font)
        if not self.on_plane:
            drawing = page.make(lower, BELOW * self.font)
        else:
            plane = self._plane(page)
            between = (BELOW + HEADING) * self.font
            drawing = page.make(plane.height + between + lower, BELOW * self.font)
            self._draw_plane(equal_plane(page, page.left, lower + between, plane), plane)
        self._draw_lower(page, lower)
        return drawing

    def _page(self) -> Page:
        beyond, only_below = len(self.rows) - MOST, 0 < len(self.on_plane) < len(self.rows)
        notes = [
            f"A: {self.comparison.a}. B: {self.comparison.b}.",
            ARROWS if self.on_plane else "",
            "Lines are 95 % intervals; grey: what two runs of the same thing may differ by.",
            f"{percent(self.comparison.level)} chance of one false change in all {self.comparison.tests} tests (Holm).",
            f"{words.roofs_note(self.roofs, self.lines)}{' They are those of B.' if self.roofs else ''}",
            f"{words.count(len(self.rows) - len(self.on_plane), 'point')} without FLOPs: only below."
            if only_below
            else "",
            f"{beyond} more with smaller changes are in the table." if beyond > 0 else "",
        ]
        return Page(self.settings, self._title(), self._under(), notes, self._key())

    def _title(self) -> str:
        changed = [row for row in self.comparison.changed if row in self.rows]
        count = verdict_line(self.comparison)
        if not changed:
            return f"Nothing changed beyond noise: {count}"
        return f"{count}; most: {changed[0].label} {_change(changed[0])}"

    def _under(self) -> str:
        across = f"across {style.joined(self.comparison.across)}" if self.comparison.across else ""
        floor = f"run-to-run floor {percent(self.comparison.floor)}"
        measured = "measured" if self.comparison.measured_floor is not None else "assumed"
        return " · ".join(part for part in (self.machine, across, f"{floor} ({measured})") if part)

    def _key(self) -> list[Line2D]:
        from matplotlib.lines import Line2D

        present = {row.verdict for row in self.rows}
        handles = []
        for names, look in CHANGE_LOOKS.items():
            if present & set(names):
                label = names[0] if len(names) == 1 else _family(names[0])
                handles.append(Line2D([], [], label=label, linestyle="none", markersize=self.mark_pt, **look))
        return handles

    def _plane(self, page: Page) -> Plane:
        """From what is drawn: both ends of each arrow, ridges and roofs."""
        ends = [end for row in self.on_plane for end in (_places(row) or ())]
        knees = [*(at for _, at in ridges(self.lines)), *first_knees(self.lines)[:1]]
        x = limits.at_least(decades_of([*(at for at, _ in ends), *knees], 0.5, 0.6) or Decades(-2, 3), 3.0)
        y = decades_of([*(rate for _, rate in ends), *(line.high for line in self.lines.compute)], 0.35, 0.35)
        width = page.room()
        flattest = FLATTEST if style.is_wide(self.settings) else TALLEST
        return limits.equal_decades(x, y or Decades(9, 12), width, flattest * width, TALLEST * width)

    def _draw_plane(self, axes: Axes, plane: Plane) -> None:
        draw_roofs(axes, self.lines, plane)
        arrows = [(row, places) for row in self.on_plane if (places := _places(row))]
        for number, (row, places) in reversed(list(enumerate(arrows))):
            self._draw_arrow(axes, row, places, f"change-{number}")
        canvas = LabelCanvas(axes, [head for _, (_, head) in arrows], self.mark_pt)
        for _, places in arrows:
            canvas.avoid(places, ARROW_COST)
        write_roofs(canvas, self.lines, plane)
        changed = [arrow for arrow in arrows if arrow[0].verdict not in ("unchanged", "unresolved")]
        canvas.write_beside(
            (*head, [f"{row.label}, {_change(row)}", _change(row)])
            for row, (_, head) in changed[: self.settings.labels]
        )

    def _draw_arrow(self, axes: Axes, row: Difference, places: Places, gid: str) -> None:
        drawing, look = drawing_of(axes), _look(row)
        start, end = axes.transData.transform(places)
        pixels = float(((end - start) ** 2).sum() ** 0.5)
        axes.plot(*places[1], linestyle="none", markersize=self.mark_pt, zorder=5, gid=gid, **look)
        if pixels > SHORT * self.mark_pt * axes.figure.dpi / 72:
            arrow = {"arrowstyle": "-|>", "color": look["markeredgecolor"], "linewidth": 0.14 * self.font,
                     "shrinkA": 0, "shrinkB": 0.5 * self.mark_pt, "mutation_scale": self.font}  # fmt: skip
            axes.annotate("", places[1], places[0], arrowprops=arrow, zorder=4.5)
            axes.plot(*places[0], "o", markersize=0.6 * self.mark_pt, color=look["markeredgecolor"], zorder=4.6)
        drawing.hover[gid] = hover(row)
        for end_name, (x, y) in zip("AB", places, strict=True):
            vertex = {"intensity_flop_per_byte": x, "flops_per_s": y}
            facts = {"end": end_name, "verdict": row.verdict, "time_ratio": row.time_ratio}
            drawing.add_line("arrow", row.label, [vertex], **facts)

    def _draw_lower(self, page: Page, height: float) -> None:
        rows = list(self.rows[:MOST])
        size, wide = 0.85 * self.font, style.is_wide(self.settings)
        names = [style.shortened(row.label, 44 if wide else 22) for row in rows]
        changes = [f"{_change(row)}, {row.verdict}" if wide else _change(row) for row in rows]
        left = page.edge + max(style.text_width(name, size) for name in names) + 1.2 * self.font
        right = max(style.text_width(text, size) for text in changes) + 1.4 * self.font
        width = page.width - page.edge - left - right
        axes = page.axes(left, 0, width, height, label="changes")
        draw_changes(axes, rows, names, changes, width, self.font)


def hover(row: Difference) -> str:
    """Everything of one pair, a line each."""
    lines = [
        row.label,
        f"{engineering(row.a.time_s, 's')} → {engineering(row.b.time_s, 's')}: {signed(row.slowdown)} "
        f"({signed(row.low - 1)} … {signed(row.high - 1)})",
        f"{row.verdict}{f': {row.message}' if row.message else ''}",
    ]
    if row.a.rate_per_s and row.b.rate_per_s:
        lines.append(
            f"{engineering(row.a.rate_per_s, row.a.rate_unit)} → {engineering(row.b.rate_per_s, row.b.rate_unit)}"
        )
    if row.a.fraction is not None and row.b.fraction is not None:
        lines.append(f"{percent(row.a.fraction)} → {percent(row.b.fraction)} of the roof")
    if row.intensity_ratio is not None and abs(row.intensity_ratio - 1) > 5e-4:
        values = (row.a.intensity_flop_per_byte or 0.0, row.b.intensity_flop_per_byte or 0.0)
        lines.append(f"{plain(values[0])} → {plain(values[1])} FLOP/B")
    flags = sorted({*row.a.flags, *row.b.flags})
    return "\n".join([*lines, f"flags: {', '.join(flags)}"] if flags else lines)


def _places(row: Difference) -> Places | None:
    """Both ends on the plane: (FLOP/B, FLOP/s) of A and of B; None where one has no place there."""
    ends = []
    for values in (row.a, row.b):
        if values.rate_unit != "FLOP/s" or not values.rate_per_s or not values.intensity_flop_per_byte:
            return None
        ends.append((values.intensity_flop_per_byte, values.rate_per_s))
    return ends[0], ends[1]


def _change(row: Difference) -> str:
    if row.verdict.endswith("in cycles") and row.cycles_ratio:
        return f"{signed(row.cycles_ratio - 1)} cycles"
    return signed(row.slowdown)


def _family(name: str) -> str:
    return name if "clock" not in name else "by the clock"


def _look(row: Difference) -> dict[str, Any]:
    return next(look for names, look in CHANGE_LOOKS.items() if row.verdict in names)
