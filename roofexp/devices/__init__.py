"""The machines that can be measured. ``base`` says what a device must do; ``open_device`` chooses one."""

from __future__ import annotations

import re
from pathlib import Path

from roofexp.devices.base import Device
from roofexp.errors import BadInputError

REQUEST = re.compile(r"(auto|cpu|cuda)(?::(\d+))?")


def parse_device(request: str) -> tuple[str, int | None]:
    """``cpu:4`` is four cores, ``cuda:1`` the second visible GPU. Raises BadInputError."""
    match = REQUEST.fullmatch(request)
    if match is None or (match[1] == "auto" and match[2]) or (match[1] == "cpu" and match[2] == "0"):
        raise BadInputError(f"device={request}: allowed: auto, cpu, cpu:<cores>, cuda, cuda:<index>")
    return match[1], int(match[2]) if match[2] else None


def open_device(request: str, kernel_roots: list[Path]) -> tuple[Device, str | None]:
    """The device, and why ``auto`` did not take the GPU. Raises BadInputError when one that was named is not there."""
    kind, number = parse_device(request)
    if kind == "cpu":
        return _cpu(number, kernel_roots), None
    from roofexp.devices.cuda.device import CudaDevice
    from roofexp.devices.cuda.machine import why_no_cuda

    reason = why_no_cuda(number or 0)
    if reason is None:
        return CudaDevice(number or 0, kernel_roots), None
    if kind == "cuda":
        raise BadInputError(f"device={request}: {reason}")
    return _cpu(None, kernel_roots), reason


def _cpu(cores: int | None, kernel_roots: list[Path]) -> Device:
    from roofexp.devices.cpu.device import CpuDevice

    return CpuDevice(cores, kernel_roots)
