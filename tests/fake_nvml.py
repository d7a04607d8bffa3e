"""A GPU that exists in a file: NVML's answers and orders, its clocks kept so that another process sees what is left."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from roofexp.devices.nvml import Nvml

UUID = "GPU-11111111-2222-3333-4444-555555555555"


class NVMLError(Exception):
    pass


class NVMLError_NoPermission(NVMLError):  # noqa: N801, N818 (pynvml's own names)
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818
    pass


class NVMLError_GpuIsLost(NVMLError):  # noqa: N801, N818
    pass


REFUSALS = {
    "permission": NVMLError_NoPermission("Insufficient Permissions"),
    "unsupported": NVMLError_NotSupported("Not Supported"),
    "lost": NVMLError_GpuIsLost("GPU is lost"),
}


class FakeGpu:
    """``file`` holds what is locked, every order that was given, and what the driver refuses."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, file: Path, on_lock: Any = None, **state: Any) -> None:
        self.file, self._on_lock = file, on_lock
        if state or not file.exists():
            fresh = {"locked": None, "orders": [], "refuses": {}, "pids": [], "mig": False}
            file.write_text(json.dumps(fresh | state))

    @property
    def state(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def set(self, **changes: Any) -> None:
        self.file.write_text(json.dumps(self.state | changes))

    def _ordered(self, name: str, locked: Any) -> None:
        self.set(orders=[*self.state["orders"], name])
        if self.state["refuses"].get(name):
            raise REFUSALS[self.state["refuses"][name]]
        self.set(locked=locked)

    def nvmlDeviceSetGpuLockedClocks(self, handle: Any, low: int, high: int) -> None:  # noqa: N802
        if self._on_lock:
            self._on_lock("before")
        self._ordered("lock", [low, high])
        if self._on_lock:
            self._on_lock("after")

    def nvmlDeviceResetGpuLockedClocks(self, handle: Any) -> None:  # noqa: N802
        self._ordered("reset", None)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:  # noqa: N802
        if self.state["pids"] is None:
            raise REFUSALS["unsupported"]
        memory = self.state.get("memory_bytes", {})  # by pid, as JSON has it
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory.get(str(pid))) for pid in self.state["pids"]]

    def nvmlDeviceGetMigMode(self, handle: Any) -> list[int]:  # noqa: N802
        return [int(self.state["mig"]), 0]

    def nvmlDeviceGetClockInfo(self, handle: Any, domain: int) -> int:  # noqa: N802
        return 1980 if domain == 1 else 3201

    def nvmlDeviceGetSupportedMemoryClocks(self, handle: Any) -> list[int]:  # noqa: N802
        return [3201, 1593]

    def nvmlDeviceGetSupportedGraphicsClocks(self, handle: Any, memory: int) -> list[int]:  # noqa: N802
        return [1980, 1200, 345]


def open_fake(gpu: FakeGpu) -> Any:
    """What roofexp.clocks opens a GPU with; another UUID is not there."""

    def opened(uuid: str) -> Nvml | None:
        if uuid != UUID:
            return None
        nvml = Nvml.__new__(Nvml)
        nvml._nvml, nvml._handle = gpu, None
        return nvml

    return opened
