"""The child run of a point: its metrics (SI), params and tags, and for each group of metrics why one is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from roofexp.records.machine import COUNTED_LEVELS
from roofexp.records.point import Counted, Point
from roofexp.records.points_table import clock_columns, verdict_columns
from roofexp.text.numbers import engineering
from roofexp.tracking.run import RunContent, build_content, hash_of, is_finite, milliseconds, sweep_tags

ENERGY_COLUMNS = ("power_w", "energy_per_launch_j", "flop_per_j")


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
    timing = point.timing
    level = point.traffic.level if point.traffic else "dram"
    moved_per_s = per_second(point.traffic.bytes if point.traffic else None, point)
    intensity = _intensity(point)
    return {
        "perf/flops_per_s": point.flops_per_s,
        f"mem/{level}_bytes_per_s": moved_per_s,
        f"ai/{level}_flop_per_byte": intensity,
        "mem/bytes_per_s": moved_per_s,  # at whichever level: all points have these two, so that they can be compared
        "ai/flop_per_byte": intensity,
        "time/event_median_s": point.time_s,
        "time/p5_s": timing.p5_s if timing else None,
        "time/p95_s": timing.p95_s if timing else None,
        "time/samples": timing.samples if timing else None,
        "clock/core_hz" if point.device == "cpu" else "clock/sm_hz": point.compute_hz,
    }


def _clock_values(point: Point) -> dict[str, float | None]:
    """Power, energy and lost time: what a device does not count is no gap of the point."""
    columns = clock_columns(point)
    metrics = {f"clock/{name}": columns[name] for name in ("nvml_sm_hz", "duty_held", "throttled_share")}
    metrics |= {f"energy/{name.removeprefix('energy_')}": columns[name] for name in ENERGY_COLUMNS}
    return {key: value for key, value in metrics.items() if value is not None}


def _counted_values(point: Point, counted: Counted) -> dict[str, float | None]:
    """What the counters gave: a metric that they did not give is no gap of the point."""
    values: dict[str, float | None] = {
        "counted/issued_flops": counted.flops,
        "counted/issued_per_useful_flop": counted.flops_ratio,
        "time/profiled_s": counted.time_s,
        "clock/profiled_sm_hz": counted.sm_hz,
        "clock/profiled_memory_hz": counted.memory_hz,
        "roof/profiled_fraction": counted.fraction,
        "counted/sol_sm_pct": counted.sol_sm_pct,
        "counted/sol_memory_pct": counted.sol_memory_pct,
        **{f"counted/{level}_bytes": counted.bytes_at(level) for level in COUNTED_LEVELS},
        **{f"ai/{level}_flop_per_byte": point.intensity_at(level) for level in COUNTED_LEVELS},
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
    return amount / point.time_s if amount is not None and point.time_s else None


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


def record_hash(point: Point, machine: str | None) -> str:
    """Changes with all that the run shows of a point; ``overhead_s`` is known only after the point was tracked."""
    return hash_of(msgspec.json.encode(msgspec.structs.replace(point, overhead_s=0.0)), str(machine).encode())


def point_content(point: Point, sweep: Mapping[str, Any], machine: str | None) -> RunContent:
    """The child run of a point. ``machine`` is the machine's name, None where it is not known."""
    values = point_values(point)
    start_ms = milliseconds(point.created)
    tags = {
        **_verdict_tags(point),
        **missing_tags(point, values),
        **sweep_tags(sweep),
        "mlflow.note.content": sentence(point, machine),
        "roofexp.kind": "point",
        "roofexp.sweep_id": point.sweep_id,
        "roofexp.job": point.job,
        "roofexp.point_id": point.point_id,
        "roofexp.record_hash": record_hash(point, machine),
        "roofexp.config_hash": point.config_hash,
        "roofexp.device_name": machine,
        "roofexp.machine_id": point.machine_id,
    }
    return build_content(
        name=point_name(point),
        status="FAILED" if point.status == "failed" else "FINISHED",
        times=(start_ms, end_of(point)),
        params=_point_params(point, machine),
        metrics=values,
        tags=tags,
    )


