"""Marks of points and their key, numbered badges, and which points are named where not all can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import style
from roofexp.figures.canvas.frame import Row, hover, precisions, records
from roofexp.figures.canvas.geometry import Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from pandas import DataFrame

    from roofexp.figures.canvas.labels import LabelCanvas
    from roofexp.figures.canvas.page import Drawing

SAME_PLACE = 0.02  # decades: nearer points cannot be told apart


def worth_naming(drawn: DataFrame, most: int) -> list[Any]:
    """Index labels of at most ``most`` points, the most important first.

    Above a roof, then nearest to and farthest below it, then the largest size of each kernel and precision, then
    flagged ones, then the smallest sizes, then the rest.
    """
    placed = drawn[drawn["fraction"] > 0].sort_values("fraction", kind="stable")
    by_size = drawn.sort_values("size", kind="stable")
    series = ["kernel", "precision"]
    order = [
        *placed[placed["bound"] == "above a roof"].index[::-1],
        *placed.index[-1:],
        *placed.index[:1],
        *_shuffled_by_kernel(by_size.groupby(series, sort=False).tail(1)),
        *drawn[drawn["flags"] != ""].index,
        *_shuffled_by_kernel(by_size.groupby(series, sort=False).head(1)),
        *by_size.index[::-1],
    ]
    return _apart(drawn, list(dict.fromkeys(order)))[:most]


def _apart(drawn: DataFrame, order: list[Any]) -> list[Any]:
    """Without points that lie on one of their kernel that is named before: the names of both would say one thing."""
    taken: set[tuple[Any, ...]] = set()
    kept = []
    numbers = ("intensity_flop_per_byte", "flops_per_s", "bytes_per_s")
    columns = {name: drawn[name].to_dict() for name in ("kernel", "precision", *numbers)}
    for index in order:
        x, y, moved = (_step(columns[name][index]) for name in numbers)
        place = (columns["kernel"][index], columns["precision"][index], x, y if y is not None else moved)
        if place[-1] is None or place not in taken:
            kept.append(index)
        taken.add(place)
    return kept


def _shuffled_by_kernel(rows: DataFrame) -> list[Any]:
    """One of each kernel before the second of any."""
    return list(rows.groupby("kernel", sort=False).cumcount().sort_values(kind="stable").index)


def _step(number: float) -> int | None:
    return round(math.log10(number) / SAME_PLACE) if number > 0 else None


MOST_KERNELS = 24  # in the key; hover text names all
CROWD = 150  # points from which marks are drawn small and translucent


def size_pt(count: int, settings: FiguresConfig) -> float:
    """Diameter of a mark: smaller the more there are, and in narrow figures."""
    part = 0.85 if count <= 30 else 0.65 if count <= CROWD else 0.45
    return settings.font_pt * part * (1.0 if style.is_wide(settings) else 0.75)


def draw_mark(axes: Axes, x: float, y: float, row: Row, colour: str, size: float, crowded: bool) -> None:
    """One artist for each point, so that its group in the SVG can carry the hover text."""
    inside = colour if row["traffic_source"] == "counted" else "none" if crowded else "white"
    edge, alpha = (0.14 * size, 0.55) if crowded else (0.2 * size, 1.0)
    look = {"markerfacecolor": inside, "markeredgecolor": colour, "markeredgewidth": edge, "alpha": alpha}
    put(axes, x, y, style.marker(row["precision"]), markersize=size, gid=row["gid"], zorder=5, **look)
    if row["flags"]:
        ring = {"markerfacecolor": "none", "markeredgecolor": style.INK, "markeredgewidth": 0.11 * size}
        put(axes, x, y, "o", markersize=1.75 * size, gid=f"ring-{row['gid']}", zorder=4, **ring)


def put(axes: Axes, x: float, y: float, marker: str, **look: Any) -> None:
    """Cheaper than ``plot``, which would look at the limits again for each point."""
    from matplotlib.lines import Line2D

    mark = Line2D([x], [y], linestyle="none", marker=marker, **look)
    axes.add_artist(mark)
    mark.set_clip_on(False)


def add_hover(drawing: Drawing, frame: DataFrame) -> None:
    for row in records(frame):
        drawing.hover[row["gid"]] = hover(row)


def key(frame: DataFrame, colours: dict[str, str], size: float) -> list[Line2D]:
    """Handles for what differs between the points: nothing where one kernel in one precision says it in the title."""
    kernels = list(dict.fromkeys(frame["kernel"]))
    handles = []
    if len(kernels) > 1:
        handles = [handle(style.shortened(k, 28), "o", colours[k], size) for k in kernels[:MOST_KERNELS]]
        if len(kernels) > MOST_KERNELS:
            handles.append(handle(f"and {len(kernels) - MOST_KERNELS} more kernels", "", "none", size))
    names = precisions(frame)
    if len(names) > 1:
        handles += [handle(name, style.marker(name), style.FADED, size, filled=False) for name in names]
    if {"modelled", "counted"} <= set(frame["traffic_source"]):
        handles += [handle("counted", "o", style.FADED, size), handle("modelled", "o", style.FADED, size, False)]
    if frame["flags"].any() and handles:
        handles.append(handle("flagged", "o", style.INK, 1.5 * size, filled=False, thin=True))
    return handles


def handle(label: str, marker: str, colour: str, size: float, filled: bool = True, thin: bool = False) -> Line2D:
    from matplotlib.lines import Line2D

    face, edge = (colour if filled else "none"), size * (0.08 if thin else 0.2)
    look = {"markersize": size, "markerfacecolor": face, "markeredgecolor": colour, "markeredgewidth": edge}
    return Line2D([], [], label=label, linestyle="none", marker=marker, **look)  # type: ignore[arg-type]


SIZE = 1.35  # diameter over font size


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """The positions moved as little as needed so that neighbours are ``gap`` apart, in the order given.

    ``positions`` ascend. Groups that touch move together and stay centred on where they belong.
    """
    groups: list[list[float]] = []  # each a run of touching positions: where they belong
    for position in positions:
        groups.append([position])
        while len(groups) > 1 and _start(groups[-1], gap) < _start(groups[-2], gap) + gap * len(groups[-2]):
            last = groups.pop()
            groups[-1] += last
    return [_start(group, gap) + i * gap for group in groups for i in range(len(group))]


def within(positions: Sequence[float], gap: float, most: Sequence[float], least: Sequence[float]) -> list[float]:
    """The same positions pushed back below each one's most, then above its least, with the gaps kept."""
    pushed = list(positions)
    for i in reversed(range(len(pushed))):
        pushed[i] = min(pushed[i], most[i], pushed[i + 1] - gap if i + 1 < len(pushed) else most[i])
    for i in range(len(pushed)):
        pushed[i] = max(pushed[i], least[i], pushed[i - 1] + gap if i else least[i])
    return pushed


