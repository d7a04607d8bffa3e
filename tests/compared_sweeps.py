"""Made points and recorded samples as the two sides of a comparison, in memory or as folders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from roofexp.compare.matching import Side
from roofexp.config.settings import PlacingSettings
from roofexp.placing.roofline import place
from roofexp.records.archive import read_sample_times, read_sweep_points
from roofexp.records.point import Clock, Flag, Point, Timing, Traffic, Work, write_point
from roofexp.records.samples import median, median_interval, quantile
from roofexp.records.sweep_folder import write_machine, write_roofs, write_sweep
from tests.counted_sweep import MACHINE, ROOFS

RECORDED = Path(__file__).parent / "data/samples/cpu"
PLACING = PlacingSettings(on_roof=0.85, far_below=0.30, above_roof=1.02, near_floor=3.0)
WORK = {"gemm": (2 * 4096**3, 3 * 4 * 4096**2), "copy": (0, 1 << 30), "dot": (1 << 28, 1 << 30)}


def quiet(time_s: float, count: int = 30, seed: int = 1, noise: float = 0.002) -> list[float]:
    """Samples of a quiet machine: a normal core and a few late ones."""
    draw = random.Random(f"{seed} {time_s}")
    return [time_s * (1 + draw.gauss(0, noise) + (0.02 if draw.random() < 0.03 else 0)) for _ in range(count)]


def timing_of(times: Sequence[float]) -> Timing:
    ordered = sorted(times)
    low, high = median_interval(ordered)
    return Timing(
        median_s=median(ordered), p5_s=quantile(ordered, 0.05), p95_s=quantile(ordered, 0.95), low_s=low, high_s=high,
        samples=len(ordered), launches_per_sample=1, warmup_s=0.1, floor_s=2e-6, method="events",
    )  # fmt: skip


def made(kernel: str, times: Sequence[float], job: int = 0, hz: float | None = 1.9e9, **changes: Any) -> Point:
    """A timed point under the roofs of ``tests.counted_sweep``."""
    flops, moved = WORK[kernel]
    point = Point(
        point_id=f"{job:012x}",
        sweep_id="s1",
        job=job,
        overrides=[],
        status="ok",
        kernel=kernel,
        implementation="cuda",
        size=4096,
        precision="fp32",
        clock_mode="observe",
        cache_state="cold",
        fill="normal",
        device="cuda",
        machine_id=MACHINE.machine_id,
        config_hash="c",
        work=Work(flops=flops, dram_bytes=moved, working_set_bytes=moved),
        timing=timing_of(times),
        clock=Clock(compute_hz=hz, source="cycle counter"),
        traffic=Traffic(level="dram", bytes=moved, source="modelled"),
        created="2026-11-30T00:00:00+00:00",
        measuring_s=1.5,
    )
    point = msgspec.structs.replace(point, **changes)
    placement, flags = place(point, ROOFS, PLACING)
    return msgspec.structs.replace(point, placement=placement, flags=[*point.flags, *flags])


def failed(kernel: str, job: int, status: str = "failed", reason: str = "wrong result") -> Point:
    blank = made(kernel, [1.0], job)
    return msgspec.structs.replace(
        blank, status=status, reason=reason, timing=None, placement=None, traffic=None, clock=None, flags=[]
    )


def side(
    name: str, points: Sequence[Point], samples: dict[int, list[float]] | None = None, folder: Path | None = None
) -> Side:
    return Side(
        name=name,
        folder=folder or Path(name),
        points=list(points),
        samples=samples or {},
        machines={MACHINE.machine_id: MACHINE},
        roofs=[ROOFS],
        description={"git_commit": name * 10},
    )


def sweep_of(name: str, timed: Sequence[tuple[str, list[float], dict[str, Any]]]) -> Side:
    """A side with one point for each kernel, its samples and what else sets it apart."""
    points = [made(kernel, times, job, **changes) for job, (kernel, times, changes) in enumerate(timed)]
    return side(name, points, {job: times for job, (_, times, _) in enumerate(timed)})


def written(folder: Path, found: Side) -> Path:
    """The side as a folder that a sweep would have left."""
    folder.mkdir(parents=True)
    write_sweep(folder, {"sweep_id": folder.name, "name": "made", "overrides": [], "git_commit": "0" * 40})
    write_machine(folder, MACHINE)
    write_roofs(folder, ROOFS)
    for point in found.points:
        own = folder / str(point.job)
        own.mkdir()
        write_point(own, msgspec.structs.replace(point, sweep_id=folder.name))
        times = found.samples.get(point.job)
        if times:
            lines = [f"{i},{i * 1e-3},{value!r},1" for i, value in enumerate(times)]
            (own / "samples.csv").write_text("\n".join(["sample,at_s,time_s,launches", *lines]) + "\n")
    return folder


def recorded() -> list[tuple[Point, list[float]]]:
    """Every recorded series with its point. Flags are taken off: they would excuse what the test must find out."""
    times = read_sample_times(RECORDED)
    points = {point.job: point for point in read_sweep_points(RECORDED)}
    return [(msgspec.structs.replace(points[job], flags=[]), times[job]) for job in sorted(times)]


def again(times: Sequence[float], draw: random.Random) -> list[float]:
    """Another run of the same thing: stretches of a recorded series, so that what hangs together stays together."""
    length = max(2, 2 * round(len(times) ** (1 / 3)))
    found: list[float] = []
    while len(found) < len(times):
        start = draw.randrange(len(times))
        found += [times[(start + i) % len(times)] for i in range(length)]
    return found[: len(times)]


def flagged(point: Point, *names: str) -> Point:
    return msgspec.structs.replace(point, flags=[Flag(name, "made") for name in names])
