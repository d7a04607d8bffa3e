"""The staircase of bandwidths: rate against working set, a step down wherever the data no longer fit a cache."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import OTHERS, highest, measured, prepared, records
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import BELOW, SIDE, Place, log_axes
from roofexp.figures.canvas.page import Page, VertexTable
from roofexp.figures.canvas.roof_lines import LEVELS, RoofLines, roof_texts
from roofexp.records.machine import Machine, RoofSet
from roofexp.text.numbers import engineering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from roofexp.figures.canvas.page import Drawing

LEAST_SIZES = 6
MOST_INTENSITY = 0.5  # FLOP/B: below it every level of every machine is a matter of bandwidth
KEEPS = 0.75  # of a cache filled from one launch to the next: as in roofline.model_traffic
MOST_SERIES = 10
HEIGHT = 0.5  # over width


class Series(NamedTuple):
    """One kernel in one cache state over working sets, ascending; ``words`` tell it from the others."""

    kernel: str
    words: list[str]
    hot: bool
    rows: DataFrame


def draw_staircase(points: DataFrame, roofs: RoofSet | None, settings: FiguresConfig) -> Drawing | None:
    """The points of one machine that move bytes and do little else, over at least six working sets on both sides of a
    cache's capacity; None where there is no such series.

    ``points``: the columns of points.csv. The rate is the kernel's compulsory bytes over its time, whatever level they
    came from.
    """
    frame = prepared(points)
    series = _series(frame, roofs.machine) if roofs else []
    if not series or roofs is None:
        return None
    with style.themed(settings):
        return _draw(series[:MOST_SERIES], series[MOST_SERIES:], roofs, settings)


def _series(frame: DataFrame, machine: Machine) -> list[Series]:
    rows = frame[measured(frame) & (frame["working_set_bytes"] > 0) & (frame["time_s"] > 0)].copy()
    modelled = rows["traffic_bytes"].where(rows["traffic_source"] == "modelled")
    rows["moved_bytes"] = rows["useful_bytes"].fillna(modelled)
    rows = rows[(rows["moved_bytes"] > 0) & (rows["flops"].fillna(0) <= MOST_INTENSITY * rows["moved_bytes"])]
    rows = rows.assign(rate=rows["moved_bytes"] / rows["time_s"])
    found = []
    names = ["kernel", "precision", *OTHERS]
    varying = [name for name in names if name != "kernel" and rows[name].nunique() > 1]
    for key, group in rows.groupby(names, sort=False):
        facts = {name: str(word) for name, word in zip(names, key, strict=True)}
        sets = group["working_set_bytes"]
        spans = any(sets.min() < capacity < sets.max() for capacity in machine.cache_bytes.values())
        if sets.nunique() >= LEAST_SIZES and spans:
            told = [facts["kernel"], *(facts[name] for name in varying if facts[name])]
            ordered = group.sort_values("working_set_bytes", kind="stable")
            found.append(Series(facts["kernel"], told, facts["cache_state"] != "cold", ordered))
    return found


def _draw(series: list[Series], left_out: list[Series], roofs: RoofSet, settings: FiguresConfig) -> Drawing:
    import pandas

    drawn = pandas.concat([each.rows for each in series])
    font, table = settings.font_pt, VertexTable()
    notes = [
        "Rate: the bytes that the kernel must move over its time, whatever level they came from.",
        "Upright lines: capacities of the caches of all units together; level lines: measured bandwidth roofs.",
        words.roofs_note(roofs, RoofLines([], [])),
        words.flags_note(drawn),
        f"Without room: {style.joined([' '.join(each.words) for each in left_out])}." if left_out else "",
    ]
    page = Page(settings, staircase_title(series, roofs.machine), words.machine_line(drawn, roofs), notes)
    width = page.width - 2 * page.edge - (SIDE + 1) * font
    height = (HEIGHT if settings.width_mm >= style.NARROW_MM else 0.8) * width
    x = limits.decades_of(drawn["working_set_bytes"], 0.1, 0.1)
    levels = [roof.rate for roof in roofs.roofs if roof.kind == "bandwidth" and roof.ceiling_of is None]
    top = drawn["rate"].max()
    y = limits.decades_of([*drawn["rate"], *(rate for rate in levels if rate < 4 * top)], 0.2, 0.25)
    assert x
    assert y
    drawing = page.make(height, BELOW * font)
    place = Place(page.edge + SIDE * font, 0, width, height)
    look = {"xlabel": "Working set (B)", "ylabel": "B/s", "label": "staircase"}
    axes = log_axes(page, drawing, place, x, y, x_prefixes=True, **look)
    _fill(axes, series, roofs, settings, table)
    marks.add_hover(drawing, drawn)
    drawing.table = table.frame()
    return drawing


def _fill(axes: Axes, series: list[Series], roofs: RoofSet, settings: FiguresConfig, table: VertexTable) -> None:
    """Lines first, so that words know what to stay clear of; then the words, roofs before capacities before series."""
    places = _draw_series(axes, series, settings, table)
    canvas = LabelCanvas(axes, places, 0.7 * settings.font_pt, spread=False)
    for each in series:
        path = list(zip(each.rows["working_set_bytes"], each.rows["rate"], strict=True))
        pairs = itertools.pairwise(path)
        canvas.lines += [(canvas.segment((a[0], b[0]), (a[1], b[1])), 2.0) for a, b in pairs]
    _draw_roofs(canvas, roofs, settings.font_pt, table)
    _draw_capacities(canvas, roofs.machine, settings.font_pt, table)
    wanted = [_name_place(each) for each in series] if len(series) > 1 else []
    canvas.write_beside(wanted, fontsize=0.9 * settings.font_pt, label="point-label", zorder=6)


def _name_place(series: Series) -> tuple[float, float, list[str]]:
    """At the best of a hot series and low on a cold one: there they are apart."""
    row = highest(series.rows, "rate") if series.hot else series.rows.iloc[len(series.rows) // 3]
    return row["working_set_bytes"], row["rate"], [" ".join(series.words), " ".join(series.words[1:])]


def _draw_series(
    axes: Axes, series: list[Series], settings: FiguresConfig, table: VertexTable
) -> list[tuple[float, float]]:
    colours = style.kernel_colours(each.kernel for each in series)
    count = sum(len(each.rows) for each in series)
    size, places = 0.8 * marks.size_pt(count, settings), []
    for each in series:
        x, y, colour = each.rows["working_set_bytes"], each.rows["rate"], colours[each.kernel]
        look: dict[str, Any] = {"linestyle": "-" if each.hot else (0, (4, 2)), "linewidth": 0.12 * settings.font_pt}
        axes.plot(x, y, color=colour, zorder=3, **look)
        for row in records(each.rows):
            marks.draw_mark(axes, row["working_set_bytes"], row["rate"], row, colour, size, count > marks.CROWD)
            vertex = {"working_set_bytes": row["working_set_bytes"], "bytes_per_s": row["rate"]}
            table.point(row, vertex, series=" ".join(each.words), compute_hz=row["compute_hz"])
            places.append((row["working_set_bytes"], row["rate"]))
    return places


def _draw_roofs(canvas: LabelCanvas, roofs: RoofSet, font_pt: float, table: VertexTable) -> None:
    low, high = canvas.axes.get_ylim()
    for roof in roofs.roofs:
        if roof.kind != "bandwidth" or roof.ceiling_of is not None or not low < roof.rate < high:
            continue
        main = roof.level == "dram"
        canvas.axes.axhline(
            roof.rate,
            color=style.ROOF if main else style.CEILING,
            linewidth=(0.2 if main else 0.11) * font_pt,
            zorder=2,
        )
        segment = canvas.segment(canvas.axes.get_xlim(), (roof.rate, roof.rate))
        canvas.lines.append((segment, 1.0))
        look = {"fontsize": 0.85 * font_pt, "color": style.FADED, "label": "roof-label", "zorder": 3.4}
        canvas.write_along(segment, roof_texts(roof, roof.rate)[-2:], 1.0, **look)
        table.line("roof", roof.name, [{"bytes_per_s": roof.rate}], traffic_level=roof.level)


def _draw_capacities(canvas: LabelCanvas, machine: Machine, font_pt: float, table: VertexTable) -> None:
    low, high = canvas.axes.get_xlim()
    for name, capacity in machine.cache_bytes.items():
        if not low < capacity < high:
            continue
        canvas.axes.axvline(capacity, color=style.INK, linewidth=0.1 * font_pt, linestyle=(0, (4, 2)), zorder=1.9)
        segment = canvas.segment((capacity, capacity), canvas.axes.get_ylim())
        canvas.lines.append((segment, 1.0))
        size = f"{name.upper()} {engineering(capacity, 'B')}"
        emptied = bool(machine.kept_levels) and name not in machine.kept_levels
        texts = [f"{size}, emptied between launches", size] if emptied else [size]
        look = {"fontsize": 0.85 * font_pt, "color": style.INK, "label": "capacity-label", "zorder": 3.4}
        canvas.write_along(segment, [*texts, name.upper()], 0.0, **look)
        table.line("capacity", name, [{"working_set_bytes": float(capacity)}])


def staircase_title(series: list[Series], machine: Machine) -> str:
    """The rates on both sides of the largest step, of the fastest hot series (or of the first): one that reads once is
    mostly launch while all fits in a cache."""
    shown = max((each for each in series if each.hot), key=lambda each: each.rows["rate"].max(), default=series[0])
    sets, rates = shown.rows["working_set_bytes"], shown.rows["rate"]
    name = style.shortened(" ".join(shown.words) if len(series) > 1 else shown.kernel, 40)
    for level in reversed(LEVELS[1:]):  # nearest first: the fastest level that some working sets fit
        inside = rates[sets <= KEEPS * machine.cache_bytes.get(level, 0)]
        if len(inside) and shown.hot and level in (machine.kept_levels or LEVELS):
            return (
                f"{name}: {engineering(inside.max(), 'B/s')} while all fits in {level.upper()}, "
                f"{engineering(rates.iloc[-1], 'B/s')} at {engineering(sets.iloc[-1], 'B')}"
            )
    return f"{name}: {engineering(rates.max(), 'B/s')} at best, {engineering(rates.iloc[-1], 'B/s')} at the largest"