def _start(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def draw_badges(
    canvas: LabelCanvas,
    places: Sequence[tuple[float, float]],
    numbers: Sequence[int],
    along: tuple[float, float],
    away: tuple[float, float],
    filled: Sequence[bool],
) -> None:
    """``along``: the direction (of length 1, upward) in which badges may give way; ``away``: where they stand from the
    places, in font sizes. Filled badges are white on dark, the others dark on white."""
    axes, font_pt = canvas.axes, canvas.font
    pixels = canvas.pixels_per_pt * font_pt
    ends = axes.transData.transform(list(places))
    order = sorted(range(len(ends)), key=lambda i: float(ends[i] @ along))
    belongs = [float(ends[i] @ along) for i in order]
    gap, room = 1.08 * SIZE * pixels, axes.get_window_extent().padded(-0.5 * SIZE * pixels)
    at = [float(ends[i][1]) + away[1] * pixels for i in order]
    most = [s + (room.y1 - y) / along[1] for s, y in zip(belongs, at, strict=True)]
    least = [s + (room.y0 - y) / along[1] for s, y in zip(belongs, at, strict=True)]
    for i, moved, from_ in zip(order, within(spread(belongs, gap), gap, most, least), belongs, strict=True):
        x, y = (float(ends[i][k]) + (moved - from_) * along[k] + away[k] * pixels for k in (0, 1))
        middle = axes.transAxes.inverted().transform((x, y))
        tip = axes.transAxes.inverted().transform(ends[i])
        canvas.taken.append(Box(x, y, 0.55 * SIZE * pixels, 0.55 * SIZE * pixels))
        line: dict[str, Any] = {"color": style.FADED, "linewidth": 0.07 * font_pt, "zorder": 5.5}
        axes.plot([tip[0], middle[0]], [tip[1], middle[1]], transform=axes.transAxes, clip_on=False, **line)
        _badge(axes, (float(middle[0]), float(middle[1])), str(numbers[i]), font_pt, filled[i])


def _badge(axes: Axes, middle: tuple[float, float], text: str, font_pt: float, filled: bool) -> None:
    look: dict[str, Any] = {"markersize": SIZE * font_pt, "markeredgecolor": style.INK, "transform": axes.transAxes}
    look |= {"markerfacecolor": style.INK if filled else "white", "markeredgewidth": 0.09 * font_pt, "clip_on": False}
    axes.plot([middle[0]], [middle[1]], "o", zorder=7, **look)
    colour = "white" if filled else style.INK
    small: dict[str, Any] = {"fontsize": 0.8 * font_pt, "color": colour, "weight": "bold", "label": "badge"}
    axes.text(*middle, text, transform=axes.transAxes, ha="center", va="center_baseline", zorder=8, **small)
