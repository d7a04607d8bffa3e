"""The clock that the cores really hold, from a chain of dependent one-cycle integer operations.

The operating system's figure is what was asked for; the chain's is what was done. It is read beside the timing, on
every core in use at once, before and after.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import Any

from roofexp.point import Clock

CHAIN_ARCHITECTURES = {"x86_64", "AMD64", "aarch64", "arm64"}  # where register add and xor take one cycle each
SHORT_CYCLES, LONG_CYCLES = 500_000, 3_500_000
REPEATS = 5


class CpuClockWatch:
    """``load`` gives the chain's functions by name; they are compiled at the first reading."""

    def __init__(self, load: Callable[[str], Callable[..., Any]], threads: int) -> None:
        self._load = load
        self._threads = threads
        self._before: float | None = None

    def start(self) -> None:
        self._before = self.read_hz()

    def stop(self) -> Clock:
        after = self.read_hz()
        if self._before is None or after is None:
            return Clock(compute_hz=None, source=f"unknown: no chain of known latency for {platform.machine()}")
        return Clock(
            compute_hz=(self._before + after) / 2,
            before_hz=self._before,
            after_hz=after,
            source="dependent chain of one-cycle operations, all cores, before and after",
        )

    def rows(self) -> list[dict[str, float | str | None]]:
        return []

    def read_hz(self) -> float | None:
        """Cycles over seconds of the slowest core; the difference of two lengths, so that starting the threads
        does not count. The fastest of a few repeats: an interrupted chain is slower, never faster."""
        if platform.machine() not in CHAIN_ARCHITECTURES:
            return None
        import numpy

        chain, result = self._load("cycles_chain_team"), numpy.zeros(self._threads, numpy.uint64)
        shortest = {SHORT_CYCLES: float("inf"), LONG_CYCLES: float("inf")}
        for _ in range(REPEATS):
            for cycles in shortest:
                start = time.perf_counter()
                chain(cycles, result)
                shortest[cycles] = min(shortest[cycles], time.perf_counter() - start)
        return (LONG_CYCLES - SHORT_CYCLES) / (shortest[LONG_CYCLES] - shortest[SHORT_CYCLES])
