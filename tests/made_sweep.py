"""A sweep's folder with made records of every kind: placed, diagnosed, flagged, counted, failed, skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from roofexp.records.clock_readings import ClockReadings
from roofexp.records.machine import RoofCheck, RoofSet, Sustained
from roofexp.records.point import (
    Cause,
    Check,
    Clock,
    Counted,
    Diagnosis,
    Evidence,
    Flag,
    Placement,
    Point,
    Timing,
    Traffic,
    Work,
    write_point,
)
from roofexp.records.sweep_folder import write_machine, write_roofs, write_sweep
from roofexp.run.finish import collect
from tests.made_points import many, roofs

SWEEP = {
    "sweep_id": "made",
    "name": "made",
    "command": "python -m roofexp kernel=gemm,saxpy size=range(1,9) -m",
    "arguments": ["kernel=gemm,saxpy", "size=range(1,9)"],
    "plain_run": False,
    "started": "2026-01-02T03:04:05.000+00:00",
    "git_commit": "0123456789abcdef0123456789abcdef01234567",
    "git_dirty": True,
    "versions": {"roofexp": "0.1.0", "python": "3.12.3"},
}


def make_sweep(folder: Path, count: int) -> Path:
    """``count`` records with their samples in folders 0, 1, ..., the table and the roofs; no figures."""
    folder.mkdir(parents=True)
    write_sweep(folder, SWEEP)
    write_machine(folder, checked_roofs().machine)
    write_roofs(folder, checked_roofs())
    for job, row in enumerate(many(count)):
        own = folder / str(job)
        own.mkdir()
        write_point(own, made_point(job, row))
        (own / "samples.csv").write_text("sample,at_s,time_s,launches\n0,0.0,1e-5,1\n")
    collect(folder)
    return folder


def checked_roofs() -> RoofSet:
    """The made roofs with all that can be said of one."""
    found = roofs()
    first, *others = found.roofs
    checks = [
        RoofCheck(name="limit", passed=True, expected=first.limit, found=first.rate),
        RoofCheck(name="instructions", passed=False, message="a loop was not unrolled"),
    ]
    sustained = Sustained(rate=0.9 * first.rate, compute_hz=2.9e9, power_w=65.0, seconds=30.0, event_reasons="power")
    first = msgspec.structs.replace(first, checks=checks, sustained=sustained, sheet=1.1 * first.rate)
    last = msgspec.structs.replace(others[-2], incomplete="the array did not fit")
    return msgspec.structs.replace(
        found, roofs=[first, *others[:-2], last, others[-1]], disturbed=True, unavailable={"fp16 fma": "no such unit"}
    )


def made_point(job: int, row: dict[str, Any]) -> Point:
    """Every 17th failed, every 23rd skipped, every 3rd with a diagnosis from counters."""
    if job % 17 == 5:
        return _without_time(job, row, "failed", "wrong result", f"error {0.1 * job:.3g} is above 1e-5")
    if job % 23 == 7:
        return _without_time(job, row, "skipped", "precision", "this device has no unit for it")
    time_s = row["time_s"]
    return Point(
        **_identity(job, row),
        status="ok",
        shape={"m": row["size"], "n": row["size"], "k": row["size"]},
        work=Work(flops=row["flops"], dram_bytes=row["traffic_bytes"], working_set_bytes=row["traffic_bytes"]),
        check=Check(error=1e-7, tolerance=1e-5),
        timing=Timing(
            median_s=time_s, p5_s=row["time_p5_s"], p95_s=row["time_p95_s"], low_s=0.998 * time_s,
            high_s=1.003 * time_s, samples=37, launches_per_sample=4, warmup_s=0.2, floor_s=2e-7, method="made",
        ),
        clock=Clock(
            compute_hz=row["compute_hz"] - 1e6 * (job % 50),
            source="made",
            asked="1200 MHz locked" if job % 2 else None,
            readings=ClockReadings(
                nvml_sm_hz=3.3e9, nvml_memory_hz=2.6e9, power_w=300.0 + job % 7, temperature_c=50.0,
                event_reasons="sw_power_cap" if job % 5 == 0 else "none", sampled_s=1.5,
                throttled_power_s=0.01, host_others_share=0.02, energy_per_launch_j=1e-3,
            ),
        ),
        traffic=Traffic(level="dram", bytes=row["traffic_bytes"], source="counted" if job % 2 else "modelled"),
        counted=_counted(row) if job % 2 else Counted(unavailable="ERR_NVGPUCTRPERM: ask the administrator"),
        placement=_placement(row),
        diagnosis=_diagnosis(row) if job % 3 == 0 else None,
        flags=[Flag(name, f"{name} by {job % 10} %") for name in (row["flags"] or "").split("; ") if name],
    )  # fmt: skip


def _identity(job: int, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "point_id": f"point{job}",
        "sweep_id": "made",
        "job": job,
        "overrides": [f"kernel={row['kernel']}", f"size={row['size']}", f"precision={row['precision']}"],
        "kernel": row["kernel"],
        "implementation": row["implementation"],
        "size": row["size"],
        "params": {"tile": 16},
        "precision": row["precision"],
        "clock_mode": row["clock_mode"],
        "cache_state": row["cache_state"],
        "fill": row["fill"],
        "seed": 7,
        "device": "cpu",
        "machine_id": "cafe",
        "config_hash": f"{job:016x}",
        "created": "2026-01-02T03:04:06.000+00:00",
    }


def _without_time(job: int, row: dict[str, Any], status: Any, kind: str, reason: str) -> Point:
    return Point(**_identity(job, row), status=status, reason_kind=kind, reason=reason)


def _placement(row: dict[str, Any]) -> Placement:
    return Placement(
        bound=row["bound"],
        intensity_flop_per_byte=row["intensity_flop_per_byte"],
        attainable_per_s=row["attainable_per_s"],
        fraction=row["fraction"],
        roof=row["roof"],
        roof_fractions={"dram": row["fraction"], "compute": 0.5 * row["fraction"]},
        ridge_flop_per_byte=10.0,
        cause=row["cause"],
        next_move=row["next_move"],
    )


def _counted(row: dict[str, Any]) -> Counted:
    return Counted(
        level="diagnosis",
        flops=row["flops"],
        flops_ratio=1.0,
        dram_bytes=row["traffic_bytes"],
        l2_bytes=2 * row["traffic_bytes"],
        time_s=1.02 * row["time_s"],
        sm_hz=3.1e9,
        occupancy_pct=48.0,
        occupancy_possible_pct=50.0,
        occupancy_limiter="registers",
        registers=64,
        facts={"pipe_fma_pct": 12.0},
        stalls={"long scoreboard": 4.1, "wait": 1.0, "barrier": 0.2},
        passes=9,
        ncu_version="2025.3.1",
    )


def _diagnosis(row: dict[str, Any]) -> Diagnosis:
    waiting = Cause(
        name="long scoreboard",
        message="warps wait for memory",
        next_move="more loads in flight",
        score=0.8,
        evidence=[
            Evidence(what="stall cycles per instruction", value=4.1, threshold=2.0),
            Evidence(what="DRAM <at> work", value=41.0, threshold=60.0, unit="%"),
        ],
    )
    occupancy = Cause(name="occupancy", message="48 % of 50 % possible", next_move="fewer registers", score=0.2)
    return Diagnosis(verdict=waiting, others=[occupancy], basis="counters")
