"""Which processor this is, and which kinds of cores it has, from what the kernel tells of every logical CPU."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, NamedTuple

from roofexp.config.paths import PACKAGE
from roofexp.config.yaml_file import read_yaml

CPUINFO = Path("/proc/cpuinfo")

ARM_PARTS = ("CPU implementer", "CPU variant", "CPU part", "CPU revision")

NAMES = ("model name", "Model Name", "cpu model", "uarch", "cpu")  # x86, LoongArch, MIPS, RISC-V, POWER

TELLING = ("cpu family", "model", "stepping", "cpu revision", "revision", "mvendorid", "marchid", "mimpid", *ARM_PARTS)

CHANGING = ("processor", "mhz", "bogomips", "apicid", "core id", "physical id", "microcode", "serial", "timebase")


class Processor(NamedTuple):
    """``identity``: all fields that tell one model from another, of every kind of core; never empty."""

    name: str
    vendor: str | None
    family: int | None
    model: int | None
    flags: set[str]
    identity: tuple[tuple[str, ...], ...]


def describe_processor() -> Processor:
    blocks = _blocks()
    first = blocks[0] if blocks else {}
    identity = {tuple(f"{key}={block[key]}" for key in (*NAMES, *TELLING) if block.get(key)) for block in blocks}
    identity.discard(())
    if not identity:  # nothing that usually tells: all that stays the same from one start to the next
        lasting = {key: value for key, value in first.items() if not key.lower().endswith(CHANGING)}
        identity = {(platform.machine(), platform.processor(), *(f"{k}={v}" for k, v in sorted(lasting.items())))}
    return Processor(
        name=_name(blocks),
        vendor=first.get("vendor_id") or first.get("CPU implementer"),
        family=integer(first.get("cpu family")),
        model=integer(first.get("model")),
        flags=set((first.get("flags") or first.get("Features") or "").split()),
        identity=tuple(sorted(identity)),
    )


def _blocks() -> list[dict[str, str]]:
    """One per logical CPU; what stands alone, as on some boards, belongs to all of them."""
    blocks: list[dict[str, str]] = []
    for text in (read_text(CPUINFO) or "").split("\n\n"):
        pairs = [line.partition(":") for line in text.splitlines() if ":" in line]
        if pairs:
            blocks.append({key.strip(): " ".join(value.split()) for key, _, value in pairs})
    processors = [block for block in blocks if "processor" in block or "cpu number" in block]
    alone = {key: value for block in blocks if block not in processors for key, value in block.items()}
    return [{**alone, **block} for block in processors] or ([alone] if alone else [])


def _name(blocks: list[dict[str, str]]) -> str:
    """As the kernel has it; of ARM cores, which have numbers only, from a table. Cores of several kinds are joined."""
    names = []
    for block in blocks:
        name = next((block[key] for key in NAMES if block.get(key)), None)
        names.append(name or _arm_name(block) or "")
    joined = " + ".join(dict.fromkeys(filter(None, names)))
    said = platform.processor()
    return joined or (said if said and said != platform.machine() else "") or "unknown"


def _arm_name(block: dict[str, str]) -> str | None:
    implementer, part = block.get("CPU implementer"), block.get("CPU part")
    if not implementer or not part:
        return None
    names: dict[str, dict[str, str]] = read_yaml(PACKAGE / "devices/cpu/arm_cores.yaml")
    known = names.get(implementer.lower(), {}).get(part.lower())
    return known or f"ARM core, implementer {implementer}, part {part}"


class CoreKind(NamedTuple):
    """Cores with the same caches and numbers. ``caches``: bytes of one instance by level; ``shared_by``: the logical
    CPUs that share it."""

    cores: int
    threads_per_core: int
    caches: dict[str, int]
    shared_by: dict[str, int]
    name: str

    def __str__(self) -> str:
        threads = f", {self.threads_per_core} threads each" if self.threads_per_core > 1 else ""
        sizes = self.caches.items()
        parts = [f"{level.upper()} {_size(size)} for {_cpus(self.shared_by[level])}" for level, size in sizes]
        cores = f"{f' {self.name}' if self.name else ''} core{'s' if self.cores > 1 else ''}"
        return f"{self.cores}{cores}{threads}: {', '.join(parts) or 'caches unknown'}"


def core_kinds(cores: list[int], system: Path) -> list[CoreKind]:
    """Of the cores in use (one logical CPU each), in order of their first. Cores are of one kind when their numbers
    and the sizes of their caches agree: how many share one differs between halves of a cut chip too."""
    blocks = {block.get("processor") or block.get("cpu number"): block for block in _blocks()}
    lists = {name: cpus_in(read_text(system.parent.parent / name / "cpus") or "") for name in ("cpu_core", "cpu_atom")}
    kinds: dict[tuple[Any, ...], CoreKind] = {}
    for core in cores:
        block = blocks.get(str(core), {})
        listed = next((name for name, members in lists.items() if core in members), "")
        numbers = tuple(block.get(key, "") for key in ("model name", *ARM_PARTS))
        caches, shared_by = core_caches(core, system)
        key = (numbers, listed, tuple(sorted(caches.items())))
        threads = len(cpus_in(read_text(system / f"cpu{core}/topology/thread_siblings_list") or "")) or 1
        name = _arm_name(block) or {"cpu_core": "performance", "cpu_atom": "efficiency"}.get(listed, "")
        kind = kinds.get(key) or CoreKind(0, threads, caches, shared_by, name)
        kinds[key] = kind._replace(cores=kind.cores + 1)
    return list(kinds.values())


def core_caches(core: int, system: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of the one instance of each level that a core reaches, and how many logical CPUs share it."""
    caches: dict[str, int] = {}
    shared_by: dict[str, int] = {}
    for level, size, shared in cache_instances(core, system):
        caches[level] = size
        shared_by[level] = len(cpus_in(shared))
    return caches, shared_by


def cache_instances(core: int, system: Path) -> list[tuple[str, int, str]]:
    """Level, bytes and the CPUs that share it, of each data cache that a core reaches, nearest first."""
    instances = []
    for index in sorted((system / f"cpu{core}/cache").glob("index*")):
        size = kibibytes(read_text(index / "size"))
        if size is not None and read_text(index / "type") != "Instruction":
            shared = read_text(index / "shared_cpu_list") or str(core)
            instances.append((f"l{read_text(index / 'level')}", size, shared))
    return sorted(instances)


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.3g} MiB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:.3g} KiB"


def _cpus(count: int) -> str:
    return f"{count} threads" if count > 1 else "one thread"


def read_text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def integer(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


def kibibytes(text: str | None) -> int | None:
    """``32K`` and ``1M`` as the kernel writes them: powers of 1024, in bytes."""
    if not text:
        return None
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1])
    number = integer(text[:-1] if unit else text)
    return None if number is None else number * (unit or 1)


def cpus_in(cpu_list: str) -> list[int]:
    """The CPUs that ``0-3,8`` names."""
    cpus: list[int] = []
    for part in filter(None, cpu_list.split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
