"""Whose roofs are asked for, without opening the device: a second look at the table must cost nothing."""

from __future__ import annotations

import os
from importlib.util import find_spec

from roofexp.devices import parse_device


def known_machine_id(request: str) -> str | None:
    """The machine's id for a device as it is written in the configuration; None where only the device itself can say.

    A CPU is described by the operating system. A GPU is asked through NVML, which needs no context; which of several
    GPUs CUDA calls the first only CUDA knows.
    """
    kind, number = parse_device(request)
    if kind == "cpu" or (kind == "auto" and find_spec("cupy") is None):
        from roofexp.devices.cpu_machine import describe_cpu

        return describe_cpu(number).machine_id
    if os.environ.get("CUDA_VISIBLE_DEVICES") is not None or number:
        return None
    try:
        return _only_gpu()
    except Exception:  # no NVML, no driver, more than one GPU
        return None


def _only_gpu() -> str | None:
    import pynvml

    from roofexp.devices.cuda_machine import gpu_id, managed
    from roofexp.devices.nvml import Nvml

    pynvml.nvmlInit()
    if pynvml.nvmlDeviceGetCount() != 1:
        return None
    uuid = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0))
    uuid = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
    return gpu_id(uuid, managed(Nvml(uuid, "")))