def end_of(point: Point) -> int:
    """UNIX milliseconds; a record is created when its measurement begins."""
    return milliseconds(point.created) + round(point.measuring_s * 1000)


def point_name(point: Point) -> str:
    """gemm-1024-fp32, and what else sets the point apart from the ordinary: hot, a clock mode, swept parameters."""
    parts = [point.kernel, str(point.size), point.precision]
    parts += [point.cache_state] if point.cache_state != "cold" else []
    parts += [point.fill] if point.fill != "normal" else []
    parts += [(point.clock_asked or point.clock_mode).replace(" ", "-")] if point.clock_mode != "observe" else []
    swept = (re.match(r"\+{0,2}kernel\.(?:params|scalars)\.(\w+)=(.+)", text) for text in point.overrides)
    return "-".join(parts + [f"{match[1]}{match[2]}" for match in swept if match])


def _point_params(point: Point, machine: str | None) -> dict[str, Any]:
    params: dict[str, Any] = {
        "kernel": point.kernel,
        "implementation": point.implementation,
        "size": point.size,
        "precision": point.precision,
        "clock_mode": point.clock_mode,
        "clock_asked": point.clock_asked,
        "cache_state": point.cache_state,
        "fill": point.fill,
        "device": point.device,
        "machine": machine or point.machine_id,
    }
    for group, values in (("shape", _own_shape(point)), ("params", point.params), ("scalars", point.scalars)):
        params |= {f"{group}.{key}": value for key, value in values.items()}
    return params


def _own_shape(point: Point) -> dict[str, int]:
    """The dimensions that were asked for themselves: those that follow the size would crowd every comparison."""
    return {key: value for key, value in point.shape.items() if any(f"shape.{key}=" in o for o in point.overrides)}


def _verdict_tags(point: Point) -> dict[str, Any]:
    placement, counted = point.placement, point.counted
    return {
        "roofexp.status": point.status,
        "roofexp.overrides": " ".join(point.overrides) or None,
        "roofexp.shape": " ".join(f"{key}={value}" for key, value in point.shape.items()) or None,
        "roofexp.verdict": point.diagnosis.verdict.name if point.diagnosis else None,
        "roofexp.reason": point.reason,
        "roofexp.reason_kind": point.reason_kind,
        "roofexp.bound": placement.bound if placement else None,
        "roofexp.cause": placement.cause if placement else None,
        "roofexp.next_move": verdict_columns(point)["next_move"],
        "roofexp.roof": placement.roof if placement else None,
        "roofexp.flags": "; ".join(f"{flag.name}: {flag.message}" for flag in point.flags) or None,
        "roofexp.traffic": f"{point.traffic.source} {point.traffic.level}" if point.traffic else None,
        "roofexp.counters": (counted.unavailable or counted.level) if counted else None,
        "roofexp.clock_source": point.clock.source if point.clock else None,
        "roofexp.time_method": point.timing.method if point.timing else None,
    }


def sentence(point: Point, machine: str | None) -> str:
    """The verdict as a person says it; the run's description."""
    where = f"{point.label} on {machine}" if machine else point.label
    if point.status != "ok":
        kind = f" ({point.reason_kind})" if point.reason_kind else ""
        return f"{where}: {point.status}{kind}: {point.reason or 'no reason is recorded'}"
    flags = "; ".join(f"{flag.name} ({flag.message})" for flag in point.flags)
    flagged = f" Flagged: {flags}." if flags else ""
    if point.placement is None:
        return f"{where}: {_rate(point)}, not placed under roofs.{flagged}"
    placement, verdict = point.placement, point.diagnosis.verdict if point.diagnosis else None
    cause, move = (verdict.message, verdict.next_move) if verdict else (placement.cause, placement.next_move)
    return f"{where}: **{placement.bound}** at {_rate(point)}: {cause}. Next: {move}.{flagged}"


def _rate(point: Point) -> str:
    if point.flops_per_s:
        return engineering(point.flops_per_s, "FLOP/s")
    return engineering(point.bytes_per_s, "B/s") if point.bytes_per_s else "an unknown rate"
