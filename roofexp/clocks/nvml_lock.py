"""A GPU's SM clock locked by NVML. Device-wide, and needs rights."""

from __future__ import annotations

from roofexp.clocks.refused import RefusedError
from roofexp.devices.nvml import Nvml
from roofexp.errors import BadInputError


class NvmlLock:
    """``take`` and ``undo`` raise RefusedError."""

    def __init__(self, nvml: Nvml, mhz: int | None = None) -> None:
        self._nvml, self._mhz = nvml, mhz

    def check(self) -> None:
        """Raises BadInputError for a clock that this GPU does not have."""
        allowed = allowed_mhz(self._nvml)
        if self._mhz is not None and allowed and not allowed[0] <= self._mhz <= allowed[1]:
            raise BadInputError(f"clock.mhz={self._mhz}: this GPU's SMs go from {allowed[0]} to {allowed[1]} MHz")

    def take(self) -> None:
        self._nvml.order("SetGpuLockedClocks", self._mhz, self._mhz)

    def undo(self) -> None:
        self._nvml.order("ResetGpuLockedClocks")

    def alive(self) -> bool:
        return True


def allowed_mhz(nvml: Nvml) -> tuple[int, int] | None:
    """The lowest and the highest SM clock; None where the driver does not say."""
    memory = nvml.ask("GetSupportedMemoryClocks")
    clocks = nvml.ask("GetSupportedGraphicsClocks", max(memory)) if memory else None
    return (int(min(clocks)), int(max(clocks))) if clocks else None


def why_shared(nvml: Nvml, worker_pid: int | None) -> str | None:
    """Why a lock would be felt by others: who else computes on this GPU; None when nobody does.

    The worker has a context of its own. Inside a container its number is another than the driver's: then it is the one
    that is left when one is taken off.
    """
    mig = nvml.ask("GetMigMode")
    if mig and mig[0]:
        raise RefusedError("MIG is on: the clocks belong to all instances; use clock=duty")
    listed = nvml.ask("GetComputeRunningProcesses")
    if listed is None:
        return "the driver does not say who else uses this GPU"
    pids = [int(process.pid) for process in listed]
    others = len(pids) - (1 if pids and worker_pid is not None else 0)
    if others <= 0:
        return None
    return f"{others} other program{'s' if others > 1 else ''} use{'' if others > 1 else 's'} this GPU"
