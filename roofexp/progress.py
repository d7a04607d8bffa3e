"""What the user sees while a sweep runs: a line per finished point, and on a terminal a bar with the one at work."""

from __future__ import annotations

import os
import sys
from typing import Any

from roofexp.point import Point
from roofexp.units import engineering, percent


class Display:
    """``total`` is the number of points where it is known. Without a terminal only finished points are printed."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._done = 0
        self._bar: Any = None
        self._task: Any = None

    def working(self, label: str, rate: str = "") -> None:
        """The point at work and its rate so far."""
        if not sys.stdout.isatty():
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=self._done, what=label, rate=rate)

    def finished(self, point: Point) -> None:
        self._done += 1
        count = f"[{self._done}/{self._total}]" if self._total else f"[{self._done}]"
        self.say(f"{count} {point_line(point)}")

    def say(self, line: str) -> None:
        """One line above the bar."""
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            try:
                print(line, flush=True)
            except BrokenPipeError:  # whoever read our lines went away; the sweep goes on
                drop_output()

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


def drop_output() -> None:
    """For a standard output that nobody reads any more: what is written from now on goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def rate_text(flops_per_s: float | None, bytes_per_s: float | None) -> str:
    if flops_per_s is not None:
        return engineering(flops_per_s, "FLOP/s")
    return engineering(bytes_per_s, "B/s") if bytes_per_s is not None else "no rate"
