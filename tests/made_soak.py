"""A made-up soak: a power-limited GPU whose clock sinks from an idle start, for tests of the figure only."""

from __future__ import annotations

import math
import random
from typing import Any

from roofexp.measure.clock_flags import throttle_flags
from roofexp.measure.clock_summary import clock_facts
from roofexp.measure.sampler import summarised
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.machine import Machine, Roof, RoofSet
from roofexp.records.point import Clock, Point, Traffic, Work
from roofexp.records.samples import Samples

SIZE = 8192
WORK = Work(flops=2 * SIZE**3, dram_bytes=3 * SIZE * SIZE * 2, working_set_bytes=3 * SIZE * SIZE * 2)
MACHINE = Machine(
    machine_id="gpu-made", device="cuda", name="Example GPU", units=132, nominal_hz=1.98e9, memory_bytes=144 * 10**9,
    details={"power_limit_w": 700.0},
)  # fmt: skip
ROOFS = RoofSet(
    machine=MACHINE, clock_mode="observe", code_version="1", measured="2026-01-02T03:04:05", seconds=9.0,
    roofs=[
        Roof(
            name="bf16 wgmma", kind="compute", precision="bf16", rate=830e12, compute_hz=1.62e9, clock_domain="compute"
        ),
        Roof(name="dram", kind="bandwidth", level="dram", rate=4.5e12),
    ],
)  # fmt: skip


def made_soak(seconds: float = 90.0, sinks: bool = True) -> tuple[Point, list[dict[str, Any]], list[dict[str, Any]]]:
    """The point, and the rows of its samples.csv and clocks.csv as csv.DictReader gives them."""
    noise = random.Random(1)

    def clock_hz(at_s: float) -> float:
        if at_s < 0.5:
            return 345e6
        return 1.62e9 - (0.2e9 * (1 - math.exp(-(at_s - 0.5) / 3)) if sinks else 0) + noise.gauss(0, 3e6)

    def power_w(at_s: float) -> float:
        if at_s < 0.5:
            return 122.0
        return min(698.0 if sinks else 630.0, 122 + 600 * (1 - math.exp(-(at_s - 0.5) / 0.3))) + noise.gauss(0, 2)

    times, stamps, at_s = [], [], 0.5
    while at_s < seconds + 0.5:
        times.append(WORK.flops / (0.93 * 830e12 * clock_hz(at_s) / 1.62e9))
        stamps.append(at_s)
        at_s += 16 * times[-1] + 1e-4
    rows, energy_j, capped_s, lap = [], 0.0, 0.0, 0.75
    for i in range(int((seconds + 0.5) / 0.02)):
        at_s = 0.02 * i
        capped = sinks and at_s > 1.2
        energy_j += power_w(at_s) * 0.02
        capped_s += 0.02 if capped else 0
        row: dict[str, Any] = {
            "at_s": at_s, "nvml_sm_hz": 345e6 if at_s < 0.5 else 1.98e9 - (0.42e9 if capped else 0),
            "nvml_memory_hz": 3.201e9, "power_w": power_w(at_s - 0.1),
            "temperature_c": 34 + 24 * (1 - math.exp(-at_s / 25)),
            "event_reasons": "idle" if at_s < 0.5 else "sw_power_cap" if capped else "none",
            "throttled_power_s": round(capped_s, 6),
            "energy_j": round(energy_j, 3) if i % 5 == 0 else rows[-1]["energy_j"],  # the counter moves in steps
        }  # fmt: skip
        if at_s >= lap:
            row["compute_hz"], lap = clock_hz(at_s), lap + 0.25
        rows.append(row)
    samples = Samples(times, stamps, 16, seconds, seconds, settled_from_s=10.5 if sinks else 0.6)
    readings = ClockReadings(
        sampled_s=seconds + 0.5, throttled_power_s=capped_s, energy_counter="NVML's energy counter"
    )
    clock, flags = clock_facts(
        Clock(compute_hz=1.5e9, source="cycle counter", readings=readings), rows, samples, cold=False
    )
    point = Point(
        point_id="p", sweep_id="s", job=0, overrides=[], status="ok", kernel="gemm", size=SIZE, precision="bf16",
        clock_mode="observe", cache_state="hot", fill="normal", device="cuda", machine_id="gpu-made", config_hash="",
        created="2026-01-02T03:04:05", work=WORK,
        traffic=Traffic(level="dram", bytes=WORK.dram_bytes, source="modelled"), clock=clock,
        timing=summarised(samples, 10.5, None, "events around a graph"),
        flags=[*flags, *throttle_flags(clock.readings)],
    )  # fmt: skip
    texts = [
        {"sample": i, "at_s": str(a), "time_s": str(t), "launches": "16"}
        for i, (a, t) in enumerate(zip(stamps, times, strict=True))
    ]
    return (
        point,
        texts,
        [
            {key: str(value) for key, value in row.items()} | {"compute_hz": str(row.get("compute_hz", ""))}
            for row in rows
        ],
    )
