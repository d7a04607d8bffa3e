"""Points from points.csv alone, for a sweep whose records are not at hand: what the table does not hold is unknown."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any, get_args

import msgspec

from roofexp.errors import BadInputError
from roofexp.point import Bound, Clock, Counted, Flag, Placement, Point, Timing, Traffic, Work

Row = dict[str, str]


def read_points_table(file: Path) -> list[Point]:
    """In the table's order; empty where there is no such file. Raises BadInputError for a table of something else."""
    if not file.is_file():
        return []
    try:
        with file.open(newline="") as text:
            return [_point(row, number) for number, row in enumerate(csv.DictReader(text))]
    except (KeyError, ValueError, csv.Error, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} is not a table of points ({type(error).__name__}: {error})") from error


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
    extra: dict[str, float | str | None] = {name: value for name in names if (value := _number(row, name)) is not None}
    return Clock(
        compute_hz=_number(row, "compute_hz"), source="points.csv", asked=row.get("clock_asked") or None, extra=extra
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
    levels: dict[str, Any] = {
        f"{level}_bytes": _whole(row, f"counted_{level}_bytes") for level in ("dram", "l2", "l1", "shared")
    }
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
