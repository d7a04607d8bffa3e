"""The NVIDIA GPU as a machine: what the driver says about it. A question without an answer stays unknown."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import msgspec

from roofexp.devices.cuda.stopwatch import CudaStopwatch
from roofexp.devices.nvml import Nvml, NvmlSampler, Row
from roofexp.errors import FailedError
from roofexp.placing.limits import architecture_rates
from roofexp.records.clock_readings import NVML, ClockReadings
from roofexp.records.machine import Machine
from roofexp.records.point import Clock
from roofexp.text.console import first_line


def why_no_cuda(index: int) -> str | None:
    """Why GPU ``index`` cannot be used, in one line; None when it can."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy is not installed ({error}): install roofexp[cuda13] or roofexp[cuda12]"
    except Exception as error:  # a missing driver library surfaces in many ways
        return f"CuPy cannot be used ({first_line(error)})"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"no usable GPU ({first_line(error)})"
    if index >= count:
        return f"no GPU with index {index}: {count} visible"
    return None


def open_nvml(index: int) -> Nvml | None:
    """NVML for a CUDA device; None where the library or the driver is missing."""
    try:
        return (SliceNvml if slice_profile(gpu_name(index)) else Nvml)(gpu_uuid(index), bus_id(index))
    except Exception:  # pynvml raises its own kinds, and ImportError
        return None


class SliceNvml(Nvml):
    """NVML of the whole GPU that a slice is a part of: what it draws is not what the slice draws."""

    def row(self) -> Row:
        return {**super().row(), "power_w": None}

    def energy_j(self) -> float | None:
        return None


_SLICE = re.compile(r"\bMIG (?P<mig>\S+)|(?:GRID |NVIDIA )?(?P<vgpu>\w+(?:-\d+)?-\d+[ABCQ])$")


def slice_profile(name: str) -> str | None:
    """The profile of a MIG instance (``3g.71gb``) or the type of a virtual GPU (``A100X-4-40C``), by the name that the
    driver gives it; None for a whole GPU."""
    found = _SLICE.search(name)
    return (found["mig"] or found["vgpu"]) if found else None


def gpu_name(index: int) -> str:
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(index)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def gpu_uuid(index: int) -> str:
    import cupy

    raw = bytes(cupy.cuda.runtime.getDeviceProperties(index)["uuid"]).hex()
    return f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:32]}"


def bus_id(index: int) -> str:
    import cupy

    return str(cupy.cuda.runtime.deviceGetPCIBusId(index))


def architecture(index: int) -> str:
    """``9.0``"""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(index)
    return f"{properties['major']}.{properties['minor']}"


def describe_gpu(index: int, nvml: Nvml | None) -> Machine:
    """What is known of this GPU."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(index)
    name, arch, sms = gpu_name(index), architecture(index), int(properties["multiProcessorCount"])
    details: dict[str, Any] = {
        "architecture": arch,
        "memory_bus_bits": properties.get("memoryBusWidth"),
        "shared_bytes_per_sm": properties.get("sharedMemPerMultiprocessor"),
        "ecc": bool(properties.get("ECCEnabled")),
        "cuda_driver": _cuda_version(cupy.cuda.runtime.driverGetVersion()),
        "cuda_runtime": _cuda_version(cupy.cuda.runtime.runtimeGetVersion()),
        **(managed(nvml) if nvml else {}),
    }
    profile = slice_profile(name) or ("of an unknown profile" if details.get("mig") else None)
    if profile:
        details |= {"slice": profile, "slice_sms": sms, **dict.fromkeys(_OF_THE_WHOLE)}
    rates = architecture_rates(arch, name)
    unknown = [] if nvml else ["clocks beside the timing, power, temperature: NVML is missing (install nvidia-ml-py)"]
    unknown += [
        f"{key}: the driver says it of the whole GPU, not of the slice {profile}"
        if profile and key in _OF_THE_WHOLE
        else f"{key}: the driver does not say"
        for key, value in details.items()
        if value is None
    ]
    if rates is None:
        unknown.append(f"limits: architecture {arch} is not in the table (roofexp/limits.yaml)")
    memory_hz = details.get("memory_max_hz")
    limits = {f"flop_per_cycle_{key}": float(value) for key, value in (rates.flop if rates else {}).items()}
    if rates:
        limits["l1_bytes_per_cycle"] = float(rates.l1_bytes)
    if memory_hz and details["memory_bus_bits"]:
        limits["dram_bytes_per_s"] = 2 * memory_hz * details["memory_bus_bits"] / 8
    return Machine(
        machine_id=gpu_id(gpu_uuid(index), details),
        device="cuda",
        name=name,
        units=sms,
        nominal_hz=details.get("sm_max_hz"),
        memory_bytes=int(properties["totalGlobalMem"]),
        cache_bytes={"l1": sms * int(properties["sharedMemPerMultiprocessor"]), "l2": int(properties["l2CacheSize"])},
        kept_levels=["l2"],  # L1 is emptied between launches
        details=details,
        limits=limits,
        unknown=unknown,
    )


# NVML and CUDA say these of the GPU that a slice is a part of; without the bus width there is no DRAM limit either
_OF_THE_WHOLE = ("memory_bus_bits", "power_limit_w", "power_limit_default_w", "power_limit_max_w")


def gpu_id(uuid: str, details: dict[str, Any]) -> str:
    """Stands for what a GPU's roofs belong to: the chip (by UUID, which cannot be read back from it), its driver, its
    power limit and its MIG mode; of a slice its profile and SMs too. Without NVML the driver is known by its CUDA
    version alone."""
    driver = details.get("driver") or details.get("cuda_driver")
    own = (details["slice"], details["slice_sms"]) if "slice" in details else ()
    identity = repr((uuid, driver, details.get("power_limit_w"), details.get("mig"), *own))
    return "gpu-" + hashlib.sha256(identity.encode()).hexdigest()[:10]


def managed(nvml: Nvml) -> dict[str, Any]:
    """What NVML says about the GPU's settings. Read only."""
    limits = nvml.ask("GetPowerManagementLimitConstraints")
    mig = nvml.ask("GetMigMode")
    return {
        "driver": nvml.driver(),
        "power_limit_w": _scaled(nvml.ask("GetEnforcedPowerLimit"), 1e-3),
        "power_limit_default_w": _scaled(nvml.ask("GetPowerManagementDefaultLimit"), 1e-3),
        "power_limit_max_w": limits[1] * 1e-3 if limits else None,
        "persistence": None if (mode := nvml.ask("GetPersistenceMode")) is None else bool(mode),
        "mig": None if mig is None else bool(mig[0]),
        "sm_max_hz": _scaled(nvml.ask("GetMaxClockInfo", 1), 1e6),
        "memory_max_hz": _scaled(nvml.ask("GetMaxClockInfo", 2), 1e6),
        "pcie_generation": nvml.ask("GetCurrPcieLinkGeneration"),
        "pcie_width": nvml.ask("GetCurrPcieLinkWidth"),
    }


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _scaled(value: Any, factor: float) -> float | None:
    return value * factor if isinstance(value, (int, float)) else None


