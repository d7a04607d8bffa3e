"""Points from points.csv alone, for a sweep whose records are not at hand: what the table does not hold is unknown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import msgspec

from roofexp.config.input_files import as_type, read_table
from roofexp.errors import DamagedFileError
from roofexp.records.clock_readings import ClockReadings, mean_power_w, throttled_share
from roofexp.records.files import write_table
from roofexp.records.machine import COUNTED_LEVELS
from roofexp.records.point import Bound, Clock, Counted, Flag, Placement, Point, Timing, Traffic, Work, evidence_text
from roofexp.text.console import one_line

Row = dict[str, str]


def read_points_table(file: Path) -> list[Point]:
    """In the table's order; empty where there is no such file. Raises DamagedFileError for another table."""
    if not file.exists():
        return []
    rows = read_table(file)
    try:
        points = [_point(row, number) for number, row in enumerate(rows)]
    except (KeyError, ValueError, OverflowError) as error:
        raise DamagedFileError(f"{file} is not a table of points ({one_line(error)})") from error
    return list(as_type(msgspec.to_builtins(points), list[Point], str(file)))


def _point(row: Row, number: int) -> Point:
    work = _work(row)
    return Point(
        point_id=row.get("job") or str(number),
        sweep_id="",
        job=int(row.get("job") or number),
        overrides=[],
        status=row["status"] if row["status"] in ("ok", "skipped") else "failed",  # type: ignore[arg-type]
        reason=row.get("reason") or None,
        kernel=row["kernel"],
        implementation=row.get("implementation") or None,
        size=int(float(row["size"])),
        params={key.removeprefix("param."): value for key, value in row.items() if key.startswith("param.") and value},
        precision=row["precision"],
        clock_mode=row.get("clock_mode", ""),
        cache_state=row.get("cache_state", ""),
        fill=row.get("fill", ""),
        device=row.get("device") or None,
        machine_id=row.get("machine_id") or None,
        config_hash="",
        work=work,
        timing=_timing(row),
        clock=_clock(row),
        traffic=_traffic(row),
        counted=_counted(row),
        placement=_placement(row),
        flags=[Flag(name.strip(), "") for name in row.get("flags", "").split(";") if name.strip()],
        created="",
    )


def _clock(row: Row) -> Clock:
    names = ("nvml_sm_hz", "power_w", "energy_per_launch_j", "duty_held", "soak_s")
    readings = msgspec.convert({name: _number(row, name) for name in names}, ClockReadings)
    return Clock(
        compute_hz=_number(row, "compute_hz"),
        source="points.csv",
        asked=row.get("clock_asked") or None,
        readings=readings,
    )


def _work(row: Row) -> Work | None:
    """Older tables name the compulsory bytes only where the traffic is that of the formula."""
    flops = _number(row, "flops")
    if flops is None:
        return None
    useful = _number(row, "useful_bytes")
    if useful is None and row.get("traffic_source") == "modelled":
        useful = _number(row, "traffic_bytes")
    return Work(
        flops=int(flops),
        dram_bytes=int(useful or 0),
        working_set_bytes=int(_number(row, "working_set_bytes") or 0),
    )


def _timing(row: Row) -> Timing | None:
    median_s = _number(row, "time_s")
    if not median_s:
        return None

    def known(name: str) -> float:
        value = _number(row, name)
        return median_s if value is None else value

    return Timing(
        median_s=median_s,
        p5_s=known("time_p5_s"),
        p95_s=known("time_p95_s"),
        low_s=known("time_low_s"),
        high_s=known("time_high_s"),
        samples=int(_number(row, "samples") or 0),
        launches_per_sample=int(_number(row, "launches_per_sample") or 0),
        warmup_s=0.0,
        floor_s=None,
        method="",
    )


def _traffic(row: Row) -> Traffic | None:
    moved, source = _number(row, "traffic_bytes"), row.get("traffic_source")
    if moved is None or source not in ("modelled", "counted"):
        return None
    return Traffic(
        level=row.get("traffic_level", ""), bytes=int(moved), source="counted" if source == "counted" else "modelled"
    )


def _placement(row: Row) -> Placement | None:
    if row.get("bound") not in get_args(Bound):
        return None
    return Placement(
        bound=msgspec.convert(row["bound"], Bound),
        intensity_flop_per_byte=_number(row, "intensity_flop_per_byte"),
        attainable_per_s=_number(row, "attainable_per_s"),
        fraction=_number(row, "fraction"),
        roof=row.get("roof") or None,
        roof_fractions={},
        ridge_flop_per_byte=_number(row, "ridge_flop_per_byte"),
        cause=row.get("cause", ""),
        next_move=row.get("next_move", ""),
    )


def _counted(row: Row) -> Counted | None:
    told = row.get("counters")
    if not told:
        return None
    if told not in ("basic", "hierarchy", "diagnosis", "named metrics"):
        return Counted(unavailable=told)
    levels: dict[str, Any] = {f"{level}_bytes": _whole(row, f"counted_{level}_bytes") for level in COUNTED_LEVELS}
    return Counted(
        level=told,
        flops=_whole(row, "issued_flops"),
        flops_ratio=_number(row, "issued_per_useful_flop"),
        time_s=_number(row, "profiled_time_s"),
        sm_hz=_number(row, "profiled_sm_hz"),
        memory_hz=_number(row, "profiled_memory_hz"),
        fraction=_number(row, "profiled_fraction"),
        sol_sm_pct=_number(row, "sol_sm_pct"),
        sol_memory_pct=_number(row, "sol_memory_pct"),
        peak_fraction=_number(row, "peak_fraction"),
        occupancy_pct=_number(row, "occupancy_pct"),
        registers=_whole(row, "registers"),
        passes=_whole(row, "passes"),
        **levels,
    )


