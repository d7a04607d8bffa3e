"""The staircase of bandwidths: rate against working set, a step down wherever the data no longer fit a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import OTHERS, highest, measured, prepared, records
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import Place, log_axes
from roofexp.figures.canvas.page import BELOW, Page, drawing_of
from roofexp.figures.canvas.roof_lines import RoofLines, roof_texts
from roofexp.records.machine import LEVELS, Machine, RoofSet
from roofexp.text.numbers import engineering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from roofexp.figures.canvas.page import Drawing

LEAST_SIZES = 6
MOST_INTENSITY = 0.5  # FLOP/B: below it every level of every machine is a matter of bandwidth
KEEPS = 0.75  # of a cache filled from one launch to the next: as in roofline.model_traffic
MOST_CURVES = 10
HEIGHT = 0.5  # over width


class Curve(NamedTuple):
    """One kernel in one cache state over working sets, ascending; ``words`` tell it from the others."""

    kernel: str
    words: list[str]
    hot: bool
    rows: DataFrame


def draw_staircase(points: DataFrame, roofs: RoofSet | None, settings: FiguresConfig) -> Drawing | None:
    """The points of one machine that move bytes and do little else, over at least six working sets on both sides of a
    cache's capacity; None where there is no such curve.

    ``points``: the columns of points.csv. The rate is the kernel's compulsory bytes over its time, whatever level they
    came from.
    """
    frame = prepared(points)
    curves = _curves(frame, roofs.machine) if roofs else []
    if not curves or roofs is None:
        return None
    with style.themed(settings):
        return _draw(curves[:MOST_CURVES], curves[MOST_CURVES:], roofs, settings)


def _curves(frame: DataFrame, machine: Machine) -> list[Curve]:
    rows = frame[measured(frame) & (frame["working_set_bytes"] > 0) & (frame["time_s"] > 0)].copy()
    modelled = rows["traffic_bytes"].where(rows["traffic_source"] == "modelled")
    rows["moved_bytes"] = rows["useful_bytes"].fillna(modelled)
    rows = rows[(rows["moved_bytes"] > 0) & (rows["flops"].fillna(0) <= MOST_INTENSITY * rows["moved_bytes"])]
    rows = rows.assign(rate=rows["moved_bytes"] / rows["time_s"])
    curves = []
    names = ["kernel", "precision", *OTHERS]
    varying = [name for name in names if name != "kernel" and rows[name].nunique() > 1]
    for key, group in rows.groupby(names, sort=False):
        facts = {name: str(word) for name, word in zip(names, key, strict=True)}
        sets = group["working_set_bytes"]
        spans = any(sets.min() < capacity < sets.max() for capacity in machine.cache_bytes.values())
        if sets.nunique() >= LEAST_SIZES and spans:
            texts = [facts["kernel"], *(facts[name] for name in varying if facts[name])]
            ordered = group.sort_values("working_set_bytes", kind="stable")
            curves.append(Curve(facts["kernel"], texts, facts["cache_state"] != "cold", ordered))
    return curves


def _draw(curves: list[Curve], left_out: list[Curve], roofs: RoofSet, settings: FiguresConfig) -> Drawing:
    import pandas

    drawn = pandas.concat([curve.rows for curve in curves])
    font = settings.font_pt
    notes = [
        "Rate: the bytes that the kernel must move over its time, whatever level they came from.",
        "Upright lines: capacities of the caches of all units together; level lines: measured bandwidth roofs.",
        words.roofs_note(roofs, RoofLines([], [])),
        words.flags_note(drawn),
        f"Without room: {style.joined([' '.join(curve.words) for curve in left_out])}." if left_out else "",
    ]
    page = Page(settings, staircase_title(curves, roofs.machine), words.machine_line(drawn, roofs), notes)
    width = page.room(1.0)
    height = (HEIGHT if style.is_wide(settings) else 0.8) * width
    x = limits.decades_of(drawn["working_set_bytes"], 0.1, 0.1)
    levels = [roof.rate for roof in roofs.roofs if roof.kind == "bandwidth" and roof.ceiling_of is None]
    top = drawn["rate"].max()
    y = limits.decades_of([*drawn["rate"], *(rate for rate in levels if rate < 4 * top)], 0.2, 0.25)
    assert x
    assert y
    drawing = page.make(height, BELOW * font)
    look = {"xlabel": "Working set (B)", "ylabel": "B/s", "label": "staircase"}
    axes = log_axes(page, Place(page.left, 0, width, height), x, y, x_prefixes=True, **look)
    _fill(axes, curves, roofs, settings)
    marks.add_hover(drawing, drawn)
    return drawing


def _fill(axes: Axes, curves: list[Curve], roofs: RoofSet, settings: FiguresConfig) -> None:
    """Lines first, so that words know what to stay clear of; then the words, roofs before capacities before curves."""
    paths = _draw_curves(axes, curves, settings)
    canvas = LabelCanvas(axes, [place for path in paths for place in path], 0.7 * settings.font_pt)
    for path in paths:
        canvas.avoid(path, 2.0)
    _draw_roofs(canvas, roofs)
    _draw_capacities(canvas, roofs.machine)
    if len(curves) > 1:
        canvas.write_beside(_name_place(curve) for curve in curves)


def _name_place(curve: Curve) -> tuple[float, float, list[str]]:
    """At the best of a hot curve and low on a cold one: there they are apart."""
    row = highest(curve.rows, "rate") if curve.hot else curve.rows.iloc[len(curve.rows) // 3]
    return row["working_set_bytes"], row["rate"], [" ".join(curve.words), " ".join(curve.words[1:])]


def _draw_curves(axes: Axes, curves: list[Curve], settings: FiguresConfig) -> list[list[tuple[float, float]]]:
    """The path of each curve."""
    colours = style.kernel_colours(curve.kernel for curve in curves)
    count = sum(len(curve.rows) for curve in curves)
    size, paths = 0.8 * marks.size_pt(count, settings), []
    for curve in curves:
        colour = colours[curve.kernel]
        paths.append(list(zip(curve.rows["working_set_bytes"], curve.rows["rate"], strict=True)))
        look: dict[str, Any] = {"linestyle": "-" if curve.hot else (0, (4, 2)), "linewidth": 0.12 * settings.font_pt}
        axes.plot(*zip(*paths[-1], strict=True), color=colour, zorder=3, **look)
        for row, (x, y) in zip(records(curve.rows), paths[-1], strict=True):
            marks.draw_mark(axes, x, y, row, colour, size, count > marks.CROWD)
            vertex = {"working_set_bytes": x, "bytes_per_s": y}
            drawing_of(axes).add_point(row, vertex, series=" ".join(curve.words), compute_hz=row["compute_hz"])
    return paths


def _draw_roofs(canvas: LabelCanvas, roofs: RoofSet) -> None:
    low, high = canvas.axes.get_ylim()
    for roof in roofs.roofs:
        if roof.kind != "bandwidth" or roof.ceiling_of is not None or not low < roof.rate < high:
            continue
        colour, width = (style.ROOF, 0.2) if roof.level == "dram" else (style.CEILING, 0.11)
        canvas.axes.axhline(roof.rate, color=colour, linewidth=width * canvas.font, zorder=2)
        segment = canvas.segment(canvas.axes.get_xlim(), (roof.rate, roof.rate))
        canvas.lines.append((segment, 1.0))
        canvas.write_along(segment, roof_texts(roof, roof.rate)[-2:], 1.0, "roof-label")
        canvas.drawing.add_line("roof", roof.name, [{"bytes_per_s": roof.rate}], traffic_level=roof.level)


def _draw_capacities(canvas: LabelCanvas, machine: Machine) -> None:
    low, high = canvas.axes.get_xlim()
    for name, capacity in machine.cache_bytes.items():
        if not low < capacity < high:
            continue
        look: dict[str, Any] = {"color": style.INK, "linewidth": 0.1 * canvas.font, "linestyle": (0, (4, 2))}
        canvas.axes.axvline(capacity, zorder=1.9, **look)
        segment = canvas.segment((capacity, capacity), canvas.axes.get_ylim())
        canvas.lines.append((segment, 1.0))
        size = f"{name.upper()} {engineering(capacity, 'B')}"
        emptied = bool(machine.kept_levels) and name not in machine.kept_levels
        texts = [f"{size}, emptied between launches", size] if emptied else [size]
        canvas.write_along(segment, [*texts, name.upper()], 0.0, "capacity-label", style.INK)
        canvas.drawing.add_line("capacity", name, [{"working_set_bytes": float(capacity)}])


def staircase_title(curves: list[Curve], machine: Machine) -> str:
    """The rates on both sides of the largest step, of the fastest hot curve (or of the first): one that reads once is
    mostly launch while all fits in a cache."""
    shown = max((curve for curve in curves if curve.hot), key=lambda curve: curve.rows["rate"].max(), default=curves[0])
    sets, rates = shown.rows["working_set_bytes"], shown.rows["rate"]
    name = style.shortened(" ".join(shown.words) if len(curves) > 1 else shown.kernel, 40)
    for level in reversed(LEVELS[1:]):  # nearest first: the fastest level that some working sets fit
        inside = rates[sets <= KEEPS * machine.cache_bytes.get(level, 0)]
        if len(inside) and shown.hot and level in (machine.kept_levels or LEVELS):
            return (
                f"{name}: {engineering(inside.max(), 'B/s')} while all fits in {level.upper()}, "
                f"{engineering(rates.iloc[-1], 'B/s')} at {engineering(sets.iloc[-1], 'B')}"
            )
    return f"{name}: {engineering(rates.max(), 'B/s')} at best, {engineering(rates.iloc[-1], 'B/s')} at the largest"
