"""Why clocks cannot be held here, in one line with the cure."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from roofexp.records.clock_readings import IDLE, NOT_THROTTLING, REASONS, ClockReadings, answers

NEEDS_RIGHTS = "ask the administrator, or use clock=duty, which needs no rights"


class RefusedError(Exception):
    """The clocks stay as they are. The message says why and what helps; ``gone`` where the GPU is not there at all."""

    def __init__(self, message: str, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


# By the end of the name of pynvml's error class.
_MEANINGS = {
    "NoPermission": f"this user may not change the clocks; {NEEDS_RIGHTS}",
    "NotSupported": "this GPU's driver does not lock clocks (virtual GPUs and MIG forbid it); use clock=duty",
    "InvalidArgument": "the driver refuses this clock; nvidia-smi -q -d SUPPORTED_CLOCKS lists those that it allows",
    "InUse": "the driver is busy with this GPU; try again",
}

_GONE = {"GpuIsLost", "GpuNotFound", "NotFound", "DriverNotLoaded", "LibraryNotFound"}


def refused(error: Exception) -> RefusedError:
    """What an error of NVML's means."""
    name = type(error).__name__.removeprefix("NVMLError_")
    if name in _GONE:
        return RefusedError(f"the GPU or its driver is gone ({name})", gone=True)
    return RefusedError(_MEANINGS.get(name) or f"NVML refuses ({str(error).strip() or name}); {NEEDS_RIGHTS}")


Row = dict[str, float | str | None]

# Fields that accumulate the time lost to each cause (nvml.h), in ns; their event reasons: clock_readings.HELD_BACK.
THROTTLE_FIELDS = {
    "throttled_power_s": 74,
    "throttled_sw_thermal_s": 269,
    "throttled_hw_thermal_s": 270,
    "throttled_power_brake_s": 271,
}


def decode_reasons(mask: int) -> list[str]:
    """The names of a mask's bits; unknown bits in hexadecimal."""
    names = [name for bit, name in REASONS.items() if mask & bit]
    rest = mask & ~sum(REASONS)
    return names + ([hex(rest)] if rest else [])


def is_throttling(mask: int) -> bool:
    """Whether something other than idling or a setting holds the clocks back."""
    return bool(mask & ~NOT_THROTTLING)


class Others(NamedTuple):
    """Processes that compute on a GPU beside our own. ``memory_bytes`` None: the driver does not say."""

    processes: int
    memory_bytes: int | None


