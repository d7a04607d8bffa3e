"""Time against size below the rates: the launch floor, what the roofs allow, and the fit that gives the crossover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofexp.figures import limits, marks, style
from roofexp.figures.bounds import BOUNDS
from roofexp.figures.labels import Ground
from roofexp.figures.panel import DASHES, SHADE, Panel
from roofexp.figures.series import pieces_of
from roofexp.figures.table import Table
from roofexp.schema import FiguresConfig
from roofexp.units import engineering, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

FAR = 20.0  # times below the shortest time: a bound further down is left out
STEPS = 60  # of the fitted curve


def draw_times(axes: Axes, above: Axes, panel: Panel, settings: FiguresConfig, colour: str, table: Table) -> None:
    """``axes`` of final size below the panel of rates ``above``, whose sizes they share."""
    font, best = settings.font_pt, panel.best.rows
    ends = limits.decades_of([*panel.rows["time_s"], *panel.rows["time_p5_s"], *panel.rows["time_p95_s"]], 0.25, 0.25)
    assert ends
    ends = limits.at_least(ends, 1.0)
    axes.set(xscale="log", yscale="log", xlim=above.get_xlim(), ylim=ends.values(), ylabel="s")
    box, points = axes.get_window_extent(), 72 / axes.figure.dpi
    limits.tick_sizes(axes.xaxis, panel.rows["size"].unique().tolist(), box.width * points, font)
    limits.tick_decades(axes.yaxis, ends, box.height * points / ends.extent, font, upright=True)
    limits.grid(axes)
    if panel.latency_end is not None:
        low, high = axes.get_xlim()
        axes.axvspan(low, min(panel.latency_end, high), color=SHADE, linewidth=0, zorder=0)
    work = best["rate_per_s"] * best["time_s"]
    _draw_bounds(axes, best, work, font)
    places = _draw_points(axes, panel, settings, colour)
    ground = Ground(axes, places, 0.6 * font, spread=False, plates=False)
    if panel.fit:
        _draw_fit(ground, panel, work, font, table)
    _name_floor(ground, panel, font)


def _draw_bounds(axes: Axes, best: DataFrame, work: Any, font: float) -> None:
    for name in (*BOUNDS, "roof_per_s"):
        known = best[best[name] > 0]
        if len(known) < 2:
            continue
        heavy = name == "roof_per_s"
        look: dict[str, Any] = {"color": style.ROOF if heavy else style.CEILING, "zorder": 2 if heavy else 1.8}
        look |= {"linewidth": (0.2 if heavy else 0.11) * font, "linestyle": "-" if heavy else DASHES[name]}
        axes.plot(known["size"], work[known.index] / known[name], **look)


def _draw_points(axes: Axes, panel: Panel, settings: FiguresConfig, colour: str) -> list[tuple[float, float]]:
    crowded, size = len(panel.rows) > marks.CROWD, 0.8 * panel.mark_pt(settings)
    for series in panel.series:
        rows = series.rows
        axes.plot(rows["size"], rows["time_s"], color=colour, linewidth=0.1 * settings.font_pt, zorder=3)
        bars = rows[(rows["time_p5_s"] > 0) & (rows["time_p95_s"] > 0)]
        look: dict[str, Any] = {"color": colour, "linewidth": 0.14 * settings.font_pt, "zorder": 3.2, "alpha": 0.7}
        axes.vlines(bars["size"], bars["time_p5_s"], bars["time_p95_s"], **look)
        look = {"markerfacecolor": "none" if crowded else colour, "markeredgecolor": colour, "markersize": 0.8 * size}
        for precision, each in rows.groupby("precision", sort=False):  # one artist: hover text is on the rates
            marker = style.marker(str(precision))
            axes.plot(each["size"], each["time_s"], linestyle="none", marker=marker, zorder=4, **look)
    return list(zip(panel.rows["size"], panel.rows["time_s"], strict=True))


def _draw_fit(ground: Ground, panel: Panel, work: Any, font: float, table: Table) -> None:
    """floor + slowdown x the time that the roofs allow, at the sizes measured."""
    fit, best = panel.fit, panel.best.rows
    assert fit
    known = best[best["roof_per_s"] > 0]
    path = [
        (n, fit.time_s(bound)) for n, bound in zip(known["size"], work[known.index] / known["roof_per_s"], strict=True)
    ]
    x, y = zip(*path, strict=True)
    ground.axes.plot(x, y, color=style.INK, linewidth=0.1 * font, linestyle=(0, (6, 2, 1, 2)), zorder=3.6)
    table.line("fit", "floor + slowdown x roofs", [{"size": a, "fitted_s": b} for a, b in path], panel=panel.name)
    ground.lines += [(piece, 1.0) for piece in pieces_of(ground, path)]
    short = f"fit: {engineering(fit.floor_s, 's')} + {plain(fit.slowdown)} × roofs"
    words = f"{short.removesuffix('roofs')}the time that the roofs allow"
    room = 0.6 * ground.axes.get_window_extent().width / ground.pixels_per_pt
    words = words if style.text_width(words, 0.85 * font) < room else short
    look: dict[str, Any] = {"fontsize": 0.85 * font, "color": style.INK, "label": "fit-label", "zorder": 3.8}
    axes = ground.axes  # the upper left is free: small sizes take little time
    ground.take(axes.text(0.02, 0.95, words, transform=axes.transAxes, va="top", **look))


def _name_floor(ground: Ground, panel: Panel, font: float) -> None:
    launch = panel.roofs.launch() if panel.roofs else None
    if launch is None or not ground.axes.get_ylim()[0] < launch.rate < ground.axes.get_ylim()[1]:
        return
    level = ground.segment(ground.axes.get_xlim(), (launch.rate, launch.rate))
    look = {"fontsize": 0.85 * font, "color": style.FADED, "label": "bound-label", "zorder": 3.4}
    ground.write_along(level, [f"launch floor {engineering(launch.rate, 's')}", "launch floor"], 1.0, **look)
