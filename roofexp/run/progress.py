"""What is printed while a sweep runs: a line per finished point, and on a terminal a bar with the running point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from filelock import BaseFileLock

from roofexp.records.point import Point
from roofexp.text.console import printable
from roofexp.text.numbers import engineering, percent, rate_text


class Display:
    """``total``: the number of points, None if unknown. Without a terminal only finished points are printed."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._done = 0
        self._bar: Any = None
        self._task: Any = None

    def working(self, label: str, rate: str = "") -> None:
        """Shows the running point and its rate so far."""
        if not sys.stdout.isatty():
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=self._done, what=printable(label), rate=rate)

    def finished(self, point: Point) -> None:
        self._done += 1
        count = f"[{self._done}/{self._total}]" if self._total else f"[{self._done}]"
        self.say(f"{count} {point_line(point)}")

    def say(self, line: str) -> None:
        """One line above the bar."""
        line = printable(line)
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _open(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[what]}"), TextColumn("{task.fields[rate]}"), transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=self._total, what="", rate="")
        self._bar.start()


def point_line(point: Point) -> str:
    """A finished point in one line."""
    if point.status != "ok":
        return f"{point.label}  {point.status}: {point.reason}"
    parts = [point.label]
    if point.timing:
        parts.append(engineering(point.timing.median_s, "s"))
    parts.append(rate_text(point.flops_per_s, point.bytes_per_s))
    if point.placement and point.placement.fraction is not None:
        parts.append(f"{point.placement.bound} ({percent(point.placement.fraction)} of {point.placement.roof})")
    if point.flags:
        parts.append("! " + ", ".join(flag.name for flag in point.flags))
    return "  ".join(parts)


class Run:
    """A running sweep: its folder, its display, and where its points are logged."""

    def __init__(
        self,
        folder: Path,
        sweep: dict[str, Any],
        total: int | None,
        tracker: Any = None,
        gate: Any = None,
        lock: BaseFileLock | None = None,
    ) -> None:
        self.folder = folder
        self.sweep_id = str(sweep.get("sweep_id", ""))
        self.display = Display(total)
        self.tracker = tracker
        self.gate = gate  # rules for the sweep, read before its first job
        self.lock = lock  # on the folder, until the sweep ends
        self.fallback_announced = False
        self.finished = False
        self.exit_code = 0

    def announce(self, line: str) -> None:
        """Shows work outside points: on a terminal beside the bar, else as a line."""
        self.display.working(line)
        if not line.startswith("roof "):
            self.display.say(line)

    def tell_fallback(self, machine: str, reason: str | None) -> None:
        """Says once why ``device=auto`` did not take the GPU."""
        if reason and not self.fallback_announced:
            self.fallback_announced = True
            self.display.say(f"device: {machine} ({reason})")

    def release(self) -> None:
        if self.lock is not None:
            self.lock.release()
            Path(self.lock.lock_file).unlink(missing_ok=True)

    def log_point(self, point: Point, folder: Path) -> None:
        if self.tracker is not None:
            self.tracker.log_point(point, folder)
