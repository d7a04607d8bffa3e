"""From raw counters to what a roofline needs: FLOPs by type, bytes by level, time, clocks, utilisation.

What is not known is None, never 0, and a sum with a missing term is None, never partial.
FLOPs = add + mul + 2 FMA (predicated-on threads), plus tensor operations, which count an FMA as two already; bytes as
in catalogue.yaml. Time is that of the profiled run itself, as the counters are.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from roofexp.counters.flops import Flops, count_flops, report_peaks
from roofexp.ncu.catalogue import Lookup, byte_sources, catalogue, fact_metrics, is_counter, scalar_names, stall_metrics
from roofexp.records.point import Flag
from roofexp.text.numbers import percent

CLOCK_TOLERANCE = 0.02


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """One launch in SI units. ``peaks`` are FLOP per cycle of the whole GPU as the report itself states them."""

    flops: float | None
    flops_by_type: dict[str, float | None]
    dram_bytes: float | None
    l2_bytes: float | None
    l1_bytes: float | None
    shared_bytes: float | None
    time_s: float | None
    cycles: float | None = None
    sm_hz: float | None = None
    l2_hz: float | None = None
    dram_hz: float | None = None
    dram_peak_bytes_per_s: float | None = None
    sol_sm_pct: float | None = None
    sol_memory_pct: float | None = None
    sol_dram_pct: float | None = None
    occupancy_pct: float | None = None
    occupancy_possible_pct: float | None = None
    occupancy_limiter: str | None = None
    waves: float | None = None
    registers: float | None = None
    sectors_per_load: float | None = None  # 4 is a coalesced request of 4-byte values, 32 the worst
    sectors_per_store: float | None = None
    stalls: dict[str, float] = {}  # cycles waited per issued instruction, by reason
    facts: dict[str, float] = {}  # what else the diagnosis needs, by the catalogue's names
    sm_count: float | None = None
    peaks: dict[str, float] = {}
    architecture: str | None = None
    device_name: str | None = None
    flags: list[Flag] = []
    notes: list[str] = []

    @property
    def main_type(self) -> str | None:
        """The FLOP type that most of the work was done in."""
        positive = {kind: value for kind, value in self.flops_by_type.items() if value}
        return max(positive, key=lambda kind: positive[kind]) if positive else None


def derive(
    values: Mapping[str, float | None],
    architecture: str | None = None,
    *,
    half_lanes: int = 2,
    kernel: str = "",
    device_name: str | None = None,
) -> Counts:
    """Counts of one launch from its metrics in SI units.

    ``architecture`` is a compute capability, or None for whatever names are there. ``half_lanes`` is 2 where half
    precision code works on half2, 1 where it is scalar. ``kernel`` helps to notice tensor work that was not counted.
    """
    lookup = Lookup(values=values)
    scalars = {name: lookup.first(scalar_names(name)) for name in catalogue()["scalars"]}
    flags, notes = _set_time(lookup, scalars)
    flops = count_flops(lookup, architecture, half_lanes, kernel)
    bytes_by_level, byte_notes = _bytes(lookup)
    if lookup.from_rates:
        notes.append(f"from rates printed with few digits: {', '.join(sorted(set(lookup.from_rates)))}")
    flags += _all_missing(values) or flops.flags
    return Counts(
        flops=flops.total,
        flops_by_type=flops.by_type,
        **bytes_by_level,
        time_s=lookup.time_s,
        cycles=lookup.cycles,
        **{name: scalars[name] for name in _PLAIN},
        dram_peak_bytes_per_s=_dram_peak(lookup, scalars),
        occupancy_limiter=_limiter(lookup),
        sectors_per_load=_ratio(scalars["load_sectors"], scalars["load_requests"]),
        sectors_per_store=_ratio(scalars["store_sectors"], scalars["store_requests"]),
        stalls=_known(stall_metrics(), values),
        facts=_known(fact_metrics(), values),
        peaks=report_peaks(lookup),
        architecture=architecture,
        device_name=device_name,
        flags=flags,
        notes=[*notes, *_missing_note(flops), *flops.notes, *byte_notes],
    )


_PLAIN = (
    "sm_hz",
    "l2_hz",
    "dram_hz",
    "sol_sm_pct",
    "sol_memory_pct",
    "sol_dram_pct",
    "occupancy_pct",
    "occupancy_possible_pct",
    "waves",
    "registers",
    "sm_count",
)


def _known(names: Mapping[str, str], values: Mapping[str, float | None]) -> dict[str, float]:
    return {key: value for key, name in names.items() if (value := values.get(name)) is not None}


def _missing_note(flops: Flops) -> list[str]:
    return [] if flops.by_type else ["no FLOP counter was collected"]


def _set_time(lookup: Lookup, scalars: dict[str, float | None]) -> tuple[list[Flag], list[str]]:
    """Time from ncu's duration, else from cycles and clock; and whether the three agree."""
    time_s, cycles, hz = scalars["time_s"], scalars["cycles"], scalars["sm_hz"]
    lookup.time_s, lookup.cycles = time_s, cycles
    if time_s is None and cycles is not None and hz:
        lookup.time_s = cycles / hz
        return [], ["time is cycles / clock: no duration was collected"]
    if cycles is None and time_s is not None and hz:
        lookup.cycles = time_s * hz
    elif time_s and cycles and hz and abs(cycles / (time_s * hz) - 1) > CLOCK_TOLERANCE:
        share = percent(cycles / (time_s * hz))
        words = f"{cycles:.0f} cycles are not {time_s * 1e6:.2f} us at {hz / 1e6:.0f} MHz ({share})"
        return [Flag("clock mismatch", f"{words}: the counters come from passes at different clocks")], []
    return [], []


def _bytes(lookup: Lookup) -> tuple[dict[str, float | None], list[str]]:
    """Bytes at each level from the first source that the report holds whole."""
    totals_by_level: dict[str, float | None] = {}
    notes = []
    for level in catalogue()["bytes"]:
        totals_by_level[f"{level}_bytes"] = None
        for source in byte_sources(level):
            totals = [(lookup.total(metric), weight) for metric, weight in source["terms"].items()]
            if all(total is not None for total, _ in totals):
                totals_by_level[f"{level}_bytes"] = sum(total * weight for total, weight in totals if total is not None)
                notes += [source["note"]] if "note" in source else []
                break
    return totals_by_level, notes


def _all_missing(values: Mapping[str, float | None]) -> list[Flag]:
    """Counters that are all nan, as distinct from single ones."""
    counters = [value for name, value in values.items() if is_counter(name)]
    if not counters or any(value is not None for value in counters):
        return []
    reason = "the launch failed, the GPU is a shared MIG instance, or ncu and the driver are a version mismatch"
    return [Flag("counters missing", f"no counter has a value: {reason}")]


def _dram_peak(lookup: Lookup, scalars: dict[str, float | None]) -> float | None:
    """What DRAM can move: bytes per DRAM cycle as ncu states them, or two transfers of the bus width, x clock."""
    hz, bits = scalars["dram_hz"], scalars["dram_bus_bits"]
    per_cycle = lookup.values.get("dram__bytes.sum.peak_sustained") or (bits / 8 * 2 if bits else None)
    return per_cycle * hz if per_cycle and hz else None


def _limiter(lookup: Lookup) -> str | None:
    """The resource that lets the fewest blocks onto an SM."""
    limits = {
        resource: value
        for resource, name in catalogue()["occupancy_limits"].items()
        if (value := lookup.values.get(name)) is not None
    }
    return min(limits, key=lambda resource: limits[resource]) if limits else None


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None