def _number(row: Row, name: str) -> float | None:
    text = row.get(name)
    value = float(text) if text else None
    return value if value is not None and math.isfinite(value) else None


def _whole(row: Row, name: str) -> int | None:
    value = _number(row, name)
    return None if value is None else round(value)


def write_points_table(folder: Path, points: list[Point]) -> None:
    """points.csv: one row per point, unit in every column name."""
    write_table(folder / "points.csv", [point_row(point) for point in points])


def point_row(point: Point) -> dict[str, Any]:
    """A point as a flat row; what is unknown is None."""
    timing, work, traffic, place = point.timing, point.work, point.traffic, point.placement
    return {
        "job": point.job,
        "kernel": point.kernel,
        "implementation": point.implementation,
        "size": point.size,
        "precision": point.precision,
        "clock_mode": point.clock_mode,
        "cache_state": point.cache_state,
        "fill": point.fill,
        "device": point.device,
        "machine_id": point.machine_id,
        "status": point.status,
        "reason": point.reason,
        "time_s": timing.median_s if timing else None,
        "time_mean_s": timing.mean_s if timing else None,
        "time_p5_s": timing.p5_s if timing else None,
        "time_p95_s": timing.p95_s if timing else None,
        "time_low_s": timing.low_s if timing else None,
        "time_high_s": timing.high_s if timing else None,
        "samples": timing.samples if timing else None,
        "launches_per_sample": timing.launches_per_sample if timing else None,
        "flops": work.flops if work else None,
        "traffic_bytes": traffic.bytes if traffic else None,
        "traffic_level": traffic.level if traffic else None,
        "traffic_source": traffic.source if traffic else None,
        "useful_bytes": work.dram_bytes if work else None,
        "working_set_bytes": work.working_set_bytes if work else None,
        "flops_per_s": point.flops_per_s,
        "bytes_per_s": point.bytes_per_s,
        "intensity_flop_per_byte": place.intensity_flop_per_byte if place else None,
        "attainable_per_s": place.attainable_per_s if place else None,
        "fraction": place.fraction if place else None,
        "roof": place.roof if place else None,
        "bound": place.bound if place else None,
        "cause": place.cause if place else None,
        **verdict_columns(point),
        "ridge_flop_per_byte": place.ridge_flop_per_byte if place else None,
        **clock_columns(point),
        **counted_columns(point),
        "error": point.check.error if point.check else None,
        "flags": "; ".join(flag.name for flag in point.flags) or None,
        **{f"param.{key}": value for key, value in point.params.items()},
    }


def clock_columns(point: Point) -> dict[str, Any]:
    """What was asked of the clocks and what was held; power and energy where the device counts them."""
    clock, energy_j = point.clock, point.joules
    readings = clock.readings if clock else ClockReadings()
    return {
        "compute_hz": clock.compute_hz if clock else None,
        "nvml_sm_hz": readings.nvml_sm_hz,
        "clock_asked": clock.asked if clock else None,
        "clocks_locked": {True: "yes", False: "no", None: None}[readings.clocks_locked],
        "duty_held": readings.duty_held,
        "throttled_share": throttled_share(readings),
        "power_w": mean_power_w(readings),
        "energy_per_launch_j": energy_j,
        "flop_per_j": point.work.flops / energy_j if energy_j and point.work and point.work.flops else None,
        "soak_s": readings.soak_s,
    }


def counted_columns(point: Point) -> dict[str, Any]:
    """What hardware counters say: columns only in a table in which they were wanted."""
    counted = point.counted
    if counted is None:
        return {}
    return {
        "counters": counted.unavailable or counted.level or "named metrics",
        "issued_flops": counted.flops,
        "issued_per_useful_flop": counted.flops_ratio,
        **{f"counted_{level}_bytes": counted.bytes_at(level) for level in COUNTED_LEVELS},
        "counted_per_useful_byte": _per_useful_byte(point),
        **{f"intensity_{level}_flop_per_byte": point.intensity_at(level) for level in COUNTED_LEVELS},
        "profiled_time_s": counted.time_s,
        "profiled_sm_hz": counted.sm_hz,
        "profiled_memory_hz": counted.memory_hz,
        "profiled_fraction": counted.fraction,
        "sol_sm_pct": counted.sol_sm_pct,
        "sol_memory_pct": counted.sol_memory_pct,
        "peak_fraction": counted.peak_fraction,
        "occupancy_pct": counted.occupancy_pct,
        "registers": counted.registers,
        "kernels": len(counted.kernels) or None,
        "passes": counted.passes,
    }


def _per_useful_byte(point: Point) -> float | None:
    """DRAM traffic that was counted over the least that the formula asks for."""
    if point.counted is None or point.counted.dram_bytes is None or point.work is None or not point.work.dram_bytes:
        return None
    return point.counted.dram_bytes / point.work.dram_bytes


def verdict_columns(point: Point) -> dict[str, Any]:
    """The verdict, its numbers with their thresholds, and what to do; without one, what the placement says to do."""
    diagnosis, place = point.diagnosis, point.placement
    verdict = diagnosis.verdict if diagnosis else None
    return {
        "verdict": verdict.name if verdict else None,
        "verdict_message": verdict.message if verdict else None,
        "verdict_evidence": evidence_text(verdict.evidence) if verdict else None,
        "other_causes": "; ".join(cause.name for cause in diagnosis.others) if diagnosis and diagnosis.others else None,
        "next_move": verdict.next_move if verdict else place.next_move if place else None,
    }
