"""Why clocks cannot be held here, in one line with the cure."""

from __future__ import annotations

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
