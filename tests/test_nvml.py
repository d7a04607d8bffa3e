"""NVML beside the timing: masks, answers that a device does not have, and throttling as the accumulators say it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from roofexp.devices.nvml import Nvml, NvmlSampler, decode_reasons, is_throttling
from roofexp.measure.bench import throttle_flags


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
    assert summary["throttled_power_s"] == pytest.approx(2.0)
    assert "throttled_sw_thermal_s" not in summary
    assert summary["power_w"] is None
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
    (flag,) = throttle_flags({"sampled_s": 3.0, "throttled_power_s": 2.9, "throttled_hw_thermal_s": 0.0})
    assert flag.name == "throttled"
    assert "power 97%" in flag.message
    assert "thermal" not in flag.message
    assert throttle_flags({"sampled_s": 3.0, "throttled_power_s": 0.0}) == []
    assert throttle_flags({}) == []
