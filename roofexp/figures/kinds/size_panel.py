"""One panel of a size sweep: the rates of a kernel in one precision under their bounds, and where latency binds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from roofexp.config.schema import FiguresConfig
from roofexp.figures.canvas import limits, marks, style
from roofexp.figures.canvas.frame import OTHERS, lowest, records
from roofexp.figures.canvas.geometry import Segment
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.page import drawing_of
from roofexp.figures.kinds.crossover import BOUNDS, Crossover, Region, crossing_size, crossover, regions
from roofexp.records.machine import RoofSet
from roofexp.text.numbers import engineering, percent, size_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Vertices: TypeAlias = "list[tuple[float, float]]"


def about(size: float | None) -> str:
    return f"size {rounded(size)}" if size is not None else ""


def rounded(size: float) -> str:
    """A size between those measured, to two digits."""
    return size_name(float(f"{size:.1e}"))


def fitted(size: float) -> str:
    """A size from a fit: three digits."""
    return size_name(float(f"{size:.2e}"))


def interval(fit: Crossover) -> str:
    """``95 %: 690 – 750``, with enough digits to tell the ends apart."""
    low, high = fitted(fit.low), fitted(fit.high)
    return f"95 %: {low} – {high}" if low != high else f"95 %: {low}"


def launch_words(roofs: RoofSet | None) -> list[str]:
    """What stands on the line of the launch floor; nothing where it was not measured."""
    launch = roofs.launch() if roofs else None
    return [f"launch floor {engineering(launch.rate, 's')}", "launch floor"] if launch else []


class Series(NamedTuple):
    """Points that differ in size alone, ascending; ``name`` says what sets them apart in their panel."""

    name: str
    rows: DataFrame


def series_of(rows: DataFrame) -> list[Series]:
    varying = [name for name in OTHERS if rows[name].nunique() > 1]
    if not varying:
        return [Series("", rows.sort_values("size", kind="stable"))]
    return [
        Series(" ".join(str(word) for word in key if word), group.sort_values("size", kind="stable"))
        for key, group in rows.groupby(varying, sort=False)
    ]


def path_of(rows: DataFrame, name: str) -> Vertices:
    rows = rows[rows[name] > 0]
    return list(zip(rows["size"].tolist(), rows[name].tolist(), strict=True))


DASHES: dict[str, Any] = {"launch_per_s": (0, (1, 1.6)), "bandwidth_per_s": (0, (5, 2)), "compute_per_s": "-"}
FAR = 300.0  # times the roofs: a bound further up is left out
SHADE = "#ececec"
SLOW = 0.97  # of the highest clock of the panel: what held less is marked


class Panel:
    """``rows``: the points of one kernel and precision with their bounds (see crossover.with_bounds)."""

    def __init__(self, name: str, rows: DataFrame, roofs: RoofSet | None, latency_share: float) -> None:
        self.name, self.rows, self.roofs, self.latency_share = name, rows, roofs, latency_share
        self.unit = "FLOP/s" if (rows["flops_per_s"] > 0).any() else "B/s"
        self.series = series_of(rows)
        self.best = max(self.series, key=lambda series: series.rows["rate_per_s"].iloc[-1])
        best = self.best.rows
        self.crossing = crossing_size(best["size"].tolist(), best["share"].tolist(), latency_share)
        floors = (best["launch_per_s"] / best["roof_per_s"]).tolist()
        self.launch_meets_roof = crossing_size(best["size"].tolist(), floors, 1.0)
        self.fit = crossover(best)
        self.scale = 0.8  # of marks
        self.slow = self._slow()

    def _slow(self) -> DataFrame:
        """Points that held a clock well below the highest of their panel: there the power limit bends the curve."""
        clocks = self.rows["compute_hz"]
        slow: DataFrame = self.rows[(clocks > 0) & (clocks < SLOW * clocks.max())]
        return slow

    @property
    def kernel(self) -> str:
        return str(self.rows["kernel"].iloc[0])

    @property
    def precision(self) -> str:
        return str(self.rows["precision"].iloc[0])

    @property
    def latency_end(self) -> float | None:
        """The size at which latency stops to bind: by the fit, or else by the share of the roofs; past the figure
        where that is at none, None where it binds nowhere."""
        if self.fit:
            return self.fit.size
        if self.crossing is not None:
            return self.crossing
        return float("inf") if self.always_below else self.launch_meets_roof

    @property
    def always_below(self) -> bool:
        """Whether no size reaches the share."""
        return bool((self.best.rows["share"] < self.latency_share).all())

    @property
    def verdict(self) -> str:
        """For the panel's heading: where small sizes are latency-bound."""
        share = percent(self.latency_share)
        if self.best.rows["share"].isna().all():
            return ""
        if self.fit:
            return f"latency-bound below size {fitted(self.fit.size)} ({interval(self.fit)})"
        if self.crossing is not None:
            return f"latency-bound below {about(self.crossing)}"
        if self.always_below:
            return f"below {share} of its roof at every size"
        return "latency-bound at no size measured"

    def draw(self, axes: Axes, settings: FiguresConfig, colour: str, most_labels: int) -> None:
        """Draws into axes of final size."""
        self._set_limits(axes, settings.font_pt)
        bounds = self._draw_bounds(axes, settings.font_pt)
        places = self._draw_points(axes, settings, colour)
        canvas = LabelCanvas(axes, places, self.mark_pt(settings), plates=False)
        for series in self.series:
            path = path_of(series.rows, "rate_per_s")
            canvas.lines += [(piece, 2.0) for piece in canvas.pieces(path[:: max(1, len(path) // 50)])]
        pieces = {name: canvas.pieces(bounds[name]) for name in BOUNDS}
        canvas.lines += [(piece, 1.0) for of_bound in pieces.values() for piece in of_bound]
        self._draw_region(canvas)
        self._write_bounds(canvas, pieces)
        self._write_points(canvas, most_labels)

    def mark_pt(self, settings: FiguresConfig) -> float:
        return self.scale * marks.size_pt(len(self.rows), settings)

    def _set_limits(self, axes: Axes, font_pt: float) -> None:
        """From positive values only: all measured rates, the roofs over them, and the low ends of the other bounds,
        with room for their words; the rest of such a bound may leave the top."""
        sizes = limits.decades_of(self.rows["size"], 0, 0)
        tops = [*self.rows["rate_per_s"], *self.rows["rate_high_per_s"], *self.rows["roof_per_s"]]
        assert sizes
        margin = max(0.06 * sizes.extent, 0.02)
        ends = [*(4 * bound for bound in self._bounds_near()), *self.rows["rate_low_per_s"]]
        y = limits.decades_of([*tops, *ends], 0.3, 0.3)
        assert y
        y = limits.at_least(y, 1.0)
        axes.set(xscale="log", yscale="log", ylim=y.values(), ylabel=self.unit)
        width, height = limits.flat_size(axes)
        names = max(style.text_width(series.name, 0.9 * font_pt) for series in self.series)
        right = max(margin, (names + 1.5 * font_pt) / width * (sizes.extent + margin))
        axes.set_xlim(10 ** (sizes.low - margin), 10 ** (sizes.high + min(right, 0.4 * sizes.extent + margin)))
        limits.tick_sizes(axes.xaxis, self.rows["size"].unique().tolist(), width, font_pt)
        limits.tick_decades(axes.yaxis, y, height / y.extent, font_pt, upright=True)
        limits.grid(axes)

    def _bounds_near(self) -> list[float]:
        """The least of each bound, unless it is so far above the roofs that it would flatten everything else."""
        least = [self.rows[name].min() for name in BOUNDS]
        return [value for value in least if 0 < value <= FAR * self.rows["roof_per_s"].max()]

    @property
    def out_of_sight(self) -> list[str]:
        """Bounds that lie above the panel at every size."""
        top = FAR * self.rows["roof_per_s"].max()
        return [name.split("_")[0] for name in BOUNDS if self.rows[name].min() > top]

    def _draw_region(self, canvas: LabelCanvas) -> None:
        """Shades where small sizes are latency-bound, names what binds after, and the sizes between."""
        axes, end = canvas.axes, self.latency_end
        low, high = axes.get_xlim()
        for region in regions(self.best.rows, end):
            self._name_region(canvas, region)
        if end is None:
            return
        axes.axvspan(low, min(end, high), color=SHADE, linewidth=0, zorder=0, label="latency-bound")
        if self.fit:
            axes.axvspan(self.fit.low, self.fit.high, color=style.INK, alpha=0.12, linewidth=0, zorder=1)
        if end < high:
            self._draw_end(canvas, end)

    def _draw_end(self, canvas: LabelCanvas, end: float) -> None:
        axes = canvas.axes
        axes.axvline(end, color=style.INK, linewidth=0.1 * canvas.font, linestyle=(0, (4, 2)), zorder=1.9)
        upright = canvas.segment((end, end), axes.get_ylim())
        canvas.lines.append((upright, 1.0))
        words = self._end_words(end)
        canvas.write_along(upright, [*words, about(end)], 0.0, "crossover-label", style.INK)
        facts: dict[str, Any] = {"panel": self.name, "share": self.latency_share if end == self.crossing else None}
        if self.fit:
            facts |= {"size_low": self.fit.low, "size_high": self.fit.high, "fitted_floor_s": self.fit.floor_s}
            facts |= {"fitted_slowdown": self.fit.slowdown, "fit_scatter": self.fit.scatter}
        canvas.drawing.add_line("crossover", words[0], [{"size": end}], **facts)

    def _end_words(self, end: float) -> list[str]:
        if self.fit:
            short = f"half floor: {fitted(end)}"
            return [f"half of the time is the floor at size {fitted(end)} ({interval(self.fit)})", short]
        if end == self.crossing:
            return [f"{percent(self.latency_share)} of its roof from {about(end)}"]
        return [f"launch floor meets roof at {about(end)}"]

    def _name_region(self, canvas: LabelCanvas, region: Region) -> None:
        """Its name at the top, in the middle of what is in sight of it, where it has room."""
        low, high = canvas.axes.get_xlim()
        start, end = max(region.start or low, low), min(region.end or high, high)
        level = canvas.axes.get_ylim()[1] ** 0.985 * canvas.axes.get_ylim()[0] ** 0.015
        if start < end:
            across = canvas.segment((start, end), (level, level))
            canvas.write_along(across, [region.binds], 0.5, "region-label", weight="bold")

    def _draw_bounds(self, axes: Axes, font_pt: float) -> dict[str, Vertices]:
        """The bounds at every size measured, joined; the roof over the points is the thick one."""
        rows = self.best.rows
        paths = {name: path_of(rows, name) for name in (*BOUNDS, "roof_per_s")}
        for name, path in paths.items():
            if len(path) < 2:
                continue
            x, y = zip(*path, strict=True)
            if name == "roof_per_s":
                axes.plot(x, y, color=style.ROOF, linewidth=0.2 * font_pt, zorder=2, solid_joinstyle="round")
            else:
                look = {"linestyle": DASHES[name], "linewidth": 0.11 * font_pt}
                axes.plot(x, y, color=style.CEILING, zorder=1.8, label=name, **look)
            vertices = [{"size": size, name: rate} for size, rate in path]
            drawing_of(axes).add_line("bound", name, vertices, panel=self.name)
        return paths

    def _draw_points(self, axes: Axes, settings: FiguresConfig, colour: str) -> Vertices:
        crowded, size = len(self.rows) > marks.CROWD, self.mark_pt(settings)
        names = ("rate_per_s", "rate_low_per_s", "rate_high_per_s", *BOUNDS, "roof_per_s", "share")
        columns = (*names, "time_s", "time_p5_s", "time_p95_s", "compute_hz")
        places: Vertices = []
        for series in self.series:
            rows = series.rows
            axes.plot(rows["size"], rows["rate_per_s"], color=colour, linewidth=0.1 * settings.font_pt, zorder=3)
            bars = rows[(rows["rate_low_per_s"] > 0) & (rows["rate_high_per_s"] > 0)]
            ends = (bars["size"], bars["rate_low_per_s"], bars["rate_high_per_s"])
            axes.vlines(*ends, color=colour, linewidth=0.14 * settings.font_pt, zorder=3.2, alpha=0.7)
            for row in records(rows):
                marks.draw_mark(axes, row["size"], row["rate_per_s"], row, colour, size, crowded)
                drawing_of(axes).add_point(row, {name: row[name] for name in columns}, panel=self.name)
                places.append((row["size"], row["rate_per_s"]))
        if len(self.slow):
            look: dict[str, Any] = {"color": style.INK, "zorder": 5.5, "label": "slow", "linestyle": "none"}
            lower = 1 / _lift(axes, 0.5 * self.mark_pt(settings) + 0.6 * settings.font_pt)
            size = 0.45 * settings.font_pt
            x, y = self.slow["size"], self.slow["rate_per_s"] * lower
            axes.plot(x, y, "v", markersize=size, **look)
            places += list(zip(x, y, strict=True))
        return places

    def _write_bounds(self, canvas: LabelCanvas, pieces: dict[str, list[Segment]]) -> None:
        """The words stand on the longest straight part of each bound; where none has room the footnote must do."""
        words = {
            "compute_per_s": ["compute roof"],
            "bandwidth_per_s": ["bandwidth × intensity", "bandwidth"] if self.unit == "FLOP/s" else ["bandwidth"],
            "launch_per_s": launch_words(self.roofs),
        }
        for name, texts in words.items():
            canvas.write_on_longest(pieces[name], texts, 1.0 if name == "compute_per_s" else 0.0, "bound-label")

    def _write_points(self, canvas: LabelCanvas, most: int) -> None:
        """Each series by its name at its largest size, then the shares of as many points as there is room for."""
        names: list[tuple[float, float, list[str]]] = []
        for series in self.series:
            last = series.rows.iloc[-1]
            if len(self.series) > 1:
                names.append((last["size"], last["rate_per_s"], [style.shortened(series.name, 28)]))
        rows = self.best.rows[self.best.rows["share"] > 0]
        between = [rows.index[round(i * (len(rows) - 1) / most)] for i in range(1, most)] if len(rows) else []
        order = dict.fromkeys([*rows.index[-1:], *rows.index[:1], *between])
        slowest = lowest(self.slow, "compute_hz").name if len(self.slow) else None
        for index in order if len(self.series) == 1 else []:
            row, share = rows.loc[index], percent(rows["share"][index])
            clock = f"{share} at {engineering(row['compute_hz'], 'Hz')}"
            names.append((row["size"], row["rate_per_s"], [clock, share] if index == slowest else [share]))
        canvas.write_beside(names[:most])


def _lift(axes: Axes, points: float) -> float:
    """The factor that lifts a mark by so many points on a log axis."""
    low, high = axes.get_ylim()
    return float((high / low) ** (points / limits.flat_size(axes)[1]))
