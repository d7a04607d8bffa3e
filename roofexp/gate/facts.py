"""What a rule may ask of a point: names, what they mean, and their values. None is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofexp.compare.difference import Difference
from roofexp.point import Point


class BoundText(str):
    """A verdict like ``on the compute roof``; equal to its family too: bandwidth, compute or latency."""

    __slots__ = ()

    @property
    def family(self) -> str:
        return next((name for name in FAMILIES if name in self), "")

    def __eq__(self, other: object) -> bool:
        return str(self) == other or (bool(self.family) and self.family == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


FAMILIES = ("bandwidth", "compute", "latency")
WORDS = {name: name for name in (*FAMILIES, "ok", "failed", "skipped", "hot", "cold")}  # may stand without quotes


def _bound(point: Point) -> BoundText | None:
    return BoundText(point.placement.bound) if point.placement else None


FACTS: dict[str, tuple[str, Callable[[Point], Any]]] = {
    "status": ("ok, failed or skipped", lambda p: p.status),
    "fraction": ("share of what the roofs allow", lambda p: p.placement.fraction if p.placement else None),
    "bound": ("where it lies: bandwidth, compute, latency, or the verdict in full", _bound),
    "roof": ("the roof that binds", lambda p: p.placement.roof if p.placement else None),
    "verdict": ("the diagnosis by name", lambda p: p.diagnosis.verdict.name if p.diagnosis else None),
    "time_s": ("of one launch, median", lambda p: p.timing.median_s if p.timing else None),
    "flops_per_s": ("useful FLOP/s", lambda p: p.flops_per_s),
    "bytes_per_s": ("B/s", lambda p: p.bytes_per_s),
    "intensity": ("FLOP/B", lambda p: p.placement.intensity_flop_per_byte if p.placement else None),
    "compute_hz": ("clock held", lambda p: p.clock.compute_hz if p.clock else None),
    "joules": ("energy of one launch", lambda p: p.joules),
    "error": ("of the result, over its scale", lambda p: p.check.error if p.check else None),
    "samples": ("of time", lambda p: p.timing.samples if p.timing else None),
    "occupancy_pct": ("counted", lambda p: p.counted.occupancy_pct if p.counted else None),
    "registers": ("of a thread, counted", lambda p: p.counted.registers if p.counted else None),
    "flagged": ("whether any flag is up", lambda p: bool(p.flags)),
    "flags": ("names of the flags: 'noisy' in flags", lambda p: [flag.name for flag in p.flags]),
    "kernel": ("its name", lambda p: p.kernel),
    "size": ("the swept number", lambda p: p.size),
    "precision": ("fp32 ...", lambda p: p.precision),
    "cache": ("cold or hot", lambda p: p.cache_state),
}
AGAINST: dict[str, tuple[str, Callable[[Difference], Any]]] = {
    "slowdown": ("0.03: 3 % slower than in `against`; in cycles where only the clock made the time differ or hid it",
                 lambda d: _slowdown(d)),
    "time_slowdown": ("the same in time, whatever the clock did", lambda d: d.slowdown),
}  # fmt: skip


def _slowdown(difference: Difference) -> float:
    in_cycles = difference.verdict.endswith(("by the clock", "in cycles"))
    return difference.cycles_ratio - 1 if in_cycles and difference.cycles_ratio else difference.slowdown


def why_unknown(name: str, point: Point) -> str:
    """For a fact of a point that is None."""
    if point.status != "ok":
        return f"{point.status}: {point.reason or 'no reason is recorded'}"
    if name in ("fraction", "bound", "roof", "intensity"):
        missing = next((flag.message for flag in point.flags if flag.name in ("no roof", "nothing to place")), None)
        return missing or ("its placement has none" if point.placement else "not placed under roofs (roofs=none?)")
    if name in ("occupancy_pct", "registers"):
        return (point.counted.unavailable if point.counted else None) or "not counted (counters=none?)"
    return {
        "flops_per_s": "a kernel without FLOPs",
        "bytes_per_s": "no traffic is known",
        "verdict": "no diagnosis was made",
        "joules": "the device counts no energy",
        "compute_hz": "the clock could not be read",
        "error": "the result was not checked",
    }.get(name, "not in the record")
