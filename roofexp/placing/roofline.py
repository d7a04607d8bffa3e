"""The roofline itself: pure functions from a point and the roofs of its machine to a verdict. Measures nothing.

The bound is the smaller of the compute roof and bandwidth times intensity (Williams, Waterman, Patterson,
Communications of the ACM 52(4), 2009); both roofs are those of this machine, redrawn at the clock that the point held.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy

from roofexp.config.settings import PlacingSettings
from roofexp.records.machine import Machine, Roof, RoofSet
from roofexp.records.point import Bound, Counted, Flag, Placement, Point, Traffic, Work
from roofexp.text.numbers import percent

# what ``place`` says of a point
PLACING_FLAGS = ("no roof", "nothing to place", "above a roof", "above the limit", "incomplete roof")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A point's numbers against its roofs, before any verdict. Rates in FLOP/s and B/s, times in s."""

    intensity: float | None
    compute: float | None  # the roofs, at the clock held
    bandwidth: float
    floor_s: float | None
    attainable: float  # FLOP/s, or B/s for a kernel without FLOPs
    achieved: float
    time_s: float
    bandwidth_binds: bool

    @property
    def fraction(self) -> float:
        return self.achieved / self.attainable

    @property
    def floors(self) -> float | None:
        """The time in launch floors."""
        return self.time_s / self.floor_s if self.floor_s else None


def attainable(intensity: float, compute: float, bandwidth: float) -> float:
    """FLOP/s that a kernel of this intensity (FLOP/B) can reach under a compute (FLOP/s) and a bandwidth (B/s) roof."""
    return min(compute, bandwidth * intensity)


def ridge(compute: float, bandwidth: float) -> float:
    """The intensity (FLOP/B) at which both roofs meet: the least that reaches the compute roof."""
    return compute / bandwidth


def least_time_s(work: Work, traffic: Traffic, precision: str, roofs: RoofSet) -> float | None:
    """The shortest time that the roofs allow for this work, in s; None where a roof that it needs is missing."""
    bandwidth, compute = roofs.bandwidth(traffic.level), roofs.compute(precision)
    if bandwidth is None or (compute is None and work.flops):
        return None
    return max(traffic.bytes / bandwidth.rate, work.flops / compute.rate if compute else 0.0)


def model_traffic(work: Work, machine: Machine, cold: bool) -> Traffic:
    """The compulsory bytes, and the level they must cross: DRAM when caches are cold, else the nearest cache that
    keeps the whole working set from one launch to the next."""
    # a cache filled to the brim evicts: three quarters is what stays
    large = (name for name in machine.kept_levels if work.working_set_bytes <= 0.75 * machine.cache_bytes.get(name, 0))
    return Traffic(level="dram" if cold else next(large, "dram"), bytes=work.dram_bytes, source="modelled")


def place(point: Point, roofs: RoofSet, settings: PlacingSettings) -> tuple[Placement | None, list[Flag]]:
    """The verdict on a point; None (with a flag) where the roof that it needs was not measured."""
    if point.timing is None or point.work is None or point.traffic is None:
        return None, []
    bandwidth = roofs.bandwidth(point.traffic.level)
    compute = roofs.compute(point.precision)
    if bandwidth is None or (compute is None and point.work.flops):
        missing = f"{point.traffic.level} bandwidth" if bandwidth is None else f"{point.precision} compute"
        return None, [Flag("no roof", f"the {missing} roof of this machine was not measured")]
    reading = read(point, bandwidth, compute, roofs.launch())
    if reading is None:
        return None, [Flag("nothing to place", "neither FLOPs nor bytes are known")]
    bound = _bound(reading, settings)
    roof = bandwidth if reading.bandwidth_binds else compute
    assert roof is not None
    cause = _cause(bound, reading, point, roofs, roof, settings)
    flags = [Flag("above a roof", cause)] if bound == "above a roof" else []
    flags += _above_limit(reading, compute, point)
    flags += [Flag("incomplete roof", f"{roof.name}: {roof.incomplete}")] if roof.incomplete else []
    return _placement(bound, reading, point.traffic.level, roof, cause), flags


