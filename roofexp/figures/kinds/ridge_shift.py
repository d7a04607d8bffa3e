"""The ridge that moves: roofs at every clock that was held (or thread count), the path of their ridge, and the kernels
that it passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import Labels, prepared, with_flops
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import equal_plane, finish
from roofexp.figures.canvas.page import BELOW, Drawing, Page, drawing_of
from roofexp.figures.canvas.roof_lines import RoofLines, main_level
from roofexp.figures.kinds.ridge_map import (
    draw_ridge_map,
    draw_ridge_plane,
    in_sight,
    ridge_plane,
    set_map_limits,
    stage_words,
)
from roofexp.figures.kinds.ridges import Crossing, Ridge, apart, crossings, moved, ridges
from roofexp.records.machine import RoofSet
from roofexp.text.numbers import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

HEADING = 1.7  # above each lower panel, in font sizes
ACROSS = {True: 4, False: 2}  # lower panels in a row, in wide and in narrow figures
MOST_KERNELS = 8
MOST_IN_MAP = 4
MANY = 12  # kernels at a size; from here on the clocks are those of a kernel at all its sizes


def draw_ridge_shift(points: DataFrame, roof_sets: Sequence[RoofSet], settings: FiguresConfig) -> Drawing | None:
    """The points of one machine in all clock modes, or of one CPU with several thread counts, which are machines of
    their own; None where there is one ridge that has not moved by more than 3 %.

    ``points``: the columns of points.csv, SI units; ``roof_sets``: of these machines.
    """
    frame = with_flops(prepared(points))
    path = ridges(frame, roof_sets) if len(frame) else []
    if not moved(path) and len({ridge.precision for ridge in path}) < 2:
        return None
    with style.themed(settings):
        return _RidgeShift(frame, path, roof_sets, settings).draw()


class _RidgeShift:
    def __init__(
        self, frame: DataFrame, path: list[Ridge], roof_sets: Sequence[RoofSet], settings: FiguresConfig
    ) -> None:
        self.frame, self.ridges, self.roof_sets, self.settings = frame, path, roof_sets, settings
        self.font, self.wide = settings.font_pt, style.is_wide(settings)
        self.by_threads = len({roofs.machine.machine_id for roofs in roof_sets}) > 1
        labels = Labels(frame, leave_out=("precision", "held_by"))
        names = [" ".join(labels.words(row)) for _, row in frame.iterrows()]
        level = main_level(frame)
        here = (frame["traffic_level"] == level).tolist()
        self.elsewhere = len(frame) - sum(here)
        self.kernels = crossings(frame[here], path, [name for name, at in zip(names, here, strict=True) if at])
        self.distinct = apart(self.kernels)
        self.shown = in_sight(self.distinct, path)[:MOST_KERNELS]
        self.colours = style.kernel_colours(frame["kernel"])
        self.mark_pt = 0.8 * marks.size_pt(len(frame), settings)
        self.maps = self._maps()
        self.clocks = not self.by_threads and worth_drawing(frame)

    def _maps(self) -> list[list[Ridge]]:
        """The ridges of the precisions that moved, by precision; where not all have room, those that kernels cross and
        then those that moved farthest."""
        paths = [[ridge for ridge in self.ridges if ridge.precision == name] for name in moved(self.ridges)]
        crossed = {kernel.precision for kernel in self.kernels if kernel.side == "both"}
        ranked = sorted(paths, key=lambda path: (path[0].precision not in crossed, -_shift(path)))
        kept = ranked[: ACROSS[self.wide] - (1 if self.wide else 0)]
        return [path for path in paths if path in kept]

    def draw(self) -> Drawing:
        page = self._page()
        room = page.room()
        plane = ridge_plane(self.ridges, self.shown, room, 0.42 if self.wide else 0.8)
        rows = self._rows()
        height = (0.24 if self.wide else 0.5) * room
        row_height = height + (HEADING + BELOW) * self.font
        drawing = page.make(plane.height + len(rows) * row_height, BELOW * self.font)
        axes = equal_plane(page, page.left, len(rows) * row_height, plane)
        self._add_ridges(drawing)
        draw_ridge_plane(axes, self.ridges, self.shown, self.colours, self.font, self.mark_pt, self.by_threads)
        for i, row in enumerate(reversed(rows)):
            self._draw_row(page, row, i * row_height, room, height)
        marks.add_hover(drawing, self.frame)
        return drawing

    def _rows(self) -> list[list[list[Ridge] | None]]:
        """The lower panels, row by row; None is the panel of clocks."""
        panels: list[list[Ridge] | None] = [*self.maps, *([None] if self.clocks else [])]
        across = ACROSS[self.wide]
        return [panels[i : i + across] for i in range(0, len(panels), across)]

    def _draw_row(
        self, page: Page, row: Sequence[list[Ridge] | None], bottom: float, room: float, height: float
    ) -> None:
        gap = 1.6 * self.font
        weights = [1.0 if path is not None else 1.3 for path in row]
        part = (room - gap * (len(row) - 1)) / sum(weights)
        left = page.left
        for i, (path, weight) in enumerate(zip(row, weights, strict=True)):
            width = min(weight * part, 0.62 * room)
            axes = page.axes(left, bottom, width, height, label=f"map {path[0].precision}" if path else "clocks")
            axes.set_ylim(self._stage_range())
            if path is None:
                draw_clock_panel(axes, self._clocked(), self.frame, self.colours, self.font)
                head(axes, width, self.font)
            else:
                set_map_limits(axes, path, self._stage_range(), width, self.font)
                kernels = [kernel for kernel in self.distinct if kernel.precision == path[0].precision]
                draw_ridge_map(axes, path, kernels[:MOST_IN_MAP], self.colours, self.font, self.by_threads)
            self._label_stage(axes, first=i == 0)
            left += weight * part + gap

    def _clocked(self) -> list[Crossing]:
        """What the panel of clocks shows: the kernels in sight first, then those with the most points."""
        kernels = self.kernels
        if len(kernels) > MANY:
            rows = self.frame[self.frame["traffic_level"] == main_level(self.frame)]
            kernels = crossings(rows, self.ridges, rows["kernel"].tolist())
        seen = {id(kernel) for kernel in self.shown}
        return sorted(kernels, key=lambda kernel: (id(kernel) not in seen, -len(kernel.rows)))

    def _label_stage(self, axes: Axes, first: bool) -> None:
        from matplotlib.ticker import FixedLocator

        if self.by_threads:
            axes.yaxis.set_major_locator(FixedLocator(sorted({ridge.stage for ridge in self.ridges})))
        if first:
            axes.set_ylabel("Threads" if self.by_threads else "Clock held (GHz)")
        else:
            axes.tick_params(labelleft=False)

    def _stage_range(self) -> tuple[float, float]:
        """All clocks in GHz (or threads), with a little room."""
        stages = [ridge.stage for ridge in self.ridges]
        if not self.by_threads:
            for column in ("compute_hz", "nvml_sm_hz") if self.clocks else ():
                stages += self.frame[column][self.frame[column] > 0].tolist()
            stages = [stage * 1e-9 for stage in stages]
        low, high = min(stages), max(stages)
        pad = 0.12 * (high - low) or 0.1 * high
        return low - pad, high + pad

    def _add_ridges(self, drawing: Drawing) -> None:
        for ridge in self.ridges:
            vertex = {
                "intensity_flop_per_byte": ridge.intensity,
                "flops_per_s": ridge.compute,
                "bandwidth_bytes_per_s": ridge.bandwidth,
                "compute_hz": ridge.compute_hz,
                "nvml_sm_hz": ridge.nvml_sm_hz,
            }
            facts = {"what": ridge.what, "clock_asked": ridge.asked, "precision": ridge.precision, "roof": ridge.roof}
            if self.by_threads:
                facts["threads"] = f"{ridge.stage:.0f}"
            drawing.add_line("ridge", f"{ridge.precision} {ridge.number}", [vertex], **facts)

    def _page(self) -> Page:
        stage = "thread count" if self.by_threads else "clock"
        others = any(ridge.what != "held" for ridge in self.ridges)
        bounds = list(dict.fromkeys(ridge.roof for ridge in self.ridges if ridge.incomplete))
        light = ", light: in bursts and under sustained load, while the roofs were measured" if others else ""
        maps = [
            f"Numbers: the ridge in order of {stage}; dark: where points held it{light}.",
            "Below: kernels with full lines where they are compute-bound, broken where they are bandwidth-bound.",
        ]
        notes = [
            *(maps if self.maps else []),
            disagreement(self.frame),
            self._out_of_sight(),
            self._without_map(),
            f"Not drawn: points whose traffic crosses another level ({self.elsewhere})." if self.elsewhere else "",
            f"Lower bounds only: {style.joined(bounds)}." if bounds else "",
            words.roofs_note(self.roof_sets[0], RoofLines([], [])),
            words.flags_note(self.frame),
        ]
        under = words.machine_line(self.frame, self.roof_sets[0])
        title = ridge_title(self.ridges, self.kernels, self.by_threads)
        shown = self.frame[self.frame["kernel"].isin({kernel.kernel for kernel in self.shown})]
        key = marks.key(shown, self.colours, self.mark_pt) if len(shown) else []
        return Page(self.settings, title, under, notes, key)

    def _out_of_sight(self) -> str:
        """Kernels that no ridge comes near to."""
        seen = {id(kernel) for kernel in self.shown}
        rest = [kernel for kernel in self.kernels if id(kernel) not in seen]
        parts = []
        for side in ("bandwidth", "compute"):
            names = list(dict.fromkeys(self._named(kernel) for kernel in rest if kernel.side == side))
            if names:
                parts.append(f"{side}-bound at all of them: {style.joined(names, 4)}")
        return f"Not drawn, {'; '.join(parts)}." if parts else ""

    def _named(self, kernel: Crossing) -> str:
        return f"{kernel.name} {kernel.precision}" if self.frame["precision"].nunique() > 1 else kernel.name

    def _without_map(self) -> str:
        rest = [name for name in moved(self.ridges) if name not in {path[0].precision for path in self.maps}]
        return f"Without a panel: {style.joined(rest)}; the table has them." if rest else ""


def ridge_title(all_ridges: Sequence[Ridge], kernels: Sequence[Crossing], by_threads: bool) -> str:
    """How far the ridge moved, past which kernels, and which of them were measured on both sides of it."""
    names = moved(all_ridges)
    if not names:
        ordered = sorted(all_ridges, key=lambda ridge: ridge.intensity)
        low, high = ordered[0], ordered[-1]
        ends = [f"{plain(ridge.intensity)} FLOP/B ({ridge.precision})" for ridge in (low, high)]
        return f"The ridge lies between {ends[0]} and {ends[1]}"
    path = max(([r for r in all_ridges if r.precision == name] for name in names), key=_shift)
    first, last = path[0], path[-1]
    stages = [stage_words(ridge, by_threads) for ridge in (first, last)]
    start = (
        f"The {first.precision} ridge moves from {plain(first.intensity)} to {plain(last.intensity)} FLOP/B "
        f"between {stages[0]} and {stages[1]}"
    )
    beside = [kernel for kernel in kernels if kernel.side == "both" and kernel.precision == first.precision]
    turning = list(dict.fromkeys(kernel.name for kernel in beside if kernel.turned))
    passed = list(dict.fromkeys(kernel.name for kernel in beside if not kernel.turned))
    start += f", past {style.joined(passed, 3)}" if passed else ""
    return f"{start}; {style.joined(turning, 3)} change{'s' if len(turning) == 1 else ''} side" if turning else start


def _shift(path: Sequence[Ridge]) -> float:
    return max(r.intensity for r in path) / min(r.intensity for r in path)


MOST = 4  # kernels
CLOCKS = {"compute_hz": "cycle counter", "nvml_sm_hz": "NVML"}


class Abscissa(NamedTuple):
    """What the clocks are drawn against."""

    column: str
    label: str
    names: list[str]  # of categories; empty for numbers


def abscissa(rows: DataFrame) -> Abscissa:
    """The duty where several were asked for, else what was asked for in words, else the intensity."""
    if rows["duty"].nunique() > 1:
        return Abscissa("duty", "Duty (share of the time at work)", [])
    by_clock = rows.groupby("held_by", sort=False)["compute_hz"].median().sort_values()
    if len(by_clock) > 1:
        return Abscissa("held_by", "", [str(name) for name in by_clock.index])
    return Abscissa("intensity_flop_per_byte", limits.INTENSITY, [])


def worth_drawing(rows: DataFrame) -> bool:
    """Whether any clock was read in two ways, or clocks were asked for."""
    read = rows[rows["compute_hz"] > 0]
    return len(read) > 1 and bool((read["nvml_sm_hz"] > 0).any() or read["held_by"].nunique() > 1)


HEADINGS = ("Clock by the SMs' cycle counters (full), by NVML (hollow)", "Clock (full), NVML's (hollow)", "Clocks")


def head(axes: Axes, width_pt: float, font: float) -> None:
    """The longest heading that has room."""
    size = 0.95 * font
    fitting = (text for text in HEADINGS if style.text_width(text, size, bold=True) < width_pt)
    axes.set_title(next(fitting, HEADINGS[-1]), loc="left", fontsize=size, weight="bold", pad=0.5 * font)


def draw_clock_panel(
    axes: Axes, kernels: Sequence[Crossing], rows: DataFrame, colours: dict[str, str], font: float
) -> None:
    """Full marks and lines: the cycle counter; hollow marks and broken lines: NVML. GHz up."""
    what = abscissa(rows)
    if what.names:
        axes.set_xticks(range(len(what.names)), [style.shortened(name, 14) for name in what.names])
        axes.set_xlim(-0.5, len(what.names) - 0.5)
    names: dict[str, tuple[float, float, list[str]]] = {}
    paths: list[list[tuple[float, float]]] = []
    for kernel, name in _different(kernels, what):
        for column in CLOCKS:
            path = _path(kernel.rows, what, column)
            if path:
                _draw_clock(axes, path, column, kernel, colours[kernel.kernel], _unit(what))
                paths.append(path)
                text, at = (name, path[len(path) // 2]) if column == "compute_hz" else ("NVML", path[0])
                names[text] = names.pop(text, (*at, [text]))  # named once, where it comes first
    if what.column == "intensity_flop_per_byte":
        _set_log(axes, rows, font)
    width, _ = limits.flat_size(axes)
    axes.set_xlabel(what.label if style.text_width(what.label, font) < width else what.label.split(" (")[0])
    finish(axes)
    canvas = LabelCanvas(axes, [place for path in paths for place in path], 0.5 * font)
    for path in paths:
        canvas.avoid(path, 2.0)
    canvas.write_beside(reversed(list(names.values())), fontsize=0.8 * font, label="clock-label")


def _draw_clock(
    axes: Axes, path: Sequence[tuple[float, float]], column: str, kernel: Crossing, colour: str, unit: str
) -> None:
    drawing, source = drawing_of(axes), CLOCKS[column]
    font, true = drawing.settings.font_pt, column == "compute_hz"
    x, y = zip(*path, strict=True)
    dashes = "-" if true else (0, (3, 1.5))
    axes.plot(x, y, color=colour, linewidth=0.12 * font, linestyle=dashes, zorder=3 if true else 2.8)
    look: dict[str, Any] = {"markersize": 0.5 * font, "markeredgecolor": colour, "markeredgewidth": 0.12 * font}
    look |= {"markerfacecolor": colour if true else "white", "zorder": 4 if true else 3.8}
    axes.plot(x, y, "o", linestyle="none", **look)
    vertices = [{unit: at, ("sm_hz" if true else "nvml_hz"): ghz * 1e9} for at, ghz in path]
    drawing.add_line("clock", f"{kernel.name} {kernel.precision}", vertices, source=source)


def _different(kernels: Sequence[Crossing], what: Abscissa) -> list[tuple[Crossing, str]]:
    """Kernels whose clocks differ, each with its name: others that held the same clocks would lie on it."""
    kept: list[tuple[Crossing, dict[float, float]]] = []
    names: list[str] = []
    for kernel in kernels:
        path = dict(_path(kernel.rows, what, "compute_hz"))
        alike = [i for i, (_, old) in enumerate(kept) if _alike(path, old)]
        for i in alike:
            names[i] = kernel.kernel if kept[i][0].kernel == kernel.kernel else names[i]
        if path and not alike:
            kept.append((kernel, path))
            names.append(kernel.name)
        if len(kept) == MOST:
            break
    return [(kernel, name) for (kernel, _), name in zip(kept, names, strict=True)]


def _alike(path: dict[float, float], other: dict[float, float]) -> bool:
    return path.keys() <= other.keys() and all(abs(other[x] / hz - 1) < 0.01 for x, hz in path.items())


def _unit(what: Abscissa) -> str:
    return {"duty": "duty", "held_by": "asked_place"}.get(what.column, what.column)


def _set_log(axes: Axes, rows: DataFrame, font: float) -> None:
    x = limits.decades_of(rows["intensity_flop_per_byte"], 0.2, 0.2)
    if x:
        axes.set_xscale("log")
        axes.set_xlim(x.values())
        width, _ = limits.flat_size(axes)
        limits.tick_decades(axes.xaxis, x, width / x.extent, font, upright=False)


def _path(rows: DataFrame, what: Abscissa, column: str) -> list[tuple[float, float]]:
    """The median clock (GHz) at each place."""
    medians = rows[rows[column] > 0].groupby(what.column, sort=True)[column].median()
    place = {name: float(i) for i, name in enumerate(what.names)}
    path = [(place[str(key)] if what.names else float(str(key)), float(hz) * 1e-9) for key, hz in medians.items()]
    return sorted(path)


def disagreement(rows: DataFrame) -> str:
    """By how much the two clocks disagree at most: "" where NVML was not asked."""
    both = rows[(rows["nvml_sm_hz"] > 0) & (rows["compute_hz"] > 0)]
    most = float((both["nvml_sm_hz"] / both["compute_hz"] - 1).max())
    return f"NVML's clock is up to {plain(100 * most, 2)} % above the SMs' own cycle counters." if most > 0.02 else ""
