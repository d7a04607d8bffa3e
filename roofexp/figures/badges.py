"""Numbers in small circles beside the places that they stand for, kept apart from each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofexp.figures import style
from roofexp.figures.boxes import Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from roofexp.figures.labels import Ground

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
    found = list(positions)
    for i in reversed(range(len(found))):
        found[i] = min(found[i], most[i], found[i + 1] - gap if i + 1 < len(found) else most[i])
    for i in range(len(found)):
        found[i] = max(found[i], least[i], found[i - 1] + gap if i else least[i])
    return found


def _start(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def draw_badges(
    ground: Ground,
    places: Sequence[tuple[float, float]],
    numbers: Sequence[int],
    font_pt: float,
    along: tuple[float, float],
    away: tuple[float, float],
    filled: Sequence[bool],
) -> None:
    """``along``: the direction (of length 1, upward) in which badges may give way; ``away``: where they stand from the
    places, in font sizes. Filled badges are white on dark, the others dark on white."""
    axes = ground.axes
    pixels = axes.figure.dpi / 72 * font_pt
    ends = axes.transData.transform(list(places))
    order = sorted(range(len(ends)), key=lambda i: float(ends[i] @ along))
    wanted = [float(ends[i] @ along) for i in order]
    gap, room = 1.08 * SIZE * pixels, axes.get_window_extent().padded(-0.5 * SIZE * pixels)
    at = [float(ends[i][1]) + away[1] * pixels for i in order]
    most = [s + (room.y1 - y) / along[1] for s, y in zip(wanted, at, strict=True)]
    least = [s + (room.y0 - y) / along[1] for s, y in zip(wanted, at, strict=True)]
    for i, moved, from_ in zip(order, within(spread(wanted, gap), gap, most, least), wanted, strict=True):
        x, y = (float(ends[i][k]) + (moved - from_) * along[k] + away[k] * pixels for k in (0, 1))
        middle = axes.transAxes.inverted().transform((x, y))
        tip = axes.transAxes.inverted().transform(ends[i])
        ground.taken.append(Box(x, y, 0.55 * SIZE * pixels, 0.55 * SIZE * pixels))
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