HELD_BY_NCU = ("base", "boost")  # clock modes for which a second process of ours has the GPU open


class CudaClockWatch:
    def __init__(self, stopwatch: CudaStopwatch, nvml: Nvml | None, settings: dict[str, Any]) -> None:
        self._stopwatch = stopwatch
        every_s, holds = float(settings.get("sample_s") or 0.02), settings.get("mode") in HELD_BY_NCU
        self._sampler = NvmlSampler(nvml, every_s, own_count=2 if holds else 1) if nvml else None

    def start(self) -> None:
        self._stopwatch.reset_clock()
        if self._sampler:
            self._sampler.start()

    def lap(self) -> None:
        """A row with the true clock of the time since the last lap."""
        if self._sampler:
            self._sampler.take(compute_hz=self._stopwatch.lap_hz())

    def stop(self) -> Clock:
        readings = self._sampler.stop() if self._sampler else ClockReadings()
        if readings.energy_j is not None:
            readings = msgspec.structs.replace(readings, energy_counter=NVML)
        clock_hz = self._stopwatch.clock_hz()
        source = "cycle counter of every SM over the timed parts" if clock_hz else "unknown: no SM was met twice"
        return Clock(compute_hz=clock_hz, source=source, readings=readings, spans_timing=clock_hz is not None)

    def rows(self) -> list[dict[str, float | str | None]]:
        return sorted(self._sampler.rows, key=lambda row: float(row["at_s"] or 0)) if self._sampler else []


FAULTS = {
    "cudaErrorIllegalAddress": "the kernel accessed memory that is not its own",
    "cudaErrorMisalignedAddress": "the kernel made a misaligned access",
    "cudaErrorIllegalInstruction": "the kernel met an illegal instruction",
    "cudaErrorLaunchFailure": "the kernel failed",
    "cudaErrorLaunchTimeout": "the driver ended a kernel that ran too long",
    "cudaErrorAssert": "an assertion in the kernel failed",
    "cudaErrorLaunchOutOfResources": "the block needs more registers or shared memory than an SM has",
    "cudaErrorInvalidConfiguration": "grid or block is larger than the GPU allows",
    "CUDA_ERROR_INVALID_VALUE": "grid, block or shared memory is not possible on this GPU",
}


def explain_fault(error: Exception) -> FailedError | None:
    """None for an error that is not CUDA's."""
    text = str(error)
    if "cudaErrorMemoryAllocation" in text or type(error).__name__ == "OutOfMemoryError":
        return FailedError("out of memory", f"the GPU's memory ran out: {text.splitlines()[0]}")
    for name, meaning in FAULTS.items():
        if name in text:
            return FailedError("kernel fault", f"{meaning} ({name}); worker replaced")
    return None


def profile_launch(launch: Callable[[], Any], stream: Any, name: str) -> None:
    """Set-up and warm-up lie before: only what ``launch`` puts on the stream is profiled."""
    from cupy.cuda import nvtx, profiler

    stream.synchronize()
    profiler.start()
    nvtx.RangePush(name)
    try:
        with stream:
            launch()
        stream.synchronize()
    finally:
        nvtx.RangePop()
        profiler.stop()
