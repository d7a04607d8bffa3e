"""The hierarchical roofline: each point at every memory level that its bytes were counted at, under all roofs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.paths import conf_folder
from roofexp.config.schema import FiguresConfig
from roofexp.config.yaml_file import read_mapping
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import Labels, highest, hover, precisions, prepared, with_flops
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import Decades, Plane, equal_plane
from roofexp.figures.canvas.marks import worth_naming
from roofexp.figures.canvas.page import BELOW, Page, drawing_of
from roofexp.figures.canvas.roof_lines import RoofLines, draw_roofs, first_knees, roof_lines, write_roofs
from roofexp.records.machine import COUNTED_LEVELS, RoofSet
from roofexp.text.numbers import percent, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from pandas import DataFrame, Series

    from roofexp.figures.canvas.page import Drawing


class AtLevel(NamedTuple):
    """Useful FLOP per byte counted at the level; ``share`` of its bandwidth roof at the clock held (None: no roof)."""

    level: str
    intensity: float
    share: float | None


def at_levels(row: Series[Any], roofs: RoofSet | None) -> list[AtLevel]:
    """The levels with counted bytes, farthest first."""
    levels = []
    for level in COUNTED_LEVELS:
        intensity = row[f"intensity_{level}_flop_per_byte"]
        if not intensity > 0:
            continue
        roof = roofs.bandwidth(level) if roofs else None
        hz = row["compute_hz"] if row["compute_hz"] > 0 else None
        share = rate_at_clock(row) / intensity / roof.at(hz) if roof else None
        levels.append(AtLevel(level, float(intensity), share))
    return levels


def compute_share(row: Series[Any], roofs: RoofSet | None) -> float | None:
    """The share of its precision's compute roof at the clock held; None without that roof."""
    roof = roofs.compute(str(row["precision"])) if roofs else None
    if roof is None or not row["flops_per_s"] > 0:
        return None
    return rate_at_clock(row) / roof.at(row["compute_hz"] if row["compute_hz"] > 0 else None)


def rate_at_clock(row: Series[Any]) -> float:
    """FLOP/s at the mean time where the clock is the mean too, as a GPU's is; tables of before have no mean time."""
    paired = row["device"] == "cuda" and row["time_mean_s"] > 0
    return float(row["flops"] / row["time_mean_s"] if paired else row["flops_per_s"])


def on_several_levels(frame: DataFrame) -> DataFrame:
    """The points whose bytes were counted at two levels or more."""
    columns = [f"intensity_{level}_flop_per_byte" for level in COUNTED_LEVELS]
    return frame[(frame[columns] > 0).sum(axis=1) >= 2]


def nearest(row: Series[Any], roofs: RoofSet | None) -> AtLevel | None:
    """The level whose roof the point comes nearest to."""
    with_roof = [level for level in at_levels(row, roofs) if level.share is not None]
    return max(with_roof, key=lambda level: level.share or 0.0, default=None)


TILE = "param.tile"


class TileMarks(NamedTuple):
    """Intensities (FLOP/B) by tile edge. ``formula`` is for instance ``T/6``."""

    formula: str
    what: str
    intensities: dict[int, float]


def tile_marks(frame: DataFrame) -> list[TileMarks]:
    """For the points with a parameter ``tile``: 2 n^3 FLOP over the elements that cross the level next to the tiles.

    Each of the (n/T)^3 products of tiles touches three tiles of T^2 elements, so 3 n^3 / T elements; counting what is
    read alone, 2 n^3 / T. Empty where there is no such point or the precisions differ in width.
    """
    if TILE not in frame:
        return []
    rows = frame[(frame[TILE].notna()) & (frame["flops"] > 0)]
    widths = {width for width in map(_itemsize, rows["precision"].unique()) if width}
    if len(widths) != 1:
        return []
    width, edges = widths.pop(), sorted({int(edge) for edge in rows[TILE]})
    parts = [(1.5 * width, "three tiles touched"), (1.0 * width, "two tiles read")]
    return [TileMarks(f"T/{divisor:g}", what, {edge: edge / divisor for edge in edges}) for divisor, what in parts]


def _itemsize(precision: str) -> int | None:
    file = conf_folder() / "precision" / f"{precision}.yaml"
    return int(read_mapping(file)["itemsize"]) if file.is_file() else None


SHAPES = {"dram": "o", "l2": "s", "l1": "^", "shared": "D"}
NAMES = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "shared memory"}
MOST_COLOURS = 9  # where more points have names of their own, colour is the kernel
ALIKE = 0.9  # shares of two roofs nearer to each other than this are both named
MOST_POINTS = 40  # each of them is a line with up to four marks


