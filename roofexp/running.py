"""The sweep at work, as the processes that take part in it know it: its identity, its display, its tracker.

In the main process the callback opens it; a launcher's process makes its own from the sweep's files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofexp.point import Point
from roofexp.progress import Display
from roofexp.sweep import read_sweep


class Running:
    def __init__(
        self, folder: Path, sweep: dict[str, Any], total: int | None, tracker: Any = None, gate: Any = None
    ) -> None:
        self.folder = folder
        self.sweep_id = str(sweep.get("sweep_id", ""))
        self.display = Display(total)
        self.tracker = tracker
        self.gate = gate  # rules that the sweep must keep, read before its first job
        self.told_fallback = False
        self.finished = False
        self.exit_code = 0

    def announce(self, line: str) -> None:
        """What goes on outside points: on a terminal beside the bar, else as a line."""
        self.display.working(line)
        if not line.startswith("roof "):
            self.display.say(line)

    def log_point(self, point: Point, folder: Path) -> None:
        if self.tracker is not None:
            self.tracker.log_point(point, folder)


_CURRENT: dict[Path, Running] = {}


def begin(run: Running) -> Running:
    _CURRENT[run.folder] = run
    return run


def running(folder: Path) -> Running:
    """The sweep that lies in ``folder``."""
    if folder not in _CURRENT:
        _CURRENT[folder] = Running(folder, read_sweep(folder), None)
    return _CURRENT[folder]


def current() -> Running | None:
    """The sweep of this process, if one was begun."""
    return next(iter(_CURRENT.values()), None)
