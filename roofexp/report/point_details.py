"""What is known of one point beyond its row: pairs of a name and a text with its unit, in groups."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from roofexp.records.machine import COUNTED_LEVELS
from roofexp.records.point import Point
from roofexp.text.numbers import engineering, percent, plain, span

STALLS = 5  # reasons shown; counters.csv has all
Detail = tuple[str, str]


class DetailGroup(NamedTuple):
    title: str
    details: list[Detail]


def details(point: Point) -> list[DetailGroup]:
    """Groups that hold nothing are left out: what is not shown is unknown."""
    groups = {
        "Point": _point,
        "Time": _time,
        "Work and traffic": _work,
        "Under the roofs": _placement,
        "Clock": _clock,
        "Counters": _counted,
    }
    return [group for title, read in groups.items() if (group := DetailGroup(title, list(read(point)))).details]


def repeat_command(point: Point) -> str:
    """The command for this point alone; empty where its overrides are not recorded."""
    return shlex.join(["python", "-m", "roofexp", *point.overrides]) if point.overrides else ""


def _point(point: Point) -> Iterator[Detail]:
    yield "size", str(point.size)
    if point.shape:
        yield "shape", ", ".join(f"{name} = {length}" for name, length in point.shape.items())
    if point.params:
        yield "parameters", ", ".join(f"{name} = {value}" for name, value in point.params.items())
    if point.scalars:
        yield "scalars", ", ".join(f"{name} = {value}" for name, value in point.scalars.items())
    yield "runs on", " ".join(filter(None, [point.device, point.implementation and f"({point.implementation})"]))
    yield "operands", f"{point.fill or 'unknown'} fill" + (f", seed {point.seed}" if point.seed is not None else "")
    if point.check:
        yield "result checked", f"error {point.check.error:.2g}, allowed {point.check.tolerance:.2g}"
    if point.config_hash:
        yield "configuration", point.config_hash


def _time(point: Point) -> Iterator[Detail]:
    timing = point.timing
    if timing is None:
        return
    yield "median", engineering(timing.median_s, "s", 4)
    yield "its 95 % interval", precise_span(timing.low_s, timing.high_s)
    yield "5th to 95th percentile", precise_span(timing.p5_s, timing.p95_s)
    if timing.samples:
        launches = f"{timing.launches_per_sample} launch{'es' if timing.launches_per_sample != 1 else ''}"
        yield "samples", f"{timing.samples} of {launches} each"
    if timing.floor_s:
        yield "timer floor", engineering(timing.floor_s, "s")
    if timing.warmup_s:
        yield "warm-up", engineering(timing.warmup_s, "s")
    if timing.method:
        yield "method", timing.method


def precise_span(low_s: float, high_s: float) -> str:
    """As span, with the fourth digit where three would hide a narrow interval."""
    if span(low_s, high_s, "s").count("–") == 0 and low_s != high_s:
        return f"{engineering(low_s, 's', 5)} – {engineering(high_s, 's', 5)}"
    return span(low_s, high_s, "s")


def _work(point: Point) -> Iterator[Detail]:
    if point.work:
        yield "useful FLOPs", engineering(point.work.flops, "FLOP", 4)
        if point.work.dram_bytes:
            yield "compulsory bytes", engineering(point.work.dram_bytes, "B", 4)
        if point.work.working_set_bytes:
            yield "working set", engineering(point.work.working_set_bytes, "B", 4)
    if point.traffic:
        traffic = point.traffic
        yield f"traffic through {traffic.level.upper()}", f"{engineering(traffic.bytes, 'B', 4)}, {traffic.source}"
    if point.flops_per_s:
        yield "rate", engineering(point.flops_per_s, "FLOP/s", 4)
    if point.bytes_per_s:
        yield "bytes moved", engineering(point.bytes_per_s, "B/s", 4)
    if point.joules:
        yield "energy of a launch", f"{engineering(point.joules, 'J')}, idle power included"
        if point.work and point.work.flops:
            yield "efficiency", engineering(point.work.flops / point.joules, "FLOP/J")


def _placement(point: Point) -> Iterator[Detail]:
    place = point.placement
    if place is None:
        return
    if place.attainable_per_s:
        unit = "FLOP/s" if point.flops_per_s else "B/s"
        yield "attainable", f"{engineering(place.attainable_per_s, unit, 4)}, by the {place.roof} roof"
    if place.ridge_flop_per_byte:
        yield "ridge", f"{plain(place.ridge_flop_per_byte)} FLOP/B"
    for name, share in place.roof_fractions.items():
        what = "time that an empty launch takes" if name == "launch" else f"of the {name} roof"
        yield what, percent(share)
    if point.diagnosis:
        yield "under the roofs alone", place.cause
        if point.expect:
            yield "verdict expected", f"{point.expect}; it is {point.diagnosis.verdict.name}"


def _clock(point: Point) -> Iterator[Detail]:
    clock = point.clock
    if clock is None:
        return
    yield "mode", ", ".join(filter(None, [point.clock_mode, f"asked for {clock.asked}" if clock.asked else ""]))
    yield "held", f"{engineering(clock.compute_hz, 'Hz', 4)}" if clock.compute_hz else "unknown"
    yield "read by", clock.source
    if clock.before_hz and clock.after_hz:
        yield "before, after", f"{engineering(clock.before_hz, 'Hz', 4)}, {engineering(clock.after_hz, 'Hz', 4)}"
    for name, value in clock.readings.known().items():
        if name != "energy_per_launch_j":  # it stands beside the work
            yield quantity(name, value)


NAMES = {
    "host_others_share": "host taken by others",
    "event_reasons": "clocks held back by",
    "power_w": "power, NVML's mean",
    "power_by_energy_w": "power, by the energy counter",
}

UNITS = {"_hz": "Hz", "_bytes": "B", "_w": "W", "_j": "J", "_s": "s", "_bytes_per_s": "B/s"}

ACRONYMS = {word.lower(): word for word in ("NVML", "SM", "MIG", "ECC", "PCIe", "CUDA", "ISA", "FMA")}


def quantity(name: str, value: object) -> Detail:
    """A stored name with its unit in it, and its value, as a person reads them: ``nvml_sm_hz`` is NVML SM, in Hz."""
    ending = max((end for end in UNITS if name.endswith(end)), key=len, default=None)
    words = name.removesuffix(ending or "").removesuffix("_share").removesuffix("_c").replace("_", " ")
    label = NAMES.get(name) or " ".join(ACRONYMS.get(word, word) for word in words.split())
    if isinstance(value, bool):
        return label, "yes" if value else "no"
    if isinstance(value, dict):
        return label, ", ".join(f"{key} {entry}" for key, entry in value.items())
    if not isinstance(value, (int, float)):
        return label, ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    if name.endswith("_share"):
        return label, percent(value)
    if name.endswith("_c"):
        return label, f"{plain(value)} °C"
    return label, engineering(value, UNITS[ending], 4) if ending else plain(value, 6)


def _counted(point: Point) -> Iterator[Detail]:
    counted = point.counted
    if counted is None:
        return
    if counted.unavailable:
        yield "unavailable", counted.unavailable
        return
    if counted.time_s:
        clock = f" at {engineering(counted.sm_hz, 'Hz', 4)}" if counted.sm_hz else ""
        yield "profiled time", f"{engineering(counted.time_s, 's', 4)}{clock}"
    if counted.fraction is not None:
        yield "profiled fraction of the attainable", percent(counted.fraction)
    if counted.flops is not None:
        ratio = f", {plain(counted.flops_ratio)} per useful one" if counted.flops_ratio else ""
        yield "issued FLOPs", f"{engineering(counted.flops, 'FLOP', 4)}{ratio}"
    for level in COUNTED_LEVELS:
        moved, intensity = counted.bytes_at(level), point.intensity_at(level)
        if moved is not None:
            memory = level.upper() if level != "shared" else "shared memory"
            at = f", {plain(intensity)} FLOP/B" if intensity else ""
            yield f"bytes through {memory}", f"{engineering(moved, 'B', 4)}{at}"
    yield from _percentages(point)
    if counted.stalls:
        top = sorted(counted.stalls.items(), key=lambda entry: -entry[1])[:STALLS]
        yield "stalls, cycles per instruction", ", ".join(f"{name} {plain(cycles)}" for name, cycles in top)
    if len(counted.kernels) > 1:
        shares = [f"{k.name}{f' {percent(k.time_share)}' if k.time_share else ''}" for k in counted.kernels]
        yield "kernels, share of time", "; ".join(shares)
    if counted.facts:
        yield "for the diagnosis", "; ".join(" ".join(quantity(name, value)) for name, value in counted.facts.items())
    if counted.missing:
        yield "metrics without a value", "; ".join(f"{name}: {why}" for name, why in counted.missing.items())
    if counted.notes:
        yield "notes", "; ".join(counted.notes)
    how = [f"ncu {counted.ncu_version}"] if counted.ncu_version else []
    how += [f"{counted.passes} passes"] if counted.passes else []
    if how:
        yield "counted by", ", ".join(how)


def _percentages(point: Point) -> Iterator[Detail]:
    counted = point.counted
    assert counted
    for name, value in (
        ("ncu's own SM %", counted.sol_sm_pct),
        ("ncu's own memory %", counted.sol_memory_pct),
        ("ncu's own DRAM %", counted.sol_dram_pct),
    ):
        if value is not None:
            yield name, f"{plain(value)} %"
    if counted.peak_fraction is not None:
        yield "of the dense peak of its precision", percent(counted.peak_fraction)
    if counted.peak_note:
        yield "why they differ", counted.peak_note
    if counted.occupancy_pct is not None:
        possible = f" of {plain(counted.occupancy_possible_pct)} % possible" if counted.occupancy_possible_pct else ""
        limiter = f", limited by {counted.occupancy_limiter}" if counted.occupancy_limiter else ""
        yield "occupancy", f"{plain(counted.occupancy_pct)} %{possible}{limiter}"
    if counted.waves is not None:
        yield "waves of blocks", plain(counted.waves)
    if counted.registers is not None:
        yield "registers per thread", str(counted.registers)
    for kind, sectors in (("load", counted.sectors_per_load), ("store", counted.sectors_per_store)):
        if sectors is not None:
            yield f"sectors per {kind}", plain(sectors)
