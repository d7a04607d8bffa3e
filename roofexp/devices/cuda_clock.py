"""The clock that the SMs held over the timed parts, with NVML's samples beside it."""

from __future__ import annotations

from typing import Any

from roofexp.clock_facts import NVML
from roofexp.devices.cuda_stopwatch import CudaStopwatch
from roofexp.devices.nvml import Nvml, NvmlSampler
from roofexp.point import Clock


class CudaClockWatch:
    def __init__(self, stopwatch: CudaStopwatch, nvml: Nvml | None, settings: dict[str, Any]) -> None:
        self._stopwatch = stopwatch
        self._sampler = NvmlSampler(nvml, float(settings.get("sample_s") or 0.02)) if nvml else None

    def start(self) -> None:
        self._stopwatch.reset_clock()
        if self._sampler:
            self._sampler.start()

    def lap(self) -> None:
        """A row with the true clock of the time since the last lap."""
        if self._sampler:
            self._sampler.take(compute_hz=self._stopwatch.lap_hz())

    def stop(self) -> Clock:
        extra = self._sampler.stop() if self._sampler else {}
        extra |= {"energy_counter": NVML} if "energy_j" in extra else {}
        clock_hz = self._stopwatch.clock_hz()
        source = "cycle counter of every SM over the timed parts" if clock_hz else "unknown: no SM was met twice"
        return Clock(compute_hz=clock_hz, source=source, extra=extra)

    def rows(self) -> list[dict[str, float | str | None]]:
        return sorted(self._sampler.rows, key=lambda row: float(row["at_s"] or 0)) if self._sampler else []
