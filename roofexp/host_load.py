"""How much of the machine other programs took while something was timed."""

from __future__ import annotations

import os


class HostLoad:
    """Busy time of all CPUs, less this process's own, over the time that passed."""

    def __init__(self) -> None:
        self._start: tuple[float, float, float] | None = None

    def start(self) -> None:
        self._start = _times()

    def stop(self) -> float | None:
        """The share of the whole machine, 0 to 1; None where the interval was too short to tell."""
        if self._start is None:
            return None
        total, busy, own = (after - before for after, before in zip(_times(), self._start, strict=True))
        if total < 0.2:  # the kernel counts in ticks of 10 ms: below this a share says nothing
            return None
        return min(1.0, max(0.0, (busy - own) / total))


def _times() -> tuple[float, float, float]:
    """Seconds of all CPUs together: passed, busy (stolen by a hypervisor included), and in this process."""
    import psutil

    cpu = psutil.cpu_times()
    idle = cpu.idle + getattr(cpu, "iowait", 0.0)
    guest = getattr(cpu, "guest", 0.0) + getattr(cpu, "guest_nice", 0.0)  # counted in user time already
    total = sum(cpu) - guest
    own = os.times()
    return total, total - idle, own.user + own.system
