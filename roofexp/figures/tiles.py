"""What blocking a matrix product by tiles of edge T should make of its intensity, by arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from roofexp.folders import conf_folder

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMN = "param.tile"


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
    if COLUMN not in frame:
        return []
    rows = frame[(frame[COLUMN].notna()) & (frame["flops"] > 0)]
    widths = {width for width in map(_itemsize, rows["precision"].unique()) if width}
    if len(widths) != 1:
        return []
    width, edges = widths.pop(), sorted({int(edge) for edge in rows[COLUMN]})
    parts = [(1.5 * width, "three tiles touched"), (1.0 * width, "two tiles read")]
    return [TileMarks(f"T/{divisor:g}", what, {edge: edge / divisor for edge in edges}) for divisor, what in parts]


def _itemsize(precision: str) -> int | None:
    import yaml

    file = conf_folder() / "precision" / f"{precision}.yaml"
    return int(yaml.safe_load(file.read_text())["itemsize"]) if file.is_file() else None
