"""The CPU as a machine: what the operating system says about it. What it does not say stays unknown."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import platform
from pathlib import Path
from typing import Any

from roofexp.folders import PACKAGE
from roofexp.machine import Machine

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
        unknown.append("limits: the FMA units of this model are not in the table (roofexp/devices/cpu_rates.yaml)")
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
    import yaml

    table = yaml.safe_load((PACKAGE / "devices/cpu_rates.yaml").read_text())
    for row in table:
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
