"""What MLflow is told about a point: its child run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from roofexp.diagnosis.columns import verdict_columns
from roofexp.point import Point
from roofexp.tracking.point_metrics import missing_tags, per_second, point_values
from roofexp.tracking.run import RunContent, build_content, hash_of, milliseconds, sweep_tags
from roofexp.units import engineering


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
    asked = point.clock.asked if point.clock else None
    parts += [(asked or point.clock_mode).replace(" ", "-")] if point.clock_mode != "observe" else []
    swept = (re.match(r"\+{0,2}kernel\.(?:params|scalars)\.(\w+)=(.+)", text) for text in point.overrides)
    return "-".join(parts + [f"{found[1]}{found[2]}" for found in swept if found])


def _point_params(point: Point, machine: str | None) -> dict[str, Any]:
    params: dict[str, Any] = {
        "kernel": point.kernel,
        "implementation": point.implementation,
        "size": point.size,
        "precision": point.precision,
        "clock_mode": point.clock_mode,
        "clock_asked": point.clock.asked if point.clock else None,
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
    flops = per_second(point.work.flops if point.work else None, point)
    moved = per_second(point.traffic.bytes if point.traffic else None, point)
    if flops:
        return engineering(flops, "FLOP/s")
    return engineering(moved, "B/s") if moved else "an unknown rate"
