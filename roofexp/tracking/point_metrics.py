"""The metrics of a point, and for each group of them why it lacks a number. All units are SI."""

from __future__ import annotations

from collections.abc import Mapping

from roofexp.point import Counted, Point
from roofexp.sweep import clock_columns
from roofexp.tracking.run import is_finite


def point_values(point: Point) -> dict[str, float | None]:
    """Every metric that a point of this kind should have; None, NaN or inf where it has no such number."""
    values: dict[str, float | None] = {}
    if point.status == "ok" or point.timing is not None:
        values |= _placed_values(point) | _timed_values(point)  # the first is what MLflow's comparison shows at first
    if point.work is not None:
        values |= {"work/flops": point.work.flops, "work/dram_bytes": point.work.dram_bytes}
    if point.clock is not None:
        values |= _clock_values(point)
    if point.counted is not None and point.counted.unavailable is None:
        values |= _counted_values(point, point.counted)
    if point.status == "ok" or point.check is not None:
        values["check/error"] = point.check.error if point.check else None
    return values


def _timed_values(point: Point) -> dict[str, float | None]:
    timing, clock = point.timing, point.clock
    level = point.traffic.level if point.traffic else "dram"
    flops = point.work.flops if point.work else None
    moved_per_s = per_second(point.traffic.bytes if point.traffic else None, point)
    intensity = _intensity(point)
    return {
        "perf/flops_per_s": per_second(flops or None, point),
        f"mem/{level}_bytes_per_s": moved_per_s,
        f"ai/{level}_flop_per_byte": intensity,
        "mem/bytes_per_s": moved_per_s,  # at whichever level: all points have these two, so that they can be compared
        "ai/flop_per_byte": intensity,
        "time/event_median_s": timing.median_s if timing else None,
        "time/p5_s": timing.p5_s if timing else None,
        "time/p95_s": timing.p95_s if timing else None,
        "time/samples": timing.samples if timing else None,
        "clock/core_hz" if point.device == "cpu" else "clock/sm_hz": clock.compute_hz if clock else None,
    }


def _clock_values(point: Point) -> dict[str, float | None]:
    """Power, energy and lost time: what a device does not count is no gap of the point."""
    columns = clock_columns(point)
    values = {
        "clock/nvml_sm_hz": columns["nvml_sm_hz"],
        "clock/duty_held": columns["duty_held"],
        "clock/throttled_share": columns["throttled_share"],
        "energy/power_w": columns["power_w"],
        "energy/per_launch_j": columns["energy_per_launch_j"],
        "energy/flop_per_j": columns["flop_per_j"],
    }
    return {key: value for key, value in values.items() if value is not None}


def _counted_values(point: Point, counted: Counted) -> dict[str, float | None]:
    """What the counters gave: a metric that they did not give is no gap of the point."""
    levels = ("dram", "l2", "l1", "shared")
    values: dict[str, float | None] = {
        "counted/issued_flops": counted.flops,
        "counted/issued_per_useful_flop": counted.flops_ratio,
        "time/profiled_s": counted.time_s,
        "clock/profiled_sm_hz": counted.sm_hz,
        "clock/profiled_memory_hz": counted.memory_hz,
        "roof/profiled_fraction": counted.fraction,
        "counted/sol_sm_pct": counted.sol_sm_pct,
        "counted/sol_memory_pct": counted.sol_memory_pct,
        **{f"counted/{level}_bytes": counted.bytes_at(level) for level in levels},
        **{f"ai/{level}_flop_per_byte": point.intensity_at(level) for level in levels if counted.bytes_at(level)},
    }
    return {key: value for key, value in values.items() if value is not None}


def _placed_values(point: Point) -> dict[str, float | None]:
    placement = point.placement
    if placement is None:
        return {"roof/fraction": None}
    values: dict[str, float | None] = {
        "roof/fraction": placement.fraction,
        "roof/attainable_per_s": placement.attainable_per_s,
    }
    if point.work is not None and point.work.flops:
        values["roof/ridge_flop_per_byte"] = placement.ridge_flop_per_byte
    return values | {f"roof_fraction/{roof}": value for roof, value in placement.roof_fractions.items()}


def per_second(amount: float | None, point: Point) -> float | None:
    """An amount of one launch as a rate at the event time; None where either is not known."""
    return amount / point.timing.median_s if amount is not None and point.timing and point.timing.median_s else None


def flops_per_s(point: Point) -> float | None:
    """None for a kernel without FLOPs, as for one without a time."""
    return per_second((point.work.flops if point.work else None) or None, point)


def _intensity(point: Point) -> float | None:
    if point.placement is not None and point.placement.intensity_flop_per_byte is not None:
        return point.placement.intensity_flop_per_byte
    if point.work is None or point.traffic is None:
        return None
    return point.work.flops / point.traffic.bytes if point.traffic.bytes else None


def missing_tags(point: Point, values: Mapping[str, float | None]) -> dict[str, str]:
    """``roofexp.missing.ai`` and so on: for each group of metrics why it lacks a number."""
    reasons: dict[str, list[str]] = {}
    for key, value in values.items():
        if not is_finite(value):
            reasons.setdefault(key.split("/")[0], []).append(_why_missing(key, value, point))
    return {f"roofexp.missing.{group}": "; ".join(dict.fromkeys(texts)) for group, texts in reasons.items()}


def _why_missing(key: str, value: float | None, point: Point) -> str:
    group = key.split("/")[0]
    traffic, work = point.traffic, point.work
    if group == "ai" and (traffic.bytes == 0 if traffic else work is not None and work.dram_bytes == 0):
        return f"undefined: no {(traffic.level if traffic else 'dram').upper()} traffic"
    if value is not None:
        return f"not finite: {key} is {value}"
    if point.timing is None and group in ("perf", "mem", "time"):
        return "unknown: not timed"
    if group == "perf" and work is not None and work.flops == 0:
        return "undefined: a kernel without FLOPs"
    reasons = {
        "ai": "unknown: the traffic is not known",
        "mem": "unknown: the traffic is not known",
        "perf": "unknown: the work is not known",
        "clock": "unknown: the clock could not be read",
        "check": "unchecked: the kernel has no reference",
        "roof": "unknown: not placed under roofs" if point.placement is None else f"unknown: {key} has no value",
    }
    return reasons.get(group, f"unknown: {key} has no value")