def draw_hierarchy(points: DataFrame, roofs: RoofSet | None, settings: FiguresConfig) -> Drawing | None:
    """The points of one machine and clock mode whose bytes were counted at several levels; None where none were.

    ``points``: the columns of points.csv. In a crowd the points that a reader would ask about first are drawn, and
    the footnote says how many are not.
    """
    counted = on_several_levels(with_flops(prepared(points)))
    if counted.empty:
        return None
    with style.themed(settings):
        return _Hierarchy(counted, roofs, settings).draw()


class _Hierarchy:
    def __init__(self, counted: DataFrame, roofs: RoofSet | None, settings: FiguresConfig) -> None:
        self.settings, self.font, self.roofs = settings, settings.font_pt, roofs
        order = worth_naming(counted, MOST_POINTS)
        self.rows, self.left_out = counted.loc[[i for i in counted.index if i in set(order)]], len(counted)
        self.left_out -= len(self.rows)
        self.labels = Labels(self.rows)
        self.names = {i: " ".join(self.labels.words(row)) for i, row in self.rows.iterrows()}
        named = len(set(self.names.values())) <= MOST_COLOURS
        self.colour_of = self.names if named else {i: str(kernel) for i, kernel in self.rows["kernel"].items()}
        self.colours = style.kernel_colours(self.colour_of.values())
        lines = roof_lines(roofs, self.rows, precisions(self.rows))
        bandwidth, compute = ([line for line in part if not line.ceiling] for part in (lines.bandwidth, lines.compute))
        self.lines = RoofLines(bandwidth, compute)
        self.tiles = tile_marks(self.rows)
        self.mark_pt = 0.8 * marks.size_pt(3 * len(self.rows), settings)

    def draw(self) -> Drawing:
        page = self._page()
        plane = self._plane(page)
        drawing = page.make(plane.height, BELOW * self.font)
        axes = equal_plane(page, page.left, 0, plane, xlabel="Arithmetic intensity at the level (FLOP/B)")
        draw_roofs(axes, self.lines, plane)
        paths = self._draw_points(axes)
        canvas = LabelCanvas(axes, [place for path in paths for place in path], self.mark_pt)
        for path in paths:
            canvas.avoid((min(path), max(path)), 2.0)
        self._draw_tiles(canvas)
        write_roofs(canvas, self.lines, plane)
        self._name(canvas)
        return drawing

    def _page(self) -> Page:
        total = len(self.rows) + self.left_out
        notes = [
            "Each point stands once for every level, at its useful FLOPs per byte counted there; the slanted line of a "
            "level is its roof.",
            *(f"{tiles.formula}: tile edge T, {tiles.what}." for tiles in self.tiles),
            words.roofs_note(self.roofs, RoofLines([], [])),
            words.flags_note(self.rows),
            f"Not drawn: {self.left_out} of {total} points, which points.csv has." if self.left_out else "",
        ]
        under = words.machine_line(self.rows, self.roofs)
        return Page(self.settings, hierarchy_title(self.rows, self.roofs), under, notes, self._key())

    def _key(self) -> list[Line2D]:
        levels = [level for level in COUNTED_LEVELS if (self.rows[f"intensity_{level}_flop_per_byte"] > 0).any()]
        return [marks.handle(NAMES[level], SHAPES[level], style.FADED, 0.9 * self.font) for level in levels]

    def _plane(self, page: Page) -> Plane:
        values = [level.intensity for _, row in self.rows.iterrows() for level in at_levels(row, self.roofs)]
        values += [value for tiles in self.tiles for value in tiles.intensities.values()]
        x = limits.at_least(limits.decades_of([*values, *first_knees(self.lines)], 0.4, 0.6) or Decades(-1, 3), 3.0)
        rates = [*self.rows["flops_per_s"], *(line.high for line in self.lines.compute)]
        y = limits.decades_of(rates, 0.5, 0.3) or Decades(9, 12)
        width = page.room()
        flattest = 0.45 if style.is_wide(self.settings) else 0.9
        return limits.equal_decades(x, y, width, flattest * width, 0.9 * width)

    def _draw_points(self, axes: Axes) -> list[list[tuple[float, float]]]:
        """Draws the points, each as a line with a mark at every level; the places of the marks of each."""
        drawing, paths = drawing_of(axes), []
        look = {"markersize": self.mark_pt, "markeredgecolor": "white", "markeredgewidth": 0.08 * self.mark_pt}
        for index, row in self.rows.iterrows():
            levels, rate, colour = at_levels(row, self.roofs), row["flops_per_s"], self.colours[self.colour_of[index]]
            paths.append([(level.intensity, rate) for level in levels])
            axes.plot(*zip(*paths[-1], strict=True), color=colour, linewidth=0.12 * self.font, zorder=3)
            for level in levels:
                gid = f"{row['gid']}-{level.level}"
                shape = SHAPES[level.level]
                marks.put(axes, level.intensity, rate, shape, markerfacecolor=colour, gid=gid, zorder=5, **look)
                drawing.hover[gid] = f"{_level_words(level)}\n{hover(row)}"
                vertex = {"intensity_flop_per_byte": level.intensity, "flops_per_s": rate}
                drawing.add_point(row, vertex, level=level.level, level_fraction=level.share)
        return paths

    def _draw_tiles(self, canvas: LabelCanvas) -> None:
        """A row above the axis for each way to count: an upright stroke at each tile's intensity, its edge beside."""
        axes, small = canvas.axes, 0.8 * self.font
        height = 1.5 * self.font / limits.flat_size(axes)[1]
        for i, tiles in enumerate(self.tiles):
            y = (i + 0.6) * height
            look: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "zorder": 3, "color": style.FADED}
            axes.plot(list(tiles.intensities.values()), [y] * len(tiles.intensities), "|", markersize=small, **look)
            look |= {"fontsize": small, "va": "center_baseline"}
            for edge, value in tiles.intensities.items():
                canvas.take(axes.text(value, y, f" {edge}", label="tile-label", **look))
                canvas.drawing.add_line("tile", tiles.formula, [{"intensity_flop_per_byte": value}], tile=edge)
            first = min(tiles.intensities.values())
            canvas.take(axes.text(first, y, f"{tiles.formula}, T =  ", ha="right", **look))

    def _name(self, canvas: LabelCanvas) -> None:
        names = []
        for index in worth_naming(self.rows, self.settings.labels):
            row = self.rows.loc[index]
            farthest = at_levels(row, self.roofs)[0]
            short = " ".join(self.labels.words(row)[1:]) or self.names[index]
            names.append((farthest.intensity, row["flops_per_s"], [self.names[index], short]))
        canvas.write_beside(names)


