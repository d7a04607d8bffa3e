"""The command line of one ncu session. Nothing is left to a default or to a configuration file of the user's."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

CLOCK_CONTROL = {"base": "base", "boost": "boost"}  # by clock mode; every other mode leaves the clocks to itself


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """``device`` and ``roots`` are for the child; ``report`` is where to keep the .ncu-rep, None: nowhere."""

    ncu: Path
    metrics: list[str]
    clock_control: str
    cache_control: str
    replay_mode: str
    timeout_s: float
    device: str = "cuda"
    roots: list[Path] = []
    machine_name: str | None = None
    report: Path | None = None
    rename: bool = True  # an ncu before 2021.2 cannot put the range before the kernel's name; its column says it too

    def words(self, log: Path, plan: Path, progress: Path) -> list[str]:
        """What to execute. ncu writes its report to ``log``; the child's own output stays apart."""
        words = [
            str(self.ncu),
            *("--config-file", "off"),
            *("--target-processes", "application-only"),
            *("--profile-from-start", "off"),
            "--nvtx",
            *("--clock-control", self.clock_control),
            *("--cache-control", self.cache_control),
            *("--replay-mode", self.replay_mode),
            *("--metrics", ",".join(self.metrics)),
            *("--csv", "--page", "raw", "--print-units", "base"),
            *("--log-file", str(log)),
        ]
        if self.rename:
            words += ["--print-nvtx-rename", "kernel"]
        if self.report is not None:
            words += ["--export", str(self.report), "--force-overwrite"]
        return [*words, sys.executable, "-m", "roofexp.counters.child", str(plan), str(progress)]

    def without_option(self, complaint: str) -> Command | None:
        """The command without what ncu complains of; None where it is needed."""
        if "nvtx-rename" in complaint and self.rename:
            return msgspec.structs.replace(self, rename=False)
        if "clock-control" in complaint and self.clock_control not in ("base", "none"):
            return msgspec.structs.replace(self, clock_control="none")
        return None
