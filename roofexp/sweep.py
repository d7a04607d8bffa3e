"""The folder of one sweep: what it says about itself, and the table made from its points. Files are the truth."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import msgspec
import yaml

from roofexp import __version__
from roofexp.clock_facts import mean_power_w, throttled_share
from roofexp.diagnosis.columns import verdict_columns
from roofexp.diagnosis.expected import write_expectations
from roofexp.folders import PACKAGE
from roofexp.machine import Machine, RoofSet
from roofexp.point import Point, read_points, write_atomically, write_json

LIBRARIES = ("hydra-core", "omegaconf", "numpy", "numba", "mlflow", "pandas", "cupy-cuda12x", "cupy-cuda13x", "torch")
SWEEP_FOLDER = "ROOFEXP_SWEEP_FOLDER"  # where all jobs of a sweep write
STOP_MARK = ".stopped"  # fail_fast: no further point of this sweep is measured
JUDGED_WITH = "placing"  # in sweep.yaml: thresholds other than those of the configurations, if judged anew
NO_COUNTERS_MARK = ".no_counters"  # why there are none: jobs that count themselves do not ask again


def describe_sweep(name: str, overrides: list[str], experiment: str) -> dict[str, Any]:
    """What ``sweep.yaml`` says: everything needed to run it again, nothing about whose machine it was."""
    commit, dirty = git_state()
    return {
        "sweep_id": uuid.uuid4().hex[:12],
        "name": name,
        "command": " ".join(["python -m roofexp", *sys.argv[1:]]),
        "overrides": overrides,
        "experiment": experiment,
        "started": now(),
        "git_commit": commit,
        "git_dirty": dirty,
        "versions": versions(),
    }


def write_sweep(folder: Path, sweep: dict[str, Any]) -> None:
    write_atomically(folder / "sweep.yaml", yaml.safe_dump(sweep, sort_keys=False, allow_unicode=True).encode())


def read_sweep(folder: Path) -> dict[str, Any]:
    """What sweep.yaml holds; empty where there is none. Raises ValueError for a file that is not a mapping."""
    file = folder / "sweep.yaml"
    if not file.is_file():
        return {}
    try:
        sweep = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    if not isinstance(sweep, dict):
        raise ValueError(f"{file} is not a sweep's description")
    return sweep


def write_machine(folder: Path, machine: Machine) -> None:
    write_json(folder / f"machine-{machine.machine_id}.json", machine)


def read_machines(folder: Path) -> dict[str, Machine]:
    """The machines that took part, by id."""
    machines = {}
    for file in folder.glob("machine-*.json"):
        try:
            machine = msgspec.json.decode(file.read_bytes(), type=Machine)
        except msgspec.MsgspecError:
            continue
        machines[machine.machine_id] = machine
    return machines


def write_roofs(folder: Path, roofs: RoofSet) -> None:
    """One file per machine and clock mode while jobs run side by side; ``collect_roofs`` makes roofs.json of them."""
    write_json(folder / f"roofs-{roofs.machine.machine_id}_{roofs.clock_mode}.json", roofs)


def read_roofs(folder: Path) -> list[RoofSet]:
    """The roofs that the points of this sweep are placed under."""
    sets = []
    for file in sorted(folder.glob("roofs-*.json")):
        try:
            sets.append(msgspec.json.decode(file.read_bytes(), type=RoofSet))
        except msgspec.MsgspecError:
            continue
    if not sets and (folder / "roofs.json").is_file():
        sets = msgspec.json.decode((folder / "roofs.json").read_bytes(), type=list[RoofSet])
    return sets


def collect(folder: Path, interrupted: bool = False) -> list[Point]:
    """Makes the sweep's own files from its points: points.csv, roofs.json, machines and outcome in sweep.yaml."""
    points = read_points(folder)
    write_points_table(folder, points)
    write_expectations(folder, points)
    roofs = read_roofs(folder)
    if roofs:
        write_json(folder / "roofs.json", roofs)
    sweep = read_sweep(folder)
    if sweep:
        sweep["finished"] = now()
        sweep.pop("status", None)
        if interrupted:
            sweep["status"] = "KILLED"
        sweep["machines"] = {key: msgspec.to_builtins(value) for key, value in read_machines(folder).items()}
        write_sweep(folder, sweep)
    return points


def write_points_table(folder: Path, points: list[Point]) -> None:
    """points.csv: one row per point, unit in every column name."""
    import csv
    import io

    rows = [point_row(point) for point in points]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(folder / "points.csv", text.getvalue().encode())


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
    extra = clock.extra if clock else {}
    return {
        "compute_hz": clock.compute_hz if clock else None,
        "nvml_sm_hz": extra.get("nvml_sm_hz"),
        "clock_asked": clock.asked if clock else None,
        "clocks_locked": extra.get("clocks_locked"),
        "duty_held": extra.get("duty_held"),
        "throttled_share": throttled_share(extra),
        "power_w": mean_power_w(extra),
        "energy_per_launch_j": energy_j,
        "flop_per_j": point.work.flops / energy_j if energy_j and point.work and point.work.flops else None,
        "soak_s": extra.get("soak_s"),
    }


def counted_columns(point: Point) -> dict[str, Any]:
    """What hardware counters say: columns only in a table in which they were wanted."""
    counted = point.counted
    if counted is None:
        return {}
    levels = ("dram", "l2", "l1", "shared")
    return {
        "counters": counted.unavailable or counted.level or "named metrics",
        "issued_flops": counted.flops,
        "issued_per_useful_flop": counted.flops_ratio,
        **{f"counted_{level}_bytes": counted.bytes_at(level) for level in levels},
        "counted_per_useful_byte": _per_useful_byte(point),
        **{f"intensity_{level}_flop_per_byte": point.intensity_at(level) for level in levels},
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


def git_state() -> tuple[str | None, bool | None]:
    """Commit and dirtiness of the program's source tree, or of the working folder for an installed program."""
    stated = os.environ.get("ROOFEXP_GIT_COMMIT")  # where the tree was copied without its history
    if stated:
        return stated.removesuffix("-dirty"), stated.endswith("-dirty")
    for folder in (PACKAGE.parent, Path.cwd()):
        if (folder / ".git").exists():
            commit = _git(folder, "rev-parse", "HEAD")
            changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
            return commit, None if changes is None else bool(changes)
    return None, None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def versions() -> dict[str, str]:
    found = {"roofexp": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
