"""A point with its counters: counted bytes take the place of modelled ones, and it is placed anew."""

from __future__ import annotations

import msgspec

from roofexp.diagnosis import diagnosed
from roofexp.machine import RoofSet
from roofexp.point import Clock, Counted, Flag, Point, Traffic
from roofexp.roofline import PLACING_FLAGS, PlacingSettings, place

NOT_COUNTED = "not counted"


def join(point: Point, counted: Counted, roofs: RoofSet | None, settings: PlacingSettings) -> Point:
    """The time stays that of the events, at their clock; only the traffic and what follows from it change."""
    bare = without_counters(point)
    bytes_moved = counted.bytes_at(point.traffic.level) if point.traffic else None
    traffic = bare.traffic
    if point.traffic and bytes_moved is not None:
        traffic = Traffic(level=point.traffic.level, bytes=bytes_moved, source="counted")
    flags = [*bare.flags, *counted.flags]
    joined = msgspec.structs.replace(bare, counted=counted, traffic=traffic, flags=flags)
    if roofs is None:
        return joined
    counted = msgspec.structs.replace(counted, fraction=_profiled_fraction(joined, counted, roofs, settings))
    placement, found = place(joined, roofs, settings)
    placed = msgspec.structs.replace(joined, counted=counted, placement=placement, flags=[*flags, *found])
    return diagnosed(placed, roofs, settings)


def join_failure(point: Point, reason: str, level: str | None, kind: str | None = None) -> Point:
    """A point that was not counted. What an earlier session counted stays; ``kind`` is given where the reason is this
    point's own: it is flagged then."""
    if point.counted is not None and point.counted.unavailable is None:
        return point
    flags = [flag for flag in point.flags if flag.name != NOT_COUNTED]
    flags += [Flag(NOT_COUNTED, f"{kind}: {reason}")] if kind else []
    said = f"{kind}: {reason}" if kind else reason
    return msgspec.structs.replace(point, counted=Counted(level=level, unavailable=said), flags=flags)


def without_counters(point: Point) -> Point:
    """As it was before it was counted, short of its verdict: traffic modelled, flags of counting and placing gone."""
    old = point.counted.flags if point.counted else []
    flags = [flag for flag in point.flags if flag not in old and flag.name not in (*PLACING_FLAGS, NOT_COUNTED)]
    traffic = point.traffic
    if traffic and traffic.source == "counted" and point.work:
        traffic = Traffic(level=traffic.level, bytes=point.work.dram_bytes, source="modelled")
    return msgspec.structs.replace(point, counted=None, traffic=traffic, flags=flags)


def _profiled_fraction(point: Point, counted: Counted, roofs: RoofSet, settings: PlacingSettings) -> float | None:
    """The profiled time against the roofs at the clock of the profiled run."""
    if counted.time_s is None or point.timing is None:
        return None
    profiled = msgspec.structs.replace(
        point,
        timing=msgspec.structs.replace(point.timing, median_s=counted.time_s),
        clock=Clock(compute_hz=counted.sm_hz, source="ncu"),
    )
    placement, _ = place(profiled, roofs, settings)
    return placement.fraction if placement else None
