"""What one process holds while it runs sweeps, in one place: the sweeps at work, the device that is open, the folder
that is continued, and whether somebody asked for the end.

Hydra calls the task and the callback by their names alone, and a launcher starts processes of its own, in which all of
this begins empty: so it belongs to the process and to nothing smaller.
"""

from __future__ import annotations

from pathlib import Path

from roofexp.records.sweep_folder import read_sweep
from roofexp.run.progress import Run
from roofexp.run.session import Sessions
from roofexp.run.signals import StopRequest


class Process:
    def __init__(self) -> None:
        self.sessions = Sessions()
        self.stop = StopRequest()
        self.resumed: Path | None = None  # the folder that this invocation continues
        self.config_folders: list[Path] = []  # that the user named, and the program's own
        self.counters: dict[str, str | None] = {}  # the ncu that the user named
        self.older: str | None = None  # what becomes of its finished points of older code
        self._runs: dict[Path, Run] = {}

    def begin(self, run: Run) -> Run:
        self._runs[run.folder] = run
        return run

    def run_in(self, folder: Path) -> Run:
        """The sweep that lies in ``folder``; a launcher's process makes its own from the sweep's files."""
        return self._runs.get(folder) or self.begin(Run(folder, read_sweep(folder), None))

    @property
    def run(self) -> Run | None:
        """The sweep of this process, if one was begun."""
        return next(iter(self._runs.values()), None)


PROCESS = Process()
