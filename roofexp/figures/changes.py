"""A row for each compared point: how its time changed, the interval of that, and what counts as no change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofexp.compare.difference import Difference
from roofexp.figures import style
from roofexp.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    said: Sequence[str],
    width_pt: float,
    font_pt: float,
    table: Table,
    hover: dict[str, str],
) -> None:
    """The first row on top; ``said`` stands at the right of each. The axis is the logarithm of the ratio of times."""
    reach = _reach(rows)
    axes.set(xlim=(-reach, reach), ylim=(len(rows) - 0.4, -0.7))
    small = 0.85 * font_pt
    for place, row in enumerate(rows):
        _draw_row(axes, row, place, reach, font_pt)
        facts = {"verdict": row.verdict, "floor": row.floor, "p_value": row.p_value}
        ends = {"time_ratio": row.time_ratio, "time_ratio_low": row.low, "time_ratio_high": row.high}
        table.line("change", row.label, [ends], **facts)
        look: dict[str, Any] = {"va": "center", "fontsize": small, "clip_on": False}
        axes.text(-0.012, place, names[place], ha="right", transform=axes.get_yaxis_transform(), label="row", **look)
        axes.text(1.012, place, said[place], ha="left", transform=axes.get_yaxis_transform(), label="change", **look)
    axes.axvline(0, color=style.INK, linewidth=0.08 * font_pt, zorder=1.5)
    _ticks(axes, reach, width_pt, font_pt)
    axes.set(yticks=[], xlabel="Change of time from A to B (to the right: slower)")
    style.open_sides(axes)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x", zorder=0)
    axes.set_axisbelow(True)


def _draw_row(axes: Axes, row: Difference, place: int, reach: float, font_pt: float) -> None:
    look = next(look for kinds, look in CHANGE_LOOKS.items() if row.verdict in kinds)
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
