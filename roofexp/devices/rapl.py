"""The energy that a CPU's own meter counts (RAPL), where the system lets this user read it. Linux only."""

from __future__ import annotations

from pathlib import Path

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
