"""The machines that took part, and the clocks that their points held against what the driver said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

import msgspec

from roofexp.clock_facts import mean_power_w
from roofexp.machine import Machine
from roofexp.point import Point
from roofexp.report.contents import Contents
from roofexp.report.facts import Fact, quantity
from roofexp.units import engineering, percent, span


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one machine that were asked for one clock. Every text carries its unit; "" is not known."""

    machine: str
    mode: str
    asked: str
    points: int
    held: str  # lowest – highest
    held_median_hz: float | None
    nvml: str
    nvml_median_hz: float | None
    apart: str  # the median of NVML's clock over the clock held
    memory: str
    power: str
    temperature: str
    reasons: str  # what held clocks back, and for how long
    sources: str


def machine_facts(machine: Machine) -> list[Fact]:
    """Everything that was read of it; what could not be read is named as unknown."""
    return list(_facts(machine))


def _facts(machine: Machine) -> Iterator[Fact]:
    yield "machine id", machine.machine_id
    if machine.units:
        yield ("SMs" if machine.device == "cuda" else "cores in use"), str(machine.units)
    if machine.nominal_hz:
        yield "nominal clock", engineering(machine.nominal_hz, "Hz", 4)
    if machine.memory_bytes:
        yield "memory", engineering(machine.memory_bytes, "B", 4)
    for level, size in machine.cache_bytes.items():
        kept = ", survives a launch" if level in machine.kept_levels else ""
        yield f"{level.upper()} cache", f"{engineering(size, 'B', 4)}{kept}"
    for name, value in machine.details.items():
        if value is not None:
            yield quantity(name, value)
    for name, limit in machine.limits.items():
        yield _limit(name, limit, "SM" if machine.device == "cuda" else "core")
    if machine.unknown:
        yield "unknown", "; ".join(machine.unknown)


def _limit(name: str, limit: float, unit: str) -> Fact:
    if name.startswith("flop_per_cycle_"):
        return (
            f"limit, {name.removeprefix('flop_per_cycle_').replace('_', ' ')}",
            f"{limit:g} FLOP per {unit} and cycle",
        )
    if name.endswith("_bytes_per_cycle"):
        return f"limit, {name.removesuffix('_bytes_per_cycle').upper()}", f"{limit:g} B per {unit} and cycle"
    if name.endswith("_bytes_per_s"):
        return f"limit, {name.removesuffix('_bytes_per_s').upper()}", engineering(limit, "B/s", 4)
    return quantity(f"limit, {name}", limit)


def clock_table(contents: Contents) -> list[Clocks]:
    """One row for each machine, clock mode and clock asked for."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in contents.points:
        if point.clock is not None:
            key = (point.machine_id or "", point.clock_mode, point.clock.asked or "")
            groups.setdefault(key, []).append(point)
    return [
        _clocks(contents.machine_name(machine), mode, asked, points)
        for (machine, mode, asked), points in groups.items()
    ]


def _clocks(machine: str, mode: str, asked: str, points: list[Point]) -> Clocks:
    held = [p.clock.compute_hz for p in points if p.clock and p.clock.compute_hz]
    nvml = _extra(points, "nvml_sm_hz")
    return Clocks(
        machine=machine,
        mode=mode,
        asked=asked,
        points=len(points),
        held=_range(held, "Hz"),
        held_median_hz=median(held) if held else None,
        nvml=_range(nvml, "Hz"),
        nvml_median_hz=median(nvml) if nvml else None,
        apart=_apart(points),
        memory=_range(_extra(points, "nvml_memory_hz"), "Hz"),
        power=_range((watts for p in points if p.clock and (watts := mean_power_w(p.clock.extra))), "W"),
        temperature=_range(_extra(points, "temperature_c"), "°C"),
        reasons=_reasons(points),
        sources=", ".join(dict.fromkeys(p.clock.source for p in points if p.clock)),
    )


def _apart(points: list[Point]) -> str:
    """How far NVML's clock was from the one held, at most either way: the median point and the farthest."""
    shares = [
        said / point.clock.compute_hz - 1
        for point in points
        if point.clock and point.clock.compute_hz and isinstance(said := point.clock.extra.get("nvml_sm_hz"), float)
    ]
    if not shares:
        return ""
    farthest = max(shares, key=abs)
    return f"{median(shares):+.1%} (at most {farthest:+.1%})".replace("%", " %")


def _reasons(points: list[Point]) -> str:
    words = {str(p.clock.extra.get("event_reasons") or "") for p in points if p.clock}
    named = sorted({word for text in words for word in text.split()} - {"none"})
    sampled = sum(_extra(points, "sampled_s"))
    lost = {
        name: sum(_extra(points, name))
        for point in points
        if point.clock
        for name in point.clock.extra
        if name.startswith("throttled_")
    }
    shares = [
        f"{name[len('throttled_') : -len('_s')].replace('_', ' ')} {percent(seconds / sampled)} of the time"
        for name, seconds in lost.items()
        if sampled and seconds / sampled > 0.001
    ]
    return ", ".join([*named, *shares]) or ("none" if any(words) else "")


def _extra(points: list[Point], name: str) -> list[float]:
    values = (point.clock.extra.get(name) for point in points if point.clock)
    return [float(value) for value in values if isinstance(value, (int, float))]


def _range(values: Iterable[float], unit: str) -> str:
    known = list(values)
    return span(min(known), max(known), unit) if known else ""
