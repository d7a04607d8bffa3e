"""Pauses and soaks on a GPU. Modes observe and duty only: nothing here changes a setting."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from roofexp.config.paths import conf_folder, kernels_folder
from roofexp.devices.base import Streamed
from roofexp.kernel.load import load_kernel
from roofexp.measure.bench import Bench, Reply, Request
from tests.test_timing import SETTINGS

OBSERVE = {"mode": "observe", "sample_s": 0.02}
SHOWN = ("throttled_power_s", "throttle_samples_power_s", "samples_held_back", "batch_slowing", "energy_source")
SHORT = [("saxpy", "fp32", 67_108_864, 40), ("gemm", "fp32", 4096, 8), ("vadd", "fp32", 1_000_000, 2000)]


@pytest.fixture(scope="module")
def bench() -> Bench:
    from roofexp.devices.cuda.device import CudaDevice

    return Bench(CudaDevice(0, [kernels_folder()]))


def run(bench: Bench, clock: dict[str, Any], seconds: float | None = None) -> Reply:
    kernel = load_kernel("gemm", [conf_folder()], "bf16", 8192, {}, "normal")
    settings = msgspec.structs.replace(SETTINGS, target=0.02, budget_s=1.0, seconds=seconds, timeout_s=120.0)
    reply = bench.run(Request(kernel=kernel, timing=settings, cold=False, seed=1, clock=clock))
    assert reply.status == "ok", reply.detail or reply.reason
    return reply


def told(reply: Reply) -> str:
    clock = reply.clock
    assert clock
    facts = ("duty_held", "timed_share", "nvml_sm_hz", "power_by_energy_w", "power_w", "energy_per_launch_j")
    return f"true {(clock.compute_hz or 0) / 1e6:.0f} MHz  " + "  ".join(
        f"{name} {getattr(clock.readings, name)}" for name in facts
    )


def test_pauses_move_the_clock_of_a_power_limited_gpu(bench: Bench) -> None:
    rates, powers = [], []
    for duty in (0.3, 1.0):
        reply = run(bench, {"mode": "duty", "duty": duty, "period_s": 0.2, "sample_s": 0.02})
        assert reply.clock
        assert reply.timing
        print(f"duty {duty}: {reply.timing.median_s * 1e6:.1f} us  {told(reply)}")
        print({key: getattr(reply.clock.readings, key) for key in SHOWN}, reply.flags)
        assert reply.clock.readings.duty_held == pytest.approx(duty, abs=0.03)
        share = reply.clock.readings.timed_share
        assert isinstance(share, float)
        assert share > 0.8 * duty  # what the host does between two samples is small beside them
        if duty < 1:  # the driver's state is renewed too seldom to tell batches from pauses
            assert not {"throttled", "throttle time uncertain"} & {flag.name for flag in reply.flags}
        rates.append(1 / reply.timing.median_s)
        power_w = reply.clock.readings.power_by_energy_w
        powers.append(power_w if isinstance(power_w, float) else 0.0)
    assert rates[0] >= 0.99 * rates[1]  # a GPU that is not power-limited shows no difference
    if all(powers):
        assert powers[0] < powers[1]


def test_a_soak_shows_the_clock_of_every_quarter_second(bench: Bench) -> None:
    reply = run(bench, OBSERVE, seconds=5.0)
    assert reply.clock
    assert reply.samples
    laps = [row for row in reply.clock_rows if row.get("compute_hz")]
    print(f"soak: settled from {reply.samples.settled_from_s} s  {told(reply)}")
    print(
        {key: value for key, value in reply.clock.readings.known().items() if "thrott" in key or "held" in key},
        reply.flags,
    )
    print("first row", reply.clock_rows[0])
    assert len(laps) == pytest.approx(20, abs=3)
    assert [row["at_s"] for row in reply.clock_rows] == sorted(row["at_s"] for row in reply.clock_rows)  # type: ignore[type-var]
    assert reply.samples.at_s[-1] == pytest.approx(5.5, abs=0.2)
    assert 0.01 <= reply.samples.time_s[-1] * reply.samples.launches_per_sample <= 0.06
    share = reply.clock.readings.timed_share
    assert isinstance(share, float)
    assert reply.timing
    assert "queued ahead" in reply.timing.method
    assert share > 0.99
    assert all(0.5e9 < float(row["compute_hz"] or 0) < 2.5e9 for row in laps)
    assert "throttle time uncertain" not in {flag.name for flag in reply.flags}


@pytest.mark.parametrize(("name", "precision", "size", "launches"), SHORT)
def test_batches_queued_ahead_take_what_single_batches_take(
    bench: Bench, name: str, precision: str, size: int, launches: int
) -> None:
    """In place operands (renewed on the way), launches without a graph (cuBLAS), and many short ones in graphs."""
    device = bench.device
    kernel = load_kernel(name, [conf_folder()], precision, size, {}, "normal")
    loaded = device.load(kernel, device.choose(kernel), 1)
    assert isinstance(loaded, Streamed)
    try:
        loaded.check()
        device.wake()
        single = sorted(loaded.run_hot(launches) for _ in range(9))[4]
        left = iter(range(12))
        stream = loaded.stream_hot(launches, lambda queued: next(left, None) is not None, 2)
        if stream is None and launches > 1000:
            pytest.skip("the host does not keep up with these launches")
        assert stream is not None
        found = list(stream)
        began, times = [at_s for at_s, _ in found], sorted(seconds for _, seconds in found)
        print(f"{name}: single {single * 1e3:.3f} ms, queued ahead {times[len(times) // 2] * 1e3:.3f} ms", began[:4])
        assert began[0] == pytest.approx(0, abs=1e-4)
        assert began == sorted(began)
        assert times[len(times) // 2] == pytest.approx(single, rel=0.08)
        assert loaded.run_hot(launches) == pytest.approx(single, rel=0.15)  # the stopwatch works as before
    finally:
        loaded.release()
