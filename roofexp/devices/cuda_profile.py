"""One launch for a profiler's eyes: in an NVTX range of its own, with the profiler on for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
