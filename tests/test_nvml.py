"""NVML beside the timing: masks, answers that a device does not have, and throttling as the accumulators say it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofexp.devices.nvml import Nvml, NvmlSampler, decode_reasons, is_throttling
from roofexp.measure.clock_flags import clock_flags, throttle_flags
from roofexp.measure.clock_summary import PARTIAL, clock_facts, partial_flags
from roofexp.measure.host_load import NOT_QUIET, QUIET_UNKNOWN, gpu_quiet_flags
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.point import Clock
from roofexp.records.samples import Samples
from tests.fake_nvml import UUID, FakeGpu, open_fake
from tests.test_timing import SETTINGS


@pytest.mark.parametrize(
    ("mask", "names", "throttling"),
    [
        (0x0, [], False),
        (0x1, ["idle"], False),
        (0x2, ["applications_clocks_setting"], False),
        (0x4, ["sw_power_cap"], True),
        (0x48, ["hw_slowdown", "hw_thermal_slowdown"], True),
        (0x4004, ["sw_power_cap", "0x4000"], True),
    ],
)
def test_event_reasons(mask: int, names: list[str], throttling: bool) -> None:
    assert decode_reasons(mask) == names
    assert is_throttling(mask) is throttling


class FakeNvml:
    """Stands in for pynvml: answers what ``answers`` holds, refuses the rest as a real device does."""

    NVMLError = type("NVMLError", (Exception,), {})
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDevice"):
            raise AttributeError(name)

        def ask(handle: Any, *arguments: Any) -> Any:
            if name not in self.answers:
                raise self.NVMLError("not supported")
            answer = self.answers[name]
            return answer(*arguments) if callable(answer) else answer

        return ask


def nvml(**answers: Any) -> Nvml:
    made = Nvml.__new__(Nvml)
    made._nvml, made._handle = FakeNvml(**answers), None
    return made


def test_one_question_without_an_answer_stops_no_other() -> None:
    row = nvml(nvmlDeviceGetPowerUsage=157_000).row()
    assert row == {
        "nvml_sm_hz": None,
        "nvml_memory_hz": None,
        "power_w": 157.0,
        "temperature_c": None,
        "event_reasons": None,
    }


def test_units_are_si() -> None:
    row = nvml(
        nvmlDeviceGetClockInfo=lambda kind: {1: 1980, 2: 3201}[kind], nvmlDeviceGetTemperature=lambda kind: 41
    ).row()
    assert (row["nvml_sm_hz"], row["nvml_memory_hz"], row["temperature_c"]) == (1.98e9, 3.201e9, 41.0)


def test_throttle_time_is_a_difference_and_a_field_that_is_missing_stays_out() -> None:
    started = time.monotonic()

    def fields(asked: list[int]) -> list[Any]:
        counted_ns = 10**9 + (2 * 10**9 if time.monotonic() - started > 0.02 else 0)
        power = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=counted_ns))
        return [power] + [SimpleNamespace(nvmlReturn=3, value=None)] * (len(asked) - 1)

    sampler = NvmlSampler(nvml(nvmlDeviceGetFieldValues=fields), 0.01)
    sampler.start()
    time.sleep(0.05)
    summary = sampler.stop()
    assert summary.throttled_power_s == pytest.approx(2.0)
    assert summary.throttled_sw_thermal_s is None
    assert summary.power_w is None
    assert len(sampler.rows) >= 2
    assert [sampler.rows[i]["throttled_power_s"] for i in (0, -1)] == [0.0, 2.0]


def test_a_lap_has_a_row_of_its_own() -> None:
    sampler = NvmlSampler(nvml(nvmlDeviceGetTotalEnergyConsumption=5000, nvmlDeviceGetPowerUsage=100_000), 10.0)
    sampler.start()
    sampler.take(compute_hz=1.5e9)
    sampler.stop()
    (lap,) = [row for row in sampler.rows if "compute_hz" in row]
    assert (lap["compute_hz"], lap["power_w"], lap["energy_j"]) == (1.5e9, 100.0, 0.0)


def test_an_idle_gpu_is_not_waited_for() -> None:
    start = time.monotonic()
    nvml(nvmlDeviceGetCurrentClocksEventReasons=0x1).wait_until_idle(5.0)
    assert time.monotonic() - start < 1
    nvml(nvmlDeviceGetCurrentClocksEventReasons=0x4).wait_until_idle(0.1)
    assert time.monotonic() - start >= 0.1


def test_lost_time_is_flagged_with_its_cause() -> None:
    (flag,) = throttle_flags(ClockReadings(sampled_s=3.0, throttled_power_s=2.9, throttled_hw_thermal_s=0.0))
    assert flag.name == "throttled"
    assert "power 97 %" in flag.message
    assert "thermal" not in flag.message
    assert throttle_flags(ClockReadings(sampled_s=3.0, throttled_power_s=0.0)) == []
    assert throttle_flags(ClockReadings()) == []


def every(times: int, answer: Any) -> Callable[..., Any]:
    """A driver that answers one question in so many."""
    asked = 0

    def ask(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked % times:
            raise FakeNvml.NVMLError("busy")
        return answer

    return ask


def sampled(driver: Nvml) -> tuple[ClockReadings, list[Any]]:
    sampler = NvmlSampler(driver, 0.002)
    sampler.start()
    while len(sampler.rows) < 40:
        time.sleep(0.002)
    return sampler.stop(), sampler.rows


def test_a_driver_that_seldom_answers_leaves_unknown_what_it_was_asked() -> None:
    def answers(times: int) -> dict[str, Any]:
        return {
            "nvmlDeviceGetCurrentClocksEventReasons": every(times, 0x0),
            "nvmlDeviceGetClockInfo": every(times, 1980),
            "nvmlDeviceGetPowerUsage": 300_000,
        }

    seldom, rows = sampled(nvml(**answers(8)))
    assert (seldom.event_reasons, seldom.nvml_sm_hz, seldom.power_w) == (None, None, 300.0)
    samples = Samples([1e-3] * 3, [0.0, 0.01, 0.02], 1, 0.03, 0.03)
    clock, flags = clock_facts(Clock(compute_hz=1.9e9, readings=seldom), rows, samples, cold=False)
    assert clock.readings.samples_held_back is None
    (flag,) = [flag for flag in flags if flag.name == PARTIAL]
    assert "event reasons" in flag.message
    assert "power" not in flag.message
    always, rows = sampled(nvml(**answers(1)))
    assert (always.event_reasons, always.nvml_sm_hz) == ("none", 1.98e9)
    assert partial_flags(rows) == []


def test_three_answers_of_26_are_no_reading() -> None:
    rows = [{"at_s": i * 0.02, "event_reasons": "none" if i < 3 else None, "power_w": 500.0} for i in range(26)]
    samples = Samples([1e-3] * 26, [i * 0.02 for i in range(26)], 1, 0.52, 0.52)
    clock, flags = clock_facts(Clock(compute_hz=1.9e9), rows, samples, cold=False)
    assert clock.readings.samples_held_back is None
    assert [flag.message for flag in flags] == ["of 26 readings the driver answered event reasons 3 times: not known"]
    half = [row | {"event_reasons": "none" if i < 13 else None} for i, row in enumerate(rows)]
    clock, flags = clock_facts(Clock(compute_hz=1.9e9), half, samples, cold=False)
    assert (clock.readings.samples_held_back, flags) == (0.0, [])


@pytest.mark.parametrize(
    ("compute_hz", "nvml_hz", "reasons", "flagged"),
    [
        (345e6, None, None, True),
        (None, 345e6, "none", True),
        (1900e6, 345e6, "idle", True),
        (1000e6, 1980e6, "sw_power_cap", False),
        (345e6, 345e6, "applications_clocks_setting", False),
        (1300e6, 1410e6, "none", False),
    ],
)
def test_a_clock_far_below_nominal_needs_a_reason(
    compute_hz: float | None, nvml_hz: float | None, reasons: str | None, flagged: bool
) -> None:
    clock = Clock(compute_hz=compute_hz, readings=ClockReadings(nvml_sm_hz=nvml_hz, event_reasons=reasons))
    found = [flag for flag in clock_flags(clock, SETTINGS, {"mode": "observe"}, 1980e6) if "nominal" in flag.name]
    assert bool(found) == flagged
    if found:
        assert "345 of 1980 MHz" in found[0].message
    assert clock_flags(clock, SETTINGS, {"mode": "locked", "mhz": 345}, 1980e6) == []
    assert clock_flags(clock, SETTINGS, {"mode": "observe"}, None) == []


def other_processes(tmp_path: Path, own_count: int = 1, **state: Any) -> list[Any]:
    driver = open_fake(FakeGpu(tmp_path / "gpu.json", **state))(UUID)
    sampler = NvmlSampler(driver, 0.01, own_count=own_count)
    sampler.start()
    readings = sampler.stop()
    return [(flag.name, flag.message) for flag in gpu_quiet_flags(readings)]


def test_other_processes_on_a_gpu_are_flagged_with_their_number_and_memory(tmp_path: Path) -> None:
    own = os.getppid()
    assert other_processes(tmp_path, pids=[own], memory_bytes={own: 9 * 10**9}) == []
    memory = {own: 9 * 10**9, 10**8: 2 * 10**9, 10**8 + 1: 10**9}
    assert other_processes(tmp_path, pids=list(memory), memory_bytes=memory) == [
        (NOT_QUIET, "2 other processes had this GPU open, with 3 GB of its memory")
    ]


def test_inside_a_container_where_numbers_differ_one_process_is_ours(tmp_path: Path) -> None:
    assert other_processes(tmp_path, pids=[10**8], memory_bytes={10**8: 10**9}) == []
    assert other_processes(tmp_path, 2, pids=[10**8, 10**8 + 1]) == []  # with the one that holds the clocks
    assert other_processes(tmp_path, pids=[10**8, 10**8 + 1]) == [
        (NOT_QUIET, "1 other process had this GPU open, with an unknown part of its memory")
    ]


def test_a_driver_that_lists_no_processes_leaves_the_quiet_unknown(tmp_path: Path) -> None:
    ((name, _),) = other_processes(tmp_path, pids=None)
    assert name == QUIET_UNKNOWN