class Nvml:
    """One GPU, found by UUID or else by bus address: NVML counts GPUs in another order than CUDA."""

    def __init__(self, uuid: str, bus_id: str) -> None:
        import pynvml

        self._nvml = pynvml
        pynvml.nvmlInit()
        try:
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError:
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)

    def ask(self, name: str, *arguments: Any) -> Any:
        """NVML's answer to ``nvmlDevice<name>``; None where it has none."""
        function = getattr(self._nvml, f"nvmlDevice{name}", None)
        if function is None:
            return None
        try:
            return function(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None

    def order(self, name: str, *arguments: Any) -> None:
        """Tells NVML to change something: ``nvmlDevice<name>``. Raises RefusedError. For roofexp.clocks alone."""

        function = getattr(self._nvml, f"nvmlDevice{name}", None)
        if function is None:
            raise RefusedError(f"this NVML has no {name}; install a newer nvidia-ml-py")
        try:
            function(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            raise refused(error) from error

    def driver(self) -> str | None:
        try:
            return str(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError:
            return None

    def row(self) -> Row:
        """One sample, SI units."""
        mask = self.reasons()
        return {
            "nvml_sm_hz": _scaled(self.ask("GetClockInfo", self._nvml.NVML_CLOCK_SM), 1e6),
            "nvml_memory_hz": _scaled(self.ask("GetClockInfo", self._nvml.NVML_CLOCK_MEM), 1e6),
            "power_w": _scaled(self.ask("GetPowerUsage"), 1e-3),
            "temperature_c": _scaled(self.ask("GetTemperature", self._nvml.NVML_TEMPERATURE_GPU), 1.0),
            "event_reasons": None if mask is None else " ".join(decode_reasons(mask)) or "none",
        }

    def reasons(self) -> int | None:
        for question in ("GetCurrentClocksEventReasons", "GetCurrentClocksThrottleReasons"):
            mask = self.ask(question)  # the second is the name that older drivers know
            if mask is not None:
                return int(mask)
        return None

    def energy_j(self) -> float | None:
        """Since the driver was loaded."""
        return _scaled(self.ask("GetTotalEnergyConsumption"), 1e-3)

    def throttled_s(self) -> dict[str, float]:
        """Accumulated seconds lost to each cause; a field that the device does not have is missing."""
        values = self.ask("GetFieldValues", list(THROTTLE_FIELDS.values()))
        if values is None:
            return {}
        found = {}
        for name, value in zip(THROTTLE_FIELDS, values, strict=True):
            if value.nvmlReturn == 0:
                found[name] = value.value.ullVal * 1e-9
        return found

    def others(self, is_own: Callable[[int], bool] = lambda pid: False, own_count: int = 0) -> Others | None:
        """Beside our own, ``own_count`` in all. Inside a container their numbers may be others than the driver's: of
        those that are not met it is not known which of the listed they are."""
        listed = self.ask("GetComputeRunningProcesses")
        if listed is None:
            return None
        others = [process for process in listed if not is_own(process.pid)]
        not_met = max(0, own_count - (len(listed) - len(others)))
        memory = [int(used) for process in others if (used := getattr(process, "usedGpuMemory", None)) is not None]
        known = not not_met and len(memory) == len(others)
        return Others(max(0, len(others) - not_met), sum(memory) if known else None)

    def wait_until_idle(self, most_s: float) -> None:
        """Until the event reasons say idle; a GPU that never says so is waited for ``most_s`` seconds."""
        end = time.monotonic() + most_s
        while time.monotonic() < end and not (self.reasons() or 0) & IDLE:
            time.sleep(0.05)


OTHERS_S = 0.2  # between two looks at who else computes


def is_of_this_sweep(pid: int) -> bool:
    """This process, the one that started it, and what that one started besides, as the process that holds clocks."""
    import psutil

    if pid in (os.getpid(), os.getppid()):
        return True
    with contextlib.suppress(psutil.Error):
        return os.getppid() in (parent.pid for parent in psutil.Process(pid).parents())
    return False


class NvmlSampler:
    """Takes a row every ``every_s`` in a thread, from start to stop, and the counters' differences. ``own_count``: of
    this sweep's processes that the driver lists."""

    def __init__(
        self, nvml: Nvml, every_s: float, now: Callable[[], float] = time.perf_counter, own_count: int = 1
    ) -> None:
        self._nvml = nvml
        self._every_s = every_s
        self._now = now
        self._own_count = own_count
        self._others: list[Others | None] = []
        self._looked_s = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_s = 0.0
        self._energy_j: float | None = None
        self._throttled: dict[str, float] = {}
        self.rows: list[Row] = []

    def start(self) -> None:
        self._start_s = self._now()
        self._energy_j = self._nvml.energy_j()
        self._throttled = self._nvml.throttled_s()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> ClockReadings:
        """The summary: means over the samples, counters' differences over the time between. What the driver answered
        less than every second time is not known."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        self.rows.append(self._row())
        self._look()
        seconds = self._now() - self._start_s
        summary: dict[str, Any] = {"sampled_s": seconds}
        for key in ("nvml_sm_hz", "nvml_memory_hz", "power_w", "temperature_c"):
            values = answers(self.rows, key)
            summary[key] = sum(values) / len(values) if values else None
        reasons = answers(self.rows, "event_reasons") or []
        summary["event_reasons"] = " ".join(sorted({word for text in reasons for word in text.split()})) or None
        summary |= self._who()
        after = self._nvml.throttled_s()
        summary |= {name: after[name] - before for name, before in self._throttled.items() if name in after}
        energy_j = self._nvml.energy_j()
        if seconds > 0.2 and energy_j is not None and self._energy_j is not None:  # the counter moves every 0.1 s or so
            summary["energy_j"] = energy_j - self._energy_j
        return ClockReadings(**summary)

    def _look(self) -> None:
        self._looked_s = self._now()
        self._others.append(self._nvml.others(is_of_this_sweep, self._own_count))

    def _who(self) -> dict[str, int | None]:
        """The most processes of others that were seen at once, and the most memory that they had."""
        seen = [others for others in self._others if others is not None]
        if not seen or 2 * len(seen) < len(self._others):
            return {}
        memory = [others.memory_bytes for others in seen if others.processes and others.memory_bytes is not None]
        most = max(others.processes for others in seen)
        return {"other_processes": most, "other_processes_bytes": max(memory) if memory else None}

    def _sample(self) -> None:
        self._look()
        while True:
            self.rows.append(self._row())
            if self._now() - self._looked_s >= OTHERS_S:
                self._look()
            if self._stop.wait(self._every_s):
                return

    def take(self, **facts: float | str | None) -> None:
        """A row now, with ``facts`` of the caller's in it."""
        self.rows.append({**self._row(), **facts})

    def _row(self) -> Row:
        """The moment's readings, and what the counters counted since the start."""
        row: Row = {"at_s": round(self._now() - self._start_s, 6), **self._nvml.row()}
        throttled, energy_j = self._nvml.throttled_s(), self._nvml.energy_j()
        row |= {name: round(throttled[name] - s, 6) for name, s in self._throttled.items() if name in throttled}
        if energy_j is not None and self._energy_j is not None:
            row["energy_j"] = round(energy_j - self._energy_j, 6)
        return row


def _scaled(value: Any, factor: float) -> float | None:
    return float(value) * factor if isinstance(value, (int, float)) else None
