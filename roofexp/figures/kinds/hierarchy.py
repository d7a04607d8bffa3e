"""A point at every memory level that its bytes were counted at: intensity there, and the share of that level's roof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.config.paths import conf_folder
from roofexp.config.schema import FiguresConfig
from roofexp.config.yaml_file import read_mapping
from roofexp.figures.canvas import limits, marks, style, words
from roofexp.figures.canvas.frame import COUNTED_LEVELS, Labels, highest, hover, precisions, prepared, with_flops
from roofexp.figures.canvas.labels import LabelCanvas
from roofexp.figures.canvas.limits import BELOW, SIDE, Decades, Plane, equal_plane
from roofexp.figures.canvas.marks import worth_naming
from roofexp.figures.canvas.page import Page, VertexTable
from roofexp.figures.canvas.roof_lines import RoofLines, draw_roofs, first_knees, roof_lines, write_roofs
from roofexp.records.machine import RoofSet
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
    found = []
    for level in COUNTED_LEVELS:
        intensity = row[f"intensity_{level}_flop_per_byte"]
        if not intensity > 0:
            continue
        roof = roofs.bandwidth(level) if roofs else None
        hz = row["compute_hz"] if row["compute_hz"] > 0 else None
        share = row["flops_per_s"] / intensity / roof.at(hz) if roof else None
        found.append(AtLevel(level, float(intensity), share))
    return found


def compute_share(row: Series[Any], roofs: RoofSet | None) -> float | None:
    """The share of its precision's compute roof at the clock held; None without that roof."""
    roof = roofs.compute(str(row["precision"])) if roofs else None
    if roof is None or not row["flops_per_s"] > 0:
        return None
    return float(row["flops_per_s"] / roof.at(row["compute_hz"] if row["compute_hz"] > 0 else None))


def on_several_levels(frame: DataFrame) -> DataFrame:
    """The points whose bytes were counted at two levels or more."""
    columns = [f"intensity_{level}_flop_per_byte" for level in COUNTED_LEVELS]
    return frame[(frame[columns] > 0).sum(axis=1) >= 2]


