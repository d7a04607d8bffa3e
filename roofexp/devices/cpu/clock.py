"""The clock that the cores hold, from a chain of known latency, and the energy that the packages take meanwhile."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofexp.records.clock_readings import ClockReadings
from roofexp.records.point import Clock

RAPL = "RAPL's energy counter of the packages"
ROOT = Path("/sys/class/powercap")


class Rapl:
    """All packages together: the cores, their caches and what else is on the chip; not the memory."""

    def __init__(self, root: Path = ROOT) -> None:
        self._packages = [folder for folder in sorted(root.glob("*-rapl:*")) if _is_package(folder)]
        self._last: list[int] = []
        self._joules = 0.0

    def joules(self) -> float | None:
        """Since the first call; None where there is no meter or it may not be read. Asked more often than the counter
        runs over (minutes)."""
        try:
            now = [int((folder / "energy_uj").read_text()) for folder in self._packages]
        except (OSError, ValueError):
            return None
        if not now:
            return None
        for folder, before, after in zip(self._packages, self._last, now, strict=False):
            passed = after - before
            self._joules += (passed if passed >= 0 else passed + _range(folder)) * 1e-6
        self._last = now
        return self._joules


def _is_package(folder: Path) -> bool:
    """``intel-rapl:0`` (AMD's meter has that name too), not its parts ``intel-rapl:0:0``."""
    try:
        return folder.name.count(":") == 1 and (folder / "name").read_text().startswith("package")
    except OSError:
        return False


def _range(folder: Path) -> int:
    try:
        return int((folder / "max_energy_range_uj").read_text())
    except (OSError, ValueError):
        return 0


CHAIN_ARCHITECTURES = {"x86_64", "AMD64", "aarch64", "arm64"}  # where register add and xor take one cycle each
SHORT_CYCLES, LONG_CYCLES = 400_000, 3_400_000
MOST_TRIES = 12
READ_S = 1.0  # between two readings during a soak
AGREEMENT = 0.005  # of the two fastest tries: an interrupted chain is slower, never faster
MOST_START = 1.15  # starting the threads takes no larger share than this: beyond it the short chain was interrupted
ALL_CORES = "dependent chain of one-cycle operations, all cores, before and after"
ONE_CORE = "dependent chain of one-cycle operations, one core's own time (the others were interrupted)"
Row = dict[str, float | str | None]


class CpuClockWatch:
    """``load`` gives the chain's functions by name; they are compiled at the first reading."""

    def __init__(self, load: Callable[[str], Callable[..., Any]], threads: int, meter: Rapl | None = None) -> None:
        self._load = load
        self._threads = threads
        self._meter = meter or Rapl()
        self._before: tuple[float, str] | None = None
        self._start_s = self._lap_s = 0.0
        self._rows: list[Row] = []

    def start(self) -> None:
        self._before = self.read()
        self._start_s = self._lap_s = time.perf_counter()
        self._rows = [self._row()]

    def lap(self) -> None:
        """Reading the clock takes some milliseconds of the cores: once a second, the energy every time."""
        row = self._row()
        if time.perf_counter() - self._lap_s >= READ_S and (read := self.read()) is not None:
            self._lap_s = time.perf_counter()
            row["compute_hz"] = read[0]
        self._rows.append(row)

    def stop(self) -> Clock:
        self._rows.append(self._row())
        after = self.read()
        if self._before is None or after is None:
            return Clock(
                compute_hz=None,
                source=f"unknown: no chain of known latency for {platform.machine()}",
                readings=self._energy(),
            )
        before_hz, after_hz = self._before[0], after[0]
        source = ONE_CORE if ONE_CORE in (self._before[1], after[1]) else ALL_CORES
        return Clock(
            compute_hz=(before_hz + after_hz) / 2,
            before_hz=before_hz,
            after_hz=after_hz,
            source=source,
            readings=self._energy(),
        )

    def rows(self) -> list[Row]:
        """None where there is nothing but the time in them."""
        return self._rows if any(len(row) > 1 for row in self._rows) else []

    def _row(self) -> Row:
        row: Row = {"at_s": round(time.perf_counter() - self._start_s, 6)}
        joules = self._meter.joules()
        if joules is not None:
            row["energy_j"] = round(joules, 6)
        return row

    def _energy(self) -> ClockReadings:
        first, last = self._rows[0].get("energy_j"), self._rows[-1].get("energy_j")
        if not isinstance(first, float) or not isinstance(last, float):
            return ClockReadings()
        return ClockReadings(energy_counter=RAPL, energy_j=last - first)

    def read(self) -> tuple[float, str] | None:
        """Hz, and how it was read; None on an architecture without a chain of known latency."""
        if platform.machine() not in CHAIN_ARCHITECTURES:
            return None
        clock_hz = self._all_cores_hz()
        if clock_hz is not None:
            return clock_hz, ALL_CORES
        return self._one_core_hz(), ONE_CORE

    def _all_cores_hz(self) -> float | None:
        """Cycles over seconds of the slowest core; the difference of two lengths, so that starting the threads does
        not count. None when the tries do not agree: other programs took the cores."""
        import numpy

        chain, result = self._load("cycles_chain_team"), numpy.zeros(self._threads, numpy.uint64)
        short: list[float] = []
        long: list[float] = []
        for tried in range(MOST_TRIES):
            short.append(_seconds(time.perf_counter, lambda: chain(SHORT_CYCLES, result)))
            long.append(_seconds(time.perf_counter, lambda: chain(LONG_CYCLES, result)))
            least_hz = LONG_CYCLES / min(long)  # with the start of the threads in it
            clock_hz = (LONG_CYCLES - SHORT_CYCLES) / max(min(long) - min(short), 1e-9)
            if tried and _agree(short) and _agree(long) and least_hz <= clock_hz <= MOST_START * least_hz:
                return clock_hz
        return None

    def _one_core_hz(self) -> float:
        """On the time that the system gave this thread, which leaves interruptions out."""
        chain = self._load("cycles_chain")
        fastest = min(_seconds(time.thread_time, lambda: chain(LONG_CYCLES)) for _ in range(MOST_TRIES))
        return LONG_CYCLES / fastest


def _agree(times: list[float]) -> bool:
    first, second = sorted(times)[:2]
    return second <= first * (1 + 4 * AGREEMENT if first < 3e-4 else 1 + AGREEMENT)


def _seconds(clock: Callable[[], float], run: Callable[[], Any]) -> float:
    start = clock()
    run()
    return clock() - start
