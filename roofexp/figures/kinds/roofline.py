"""The roofline: rate against intensity under the roofs of the machine, kernels without FLOPs in a strip beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofexp.config.paths import conf_folder
from roofexp.config.schema import FiguresConfig
from roofexp.config.yaml_file import read_mapping
from roofexp.counters.report_placing import Placed, Placing
from roofexp.errors import BadInputError
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import Labels, not_drawn, precisions, prepared, records, with_flops, without_flops
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import Decades, Plane, decades_of, equal_plane, finish
from roofexp.figures.canvas.marks import worth_naming
from roofexp.figures.canvas.page import BELOW, RIGHT, SIDE, Page, drawing_of
from roofexp.figures.canvas.roof_lines import draw_roofs, draw_strip_roofs, first_knees, ridges, roof_lines, write_roofs
from roofexp.figures.canvas.words import knees
from roofexp.records.machine import Machine, Roof, RoofSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from roofexp.figures.canvas.page import Drawing

FLATTEST, TALLEST = 0.5, 0.9  # height over width of the plane
MOST_KNEES = 6
PATHS = 60  # points up to which the sizes of a kernel are joined


def draw_roofline(
    points: DataFrame, roofs: RoofSet | None, settings: FiguresConfig, title: str | None = None
) -> Drawing:
    """The roofline of the points of one machine and clock mode.

    ``points``: the columns of points.csv, SI units, one row per point; ``roofs``: None where none were measured.
    Decades are equally long on both axes. What cannot stand on log axes is named in the footnote. The drawing carries
    the table of every vertex drawn; ``Drawing.save`` writes both.
    """
    with style.themed(settings):
        return _Roofline(prepared(points), roofs, settings, title).draw()


class _Roofline:
    """What one figure shows and how large it is; ``draw`` puts it on the page."""

    def __init__(self, frame: DataFrame, roofs: RoofSet | None, settings: FiguresConfig, title: str | None) -> None:
        import pandas

        self.settings, self.font = settings, settings.font_pt
        self.frame, self.roofs = frame, roofs
        self.on_plane, self.in_strip = with_flops(frame), without_flops(frame)
        self.drawn = pandas.concat([self.on_plane, self.in_strip])
        shown = self.drawn if len(self.drawn) else frame
        self.lines = roof_lines(roofs, shown, precisions(shown))
        self.knees = knees(self.on_plane, self.lines)
        self.title = title or words.knee_title(self.knees, self.drawn) or words.roofline_title(self.drawn)
        self.under = words.machine_line(shown, roofs)
        self.colours = style.kernel_colours(self.drawn["kernel"])
        self.mark_pt = marks.size_pt(len(self.drawn), settings)
        self.names = worth_naming(self.drawn, settings.labels)
        self.labels = Labels(self.drawn)

    def draw(self, unnamed: Sequence[str] = ()) -> Drawing:
        """``unnamed``: roofs that found no room for their words in a first try; the footnote has them then."""
        page = self._page(unnamed)
        strip_pt = limits.strip_width(page, len(self.in_strip))
        plane = self._plane(page, strip_pt)
        drawing = page.make(plane.height, BELOW * self.font)
        axes = equal_plane(page, page.left + strip_pt, 0, plane)
        finish(axes, "right" if len(self.in_strip) else "left")
        draw_roofs(axes, self.lines, plane)
        self._draw_paths(axes)
        self._draw_knees(axes)
        places = _places(self.on_plane, self.on_plane["intensity_flop_per_byte"], "flops_per_s")
        canvas = self._draw_points(axes, self.on_plane, places)
        lost = write_roofs(canvas, self.lines, plane)
        if lost and not unnamed:
            return self.draw(lost)
        self._name(canvas, self.on_plane, places)
        if len(self.in_strip):
            self._draw_strip(limits.strip_axes(page, 0, strip_pt, plane, "B/s"))
        marks.add_hover(drawing, self.drawn)
        return drawing

    def _page(self, unnamed: Sequence[str]) -> Page:
        notes = [
            words.roofs_note(self.roofs, self.lines),
            f"No room for labels of: {style.joined(unnamed)}." if unnamed else "",
            "Bar at the ridge: what is missing to the corner, at least (full) and at most (pale)."
            if self.knees
            else "",
            words.traffic_note(self.drawn),
            words.flags_note(self.drawn),
            words.names_note(len(self.drawn), self.settings.labels),
            not_drawn(self.frame),
        ]
        return Page(self.settings, self.title, self.under, notes, marks.key(self.drawn, self.colours, self.mark_pt))

    def _plane(self, page: Page, strip_pt: float) -> Plane:
        """Limits from positive values only; roofs reach past the points and the ridges on both sides."""
        main = self.lines.main_bandwidth
        knees = [*(at for _, at in ridges(self.lines)), *first_knees(self.lines)]
        x = decades_of([*self.on_plane["intensity_flop_per_byte"], *knees], 0.5, 0.75)
        x = limits.at_least(x or Decades(-2, 3), 4.0)
        heights = [line.high for line in self.lines.compute]
        heights += [rate * 10**x.low for rate in self.in_strip["bytes_per_s"]]
        heights += [main.rate * 10 ** (x.low + 0.5)] if main else []
        y = decades_of([*self.on_plane["flops_per_s"], *heights], 0.35, 0.35) or Decades(9, 12)
        width = page.room(SIDE if len(self.in_strip) else RIGHT, strip_pt)
        # the strip hangs on the left edge: it must not move once the strip's points have a height
        left = 0.0 if len(self.in_strip) else 0.4
        flattest = FLATTEST if style.is_wide(self.settings) else TALLEST
        return limits.equal_decades(x, y, width, flattest * width, TALLEST * width, left)

    def _draw_paths(self, axes: Axes) -> None:
        """A thin line through the sizes of one kernel (or its parameters), for the eye to follow; none in a crowd."""
        if len(self.on_plane) > PATHS:
            return
        same = ["kernel", "precision", "implementation", "cache_state", "held_by", "fill"]
        for (kernel, *_), rows in self.on_plane.groupby(same, sort=False):
            by, parts = "intensity_flop_per_byte", [rows]
            if rows["size"].nunique() > 1:
                by, parts = "size", [part for _, part in rows.groupby("varying_params", sort=False)]
            for part in parts:
                path = part.sort_values(by, kind="stable")
                x, y = path["intensity_flop_per_byte"], path["flops_per_s"]
                axes.plot(x, y, color=self.colours[str(kernel)], linewidth=0.08 * self.font, alpha=0.5, zorder=3)

    def _draw_knees(self, axes: Axes) -> None:
        """From the ideal corner down to where the kernel passes the ridge: at least the full part, at most the pale."""
        for knee in self.knees[:MOST_KNEES]:
            look: dict[str, Any] = {"color": self.colours[knee.kernel], "linewidth": 0.3 * self.font, "zorder": 4}
            look |= {"solid_capstyle": "butt", "label": "knee"}
            axes.plot([knee.ridge] * 2, [knee.high, knee.corner], **look)
            axes.plot([knee.ridge] * 2, [knee.low, knee.high], alpha=0.4, **look)
            heights = {"flops_per_s": knee.corner, "flops_per_s_low": knee.low, "flops_per_s_high": knee.high}
            name, at = f"{knee.kernel} {knee.precision}", {"intensity_flop_per_byte": knee.ridge}
            vertices = [{**at, **heights}]
            drawing_of(axes).add_line("knee", name, vertices, kernel=knee.kernel, precision=knee.precision)

    def _draw_points(self, axes: Axes, rows: DataFrame, places: list[tuple[float, float]]) -> LabelCanvas:
        crowded = len(self.drawn) > marks.CROWD
        unit = "flops_per_s" if rows is self.on_plane else "bytes_per_s"
        for index, row, (x, y) in zip(rows.index, records(rows), places, strict=True):
            marks.draw_mark(axes, x, y, row, self.colours[row["kernel"]], self.mark_pt, crowded)
            vertex = {"intensity_flop_per_byte": row["intensity_flop_per_byte"], unit: y}
            drawing_of(axes).add_point(row, vertex, named=index in self.names)
        return LabelCanvas(axes, places, self.mark_pt)

    def _name(self, canvas: LabelCanvas, rows: DataFrame, places: list[tuple[float, float]]) -> None:
        at = dict(zip(rows.index, places, strict=True))
        canvas.write_beside((*at[index], self.labels.of(rows.loc[index])) for index in self.names if index in at)

    def _draw_strip(self, axes: Axes) -> None:
        """Bytes per second of the points without FLOPs, beside the plane."""
        draw_strip_roofs(axes, self.lines)
        order, across = limits.strip_order(self.in_strip)
        places = _places(order, across, "bytes_per_s")
        canvas = self._draw_points(axes, order, places)
        canvas.lines += [(canvas.segment((0, 1), (line.rate, line.rate)), 1.0) for line in self.lines.bandwidth]
        self._name(canvas, order, places)


def _places(rows: DataFrame, x: Iterable[float], y: str) -> list[tuple[float, float]]:
    return list(zip(x, rows[y], strict=True))


def draw(placings: list[Placing], records: list[Placed], out: Path) -> list[Path]:
    """Writes OUT.png, OUT.svg and OUT.csv and returns their paths. Raises BadInputError where nothing can be drawn."""
    import pandas

    frame = pandas.DataFrame([_row(placing, record) for placing, record in zip(placings, records, strict=True)])
    if not frame["time_s"].notna().any():
        raise BadInputError("--figure: no launch has a time, so there is nothing to draw")
    drawing = draw_roofline(frame, _roofs(placings), _settings())
    stem = out.with_suffix("") if out.suffix in (".png", ".svg", ".csv") else out
    return drawing.save(stem)


def _row(placing: Placing, record: Placed) -> dict[str, Any]:
    """The columns of points.csv that figures read; a report knows no sizes."""
    counts, verdict = placing.item.counts, placing.verdict
    return {
        "kernel": record.kernel,
        "precision": placing.roofs.precision or "",
        "device": "cuda",
        "status": "ok",
        "time_s": record.time_s,
        "flops": record.flops,
        "flops_per_s": record.flops_per_s,
        "traffic_level": "dram",
        "traffic_source": "counted",
        "traffic_bytes": record.dram_bytes,
        "bytes_per_s": record.dram_bytes_per_s,
        "intensity_flop_per_byte": record.ai_dram_flop_per_byte,
        "fraction": verdict.fraction,
        "ridge_flop_per_byte": verdict.ridge,
        "roof": verdict.roof or "",
        "bound": "above a roof" if verdict.fraction and verdict.fraction > 1 else (verdict.bound or ""),
        "compute_hz": counts.sm_hz,
        "flags": "; ".join(flag.split(":")[0] for flag in record.flags),
    }


def _roofs(placings: list[Placing]) -> RoofSet | None:
    """One limit for each precision, at the clock of the launch that it was worked out for, and the bandwidth."""
    roofs: dict[str, Roof] = {}
    for placing in placings:
        limits, hz = placing.roofs, placing.item.counts.sm_hz
        if limits.compute_flops_per_s and limits.precision and limits.precision not in roofs:
            roofs[limits.precision] = Roof(
                name=f"{limits.precision} limit",
                kind="compute",
                rate=limits.compute_flops_per_s,
                precision=limits.precision,
                clock_domain="compute" if hz else "none",
                compute_hz=hz,
            )
    widths = [p.roofs.bandwidth_bytes_per_s for p in placings if p.roofs.bandwidth_bytes_per_s]
    if widths:
        roofs["dram"] = Roof(name="dram", kind="bandwidth", rate=max(widths), level="dram")
    if not roofs:
        return None
    unmeasured: dict[str, Any] = {"clock_mode": "", "code_version": "limits", "measured": "", "seconds": 0.0}
    return RoofSet(machine=_machine(placings), roofs=list(roofs.values()), **unmeasured)


def _machine(placings: list[Placing]) -> Machine:
    names = [placing.item.counts.device_name or placing.roofs.source for placing in placings]
    counts = placings[0].item.counts
    units = int(counts.sm_count) if counts.sm_count else None
    return Machine(machine_id="", device="cuda", name=names[0], units=units, nominal_hz=None, memory_bytes=None)


def _settings() -> Any:
    from omegaconf import OmegaConf

    file = conf_folder() / "figures" / "screen.yaml"
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(FiguresConfig), read_mapping(file)))
