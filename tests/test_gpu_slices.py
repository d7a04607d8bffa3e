"""A MIG instance and a virtual GPU are machines of their own, without the limits and the energy of the whole GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from test_nvml import FakeNvml, nvml

from roofexp.devices.cuda.machine import SliceNvml, describe_gpu, slice_profile
from roofexp.records.machine import Machine


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA H200 MIG 3g.71gb", "3g.71gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "1c.3g.40gb"),
        ("NVIDIA A100X-4-40C", "A100X-4-40C"),
        ("GRID T4-16Q", "T4-16Q"),
        ("NVIDIA H200", None),
        ("NVIDIA A100-SXM4-80GB", None),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", None),
        ("NVIDIA H100 PCIe", None),
    ],
)
def test_slices_are_known_by_the_name_that_the_driver_gives_them(name: str, profile: str | None) -> None:
    assert slice_profile(name) == profile


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is known of a GPU of this name, with so many SMs."""

    def describe(name: str, sms: int, mig: int) -> Machine:
        properties = {
            "uuid": bytes(range(16)), "major": 9, "minor": 0, "name": name.encode(), "multiProcessorCount": sms,
            "memoryBusWidth": 6144, "sharedMemPerMultiprocessor": 233472, "ECCEnabled": 1,
            "totalGlobalMem": 18 * 2**30, "l2CacheSize": 60 * 2**20,
        }  # fmt: skip
        runtime = SimpleNamespace(
            getDeviceProperties=lambda index: properties,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 12090,
        )
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
        answers = nvml(
            nvmlDeviceGetMigMode=[mig, mig],
            nvmlDeviceGetMaxClockInfo=lambda kind: {1: 1980, 2: 3201}[kind],
            nvmlDeviceGetEnforcedPowerLimit=700_000,
        )
        monkeypatch.setattr(type(answers), "driver", lambda self: "590.1")
        return describe_gpu(0, answers)

    return describe


def test_a_slice_is_another_machine_without_the_limits_of_the_whole(described: Any) -> None:
    whole = described("NVIDIA H200", 132, 0)
    assert (whole.limit("dram_bytes_per_s"), whole.details["power_limit_w"]) == (pytest.approx(4.916736e12), 700)
    assert "slice" not in whole.details
    slices = [described("NVIDIA H200 MIG 3g.71gb", 60, 1), described("NVIDIA H200 MIG 4g.71gb", 64, 1),
              described("NVIDIA H200 MIG 3g.71gb", 64, 1), described("NVIDIA A100X-4-40C", 132, 0)]  # fmt: skip
    assert len({machine.machine_id for machine in [whole, *slices]}) == 5
    for machine in slices:
        assert (machine.limit("dram_bytes_per_s"), machine.details["power_limit_w"]) == (None, None)
        assert any("power_limit_w" in line and "of the whole GPU" in line for line in machine.unknown)
    assert (slices[0].details["slice"], slices[0].details["slice_sms"]) == ("3g.71gb", 60)


def test_energy_of_the_whole_gpu_is_not_that_of_a_slice() -> None:
    answers = {"nvmlDeviceGetPowerUsage": 157_000, "nvmlDeviceGetTotalEnergyConsumption": 5_000}
    assert nvml(**answers).energy_j() == 5.0
    part = SliceNvml.__new__(SliceNvml)
    part._nvml, part._handle = FakeNvml(**answers), None  # type: ignore[assignment]
    assert (part.energy_j(), part.row()["power_w"]) == (None, None)