def nearest(row: Series[Any], roofs: RoofSet | None) -> AtLevel | None:
    """The level whose roof the point comes nearest to."""
    known = [each for each in at_levels(row, roofs) if each.share is not None]
    return max(known, key=lambda each: each.share or 0.0, default=None)


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
ALIKE = 0.9  # shares of two roofs nearer to each other than this are both told
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
        page, table = self._page(), VertexTable()
        plane = self._plane(page)
        drawing = page.make(plane.height, BELOW * self.font)
        about = {"xlabel": "Arithmetic intensity at the level (FLOP/B)", "ylabel": "FLOP/s"}
        axes = equal_plane(page, drawing, page.edge + SIDE * self.font, 0, plane, **about)
        draw_roofs(axes, self.lines, plane, self.font, table, drawing.hover)
        places = self._draw_points(axes, table, drawing.hover)
        canvas = LabelCanvas(axes, places, self.mark_pt, spread=False)
        for _, row in self.rows.iterrows():
            reach = [each.intensity for each in at_levels(row, self.roofs)]
            canvas.lines.append((canvas.segment((min(reach), max(reach)), (row["flops_per_s"],) * 2), 2.0))
        self._draw_tiles(canvas, table)
        write_roofs(canvas, self.lines, plane, self.font)
        self._name(canvas)
        drawing.table = table.frame()
        return drawing

    def _page(self) -> Page:
        total = len(self.rows) + self.left_out
        notes = [
            "Each point stands once for every level, at its useful FLOPs per byte counted there; the slanted line of a "
            "level is its roof.",
            *(f"{each.formula}: tile edge T, {each.what}." for each in self.tiles),
            words.roofs_note(self.roofs, RoofLines([], [])),
            words.flags_note(self.rows),
            f"Not drawn: {self.left_out} of {total} points, which points.csv has." if self.left_out else "",
        ]
        under = words.machine_line(self.rows, self.roofs)
        page = Page(self.settings, hierarchy_title(self.rows, self.roofs), under, notes)
        page.add_key(self._key())
        return page

    def _key(self) -> list[Line2D]:
        levels = [level for level in COUNTED_LEVELS if (self.rows[f"intensity_{level}_flop_per_byte"] > 0).any()]
        return [marks.handle(NAMES[level], SHAPES[level], style.FADED, 0.9 * self.font) for level in levels]

    def _plane(self, page: Page) -> Plane:
        values = [each.intensity for _, row in self.rows.iterrows() for each in at_levels(row, self.roofs)]
        values += [value for each in self.tiles for value in each.intensities.values()]
        x = limits.at_least(limits.decades_of([*values, *first_knees(self.lines)], 0.4, 0.6) or Decades(-1, 3), 3.0)
        rates = [*self.rows["flops_per_s"], *(line.high for line in self.lines.compute)]
        y = limits.decades_of(rates, 0.5, 0.3) or Decades(9, 12)
        width = page.width - 2 * page.edge - (SIDE + 0.9) * self.font
        wide = self.settings.width_mm >= style.NARROW_MM
        return limits.equal_decades(x, y, width, (0.45 if wide else 0.9) * width, 0.9 * width)

    def _draw_points(self, axes: Axes, table: VertexTable, said: dict[str, str]) -> list[tuple[float, float]]:
        places = []
        for index, row in self.rows.iterrows():
            found, rate, colour = at_levels(row, self.roofs), row["flops_per_s"], self.colours[self.colour_of[index]]
            reach = [each.intensity for each in found]
            axes.plot(reach, [rate] * len(found), color=colour, linewidth=0.12 * self.font, zorder=3)
            for each in found:
                gid = f"{row['gid']}-{each.level}"
                marks.put(axes, each.intensity, rate, SHAPES[each.level], **self._look(colour), gid=gid)
                said[gid] = f"{_level_words(each)}\n{hover(row)}"
                vertex = {"intensity_flop_per_byte": each.intensity, "flops_per_s": rate}
                table.point(row, vertex, level=each.level, level_fraction=each.share)
                places.append((each.intensity, rate))
        return places

    def _look(self, colour: str) -> dict[str, Any]:
        return {
            "markersize": self.mark_pt,
            "markerfacecolor": colour,
            "markeredgecolor": "white",
            "markeredgewidth": 0.08 * self.mark_pt,
            "zorder": 5,
        }

    def _draw_tiles(self, canvas: LabelCanvas, table: VertexTable) -> None:
        """A row above the axis for each way to count: an upright stroke at each tile's intensity, its edge beside."""
        axes, small = canvas.axes, 0.8 * self.font
        height = 1.5 * self.font / (72 * axes.get_window_extent().height / axes.figure.dpi)
        for i, each in enumerate(self.tiles):
            y = (i + 0.6) * height
            look: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "zorder": 3, "color": style.FADED}
            axes.plot(list(each.intensities.values()), [y] * len(each.intensities), "|", markersize=small, **look)
            for edge, value in each.intensities.items():
                said = axes.text(value, y, f" {edge}", fontsize=small, va="center_baseline", label="tile-label", **look)
                canvas.take(said)
                table.line("tile", each.formula, [{"intensity_flop_per_byte": value}], tile=edge)
            first = min(each.intensities.values())
            look |= {"fontsize": small, "ha": "right", "va": "center_baseline"}
            canvas.take(axes.text(first, y, f"{each.formula}, T =  ", **look))

    def _name(self, canvas: LabelCanvas) -> None:
        wanted = []
        for index in worth_naming(self.rows, self.settings.labels):
            row = self.rows.loc[index]
            last = at_levels(row, self.roofs)[0]
            short = " ".join(self.labels.words(row)[1:]) or self.names[index]
            wanted.append((last.intensity, row["flops_per_s"], [self.names[index], short]))
        canvas.write_beside(wanted, fontsize=0.9 * self.font, label="point-label", zorder=6)


def _level_words(each: AtLevel) -> str:
    share = f", {percent(each.share)} of its bandwidth roof" if each.share is not None else ""
    return f"at {NAMES[each.level]}: {plain(each.intensity)} FLOP/B{share}"


def hierarchy_title(rows: DataFrame, roofs: RoofSet | None) -> str:
    """What tiles do to the traffic, or else which roof the fastest point is nearest to: a level's or compute."""
    if TILE in rows:
        tiled = rows[rows[TILE].notna()].sort_values(TILE, kind="stable")
        for kernel, each in tiled.groupby("kernel", sort=False):
            if each[TILE].nunique() > 1:
                return _tile_title(str(kernel), each)
    row = highest(rows, "flops_per_s")
    name, near = " ".join(Labels(rows).words(row)), nearest(row, roofs)
    computed, moved = compute_share(row, roofs) or 0.0, (near.share if near else None) or 0.0
    if computed > moved:
        return f"{name}, the fastest, is nearest to the compute roof: {percent(computed)} of it"
    if near is None:
        found = at_levels(row, roofs)
        times = plain(found[0].intensity / found[-1].intensity)
        return f"{name}: {times} times the bytes of {NAMES[found[0].level]} through {NAMES[found[-1].level]}"
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
        low, high = (each[f"intensity_{level}_flop_per_byte"] for each in (first, last))
        if low > 0 and high > 0:
            parts.append(f"× {plain(high / low, 2)} at {NAMES[level]}")
    edges = f"tile {plain(first[TILE])} to {plain(last[TILE])}"
    return f"{style.shortened(kernel, 30)}, {edges}: intensity {style.joined(parts)}"
