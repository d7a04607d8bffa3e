"""How much of the host, or of a GPU, other programs took while something was timed, and whether that is known."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from roofexp.config.settings import TimingSettings
from roofexp.devices.cpu.control_group import throttled_s
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.point import Flag
from roofexp.text.numbers import percent

NOT_QUIET = "machine not quiet"
QUIET_UNKNOWN = "quiet unknown"
HELD_BACK = "held back by the quota"
SHORTEST_S = 0.2  # of all CPUs together: the kernel counts in ticks of 10 ms, below this a share says nothing
WAITED = 0.01  # share of the time that this process's threads stood in line for a core, which is worth a flag
THREADS = Path("/proc/self/task")


class HostReading(NamedTuple):
    """Shares from 0 to 1; None is not known."""

    others_share: float | None  # of the whole machine, that other programs used
    waited_share: float | None  # of the time, that threads of this process were ready and had no core
    held_back_share: float = 0.0  # of the time, that the control group's quota took from them; above 1 with many CPUs


class HostLoad:
    """Read before and after a timed part. The waiting times count nanoseconds, so they hold for short parts too."""

    def __init__(self) -> None:
        self._start: tuple[float, tuple[float, float, float], dict[str, int], float] | None = None

    def start(self) -> None:
        self._start = time.perf_counter(), _cpu_times_s(), _waits_ns(), throttled_s()

    def stop(self) -> HostReading:
        if self._start is None:
            return HostReading(None, None)
        passed_s = time.perf_counter() - self._start[0]
        total_s, busy_s, own_s = (after - before for after, before in zip(_cpu_times_s(), self._start[1], strict=True))
        others = min(1.0, max(0.0, (busy_s - own_s) / total_s)) if total_s >= SHORTEST_S else None
        before_ns, after_ns = self._start[2], _waits_ns()
        waited_ns = [after_ns[thread] - before_ns[thread] for thread in before_ns.keys() & after_ns.keys()]
        if passed_s <= 0:
            return HostReading(others, None)
        held_back = (throttled_s() - self._start[3]) / passed_s
        return HostReading(others, max(waited_ns) / 1e9 / passed_s if waited_ns else None, held_back)


def quiet_flags(reading: HostReading, settings: TimingSettings, device: str) -> list[Flag]:
    """Other programs disturb a CPU measurement directly; a GPU's only when they hold the host back."""
    if device != "cpu":
        return []
    others, waited, held_back = reading
    if held_back > WAITED:
        return [Flag(HELD_BACK, f"the control group's quota took {percent(held_back)} of the timing from the threads")]
    if others is not None and others > settings.busy:
        return [Flag(NOT_QUIET, f"other programs took {percent(others)} of the machine during the timing")]
    if waited is not None and waited > WAITED and _others_could(waited, others):
        return [Flag(NOT_QUIET, f"a thread waited for a core during {percent(waited)} of the timing")]
    if others is None and waited is None:
        return [Flag(QUIET_UNKNOWN, "the timing was too short to tell whether other programs disturbed it")]
    return []


def gpu_quiet_flags(readings: ClockReadings) -> list[Flag]:
    """Who else computed on the GPU, as its driver lists them."""
    others, memory = readings.other_processes, readings.other_processes_bytes
    if others is None:
        return [Flag(QUIET_UNKNOWN, "the driver does not say whether others computed on this GPU (NVML)")]
    if others == 0:
        return []
    held = f"with {memory / 1e9:.3g} GB of its memory" if memory is not None else "with an unknown part of its memory"
    return [Flag(NOT_QUIET, f"{others} other process{'es' if others > 1 else ''} had this GPU open, {held}")]


def _others_could(waited: float, others: float | None) -> bool:
    """Whether other programs can have made a thread wait so long: not for longer than they ran on all cores together.
    A library's threads and those of the flush between two samples wait for each other, outside of what is timed."""
    return others is None or others * (os.cpu_count() or 1) >= waited / 2


def _waits_ns() -> dict[str, int]:
    """How long each thread of this process stood in line for a core so far (Linux's schedstat); empty elsewhere."""
    waits: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for thread in THREADS.iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                waits[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return waits


def _cpu_times_s() -> tuple[float, float, float]:
    """Of all CPUs together: passed, busy (stolen by a hypervisor included), and in this process."""
    import psutil

    cpu = psutil.cpu_times()
    idle = cpu.idle + getattr(cpu, "iowait", 0.0)
    guest = getattr(cpu, "guest", 0.0) + getattr(cpu, "guest_nice", 0.0)  # counted in user time already
    total = sum(cpu) - guest
    own = os.times()
    return total, total - idle, own.user + own.system
