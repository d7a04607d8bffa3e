"""The CPU as a machine: what the operating system says about it. What it does not say stays unknown."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

from roofexp.config.paths import PACKAGE
from roofexp.config.yaml_file import read_yaml
from roofexp.devices.cpu.control_group import cpu_quota, memory_free, memory_limit
from roofexp.devices.cpu.processor import (
    Processor,
    cache_instances,
    core_kinds,
    cpus_in,
    describe_processor,
    integer,
    read_text,
)
from roofexp.records.machine import Machine

SYSTEM = Path("/sys/devices/system/cpu")


class Usable(NamedTuple):
    """What limits the cores: logical CPUs that this process may run on, by physical core, and CPUs of the quota."""

    by_core: dict[int, list[int]]  # the first logical CPU of each core, and all of them
    quota: float | None

    @property
    def core_count(self) -> int:
        """A quota that is no whole number is rounded down: a thread more would be held back in every period."""
        cores = len(self.by_core)
        return max(1, min(cores, int(self.quota) if self.quota is not None else cores))

    @property
    def says(self) -> str | None:
        """What a quota that is no whole number does to a measurement; None where it does nothing."""
        if self.quota is None or self.quota >= len(self.by_core) or self.quota == int(self.quota):
            return None
        effect = f"{_cores(self.core_count)} used" if self.quota > 1 else "the one core in use is held back"
        return f"the control group allows {self.quota:.3g} CPUs: {effect}"


def usable_cores() -> Usable:
    by_core: dict[str, list[int]] = {}
    for cpu in allowed_cpus():
        siblings = read_text(SYSTEM / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        by_core.setdefault(siblings, []).append(cpu)
    return Usable(dict(sorted((cpus[0], cpus) for cpus in by_core.values())), cpu_quota())


def allowed_cpus() -> list[int]:
    """The logical CPUs that this process may run on."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # not on this operating system
        return list(range(os.cpu_count() or 1))


def cores_in_use(asked: int | None) -> list[int]:
    """One logical CPU per physical core that this process may run on, cut to the container's quota and to ``asked``."""
    usable = usable_cores()
    return list(usable.by_core)[: min(usable.core_count, asked or usable.core_count)]


def missing_cores(asked: int | None) -> str | None:
    """Why so many cores cannot be used; None where they are there."""
    here = len(cores_in_use(None))
    if asked is None or asked <= here:
        return None
    return f"asks for {asked} cores, {_cores(here)} here"


def _cores(count: int) -> str:
    return f"{count} {'are' if count > 1 else 'is'}"


@functools.cache
def describe_cpu(asked: int | None = None) -> Machine:
    """What is known of this CPU, for the cores in use."""
    cores = cores_in_use(asked)
    processor = describe_processor()
    caches, sharing = _caches(cores)
    kinds = [str(kind) for kind in core_kinds(cores, SYSTEM)]
    rates = _rates(processor)
    unknown = [] if caches else ["cache sizes: the operating system does not show them"]
    if len(kinds) > 1:
        unknown.append(f"limits: the cores are of {len(kinds)} kinds ({'; '.join(kinds)})")
        rates = None
    elif rates is None:
        unknown.append("limits: the FMA units of this model are not in the table (roofexp/devices/cpu/rates.yaml)")
    if processor.name == "unknown":
        unknown.append("model: the operating system does not show it")
    details: dict[str, Any] = {
        "architecture": platform.machine(),
        "vendor": processor.vendor,
        "family": processor.family,
        "model": processor.model,
        "microarchitecture": rates["name"] if rates else None,
        "vector_bytes": vector_bytes(processor.flags),
        "sockets": _sockets(cores),
        "logical_cpus": os.cpu_count(),
        "cache_shared_by": sharing,
        "core_kinds": kinds,
        "virtual": "hypervisor" in processor.flags,
    }
    identity = repr((platform.machine(), processor.identity, vector_bytes(processor.flags), len(cores), caches, kinds))
    return Machine(
        machine_id="cpu-" + hashlib.sha256(identity.encode()).hexdigest()[:10],
        device="cpu",
        name=processor.name,
        units=len(cores),
        nominal_hz=_nominal_hz(cores[0]),
        memory_bytes=memory_bytes(),
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


def _rates(processor: Processor) -> dict[str, Any] | None:
    for row in read_yaml(PACKAGE / "devices/cpu/rates.yaml"):
        if (row["vendor"], row["family"]) == (processor.vendor, processor.family):
            low, high = row["models"]
            if low <= (processor.model if processor.model is not None else -1) <= high:
                return dict(row)
    return None


def _caches(cores: list[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of l1, l2, l3 that the cores in use have together; how many logical CPUs share one instance, where that is
    the same for all of them."""
    total: dict[str, int] = {}
    sharing: dict[str, set[int]] = {}
    seen: set[tuple[str, str]] = set()
    for core in cores:
        for level, size, shared in cache_instances(core, SYSTEM):
            if (level, shared) not in seen:
                seen.add((level, shared))
                total[level] = total.get(level, 0) + size
                sharing.setdefault(level, set()).add(len(cpus_in(shared)))
    return dict(sorted(total.items())), {level: min(n) for level, n in sorted(sharing.items()) if len(n) == 1}


def _sockets(cores: list[int]) -> int | None:
    packages = {read_text(SYSTEM / f"cpu{core}/topology/physical_package_id") for core in cores}
    return None if None in packages else len(packages)


def _nominal_hz(core: int) -> float | None:
    """The base frequency, where the kernel shows one. Not the clock that is held: that is measured."""
    base = integer(read_text(SYSTEM / f"cpu{core}/cpufreq/base_frequency"))
    return base * 1e3 if base else None


def memory_bytes() -> int:
    """Of the machine, or of the tightest control group."""
    import psutil

    total = int(psutil.virtual_memory().total)
    return min(total, memory_limit() or total)


def memory_free_bytes() -> int:
    """What a program can still take: of the machine, and under the limits of the control groups."""
    import psutil

    available, left = int(psutil.virtual_memory().available), memory_free()
    return available if left is None else min(available, left)