def _above_limit(reading: Reading, compute: Roof | None, point: Point) -> list[Flag]:
    """More FLOPs than the units can do at the clock held: then a number is wrong, however near the roof it looks."""
    clock_hz = point.compute_hz
    if compute is None or not (compute.limit and compute.compute_hz and clock_hz and point.work and point.work.flops):
        return []
    share = reading.achieved / (compute.limit * clock_hz / compute.compute_hz)
    if share <= 1.0:
        return []
    why = "the clock, the time or the formula of its FLOPs is wrong"
    return [Flag("above the limit", f"{100 * share:.1f} % of what the units can do at the clock held: {why}")]


def read(point: Point, bandwidth: Roof, compute: Roof | None, launch: Roof | None) -> Reading | None:
    """The numbers of a timed point against its roofs; None for a point without FLOPs and bytes."""
    assert point.timing
    assert point.work
    assert point.traffic
    flops, moved = point.work.flops, point.traffic.bytes
    time_s = point.time_at_clock_s or point.timing.median_s
    bandwidth_rate = bandwidth.at(point.compute_hz)
    compute_rate = compute.at(point.compute_hz) if compute else None
    intensity = flops / moved if moved else None
    if not flops:
        limit, binds = bandwidth_rate, True
    elif compute_rate is None:
        return None
    elif intensity is None:  # no traffic at this level: only the compute roof can bind
        limit, binds = compute_rate, False
    else:
        limit = attainable(intensity, compute_rate, bandwidth_rate)
        binds = intensity < ridge(compute_rate, bandwidth_rate)
    if not flops and not moved:
        return None
    return Reading(
        intensity=intensity,
        compute=compute_rate,
        bandwidth=bandwidth_rate,
        floor_s=launch.rate if launch else None,
        attainable=limit,
        achieved=(flops or moved) / time_s,
        time_s=time_s,
        bandwidth_binds=binds,
    )


def _bound(reading: Reading, settings: PlacingSettings) -> Bound:
    if reading.fraction > settings.above_roof:
        return "above a roof"
    if reading.fraction >= settings.on_roof:
        return "on the bandwidth roof" if reading.bandwidth_binds else "on the compute roof"
    if reading.fraction < settings.far_below:
        return "latency-bound"
    return "bandwidth-bound" if reading.bandwidth_binds else "compute-bound"


def _cause(bound: Bound, reading: Reading, point: Point, roofs: RoofSet, roof: Roof, settings: PlacingSettings) -> str:
    if bound == "above a roof":
        return _why_above(reading, point, roofs, roof)
    if bound == "latency-bound":
        return _why_latency(reading, roofs.machine, settings)
    share = f"{percent(reading.fraction)} of the {roof.name} roof"
    if reading.floors is not None and reading.floors < settings.near_floor:
        return f"{share}; the launch itself takes {percent(1 / reading.floors)} of the time"
    return share


def _why_latency(reading: Reading, machine: Machine, settings: PlacingSettings) -> str:
    units = f"{machine.units} {'cores' if machine.device == 'cpu' else 'SMs'}" if machine.units else "the machine"
    if reading.floors is not None and reading.floors < settings.near_floor:
        return f"time near the launch floor: {reading.floors:.1f} empty launches"
    ideal_s = reading.time_s * reading.fraction
    if reading.floor_s and ideal_s < settings.near_floor * reading.floor_s:
        return f"too little work for {units}: at the roof it would take {ideal_s / reading.floor_s:.1f} empty launches"
    return f"far below both roofs ({percent(reading.fraction)}) with work enough: {units} wait for something else"


