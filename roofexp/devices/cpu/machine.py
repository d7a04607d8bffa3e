"""The CPU as a machine: what the operating system says about it. What it does not say stays unknown."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofexp.config.paths import PACKAGE
from roofexp.config.yaml_file import read_yaml
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.machine import Machine
from roofexp.records.point import Clock

SYSTEM = Path("/sys/devices/system/cpu")


def cores_in_use(asked: int | None) -> list[int]:
    """One logical CPU per physical core that this process may run on, cut to the container's quota and to ``asked``."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except AttributeError:  # not on this operating system
        allowed = list(range(os.cpu_count() or 1))
    by_core: dict[str, int] = {}
    for cpu in allowed:
        siblings = _read(SYSTEM / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        by_core.setdefault(siblings, cpu)
    cores = sorted(by_core.values())
    quota = _quota()
    count = min(len(cores), math.ceil(quota) if quota else len(cores), asked or len(cores))
    return cores[: max(1, count)]


def missing_cores(asked: int | None) -> str | None:
    """Why so many cores cannot be used; None where they are there."""
    here = len(cores_in_use(None))
    if asked is None or asked <= here:
        return None
    return f"asks for {asked} cores, {here} {'are' if here > 1 else 'is'} here"


@functools.cache
def describe_cpu(asked: int | None = None) -> Machine:
    """What is known of this CPU, for the cores in use."""
    cores = cores_in_use(asked)
    info = _processor()
    caches, sharing = _caches(cores)
    rates = _rates(info)
    unknown = [] if caches else ["cache sizes: the operating system does not show them"]
    if rates is None:
        unknown.append("limits: the FMA units of this model are not in the table (roofexp/devices/cpu/rates.yaml)")
    if info["name"] == "unknown":
        unknown.append("model: the operating system does not show it")
    details: dict[str, Any] = {
        "architecture": platform.machine(),
        "vendor": info["vendor"],
        "family": info["family"],
        "model": info["model"],
        "microarchitecture": rates["name"] if rates else None,
        "vector_bytes": vector_bytes(info["flags"]),
        "sockets": _sockets(cores),
        "logical_cpus": os.cpu_count(),
        "cache_shared_by": sharing,
        "virtual": "hypervisor" in info["flags"],
    }
    identity = repr((info["name"], info["family"], info["model"], len(cores), caches))
    return Machine(
        machine_id="cpu-" + hashlib.sha256(identity.encode()).hexdigest()[:10],
        device="cpu",
        name=info["name"],
        units=len(cores),
        nominal_hz=_nominal_hz(cores[0]),
        memory_bytes=_memory_bytes(),
        cache_bytes=caches,
        kept_levels=list(caches),
        details=details,
        limits=_limits(rates),
        unknown=unknown,
    )


def vector_bytes(flags: set[str]) -> int | None:
    """The widest vector that the CPU computes with."""
    if "avx512f" in flags:
        return 64
    if "avx2" in flags:
        return 32
    if "sse2" in flags or "asimd" in flags:
        return 16
    return None


def _limits(rates: dict[str, Any] | None) -> dict[str, float]:
    if rates is None:
        return {}
    width = 2 * rates["fma_units"] * rates["vector_bytes"]
    return {"flop_per_cycle_fp64": width / 8, "flop_per_cycle_fp32": width / 4}


def _processor() -> dict[str, Any]:
    """Name, vendor, family, model and flags from the operating system."""
    fields: dict[str, str] = {}
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name") or platform.processor() or "unknown"
    return {
        "name": " ".join(name.split()),
        "vendor": fields.get("vendor_id") or fields.get("CPU implementer"),
        "family": _integer(fields.get("cpu family")),
        "model": _integer(fields.get("model")),
        "flags": set((fields.get("flags") or fields.get("Features") or "").split()),
    }


def _rates(info: dict[str, Any]) -> dict[str, Any] | None:
    for row in read_yaml(PACKAGE / "devices/cpu/rates.yaml"):
        if (row["vendor"], row["family"]) == (info["vendor"], info["family"]):
            low, high = row["models"]
            if low <= (info["model"] if info["model"] is not None else -1) <= high:
                return dict(row)
    return None


def _caches(cores: list[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of l1, l2, l3 that the cores in use have together, and how many logical CPUs share one instance."""
    total: dict[str, int] = {}
    sharing: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for core in cores:
        for index in sorted((SYSTEM / f"cpu{core}/cache").glob("index*")):
            if _read(index / "type") == "Instruction":
                continue
            level, size = f"l{_read(index / 'level')}", _kibibytes(_read(index / "size"))
            shared = _read(index / "shared_cpu_list") or str(core)
            if size is None or (level, shared) in seen:
                continue
            seen.add((level, shared))
            total[level] = total.get(level, 0) + size
            sharing[level] = _count(shared)
    return dict(sorted(total.items())), sharing


def _quota() -> float | None:
    """CPUs that the container may use, from the control group."""
    parts = (_read(Path("/sys/fs/cgroup/cpu.max")) or "max").split()
    if len(parts) == 2 and parts[0] != "max":
        return int(parts[0]) / int(parts[1])
    return None


def _sockets(cores: list[int]) -> int | None:
    packages = {_read(SYSTEM / f"cpu{core}/topology/physical_package_id") for core in cores}
    return None if None in packages else len(packages)


def _nominal_hz(core: int) -> float | None:
    """The base frequency, where the kernel shows one. Not the clock that is held: that is measured."""
    base = _integer(_read(SYSTEM / f"cpu{core}/cpufreq/base_frequency"))
    return base * 1e3 if base else None


def _memory_bytes() -> int | None:
    import psutil

    return int(psutil.virtual_memory().total)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


def _kibibytes(text: str | None) -> int | None:
    """``32K`` and ``1M`` as the kernel writes them: powers of 1024."""
    if not text:
        return None
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1])
    return int(text[:-1]) * unit if unit else _integer(text)


def _count(cpu_list: str) -> int:
    """How many CPUs ``0-3,8`` names."""
    total = 0
    for part in cpu_list.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


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
