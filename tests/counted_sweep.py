"""A sweep as a GPU would have left it, made of files alone: timed and placed, with modelled traffic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from roofexp.config.plain import config_hash, plain
from roofexp.config.schema import register
from roofexp.config.settings import PlacingSettings
from roofexp.kernel.load import kernel_of
from roofexp.placing.roofline import model_traffic, place
from roofexp.records.archive import read_sweep_points
from roofexp.records.machine import Machine, Roof, RoofSet
from roofexp.records.point import Clock, Point, Timing, write_point
from roofexp.records.sweep_folder import write_machine, write_roofs, write_sweep
from tests.kernel_cases import CONF

MACHINE = Machine(
    machine_id="gpu-0123456789",
    device="cuda",
    name="NVIDIA H200",
    units=132,
    nominal_hz=1.98e9,
    memory_bytes=150_000_000_000,
    cache_bytes={"l1": 30_000_000, "l2": 60_000_000},
    kept_levels=["l2"],
    details={"architecture": "9.0"},
)
ROOFS = RoofSet(
    machine=MACHINE,
    clock_mode="observe",
    code_version="1",
    measured="2026-11-30",
    seconds=1.0,
    roofs=[
        Roof(name="dram", kind="bandwidth", level="dram", rate=4.5e12),
        Roof(name="l2", kind="bandwidth", level="l2", rate=7e12),
        Roof(name="fp32 fma", kind="compute", precision="fp32", rate=60e12, clock_domain="compute", compute_hz=1.98e9),
        Roof(name="bf16 mma", kind="compute", precision="bf16", rate=8e14, clock_domain="compute", compute_hz=1.98e9),
        Roof(name="launch", kind="launch", rate=2e-6),
    ],
)


def make_sweep(folder: Path, *jobs: list[str], machine: Machine = MACHINE, folders: Sequence[Path] = ()) -> Path:
    """One job for each list of overrides, in folders 0, 1, ...; ``folders`` hold configuration beside the project's."""
    folder.mkdir(parents=True)
    write_sweep(folder, {"sweep_id": "s1", "name": "made", "arguments": [], "overrides": []})
    write_machine(folder, machine)
    write_roofs(folder, msgspec.structs.replace(ROOFS, machine=machine))
    register()
    search = ",".join(f"file://{own}" for own in folders)
    for number, overrides in enumerate(jobs):
        with initialize_config_dir(str(CONF), version_base=None):
            config = compose("config", overrides=["device=cuda", f"hydra.searchpath=[{search}]", *overrides])
        _write_job(folder / str(number), config, folders, timed_point(plain(config), number, overrides, machine))
    return folder


def _write_job(folder: Path, config: DictConfig, folders: Sequence[Path], point: Point) -> None:
    (folder / ".hydra").mkdir(parents=True)
    OmegaConf.save(config, folder / ".hydra/config.yaml")
    sources = [{"path": str(own), "schema": "file", "provider": "command-line"} for own in folders]
    runtime = {"config_sources": [*sources, {"path": str(CONF), "schema": "file", "provider": "main"}]}
    OmegaConf.save(OmegaConf.create({"hydra": {"runtime": runtime}}), folder / ".hydra/hydra.yaml")
    write_point(folder, point)


def timed_point(
    values: dict[str, Any], number: int, overrides: list[str], machine: Machine, time_s: float = 20e-6
) -> Point:
    kernel, cold = kernel_of(values), values["cache"]["state"] == "cold"
    point = Point(
        point_id=f"0123456789{number:02x}",
        sweep_id="s1",
        job=number,
        overrides=overrides,
        status="ok",
        kernel=kernel.name,
        implementation=next(name for name in ("cuda", "cupy", "torch") if name in kernel.implementations),
        size=kernel.size,
        shape=kernel.shape,
        params=kernel.params,
        precision=kernel.precision,
        clock_mode=values["clock"]["mode"],
        cache_state=values["cache"]["state"],
        fill="normal",
        seed=7,
        device="cuda",
        machine_id=machine.machine_id,
        config_hash=config_hash(values),
        work=kernel.work,
        timing=Timing(
            median_s=time_s, p5_s=time_s, p95_s=time_s, low_s=time_s, high_s=time_s, samples=9, launches_per_sample=1,
            warmup_s=0.1, floor_s=2e-6, method="events",
        ),
        clock=Clock(compute_hz=1.9e9, source="cycle counter"),
        traffic=model_traffic(kernel.work, machine, cold),
        created="2026-11-30T00:00:00+00:00",
    )  # fmt: skip
    placement, flags = place(point, ROOFS, PlacingSettings(**values["placing"]))
    return msgspec.structs.replace(point, placement=placement, flags=flags)


def points_of(folder: Path) -> list[Point]:
    return read_sweep_points(folder)
