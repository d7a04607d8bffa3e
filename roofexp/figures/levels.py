"""A point at every memory level that its bytes were counted at: intensity there, and the share of that level's roof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.figures.frame import COUNTED_LEVELS
from roofexp.machine import RoofSet

if TYPE_CHECKING:
    from pandas import DataFrame, Series


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
