"""Rate against size under launch floor, bandwidth and compute roof, a panel for each kernel and precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofexp.figures import marks, style, words
from roofexp.figures.bounds import with_bounds
from roofexp.figures.frame import not_drawn, prepared, with_flops, without_flops
from roofexp.figures.page import Page
from roofexp.figures.panel import SLOW, Panel
from roofexp.figures.roof_lines import RoofLines
from roofexp.figures.series import series_of
from roofexp.figures.sizes import fitted, rounded
from roofexp.figures.table import Table
from roofexp.figures.time_panel import draw_times
from roofexp.machine import RoofSet
from roofexp.schema import FiguresConfig
from roofexp.units import engineering, percent, size_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from roofexp.figures.drawing import Drawing

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
        *(
            f"Above the figure for {panel.name}: {style.joined(panel.out_of_sight)}."
            for panel in panels
            if panel.out_of_sight
        ),
        f"Without room: {style.joined(left_out)}." if left_out else "",
        not_drawn(frame),
    ]
    page = Page(settings, title or size_sweep_title(panels), words.machine_line(drawn, roofs), notes)
    left, gap, heading = 5.0 * font, 5.6 * font, 1.6 * font if len(panels) > 1 else 0.0
    ticks, below = 2.4 * font, 3.3 * font
    width = (page.width - 2 * page.edge - left - 0.5 * font - (columns - 1) * gap) / columns
    height = width * (0.5 if columns == 1 else 0.66)
    timed = len(panels) <= TIMED
    time_height = 0.55 * height if timed else 0.0
    both = height + time_height + (0.8 * font if timed else 0.0)
    drawing = page.make(rows * (both + heading) + (rows - 1) * ticks, below)
    colours = style.kernel_colours(panel.kernel for panel in panels)
    table = Table()
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        x = page.edge + left + column * (width + gap)
        y = (rows - 1 - row) * (both + heading + ticks)
        axes = page.axes(drawing, x, y + both - height, width, height, label=f"panel {panel.name}")
        _head(axes, panel, len(panels) > 1, font)
        colour = colours[panel.kernel]
        panel.scale = 0.8 if columns == 1 else 0.55
        panel.draw(axes, settings, colour, _labels(settings, len(panels)), table)
        lowest = axes
        if timed:
            axes.tick_params(labelbottom=False)
            lowest = page.axes(drawing, x, y, width, time_height, label=f"times {panel.name}")
            style.open_sides(lowest)
            draw_times(lowest, axes, panel, settings, colour, table)
        lowest.set_xlabel("Size" if i + columns >= len(panels) else "")
    marks.add_hover(drawing, drawn)
    drawing.table = table.frame()
    return drawing


def _head(axes: Axes, panel: Panel, several: bool, font: float) -> None:
    style.open_sides(axes)
    if several:
        axes.set_title(style.shortened(panel.name, 32), loc="left", fontsize=font, weight="bold", pad=0.5 * font)


def _labels(settings: FiguresConfig, panels: int) -> int:
    return max(2, settings.labels // panels)


def size_sweep_title(panels: list[Panel]) -> str:
    """One sentence that says from which size on the kernels leave the latency-bound region."""
    if len(panels) == 1:
        panel = panels[0]
        last = panel.best.rows.iloc[-1]
        end = f"{percent(last['share'])} of its roof at {size_name(last['size'])}" if last["share"] > 0 else ""
        return f"{style.shortened(panel.name, 40)}: {'; '.join(part for part in (panel.verdict, end) if part)}"
    ends = [(p, fitted(p.fit.size) if p.fit else rounded(p.crossing) if p.crossing else "") for p in panels]
    known = [(panel, end) for panel, end in ends if end]
    kernels = list(dict.fromkeys(panel.kernel for panel in panels))
    if len(kernels) == 1:  # its panels are its precisions
        kernel, words_for_it = style.shortened(kernels[0], 30), [f"{end} in {p.precision}" for p, end in known]
        if known:
            return f"{kernel} is latency-bound below size {style.joined(words_for_it)}"
        return f"Rates of {kernel} in {style.joined([panel.precision for panel in panels])} against size"
    if known:
        names = [f"{end} ({style.shortened(panel.name, 24)})" for panel, end in known]
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
