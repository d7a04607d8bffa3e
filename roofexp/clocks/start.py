"""What a run needs of clocks at its start: the GPU by its UUID, ncu where it is, and what a killed run left."""

from __future__ import annotations

import contextlib
from pathlib import Path

from roofexp.clocks.left_over import restore_left_over
from roofexp.devices.nvml import Nvml
from roofexp.errors import BadInputError
from roofexp.folders import cache_folder


def open_gpu(uuid: str) -> Nvml | None:
    """NVML for the GPU of this UUID and no other; None where it, the library or the driver is missing."""
    try:
        return Nvml(uuid, "")
    except Exception:  # pynvml raises its own kinds, and ImportError
        return None


def ncu_or_none() -> Path | None:
    from roofexp.counters.ncu import find_ncu

    with contextlib.suppress(BadInputError):
        return find_ncu(None)
    return None


def give_back() -> list[str]:
    """Clocks that a killed run left held; a line for each GPU."""
    return restore_left_over(cache_folder() / "clocks", open_gpu)
