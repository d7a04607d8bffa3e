"""Pauses and soaks on a GPU. Modes observe and duty only: nothing here changes a setting."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from roofexp.configuration import load_kernel
from roofexp.folders import conf_folder, kernels_folder
from roofexp.measure import Bench, Reply, Request
from tests.test_timing import SETTINGS

OBSERVE = {"mode": "observe", "sample_s": 0.02}


@pytest.fixture(scope="module")
def bench() -> Bench:
    from roofexp.devices.cuda import CudaDevice

    return Bench(CudaDevice(0, [kernels_folder()]))


def run(bench: Bench, clock: dict[str, Any], seconds: float | None = None) -> Reply:
    kernel = load_kernel("gemm", [conf_folder()], "bf16", 8192, {}, "normal")
    settings = msgspec.structs.replace(SETTINGS, budget_s=1.5, seconds=seconds, timeout_s=120.0)
    reply = bench.run(Request(kernel=kernel, timing=settings, cold=False, seed=1, clock=clock))
    assert reply.status == "ok", reply.detail or reply.reason
    return reply


def told(reply: Reply) -> str:
    clock = reply.clock
    assert clock
    facts = ("duty_held", "timed_share", "nvml_sm_hz", "power_by_energy_w", "power_w", "energy_per_launch_j")
    return f"true {(clock.compute_hz or 0) / 1e6:.0f} MHz  " + "  ".join(
        f"{name} {clock.extra.get(name)}" for name in facts
    )


def test_pauses_move_the_clock_of_a_power_limited_gpu(bench: Bench) -> None:
    rates, powers = [], []
    for duty in (0.3, 0.6, 1.0):
        reply = run(bench, {"mode": "duty", "duty": duty, "period_s": 0.2, "sample_s": 0.02})
        assert reply.clock
        assert reply.timing
        print(f"duty {duty}: {reply.timing.median_s * 1e6:.1f} us  {told(reply)}  {[f.name for f in reply.flags]}")
        assert reply.clock.extra["duty_held"] == pytest.approx(duty, abs=0.03)
        share = reply.clock.extra["timed_share"]
        assert isinstance(share, float)
        assert share > 0.9 * duty  # what the host does between two samples is small beside them
        rates.append(1 / reply.timing.median_s)
        power_w = reply.clock.extra.get("power_by_energy_w")
        powers.append(power_w if isinstance(power_w, float) else 0.0)
    assert rates[0] >= 0.99 * rates[2]  # a GPU that is not power-limited shows no difference
    if all(powers):
        assert powers[0] < powers[1] < powers[2]


def test_a_soak_shows_the_clock_of_every_quarter_second(bench: Bench) -> None:
    reply = run(bench, OBSERVE, seconds=8.0)
    assert reply.clock
    assert reply.samples
    laps = [row for row in reply.clock_rows if row.get("compute_hz")]
    print(f"soak: settled from {reply.samples.settled_from_s} s  {told(reply)}")
    print({key: value for key, value in reply.clock.extra.items() if "thrott" in key or "held" in key}, reply.flags)
    print("first row", reply.clock_rows[0])
    assert len(laps) == pytest.approx(32, abs=3)
    assert [row["at_s"] for row in reply.clock_rows] == sorted(row["at_s"] for row in reply.clock_rows)  # type: ignore[type-var]
    assert reply.samples.at_s[-1] == pytest.approx(8.5, abs=0.2)
    assert 0.01 <= reply.samples.time_s[-1] * reply.samples.launches_per_sample <= 0.06
    share = reply.clock.extra["timed_share"]
    assert isinstance(share, float)
    assert share > 0.97
    counted_s, sampled_s = (reply.clock.extra.get(name) for name in ("throttled_power_s", "throttle_samples_power_s"))
    if isinstance(counted_s, float) and isinstance(sampled_s, float) and counted_s > 1:
        assert sampled_s == pytest.approx(counted_s, rel=0.05)
