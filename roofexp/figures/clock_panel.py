"""The clock that the SMs held, by their cycle counters, beside what NVML said of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.figures import limits, style
from roofexp.figures.labels import Ground
from roofexp.figures.plane_axes import finish
from roofexp.figures.ridges import Crossing
from roofexp.figures.table import Table
from roofexp.units import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MOST = 4  # kernels


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
    return Abscissa("intensity_flop_per_byte", "Arithmetic intensity (FLOP/B)", [])


def worth_drawing(rows: DataFrame) -> bool:
    """Whether any clock was read in two ways, or clocks were asked for."""
    known = rows[rows["compute_hz"] > 0]
    return len(known) > 1 and bool((known["nvml_sm_hz"] > 0).any() or known["held_by"].nunique() > 1)


HEADINGS = ("Clock by the SMs' cycle counters (full), by NVML (hollow)", "Clock (full), NVML's (hollow)", "Clocks")


def head(axes: Axes, width_pt: float, font: float) -> None:
    """The longest heading that has room."""
    size = 0.95 * font
    fitting = (text for text in HEADINGS if style.text_width(text, size, bold=True) < width_pt)
    axes.set_title(next(fitting, HEADINGS[-1]), loc="left", fontsize=size, weight="bold", pad=0.5 * font)


def draw_clock_panel(
    axes: Axes, kernels: Sequence[Crossing], rows: DataFrame, colours: dict[str, str], font: float, table: Table
) -> None:
    """Full marks and lines: the cycle counter; hollow marks and broken lines: NVML. GHz up."""
    what = abscissa(rows)
    if what.names:
        axes.set_xticks(range(len(what.names)), [style.shortened(name, 14) for name in what.names])
        axes.set_xlim(-0.5, len(what.names) - 0.5)
    ends: list[tuple[float, float, list[str]]] = []
    places: list[tuple[float, float]] = []
    lines: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for each, name in _different(kernels, what):
        for column, told in (("compute_hz", name), ("nvml_sm_hz", "NVML")):
            path = _path(each.rows, what, column)
            if not path:
                continue
            x, y = zip(*path, strict=True)
            true = column == "compute_hz"
            colour, width = colours[each.kernel], 0.12 * font
            face = colour if true else "white"
            dashes = "-" if true else (0, (3, 1.5))
            axes.plot(x, y, color=colour, linewidth=width, linestyle=dashes, zorder=3 if true else 2.8)
            look: dict[str, Any] = {"markersize": 0.5 * font, "markerfacecolor": face, "markeredgecolor": colour}
            axes.plot(x, y, "o", linestyle="none", markeredgewidth=width, zorder=4 if true else 3.8, **look)
            ends.append((*path[len(path) // 2 if true else 0], [told]))
            places += path
            lines += itertools.pairwise(path)
            vertices = [{_unit(what): a, ("sm_hz" if true else "nvml_hz"): b * 1e9} for a, b in path]
            table.line("clock", f"{each.name} {each.precision}", vertices, source="cycle counter" if true else "NVML")
    if what.column == "intensity_flop_per_byte":
        _set_log(axes, rows, font)
    width = axes.get_window_extent().width * 72 / axes.figure.dpi
    axes.set_xlabel(what.label if style.text_width(what.label, font) < width else what.label.split(" (")[0])
    finish(axes)
    ground = Ground(axes, places, 0.5 * font, spread=False)
    ground.lines += [(ground.segment((a[0], b[0]), (a[1], b[1])), 2.0) for a, b in lines]
    once = {text[0]: (x, y, text) for x, y, text in reversed(ends)}
    ground.write_beside(list(once.values()), fontsize=0.8 * font, label="clock-label", zorder=6)


def _different(kernels: Sequence[Crossing], what: Abscissa) -> list[tuple[Crossing, str]]:
    """Kernels whose clocks differ, each with its name: others that held the same clocks would lie on it."""
    kept: list[tuple[Crossing, dict[float, float]]] = []
    names: list[str] = []
    for each in kernels:
        path = dict(_path(each.rows, what, "compute_hz"))
        alike = [i for i, (_, old) in enumerate(kept) if _alike(path, old)]
        for i in alike:
            names[i] = each.kernel if kept[i][0].kernel == each.kernel else names[i]
        if path and not alike:
            kept.append((each, path))
            names.append(each.name)
        if len(kept) == MOST:
            break
    return [(each, name) for (each, _), name in zip(kept, names, strict=True)]


def _alike(path: dict[float, float], other: dict[float, float]) -> bool:
    return path.keys() <= other.keys() and all(abs(other[x] / hz - 1) < 0.01 for x, hz in path.items())


def _unit(what: Abscissa) -> str:
    return {"duty": "duty", "held_by": "asked_place"}.get(what.column, what.column)


def _set_log(axes: Axes, rows: DataFrame, font: float) -> None:
    x = limits.decades_of(rows["intensity_flop_per_byte"], 0.2, 0.2)
    if x:
        axes.set_xscale("log")
        axes.set_xlim(x.values())
        width = axes.get_window_extent().width * 72 / axes.figure.dpi
        limits.tick_decades(axes.xaxis, x, width / x.extent, font, upright=False)


def _path(rows: DataFrame, what: Abscissa, column: str) -> list[tuple[float, float]]:
    """The median clock (GHz) at each place."""
    known = rows[rows[column] > 0]
    medians = known.groupby(what.column, sort=True)[column].median()
    place = {name: float(i) for i, name in enumerate(what.names)}
    path = [(place[str(key)] if what.names else float(str(key)), float(hz) * 1e-9) for key, hz in medians.items()]
    return sorted(path)


def words(rows: DataFrame) -> str:
    """By how much the two disagree at most: "" where NVML was not asked."""
    known = rows[(rows["nvml_sm_hz"] > 0) & (rows["compute_hz"] > 0)]
    if known.empty:
        return ""
    most = float((known["nvml_sm_hz"] / known["compute_hz"] - 1).max())
    return f"NVML's clock is up to {plain(100 * most, 2)} % above the SMs' own cycle counters" if most > 0.02 else ""
