"""What the control groups of this process allow it: CPUs, memory, and how long they held it back (Linux, v1 and v2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from roofexp.devices.cpu.processor import read_text

MOUNTS, GROUPS, USUAL = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

V1_FOLDERS = {"cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu"), "memory": ("memory",)}  # where no mount is listed

NO_LIMIT = 2**60  # version 1 writes the largest number of pages for no limit


class Group(NamedTuple):
    """One control group: its folder, and the version of its files."""

    folder: Path
    version: int

    def number(self, name: str) -> float | None:
        with contextlib.suppress(ValueError):
            return float(read_text(self.folder / name) or "")
        return None

    def counters(self, name: str) -> dict[str, int]:
        """The lines ``name number`` of a file."""
        pairs = [line.split() for line in (read_text(self.folder / name) or "").splitlines()]
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}

    @property
    def cpus(self) -> float | None:
        """The quota over its period, in CPUs."""
        if self.version == 2:
            quota, _, period = (read_text(self.folder / "cpu.max") or "").partition(" ")
            with contextlib.suppress(ValueError, ZeroDivisionError):
                return float(quota) / float(period or 100_000)
            return None
        quota_us, period_us = self.number("cpu.cfs_quota_us"), self.number("cpu.cfs_period_us")
        return quota_us / period_us if quota_us and period_us and quota_us > 0 else None

    @property
    def memory_bytes(self) -> float | None:
        names = ("memory.max", "memory.high") if self.version == 2 else ("memory.limit_in_bytes",)
        return min((n for name in names if (n := self.number(name)) is not None and n < NO_LIMIT), default=None)

    @property
    def free_bytes(self) -> float | None:
        """Up to the limit; what the group holds of files counts as free, as it does for the whole machine."""
        used = self.number("memory.current" if self.version == 2 else "memory.usage_in_bytes")
        limit, parts = self.memory_bytes, self.counters("memory.stat")
        if limit is None or used is None:
            return limit
        name = "inactive_file" if self.version == 2 else "total_inactive_file"
        return max(0.0, limit - max(0.0, used - parts.get(name, 0)))

    @property
    def throttled_s(self) -> float:
        """How long the quota has held back the CPUs of this group so far, all of them together."""
        parts = self.counters("cpu.stat")
        return parts.get("throttled_usec", 0) / 1e6 + parts.get("throttled_time", 0) / 1e9


def cpu_quota() -> float | None:
    """The least number of CPUs that this process's groups and their parents allow; None without a limit."""
    return min((cpus for group in groups("cpu") if (cpus := group.cpus) is not None), default=None)


def memory_limit() -> int | None:
    """The least memory that this process's groups and their parents allow, in bytes; None without a limit."""
    return _least(group.memory_bytes for group in groups("memory"))


def memory_free() -> int | None:
    """What is left of the tightest limit, in bytes; None without a limit."""
    return _least(group.free_bytes for group in groups("memory"))


def throttled_s() -> float:
    """How long quotas have held this process's groups back so far."""
    return max((group.throttled_s for group in groups("cpu")), default=0.0)


def groups(controller: str) -> Iterator[Group]:
    """The groups of this process that have the controller, each followed by its parents."""
    own = {}
    for line in (read_text(GROUPS) or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        own.update(dict.fromkeys(names.split(","), path))
    yielded = set()
    for mount, root, version in _mounts(controller):
        path = own.get("" if version == 2 else controller, "/")
        inside = path.removeprefix(root) if root != "/" else path
        parts = [part for part in inside.split("/") if part]
        parts = [] if ".." in parts else parts  # outside of what this container sees
        for depth in range(len(parts), -1, -1):
            group = Group(mount.joinpath(*parts[:depth]), version)
            if group not in yielded:
                yielded.add(group)
                yield group


def _mounts(controller: str) -> Iterator[tuple[Path, str, int]]:
    """Mount point, the group that it shows, and version; the usual places too, where the list cannot be read."""
    for line in (read_text(MOUNTS) or "").splitlines():
        left, _, right = line.partition(" - ")
        place, source = left.split(), right.split()
        if len(place) > 4 and len(source) > 2 and source[0] in ("cgroup", "cgroup2"):
            version = 2 if source[0] == "cgroup2" else 1
            if version == 2 or controller in source[2].split(","):
                yield Path(place[4]), place[3], version
    yield USUAL, "/", 2
    yield USUAL / "unified", "/", 2
    for name in V1_FOLDERS[controller]:
        yield USUAL / name, "/", 1


def _least(numbers: Iterator[float | None]) -> int | None:
    return min((int(number) for number in numbers if number is not None), default=None)