def _level_words(level: AtLevel) -> str:
    share = f", {percent(level.share)} of its bandwidth roof" if level.share is not None else ""
    return f"at {NAMES[level.level]}: {plain(level.intensity)} FLOP/B{share}"


def hierarchy_title(rows: DataFrame, roofs: RoofSet | None) -> str:
    """What tiles do to the traffic, or else which roof the fastest point is nearest to: a level's or compute."""
    if TILE in rows:
        tiled = rows[rows[TILE].notna()].sort_values(TILE, kind="stable")
        for kernel, tiles in tiled.groupby("kernel", sort=False):
            if tiles[TILE].nunique() > 1:
                return _tile_title(str(kernel), tiles)
    row = highest(rows, "flops_per_s")
    name, near = " ".join(Labels(rows).words(row)), nearest(row, roofs)
    computed, moved = compute_share(row, roofs) or 0.0, (near.share if near else None) or 0.0
    if computed > moved:
        return f"{name}, the fastest, is nearest to the compute roof: {percent(computed)} of it"
    if near is None:
        levels = at_levels(row, roofs)
        times = plain(levels[0].intensity / levels[-1].intensity)
        return f"{name}: {times} times the bytes of {NAMES[levels[0].level]} through {NAMES[levels[-1].level]}"
    if computed >= ALIKE * moved:
        shares = f"{percent(moved)} and {percent(computed)} of them"
        return f"{name}, the fastest, is nearest to the roofs of {NAMES[near.level]} and of compute: {shares}"
    return f"{name}, the fastest, is nearest to the roof of {NAMES[near.level]}: {percent(moved)} of it"


def _tile_title(kernel: str, rows: DataFrame) -> str:
    """How intensities change from the smallest to the largest tile of the largest size."""
    largest = rows[rows["size"] == rows["size"].max()]
    first, last = largest.iloc[0], largest.iloc[-1]
    parts = []
    for level in ("l1", "l2", "dram"):
        low, high = (row[f"intensity_{level}_flop_per_byte"] for row in (first, last))
        if low > 0 and high > 0:
            parts.append(f"× {plain(high / low, 2)} at {NAMES[level]}")
    edges = f"tile {plain(first[TILE])} to {plain(last[TILE])}"
    return f"{style.shortened(kernel, 30)}, {edges}: intensity {style.joined(parts)}"