def _why_above(reading: Reading, point: Point, roofs: RoofSet, roof: Roof) -> str:
    share = f"{percent(reading.fraction)} of the {roof.name} roof"
    assert point.traffic
    assert point.work
    if roof.incomplete:
        return f"{share}: the roof is only a lower bound ({roof.incomplete})"
    if reading.bandwidth_binds:
        for level in roofs.machine.cache_bytes:
            if level != point.traffic.level and point.work.working_set_bytes <= roofs.machine.cache_bytes[level]:
                return f"{share}: the working set fits in {level.upper()}, so not every byte crossed {roof.name}"
        return f"{share}: fewer bytes crossed {roof.name} than the formula says, or the roof was measured too low"
    if roof.clock_domain == "compute" and point.compute_hz is None:
        return f"{share}: the clock is unknown; the kernel may have run at a higher one than the roof"
    return f"{share}: fewer FLOPs were needed than the formula says, or the roof was measured too low"


NEXT_MOVES: dict[Bound, str] = {
    "bandwidth-bound": "fetch fewer wasted bytes: contiguous, aligned, wide accesses and more of them in flight",
    "on the bandwidth roof": "raise the intensity: tile for reuse, fuse with its neighbours, or store narrower types",
    "compute-bound": "improve the instruction mix: FMA, vectors or tensor cores, less that is not arithmetic",
    "on the compute roof": "stop here: only a cheaper algorithm, a lower precision or other hardware goes further",
    "latency-bound": "give it more parallel work: larger or batched problems, fewer launches, shorter chains",
    "above a roof": "check the formula, the cache state and the clock before believing this point",
}


def _placement(bound: Bound, reading: Reading, level: str, roof: Roof, cause: str) -> Placement:
    fractions: dict[str, float] = {}
    if reading.intensity is not None:
        moved_per_s = reading.achieved / reading.intensity if reading.intensity else reading.achieved
        fractions[level] = moved_per_s / reading.bandwidth
    if reading.compute and reading.intensity != 0:
        fractions["compute"] = reading.achieved / reading.compute
    if reading.floors:
        fractions["launch"] = 1 / reading.floors
    return Placement(
        bound=bound,
        intensity_flop_per_byte=reading.intensity,
        attainable_per_s=reading.attainable,
        fraction=reading.fraction,
        roof=roof.name,
        roof_fractions=fractions,
        ridge_flop_per_byte=ridge(reading.compute, reading.bandwidth) if reading.compute else None,
        cause=cause,
        next_move=NEXT_MOVES[bound],
    )


WRITTEN = {"read": 0.0, "triad": 1 / 3, "copy": 1 / 2, "write": 1.0}  # part of the bytes that each measured mix writes


def mix_facts(reached: Any, point: Point, roof: Roof | None, counted: Counted | None) -> dict[str, float | None]:
    """The part of the DRAM roof for this mix that is ``reached`` of the roof itself. Where the share of writes is not
    known both are the same."""
    if roof is None or not isinstance(reached, (int, float)):
        return {}
    written = write_share(point, counted)
    share = 1.0 if written is None else mix_share(roof, written)
    return {"dram_write_share": written, "dram_mix_share": share, "dram_mix_fraction": reached / share}


def write_share(point: Point, counted: Counted | None) -> float | None:
    """The part of the DRAM traffic that is written: as counted, else by the operands; None where neither is known."""
    if counted is not None:
        read, written = counted.facts.get("dram_read_bytes"), counted.facts.get("dram_write_bytes")
        if read is not None and written is not None and read + written:
            return written / (read + written)
    if point.work is None or point.work.written_bytes is None or not point.work.dram_bytes:
        return None
    return min(1.0, point.work.written_bytes / point.work.dram_bytes)


def mix_share(roof: Roof, written: float) -> float:
    """The rate of a mix as a part of the roof, which is that of the best mix: on the straight line between the two
    measured mixes that lie on either side of it, or that of the nearest one."""
    mixes = sorted((WRITTEN[name], rate) for name, rate in roof.mixes.items() if name in WRITTEN)
    if not mixes or not roof.rate:
        return 1.0
    shares, rates = zip(*mixes, strict=True)
    return min(1.0, float(numpy.interp(written, shares, rates)) / roof.rate)
