"""What the values of the operands cost: time, clock, power and energy of the same work, a bar for each fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import style, words
from roofexp.figures.canvas.frame import hover
from roofexp.figures.canvas.page import Page, drawing_of
from roofexp.records.machine import RoofSet
from roofexp.text.numbers import engineering, plain, size_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame, Series

    from roofexp.figures.canvas.page import Drawing

SAME = ["kernel", "size", "precision", "implementation", "params", "cache_state", "held_by"]
ORDER = ("zeros", "uniform", "normal")
MOST_GROUPS = 12


class Column(NamedTuple):
    name: str
    title: str
    unit: str


COLUMNS = (
    Column("time_s", "Time", "s"),
    Column("compute_hz", "Clock held", "Hz"),
    Column("power_w", "Power", "W"),
    Column("energy_per_launch_j", "Energy", "J"),
)


class Group(NamedTuple):
    """The same work with several fills, in the order of ORDER."""

    name: str
    rows: DataFrame


def fill_groups(rows: DataFrame) -> list[Group]:
    """The work that was measured with several fills."""
    groups, places = [], {name: i for i, name in enumerate(ORDER)}
    for _, same in rows.groupby(SAME, sort=False):
        if same["fill"].nunique() > 1:
            first = same.iloc[0]
            size = size_name(first["size"]) if first["size"] > 0 else ""
            name = " ".join(w for w in (style.shortened(first["kernel"], 24), size, first["precision"]) if w)
            groups.append(Group(name, same.sort_values("fill", key=lambda fills: fills.map(places), kind="stable")))
    return groups


def draw_fills(groups: list[Group], left_out: int, roofs: RoofSet | None, settings: FiguresConfig) -> Drawing:
    """Bars relative to the largest of each group, with the values beside them. ``left_out``: points without a twin."""
    import pandas

    shown, font = groups[:MOST_GROUPS], settings.font_pt
    drawn = pandas.concat([group.rows for group in shown])
    beyond = len(groups) - MOST_GROUPS
    notes = [
        "Bars: relative to the largest of each kernel. Energy: of a launch, with what the device takes when idle.",
        f"Not drawn: {words.count(left_out, 'point')} with one fill." if left_out else "",
        f"Not drawn: {words.count(beyond, 'more kernel')}, see points.csv." if beyond > 0 else "",
        words.flags_note(drawn),
    ]
    page = Page(settings, fills_title(shown), words.machine_line(drawn, roofs), notes)
    names = max(style.text_width(fill, 0.9 * font) for fill in drawn["fill"]) + font
    columns = [column for column in COLUMNS if (drawn[column.name] > 0).any()]
    gap, room = 0.8 * font, page.width - 2 * page.edge - names
    width = (room - (len(columns) - 1) * gap) / len(columns)
    height = sum(_height(group) for group in shown) * font
    drawing = page.make(height + 1.5 * font, 0.3 * font)
    colours = style.kernel_colours(group.rows["kernel"].iloc[0] for group in shown)
    for i, column in enumerate(columns):
        place = (page.edge + names + i * (width + gap), 0, width, height)
        axes = page.axes(*place, xlim=(0, 1), ylim=(height / font, 0), label=f"fills {column.name}")
        axes.set_axis_off()
        axes.set_title(column.title, loc="left", fontsize=font, pad=0.3 * font, weight="bold")
        _draw_bars(axes, column, shown, colours, named=i == 0)
    for _, row in drawn.iterrows():
        drawing.add_point(row, {column.name: row[column.name] for column in columns}, fill=row["fill"])
    return drawing


def _height(group: Group) -> float:
    return 1.5 * len(group.rows) + 2.2


def _draw_bars(axes: Axes, column: Column, groups: list[Group], colours: dict[str, str], named: bool) -> None:
    """One column of bars; ``named``: whether it carries the names of kernels and fills."""
    font, y = drawing_of(axes).settings.font_pt, 0.0
    look: dict[str, Any] = {"ha": "right", "va": "center_baseline", "fontsize": 0.9 * font, "label": "fill-label"}
    for group in groups:
        if named:
            axes.annotate(group.name, (0, y + 1.1), fontsize=0.9 * font, va="center", label="group-label")
        y += 1.8
        largest = group.rows[column.name].max()
        for i, (_, row) in enumerate(group.rows.iterrows()):
            middle = y + 0.75
            if named:
                axes.annotate(row["fill"], (0, middle), (-0.4 * font, 0), textcoords="offset points", **look)
            if row[column.name] > 0:
                _draw_bar(axes, column, row, middle, largest, colours[row["kernel"]], (0.45, 0.7, 1.0)[min(i, 2)])
            y += 1.5
        y += 0.4


def _draw_bar(
    axes: Axes, column: Column, row: Series[Any], middle: float, largest: float, colour: str, alpha: float
) -> None:
    drawing, gid, value = drawing_of(axes), f"{row['gid']}-{column.name}", row[column.name]
    axes.barh(middle, value / largest, 1.2, color=colour, alpha=alpha)[0].set_gid(gid)
    drawing.hover[gid] = hover(row)
    plate = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
    small = 0.85 * drawing.settings.font_pt
    text = engineering(value, column.unit)
    axes.text(0.02, middle, text, fontsize=small, va="center_baseline", bbox=plate, label="value")


def fills_title(groups: list[Group]) -> str:
    """How much energy and time the first group saves with its cheapest fill."""
    best = max(groups, key=_saving)
    rows = best.rows.sort_values("energy_per_launch_j", kind="stable")
    low, high = rows.iloc[0], rows.iloc[-1]
    saved = plain(100 * (1 - low["energy_per_launch_j"] / high["energy_per_launch_j"]), 2)
    slower = 100 * (1 - low["time_s"] / high["time_s"])
    time = f" and {plain(slower, 2)} % less time" if slower > 0.5 else ""
    return f"{best.name}: {low['fill']} take {saved} % less energy{time} than {high['fill']} values"


def _saving(group: Group) -> float:
    energies = group.rows["energy_per_launch_j"]
    return float(energies.max() / energies.min())
