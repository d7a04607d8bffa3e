"""Rate against size under launch floor, bandwidth and compute roof, a panel for each kernel and precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import not_drawn, prepared, with_flops, without_flops
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.page import BELOW, Page
from roofexp.figures.canvas.roof_lines import RoofLines
from roofexp.figures.kinds.crossover import BOUNDS, with_bounds
from roofexp.figures.kinds.size_panel import (
    DASHES,
    SHADE,
    SLOW,
    Panel,
    fitted,
    launch_words,
    path_of,
    rounded,
    series_of,
)
from roofexp.records.machine import RoofSet
from roofexp.text.numbers import engineering, percent, plain, size_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from roofexp.figures.canvas.page import Drawing

PANEL_MM = 75  # the least width of a panel
ROWS = 4  # of panels at most
TIMED = 6  # panels up to which times are drawn below the rates
LATENCY_SHARE = 0.30  # less than this share of the roofs is latency-bound, as in placing.far_below


def draw_size_sweep(
    points: DataFrame,
    roofs: RoofSet | None,
    settings: FiguresConfig,
    title: str | None = None,
    latency_share: float = LATENCY_SHARE,
) -> Drawing | None:
    """The size sweep of the points of one machine and clock mode; None where no kernel was measured at two sizes.

    ``points``: the columns of points.csv, SI units, one row per point. ``latency_share``: the share of the roofs below
    which small sizes count as latency-bound; the size at which a kernel reaches it is named in the figure.
    """
    frame = prepared(points)
    panels, left_out = _panels(frame, roofs, settings, latency_share)
    if not panels:
        return None
    with style.themed(settings):
        return _draw(panels, left_out, frame, roofs, settings, title)


def _panels(
    frame: DataFrame, roofs: RoofSet | None, settings: FiguresConfig, share: float
) -> tuple[list[Panel], list[str]]:
    """A panel for each kernel and precision measured at several sizes, and the names of those without room."""
    import pandas

    drawn = pandas.concat([with_flops(frame), without_flops(frame)]).sort_index()
    drawn = drawn[drawn["size"] > 0]
    groups = [
        (f"{kernel} {precision}".strip(), rows)
        for (kernel, precision), rows in drawn.groupby(["kernel", "precision"], sort=False)
        if any(series.rows["size"].nunique() > 1 for series in series_of(rows))
    ]
    most = ROWS * _columns(len(groups), settings)
    ranked = sorted(groups, key=lambda group: -group[1]["size"].nunique())[:most]
    kept = {name for name, _ in ranked}
    panels = [Panel(name, with_bounds(rows, roofs), roofs, share) for name, rows in groups if name in kept]
    return panels, [name for name, _ in groups if name not in kept]


def _columns(count: int, settings: FiguresConfig) -> int:
    return max(1, min(count, int(settings.width_mm // PANEL_MM), 2 if count in (2, 4) else count))


def _draw(
    panels: list[Panel],
    left_out: list[str],
    frame: DataFrame,
    roofs: RoofSet | None,
    settings: FiguresConfig,
    title: str | None,
) -> Drawing:
    import pandas

    drawn = pandas.concat([panel.rows for panel in panels])
    font, columns = settings.font_pt, _columns(len(panels), settings)
    rows = -(-len(panels) // columns)
    notes = [
        _bounds_note(panels, roofs),
        words.roofs_note(roofs, RoofLines([], [])),
        words.traffic_note(drawn),
        words.flags_note(drawn),
        *(f"Above the figure for {p.name}: {style.joined(p.out_of_sight)}." for p in panels if p.out_of_sight),
        f"Without room: {style.joined(left_out)}." if left_out else "",
        not_drawn(frame),
    ]
    page = Page(settings, title or size_sweep_title(panels), words.machine_line(drawn, roofs), notes)
    gap, heading, ticks = 5.6 * font, 1.6 * font if len(panels) > 1 else 0.0, 2.4 * font
    width = (page.room(0.5) - (columns - 1) * gap) / columns
    height = width * (0.5 if columns == 1 else 0.66)
    timed = len(panels) <= TIMED
    time_height = 0.55 * height if timed else 0.0
    both = height + time_height + (0.8 * font if timed else 0.0)
    drawing = page.make(rows * (both + heading) + (rows - 1) * ticks, BELOW * font)
    colours = style.kernel_colours(panel.kernel for panel in panels)
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        x = page.left + column * (width + gap)
        y = (rows - 1 - row) * (both + heading + ticks)
        axes = page.axes(x, y + both - height, width, height, label=f"panel {panel.name}")
        _head(axes, panel, len(panels) > 1, font)
        colour = colours[panel.kernel]
        panel.scale = 0.8 if columns == 1 else 0.55
        panel.draw(axes, settings, colour, max(2, settings.labels // len(panels)))
        lowest = axes
        if timed:
            axes.tick_params(labelbottom=False)
            lowest = page.axes(x, y, width, time_height, label=f"times {panel.name}")
            style.open_sides(lowest)
            draw_times(lowest, axes, panel, settings, colour)
        lowest.set_xlabel("Size" if i + columns >= len(panels) else "")
    marks.add_hover(drawing, drawn)
    return drawing


def _head(axes: Axes, panel: Panel, several: bool, font: float) -> None:
    style.open_sides(axes)
    if several:
        axes.set_title(style.shortened(panel.name, 32), loc="left", fontsize=font, weight="bold", pad=0.5 * font)


def size_sweep_title(panels: list[Panel]) -> str:
    """One sentence that says from which size on the kernels leave the latency-bound region."""
    if len(panels) == 1:
        panel = panels[0]
        last = panel.best.rows.iloc[-1]
        end = f"{percent(last['share'])} of its roof at {size_name(last['size'])}" if last["share"] > 0 else ""
        return f"{style.shortened(panel.name, 40)}: {'; '.join(part for part in (panel.verdict, end) if part)}"
    ends = [(p, fitted(p.fit.size) if p.fit else rounded(p.crossing) if p.crossing else "") for p in panels]
    ends = [(panel, end) for panel, end in ends if end]
    kernels = list(dict.fromkeys(panel.kernel for panel in panels))
    if len(kernels) == 1:  # its panels are its precisions
        kernel, sizes = style.shortened(kernels[0], 30), [f"{end} in {p.precision}" for p, end in ends]
        if ends:
            return f"{kernel} is latency-bound below size {style.joined(sizes)}"
        return f"Rates of {kernel} in {style.joined([panel.precision for panel in panels])} against size"
    if ends:
        names = [f"{end} ({style.shortened(panel.name, 24)})" for panel, end in ends]
        return f"Latency-bound below size {style.joined(names, 4)}"
    return f"Rates of {len(kernels)} kernels against size"


def _bounds_note(panels: list[Panel], roofs: RoofSet | None) -> str:
    """What the lines, the bars and the shading are."""
    launch = roofs.launch() if roofs else None
    fits = any(panel.fit for panel in panels)
    shaded = any(not panel.fit and (panel.crossing or panel.always_below) for panel in panels)
    share = percent(panels[0].latency_share)
    slow = any(len(panel.slow) for panel in panels)
    parts = [
        "Thick: the smaller of compute roof and bandwidth × intensity" if roofs else "",
        "thin: compute roof; dashed: bandwidth" if roofs else "",
        f"dotted: all work in one launch floor ({engineering(launch.rate, 's')})" if launch else "",
        "bars: 5th to 95th percentile of the samples",
        "shaded: more than half of the time is the floor of the fit t = floor + slowdown × roofs" if fits else "",
        f"shaded{' elsewhere' if fits else ''}: less than {share} of the roof" if shaded else "",
        f"▾: held a clock more than {percent(1 - SLOW)} below the highest" if slow else "",
        "times are in the table" if len(panels) > TIMED else "",
    ]
    return f"{'; '.join(part for part in parts if part)}."


def draw_times(axes: Axes, above: Axes, panel: Panel, settings: FiguresConfig, colour: str) -> None:
    """``axes`` of final size below the panel of rates ``above``, whose sizes they share."""
    font, best = settings.font_pt, panel.best.rows
    ends = limits.decades_of([*panel.rows["time_s"], *panel.rows["time_p5_s"], *panel.rows["time_p95_s"]], 0.25, 0.25)
    assert ends
    ends = limits.at_least(ends, 1.0)
    axes.set(xscale="log", yscale="log", xlim=above.get_xlim(), ylim=ends.values(), ylabel="s")
    width, height = limits.flat_size(axes)
    limits.tick_sizes(axes.xaxis, panel.rows["size"].unique().tolist(), width, font)
    limits.tick_decades(axes.yaxis, ends, height / ends.extent, font, upright=True)
    limits.grid(axes)
    if panel.latency_end is not None:
        low, high = axes.get_xlim()
        axes.axvspan(low, min(panel.latency_end, high), color=SHADE, linewidth=0, zorder=0)
    work = best["rate_per_s"] * best["time_s"]
    _draw_bounds(axes, best, work, font)
    places = _draw_points(axes, panel, settings, colour)
    canvas = LabelCanvas(axes, places, 0.6 * font, plates=False)
    if panel.fit:
        _draw_fit(canvas, panel, work)
    _name_floor(canvas, panel)


def _draw_bounds(axes: Axes, best: DataFrame, work: Any, font: float) -> None:
    for name in (*BOUNDS, "roof_per_s"):
        rows = best[best[name] > 0]
        if len(rows) < 2:
            continue
        heavy = name == "roof_per_s"
        look: dict[str, Any] = {"color": style.ROOF if heavy else style.CEILING, "zorder": 2 if heavy else 1.8}
        look |= {"linewidth": (0.2 if heavy else 0.11) * font, "linestyle": "-" if heavy else DASHES[name]}
        axes.plot(rows["size"], work[rows.index] / rows[name], **look)


def _draw_points(axes: Axes, panel: Panel, settings: FiguresConfig, colour: str) -> list[tuple[float, float]]:
    crowded, size = len(panel.rows) > marks.CROWD, 0.8 * panel.mark_pt(settings)
    for series in panel.series:
        rows = series.rows
        axes.plot(rows["size"], rows["time_s"], color=colour, linewidth=0.1 * settings.font_pt, zorder=3)
        bars = rows[(rows["time_p5_s"] > 0) & (rows["time_p95_s"] > 0)]
        look: dict[str, Any] = {"color": colour, "linewidth": 0.14 * settings.font_pt, "zorder": 3.2, "alpha": 0.7}
        axes.vlines(bars["size"], bars["time_p5_s"], bars["time_p95_s"], **look)
        look = {"markerfacecolor": "none" if crowded else colour, "markeredgecolor": colour, "markersize": 0.8 * size}
        marker = style.marker(panel.precision)  # one artist: hover text is on the rates
        axes.plot(rows["size"], rows["time_s"], linestyle="none", marker=marker, zorder=4, **look)
    return list(zip(panel.rows["size"], panel.rows["time_s"], strict=True))


def _draw_fit(canvas: LabelCanvas, panel: Panel, work: Any) -> None:
    """floor + slowdown x the time that the roofs allow, at the sizes measured."""
    fit, axes, font = panel.fit, canvas.axes, canvas.font
    assert fit
    bound_by_size = path_of(panel.best.rows.assign(bound_s=work / panel.best.rows["roof_per_s"]), "bound_s")
    path = [(size, fit.time_s(bound_s)) for size, bound_s in bound_by_size]
    look: dict[str, Any] = {"color": style.INK, "linewidth": 0.1 * font, "linestyle": (0, (6, 2, 1, 2))}
    axes.plot(*zip(*path, strict=True), zorder=3.6, **look)
    vertices = [{"size": size, "fitted_s": time_s} for size, time_s in path]
    canvas.drawing.add_line("fit", "floor + slowdown x roofs", vertices, panel=panel.name)
    canvas.lines += [(piece, 1.0) for piece in canvas.pieces(path)]
    short = f"fit: {engineering(fit.floor_s, 's')} + {plain(fit.slowdown)} × roofs"
    text = f"{short.removesuffix('roofs')}the time that the roofs allow"
    text = text if style.text_width(text, 0.85 * font) < 0.6 * limits.flat_size(axes)[0] else short
    look = {"fontsize": 0.85 * font, "color": style.INK, "label": "fit-label", "zorder": 3.8}
    # the upper left is free: small sizes take little time
    canvas.take(axes.text(0.02, 0.95, text, transform=axes.transAxes, va="top", **look))


def _name_floor(canvas: LabelCanvas, panel: Panel) -> None:
    launch, (low, high) = panel.roofs.launch() if panel.roofs else None, canvas.axes.get_ylim()
    if launch and low < launch.rate < high:
        level = canvas.segment(canvas.axes.get_xlim(), (launch.rate, launch.rate))
        canvas.write_along(level, launch_words(panel.roofs), 1.0, "bound-label")
