"""The NVIDIA GPU as a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def why_no_cuda(index: int) -> str | None:
    """Why GPU ``index`` cannot be used; None when it can."""
    return "the CUDA device is not written yet"


class CudaDevice:
    kind = "cuda"

    def __init__(self, index: int, kernel_roots: list[Path]) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any: ...
